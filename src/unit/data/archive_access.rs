//! The rights with which a command works on the archive: those of its owner.
//!
//! etcd's user can put anything into its own directories at any moment, links included. Root that followed one would
//! remove what is not etcd's. It therefore gives its rights away first.

use std::fs;
use std::io::{self, ErrorKind};
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use rustix::process::{Gid, Uid, geteuid};
use rustix::thread::{set_thread_groups, set_thread_res_gid, set_thread_res_uid};

use super::archive::Archives;
use super::owner::parent;

/// Gives this thread the rights of the archive's owner: root takes them for good, and another user must be the owner.
///
/// # Errors
/// One line: another user is needed, or the archive is no directory.
pub(super) fn enter(archives: &Archives) -> Result<(), String> {
    let user = geteuid();
    let mut owner = None;
    for archive in [&archives.data, &archives.log] {
        let archived = match fs::symlink_metadata(archive) {
            Ok(meta) => meta,
            Err(error) if error.kind() == ErrorKind::NotFound => continue,
            Err(error) => return Err(cannot_look(archive, user, &error)),
        };
        if !archived.is_dir() {
            return Err(format!(
                "{} is a symbolic link or a file, expected a directory: move it away",
                archive.display()
            ));
        }
        let above = fs::metadata(parent(archive)?).map_err(|error| cannot_look(archive, user, &error))?;
        // The owner of the directory above can put another one in the place of an archive that is root's.
        for meta in [archived, above] {
            if owner.is_none() && meta.uid() != 0 {
                owner = Some((archive, Uid::from_raw(meta.uid()), Gid::from_raw(meta.gid())));
            }
        }
        owner = owner.or_else(|| (!user.is_root()).then_some((archive, Uid::ROOT, Gid::ROOT)));
    }
    match owner {
        Some((archive, uid, _)) if uid != user && !user.is_root() => Err(format!(
            "{} belongs to uid {}, and this is uid {}: run it as root (sudo)",
            archive.display(),
            uid.as_raw(),
            user.as_raw()
        )),
        Some((_, uid, gid)) if user.is_root() => become_user(uid, gid)
            .map_err(|error| format!("taking the rights of uid {}: {error}", uid.as_raw())),
        _ => Ok(()),
    }
}

fn cannot_look(archive: &Path, user: Uid, error: &io::Error) -> String {
    let remedy = if user.is_root() {
        ""
    } else {
        "; run it as root (sudo)"
    };
    format!("cannot look at {}: {error}{remedy}", archive.display())
}

fn become_user(uid: Uid, gid: Gid) -> rustix::io::Result<()> {
    set_thread_groups(&[])?;
    set_thread_res_gid(gid, gid, gid)?;
    set_thread_res_uid(uid, uid, uid)
}
