//! Which backups there are: those with a commit marker, ours or etcd-manager's.

use std::collections::BTreeMap;

use crate::model::{
    BackupId, BackupSummary, ClusterName, Revision, StoredBackup, UnixMs, Verified, VerifyView, Writer,
};
use crate::ports::{ObjectMeta, ObjectStore, PortError, PortResult};

use super::chain;
use super::increment::parse_name;
use super::layout::{
    BackupName, FOREIGN_META, INCREMENTS, Layout, MANIFEST, SNAPSHOT_GZIP, SNAPSHOT_ZSTD, VERIFICATION,
};
use super::manifest::{ForeignMeta, Manifest};
use super::verification::Verification;

/// Commit markers read at a time.
const AT_ONCE: usize = 8;

/// What is committed in the store.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Catalogue {
    /// Oldest first.
    pub backups: Vec<StoredBackup>,
    /// Committed, but not to be understood; the text says why.
    pub unreadable: Vec<(BackupId, String)>,
}

/// What was listed of one backup.
#[derive(Debug, Clone, Default)]
struct Found {
    native: bool,
    foreign: bool,
    zstd_bytes: Option<u64>,
    gzip_bytes: Option<u64>,
    verified: bool,
    increments: usize,
}

/// All committed backups.
///
/// # Errors
/// What the store answered; never an empty catalogue instead.
pub async fn list(store: &dyn ObjectStore, cluster: &ClusterName) -> PortResult<Catalogue> {
    use futures::{StreamExt, TryStreamExt};
    let layout = Layout::of(store, cluster);
    let objects = store.list(layout.base()).await?;
    let read = futures::stream::iter(committed(&layout, &objects))
        .map(|(name, found)| read_all(store, &layout, name, found))
        .buffered(AT_ONCE);
    let mut catalogue = Catalogue::default();
    for entry in read.try_collect::<Vec<_>>().await? {
        match entry {
            Ok(mut backup) => {
                let ranges = chain::ranges(&layout, &backup.summary.id, &objects);
                backup.covered = chain::covered(&ranges, backup.summary.revision);
                catalogue.backups.push(backup);
            }
            Err(unreadable) => catalogue.unreadable.push(unreadable),
        }
    }
    Ok(catalogue)
}

/// The newest committed backup that can be understood and is not dated after `now`, which is asked once the backups are
/// listed: one that was committed meanwhile is not dated after it.
///
/// # Errors
/// What the store answered.
pub async fn newest(
    store: &dyn ObjectStore,
    cluster: &ClusterName,
    now: impl Fn() -> UnixMs,
) -> PortResult<Option<BackupSummary>> {
    let layout = Layout::of(store, cluster);
    let objects = store.list(layout.base()).await?;
    newest_of(store, &layout, &objects, now()).await
}

/// The same, of a listing of all that the cluster has.
pub(super) async fn newest_of(
    store: &dyn ObjectStore,
    layout: &Layout,
    objects: &[ObjectMeta],
    now: UnixMs,
) -> PortResult<Option<BackupSummary>> {
    const AFTER: &str = "it is dated after now, so a clock is or was wrong";
    let all = committed(layout, objects).into_iter();
    let (past, future): (Vec<_>, Vec<_>) = all.partition(|(name, _)| name.at() <= now);
    for (name, _) in future {
        tracing::warn!("backup {name} is passed over: {AFTER}");
    }
    for (name, found) in past.into_iter().rev() {
        match read(store, layout, name, found).await? {
            Ok(backup) if backup.summary.at <= now => return Ok(Some(backup.summary)),
            Ok(backup) => tracing::warn!("backup {} is passed over: {AFTER}", backup.summary.id),
            Err((id, why)) => tracing::warn!("backup {id} is passed over: {why}"),
        }
    }
    Ok(None)
}

/// Those with a commit marker, oldest first.
fn committed(layout: &Layout, objects: &[ObjectMeta]) -> Vec<(BackupName, Found)> {
    let mut found = found(layout, objects);
    found.retain(|_, f| f.native || f.foreign);
    found.into_iter().collect()
}

/// Snapshots of ours that were never committed, oldest first: under way, or abandoned; and increments whose full is
/// gone, stored by an agent that did not know yet.
pub(super) fn leftovers(layout: &Layout, objects: &[ObjectMeta]) -> Vec<BackupName> {
    let found = found(layout, objects);
    let left = found
        .into_iter()
        .filter(|(_, f)| !f.native && !f.foreign && (f.zstd_bytes.is_some() || f.increments > 0));
    left.map(|(name, _)| name).collect()
}

fn found(layout: &Layout, objects: &[ObjectMeta]) -> BTreeMap<BackupName, Found> {
    let mut found: BTreeMap<BackupName, Found> = BTreeMap::new();
    for object in objects {
        let Some((name, file)) = layout.split(&object.key) else {
            continue;
        };
        let entry = found.entry(name).or_default();
        match file {
            MANIFEST => entry.native = true,
            FOREIGN_META => entry.foreign = true,
            SNAPSHOT_ZSTD => entry.zstd_bytes = Some(object.size_bytes),
            SNAPSHOT_GZIP => entry.gzip_bytes = Some(object.size_bytes),
            VERIFICATION => entry.verified = true,
            other => {
                let increment = other.strip_prefix(INCREMENTS).and_then(parse_name);
                entry.increments += usize::from(increment.is_some());
            }
        }
    }
    found
}

/// Its commit marker, and what its last verification came to.
async fn read_all(
    store: &dyn ObjectStore,
    layout: &Layout,
    name: BackupName,
    found: Found,
) -> PortResult<Result<StoredBackup, (BackupId, String)>> {
    let verified = found.verified;
    let mut read = read(store, layout, name, found).await?;
    if let Ok(backup) = &mut read
        && verified
    {
        backup.verified = verification(store, layout, &backup.summary.id).await?;
    }
    Ok(read)
}

async fn verification(
    store: &dyn ObjectStore,
    layout: &Layout,
    id: &BackupId,
) -> PortResult<Option<Verified>> {
    let text = store.get_small(&layout.in_backup(id, VERIFICATION)).await?;
    Ok(text.and_then(|text| Some(Verification::parse(id, &text)?.summary())))
}

/// What the planner needs to know of verifications, of a listing: at most one small read.
pub(super) async fn verifications_of(
    store: &dyn ObjectStore,
    layout: &Layout,
    objects: &[ObjectMeta],
    now: UnixMs,
) -> PortResult<VerifyView> {
    let mut committed = committed(layout, objects);
    committed.retain(|(name, _)| name.at() <= now);
    let oldest_backup = committed.first().map(|(name, _)| name.at());
    let newest = committed.iter().rev().find(|(_, found)| found.verified);
    let mut view = VerifyView {
        last: None,
        oldest_backup,
    };
    if let Some((name, _)) = newest {
        let id = name
            .id()
            .map_err(|error| PortError::Permanent(error.to_string()))?;
        let verified = verification(store, layout, &id).await?;
        view.last = verified.map(|verified| (id, verified));
    }
    Ok(view)
}

async fn read(
    store: &dyn ObjectStore,
    layout: &Layout,
    name: BackupName,
    found: Found,
) -> PortResult<Result<StoredBackup, (BackupId, String)>> {
    let id = name
        .id()
        .map_err(|error| PortError::Permanent(error.to_string()))?;
    let marker = if found.native { MANIFEST } else { FOREIGN_META };
    let Some(text) = store.get_small(&layout.in_backup(&id, marker)).await? else {
        return Ok(Err((id, format!("{marker} was deleted just now"))));
    };
    let size = if found.native {
        found.zstd_bytes.or(found.gzip_bytes)
    } else {
        found.gzip_bytes
    };
    let Some(size) = size else {
        return Ok(Err((id, "its snapshot is not there".to_owned())));
    };
    let backup = if found.native {
        Manifest::parse(&id, &text).map(|manifest| StoredBackup {
            summary: manifest.summary(),
            writer: Writer::EtcdAgent,
            epoch: Some(manifest.epoch),
            revision_at_most: manifest.revision_at_most,
            covered: manifest.revision,
            verified: None,
        })
    } else {
        ForeignMeta::parse(&text).map(|meta| StoredBackup {
            summary: BackupSummary {
                id: id.clone(),
                at: meta.at().unwrap_or_else(|| name.at()),
                // etcd-manager does not record it.
                revision: Revision(0),
                size_bytes: size,
            },
            writer: Writer::EtcdManager,
            epoch: None,
            revision_at_most: None,
            covered: Revision(0),
            verified: None,
        })
    };
    Ok(backup.map_err(|error| (id, format!("{marker}: {error}"))))
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests;
