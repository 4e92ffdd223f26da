//! Whether etcd still has the history that is in the store.
//!
//! When a virtual machine is reset to an older image, `etcdutl snapshot restore` is run with the former
//! token, or a member loses its last writes, the cluster ID stays the same and etcd assigns the same
//! revisions to other writes. Increments of the two histories must never be in one chain. So each full backup
//! belongs to a *timeline*: a number that grows within an epoch whenever it cannot be shown that etcd
//! continues from what the store covers.

use sha2::{Digest, Sha256};

use crate::model::{ClusterName, Epoch, EtcdStatus, Past, Revision, RevisionChanges, hex};
use crate::ports::{Etcd, ObjectStore, PortError, PortResult};

use super::increment::{Change, Entry};
use super::read::read;
use crate::backup::failed::{Cause, CausedBy, Failed};
use crate::backup::restore::error::FetchError;
use crate::backup::store::chain::{self, Range};
use crate::backup::store::layout::Layout;
use crate::backup::store::manifest::{Break, Manifest};
use crate::backup::store::timelines::numbered;

/// The length of etcd's own `HashKV`. `backup.json` is not encrypted, and a longer sum would reveal more of
/// data that is.
const SUM_BYTES: usize = 4;

/// What the store has of the newest revision that a chain covers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Witness {
    covered: Revision,
    /// What was written at this revision, if the store has it.
    seen: Option<(Revision, Seen)>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Seen {
    /// From an increment.
    Changes(Vec<Change>),
    /// From `backup.json`.
    Sum(String),
}

/// Whether etcd continues from the newest covered revision.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::backup) enum Found {
    /// It has the same changes at that revision.
    Same,
    /// It has compacted that revision.
    Unknown(String),
    /// It has another history.
    WentBack(String),
}

impl Witness {
    /// Of a stored revision, without its changes.
    pub(super) fn of_revision(covered: Revision) -> Self {
        Self { covered, seen: None }
    }

    /// Of a full whose increments lead to `covered`.
    fn of_full(manifest: &Manifest, covered: Revision) -> Self {
        let sum = manifest.changes_sum.clone().map(Seen::Sum);
        Self {
            covered,
            seen: sum.map(|sum| (manifest.revision, sum)),
        }
    }

    /// Of a full and its increments.
    ///
    /// # Errors
    /// What the store answered; that the last increment is damaged.
    pub(super) async fn of_chain(
        store: &dyn ObjectStore,
        layout: &Layout,
        manifest: &Manifest,
        path: &[Range],
    ) -> Result<Self, FetchError> {
        let Some(last) = path.last() else {
            return Ok(Self::of_full(manifest, manifest.revision));
        };
        match read(store, layout, &manifest.id, manifest.encryption.is_some(), *last).await {
            Ok(mut increment) => Ok(Self {
                covered: last.last,
                seen: increment
                    .entries
                    .pop()
                    .map(|entry| (Revision(entry.revision), Seen::Changes(entry.changes))),
            }),
            // A node that only writes has no identity to decrypt with. Fall back to what is not encrypted.
            Err(FetchError::Port(PortError::Permanent(why))) => {
                tracing::debug!("the last increment of {} is not compared: {why}", manifest.id);
                Ok(Self::of_full(manifest, last.last))
            }
            Err(error) => Err(error),
        }
    }

    /// Asks etcd, through quorum, whether it continues from there.
    ///
    /// # Errors
    /// What etcd answered: nothing is known then.
    pub(in crate::backup) async fn compare(&self, etcd: &dyn Etcd) -> PortResult<Found> {
        let covered = self.covered;
        let says = match etcd.past(covered).await? {
            Past::Ahead(newest) => {
                return Ok(Found::WentBack(format!(
                    "etcd is at revision {newest}, and its changes up to {covered} are stored"
                )));
            }
            // A new etcd begins at this revision, without any key.
            _ if covered <= Revision(1) => return Ok(Found::Same),
            // Nothing was written since, so continuing the chain is as safe as a new one.
            Past::Gone(newest) if newest == covered => return Ok(Found::Same),
            Past::Gone(_) => {
                return Ok(Found::Unknown(format!(
                    "etcd no longer reports what it wrote as revision {covered}"
                )));
            }
            Past::Changes(says) => says,
        };
        let Some((at, seen)) = &self.seen else {
            // Stored by an older agent that did not record it.
            return Ok(Found::Same);
        };
        let says = if *at == covered {
            says
        } else if let Past::Changes(says) = etcd.past(*at).await? {
            says
        } else {
            return Ok(Found::Same);
        };
        let says = entry(says);
        let same = match seen {
            Seen::Changes(stored) => *stored == says.changes,
            Seen::Sum(stored) => *stored == sum(&says),
        };
        Ok(if same {
            Found::Same
        } else {
            Found::WentBack(format!(
                "etcd has other changes at revision {at} than the store: it was put back to an older state, and has been \
                 written to since"
            ))
        })
    }
}

/// The sum of what was written as `revision`, for [`Manifest::changes_sum`]; `None` if etcd does not report
/// it.
pub(in crate::backup) async fn changes_sum(etcd: &dyn Etcd, revision: Revision) -> Option<String> {
    match etcd.past(revision).await {
        Ok(Past::Changes(changes)) => Some(sum(&entry(changes))),
        Ok(_) => None,
        Err(error) => {
            tracing::debug!("what was written as revision {revision} is not recorded: {error}");
            None
        }
    }
}

fn entry(changes: RevisionChanges) -> Entry {
    let change = |change: crate::model::KeyChange| Change {
        deleted: change.deleted,
        stored: change.stored,
    };
    Entry {
        revision: changes.revision.0,
        at_ms: 0,
        changes: changes.changes.into_iter().map(change).collect(),
    }
}

fn sum(entry: &Entry) -> String {
    use prost::Message;
    let sum = Sha256::digest(entry.encode_to_vec());
    hex(sum.get(..SUM_BYTES).unwrap_or_default())
}

/// The timeline that a full backup of this etcd belongs to, and, if it is a new one, the backup that it does
/// not continue.
///
/// It is the newest timeline of the epoch in the store only if etcd and the store agree on the newest covered
/// revision. In doubt it is a new one. A new one loses nothing, because an etcd that continues holds
/// everything that the chain covers.
///
/// # Errors
/// What the store or etcd answered: nothing is known then, and no full may be taken.
pub(in crate::backup) async fn of(
    etcd: &dyn Etcd,
    store: &dyn ObjectStore,
    cluster: &ClusterName,
    epoch: Epoch,
    status: &EtcdStatus,
) -> Result<(u64, Option<Break>), Failed> {
    let layout = Layout::of(store, cluster);
    let objects = store.list(layout.base()).await.caused_by(Cause::Store)?;
    let mut numbered = numbered(store, &layout, &objects, epoch)
        .await
        .caused_by(Cause::Store)?;
    let Some(newest) = numbered.iter().map(|(timeline, _)| *timeline).max() else {
        return Ok((0, None));
    };
    numbered.retain(|(timeline, _)| *timeline == newest);
    let paths = numbered.iter().map(|(_, full)| {
        let ranges = chain::ranges(&layout, &full.id, &objects);
        (full, chain::path(&ranges, full.revision, None))
    });
    let covered = |full: &Manifest, path: &[Range]| path.last().map_or(full.revision, |range| range.last);
    let Some((full, path)) = paths.max_by_key(|(full, path)| (covered(full, path), full.started_at)) else {
        return Ok((newest, None));
    };
    let found = if full.cluster_id == status.cluster_id {
        match Witness::of_chain(store, &layout, full, &path).await {
            Ok(witness) => witness.compare(etcd).await.caused_by(Cause::Etcd)?,
            Err(FetchError::Port(error)) => return Err(error).caused_by(Cause::Store),
            Err(FetchError::Damaged(why) | FetchError::Increment(why)) => Found::Unknown(why),
        }
    } else {
        Found::Unknown(format!("{} is of etcd cluster {}", full.id, full.cluster_id))
    };
    let (why, went_back) = match found {
        Found::Same => return Ok((newest, None)),
        Found::Unknown(why) => (why, false),
        Found::WentBack(why) => (why, true),
    };
    let breaks = Break {
        backup: full.id.clone(),
        covered: covered(full, &path),
        went_back,
        why,
    };
    Ok((newest + 1, Some(breaks)))
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests;
