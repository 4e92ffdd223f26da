//! The files of each backup, as a listing of the store shows them.

use std::collections::BTreeMap;

use super::chain::{Range, parse_name};
use super::layout::{
    BackupName, FOREIGN_META, INCREMENTS, Layout, MANIFEST, MARKS, SNAPSHOT_GZIP, SNAPSHOT_ZSTD, VERIFICATION,
};
use crate::ports::ObjectMeta;

/// What was listed of one backup.
#[derive(Debug, Clone, Default)]
pub(super) struct Found {
    pub(super) native: bool,
    pub(super) foreign: bool,
    pub(super) zstd_bytes: Option<u64>,
    pub(super) gzip_bytes: Option<u64>,
    pub(super) verified: bool,
    pub(super) marks_bytes: Option<u64>,
    pub(super) increments: Vec<Range>,
}

/// Those with a commit marker, oldest first.
pub(super) fn committed(layout: &Layout, objects: &[ObjectMeta]) -> Vec<(BackupName, Found)> {
    let mut found = found(layout, objects);
    found.retain(|_, f| f.native || f.foreign);
    found.into_iter().collect()
}

/// Snapshots of ours that were never committed, oldest first: in progress, or abandoned. Also increments
/// whose full was removed, or the result of its verification, stored by an agent that did not know this yet,
/// and marks that a removal left.
pub(super) fn leftovers(layout: &Layout, objects: &[ObjectMeta]) -> Vec<BackupName> {
    let found = found(layout, objects);
    let left = found.into_iter().filter(|(_, f)| {
        !f.native
            && !f.foreign
            && (f.zstd_bytes.is_some() || f.verified || f.marks_bytes.is_some() || !f.increments.is_empty())
    });
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
            MARKS => entry.marks_bytes = Some(object.size_bytes),
            other => {
                let increment = other.strip_prefix(INCREMENTS).and_then(parse_name);
                let range = increment.map(|(first, last)| Range { first, last });
                entry.increments.extend(range);
            }
        }
    }
    for entry in found.values_mut() {
        entry.increments.sort_unstable();
    }
    found
}
