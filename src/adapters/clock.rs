//! The machine's clock and its randomness.

use crate::model::UnixMs;
use crate::ports::Clock;

/// The system's clock.
#[derive(Debug, Clone, Copy, Default)]
pub struct SystemClock;

impl Clock for SystemClock {
    fn now(&self) -> UnixMs {
        UnixMs(u64::try_from(jiff::Timestamp::now().as_millisecond()).unwrap_or(0))
    }

    fn random(&self) -> u64 {
        rand::random()
    }
}
