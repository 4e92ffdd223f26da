//! The state of a data directory. It is missing only if it was found not to exist. If it could not be
//! inspected, that is an error and the state is unknown (design §3: never fold *unreachable* into *absent*).

use std::fs::{self, File};
use std::io::{self, ErrorKind};
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use rustix::fs::{FlockOperation, flock};

use super::mounts::{self, Mount};
use super::owner::Owner;
use crate::model::DataState;
use crate::unit::wal::{self, WalError};

/// Inspects the data directory.
pub(super) fn inspect(owner: &Owner) -> Result<DataState, String> {
    let dir = &owner.data_dir;
    let meta = match fs::metadata(dir) {
        Ok(meta) => meta,
        Err(error) if error.kind() == ErrorKind::NotFound => return missing(owner),
        Err(error) => return Err(unknown(dir, &error)),
    };
    if !meta.is_dir() {
        return Ok(unusable(format!("{} is not a directory", dir.display())));
    }
    if is_empty(dir).unwrap_or(false) {
        return missing(owner);
    }
    if meta.uid() != owner.uid {
        // The data may still be good. It is not replaced, so that an operator can give it back to etcd.
        return Err(format!(
            "{} belongs to uid {}, etcd runs as uid {}: chown -R it back",
            dir.display(),
            meta.uid(),
            owner.uid
        ));
    }
    for (part, what) in [
        ("member", "member directory"),
        ("member/wal", "WAL"),
        ("member/snap/db", "database"),
    ] {
        let path = dir.join(part);
        match fs::metadata(&path) {
            Ok(meta) if meta.is_file() && meta.len() == 0 => {
                return Ok(unusable(format!("{} is empty", path.display())));
            }
            Ok(_) => {}
            Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => {
                return Ok(unusable(format!("{} has no {what}", dir.display())));
            }
            Err(error) => return Err(unknown(&path, &error)),
        }
    }
    let wal_dir = dir.join("member/wal");
    let found = wal::identify(&wal_dir).and_then(|ids| {
        // This is the result of a start on an emptied directory: the same voter without what it acknowledged.
        if owner.started == Some(ids) && !wal::remembers(&wal_dir)? {
            return Err(WalError::Content(format!(
                "the WAL in {} remembers nothing of a member that has run before",
                wal_dir.display()
            )));
        }
        Ok(ids)
    });
    match found {
        Ok((cluster_id, member_id)) => Ok(DataState::Present {
            cluster_id,
            member_id,
        }),
        Err(WalError::Content(why)) => Ok(unusable(why)),
        Err(WalError::Io { path, source }) => Err(unknown(&path, &source)),
    }
}

fn missing(owner: &Owner) -> Result<DataState, String> {
    let (fstab, mountinfo) = &owner.mounts;
    if let Some(point) = mounts::unmounted(&owner.data_dir, fstab, mountinfo) {
        return Err(format!(
            "{} is in /etc/fstab and not mounted: mount it, or take it out of /etc/fstab",
            point.display()
        ));
    }
    if let Some((held_by, now)) = elsewhere(owner)? {
        return Err(format!(
            "{} is empty on {now}, and the member's data were on {held_by}: mount that; if it is permanently lost, \
             remove /var/lib/etcd-agent/state/data-mount.json",
            owner.data_dir.display()
        ));
    }
    if fs::symlink_metadata(&owner.data_dir).is_ok_and(|meta| meta.is_symlink()) && !owner.data_dir.exists() {
        return Err(format!("{} is a link to nothing", owner.data_dir.display()));
    }
    let parent = owner.parent()?;
    match fs::metadata(parent) {
        Ok(_) => Ok(DataState::Missing),
        Err(error) => Err(unknown(parent, &error)),
    }
}

/// The mount that held this member's data and the current one, if they differ.
fn elsewhere(owner: &Owner) -> Result<Option<(Mount, Mount)>, String> {
    if owner.started.is_none() {
        return Ok(None);
    }
    let (Some(held_by), Some(now)) = (owner.held_by.clone()?, owner.mount()) else {
        return Ok(None);
    };
    Ok((held_by != now).then_some((held_by, now)))
}

/// True for a directory that is empty, except for what `mkfs` leaves.
pub(super) fn is_empty(dir: &Path) -> io::Result<bool> {
    for entry in fs::read_dir(dir)? {
        if entry?.file_name() != "lost+found" {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Takes the lock that a running etcd holds on its database, so that its files are not moved. `None` if there
/// is no database.
pub(super) fn lock(data_dir: &Path) -> Result<Option<File>, String> {
    let path = data_dir.join("member/snap/db");
    let file = match File::open(&path) {
        Ok(file) => file,
        Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => {
            return Ok(None);
        }
        // Wrong owner: an etcd of our user cannot have it open either.
        Err(error) if error.kind() == ErrorKind::PermissionDenied => return Ok(None),
        Err(error) => return Err(unknown(&path, &error)),
    };
    match flock(&file, FlockOperation::NonBlockingLockExclusive) {
        Ok(()) => Ok(Some(file)),
        Err(rustix::io::Errno::WOULDBLOCK) => Err(format!(
            "{} is in use: etcd runs on it, stop it first",
            path.display()
        )),
        Err(error) => Err(unknown(&path, &error.into())),
    }
}

fn unusable(why: String) -> DataState {
    DataState::Unusable { why, member: None }
}

fn unknown(path: &Path, error: &io::Error) -> String {
    format!("looking at {}: {error}", path.display())
}
