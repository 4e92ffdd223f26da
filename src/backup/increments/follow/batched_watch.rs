//! A watch that rests while etcd is busy.
//!
//! etcd tells a watch that is up to date of each transaction by itself: a message, a TLS record and several wake-ups
//! on both sides for each. One that is behind gets up to 1,000 revisions at a time (`syncWatchers` in etcd's
//! `mvcc/watchable_store.go`). So while much is written the watch is dropped, and opened again a little later from
//! where it was.

use futures::StreamExt;
use tokio::sync::watch;
use tokio::time::{Duration, Instant, sleep_until};

use crate::model::{Revision, Watched};
use crate::ports::{Etcd, PortResult, WatchStream};

/// etcd is let gather for so long; it looks for watches that are behind every 100 ms.
const REST: Duration = Duration::from_millis(100);
/// Who hears of so many revisions
const BUSY: usize = 20;
/// within this, rests.
const WITHIN: Duration = Duration::from_millis(100);

/// A watch of all keys that goes on for ever.
pub(super) struct BatchedWatch<'a> {
    etcd: &'a dyn Etcd,
    watch: Option<WatchStream>,
    /// Where it goes on.
    next: Revision,
    /// It is not asked before.
    pub(super) rest_until: Instant,
    /// Until then it does not rest.
    awake: watch::Receiver<Instant>,
    /// What was heard of since.
    since: Instant,
    heard: usize,
}

impl<'a> BatchedWatch<'a> {
    /// Opens it.
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
            rest_until: now,
            awake,
            since: now,
            heard: 0,
        })
    }

    /// What etcd says next; `None` when the watch is at its end. May be dropped and asked again.
    pub(super) async fn next(&mut self) -> Option<PortResult<Watched>> {
        while self.watch.is_none() {
            if self.awake() || Instant::now() >= self.rest_until {
                match self.etcd.watch(self.next).await {
                    Ok(watch) => self.watch = Some(watch),
                    Err(error) => return Some(Err(error)),
                }
            } else {
                tokio::select! {
                    () = sleep_until(self.rest_until) => {}
                    () = changed(&mut self.awake) => {}
                }
            }
        }
        let said = self.watch.as_mut()?.next().await;
        if let Some(Ok(Watched::Revisions { changes, at, .. })) = &said
            && let Some(last) = changes.last()
        {
            self.next = last.revision.next();
            self.hear(Instant::now(), changes.len(), last.revision >= *at);
        }
        said
    }

    /// Whether etcd is let gather.
    #[cfg(test)]
    pub(super) fn rests(&self) -> bool {
        self.watch.is_none()
    }

    /// Does not rest before what is there now is heard.
    pub(super) fn wake(&mut self) {
        self.rest_until = Instant::now();
    }

    fn awake(&self) -> bool {
        Instant::now() < *self.awake.borrow()
    }

    /// Takes note that so many revisions were heard of at `now`, which may be all that there are.
    pub(super) fn hear(&mut self, now: Instant, revisions: usize, all: bool) {
        // So it is after a rest: what has gathered is heard in one go.
        if now.duration_since(self.since) > WITHIN {
            self.since = now;
            self.heard = 0;
        }
        self.heard += revisions;
        // What is behind already is told many at a time.
        if self.heard >= BUSY && all && !self.awake() {
            self.watch = None;
            self.rest_until = now + REST;
            self.since = now;
            self.heard = 0;
        }
    }
}

/// Returns when there is something new, e.g. a newer full backup; never when there will be nothing.
pub(super) async fn changed<T>(news: &mut watch::Receiver<T>) {
    if news.changed().await.is_err() {
        std::future::pending::<()>().await;
    }
}
