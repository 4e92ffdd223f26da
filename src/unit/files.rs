//! Files that two users share: bounded reads, and atomic writes.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::Path;

/// No file that the oneshots read is larger: an assignment, a request, a unit file, an environment file.
pub const MAX_BYTES: u64 = 1 << 20;

/// Reads a regular file of at most [`MAX_BYTES`]; `None` when it is not there.
///
/// A symbolic link is followed only in the directories of the path, never in the last component, so that the
/// owner of one file cannot make the reader open another one.
///
/// # Errors
/// Whatever the kernel says; `InvalidData` for anything but a regular file of that size.
pub fn read_bounded(path: &Path) -> io::Result<Option<Vec<u8>>> {
    read(path, rustix::fs::OFlags::NOFOLLOW)
}

/// [`read_bounded`], following links: for root's own files, such as a unit file.
///
/// # Errors
/// As [`read_bounded`].
pub fn read_following(path: &Path) -> io::Result<Option<Vec<u8>>> {
    read(path, rustix::fs::OFlags::empty())
}

/// Opens a file to read, as [`read_bounded`] does; `None` when it is not there. It can be anything but a link.
///
/// # Errors
/// Whatever the kernel says.
pub(super) fn open_no_link(path: &Path) -> io::Result<Option<File>> {
    open(path, rustix::fs::OFlags::NOFOLLOW)
}

fn open(path: &Path, flags: rustix::fs::OFlags) -> io::Result<Option<File>> {
    // Non-blocking, so that a FIFO put there cannot hold the reader.
    let flags = flags | rustix::fs::OFlags::NONBLOCK;
    let opened = OpenOptions::new()
        .read(true)
        .custom_flags(i32::try_from(flags.bits()).unwrap_or(0))
        .open(path);
    match opened {
        Ok(file) => Ok(Some(file)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

fn read(path: &Path, flags: rustix::fs::OFlags) -> io::Result<Option<Vec<u8>>> {
    let Some(file) = open(path, flags)? else {
        return Ok(None);
    };
    let meta = file.metadata()?;
    if !meta.is_file() || meta.len() > MAX_BYTES {
        return Err(io::Error::new(
            io::ErrorKind::InvalidData,
            format!("not a regular file of at most {MAX_BYTES} bytes"),
        ));
    }
    let mut body = Vec::new();
    file.take(MAX_BYTES).read_to_end(&mut body)?;
    Ok(Some(body))
}

/// Writes a file by temp file, fsync, rename and fsync of the directory.
///
/// # Errors
/// Whatever the kernel says; the old file is then still whole.
pub fn write_atomic(path: &Path, body: &[u8], mode: u32) -> io::Result<()> {
    let dir = path
        .parent()
        .ok_or_else(|| io::Error::new(io::ErrorKind::InvalidInput, "no directory"))?;
    let mut temp = tempfile::Builder::new().prefix(".etcd-agent-").tempfile_in(dir)?;
    temp.write_all(body)?;
    temp.as_file().set_permissions(fs::Permissions::from_mode(mode))?;
    temp.as_file().sync_all()?;
    temp.persist(path).map_err(|error| error.error)?;
    sync_dir(dir)
}

/// [`write_atomic`] only when the content or the mode differs; returns whether it wrote.
///
/// # Errors
/// Whatever the kernel says.
pub fn write_if_changed(path: &Path, body: &[u8], mode: u32) -> io::Result<bool> {
    let same_mode = fs::symlink_metadata(path).is_ok_and(|meta| meta.permissions().mode() & 0o7777 == mode);
    if same_mode && matches!(read_bounded(path), Ok(Some(old)) if old == body) {
        return Ok(false);
    }
    write_atomic(path, body, mode)?;
    Ok(true)
}

/// Makes renames in a directory last over a power loss.
///
/// # Errors
/// Whatever the kernel says.
pub fn sync_dir(dir: &Path) -> io::Result<()> {
    File::open(dir)?.sync_all()
}

/// Removes a file; one that is not there is fine.
///
/// # Errors
/// Whatever else the kernel says.
pub fn remove_file(path: &Path) -> io::Result<()> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn what_is_read_is_a_small_regular_file() {
        let dir = tempfile::tempdir().unwrap();
        let (file, link) = (dir.path().join("f"), dir.path().join("l"));
        assert_eq!(read_bounded(&file).unwrap(), None);
        fs::write(&file, "x").unwrap();
        std::os::unix::fs::symlink(&file, &link).unwrap();
        assert_eq!(read_bounded(&file).unwrap(), Some(b"x".to_vec()));
        assert!(read_bounded(&link).is_err(), "a link is not followed");
        assert_eq!(read_following(&link).unwrap(), Some(b"x".to_vec()));
        assert!(read_bounded(dir.path()).is_err(), "a directory is refused");
        File::create(&file).unwrap().set_len(MAX_BYTES + 1).unwrap();
        assert!(read_bounded(&file).is_err(), "a large file is refused");
    }

    #[test]
    fn an_unchanged_file_is_not_written_again() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("f");
        assert!(write_if_changed(&file, b"a", 0o644).unwrap());
        assert!(!write_if_changed(&file, b"a", 0o644).unwrap());
        assert!(write_if_changed(&file, b"a", 0o600).unwrap(), "another mode");
        assert!(write_if_changed(&file, b"b", 0o600).unwrap(), "another content");
        assert_eq!(
            fs::read_dir(dir.path()).unwrap().count(),
            1,
            "no temporary file is left"
        );
    }
}
