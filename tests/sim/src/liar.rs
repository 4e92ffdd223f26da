//! One node with a valid certificate that lies in any field of its answers and pushes (rule 10).
//!
//! It does not forge orders that a single node may give: such an order counts as an operator's (ADR 19). The
//! exception is a cancelled upgrade: no operator's order brings etcd back from data that it has converted.
//!
//! It does not tell these lies either:
//!
//! - `leader_ask` and `vouched_gone`: they are orders that one node may pass on.
//! - That a third node has another memory (`incarnations`, `superseded`, `Refusal::StaleIncarnation`). Its votes then
//!   do not count until its state is made anew (ADR 19).
//! - That it has promised or accepted something for which it has no record, that it has not accepted what it has, or
//!   that a value is chosen which others have only proposed: with one such elector among three no choice is certain.
//!
//! `fields.rs` names the lie about each field.

mod answers;
mod etcd;
mod fields;
mod lie;
mod status;
mod steering;

pub use answers::{accepted, enquired, prepared, reported};
pub use etcd::{etcd_status, fingerprint, members};
pub use lie::record;
pub use status::{pushed, status};
