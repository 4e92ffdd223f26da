//! The machine's clock and its randomness.

use std::sync::LazyLock;
use std::time::Instant;

use crate::model::{SteadyMs, UnixMs};
use crate::ports::Clock;

/// The system's clock.
#[derive(Debug, Clone, Copy, Default)]
pub struct SystemClock;

impl Clock for SystemClock {
    fn now(&self) -> UnixMs {
        UnixMs(u64::try_from(jiff::Timestamp::now().as_millisecond()).unwrap_or(0))
    }

    fn steady(&self) -> SteadyMs {
        static BEGUN: LazyLock<Instant> = LazyLock::new(Instant::now);
        SteadyMs(u64::try_from(BEGUN.elapsed().as_millis()).unwrap_or(u64::MAX))
    }

    fn random(&self) -> u64 {
        rand::random()
    }
}
