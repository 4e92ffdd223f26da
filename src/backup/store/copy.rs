//! The second store: every committed backup is copied there byte for byte, its commit marker last.

use std::collections::{BTreeMap, BTreeSet};

use bytes::Bytes;
use futures::TryStreamExt;

use crate::model::{BackupId, ClusterName, Revision};
use crate::ports::{ObjectMeta, ObjectStore, PortError, PortResult};

use super::chain::{self, Range, parse_name};
use super::layout::{BackupName, FOREIGN_META, INCREMENTS, Layout, MANIFEST, MARKS, VERIFICATION, is_marker};
use super::manifest::Manifest;
use super::marks::MarksFile;

/// What a round of copying did.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Copied {
    /// The backups that were not, or not wholly, in the second store before.
    pub backups: Vec<BackupId>,
    /// The newest backup that is in both now.
    pub newest: Option<BackupId>,
    /// The newest revision that its increments lead to there; `None` if it has no revision.
    pub covered: Option<Revision>,
    /// How much was copied, in bytes.
    pub bytes: u64,
    /// Those that were not copied, and why: the first store refuses to return them, or they differ from what
    /// is in the second store.
    pub refused: Vec<(BackupId, String)>,
}

impl Copied {
    /// One line on what could not be copied, when there is something.
    pub fn problem(&self) -> Option<String> {
        let (id, why) = self.refused.first()?;
        let count = self.refused.len();
        Some(format!("{count} backups are not copied ({id}: {why})"))
    }
}

/// Copies what the second store lacks of the committed backups of the first, the newest first. An object with
/// the same name and size counts as copied, because backups are never changed; only the marks of operators
/// are compared. Nothing is ever removed, and an object of a backup that is committed there is not replaced by
/// one of another size, because one of the two is damaged. The records of epochs are not copied: one store
/// alone arbitrates. A backup that cannot be copied does not block the others.
///
/// # Errors
/// What one of the stores answered. What was copied until then stays, and counts for the next round.
pub async fn copy_missing(
    from: &dyn ObjectStore,
    to: &dyn ObjectStore,
    cluster: &ClusterName,
) -> PortResult<Copied> {
    let (here, there) = (Layout::of(from, cluster), Layout::of(to, cluster));
    let wanted = committed(&here, &from.list(here.base()).await?);
    let have: BTreeMap<String, u64> = to
        .list(there.base())
        .await?
        .into_iter()
        .map(|object| (object.key, object.size_bytes))
        .collect();
    let mut copied = Copied::default();
    for (name, mut files) in wanted.into_iter().rev() {
        let id = name
            .id()
            .map_err(|error| PortError::Permanent(error.to_string()))?;
        let ranges: Vec<Range> = files
            .iter()
            .filter_map(|(file, _)| increment_range(file))
            .collect();
        let marked = files.iter().any(|(file, _)| file == MARKS);
        files.retain(|(file, _)| file != MARKS);
        files.retain(|(file, size)| have.get(&there.in_backup(&id, file)) != Some(size));
        let there_is = |file: &str| have.get(&there.in_backup(&id, file)).copied();
        let was_committed = [MANIFEST, FOREIGN_META]
            .iter()
            .any(|marker| there_is(marker).is_some());
        let differs = |(file, size): &(String, u64)| {
            let there = there_is(file).filter(|_| was_committed);
            differing(file, *size, there)
        };
        let damaged = files.iter().find_map(differs);
        files.retain(|file| differs(file).is_none());
        let mut whole = damaged.is_none();
        copied.refused.extend(damaged.map(|why| (id.clone(), why)));
        // The marker commits, so it is copied last. etcd-manager's comes after ours: alone it would make our
        // backup look like one of etcd-manager's.
        files.sort_by_key(|(file, _)| (is_marker(file), file == FOREIGN_META));
        let lacked = !files.is_empty();
        for (file, _) in files {
            let (source, target) = (here.in_backup(&id, &file), there.in_backup(&id, &file));
            match copy(from, to, &source, &target).await? {
                Source::Copied(bytes) => copied.bytes += bytes,
                // Retention has removed it; the rest is no longer a backup.
                Source::Gone => {
                    whole = false;
                    break;
                }
                Source::Refused(why) => {
                    copied.refused.push((id.clone(), why));
                    whole = false;
                    break;
                }
            }
        }
        if whole && copied.newest.is_none() {
            copied.newest = Some(id.clone());
            copied.covered = covered(from, &here, &id, ranges).await?;
        }
        if marked && (whole || was_committed) {
            let has = have.contains_key(&there.in_backup(&id, MARKS));
            match copy_marks((from, &here), (to, &there), &id, has).await? {
                Source::Copied(bytes) => copied.bytes += bytes,
                Source::Gone => {}
                Source::Refused(why) => copied.refused.push((id.clone(), why)),
            }
        }
        if whole && lacked {
            copied.backups.push(id);
        }
    }
    Ok(copied)
}

/// Why an object must not replace the one in the second store, where its backup is committed and the object has
/// `there` bytes. The result of a verification may change, and an empty object holds nothing that could be lost.
fn differing(file: &str, size: u64, there: Option<u64>) -> Option<String> {
    let there = there.filter(|there| *there > 0 && file != VERIFICATION)?;
    Some(format!(
        "{file} has {size} bytes, and {there} in the second store: one of them is damaged; `etcd-agent backup verify` \
         tells whether it is the first"
    ))
}

/// Which revisions a file is an increment of, encrypted or not.
fn increment_range(file: &str) -> Option<Range> {
    let name = file.strip_prefix(INCREMENTS)?;
    let (first, last) = parse_name(name.strip_suffix(".age").unwrap_or(name))?;
    Some(Range { first, last })
}

/// How far a backup leads with these increments.
async fn covered(
    store: &dyn ObjectStore,
    layout: &Layout,
    id: &BackupId,
    mut ranges: Vec<Range>,
) -> PortResult<Option<Revision>> {
    let text = store.get_small(&layout.in_backup(id, MANIFEST)).await?;
    let manifest = text.and_then(|text| Manifest::parse(id, &text).ok());
    ranges.sort_unstable();
    Ok(manifest.map(|manifest| chain::covered(&ranges, manifest.revision)))
}

/// The files of each committed backup, with their sizes.
fn committed(layout: &Layout, objects: &[ObjectMeta]) -> BTreeMap<BackupName, Vec<(String, u64)>> {
    let mut found: BTreeMap<BackupName, Vec<(String, u64)>> = BTreeMap::new();
    let mut marked = BTreeSet::new();
    for object in objects {
        if let Some((name, file)) = layout.split(&object.key) {
            if is_marker(file) {
                marked.insert(name);
            }
            let files = found.entry(name).or_default();
            files.push((file.to_owned(), object.size_bytes));
        }
    }
    found.retain(|name, _| marked.contains(name));
    found
}

/// The outcome of copying one object.
enum Source {
    Copied(u64),
    /// It was removed from the first store.
    Gone,
    /// The first store refuses to return it, permanently.
    Refused(String),
}

/// The marks of a backup, unless the second store `has` the same. Their size may stay the same when they
/// change.
async fn copy_marks(
    (from, here): (&dyn ObjectStore, &Layout),
    (to, there): (&dyn ObjectStore, &Layout),
    id: &BackupId,
    has: bool,
) -> PortResult<Source> {
    let text = match from.get_small(&here.in_backup(id, MARKS)).await {
        Ok(Some(text)) => text,
        Ok(None) => return Ok(Source::Gone),
        Err(PortError::Permanent(why)) => return Ok(Source::Refused(why)),
        Err(error) => return Err(error),
    };
    // Marks that cannot be understood keep the backup, so they are copied as they are.
    let wanted = match MarksFile::parse(id, &text).map(MarksFile::without_claim) {
        Ok(marks) if marks.is_empty() && !has => return Ok(Source::Copied(0)),
        Ok(marks) => marks.to_json().map_or(text, Bytes::from),
        Err(_) => text,
    };
    let target = there.in_backup(id, MARKS);
    let found = if has {
        to.get_small(&target).await
    } else {
        Ok(None)
    };
    match found {
        Ok(found) if found.as_ref() == Some(&wanted) => return Ok(Source::Copied(0)),
        Ok(_) | Err(PortError::Permanent(_)) => {}
        Err(error) => return Err(error),
    }
    let bytes = wanted.len() as u64;
    to.put(&target, wanted).await?;
    Ok(Source::Copied(bytes))
}

/// One object, in bounded memory.
async fn copy(
    from: &dyn ObjectStore,
    to: &dyn ObjectStore,
    source: &str,
    target: &str,
) -> PortResult<Source> {
    let mut stream = match from.get(source).await {
        Ok(Some(stream)) => stream,
        Ok(None) => return Ok(Source::Gone),
        Err(PortError::Permanent(why)) => return Ok(Source::Refused(why)),
        Err(error) => return Err(error),
    };
    let mut upload = to.upload(target).await?;
    let mut bytes = 0;
    let poured: PortResult<()> = async {
        while let Some(chunk) = stream.try_next().await? {
            bytes += chunk.len() as u64;
            upload.write(chunk).await?;
        }
        Ok(())
    }
    .await;
    if let Err(error) = poured {
        if let Err(more) = upload.abort().await {
            tracing::warn!("the upload of the copy {target} could not be thrown away: {more}");
        }
        return Err(error);
    }
    upload.complete().await?;
    Ok(Source::Copied(bytes))
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests;
