//! The simulator: the production planner and agent loop over in-memory ports, in a world that follows from a seed.
//! See `README.md`.

pub mod driver;
pub mod fault;
mod many;
pub mod ports;
pub mod rng;
pub mod schedule;
pub mod sim;
pub mod verdict;
pub mod world;

/// A third of a simulation is asking for memory and giving it back.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

pub use driver::{Load, Outcome, load, run};
pub use fault::Fault;
pub use many::run_many;
pub use schedule::Schedule;
