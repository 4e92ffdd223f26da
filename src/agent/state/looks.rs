//! Numbers the looks of the loop, so that a caller can wait for one that begins after its question.

use std::sync::atomic::{AtomicU64, Ordering};

use crate::agent::state::version::Version;

/// The looks of the loop. A look ends when its result is published.
#[derive(Debug)]
pub(crate) struct Looks {
    begun: AtomicU64,
    ended: Version,
}

impl Default for Looks {
    fn default() -> Self {
        Self {
            begun: AtomicU64::new(0),
            ended: Version::new(0),
        }
    }
}

impl Looks {
    /// A look begins. One that failed before its end keeps its number for the next attempt.
    pub(crate) fn begin(&self) {
        self.begun
            .store(self.ended.get().saturating_add(1), Ordering::SeqCst);
    }

    /// The look has ended, and its result is published.
    pub(crate) fn end(&self) {
        self.ended.grow();
    }

    /// Completes once a look has ended that began after this call, not after the first poll.
    pub(crate) fn next(&self) -> impl Future<Output = ()> {
        let begun = self.begun.load(Ordering::SeqCst);
        async move {
            self.ended.above(begun).await;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_look_that_is_under_way_does_not_answer_a_later_question() {
        let looks = std::sync::Arc::new(Looks::default());
        looks.begin();
        let waiting = tokio::spawn({
            let looks = looks.clone();
            async move { looks.next().await }
        });
        tokio::task::yield_now().await;
        looks.end();
        tokio::task::yield_now().await;
        assert!(!waiting.is_finished(), "it began before the question");
        looks.begin();
        // It failed, and begins again.
        looks.begin();
        looks.end();
        assert!(waiting.await.is_ok());
        looks.begin();
        looks.end();
        let idle = tokio::spawn({
            let looks = looks.clone();
            async move { looks.next().await }
        });
        tokio::task::yield_now().await;
        assert!(!idle.is_finished(), "nothing has looked since");
        looks.begin();
        looks.end();
        assert!(idle.await.is_ok());
    }
}
