//! Removes backups from the store: only objects that an agent writes, and the commit marker first, so that an
//! interrupted removal leaves no backup.

use std::time::Duration;

use crate::model::{BackupId, ClusterName, UnixMs};
use crate::ports::{ObjectStore, PortError, PortResult};

use super::chain::parse_name;
use super::layout::{FOREIGN_META, INCREMENTS, Layout, MANIFEST, SNAPSHOT_GZIP, SNAPSHOT_ZSTD, VERIFICATION};
use super::listing::leftovers;

/// An upload that is not committed after this long is abandoned: the agent that began it has stopped.
const ABANDONED_AFTER: Duration = Duration::from_hours(24);

/// The result of a prune.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Pruned {
    /// Removed.
    pub removed: Vec<BackupId>,
    /// The store refuses to delete these (object lock, or no permission): they stay whole.
    pub refused: Vec<(BackupId, String)>,
    /// Uploads that were never committed, and were removed.
    pub abandoned: Vec<BackupId>,
}

impl Pruned {
    /// One line for people.
    pub fn text(&self) -> String {
        let mut parts = vec![format!("{} backups removed", self.removed.len())];
        if !self.abandoned.is_empty() {
            let count = self.abandoned.len();
            parts.push(format!("{count} uncommitted uploads removed"));
        }
        if let Some((id, why)) = self.refused.first() {
            parts.push(format!("{} kept by the store ({id}: {why})", self.refused.len()));
        }
        parts.join(", ")
    }
}

/// Removes these backups, and uploads that were begun more than a day before `now` and never committed.
///
/// # Errors
/// What the store answered. What was removed until then stays removed, and everything else is unchanged. A
/// store that *refuses* to delete is no error: see [`Pruned::refused`].
pub async fn remove(
    store: &dyn ObjectStore,
    cluster: &ClusterName,
    backups: &[BackupId],
    now: UnixMs,
) -> PortResult<Pruned> {
    let layout = Layout::of(store, cluster);
    let mut pruned = Pruned::default();
    for id in backups {
        match remove_one(store, &layout, id).await? {
            None => pruned.removed.push(id.clone()),
            Some(why) => pruned.refused.push((id.clone(), why)),
        }
    }
    for name in leftovers(&layout, &store.list(layout.base()).await?) {
        if now.since(name.at()) < ABANDONED_AFTER {
            continue;
        }
        let id = name
            .id()
            .map_err(|error| PortError::Permanent(error.to_string()))?;
        // A locked object stays. It is no longer part of a backup.
        if remove_one(store, &layout, &id).await?.is_none() {
            pruned.abandoned.push(id);
        }
    }
    Ok(pruned)
}

/// Removes one; the text says why the store refused to.
async fn remove_one(store: &dyn ObjectStore, layout: &Layout, id: &BackupId) -> PortResult<Option<String>> {
    let prefix = layout.backup(id);
    let mut keys: Vec<String> = store
        .list(&prefix)
        .await?
        .into_iter()
        .map(|object| object.key)
        .filter(|key| key.strip_prefix(&prefix).is_some_and(is_ours))
        .collect();
    // etcd-manager's marker first: if ours were removed first, our backup would look like one of
    // etcd-manager's.
    let markers = [FOREIGN_META, MANIFEST].map(|file| layout.in_backup(id, file));
    keys.sort_by_key(|key| {
        markers
            .iter()
            .position(|marker| marker == key)
            .unwrap_or(markers.len())
    });
    for key in keys {
        match store.delete(&key).await {
            Ok(()) => {}
            Err(PortError::Permanent(why)) => return Ok(Some(why)),
            Err(error) => return Err(error),
        }
    }
    Ok(None)
}

/// The objects of a backup that an agent writes. Anything else next to them belongs to others.
fn is_ours(file: &str) -> bool {
    let increment = file.strip_prefix(INCREMENTS).and_then(parse_name);
    let named = matches!(
        file,
        MANIFEST | FOREIGN_META | SNAPSHOT_ZSTD | SNAPSHOT_GZIP | VERIFICATION
    );
    named || increment.is_some()
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests;
