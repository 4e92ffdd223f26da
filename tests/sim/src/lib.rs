//! The simulator: the production planner and agent loop over in-memory ports, in a world that depends only on
//! a seed. See `README.md`.

pub mod coverage;
pub mod driver;
pub mod fault;
pub mod inject;
pub mod liar;
mod long;
mod many;
mod measure;
mod mend;
mod moves;
pub mod orders;
pub mod ports;
pub mod rng;
pub mod schedule;
pub mod sim;
pub mod spec;
pub mod verdict;
pub mod world;

/// A third of a simulation's time is spent on allocating and freeing memory.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

pub use coverage::Coverage;
pub use driver::{Outcome, run};
pub use fault::Fault;
pub use many::{number_from_env, run_many, start};
pub use measure::{Load, load};
pub use schedule::Schedule;
