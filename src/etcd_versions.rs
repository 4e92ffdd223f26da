//! The etcds in a directory such as `/opt`, each in a subdirectory that names its version.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use crate::model::EtcdVersion;

/// As many entries of the directory are read.
const MOST_ENTRIES: usize = 1000;

/// The versions in `dir`, each with the path of its `etcd`. A directory that does not exist has none.
///
/// # Errors
/// If the directory cannot be read.
pub fn etcd_versions(dir: &Path) -> io::Result<BTreeMap<EtcdVersion, PathBuf>> {
    let entries = match fs::read_dir(dir) {
        Ok(entries) => entries,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(BTreeMap::new()),
        Err(error) => return Err(error),
    };
    let mut found = BTreeMap::new();
    for entry in entries.take(MOST_ENTRIES) {
        let name = entry?.file_name();
        let Some(version) = name.to_str().and_then(version_of) else {
            continue;
        };
        let etcd = dir.join(name).join("etcd");
        if etcd.is_file() {
            // Of two directories for one version the same one is always taken.
            let first = found.entry(version).or_insert_with(|| etcd.clone());
            if etcd < *first {
                *first = etcd;
            }
        }
    }
    Ok(found)
}

/// The version in the name of a directory: 3.6.16 for `etcd-v3.6.16` and for `etcd-v3.6.16-linux-amd64`, as
/// etcd's releases name it. `None` for any other name, also for that of a pre-release.
fn version_of(name: &str) -> Option<EtcdVersion> {
    let rest = name.strip_prefix("etcd-v")?;
    let version = rest.split_once("-linux-").map_or(rest, |(version, _)| version);
    version.parse().ok()
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn directories_with_an_etcd_are_found_by_the_version_in_their_name() {
        let dir = tempfile::tempdir().unwrap();
        for name in [
            "etcd-v3.5.35",
            "etcd-v3.6.16-linux-amd64",
            "etcd-v3.6.16-linux-arm64",
            "etcd-v3.7.0-rc.0-linux-amd64",
            "etcd-3.6.15",
            "etcd-v3.6",
            "etcd-vlatest",
        ] {
            fs::create_dir(dir.path().join(name)).unwrap();
            fs::write(dir.path().join(name).join("etcd"), "").unwrap();
        }
        fs::create_dir(dir.path().join("etcd-v3.6.1")).unwrap();
        let found = etcd_versions(dir.path()).unwrap();
        let expected = [
            ("3.5.35", "etcd-v3.5.35/etcd"),
            ("3.6.16", "etcd-v3.6.16-linux-amd64/etcd"),
        ];
        let expected = expected.map(|(version, etcd)| (version.parse().unwrap(), dir.path().join(etcd)));
        assert_eq!(found, BTreeMap::from(expected));
        assert_eq!(etcd_versions(&dir.path().join("none")).unwrap(), BTreeMap::new());
        assert!(
            etcd_versions(&dir.path().join("etcd-v3.5.35/etcd")).is_err(),
            "not a directory"
        );
    }
}
