//! Checks the genesis protocol of `etcd_agent::genesis` exhaustively: every interleaving within given bounds.
//!
//! The electors and the rounds are the production code. This crate only decides which message each of them
//! receives, and when. The reaction of an elector or a round to a message depends only on its own state and
//! the message. Each such step is therefore computed once and cached by number, and a state of the whole
//! system is a dozen numbers.
//!
//! `world` describes what is explored and which reductions are used. `search` does the exploration.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a checker: an impossible case ends the run"
)]

mod book;
mod delivery;
mod denial;
mod describe;
mod fast;
mod faults;
mod memo;
mod parts;
mod rounds;
mod search;
mod state;
mod steps;
mod symmetry;
mod world;

pub use faults::Fault;
pub use search::{Found, explore};
pub use world::{Bounds, Start};
