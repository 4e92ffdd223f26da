//! What the servers ask the running agent, and the orders that it takes from operators.

mod directives;
mod handle;
mod listing;
pub(super) mod size;
