//! Limits how fast the parts of an upload are sent (`store.bandwidth`).

use std::time::{Duration, Instant};

/// Limits bytes to a rate, averaged over the parts: a whole part is sent at once, and the next part waits.
#[derive(Debug)]
pub(super) struct RateLimiter {
    /// Bytes per second; `None` is unlimited.
    rate: Option<u64>,
    next: Option<Instant>,
}

impl RateLimiter {
    pub(super) fn new(rate: Option<u64>) -> Self {
        Self { rate, next: None }
    }

    /// How long these bytes must wait, from `now` on, before they may be sent.
    pub(super) fn turn(&mut self, now: Instant, bytes: usize) -> Duration {
        let Some(rate) = self.rate else {
            return Duration::ZERO;
        };
        let leaves = self.next.map_or(now, |next| next.max(now));
        let takes = Duration::from_millis((bytes as u64).saturating_mul(1000) / rate.max(1));
        self.next = leaves.checked_add(takes);
        leaves.saturating_duration_since(now)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: usize = 1 << 20;

    #[test]
    fn parts_leave_at_the_rate() {
        let now = Instant::now();
        let mut limiter = RateLimiter::new(Some(4 << 20));
        let waits: Vec<u64> = (0..4).map(|_| limiter.turn(now, 8 * MIB).as_secs()).collect();
        assert_eq!(waits, [0, 2, 4, 6]);
        assert_eq!(RateLimiter::new(None).turn(now, usize::MAX), Duration::ZERO);
    }

    #[test]
    fn time_that_passed_is_not_made_up_for() {
        let now = Instant::now();
        let mut limiter = RateLimiter::new(Some(1 << 20));
        assert_eq!(limiter.turn(now, MIB), Duration::ZERO);
        let later = now + Duration::from_secs(100);
        assert_eq!(limiter.turn(later, MIB), Duration::ZERO);
        assert_eq!(limiter.turn(later, MIB), Duration::from_secs(1));
    }
}
