//! The genesis protocol: single-decree Paxos per epoch, as pure state machines (design §6).
//!
//! Invariant: at most one genesis is ever chosen per epoch, even if electors lose their memory. An elector
//! with a new memory votes only after every other elector has (a) stored its new incarnation and (b) sent it
//! all promises and acceptances. An acceptance counts only under the incarnation that the value was stamped
//! with, so a forgotten vote is never counted together with a later one.
//!
//! Source: L. Lamport, "Paxos Made Simple" (2001), §2.

mod elector;
mod enquiry;
mod incarnations;
mod learn;
mod round;
mod tally;
#[cfg(test)]
mod tests;

pub use elector::{Electorate, new_record, on_accept, on_prepare};
pub use enquiry::{absorb, on_enquire, renew};
pub use learn::{Conflict, NotLearned, forget_above, note_reported_epoch, note_reported_genesis, on_learn};
pub use round::{Outcome, Round, explain};
pub use tally::{ElectorReport, Tally};
