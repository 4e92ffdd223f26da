//! A watch that pauses while etcd is busy, so that changes arrive in batches.
//!
//! etcd sends each transaction to an up-to-date watch separately, which costs a message, a TLS record and
//! several wake-ups on both sides. A watch that is behind receives up to 1,000 revisions at a time
//! (`syncWatchers` in etcd's `mvcc/watchable_store.go`). So while etcd is busy the watch is closed, and
//! reopened a little later where it stopped.

use futures::StreamExt;
use tokio::sync::watch;
use tokio::time::{Duration, Instant, sleep_until};

use crate::model::{Revision, Watched};
use crate::ports::{Etcd, PortResult, WatchStream};

/// How long the watch pauses. etcd looks for watches that are behind every 100 ms.
const PAUSE: Duration = Duration::from_millis(100);
/// A watch pauses after it has received this many revisions within [`WITHIN`].
const BUSY: usize = 20;
/// The time within which [`BUSY`] revisions make a watch pause.
const WITHIN: Duration = Duration::from_millis(100);

/// A watch of all keys that is reopened after each pause.
pub(super) struct BatchedWatch<'a> {
    etcd: &'a dyn Etcd,
    watch: Option<WatchStream>,
    /// The next revision to receive.
    next: Revision,
    /// The watch is not reopened before this time.
    pub(super) paused_until: Instant,
    /// The watch does not pause before this time.
    awake: watch::Receiver<Instant>,
    /// Revisions received since then.
    since: Instant,
    received: usize,
}

impl<'a> BatchedWatch<'a> {
    /// Opens the watch.
    pub(super) async fn open(
        etcd: &'a dyn Etcd,
        from: Revision,
        awake: watch::Receiver<Instant>,
    ) -> PortResult<Self> {
        let now = Instant::now();
        Ok(Self {
            watch: Some(etcd.watch(from).await?),
            etcd,
            next: from,
            paused_until: now,
            awake,
            since: now,
            received: 0,
        })
    }

    /// The next message of etcd; `None` when the watch has ended. Cancel-safe.
    pub(super) async fn next(&mut self) -> Option<PortResult<Watched>> {
        while self.watch.is_none() {
            if self.awake() || Instant::now() >= self.paused_until {
                match self.etcd.watch(self.next).await {
                    Ok(watch) => self.watch = Some(watch),
                    Err(error) => return Some(Err(error)),
                }
            } else {
                tokio::select! {
                    () = sleep_until(self.paused_until) => {}
                    () = changed(&mut self.awake) => {}
                }
            }
        }
        let said = self.watch.as_mut()?.next().await;
        if let Some(Ok(Watched::Revisions { changes, at, .. })) = &said
            && let Some(last) = changes.last()
        {
            self.next = last.revision.next();
            self.count(Instant::now(), changes.len(), last.revision >= *at);
        }
        said
    }

    /// Whether the watch is paused.
    #[cfg(test)]
    pub(super) fn is_paused(&self) -> bool {
        self.watch.is_none()
    }

    /// Ends the pause, so that pending changes are received now.
    pub(super) fn end_pause(&mut self) {
        self.paused_until = Instant::now();
    }

    fn awake(&self) -> bool {
        Instant::now() < *self.awake.borrow()
    }

    /// Counts revisions received at `now`; `all` when there are no more at the moment.
    pub(super) fn count(&mut self, now: Instant, revisions: usize, all: bool) {
        // After a pause the whole batch arrives in one message.
        if now.duration_since(self.since) > WITHIN {
            self.since = now;
            self.received = 0;
        }
        self.received += revisions;
        // A watch that is behind already receives many at a time.
        if self.received >= BUSY && all && !self.awake() {
            self.watch = None;
            self.paused_until = now + PAUSE;
            self.since = now;
            self.received = 0;
        }
    }
}

/// Returns when the value has changed; never returns when the sender was dropped.
pub(super) async fn changed<T>(news: &mut watch::Receiver<T>) {
    if news.changed().await.is_err() {
        std::future::pending::<()>().await;
    }
}
