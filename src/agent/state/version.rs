//! A number that only grows, and can be waited for.

use std::sync::atomic::{AtomicU64, Ordering};

use tokio::sync::Notify;

/// A number that only grows. Waiters are woken in the order in which they began to wait. tokio's `watch`
/// wakes in an order that differs from run to run, which would make the simulator nondeterministic.
#[derive(Debug)]
pub struct Version {
    now: AtomicU64,
    grown: Notify,
}

impl Version {
    /// A version that begins with `first`.
    pub fn new(first: u64) -> Self {
        Self {
            now: AtomicU64::new(first),
            grown: Notify::new(),
        }
    }

    /// The current number.
    pub fn get(&self) -> u64 {
        self.now.load(Ordering::SeqCst)
    }

    /// Adds one, and wakes the waiters.
    pub fn grow(&self) {
        self.now.fetch_add(1, Ordering::SeqCst);
        self.grown.notify_waiters();
    }

    /// Waits until the number is above `seen`, and returns it.
    pub async fn above(&self, seen: u64) -> u64 {
        loop {
            let mut grown = std::pin::pin!(self.grown.notified());
            // Registered before the number is read, so that no change in between is missed.
            grown.as_mut().enable();
            let now = self.get();
            if now > seen {
                return now;
            }
            grown.await;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn who_waits_hears_of_what_comes_and_of_what_was_missed() {
        let version = std::sync::Arc::new(Version::new(7));
        assert_eq!(version.above(6).await, 7);
        let waiting = tokio::spawn({
            let version = version.clone();
            async move { version.above(7).await }
        });
        tokio::task::yield_now().await;
        version.grow();
        assert_eq!(waiting.await.ok(), Some(8));
    }
}
