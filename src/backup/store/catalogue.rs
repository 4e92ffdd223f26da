//! The backups in a store: those with a commit marker, written by the agent or by etcd-manager.

use crate::model::{
    BackupId, BackupSummary, ClusterName, Epoch, Marks, Revision, StoredBackup, UnixMs, Verified, VerifyView,
    Writer,
};
use crate::ports::{ObjectMeta, ObjectStore, PortError, PortResult};

use super::chain;
use super::layout::{BackupName, FOREIGN_META, Layout, MANIFEST, VERIFICATION};
use super::listing::{Found, committed};
use super::manifest::{ForeignMeta, Manifest};
use super::marks;
use super::timelines::Counted;
use super::verification::Verification;

/// Commit markers read at a time.
const AT_ONCE: usize = 16;

/// What is committed in the store.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Catalogue {
    /// Oldest first.
    pub backups: Vec<StoredBackup>,
    /// Committed, but cannot be read or understood; the text says why.
    pub unreadable: Vec<(BackupId, String)>,
}

/// Which backups to read.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum Part {
    /// All.
    #[default]
    All,
    /// This one.
    Only(BackupId),
    /// At most this many after this one; `None` begins with the oldest.
    After(Option<BackupId>, usize),
}

/// All committed backups. An object that the store refuses permanently hides its own backup, and no other.
///
/// # Errors
/// What the store answered; never an empty catalogue instead.
pub async fn list(store: &dyn ObjectStore, cluster: &ClusterName) -> PortResult<Catalogue> {
    Ok(page(store, cluster, &Part::All).await?.0)
}

/// Some of the committed backups, and the last of them if there are more after it.
///
/// # Errors
/// What the store answered.
pub async fn page(
    store: &dyn ObjectStore,
    cluster: &ClusterName,
    part: &Part,
) -> PortResult<(Catalogue, Option<BackupId>)> {
    let (layout, wanted, more) = chosen(store, cluster, part).await?;
    let last = wanted.last().filter(|_| more).map(|(name, _)| name.id());
    let next = last.transpose().map_err(no_name)?;
    let catalogue = read_each(store, &layout, wanted, true).await?;
    Ok((catalogue, next))
}

/// The highest epoch that a committed backup belongs to; 0 if none does. Backups that cannot be read do not count.
///
/// # Errors
/// What the store answered.
pub async fn highest_epoch(store: &dyn ObjectStore, cluster: &ClusterName) -> PortResult<Epoch> {
    let known = unverified(store, cluster, &Part::All).await?;
    let epochs = known.backups.iter().filter_map(|backup| backup.epoch);
    Ok(epochs.max().unwrap_or_default())
}

/// The same without the results of verifications and without marks, which cost more reads per backup.
pub(in crate::backup) async fn unverified(
    store: &dyn ObjectStore,
    cluster: &ClusterName,
    part: &Part,
) -> PortResult<Catalogue> {
    let (layout, wanted, _) = chosen(store, cluster, part).await?;
    read_each(store, &layout, wanted, false).await
}

/// What was listed of the selected backups, and whether there are more.
async fn chosen(
    store: &dyn ObjectStore,
    cluster: &ClusterName,
    part: &Part,
) -> PortResult<(Layout, Vec<(BackupName, Found)>, bool)> {
    let layout = Layout::of(store, cluster);
    let prefix = match part {
        Part::Only(id) => layout.backup(id),
        Part::All | Part::After(..) => layout.base().to_owned(),
    };
    let mut wanted = committed(&layout, &store.list(&prefix).await?);
    let mut more = false;
    if let Part::After(after, most) = part {
        let after: Option<BackupName> = after.as_ref().and_then(|id| id.as_str().parse().ok());
        wanted.retain(|(name, _)| after.is_none_or(|after| *name > after));
        more = wanted.len() > *most;
        wanted.truncate(*most);
    }
    Ok((layout, wanted, more))
}

async fn read_each(
    store: &dyn ObjectStore,
    layout: &Layout,
    wanted: Vec<(BackupName, Found)>,
    details: bool,
) -> PortResult<Catalogue> {
    use futures::{StreamExt, TryStreamExt};
    let read = futures::stream::iter(wanted)
        .map(|(name, found)| read_all(store, layout, name, found, details))
        .buffered(AT_ONCE);
    let mut catalogue = Catalogue::default();
    let mut counted = Counted::default();
    for entry in read.try_collect::<Vec<_>>().await? {
        match entry {
            Ok(mut backup) => {
                if let Some(epoch) = backup.epoch {
                    backup.timeline = Some(counted.timeline(epoch, backup.timeline));
                }
                catalogue.backups.push(backup);
            }
            Err(unreadable) => catalogue.unreadable.push(unreadable),
        }
    }
    Ok(catalogue)
}

fn no_name(error: impl std::fmt::Display) -> PortError {
    PortError::Permanent(error.to_string())
}

/// The newest committed backup that can be read and is not dated after `now`. `now` is called after the
/// listing, so that a backup committed meanwhile is not dated after it.
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
    let newest = newest_of(store, &layout, &objects, now()).await?;
    Ok(newest.map(|backup| backup.summary))
}

/// The same, from a listing of all objects of the cluster.
pub(super) async fn newest_of(
    store: &dyn ObjectStore,
    layout: &Layout,
    objects: &[ObjectMeta],
    now: UnixMs,
) -> PortResult<Option<StoredBackup>> {
    const AFTER: &str = "it is dated after now, so a clock is or was wrong";
    let all = committed(layout, objects).into_iter();
    let (past, future): (Vec<_>, Vec<_>) = all.partition(|(name, _)| name.at() <= now);
    for (name, _) in future {
        tracing::warn!("backup {name} is passed over: {AFTER}");
    }
    for (name, found) in past.into_iter().rev() {
        match read(store, layout, name, &found).await? {
            Ok(backup) if backup.summary.at <= now => return Ok(Some(backup)),
            Ok(backup) => tracing::warn!("backup {} is passed over: {AFTER}", backup.summary.id),
            Err((id, why)) => tracing::warn!("backup {id} is passed over: {why}"),
        }
    }
    Ok(None)
}

/// Its commit marker, how far its increments lead, the result of its last verification, and its marks.
async fn read_all(
    store: &dyn ObjectStore,
    layout: &Layout,
    name: BackupName,
    found: Found,
    details: bool,
) -> PortResult<Result<StoredBackup, (BackupId, String)>> {
    let mut read = read(store, layout, name, &found).await?;
    if let Ok(backup) = &mut read {
        backup.covered = chain::covered(&found.increments, backup.summary.revision);
        if found.verified && details {
            match verification(store, layout, &backup.summary.id).await? {
                Ok(verified) => backup.verified = verified,
                Err(why) => backup.verify_unreadable = Some(why),
            }
        }
        if found.marks_bytes.is_some() && details {
            backup.marks = marks::shown(store, layout, &backup.summary.id).await?;
        }
    }
    Ok(read)
}

/// The result; the text says why the store refuses to return the object.
pub(super) async fn verification(
    store: &dyn ObjectStore,
    layout: &Layout,
    id: &BackupId,
) -> PortResult<Result<Option<Verified>, String>> {
    let text = match store.get_small(&layout.in_backup(id, VERIFICATION)).await {
        Ok(text) => text,
        Err(PortError::Permanent(why)) => return Ok(Err(why)),
        Err(error) => return Err(error),
    };
    Ok(Ok(text.and_then(|text| {
        Some(Verification::parse(id, &text)?.summary())
    })))
}

/// The planner's view of verifications, from a listing and at most one small read.
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
        let id = name.id().map_err(no_name)?;
        let verified = match verification(store, layout, &id).await? {
            Ok(verified) => verified,
            // Neither good nor unverified: an operator has to look.
            Err(why) => Some(Verified {
                at: name.at(),
                problems: vec![format!("the result of its verification cannot be read: {why}")],
            }),
        };
        view.last = verified.map(|verified| (id, verified));
    }
    Ok(view)
}

async fn read(
    store: &dyn ObjectStore,
    layout: &Layout,
    name: BackupName,
    found: &Found,
) -> PortResult<Result<StoredBackup, (BackupId, String)>> {
    let id = name.id().map_err(no_name)?;
    let marker = if found.native { MANIFEST } else { FOREIGN_META };
    let text = match store.get_small(&layout.in_backup(&id, marker)).await {
        Ok(text) => text,
        // The listing worked, so this concerns one object. A transient error stays an error.
        Err(PortError::Permanent(why)) => return Ok(Err((id, why))),
        Err(error) => return Err(error),
    };
    let Some(text) = text else {
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
            timeline: manifest.timeline,
            went_back: manifest
                .breaks
                .filter(|breaks| breaks.went_back)
                .map(|breaks| breaks.why),
            revision_at_most: manifest.revision_at_most,
            covered: manifest.revision,
            marks: Marks::default(),
            verified: None,
            verify_unreadable: None,
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
            timeline: None,
            went_back: None,
            revision_at_most: None,
            covered: Revision(0),
            marks: Marks::default(),
            verified: None,
            verify_unreadable: None,
        })
    };
    Ok(backup.map_err(|error| (id, format!("{marker}: {error}"))))
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests;
