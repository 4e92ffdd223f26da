//! Time and randomness.

use crate::model::{SteadyMs, UnixMs};

/// Time and randomness.
pub trait Clock: Send + Sync {
    /// Wall-clock time.
    fn now(&self) -> UnixMs;
    /// A clock that never jumps, for how long something lasts.
    fn steady(&self) -> SteadyMs;
    /// A random number.
    fn random(&self) -> u64;
}
