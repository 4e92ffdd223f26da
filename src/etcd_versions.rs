//! The etcds of a host: in a directory such as `/opt`, each in a subdirectory that names its version, and the
//! one that `etcd.service` starts while no version is selected.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
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

/// Where packages and administrators install etcd.
const PLACES: [&str; 2] = ["/usr/bin/etcd", "/usr/local/bin/etcd"];

/// The path of the etcd that `etcd.service` starts while no version is selected, and a text that
/// distinguishes this file from one that replaces it (dpkg and rpm rename a new file to its place). `binary`
/// is `etcd.binary`.
pub fn base_etcd(binary: Option<&Path>) -> Option<(PathBuf, String)> {
    let mut places = PLACES.map(PathBuf::from).into_iter();
    let path = match binary {
        Some(binary) => binary.to_owned(),
        None => places.find(|path| path.is_file())?,
    };
    let meta = fs::metadata(&path).ok()?;
    let (dev, inode, size) = (meta.dev(), meta.ino(), meta.size());
    let (seconds, nanoseconds) = (meta.mtime(), meta.mtime_nsec());
    let file = format!("{} {dev} {inode} {size} {seconds}.{nanoseconds}", path.display());
    Some((path, file))
}

/// False if the words of `ExecStart=`, also of `bash -c`, name an etcd that is neither this one nor below the
/// directory of the versions that can be selected.
pub fn is_started(base: &Path, exec_start: &[String], versions_dir: &Path) -> bool {
    let mut words = exec_start.iter().flat_map(|arg| arg.split_whitespace());
    let named = words.find(|word| word.starts_with('/') && word.ends_with("/etcd"));
    named
        .map(Path::new)
        .is_none_or(|named| named == base || named.starts_with(versions_dir))
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

    #[test]
    fn the_unit_names_the_etcd_that_it_starts() {
        let (base, dir) = (Path::new("/usr/bin/etcd"), Path::new("/opt"));
        let starts = |line: &[&str]| {
            let line: Vec<String> = line.iter().map(|word| (*word).to_owned()).collect();
            is_started(base, &line, dir)
        };
        assert!(starts(&["/usr/bin/etcd", "$DAEMON_ARGS"]));
        assert!(starts(&[
            "/bin/bash",
            "-c",
            "GOMAXPROCS=$(nproc) /usr/bin/etcd --name=x"
        ]));
        assert!(starts(&["/opt/etcd-v3.6.16/etcd"]), "a selected version");
        assert!(!starts(&["/srv/bin/etcd"]));
        assert!(!starts(&["/bin/bash", "-c", "exec /srv/bin/etcd"]));
    }

    #[test]
    fn a_file_that_replaces_another_is_another() {
        let dir = tempfile::tempdir().unwrap();
        let (etcd, new) = (dir.path().join("etcd"), dir.path().join("new"));
        assert_eq!(base_etcd(Some(&etcd)), None);
        fs::write(&etcd, "one").unwrap();
        let first = base_etcd(Some(&etcd)).unwrap();
        assert_eq!(base_etcd(Some(&etcd)), Some(first.clone()));
        fs::write(&new, "two").unwrap();
        fs::rename(&new, &etcd).unwrap();
        assert_ne!(base_etcd(Some(&etcd)), Some(first));
    }
}
