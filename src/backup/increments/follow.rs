//! Stores increments continuously: a watch of all keys, written to the store in ranges of revisions.
//!
//! The store is not used while nothing is written to etcd. The changes in memory are bounded: while the store
//! does not accept them, the watch is not read. Several agents may follow at once. An increment is named by
//! the revisions that it covers, and raft has one history of them, so the agents write the same changes.

mod batch;
mod batched_watch;
mod chain;
mod leases;

use std::time::Duration;

use tokio::sync::watch;
use tokio::time::{Instant, sleep_until, timeout};

use crate::model::{BackupSummary, Revision, Watched};
use crate::ports::{Clock, Etcd, ObjectStore, PortError, PortResult};

pub use chain::{Chain, Ended, Following, Progress, StoredIncrement, resume};

use batch::{Batch, flush};
use batched_watch::{BatchedWatch, changed};

use super::timeline::{Found, Witness};
use crate::backup::failed::{Cause, CausedBy, Failed};

/// An increment is closed at this size, before compression. A message of etcd, up to 2 MiB, is never split.
const CUT_BYTES: usize = 2 * 1024 * 1024;
/// After this long without a change, ask etcd for its revision: a connection can die without an error.
const QUIET: Duration = Duration::from_secs(30);
/// A working watch delivers what etcd has committed within this time.
const LATE: Duration = Duration::from_secs(5);
/// When the agent stops, it waits at most this long for what etcd has already committed.
const LAST_WORDS: Duration = Duration::from_secs(1);

/// Follows a chain until it ends. `newer` receives full backups that are committed meanwhile. `report` is
/// called with the progress after each increment, and when users or roles have changed.
///
/// # Errors
/// What etcd or the store answered, after some tries, and which of them: [`resume`] finds out what was
/// stored.
pub async fn follow(
    etcd: &dyn Etcd,
    store: &dyn ObjectStore,
    clock: &dyn Clock,
    following: &Following,
    mut chain: Chain,
    mut newer: watch::Receiver<Option<BackupSummary>>,
    report: impl Fn(Progress) + Send + Sync,
) -> Result<Ended, Failed> {
    // A backup is encrypted as a whole or not at all; a mixed one cannot be restored.
    if chain.encrypted != store.encryption().is_some() {
        let why = "backup.encrypt_to was set, or taken away, since that full backup was taken";
        return Ok(Ended::Gap(why.to_owned()));
    }
    let mut auth = Auth::default();
    let beginning = begin(etcd, following, &chain, &mut auth, &report);
    let mut changes = tokio::select! {
        biased;
        begun = beginning => match begun.caused_by(Cause::Etcd)? {
            Ok(changes) => changes,
            Err(ended) => return Ok(ended),
        },
        // Nothing was received yet, so there is nothing to store.
        () = following.stop.cancelled() => return Ok(Ended::Stopped),
    };
    let mut batch = Batch::default();
    let mut flush_to = following.flush_to.clone();
    let mut flush_at: Option<Instant> = None;
    // etcd was ahead of the watch when last asked; the changes may be on their way.
    let mut behind = false;
    loop {
        if superseded(&newer, &chain) && batch.last().is_none() {
            return Ok(Ended::Superseded);
        }
        let next = if batch.records.bytes() >= CUT_BYTES {
            None
        } else {
            let quiet = if behind { LATE } else { QUIET };
            let mut until = flush_at.unwrap_or_else(|| Instant::now() + quiet);
            let wanted = *flush_to.borrow_and_update();
            if chain.covered < wanted && batch.last().is_some_and(|last| last >= wanted) {
                until = Instant::now();
            }
            tokio::select! {
                message = changes.next() => Some(message),
                () = sleep_until(until) => None,
                () = changed(&mut newer) => continue,
                () = changed(&mut flush_to) => continue,
                () = following.stop.cancelled() => {
                    let rest = receive_rest(etcd, clock, &mut changes, &chain, &mut batch);
                    if timeout(LAST_WORDS, rest).await.is_err() {
                        tracing::debug!("not all that etcd has committed was received before the stop");
                    }
                    // The received changes are committed, whichever node coordinates next, so store them.
                    flush(etcd, store, clock, following, &mut chain, batch).await.caused_by(Cause::Store)?;
                    return Ok(Ended::Stopped);
                }
            }
        };
        match next {
            Some(Some(Ok(message))) => {
                let why = match message {
                    Watched::Revisions { changes, of, .. } if of == chain.cluster_id => {
                        behind = false;
                        match batch.extend(changes, chain.covered, clock.now()) {
                            Ok(()) => {
                                flush_at.get_or_insert_with(|| Instant::now() + following.interval);
                                continue;
                            }
                            Err(why) => why,
                        }
                    }
                    // A paused watch may have been reopened on the etcd of another epoch.
                    Watched::Revisions { .. } => chain.of_another_epoch(),
                    Watched::Compacted(at) => {
                        let reach = batch.last().unwrap_or(chain.covered);
                        format!("etcd has compacted up to revision {at}, increments reach {reach}")
                    }
                };
                flush(etcd, store, clock, following, &mut chain, batch)
                    .await
                    .caused_by(Cause::Store)?;
                return Ok(Ended::Gap(why));
            }
            Some(ended) => {
                // The received changes are committed, whichever node coordinates now, so store them. This
                // etcd may be lost permanently.
                let rest = std::mem::take(&mut batch);
                flush(etcd, store, clock, following, &mut chain, rest)
                    .await
                    .caused_by(Cause::Store)?;
                report(chain.progress(auth.changed));
                let error = match ended {
                    Some(Err(error)) => error,
                    _ => PortError::Retryable("the watch ended".to_owned()),
                };
                return Err(error).caused_by(Cause::Etcd);
            }
            None if batch.last().is_none() => {
                if let Some(why) = not_ours(etcd, &chain).await.caused_by(Cause::Etcd)? {
                    return Ok(why);
                }
                let now = etcd.status().await.caused_by(Cause::Etcd)?.revision;
                if now > chain.covered && behind {
                    return Err(PortError::Retryable(format!(
                        "etcd is at revision {now} and the watch has sent nothing since {}",
                        chain.covered
                    )))
                    .caused_by(Cause::Etcd);
                }
                if now < chain.covered
                    && let Some(why) = behind_the_store(etcd, &chain).await.caused_by(Cause::Etcd)?
                {
                    return Ok(why);
                }
                behind = now > chain.covered;
                if auth.look(etcd, &chain).await {
                    report(chain.progress(auth.changed));
                }
            }
            None => {
                // Flush before checking leadership; a successor may not reach this etcd.
                let written = std::mem::take(&mut batch);
                flush(etcd, store, clock, following, &mut chain, written)
                    .await
                    .caused_by(Cause::Store)?;
                flush_at = None;
                auth.look(etcd, &chain).await;
                report(chain.progress(auth.changed));
                if let Some(why) = not_ours(etcd, &chain).await.caused_by(Cause::Etcd)? {
                    return Ok(why);
                }
            }
        }
    }
}

/// Checks that this etcd continues the chain, and opens the watch. etcd may take seconds to answer for a past
/// revision.
async fn begin<'a>(
    etcd: &'a dyn Etcd,
    following: &Following,
    chain: &Chain,
    auth: &mut Auth,
    report: &(impl Fn(Progress) + Send + Sync),
) -> PortResult<Result<BatchedWatch<'a>, Ended>> {
    if let Some(ended) = not_ours(etcd, chain).await? {
        return Ok(Err(ended));
    }
    if let Some(ended) = another_history(etcd, chain).await? {
        return Ok(Err(ended));
    }
    auth.look(etcd, chain).await;
    report(chain.progress(auth.changed));
    let awake = following.awake.clone();
    BatchedWatch::open(etcd, chain.covered.next(), awake)
        .await
        .map(Ok)
}

/// Whether users and roles have changed.
#[derive(Default)]
struct Auth {
    changed: bool,
    looked: Option<Instant>,
}

impl Auth {
    /// Checks from time to time whether they have changed since the full; etcd answers through raft. Returns
    /// true when a change was found just now. An error counts as no change.
    async fn look(&mut self, etcd: &dyn Etcd, chain: &Chain) -> bool {
        let Some(then) = chain.auth_revision.filter(|_| !self.changed) else {
            return false;
        };
        if self.looked.is_some_and(|at| at.elapsed() < QUIET) {
            return false;
        }
        self.looked = Some(Instant::now());
        match etcd.auth_revision().await {
            Ok(now) => self.changed = now != then,
            Err(error) => tracing::debug!("whether users have changed is not known: {error}"),
        }
        self.changed
    }
}

/// A newer full exists and this chain reaches it, so no revision lies between the two chains.
fn superseded(newer: &watch::Receiver<Option<BackupSummary>>, chain: &Chain) -> bool {
    // etcd-manager's backups have no revision, and no chain.
    let ours = |full: &&BackupSummary| full.revision > Revision(0) && full.id != chain.backup;
    let newer = newer.borrow();
    newer
        .as_ref()
        .filter(ours)
        .is_some_and(|full| full.revision <= chain.covered)
}

async fn not_ours(etcd: &dyn Etcd, chain: &Chain) -> PortResult<Option<Ended>> {
    let status = etcd.status().await?;
    if status.cluster_id != chain.cluster_id {
        return Ok(Some(Ended::Gap(chain.of_another_epoch())));
    }
    Ok((status.leader != Some(status.member_id)).then_some(Ended::NotCoordinator))
}

/// Whether etcd continues from what the chain covers. The cluster ID and the revision alone do not
/// prove that.
async fn another_history(etcd: &dyn Etcd, chain: &Chain) -> PortResult<Option<Ended>> {
    let witness = match &chain.witness {
        Ok(witness) => witness,
        Err(why) => return Ok(Some(Ended::Gap(why.clone()))),
    };
    Ok(ended(witness.compare(etcd).await?))
}

/// The same check by the revision only. It asks through quorum, because one member may lag for a moment.
async fn behind_the_store(etcd: &dyn Etcd, chain: &Chain) -> PortResult<Option<Ended>> {
    Ok(ended(Witness::of_revision(chain.covered).compare(etcd).await?))
}

fn ended(found: Found) -> Option<Ended> {
    match found {
        Found::Same => None,
        Found::Unknown(why) => Some(Ended::Gap(why)),
        Found::WentBack(why) => Some(Ended::WentBack(why)),
    }
}

/// Receives what etcd has committed until now, up to the size of an increment.
async fn receive_rest(
    etcd: &dyn Etcd,
    clock: &dyn Clock,
    changes: &mut BatchedWatch<'_>,
    chain: &Chain,
    batch: &mut Batch,
) {
    let Ok(status) = etcd.status().await else {
        return;
    };
    changes.end_pause();
    while batch.last().unwrap_or(chain.covered) < status.revision && batch.records.bytes() < CUT_BYTES {
        match changes.next().await {
            Some(Ok(Watched::Revisions { changes, of, .. })) if of == chain.cluster_id => {
                if batch.extend(changes, chain.covered, clock.now()).is_err() {
                    return;
                }
            }
            _ => return,
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests;
