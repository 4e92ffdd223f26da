//! An empty mount point looks like lost data. Before data counts as missing, what `/etc/fstab` wants mounted
//! there must be mounted.

use std::path::{Path, PathBuf};

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

/// Both files write blanks and backslashes as three octal digits.
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
