//! A chain of increments: its end in the store, and why following it ends.

use std::collections::BTreeSet;
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::backup::increments::timeline::Witness;
use crate::backup::restore::error::FetchError;
use crate::backup::store::chain::{self, file_name};
use crate::backup::store::layout::{INCREMENTS, Layout, MANIFEST};
use crate::backup::store::manifest::Manifest;
use crate::model::{BackupId, ClusterId, ClusterName, Epoch, NodeName, Revision, UnixMs};
use crate::ports::{ObjectStore, PortError, PortResult};

/// The end of a chain of increments, where the next one is added.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Chain {
    /// The full backup that the chain starts from.
    pub backup: BackupId,
    /// The etcd cluster of the full backup.
    pub cluster_id: ClusterId,
    /// The epoch of the full backup.
    pub epoch: Epoch,
    /// The newest revision in the store.
    pub covered: Revision,
    /// How many increments lead there.
    pub increments: usize,
    /// The full is encrypted.
    pub(super) encrypted: bool,
    pub(super) previous: Option<String>,
    /// What the store records of `covered`, or why that cannot be read.
    pub(super) witness: Result<Witness, String>,
    /// Leases of stored keys whose TTL etcd has not reported yet.
    pub(super) unasked: BTreeSet<i64>,
    pub(super) last: Option<StoredIncrement>,
    /// The revision of users and roles at the full, if it is known.
    pub(super) auth_revision: Option<u64>,
}

/// How far a chain has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Progress {
    /// The newest revision in the store.
    pub covered: Revision,
    /// How many increments lead there.
    pub increments: usize,
    /// Users or roles have changed since the full. Increments do not contain them; only another full does.
    pub auth_changed: bool,
    /// The last increment that was stored here; `None` when none was.
    pub last: Option<StoredIncrement>,
}

/// An increment that has just been stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StoredIncrement {
    /// When it was stored.
    pub at: UnixMs,
    /// Compressed, before encryption.
    pub size_bytes: u64,
    /// How long it took to pack and to store.
    pub took: Duration,
}

/// Why a chain is not followed any more.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Ended {
    /// Another agent is the coordinator now, and follows.
    NotCoordinator,
    /// A newer full backup has its own chain, and this chain reaches it.
    Superseded,
    /// The agent stops; what it had received is stored.
    Stopped,
    /// etcd has compacted the next revision, or the full is of another cluster. Only a new full can continue.
    Gap(String),
    /// etcd was put back to an older state, and its history differs from the chain's. Only a new full, in a
    /// new timeline, can continue.
    WentBack(String),
}

/// Which node follows which cluster, and how often it stores.
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
    /// Changes up to this revision are stored without waiting for the interval.
    pub flush_to: watch::Receiver<Revision>,
    /// Before this time, every change is received immediately, however busy etcd is, because etcd is about to
    /// stop.
    pub awake: watch::Receiver<Instant>,
}

impl Chain {
    pub(super) fn of_another_epoch(&self) -> String {
        format!("{} is of another epoch's cluster", self.backup)
    }

    pub(super) fn progress(&self, auth_changed: bool) -> Progress {
        Progress {
            covered: self.covered,
            increments: self.increments,
            auth_changed,
            last: self.last,
        }
    }
}

/// Finds the end of the chain of a full backup.
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
