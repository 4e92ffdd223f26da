//! Time and randomness.

use crate::model::{SteadyMs, UnixMs};

/// Time and randomness.
pub trait Clock: Send + Sync {
    /// Wall-clock time.
    fn now(&self) -> UnixMs;
    /// The monotonic clock, for durations.
    fn steady(&self) -> SteadyMs;
    /// A random number.
    fn random(&self) -> u64;
}
