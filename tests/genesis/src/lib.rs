//! The genesis protocol of `etcd_agent::genesis`, checked exhaustively: every interleaving within given bounds.
//!
//! The electors and the rounds are the production ones; this crate only decides who hears what, when. What an elector
//! or a round does with one message depends on nothing else, so each such step is computed once and remembered
//! by number: a state of the whole is a dozen numbers.
//!
//! What is explored, and which reductions are used, is said in `world`; how, in `search`.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a checker: what cannot be ends the run"
)]

mod book;
mod denial;
mod fast;
mod faults;
mod parts;
mod search;
mod state;
mod steps;
mod symmetry;
mod world;

pub use faults::Fault;
pub use search::{Found, explore};
pub use world::{Bounds, Start};
