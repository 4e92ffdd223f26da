//! The files of a store in a directory: how one is written whole, read, locked and listed.

use std::fs::{self, File, Permissions, TryLockError};
use std::io::{self, Read, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use bytes::Bytes;
use tempfile::NamedTempFile;

use super::files::{failed, if_present, make_dirs, shared, sync_dir, unix_ms};
use crate::ports::{ObjectMeta, PortError, PortResult};

const TEMPORARY: &str = ".tmp-";
/// The lock file. A writer holds the lock while it compares and replaces an object. `list` never returns the
/// file, and `sweep` never removes it.
pub(super) const LOCK: &str = ".tmp-lock";
const LOCK_TRIES: u32 = 100;
const LOCK_PAUSE: Duration = Duration::from_millis(50);
const STALE_AFTER: Duration = Duration::from_hours(24);

/// A store in a directory. The directory must exist: a missing mount is an error, not an empty store.
#[derive(Debug, Clone)]
pub struct DirStore {
    pub(super) root: PathBuf,
}

impl DirStore {
    /// The store at `root`.
    pub fn new(root: impl Into<PathBuf>) -> Self {
        Self { root: root.into() }
    }

    pub(super) fn file(&self, key: &str) -> PortResult<PathBuf> {
        let sound = |part: &str| !part.is_empty() && part != "." && part != ".." && !part.contains('\0');
        if key.split('/').all(sound) && !key.starts_with(TEMPORARY) {
            return Ok(self.root.join(key));
        }
        Err(PortError::Permanent(format!("{key:?} is not a valid store key")))
    }

    pub(super) fn opened(&self, key: &str) -> PortResult<Option<File>> {
        let path = self.file(key)?;
        match File::open(&path) {
            Ok(file) => Ok(Some(file)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => self.present().map(|()| None),
            Err(error) => Err(failed("read", &path, &error)),
        }
    }

    /// Fails if the store's directory does not exist. An object counts as absent only if that directory
    /// exists.
    pub(super) fn present(&self) -> PortResult<()> {
        fs::metadata(&self.root)
            .map(|_| ())
            .map_err(|error| failed("open", &self.root, &error))
    }

    pub(super) fn temporary(&self) -> PortResult<NamedTempFile> {
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

    pub(super) fn written(&self, body: &[u8]) -> PortResult<NamedTempFile> {
        let mut file = self.temporary()?;
        let result = file.write_all(body).and_then(|()| file.as_file().sync_all());
        result.map_err(|error| failed("write in", &self.root, &error))?;
        Ok(file)
    }

    /// Renames a complete temporary file. `Ok(false)`: the object exists and `replace` is not set.
    pub(super) fn settle(&self, mut file: NamedTempFile, path: &Path, replace: bool) -> PortResult<bool> {
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
    pub(super) fn small(&self, key: &str, most: u64) -> PortResult<Option<Bytes>> {
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
    pub(super) fn lock(&self) -> PortResult<File> {
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

    pub(super) fn sweep(&self) {
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

    pub(super) fn walk(&self, dir: &Path, prefix: &str, found: &mut Vec<ObjectMeta>) -> PortResult<()> {
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
            // Through symbolic links, as reads and writes go.
            let Some(meta) = if_present(fs::metadata(&path), &path)? else {
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
