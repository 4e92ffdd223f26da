//! Opens a file that only root can have written. The configuration controls what root's oneshots do and which
//! programs run as `etcd`. A file is therefore accepted only if no other user can write or replace it.

use std::fs::File;
use std::os::fd::OwnedFd;
use std::path::{Component, Path};

use rustix::fs::{FileType, Mode, OFlags, Stat, fstat, open, openat};
use rustix::io::Errno;

/// Opens a source file below `root`. Every directory of the path and the file itself must belong to the owner
/// of `root` (on a real system: root), and no other user may have write access to them. The function follows
/// no symbolic link and does not block.
///
/// # Errors
/// One line that says which path is refused, its owner, the expected owner, and what to do.
pub(super) fn open_below(root: &Path, path: &Path) -> Result<File, Refusal> {
    let dir = open(
        root,
        OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC,
        Mode::empty(),
    )
    .map_err(|error| Refusal::Unreadable(error.into()))?;
    let owner = fstat(&dir)
        .map_err(|error| Refusal::Unreadable(error.into()))?
        .st_uid;
    open_of(dir, root, path, owner)
}

/// Why a file was not opened.
#[derive(Debug)]
pub(super) enum Refusal {
    /// The kernel refused.
    Unreadable(std::io::Error),
    /// Another user could have written it. The text says what to do.
    Untrusted(String),
}

fn open_of(root: OwnedFd, root_path: &Path, path: &Path, owner: u32) -> Result<File, Refusal> {
    let relative = path.strip_prefix(root_path).unwrap_or(path);
    let names: Vec<_> = relative
        .components()
        .filter_map(|part| match part {
            Component::Normal(name) => Some(name),
            _ => None,
        })
        .collect();
    let unreadable = |error: Errno| Refusal::Unreadable(error.into());
    let mut at = root_path.to_path_buf();
    let mut dir = root;
    judge(&at, &fstat(&dir).map_err(unreadable)?, owner, FileType::Directory)?;
    let Some((last, parents)) = names.split_last() else {
        return Err(unreadable(Errno::ISDIR));
    };
    for name in parents {
        at.push(name);
        // O_PATH opens the symbolic link itself, so `judge` can refuse it.
        dir = openat(
            &dir,
            *name,
            OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC,
            Mode::empty(),
        )
        .map_err(unreadable)?;
        judge(&at, &fstat(&dir).map_err(unreadable)?, owner, FileType::Directory)?;
    }
    at.push(last);
    let found = openat(
        &dir,
        *last,
        OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC,
        Mode::empty(),
    )
    .and_then(fstat)
    .map_err(unreadable)?;
    judge(&at, &found, owner, FileType::RegularFile)?;
    // Non-blocking: a FIFO that replaced the file meanwhile must not block the reader.
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
    let file = openat(&dir, *last, flags, Mode::empty()).map_err(unreadable)?;
    judge(
        &at,
        &fstat(&file).map_err(unreadable)?,
        owner,
        FileType::RegularFile,
    )?;
    Ok(File::from(file))
}

fn judge(path: &Path, stat: &Stat, owner: u32, expected: FileType) -> Result<(), Refusal> {
    let shown = path.display();
    let found = FileType::from_raw_mode(stat.st_mode);
    let refuse = |why: String| Err(Refusal::Untrusted(why));
    if found != expected {
        return refuse(format!(
            "{shown} is {}, expected {}: put the file itself there",
            kind(found),
            kind(expected)
        ));
    }
    if stat.st_uid != owner {
        return refuse(format!(
            "{shown} belongs to uid {}, expected {}: its content decides what root runs; check the content, then \
             chown it, or remove it",
            stat.st_uid,
            name(owner)
        ));
    }
    if stat.st_mode & 0o022 != 0 {
        return refuse(format!(
            "{shown} has mode {:04o}, so other users than {} can write it: check the content, then chmod go-w it",
            stat.st_mode & 0o7777,
            name(owner)
        ));
    }
    Ok(())
}

fn name(uid: u32) -> String {
    if uid == 0 {
        "root".to_owned()
    } else {
        format!("uid {uid}")
    }
}

fn kind(found: FileType) -> &'static str {
    match found {
        FileType::RegularFile => "a regular file",
        FileType::Directory => "a directory",
        FileType::Symlink => "a symbolic link",
        FileType::Fifo => "a FIFO",
        FileType::Socket => "a socket",
        _ => "a device",
    }
}

#[cfg(test)]
mod tests;
