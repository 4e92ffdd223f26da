//! The state of a data directory. It is missing only if it was found not to exist. If it could not be
//! inspected, that is an error and the state is unknown (design §3: never fold *unreachable* into *absent*).

use std::fs::{self, File};
use std::io::{self, ErrorKind};
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use rustix::fs::{Access, FlockOperation, access, flock};

use super::owner::{self, Owner};
use crate::model::{ClusterId, DataState, MemberId};
use crate::unit::DataDirs;
use crate::unit::mounts::{self, HeldBy, HeldDir, Mount};
use crate::unit::wal::{self, WalError};

/// What is at the place of the data, or of a log that is elsewhere.
enum Found {
    /// It is not there, or empty.
    Nothing,
    /// A directory of etcd's user, with something in it.
    Something,
    /// Not a directory; the text says so.
    Other(String),
}

/// Inspects the data directory, and the log if it is elsewhere. Data without its log, or a log without its
/// data, is neither missing nor usable.
pub(super) fn inspect(owner: &Owner) -> Result<DataState, String> {
    let dirs = &owner.dirs;
    let data = look(owner, dirs.data())?;
    let log = dirs
        .wal()
        .map(|dir| Ok::<_, String>((dir, look(owner, dir)?)))
        .transpose()?;
    has_the_data(owner, &data)?;
    has_the_log(owner, &data)?;
    match (data, log) {
        (Found::Other(why), _) | (_, Some((_, Found::Other(why)))) => Ok(unusable(why)),
        (Found::Nothing, None) => {
            gone(owner, dirs.data())?;
            Ok(DataState::Missing)
        }
        (Found::Nothing, Some((dir, Found::Nothing))) => {
            gone(owner, dirs.data())?;
            gone(owner, dir)?;
            Ok(DataState::Missing)
        }
        (Found::Nothing, Some((dir, Found::Something))) => {
            gone(owner, dirs.data())?;
            Ok(DataState::Unusable {
                why: format!(
                    "{} has a log, and its data in {} are gone",
                    dir.display(),
                    dirs.data().display()
                ),
                member: wal::identify(dir).ok(),
            })
        }
        (Found::Something, Some((dir, Found::Nothing))) => {
            gone(owner, dir)?;
            Ok(unusable(format!(
                "{} has data, and their log in {} is gone",
                dirs.data().display(),
                dir.display()
            )))
        }
        (Found::Something, _) => content(owner),
    }
}

fn look(owner: &Owner, dir: &Path) -> Result<Found, String> {
    let meta = match fs::metadata(dir) {
        Ok(meta) => meta,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Found::Nothing),
        Err(error) => return Err(unknown(dir, &error)),
    };
    if !meta.is_dir() {
        return Ok(Found::Other(format!("{} is not a directory", dir.display())));
    }
    if is_empty(dir).unwrap_or(false) {
        return Ok(Found::Nothing);
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
    Ok(Found::Something)
}

/// Checks that the configured directory of the data is that of the member that has run here. Its data are
/// unknown anywhere else, and never lost.
fn has_the_data(owner: &Owner, data: &Found) -> Result<(), String> {
    if owner.started.is_none() {
        return Ok(());
    }
    let configured = owner.dirs.data();
    if let Some(assigned) = &owner.assigned
        && assigned.data() != configured
    {
        return Err(format!(
            "this member's data are in {}, and the configuration says {}: put etcd.data_dir back",
            assigned.data().display(),
            configured.display()
        ));
    }
    let Some(HeldBy { data: held, .. }) = owner.held_by.clone()? else {
        return Ok(());
    };
    if held.dir == configured || !matches!(data, Found::Nothing) || has_left(owner, &held)? {
        return Ok(());
    }
    Err(format!(
        "this member's data were in {}, and there are none in {}: move them there, or put etcd.data_dir back; if they \
         are permanently lost, remove /var/lib/etcd-agent/state/data-mount.json",
        held.dir.display(),
        configured.display()
    ))
}

/// Whether a directory is empty on the mount that held it: what a member that has left had in it is in the archive.
fn has_left(owner: &Owner, held: &HeldDir) -> Result<bool, String> {
    let mounted = owner.mount(&held.dir).as_ref() == Some(&held.mount);
    Ok(mounted && matches!(look(owner, &held.dir)?, Found::Nothing))
}

/// Checks the same of the log.
fn has_the_log(owner: &Owner, data: &Found) -> Result<(), String> {
    let log = owner.dirs.log();
    let own = owner.dirs.own_log();
    let shown = log.display();
    if owner.dirs.wal().is_some() && wal::is_there(&own).map_err(|error| error.to_string())? {
        return Err(format!(
            "etcd.wal_dir is {shown}, and there is a log in {}: stop etcd and move that to {shown}, or remove \
             etcd.wal_dir",
            own.display()
        ));
    }
    if owner.started.is_none() {
        return Ok(());
    }
    if let Some(assigned) = &owner.assigned
        && assigned.wal() != owner.dirs.wal()
    {
        let assigned = assigned.log();
        return Err(format!(
            "this member's log is in {}, and the configuration says {shown}: put etcd.wal_dir back",
            assigned.display()
        ));
    }
    let Some(held_by) = owner.held_by.clone()? else {
        return Ok(());
    };
    let was = held_by.log.unwrap_or(HeldDir {
        dir: own,
        mount: held_by.data.mount,
    });
    if was.dir == log || wal::identify(&log).is_ok_and(|ids| owner.started == Some(ids)) {
        return Ok(());
    }
    if matches!(data, Found::Nothing) && has_left(owner, &was)? {
        return Ok(());
    }
    Err(format!(
        "this member's log was in {}, and there is none of it in {shown}: move it there, or put etcd.wal_dir back; if \
         it is permanently lost, remove /var/lib/etcd-agent/state/data-mount.json",
        was.dir.display()
    ))
}

/// The state of a directory of data that is there, together with its log.
fn content(owner: &Owner) -> Result<DataState, String> {
    let dirs = &owner.dirs;
    let log = dirs.log();
    for (path, what) in [
        (dirs.member(), "member directory"),
        (log.clone(), "WAL"),
        (dirs.database(), "database"),
    ] {
        match fs::metadata(&path) {
            Ok(meta) if meta.is_file() && meta.len() == 0 => {
                return Ok(unusable(format!("{} is empty", path.display())));
            }
            Ok(_) => {}
            Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => {
                return Ok(unusable(format!("{} has no {what}", dirs.data().display())));
            }
            Err(error) => return Err(unknown(&path, &error)),
        }
    }
    match ids(owner, &log) {
        Ok((cluster_id, member_id)) => Ok(DataState::Present {
            cluster_id,
            member_id,
        }),
        Err(WalError::Content(why)) => Ok(unusable(why)),
        Err(WalError::Io { path, source }) => Err(unknown(&path, &source)),
    }
}

/// The cluster and the member of the log.
fn ids(owner: &Owner, log: &Path) -> Result<(ClusterId, MemberId), WalError> {
    let ids = wal::identify(log)?;
    // This is the result of a start on an emptied directory: the same voter without what it acknowledged.
    if owner.started == Some(ids) && !wal::remembers(log)? {
        return Err(WalError::Content(format!(
            "the WAL in {} remembers nothing of a member that has run before",
            log.display()
        )));
    }
    if owner.dirs.wal().is_some()
        && let Some(why) = wal::check::apart(log, &owner.dirs.snap())?
    {
        return Err(WalError::Content(format!(
            "the log in {} does not belong to the data in {}: {why}",
            log.display(),
            owner.dirs.data().display()
        )));
    }
    Ok(ids)
}

/// Checks that this directory, which is empty or not there, is really gone.
fn gone(owner: &Owner, dir: &Path) -> Result<(), String> {
    let (fstab, mountinfo) = &owner.mounts;
    if let Some(point) = mounts::unmounted(dir, fstab, mountinfo) {
        return Err(format!(
            "{} is in /etc/fstab and not mounted: mount it, or take it out of /etc/fstab",
            point.display()
        ));
    }
    if let Some((held_by, now)) = elsewhere(owner, dir)? {
        return Err(format!(
            "{} is empty on {now}, and the member's data were on {held_by}: mount that; if it is permanently lost, \
             remove /var/lib/etcd-agent/state/data-mount.json",
            dir.display()
        ));
    }
    if fs::symlink_metadata(dir).is_ok_and(|meta| meta.is_symlink()) && !dir.exists() {
        return Err(format!("{} is a link to nothing", dir.display()));
    }
    let above = owner::parent(dir)?;
    fs::metadata(above).map_err(|error| unknown(above, &error))?;
    if owner.dirs.wal() == Some(dir) {
        etcd_can_make(owner, dir, above)?;
    }
    Ok(())
}

/// etcd makes a log next to its place and renames it (`Create` in etcd's `server/storage/wal/wal.go`).
fn etcd_can_make(owner: &Owner, log: &Path, above: &Path) -> Result<(), String> {
    if mounts::is_point(log, &owner.mounts.1) {
        return Err(format!(
            "{} is a mount point, and etcd cannot make its log there: set etcd.wal_dir to a directory below it",
            log.display()
        ));
    }
    access(above, Access::WRITE_OK | Access::EXEC_OK).map_err(|error| {
        format!(
            "etcd (uid {}) cannot make its log in {}: {error}; give that directory to etcd's user",
            owner.uid,
            above.display()
        )
    })
}

/// The mount that held this directory of the member and the current one, if they differ.
fn elsewhere(owner: &Owner, dir: &Path) -> Result<Option<(Mount, Mount)>, String> {
    if owner.started.is_none() {
        return Ok(None);
    }
    let Some(held_by) = owner.held_by.clone()? else {
        return Ok(None);
    };
    let held = [Some(held_by.data), held_by.log].into_iter().flatten();
    let held_by = held.filter(|held| held.dir == dir).map(|held| held.mount).next();
    let (Some(held_by), Some(now)) = (held_by, owner.mount(dir)) else {
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
pub(super) fn lock(dirs: &DataDirs) -> Result<Option<File>, String> {
    let path = dirs.database();
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
