//! Fetches a backup as the file that `etcdctl snapshot save` would have written, and checks it.

use std::fs::{self, File, Permissions};
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use tempfile::{Builder, NamedTempFile};

use crate::model::{BackupId, ClusterName, Revision};
use crate::ports::{ByteStream, ObjectStore, PortError, PortResult};

use super::error::{FetchError, write_failed};
use super::point::Point;
use super::replay::replay;
use super::room::Room;
use super::unpack::Unpacker;
use crate::backup::batch::{IDLE, next_batch};
use crate::backup::store::layout::{FOREIGN_META, Layout, MANIFEST, SNAPSHOT_GZIP, SNAPSHOT_ZSTD, expected};
use crate::backup::store::manifest::{Compression, ForeignMeta, Manifest};

const TEMPORARY: &str = ".fetch-";
/// The end of the name of a fetched snapshot.
const SNAPSHOT: &str = ".db";
/// The name of the stream in errors.
const DOWNLOAD: &str = "the download of the backup";

/// A checked snapshot on the local disk.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FetchedSnapshot {
    /// The backup.
    pub id: BackupId,
    /// `<dir>/<id>.db`, mode 0640.
    pub path: PathBuf,
    /// The last component of `path`.
    pub file_name: String,
    /// Its size in bytes, the 32-byte trailer included.
    pub size_bytes: u64,
    /// SHA-256 of the bbolt file, in hexadecimal.
    pub sha256: String,
    /// It holds at least this revision; 0 when the backup does not record it.
    pub revision: Revision,
    /// The etcd that wrote it.
    pub etcd_version: String,
    /// `backup.json`, when it is a backup of ours.
    pub manifest: Option<Manifest>,
}

/// Fetches a committed backup, or a point that its increments lead to, into `dir` as `<id>.db`. The file
/// exists only if the stream was whole, its hash matches its trailer, and both agree with `backup.json`.
///
/// # Errors
/// Permanent when there is no such backup, when it is damaged (nothing is left on the disk) or does not fit.
pub async fn fetch(
    store: &dyn ObjectStore,
    cluster: &ClusterName,
    id: &BackupId,
    dir: &Path,
) -> PortResult<FetchedSnapshot> {
    fetch_within(store, cluster, id, dir, Room::of_a_person()).await
}

/// [`fetch`], within the limits of `room`.
///
/// # Errors
/// As [`fetch`].
pub async fn fetch_within(
    store: &dyn ObjectStore,
    cluster: &ClusterName,
    id: &BackupId,
    dir: &Path,
    room: Room,
) -> PortResult<FetchedSnapshot> {
    Ok(fetch_checked(store, cluster, id, dir, room).await?)
}

/// The size of a backup's snapshot, decompressed, with its trailer; `None` if the backup does not record it.
pub(in crate::backup) async fn raw_size(
    store: &dyn ObjectStore,
    cluster: &ClusterName,
    id: &BackupId,
) -> Result<Option<u64>, FetchError> {
    let layout = Layout::of(store, cluster);
    Ok(marker(store, &layout, id).await?.raw_size())
}

/// [`fetch`] with an error that distinguishes a damaged backup from a failing store or disk.
pub(in crate::backup) async fn fetch_checked(
    store: &dyn ObjectStore,
    cluster: &ClusterName,
    id: &BackupId,
    dir: &Path,
    room: Room,
) -> Result<FetchedSnapshot, FetchError> {
    let layout = Layout::of(store, cluster);
    let point = Point::parse(id);
    let marker = marker(store, &layout, &point.backup).await?;
    let key = layout.in_backup(&point.backup, marker.object());
    let stream = store
        .get_expected(&key, expected(&point.backup, marker.encrypted()))
        .await?;
    let stream = stream.ok_or_else(|| damaged(store, &key, "it is not there, though it was committed"))?;

    let limit = room.limit(dir, marker.raw_size())?;
    let temporary = temporary(dir)?;
    let file = temporary.reopen().map_err(|error| write_failed(dir, &error))?;
    let unpacker =
        Unpacker::new(marker.compression(), file, limit).map_err(|error| write_failed(dir, &error))?;
    let (stored, unpacker) = pour(stream, unpacker)
        .await?
        .map_err(|error| unpack_failed(store, &key, &marker, dir, &error))?;
    let checked = unpacker
        .finish()
        .map_err(|error| unpack_failed(store, &key, &marker, dir, &error))?;
    let (file, size_bytes, sha256) = checked.map_err(|error| damaged(store, &key, &error.to_string()))?;
    if let Marker::Native(manifest) = &marker {
        let said = (
            manifest.stored_size_bytes,
            manifest.raw_size_bytes,
            manifest.sha256.as_str(),
        );
        if said != (stored, size_bytes, sha256.as_str()) {
            let why = format!("{MANIFEST} describes another snapshot than the one next to it");
            return Err(damaged(store, &key, &why));
        }
    }
    let (file, size_bytes, sha256) = match (point.until, &marker) {
        (None, _) => (file, size_bytes, sha256),
        (Some(until), Marker::Native(manifest)) => {
            let limit = room.growth(dir, size_bytes)?;
            let replayed = replay(store, &layout, manifest, until, file, limit).await?;
            (replayed.file, replayed.size_bytes, replayed.sha256)
        }
        (Some(_), Marker::Foreign(_)) => {
            let text = format!("{} has no increments", point.backup);
            return Err(PortError::Permanent(text).into());
        }
    };
    let file_name = format!("{id}{SNAPSHOT}");
    let path = dir.join(&file_name);
    settle(file, temporary, path.clone(), dir.to_owned()).await?;
    Ok(FetchedSnapshot {
        id: id.clone(),
        path,
        file_name,
        size_bytes,
        sha256,
        revision: point.until.unwrap_or_else(|| marker.revision()),
        etcd_version: marker.etcd_version().to_owned(),
        manifest: match marker {
            Marker::Native(manifest) => Some(*manifest),
            Marker::Foreign(_) => None,
        },
    })
}

/// Removes what earlier calls of [`fetch`] left in `dir`, whole or not. A directory that is not there is empty.
///
/// # Errors
/// If the directory cannot be read or a file cannot be removed.
pub async fn remove_fetched(dir: &Path) -> PortResult<()> {
    let dir = dir.to_owned();
    let is_ours = |name: &str| {
        let snapshot = name
            .strip_suffix(SNAPSHOT)
            .is_some_and(|id| BackupId::new(id).is_ok());
        snapshot || name.starts_with(TEMPORARY)
    };
    let work = move || -> io::Result<()> {
        let entries = match fs::read_dir(&dir) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
            entries => entries?,
        };
        for entry in entries {
            let entry = entry?;
            if is_ours(&entry.file_name().to_string_lossy()) {
                fs::remove_file(entry.path())?;
            }
        }
        Ok(())
    };
    let worked = tokio::task::spawn_blocking(work).await;
    let worked = worked.map_err(|error| PortError::Retryable(format!("the worker ended early: {error}")))?;
    worked.map_err(|error| PortError::Retryable(format!("cannot remove a fetched snapshot: {error}")))
}

enum Marker {
    Native(Box<Manifest>),
    Foreign(ForeignMeta),
}

impl Marker {
    fn compression(&self) -> Compression {
        match self {
            Self::Native(manifest) => manifest.compression,
            Self::Foreign(_) => Compression::Gzip,
        }
    }
    fn object(&self) -> &'static str {
        match self.compression() {
            Compression::Zstd => SNAPSHOT_ZSTD,
            Compression::Gzip => SNAPSHOT_GZIP,
        }
    }
    /// Whether it states that its data is encrypted; etcd-manager never encrypts.
    fn encrypted(&self) -> bool {
        matches!(self, Self::Native(manifest) if manifest.encryption.is_some())
    }
    fn raw_size(&self) -> Option<u64> {
        match self {
            Self::Native(manifest) => Some(manifest.raw_size_bytes),
            Self::Foreign(_) => None,
        }
    }
    fn revision(&self) -> Revision {
        match self {
            Self::Native(manifest) => manifest.revision,
            Self::Foreign(_) => Revision(0),
        }
    }
    fn etcd_version(&self) -> &str {
        match self {
            Self::Native(manifest) => &manifest.etcd_version,
            Self::Foreign(meta) => &meta.etcd_version,
        }
    }
}

async fn marker(store: &dyn ObjectStore, layout: &Layout, id: &BackupId) -> Result<Marker, FetchError> {
    let key = layout.in_backup(id, MANIFEST);
    if let Some(text) = store.get_small(&key).await? {
        let manifest = Manifest::parse(id, &text);
        return match manifest {
            Ok(manifest) => Ok(Marker::Native(Box::new(manifest))),
            Err(error) => Err(damaged(store, &key, &error.to_string())),
        };
    }
    let key = layout.in_backup(id, FOREIGN_META);
    if let Some(text) = store.get_small(&key).await? {
        let meta = ForeignMeta::parse(&text);
        return meta
            .map(Marker::Foreign)
            .map_err(|error| damaged(store, &key, &error.to_string()));
    }
    let text = format!(
        "{} has no committed backup {id}; `etcd-agent backup list` shows those it has",
        store.describe()
    );
    Err(PortError::Permanent(text).into())
}

/// Downloads and unpacks concurrently, one batch each. Returns the number of stored bytes, or why they cannot
/// be unpacked.
async fn pour(mut stream: ByteStream, mut unpacker: Unpacker) -> PortResult<io::Result<(u64, Unpacker)>> {
    let mut stored = 0;
    let mut batch = next_batch(&mut stream, DOWNLOAD, IDLE).await?;
    while !batch.is_empty() {
        stored += batch.iter().map(|chunk| chunk.len() as u64).sum::<u64>();
        let working = tokio::task::spawn_blocking(move || {
            batch
                .iter()
                .try_for_each(|chunk| unpacker.push(chunk))
                .map(|()| unpacker)
        });
        let (worked, next) = tokio::join!(working, next_batch(&mut stream, DOWNLOAD, IDLE));
        let worked = worked
            .map_err(|error| PortError::Retryable(format!("the fetch's worker ended early: {error}")))?;
        match worked {
            Ok(again) => unpacker = again,
            Err(error) => return Ok(Err(error)),
        }
        batch = next?;
    }
    Ok(Ok((stored, unpacker)))
}

/// A temporary file in `dir`; those that a killed fetch left are removed first (one restore runs at a time).
fn temporary(dir: &Path) -> PortResult<NamedTempFile> {
    for entry in fs::read_dir(dir)
        .map_err(|error| write_failed(dir, &error))?
        .flatten()
    {
        if entry.file_name().to_string_lossy().starts_with(TEMPORARY) {
            let _ = fs::remove_file(entry.path());
        }
    }
    Builder::new()
        .prefix(TEMPORARY)
        .tempfile_in(dir)
        .map_err(|error| write_failed(dir, &error))
}

async fn settle(file: File, temporary: NamedTempFile, path: PathBuf, dir: PathBuf) -> PortResult<()> {
    let work = move || -> io::Result<()> {
        // etcd's user reads it through the directory's group.
        file.set_permissions(Permissions::from_mode(0o640))?;
        file.sync_all()?;
        temporary.persist(&path).map_err(|error| error.error)?;
        File::open(&dir)?.sync_all()
    };
    let worked = tokio::task::spawn_blocking(work).await;
    let worked =
        worked.map_err(|error| PortError::Retryable(format!("the fetch's worker ended early: {error}")))?;
    worked.map_err(|error| PortError::Retryable(format!("cannot write the fetched snapshot: {error}")))
}

fn damaged(store: &dyn ObjectStore, key: &str, why: &str) -> FetchError {
    FetchError::Damaged(format!("{}: {key} is damaged: {why}", store.describe()))
}

fn unpack_failed(
    store: &dyn ObjectStore,
    key: &str,
    marker: &Marker,
    dir: &Path,
    error: &io::Error,
) -> FetchError {
    match error.kind() {
        // Its size is not recorded, so this disk may be too small for it. That says nothing about the backup.
        io::ErrorKind::FileTooLarge if marker.raw_size().is_none() => PortError::Permanent(format!(
            "{}: {key} does not fit into {}: {error}; make room there",
            store.describe(),
            dir.display()
        ))
        .into(),
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => {
            PortError::Permanent(format!("cannot write the fetched snapshot: {error}; make room")).into()
        }
        io::ErrorKind::UnexpectedEof => damaged(store, key, "it is cut off"),
        _ => damaged(store, key, &error.to_string()),
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests;
