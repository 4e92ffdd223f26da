//! Increments as they happen: a watch of all keys, written to the store in ranges of revisions.
//!
//! Nothing is asked of the store while nothing is written to etcd. What is read and not stored yet is bounded: while
//! the store does not take it, the watch is not read on. Several agents may follow at once: an increment is named by
//! the revisions that it covers, and of those raft has only one history, so they can only say the same.

mod batched_watch;
mod leases;

use std::collections::BTreeSet;
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::{Instant, sleep_until, timeout};
use tokio_util::sync::CancellationToken;

use crate::model::{
    BackupId, BackupSummary, ClusterId, ClusterName, Epoch, NodeName, Revision, RevisionChanges, UnixMs,
    Watched,
};
use crate::ports::{Clock, Created, Etcd, ObjectStore, PortError, PortResult};

use batched_watch::{BatchedWatch, changed};

use super::increment::{self, Change, Entry, Head, Records};
use super::timeline::{Found, Witness};
use crate::backup::failed::{Blame, Cause, Failed};
use crate::backup::restore::error::FetchError;
use crate::backup::store::chain;
use crate::backup::store::chain::file_name;
use crate::backup::store::layout::{INCREMENTS, Layout, MANIFEST};
use crate::backup::store::manifest::Manifest;

/// An increment is cut at this, before compression; what etcd tells in one message, up to 2 MiB, is not torn apart.
const CUT_BYTES: usize = 2 * 1024 * 1024;
/// Tries to store one increment before the chain is looked at afresh.
const TRIES: u32 = 5;
/// After so long without a change etcd is asked whether there was none: a connection can die in silence.
const QUIET: Duration = Duration::from_secs(30);
/// What etcd has committed reaches a watch that lives within this.
const LATE: Duration = Duration::from_secs(5);
/// At its own end the agent listens no longer than this for what etcd has committed already.
const LAST_WORDS: Duration = Duration::from_secs(1);

/// Where a chain of increments goes on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Chain {
    /// The full backup that it hangs on.
    pub backup: BackupId,
    /// The etcd cluster that it is of.
    pub cluster_id: ClusterId,
    /// The epoch that it is of.
    pub epoch: Epoch,
    /// The newest revision in the store.
    pub covered: Revision,
    /// How many increments lead there.
    pub increments: usize,
    /// The full is encrypted.
    encrypted: bool,
    previous: Option<String>,
    /// What the store says of `covered`; or why that cannot be read.
    witness: Result<Witness, String>,
    /// Leases of keys that were stored whose TTL etcd has not told yet.
    unasked: BTreeSet<i64>,
    last: Option<StoredIncrement>,
    /// Of the full, where it is known.
    auth_revision: Option<u64>,
}

/// How far a chain has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Progress {
    /// The newest revision in the store.
    pub covered: Revision,
    /// How many increments lead there.
    pub increments: usize,
    /// Users or roles have changed since the full: no increment tells of that, only another full.
    pub auth_changed: bool,
    /// The last increment that was stored here; `None` when none was.
    pub last: Option<StoredIncrement>,
}

/// An increment that has just been stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StoredIncrement {
    /// When it was.
    pub at: UnixMs,
    /// Compressed, before encryption.
    pub size_bytes: u64,
    /// How long it took to pack and to store.
    pub took: Duration,
}

/// Why a chain is not followed any more.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Ended {
    /// Another agent coordinates, and follows.
    NotCoordinator,
    /// A newer full backup has its own chain, and this one reaches it.
    Superseded,
    /// The agent ends; what it had heard of is stored.
    Stopped,
    /// etcd has compacted what would come next, or the full is of another cluster: only a new full goes on.
    Gap(String),
    /// etcd was put back to an older state, and its history is not that of the chain any more: only a new full goes on, in a
    /// new timeline.
    WentBack(String),
}

/// Who follows, for whom, how often.
#[derive(Debug, Clone)]
pub struct Following {
    /// Of which cluster.
    pub cluster: ClusterName,
    /// Own node.
    pub node: NodeName,
    /// The longest that a change waits for being stored.
    pub interval: Duration,
    /// Cancelled when the agent ends.
    pub stop: CancellationToken,
    /// Up to this revision nothing waits for the interval.
    pub flush_to: watch::Receiver<Revision>,
    /// Until then each change is heard of at once, however busy etcd is: it is about to stop.
    pub awake: watch::Receiver<Instant>,
}

/// Finds out where the chain of a full backup goes on.
///
/// # Errors
/// What the store answered; permanent when there is no such backup of ours.
pub async fn resume(store: &dyn ObjectStore, cluster: &ClusterName, id: &BackupId) -> PortResult<Chain> {
    let layout = Layout::of(store, cluster);
    let key = layout.in_backup(id, MANIFEST);
    let wrong = |why: &str| PortError::Permanent(format!("{}: {key}: {why}", store.describe()));
    let text = store
        .get_small(&key)
        .await?
        .ok_or_else(|| wrong("it is not there"))?;
    let manifest = Manifest::parse(id, &text).map_err(|error| wrong(&error.to_string()))?;
    let listed = store.list(&layout.in_backup(id, INCREMENTS)).await?;
    let ranges = chain::ranges(&layout, id, &listed);
    let path = chain::path(&ranges, manifest.revision, None);
    let last = path.last();
    let witness = match Witness::of_chain(store, &layout, &manifest, &path).await {
        Ok(witness) => Ok(witness),
        Err(FetchError::Port(error)) => return Err(error),
        Err(FetchError::Damaged(why) | FetchError::Increment(why)) => Err(why),
    };
    Ok(Chain {
        witness,
        unasked: BTreeSet::new(),
        backup: id.clone(),
        cluster_id: manifest.cluster_id,
        epoch: manifest.epoch,
        covered: last.map_or(manifest.revision, |range| range.last),
        increments: path.len(),
        encrypted: manifest.encryption.is_some(),
        last: None,
        auth_revision: manifest.auth_revision,
        previous: last.map(|range| file_name(range.first, range.last)),
    })
}

/// Follows a chain until it ends. `newer` tells of full backups committed meanwhile; `told` hears how far the chain
/// has come, after each increment and when users or roles have changed.
///
/// # Errors
/// What etcd or the store answered, after some tries, and which of them: [`resume`] finds out what was stored.
pub async fn follow(
    etcd: &dyn Etcd,
    store: &dyn ObjectStore,
    clock: &dyn Clock,
    following: &Following,
    mut chain: Chain,
    mut newer: watch::Receiver<Option<BackupSummary>>,
    told: impl Fn(Progress) + Send + Sync,
) -> Result<Ended, Failed> {
    // All of a backup is encrypted, or nothing of it is: what is mixed is not restored.
    if chain.encrypted != store.encryption().is_some() {
        let why = "backup.encrypt_to was set, or taken away, since that full backup was taken";
        return Ok(Ended::Gap(why.to_owned()));
    }
    if let Some(why) = not_ours(etcd, &chain).await.blame(Cause::Etcd)? {
        return Ok(why);
    }
    if let Some(why) = another_history(etcd, &chain).await.blame(Cause::Etcd)? {
        return Ok(why);
    }
    let mut auth = Auth::default();
    auth.look(etcd, &chain).await;
    told(chain.progress(&auth));
    let awake = following.awake.clone();
    let mut changes = BatchedWatch::open(etcd, chain.covered.next(), awake)
        .await
        .blame(Cause::Etcd)?;
    let mut batch = Batch::default();
    let mut flush_to = following.flush_to.clone();
    let mut flush_at: Option<Instant> = None;
    // etcd was seen ahead of the watch: what it has may be on its way.
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
                heard = changes.next() => Some(heard),
                () = sleep_until(until) => None,
                () = changed(&mut newer) => continue,
                () = changed(&mut flush_to) => continue,
                () = following.stop.cancelled() => {
                    let rest = hear_the_rest(etcd, clock, &mut changes, &chain, &mut batch);
                    if timeout(LAST_WORDS, rest).await.is_err() {
                        tracing::debug!("not all that etcd has written could be heard before the end");
                    }
                    // What was heard is history, whoever coordinates next.
                    flush(etcd, store, clock, following, &mut chain, batch).await.blame(Cause::Store)?;
                    return Ok(Ended::Stopped);
                }
            }
        };
        match next {
            Some(Some(Ok(heard))) => {
                let why = match heard {
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
                    // A watch that rested may have been opened again on the etcd of another epoch.
                    Watched::Revisions { .. } => chain.of_another_epoch(),
                    Watched::Compacted(at) => {
                        let reach = batch.last().unwrap_or(chain.covered);
                        format!("etcd has compacted up to revision {at}, increments reach {reach}")
                    }
                };
                flush(etcd, store, clock, following, &mut chain, batch)
                    .await
                    .blame(Cause::Store)?;
                return Ok(Ended::Gap(why));
            }
            Some(ended) => {
                // What was heard is history, whoever coordinates now, and etcd may be gone for good.
                let rest = std::mem::take(&mut batch);
                flush(etcd, store, clock, following, &mut chain, rest)
                    .await
                    .blame(Cause::Store)?;
                told(chain.progress(&auth));
                let error = match ended {
                    Some(Err(error)) => error,
                    _ => PortError::Retryable("the watch ended".to_owned()),
                };
                return Err(error).blame(Cause::Etcd);
            }
            None if batch.last().is_none() => {
                if let Some(why) = not_ours(etcd, &chain).await.blame(Cause::Etcd)? {
                    return Ok(why);
                }
                let now = etcd.status().await.blame(Cause::Etcd)?.revision;
                if now > chain.covered && behind {
                    return Err(PortError::Retryable(format!(
                        "etcd is at revision {now} and the watch has said nothing since {}",
                        chain.covered
                    )))
                    .blame(Cause::Etcd);
                }
                if now < chain.covered
                    && let Some(why) = behind_the_store(etcd, &chain).await.blame(Cause::Etcd)?
                {
                    return Ok(why);
                }
                behind = now > chain.covered;
                if auth.look(etcd, &chain).await {
                    told(chain.progress(&auth));
                }
            }
            None => {
                // First of all, and whoever coordinates by now: who comes next may never get to ask this etcd.
                let written = std::mem::take(&mut batch);
                flush(etcd, store, clock, following, &mut chain, written)
                    .await
                    .blame(Cause::Store)?;
                flush_at = None;
                auth.look(etcd, &chain).await;
                told(chain.progress(&auth));
                if let Some(why) = not_ours(etcd, &chain).await.blame(Cause::Etcd)? {
                    return Ok(why);
                }
            }
        }
    }
}

impl Chain {
    fn of_another_epoch(&self) -> String {
        format!("{} is of another epoch's cluster", self.backup)
    }

    fn progress(&self, auth: &Auth) -> Progress {
        Progress {
            covered: self.covered,
            increments: self.increments,
            auth_changed: auth.changed,
            last: self.last,
        }
    }
}

/// What is known of users and roles.
#[derive(Default)]
struct Auth {
    changed: bool,
    looked: Option<Instant>,
}

impl Auth {
    /// Looks whether they have changed since the full, once in a while: etcd answers through raft. Says whether
    /// that was found out now. What cannot be found out is no change.
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

/// A newer full exists, and what is stored here reaches it: no revision lies between the two chains.
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

/// Whether etcd has gone on from what the chain covers, whichever way its cluster ID and its revision came about.
async fn another_history(etcd: &dyn Etcd, chain: &Chain) -> PortResult<Option<Ended>> {
    let witness = match &chain.witness {
        Ok(witness) => witness,
        Err(why) => return Ok(Some(Ended::Gap(why.clone()))),
    };
    Ok(ended(witness.compare(etcd).await?))
}

/// The same where only the revision can tell: a member may lag behind for a moment, and quorum does not.
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

/// Hears of what etcd has committed until now, as far as an increment holds it.
async fn hear_the_rest(
    etcd: &dyn Etcd,
    clock: &dyn Clock,
    changes: &mut BatchedWatch<'_>,
    chain: &Chain,
    batch: &mut Batch,
) {
    let Ok(status) = etcd.status().await else {
        return;
    };
    changes.wake();
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

/// What was heard and is not stored yet.
#[derive(Default)]
struct Batch {
    records: Records,
    leases: BTreeSet<i64>,
}

impl Batch {
    fn last(&self) -> Option<Revision> {
        self.records.last()
    }

    /// Takes what was heard, as far as it goes on without a gap from what is stored up to `covered`: etcd writes
    /// something under each revision, so one that is missing was not told (e.g. etcd issue 18089).
    fn extend(
        &mut self,
        revisions: Vec<RevisionChanges>,
        covered: Revision,
        at: UnixMs,
    ) -> Result<(), String> {
        for heard in revisions {
            let next = self.last().unwrap_or(covered).next();
            if heard.revision != next {
                let found = heard.revision;
                return Err(format!("etcd told of revision {found} and not of {next}"));
            }
            self.push(heard, at.0);
        }
        Ok(())
    }

    fn push(&mut self, revision: RevisionChanges, at_ms: u64) {
        let changes = revision.changes.into_iter().map(|change| {
            if change.lease != 0 {
                self.leases.insert(change.lease);
            }
            Change {
                deleted: change.deleted,
                stored: change.stored,
            }
        });
        self.records.push(&Entry {
            revision: revision.revision.0,
            at_ms,
            changes: changes.collect(),
        });
    }
}

async fn flush(
    etcd: &dyn Etcd,
    store: &dyn ObjectStore,
    clock: &dyn Clock,
    following: &Following,
    chain: &mut Chain,
    batch: Batch,
) -> PortResult<()> {
    let Some(last) = batch.last() else {
        return Ok(());
    };
    let began = Instant::now();
    let first = chain.covered.next();
    let mut ids = std::mem::take(&mut chain.unasked);
    ids.extend(batch.leases);
    let (leases, unasked) = leases::ask(etcd, ids).await;
    let head = Head {
        format: 0,
        first,
        last,
        cluster_id: chain.cluster_id,
        epoch: chain.epoch,
        node: following.node.clone(),
        at: clock.now(),
        previous: chain.previous.clone(),
        leases,
        unasked: unasked.iter().copied().collect(),
        sha256: String::new(),
    };
    chain.unasked = unasked;
    let packed = tokio::task::spawn_blocking(move || batch.records.pack(head)).await;
    let body = packed
        .map_err(|error| PortError::Retryable(format!("the increment's worker ended early: {error}")))?
        .map_err(|error| PortError::Permanent(error.to_string()))?;
    let name = file_name(first, last);
    let layout = Layout::of(store, &following.cluster);
    let key = format!("{}{name}", layout.in_backup(&chain.backup, INCREMENTS));
    let size_bytes = body.len() as u64;
    write(store, clock, &key, body).await?;
    chain.last = Some(StoredIncrement {
        at: clock.now(),
        size_bytes,
        took: began.elapsed(),
    });
    chain.covered = last;
    chain.increments += 1;
    chain.previous = Some(name);
    Ok(())
}

/// Stores an object that may be there already, with content that says the same.
async fn write(store: &dyn ObjectStore, clock: &dyn Clock, key: &str, body: bytes::Bytes) -> PortResult<()> {
    let mut tries = 1;
    loop {
        let conditional = timeout(QUIET, store.conditional_writes()).await;
        let written = match conditional {
            Ok(Ok(true)) => match store.create(key, body.clone()).await {
                Ok(Created::Exists(there)) if increment::differ(&there, &body) => {
                    let text = format!(
                        "{}: {key} is there already and says another thing of these revisions",
                        store.describe()
                    );
                    return Err(PortError::Permanent(text));
                }
                other => other.map(|_| ()),
            },
            // Without conditions the same range is written over, with the same changes.
            Ok(Ok(false)) => store.put(key, body.clone()).await,
            Ok(Err(error)) => Err(error),
            Err(_) => Err(PortError::Retryable(format!(
                "{} does not answer",
                store.describe()
            ))),
        };
        match written {
            Err(PortError::Retryable(_) | PortError::OutcomeUnknown(_)) if tries < TRIES => {
                let pause = Duration::from_millis((50 << tries) + clock.random() % 100);
                tokio::time::sleep(pause).await;
                tries += 1;
            }
            other => return other,
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests;
