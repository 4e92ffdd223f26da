//! Removes backups from the store: only objects that an agent writes. A claim comes first, then the commit
//! marker goes, so that an interrupted removal leaves no backup, and the marks with the claim go last.

use std::time::Duration;

use crate::model::{BackupId, ClusterName, UnixMs};
use crate::ports::{ObjectStore, PortError, PortResult};

use super::chain::parse_name;
use super::layout::{
    FOREIGN_META, INCREMENTS, Layout, MANIFEST, MARKS, SNAPSHOT_GZIP, SNAPSHOT_ZSTD, VERIFICATION, is_marker,
};
use super::listing::leftovers;
use super::marks::{self, Call, Stays};

/// An upload that is not committed after this long is abandoned: the agent that began it has stopped.
const ABANDONED_AFTER: Duration = Duration::from_hours(24);
/// After this many refusals one after the other the rest of a run is not tried: the agent has no right to
/// delete.
const REFUSED_AT_MOST: usize = 3;

/// The result of a prune.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Pruned {
    /// Removed.
    pub removed: Vec<BackupId>,
    /// The store refuses to delete these (object lock, or no permission): they stay whole.
    pub refused: Vec<(BackupId, String)>,
    /// These stay although retention had decided otherwise: an operator ordered to keep them, their marks are
    /// unknown, or a restore needs them.
    pub kept: Vec<(BackupId, String)>,
    /// Uploads that were never committed, and were removed.
    pub abandoned: Vec<BackupId>,
}

impl Pruned {
    /// True if anything was removed.
    pub fn changed(&self) -> bool {
        !self.removed.is_empty() || !self.abandoned.is_empty()
    }

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
        if let Some((id, why)) = self.kept.first() {
            parts.push(format!("{} kept by an order ({id}: {why})", self.kept.len()));
        }
        parts.join(", ")
    }
}

/// The outcome of removing one backup.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Removed {
    /// It is gone, by this removal.
    Done,
    /// It was gone before.
    Gone,
    /// The store refuses to delete it. It stays whole.
    Refused(String),
    /// It is kept, or may be: the text says why. It stays whole.
    Kept(String),
}

/// Removes these backups, and uploads that were begun more than a day ago and never committed. `call` is asked
/// before each of them: a run may take hours, and a claim holds for one.
///
/// # Errors
/// As [`Pruning::remove`] and [`Pruning::finish`].
pub async fn remove(
    store: &dyn ObjectStore,
    cluster: &ClusterName,
    backups: &[BackupId],
    call: impl Fn() -> Call,
) -> PortResult<Pruned> {
    let mut pruning = Pruning::begin(store, cluster);
    for id in backups {
        pruning.remove(id, &call()).await?;
    }
    pruning.finish(call().now).await
}

/// A prune under way.
pub struct Pruning<'a> {
    store: &'a dyn ObjectStore,
    layout: Layout,
    pruned: Pruned,
    refusals: usize,
}

impl<'a> Pruning<'a> {
    /// Nothing is removed yet.
    pub fn begin(store: &'a dyn ObjectStore, cluster: &ClusterName) -> Self {
        Self {
            store,
            layout: Layout::of(store, cluster),
            pruned: Pruned::default(),
            refusals: 0,
        }
    }

    /// Removes a backup.
    ///
    /// # Errors
    /// What the store answered. What was removed until then stays removed, and everything else is unchanged. A
    /// store that *refuses* to delete is no error: see [`Pruned::refused`].
    pub async fn remove(&mut self, id: &BackupId, call: &Call) -> PortResult<()> {
        if self.refusals >= REFUSED_AT_MOST {
            let why = format!("not tried: the store refused {REFUSED_AT_MOST} others one after the other");
            self.pruned.refused.push((id.clone(), why));
            return Ok(());
        }
        match remove_one(self.store, &self.layout, id, call).await? {
            Removed::Done | Removed::Gone => self.pruned.removed.push(id.clone()),
            Removed::Kept(why) => self.keep(id, why),
            Removed::Refused(why) => {
                self.pruned.refused.push((id.clone(), why));
                self.refusals += 1;
                return Ok(());
            }
        }
        self.refusals = 0;
        Ok(())
    }

    /// Notes that a backup stays, and why.
    pub fn keep(&mut self, id: &BackupId, why: String) {
        self.pruned.kept.push((id.clone(), why));
    }

    /// Removes uploads that were begun more than a day before `now` and never committed.
    ///
    /// # Errors
    /// What the store answered.
    pub async fn finish(mut self, now: UnixMs) -> PortResult<Pruned> {
        for name in leftovers(&self.layout, &self.store.list(self.layout.base()).await?) {
            if now.since(name.at()) < ABANDONED_AFTER {
                continue;
            }
            let id = name
                .id()
                .map_err(|error| PortError::Permanent(error.to_string()))?;
            // A locked object stays. It is no longer part of a backup.
            if sweep(self.store, &self.layout, &id).await? {
                self.pruned.abandoned.push(id);
            }
        }
        Ok(self.pruned)
    }
}

/// Removes one backup by its name.
///
/// # Errors
/// What the store answered. If the commit marker is gone by then, no backup is left, and the next [`remove`]
/// removes the rest.
pub async fn remove_named(
    store: &dyn ObjectStore,
    cluster: &ClusterName,
    id: &BackupId,
    call: &Call,
) -> PortResult<Removed> {
    remove_one(store, &Layout::of(store, cluster), id, call).await
}

async fn remove_one(
    store: &dyn ObjectStore,
    layout: &Layout,
    id: &BackupId,
    call: &Call,
) -> PortResult<Removed> {
    let keys = own_keys(store, layout, id).await?;
    let marks_key = layout.in_backup(id, MARKS);
    let (markers, rest): (Vec<String>, Vec<String>) = keys
        .into_iter()
        .partition(|key| layout.split(key).is_some_and(|(_, file)| is_marker(file)));
    if markers.is_empty() {
        // Without a marker it is an upload under way, unless a removal was interrupted.
        if let Ok(Some(marks)) = marks::read(store, layout, id).await?
            && marks.removal.is_some()
        {
            delete(store, rest).await?;
        }
        return Ok(Removed::Gone);
    }
    match marks::claim(store, layout, id, call).await? {
        Ok(()) => {}
        Err(Stays::Kept(why)) => return Ok(Removed::Kept(why)),
        Err(Stays::Refused(why)) => return Ok(Removed::Refused(why)),
    }
    if let Some(why) = delete(store, markers).await? {
        marks::release(store, layout, id, call).await;
        return Ok(Removed::Refused(why));
    }
    // The claim wrote the marks after the listing. A locked object stays: it is no longer part of a backup.
    let rest = rest.into_iter().filter(|key| *key != marks_key);
    if let Some(why) = delete(store, rest.chain([marks_key.clone()]).collect()).await? {
        tracing::warn!("objects of {id}, which is no backup any more, stay: {why}");
    }
    Ok(Removed::Done)
}

/// Removes what is left of a backup without a commit marker; false if something stays.
async fn sweep(store: &dyn ObjectStore, layout: &Layout, id: &BackupId) -> PortResult<bool> {
    // A listing may lack the marker of a backup that somebody wants to keep.
    match marks::read(store, layout, id).await? {
        Ok(marks) if marks.as_ref().is_none_or(|marks| marks.kept.is_none()) => {}
        Ok(_) | Err(_) => {
            tracing::warn!("{id} has no commit marker and is kept by an operator's order: it is left alone");
            return Ok(false);
        }
    }
    Ok(delete(store, own_keys(store, layout, id).await?).await?.is_none())
}

/// Deletes these objects; the text says why the store refused one. The others are not tried then.
async fn delete(store: &dyn ObjectStore, keys: Vec<String>) -> PortResult<Option<String>> {
    for key in keys {
        match store.delete(&key).await {
            Ok(()) => {}
            Err(PortError::Permanent(why)) => return Ok(Some(why)),
            Err(error) => return Err(error),
        }
    }
    Ok(None)
}

/// The objects of a backup that an agent writes, in the order in which they are deleted.
async fn own_keys(store: &dyn ObjectStore, layout: &Layout, id: &BackupId) -> PortResult<Vec<String>> {
    let prefix = layout.backup(id);
    let mut keys: Vec<String> = store
        .list(&prefix)
        .await?
        .into_iter()
        .map(|object| object.key)
        .filter(|key| key.strip_prefix(&prefix).is_some_and(is_ours))
        .collect();
    // etcd-manager's marker first: if ours were removed first, our backup would look like one of
    // etcd-manager's. The marks last: they say that the rest is being removed.
    keys.sort_by_key(|key| match key.strip_prefix(&prefix) {
        Some(FOREIGN_META) => 0,
        Some(MANIFEST) => 1,
        Some(MARKS) => 3,
        _ => 2,
    });
    Ok(keys)
}

/// The objects of a backup that an agent writes. Anything else next to them belongs to others.
fn is_ours(file: &str) -> bool {
    let increment = file.strip_prefix(INCREMENTS).and_then(parse_name);
    let named = matches!(
        file,
        MANIFEST | FOREIGN_META | SNAPSHOT_ZSTD | SNAPSHOT_GZIP | VERIFICATION | MARKS
    );
    named || increment.is_some()
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests;
