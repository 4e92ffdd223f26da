//! Operations on the files and directories of a store, which make changes durable, have a deadline and return
//! readable errors.

use std::fs::{self, DirBuilder, File, Permissions};
use std::io;
use std::os::unix::fs::{DirBuilderExt, PermissionsExt};
use std::path::Path;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use crate::model::UnixMs;
use crate::ports::{PortError, PortResult};

/// A hanging network file system must not block the agent.
const DEADLINE: Duration = Duration::from_mins(2);
/// A directory with this bit is shared by a group of hosts, and so are the files in it.
const SETGID: u32 = 0o2000;

/// The metadata of an entry; `None` if the entry was deleted meanwhile. Any other error fails the listing,
/// because a partial listing must never be treated as a complete one.
pub(super) fn if_present<T>(entry: io::Result<T>, path: &Path) -> PortResult<Option<T>> {
    match entry {
        Ok(meta) => Ok(Some(meta)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(failed("list", path, &error)),
    }
}

/// True if files in the store's directory inherit its group.
pub(super) fn shared(root: &Path) -> io::Result<bool> {
    let mode = fs::metadata(root)?.permissions().mode();
    Ok(mode & SETGID != 0)
}

pub(super) async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> PortResult<T> + Send + 'static,
) -> PortResult<T> {
    match tokio::time::timeout(DEADLINE, tokio::task::spawn_blocking(work)).await {
        Ok(Ok(result)) => result,
        Ok(Err(error)) => Err(PortError::Retryable(format!(
            "a file worker ended early: {error}"
        ))),
        Err(_) => Err(PortError::OutcomeUnknown(format!(
            "the store's file system does not answer within {} s",
            DEADLINE.as_secs()
        ))),
    }
}

/// Creates `dir` and its missing parents, and syncs the parent of each. `root` must exist.
pub(super) fn make_dirs(root: &Path, dir: &Path) -> io::Result<()> {
    if dir == root || dir.is_dir() {
        return Ok(());
    }
    let parent = dir.parent().unwrap_or(root);
    make_dirs(root, parent)?;
    match DirBuilder::new().mode(0o700).create(dir) {
        Ok(()) => {
            if shared(root)? {
                fs::set_permissions(dir, Permissions::from_mode(SETGID | 0o770))?;
            }
        }
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
        Err(error) => return Err(error),
    }
    sync_dir(parent)
}

pub(super) fn sync_dir(dir: &Path) -> io::Result<()> {
    File::open(dir)?.sync_all()
}

pub(super) fn unix_ms(time: SystemTime) -> Option<UnixMs> {
    let since = time.duration_since(UNIX_EPOCH).ok()?;
    u64::try_from(since.as_millis()).ok().map(UnixMs)
}

pub(super) fn failed(verb: &str, path: &Path, error: &io::Error) -> PortError {
    let path = path.display();
    match error.kind() {
        io::ErrorKind::NotFound => PortError::Permanent(format!(
            "cannot {verb} {path}: it does not exist; create it, owned by the agent's user, mode 0700 (2770 if hosts share \
             it), or mount it"
        )),
        io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem => PortError::Permanent(format!(
            "cannot {verb} {path}: {error}; give the agent's user the right to write there"
        )),
        io::ErrorKind::IsADirectory | io::ErrorKind::NotADirectory => {
            PortError::Permanent(format!("cannot {verb} {path}: {error}: no agent created it"))
        }
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => {
            PortError::Permanent(format!("cannot {verb} {path}: {error}; make room there"))
        }
        _ => PortError::Retryable(format!("cannot {verb} {path}: {error}")),
    }
}
