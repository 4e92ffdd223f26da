//! Exponential backoff: how long to wait between attempts.

use std::time::Duration;

/// Pauses between attempts: `first` after the first failure, doubled after each further failure, at most
/// `longest`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Backoff {
    first: Duration,
    longest: Duration,
}

impl Backoff {
    /// A backoff from `first` up to `longest`.
    pub const fn new(first: Duration, longest: Duration) -> Self {
        Self { first, longest }
    }

    /// The pause after this many consecutive failures; zero without a failure.
    pub fn after(self, failures: u32) -> Duration {
        let Some(doublings) = failures.checked_sub(1) else {
            return Duration::ZERO;
        };
        let factor = 1u32.checked_shl(doublings).unwrap_or(u32::MAX);
        self.first.saturating_mul(factor).min(self.longest)
    }

    /// The same pause, shortened by up to a quarter, so that nodes do not retry at the same time. `random` is
    /// any number.
    pub fn jittered(self, failures: u32, random: u64) -> Duration {
        let full = self.after(failures);
        let part = u32::try_from(random % 256).unwrap_or(0);
        full.saturating_sub(full.saturating_mul(part) / 1024)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BACKOFF: Backoff = Backoff::new(Duration::from_secs(1), Duration::from_mins(1));

    #[test]
    fn pauses_double_up_to_the_longest() {
        let seconds: Vec<u64> = (0..9).map(|failures| BACKOFF.after(failures).as_secs()).collect();
        assert_eq!(seconds, [0, 1, 2, 4, 8, 16, 32, 60, 60]);
        assert_eq!(BACKOFF.after(u32::MAX), Duration::from_mins(1));
        let forever = Backoff::new(Duration::MAX, Duration::MAX);
        assert_eq!(forever.after(40), Duration::MAX);
    }

    #[test]
    fn jitter_takes_up_to_a_quarter_away() {
        for random in [0, 1, 100, 255, 256, u64::MAX] {
            let pause = BACKOFF.jittered(7, random);
            assert!(
                pause <= Duration::from_mins(1) && pause > Duration::from_secs(45),
                "{pause:?}"
            );
        }
        assert_ne!(BACKOFF.jittered(3, 1), BACKOFF.jittered(3, 200));
        assert_eq!(BACKOFF.jittered(0, 9), Duration::ZERO);
    }
}
