//! Changes that were received from etcd and are not stored yet, and how they are stored.

use std::collections::BTreeSet;
use std::time::Duration;

use tokio::time::{Instant, timeout};

use super::chain::{Chain, Following, StoredIncrement};
use super::leases;
use crate::backup::increments::increment::{self, Change, Entry, Head, Records};
use crate::backup::store::chain::file_name;
use crate::backup::store::layout::{INCREMENTS, Layout};
use crate::model::{Backoff, Revision, RevisionChanges, UnixMs};
use crate::ports::{Clock, Created, Etcd, ObjectStore, PortError, PortResult};

/// Tries to store one increment before the chain is read again from the store.
const TRIES: u32 = 5;
/// The pause between them.
const BACKOFF: Backoff = Backoff::new(Duration::from_millis(100), Duration::from_secs(1));
/// How long the store may take to say whether it has conditional writes.
const ANSWER_WITHIN: Duration = Duration::from_secs(30);

/// Changes that were received and are not stored yet.
#[derive(Default)]
pub(super) struct Batch {
    pub(super) records: Records,
    leases: BTreeSet<i64>,
}

impl Batch {
    pub(super) fn last(&self) -> Option<Revision> {
        self.records.last()
    }

    /// Adds received revisions, up to the first gap after what is stored up to `covered`. etcd writes
    /// something under each revision, so a missing revision was not delivered (e.g. etcd issue 18089).
    pub(super) fn extend(
        &mut self,
        revisions: Vec<RevisionChanges>,
        covered: Revision,
        at: UnixMs,
    ) -> Result<(), String> {
        for revision in revisions {
            let next = self.last().unwrap_or(covered).next();
            if revision.revision != next {
                let found = revision.revision;
                return Err(format!("etcd sent revision {found} and not {next}"));
            }
            self.push(revision, at.0);
        }
        Ok(())
    }

    pub(super) fn push(&mut self, revision: RevisionChanges, at_ms: u64) {
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

/// Stores what was received as the next increment of the chain.
pub(super) async fn flush(
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

/// Stores an object that may already exist with the same changes.
async fn write(store: &dyn ObjectStore, clock: &dyn Clock, key: &str, body: bytes::Bytes) -> PortResult<()> {
    let mut tries = 1;
    loop {
        let conditional = timeout(ANSWER_WITHIN, store.conditional_writes()).await;
        let written = match conditional {
            Ok(Ok(true)) => match store.create(key, body.clone()).await {
                Ok(Created::Exists(there)) if increment::differ(&there, &body) => {
                    let text = format!(
                        "{}: {key} exists already with other changes of these revisions",
                        store.describe()
                    );
                    return Err(PortError::Permanent(text));
                }
                other => other.map(|_| ()),
            },
            // Without conditional writes the range is overwritten with the same changes.
            Ok(Ok(false)) => store.put(key, body.clone()).await,
            Ok(Err(error)) => Err(error),
            Err(_) => Err(PortError::Retryable(format!(
                "{} does not answer",
                store.describe()
            ))),
        };
        match written {
            Err(PortError::Retryable(_) | PortError::OutcomeUnknown(_)) if tries < TRIES => {
                tokio::time::sleep(BACKOFF.jittered(tries, clock.random())).await;
                tries += 1;
            }
            other => return other,
        }
    }
}
