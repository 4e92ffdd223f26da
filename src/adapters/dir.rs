//! An object store in a directory: `file:///path`.
//!
//! Every object appears whole or not at all: temporary file, fsync, rename, fsync of the directory. Temporary
//! files are `.tmp-*` in the root directory, and `list` never returns them.

mod files;

use std::fs::{self, File, Permissions, TryLockError};
use std::io::{self, Read, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use futures::stream;
use tempfile::NamedTempFile;

use crate::model::digest;
use crate::ports::{
    ByteStream, Created, ObjectMeta, ObjectStore, PortError, PortResult, Replaced, Tag, Upload,
};

use files::{blocking, failed, if_present, make_dirs, shared, sync_dir, unix_ms};

const TEMPORARY: &str = ".tmp-";
/// The lock file. A writer holds the lock while it compares and replaces an object. `list` never returns the
/// file, and `sweep` never removes it.
const LOCK: &str = ".tmp-lock";
const LOCK_TRIES: u32 = 100;
const LOCK_PAUSE: Duration = Duration::from_millis(50);
const STALE_AFTER: Duration = Duration::from_hours(24);
const SMALL_BYTES: u64 = 1024 * 1024;
const CHUNK_BYTES: usize = 1024 * 1024;
/// An upload is synced each time this much is written: on a slow disk a single sync of a whole snapshot takes
/// longer than the deadline.
const SYNC_BYTES: u64 = 64 * 1024 * 1024;
/// A store in a directory. The directory must exist: a missing mount is an error, not an empty store.
#[derive(Debug, Clone)]
pub struct DirStore {
    root: PathBuf,
}

impl DirStore {
    /// The store at `root`.
    pub fn new(root: impl Into<PathBuf>) -> Self {
        Self { root: root.into() }
    }

    fn file(&self, key: &str) -> PortResult<PathBuf> {
        let sound = |part: &str| !part.is_empty() && part != "." && part != ".." && !part.contains('\0');
        if key.split('/').all(sound) && !key.starts_with(TEMPORARY) {
            return Ok(self.root.join(key));
        }
        Err(PortError::Permanent(format!("{key:?} is not a valid store key")))
    }

    fn opened(&self, key: &str) -> PortResult<Option<File>> {
        let path = self.file(key)?;
        match File::open(&path) {
            Ok(file) => Ok(Some(file)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => self.present().map(|()| None),
            Err(error) => Err(failed("read", &path, &error)),
        }
    }

    /// Fails if the store's directory does not exist. An object counts as absent only if that directory
    /// exists.
    fn present(&self) -> PortResult<()> {
        fs::metadata(&self.root)
            .map(|_| ())
            .map_err(|error| failed("open", &self.root, &error))
    }

    fn temporary(&self) -> PortResult<NamedTempFile> {
        let made = tempfile::Builder::new().prefix(TEMPORARY).tempfile_in(&self.root);
        made.and_then(|file| {
            self.share(file.as_file())?;
            Ok(file)
        })
        .map_err(|error| failed("write in", &self.root, &error))
    }

    /// Lets the group of the store's directory read and replace a file, if files in the directory inherit its
    /// group (mode 2770): the agents of other hosts have other user IDs. Otherwise only the agent's own user
    /// has access.
    fn share(&self, file: &File) -> io::Result<()> {
        if !shared(&self.root)? {
            return Ok(());
        }
        file.set_permissions(Permissions::from_mode(0o660))
    }

    fn written(&self, body: &[u8]) -> PortResult<NamedTempFile> {
        let mut file = self.temporary()?;
        let result = file.write_all(body).and_then(|()| file.as_file().sync_all());
        result.map_err(|error| failed("write in", &self.root, &error))?;
        Ok(file)
    }

    /// Renames a complete temporary file. `Ok(false)`: the object exists and `replace` is not set.
    fn settle(&self, mut file: NamedTempFile, path: &Path, replace: bool) -> PortResult<bool> {
        let parent = path.parent().unwrap_or(&self.root);
        // `delete` may remove the directory concurrently when it becomes empty, so try more than once.
        for _ in 0..5 {
            make_dirs(&self.root, parent).map_err(|error| failed("make", parent, &error))?;
            let moved = if replace {
                file.persist(path)
            } else {
                file.persist_noclobber(path)
            };
            match moved {
                Ok(_) => {
                    sync_dir(parent).map_err(|error| failed("sync", parent, &error))?;
                    return Ok(true);
                }
                Err(error) if !replace && error.error.kind() == io::ErrorKind::AlreadyExists => {
                    return Ok(false);
                }
                Err(error) if error.error.kind() == io::ErrorKind::NotFound => file = error.file,
                Err(error) => return Err(failed("write", path, &error.error)),
            }
        }
        Err(PortError::Retryable(format!(
            "cannot write {}: something deletes its directory repeatedly",
            path.display()
        )))
    }

    /// Reads a file of at most `most` bytes.
    fn small(&self, key: &str, most: u64) -> PortResult<Option<Bytes>> {
        let Some(file) = self.opened(key)? else {
            return Ok(None);
        };
        let mut body = Vec::new();
        let path = self.root.join(key);
        file.take(most + 1)
            .read_to_end(&mut body)
            .map_err(|error| failed("read", &path, &error))?;
        if body.len() as u64 > most {
            let text = format!(
                "{} is larger than {most} bytes: no agent wrote it",
                path.display()
            );
            return Err(PortError::Permanent(text));
        }
        Ok(Some(body.into()))
    }

    /// The lock for conditional replacement, shared by all hosts that mount this directory. Dropping the file
    /// releases the lock.
    fn lock(&self) -> PortResult<File> {
        let path = self.root.join(LOCK);
        let file = File::options()
            .create(true)
            .truncate(false)
            .write(true)
            .open(&path)
            .map_err(|error| failed("write", &path, &error))?;
        // Only the owner of the file may change its mode. For other users, the owner has already changed it.
        let _ = self.share(&file);
        for _ in 0..LOCK_TRIES {
            match file.try_lock() {
                Ok(()) => return Ok(file),
                Err(TryLockError::WouldBlock) => std::thread::sleep(LOCK_PAUSE),
                Err(TryLockError::Error(error)) => return Err(failed("lock", &path, &error)),
            }
        }
        Err(PortError::Retryable(format!(
            "{} is locked by another writer: try again",
            path.display()
        )))
    }

    fn sweep(&self) {
        let Ok(entries) = fs::read_dir(&self.root) else {
            return;
        };
        for entry in entries.flatten() {
            let stale = |entry: &fs::DirEntry| entry.metadata().ok()?.modified().ok()?.elapsed().ok();
            let name = entry.file_name();
            let name = name.to_string_lossy();
            if name.starts_with(TEMPORARY)
                && name != LOCK
                && stale(&entry).is_some_and(|age| age > STALE_AFTER)
            {
                let _ = fs::remove_file(entry.path());
            }
        }
    }

    fn walk(&self, dir: &Path, prefix: &str, found: &mut Vec<ObjectMeta>) -> PortResult<()> {
        let entries = match fs::read_dir(dir) {
            Ok(entries) => entries,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return self.present(),
            Err(error) => return Err(failed("list", dir, &error)),
        };
        for entry in entries {
            let entry = entry.map_err(|error| failed("list", dir, &error))?;
            let path = entry.path();
            let Some(key) = path.strip_prefix(&self.root).ok().and_then(Path::to_str) else {
                continue;
            };
            let Some(meta) = if_present(entry.metadata(), &path)? else {
                continue;
            };
            if meta.is_dir() {
                let inside = format!("{key}/");
                if inside.starts_with(prefix) || prefix.starts_with(&inside) {
                    self.walk(&path, prefix, found)?;
                }
            } else if meta.is_file() && key.starts_with(prefix) && !key.starts_with(TEMPORARY) {
                found.push(ObjectMeta {
                    key: key.to_owned(),
                    size_bytes: meta.len(),
                    modified: meta.modified().ok().and_then(unix_ms),
                });
            }
        }
        Ok(())
    }
}

#[async_trait]
impl ObjectStore for DirStore {
    fn describe(&self) -> String {
        format!("file://{}", self.root.display())
    }
    async fn conditional_writes(&self) -> PortResult<bool> {
        Ok(true)
    }

    fn path(&self) -> String {
        self.root.to_string_lossy().into_owned()
    }

    async fn get_small(&self, key: &str) -> PortResult<Option<Bytes>> {
        let (store, key) = (self.clone(), key.to_owned());
        blocking(move || store.small(&key, SMALL_BYTES)).await
    }

    async fn get_tagged(&self, key: &str) -> PortResult<Option<(Bytes, Tag)>> {
        let body = self.get_small(key).await?;
        Ok(body.map(|body| {
            let tag = tag(&body);
            (body, tag)
        }))
    }

    async fn replace(&self, key: &str, body: Bytes, read: &Tag) -> PortResult<Replaced> {
        let (store, path, key, read) = (self.clone(), self.file(key)?, key.to_owned(), read.clone());
        blocking(move || {
            let _lock = store.lock()?;
            if store
                .small(&key, SMALL_BYTES)?
                .is_none_or(|there| tag(&there) != read)
            {
                return Ok(Replaced::Changed);
            }
            store.settle(store.written(&body)?, &path, true)?;
            Ok(Replaced::Done)
        })
        .await
    }

    async fn get(&self, key: &str) -> PortResult<Option<ByteStream>> {
        let (store, key) = (self.clone(), key.to_owned());
        let path = self.root.join(&key);
        let Some(file) = blocking(move || store.opened(&key)).await? else {
            return Ok(None);
        };
        let chunks = stream::try_unfold(file, move |mut file| {
            let path = path.clone();
            blocking(move || {
                let mut chunk = Vec::with_capacity(CHUNK_BYTES);
                (&mut file)
                    .take(CHUNK_BYTES as u64)
                    .read_to_end(&mut chunk)
                    .map_err(|error| failed("read", &path, &error))?;
                Ok((!chunk.is_empty()).then(|| (Bytes::from(chunk), file)))
            })
        });
        Ok(Some(Box::pin(chunks)))
    }

    async fn put(&self, key: &str, body: Bytes) -> PortResult<()> {
        let (store, path) = (self.clone(), self.file(key)?);
        blocking(move || store.settle(store.written(&body)?, &path, true).map(|_| ())).await
    }

    async fn create(&self, key: &str, body: Bytes) -> PortResult<Created> {
        let (store, path) = (self.clone(), self.file(key)?);
        // An object that another agent has created is about as large as this one. An increment may be larger
        // than a small object.
        let most = SMALL_BYTES.max(2 * body.len() as u64);
        if blocking(move || store.settle(store.written(&body)?, &path, false)).await? {
            return Ok(Created::Created);
        }
        let (store, name) = (self.clone(), key.to_owned());
        let there = blocking(move || store.small(&name, most)).await?;
        there.map(Created::Exists).ok_or_else(|| {
            PortError::Retryable(format!(
                "{key} existed and then disappeared: something else deletes it"
            ))
        })
    }

    async fn upload(&self, key: &str) -> PortResult<Box<dyn Upload>> {
        let (store, path) = (self.clone(), self.file(key)?);
        let file = blocking({
            let store = store.clone();
            move || {
                store.sweep();
                store.temporary()
            }
        })
        .await?;
        let file = Some(file);
        Ok(Box::new(DirUpload {
            store,
            path,
            file,
            unsynced: 0,
        }))
    }

    async fn list(&self, prefix: &str) -> PortResult<Vec<ObjectMeta>> {
        let (store, prefix) = (self.clone(), prefix.to_owned());
        blocking(move || {
            let mut found = Vec::new();
            store.walk(&store.root, &prefix, &mut found)?;
            found.sort_unstable_by(|a, b| a.key.cmp(&b.key));
            Ok(found)
        })
        .await
    }

    async fn delete(&self, key: &str) -> PortResult<()> {
        let (store, path) = (self.clone(), self.file(key)?);
        blocking(move || {
            match fs::remove_file(&path) {
                Err(error) if error.kind() == io::ErrorKind::NotFound => return store.present(),
                Err(error) => return Err(failed("delete", &path, &error)),
                Ok(()) => {}
            }
            // Directories exist only because of keys: remove empty ones, up to the root.
            let mut dir = path.parent();
            while let Some(parent) = dir.filter(|d| *d != store.root && fs::remove_dir(d).is_ok()) {
                dir = parent.parent();
            }
            Ok(())
        })
        .await
    }
}

/// An upload into a temporary file that becomes the object. Dropping the upload removes the file.
struct DirUpload {
    store: DirStore,
    path: PathBuf,
    file: Option<NamedTempFile>,
    /// Bytes written since the last sync.
    unsynced: u64,
}

impl DirUpload {
    fn take(&mut self) -> PortResult<NamedTempFile> {
        self.file.take().ok_or_else(|| {
            PortError::Permanent(format!("the upload to {} failed earlier", self.path.display()))
        })
    }
}

#[async_trait]
impl Upload for DirUpload {
    async fn write(&mut self, chunk: Bytes) -> PortResult<()> {
        let mut file = self.take()?;
        let path = self.path.clone();
        self.unsynced += chunk.len() as u64;
        let write = move || {
            file.write_all(&chunk)
                .map_err(|error| failed("write", &path, &error))?;
            Ok(file)
        };
        let mut file = blocking(write).await?;
        if self.unsynced >= SYNC_BYTES {
            let path = self.path.clone();
            file = blocking(move || synced(file, &path)).await?;
            self.unsynced = 0;
        }
        self.file = Some(file);
        Ok(())
    }

    async fn complete(mut self: Box<Self>) -> PortResult<()> {
        let (store, path, file) = (self.store.clone(), self.path.clone(), self.take()?);
        // Separate from the rename: work that is cancelled here must not rename the file later.
        let file = blocking({
            let path = path.clone();
            move || {
                let file = synced(file, &path)?;
                let whole = file.as_file().sync_all();
                whole.map_err(|error| failed("sync", &path, &error))?;
                Ok(file)
            }
        })
        .await
        .map_err(not_begun)?;
        blocking(move || store.settle(file, &path, true).map(|_| ())).await
    }

    async fn abort(mut self: Box<Self>) -> PortResult<()> {
        let file = self.file.take();
        blocking(move || {
            drop(file);
            Ok(())
        })
        .await
    }
}

fn synced(file: NamedTempFile, path: &Path) -> PortResult<NamedTempFile> {
    let synced = file.as_file().sync_data();
    synced.map_err(|error| failed("sync", path, &error))?;
    Ok(file)
}

/// Nothing was renamed yet, so a retry is safe.
fn not_begun(error: PortError) -> PortError {
    match error {
        PortError::OutcomeUnknown(text) => PortError::Retryable(text),
        other => other,
    }
}

fn tag(body: &[u8]) -> Tag {
    Tag(digest(body))
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests;
