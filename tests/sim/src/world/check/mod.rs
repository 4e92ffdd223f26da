//! The safety rules of design §7, each checked where it could be broken.

mod action;
mod epoch;
mod genesis;
mod reboot;
mod version;

pub use version::VERSIONS;

/// The maximum age of the facts by which an agent clears a gate: it notices a peer's silence after the long
/// poll's twelve seconds.
pub(super) const HEARD_OF_MS: u64 = 15_000;
