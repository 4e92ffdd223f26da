//! The timeline of each full backup in the store.

use std::collections::BTreeMap;

use futures::{StreamExt, TryStreamExt};

use crate::model::{BackupId, ClusterName, Epoch};
use crate::ports::{ObjectMeta, ObjectStore, PortError, PortResult};

use super::layout::{Layout, MANIFEST};
use super::manifest::Manifest;

/// Commit markers read at a time.
const AT_ONCE: usize = 8;

/// Whether this full belongs to the current history, as far as the store records it: no timeline follows its
/// own.
///
/// # Errors
/// What the store answered.
pub(in crate::backup) async fn is_living(
    store: &dyn ObjectStore,
    cluster: &ClusterName,
    full: &Manifest,
) -> PortResult<bool> {
    let layout = Layout::of(store, cluster);
    let objects = store.list(layout.base()).await?;
    let numbered = numbered(store, &layout, &objects, full.epoch).await?;
    let own = numbered.iter().find(|(_, other)| other.id == full.id);
    Ok(own.is_none_or(|(own, _)| numbered.iter().all(|(timeline, _)| timeline <= own)))
}

/// Assigns timelines to fulls in the order of their names. A full of an older agent without timelines
/// continues the timeline of the full before it.
#[derive(Debug, Default)]
pub(super) struct Counted(BTreeMap<Epoch, u64>);

impl Counted {
    /// The timeline of the next full; `said` is the number in its manifest.
    pub(in crate::backup) fn timeline(&mut self, epoch: Epoch, said: Option<u64>) -> u64 {
        let last = self.0.entry(epoch).or_default();
        *last = said.unwrap_or(*last);
        *last
    }
}

/// The readable native fulls of an epoch, each with its timeline, in the order of their names.
pub(in crate::backup) async fn numbered(
    store: &dyn ObjectStore,
    layout: &Layout,
    objects: &[ObjectMeta],
    epoch: Epoch,
) -> PortResult<Vec<(u64, Manifest)>> {
    let named = objects
        .iter()
        .filter_map(|object| layout.split(&object.key))
        .filter(|(_, file)| *file == MANIFEST)
        .filter_map(|(name, _)| name.id().ok());
    let mut ids: Vec<BackupId> = named.collect();
    ids.sort();
    let read = futures::stream::iter(ids)
        .map(|id| async move {
            match store.get_small(&layout.in_backup(&id, MANIFEST)).await {
                Ok(text) => Ok(text.and_then(|text| Manifest::parse(&id, &text).ok())),
                // One unreadable object must not prevent a backup.
                Err(PortError::Permanent(why)) => {
                    tracing::debug!("the timeline of {id} is not known: {why}");
                    Ok(None)
                }
                Err(error) => Err(error),
            }
        })
        .buffered(AT_ONCE);
    let mut counted = Counted::default();
    let fulls = read.try_collect::<Vec<_>>().await?.into_iter().flatten();
    let of_epoch = fulls.filter(|full| full.epoch == epoch);
    Ok(of_epoch
        .map(|full| (counted.timeline(full.epoch, full.timeline), full))
        .collect())
}
