//! An empty mount point looks like lost data. Data counts as missing only if every mount that `/etc/fstab`
//! lists there is mounted, and the mount is the one that held the data: a data directory belongs to a device.

use std::fmt;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

/// The mount that a directory is on, as in `/proc/self/mountinfo` (`proc_pid_mountinfo(5)`).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Mount {
    /// Where it is mounted.
    pub point: PathBuf,
    /// Which directory of the file system is mounted there.
    pub root: String,
    /// The kind of the file system.
    pub kind: String,
    /// The device, or what is named in its place.
    pub source: String,
}

/// What held a member's data when they were last seen: the file `data-mount.json`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct HeldBy {
    /// The data directory (`etcd.data_dir`).
    pub data: HeldDir,
    /// The log, if it is elsewhere (`etcd.wal_dir`).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub log: Option<HeldDir>,
}

/// A directory, and what held it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct HeldDir {
    /// The directory.
    pub dir: PathBuf,
    /// Its mount.
    pub mount: Mount,
}

impl fmt::Display for Mount {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({}) at {}", self.source, self.kind, self.point.display())
    }
}

/// The mount that `dir` is on: the deepest one. Of several at one point it is the last, which hides the
/// others.
pub(super) fn holding(dir: &Path, mountinfo: &str) -> Option<Mount> {
    let mounts = mountinfo.lines().filter_map(|line| {
        let (here, there) = line.split_once(" - ")?;
        let mut here = here.split_whitespace().skip(3);
        let (root, point) = (here.next()?, unescape(here.next()?));
        let mut there = there.split_whitespace();
        Some(Mount {
            point,
            root: root.to_owned(),
            kind: there.next()?.to_owned(),
            source: there.next()?.to_owned(),
        })
    });
    mounts
        .filter(|mount| dir.starts_with(&mount.point))
        .max_by_key(|mount| mount.point.components().count())
}

/// The mount that `dir` is on, or would be.
pub(super) fn of(dir: &Path, mountinfo: &str) -> Option<Mount> {
    let there = dir.ancestors().find_map(|dir| dir.canonicalize().ok())?;
    holding(&there, mountinfo)
}

/// Whether `dir` is itself a mount point: it cannot be renamed then, and etcd cannot make a log of it.
pub(super) fn is_point(dir: &Path, mountinfo: &str) -> bool {
    dir.canonicalize()
        .is_ok_and(|there| holding(&there, mountinfo).is_some_and(|mount| mount.point == there))
}

/// The mount point at or above `dir` that `fstab` lists and `mountinfo` lacks.
pub(super) fn unmounted(dir: &Path, fstab: &str, mountinfo: &str) -> Option<PathBuf> {
    let mounted: Vec<PathBuf> = mountinfo
        .lines()
        .filter_map(|line| line.split_whitespace().nth(4))
        .map(unescape)
        .collect();
    fstab
        .lines()
        .map(str::trim)
        .filter(|line| !line.starts_with('#'))
        .filter_map(|line| {
            let mut fields = line.split_whitespace().skip(1);
            let point = unescape(fields.next()?);
            let options = fields.nth(1).unwrap_or_default();
            let wanted = !options.split(',').any(|option| option == "noauto");
            (wanted && point.is_absolute() && dir.starts_with(&point)).then_some(point)
        })
        .find(|point| point != Path::new("/") && !mounted.contains(point))
}

/// Both files escape blanks and backslashes as three octal digits.
fn unescape(field: &str) -> PathBuf {
    let text = [("\\040", " "), ("\\011", "\t"), ("\\012", "\n"), ("\\134", "\\")]
        .iter()
        .fold(field.to_owned(), |text, (code, plain)| text.replace(code, plain));
    PathBuf::from(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn c10d_what_a_directory_is_on() {
        let root = "22 1 8:1 / / rw shared:1 - ext4 /dev/a rw\n";
        let disk = format!("{root}23 22 8:2 / /var/lib/etcd rw - xfs /dev/b rw\n");
        let over = format!("{disk}24 23 8:3 /sub /var/lib/etcd rw - xfs /dev/c rw\n");
        let table = [
            ("/var/lib/etcd/default", root, Some("/dev/a (ext4) at /")),
            (
                "/var/lib/etcd/default",
                disk.as_str(),
                Some("/dev/b (xfs) at /var/lib/etcd"),
            ),
            ("/var/lib/etcdata", disk.as_str(), Some("/dev/a (ext4) at /")),
            (
                "/var/lib/etcd",
                over.as_str(),
                Some("/dev/c (xfs) at /var/lib/etcd"),
            ),
            ("/var/lib/etcd", "", None),
        ];
        for (dir, mountinfo, expected) in table {
            let found = holding(Path::new(dir), mountinfo).map(|mount| mount.to_string());
            assert_eq!(found.as_deref(), expected, "{dir}");
        }
    }

    #[test]
    fn what_is_wanted_and_not_mounted() {
        let fstab = "# c\n/dev/a / ext4 defaults 0 1\n/dev/b /var/lib/etcd ext4 defaults 0 2\n\
            /dev/c none swap sw 0 0\n/dev/d /srv/my\\040disk xfs defaults 0 0\n/dev/e /mnt/x ext4 noauto 0 0\n";
        let root = "22 1 8:1 / / rw - ext4 /dev/a rw\n";
        let both = format!("{root}23 22 8:2 / /var/lib/etcd rw - ext4 /dev/b rw\n");
        let table = [
            ("/var/lib/etcd/default", root, Some("/var/lib/etcd")),
            ("/var/lib/etcd", root, Some("/var/lib/etcd")),
            ("/var/lib/etcd/default", both.as_str(), None),
            ("/var/lib/etcdata", root, None),
            ("/mnt/x/etcd", root, None),
            ("/srv/my disk/etcd", root, Some("/srv/my disk")),
        ];
        for (dir, mountinfo, expected) in table {
            let found = unmounted(Path::new(dir), fstab, mountinfo);
            assert_eq!(found.as_deref(), expected.map(Path::new), "{dir}");
        }
    }
}
