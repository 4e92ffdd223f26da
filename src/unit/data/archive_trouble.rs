//! Why the data directory, or a log that is elsewhere, cannot be replaced. Each is renamed into the archive next to
//! it, and a restore is renamed into its place. That fails for a mount point, and in a directory where etcd's user
//! cannot write. It is found out while etcd runs: an order that needs the renames is refused then, before etcd is
//! stopped for it.

use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use rustix::fs::{Access, access};
use rustix::io::Errno;

use super::archive::archive_next_to;
use super::inspect;
use super::owner::parent;
use crate::model::Spec;
use crate::unit::{DataDirs, mounts};

/// Whether a directory can be written to.
type MayWrite<'a> = &'a dyn Fn(&Path) -> io::Result<()>;

/// What is in the way, one line; `None` if nothing was found. `mountinfo` is the text of `/proc/self/mountinfo`.
pub(super) fn find(dirs: &DataDirs, mountinfo: &str, may_write: MayWrite<'_>) -> Option<String> {
    let log = dirs.wal().map(|dir| ("etcd.wal_dir", dir));
    let mut all = [Some(("etcd.data_dir", dirs.data())), log].into_iter().flatten();
    all.find_map(|(setting, dir)| of_one(setting, dir, mountinfo, may_write))
}

fn of_one(setting: &str, dir: &Path, mountinfo: &str, may_write: MayWrite<'_>) -> Option<String> {
    let shown = dir.display();
    // Only the link is renamed. What it leads to may be a mount point.
    if fs::symlink_metadata(dir).is_ok_and(|meta| meta.is_symlink()) {
        if inspect::is_empty(dir).unwrap_or(false) {
            return Some(format!(
                "{setting} {shown} is a symbolic link to an empty directory, which no restore can replace: remove the link, \
                 or set {setting} to the directory itself"
            ));
        }
    } else if mounts::is_point(dir, mountinfo) {
        return Some(format!(
            "{setting} {shown} is a mount point, which cannot be renamed: move it to a directory below the mount point, such \
             as {}",
            dir.join("etcd").display()
        ));
    }
    let above = parent(dir).ok()?;
    if let Err(error) = may_write(above) {
        let remedy = if error.kind() == io::ErrorKind::ReadOnlyFilesystem {
            "remount it".to_owned()
        } else {
            // Not a wider mode for the directory above: it may be one of the system, such as /var/lib.
            format!(
                "move the data into a directory below, such as {}",
                dir.join("etcd").display()
            )
        };
        return Some(format!(
            "etcd's user cannot rename {setting} {shown}: writing to {}: {error}; {remedy}",
            above.display()
        ));
    }
    let archive = archive_next_to(dir).ok()?;
    let shown = archive.display();
    let meta = fs::metadata(&archive).ok()?;
    if !meta.is_dir() {
        return Some(format!(
            "{shown} is not a directory, and replaced data go there: move it away"
        ));
    }
    if mounts::of(&archive, mountinfo) != mounts::of(above, mountinfo) {
        return Some(format!(
            "{shown} is on another mount than {}, so nothing can be renamed into it: unmount it, or move it away",
            above.display()
        ));
    }
    let error = may_write(&archive).err()?;
    Some(format!(
        "etcd's user cannot rename replaced data into {shown}: {error}; give that directory to etcd's user"
    ))
}

/// What is in the way, for a person who checks a configuration as another user than etcd's. What only etcd's user
/// can find out is left out.
pub fn archive_trouble(spec: &Spec) -> Option<String> {
    let dirs = DataDirs::of(&spec.etcd);
    let mountinfo = fs::read_to_string("/proc/self/mountinfo").unwrap_or_default();
    let owner = fs::metadata(dirs.data()).ok().map(|meta| meta.uid());
    find(&dirs, &mountinfo, &|dir| {
        if access(dir, Access::WRITE_OK) == Err(Errno::ROFS) {
            return Err(Errno::ROFS.into());
        }
        let Ok(meta) = fs::metadata(dir) else {
            return Ok(());
        };
        match owner {
            Some(owner) if is_denied(owner, meta.uid(), meta.mode()) => Err(Errno::ACCESS.into()),
            _ => Ok(()),
        }
    })
}

/// Whether a directory of the user `above`, with this mode, certainly does not let `owner` write to it. A group may:
/// its members are not known here. A list of access (ACL) shows its mask as the bits of the group.
fn is_denied(owner: u32, above: u32, mode: u32) -> bool {
    let bits = if owner == above { 0o200 } else { 0o022 };
    owner != 0 && mode & bits == 0
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use std::path::PathBuf;

    use super::*;

    const ROOT: &str = "22 1 8:1 / / rw - ext4 /dev/a rw\n";

    fn root() -> (tempfile::TempDir, PathBuf) {
        let dir = tempfile::tempdir().unwrap();
        let real = dir.path().canonicalize().unwrap();
        fs::create_dir(real.join("data")).unwrap();
        (dir, real)
    }

    fn mounted(at: &Path) -> String {
        format!("{ROOT}23 22 8:1 /disk {} rw - ext4 /dev/a rw\n", at.display())
    }

    fn found(data: &Path, mountinfo: &str) -> Option<String> {
        find(&DataDirs::new(data.to_owned(), None), mountinfo, &|_| Ok(()))
    }

    #[test]
    fn a_mount_point_cannot_be_replaced_and_a_directory_below_it_can() {
        let (_dir, root) = root();
        let data = root.join("data");
        assert_eq!(found(&data, ROOT), None);
        assert_eq!(found(&root.join("new"), ROOT), None, "not there yet");
        let why = found(&data, &mounted(&data)).unwrap();
        assert!(
            why.contains("etcd.data_dir") && why.contains("data/etcd"),
            "{why}"
        );
        assert_eq!(found(&data.join("etcd"), &mounted(&data)), None);
        let log = DataDirs::new(root.join("new"), Some(data.clone()));
        let why = find(&log, &mounted(&data), &|_| Ok(())).unwrap();
        assert!(why.contains("etcd.wal_dir"), "{why}");
    }

    #[test]
    fn a_link_is_renamed_unless_a_restore_would_have_to_replace_it() {
        let (_dir, root) = root();
        let (data, link) = (root.join("data"), root.join("link"));
        std::os::unix::fs::symlink(&data, &link).unwrap();
        let why = found(&link, ROOT).unwrap();
        assert!(why.contains("symbolic link to an empty directory"), "{why}");
        fs::write(data.join("member"), "").unwrap();
        assert_eq!(found(&link, &mounted(&data)), None, "the link is no mount point");
    }

    #[test]
    fn a_place_where_etcds_user_cannot_write_is_named() {
        let (_dir, root) = root();
        let (data, archive) = (root.join("data"), root.join("etcd-agent-archive"));
        let dirs = DataDirs::new(data, None);
        let but = |denied: &Path| {
            find(&dirs, ROOT, &|dir| {
                if dir == denied {
                    return Err(Errno::ROFS.into());
                }
                Ok(())
            })
        };
        let why = but(&root).unwrap();
        assert!(
            why.contains("etcd.data_dir")
                && why.contains("Read-only file system")
                && why.ends_with("remount it"),
            "{why}"
        );
        let why = find(&dirs, ROOT, &|_| Err(Errno::ACCESS.into())).unwrap();
        assert!(why.ends_with("data/etcd"), "{why}");
        assert_eq!(but(&archive), None, "it is made when it is needed");
        fs::create_dir(&archive).unwrap();
        assert!(but(&archive).unwrap().contains("give that directory"));
        assert_eq!(but(Path::new("/elsewhere")), None);
        let why = find(&dirs, &mounted(&archive), &|_| Ok(())).unwrap();
        assert!(why.contains("on another mount"), "{why}");
        fs::remove_dir(&archive).unwrap();
        fs::write(&archive, "").unwrap();
        assert!(but(Path::new("/elsewhere")).unwrap().contains("not a directory"));
    }

    #[test]
    fn only_what_certainly_keeps_etcds_user_out_is_reported_by_mode() {
        for (owner, above, mode, denied) in [
            (100, 0, 0o755, true),
            (100, 0, 0o775, false),
            (100, 0, 0o1777, false),
            (100, 100, 0o755, false),
            (100, 100, 0o577, true),
            (0, 0, 0o555, false),
        ] {
            assert_eq!(is_denied(owner, above, mode), denied, "{owner} {above} {mode:o}");
        }
    }
}
