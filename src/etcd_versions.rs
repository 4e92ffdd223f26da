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
/// etcd's releases name it. `None` for any other name, also for that of a pre-release or of a release for another
/// architecture.
fn version_of(name: &str) -> Option<EtcdVersion> {
    let rest = name.strip_prefix("etcd-v")?;
    let version = match rest.split_once("-linux-") {
        Some((version, runs_on)) => Some(version).filter(|_| runs_on == architecture())?,
        None => rest,
    };
    version.parse().ok()
}

/// This host's architecture, as the names of etcd's releases have it.
fn architecture() -> &'static str {
    match std::env::consts::ARCH {
        "x86_64" => "amd64",
        "aarch64" => "arm64",
        "powerpc64" => "ppc64le",
        other => other,
    }
}

/// Where packages and administrators install etcd's programs. SUSE has etcd in `/usr/sbin`, and its tools in
/// `/usr/bin`.
pub const PROGRAM_DIRS: [&str; 3] = ["/usr/bin", "/usr/sbin", "/usr/local/bin"];

/// The path of the etcd that `etcd.service` starts while no version is selected, and a text that
/// distinguishes this file from one that replaces it (dpkg and rpm rename a new file to its place). `binary`
/// is `etcd.binary`.
pub fn base_etcd(binary: Option<&Path>) -> Option<(PathBuf, String)> {
    let path = match binary {
        Some(binary) => binary.to_owned(),
        None => installed_below(Path::new("/"))?,
    };
    let meta = fs::metadata(&path).ok()?;
    let (dev, inode, size) = (meta.dev(), meta.ino(), meta.size());
    let (seconds, nanoseconds) = (meta.mtime(), meta.mtime_nsec());
    let file = format!("{} {dev} {inode} {size} {seconds}.{nanoseconds}", path.display());
    Some((path, file))
}

/// The first etcd in [`PROGRAM_DIRS`], with another root directory.
fn installed_below(root: &Path) -> Option<PathBuf> {
    let dirs = PROGRAM_DIRS.map(|dir| root.join(dir.trim_start_matches('/')));
    let mut places = dirs.into_iter().map(|dir| dir.join("etcd"));
    places.find(|path| path.is_file())
}

/// False if the words of `ExecStart=`, also of `bash -c`, name an etcd that is neither this one nor below the
/// directory of the versions that can be selected.
pub fn is_started(base: &Path, exec_start: &[String], versions_dir: &Path) -> bool {
    let mut words = exec_start.iter().flat_map(|arg| arg.split_whitespace());
    let named = words.find(|word| word.starts_with('/') && word.ends_with("/etcd"));
    named
        .map(Path::new)
        .is_none_or(|named| named == base || named.starts_with(versions_dir) || are_one_file(named, base))
}

/// True if both paths lead to the same file, for example where `/usr/sbin` is a link to `/usr/bin`.
fn are_one_file(one: &Path, other: &Path) -> bool {
    let real = (fs::canonicalize(one), fs::canonicalize(other));
    matches!(real, (Ok(one), Ok(other)) if one == other)
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn directories_with_an_etcd_are_found_by_the_version_in_their_name() {
        let dir = tempfile::tempdir().unwrap();
        let own = format!("etcd-v3.6.16-linux-{}", architecture());
        let rc = format!("etcd-v3.7.0-rc.0-linux-{}", architecture());
        for name in [
            "etcd-v3.5.35",
            own.as_str(),
            "etcd-v3.6.14-linux-s390",
            rc.as_str(),
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
            ("3.5.35", "etcd-v3.5.35/etcd".to_owned()),
            ("3.6.16", format!("{own}/etcd")),
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
        let suse = [
            "/bin/bash",
            "-c",
            "GOMAXPROCS=$(nproc) /usr/sbin/etcd $ETCD_OPTIONS",
        ];
        let suse = suse.map(str::to_owned);
        assert!(is_started(Path::new("/usr/sbin/etcd"), &suse, dir));
    }

    #[test]
    fn the_etcd_of_each_distribution_is_found() {
        let root = tempfile::tempdir().unwrap();
        assert_eq!(installed_below(root.path()), None);
        for dir in ["usr/local/bin", "usr/sbin", "usr/bin"] {
            let dir = root.path().join(dir);
            fs::create_dir_all(&dir).unwrap();
            assert_ne!(
                installed_below(root.path()),
                Some(dir.join("etcd")),
                "no etcd yet"
            );
            fs::write(dir.join("etcd"), "").unwrap();
            assert_eq!(installed_below(root.path()), Some(dir.join("etcd")));
        }
    }

    /// A host whose `/usr/sbin` is a link to `/usr/bin`, and whose unit names the former.
    #[test]
    fn a_link_to_the_etcd_is_that_etcd() {
        let root = tempfile::tempdir().unwrap();
        let at = |path: &str| root.path().join(path);
        for dir in ["usr/bin", "usr/local/bin"] {
            fs::create_dir_all(at(dir)).unwrap();
            fs::write(at(dir).join("etcd"), "").unwrap();
        }
        symlink("bin", at("usr/sbin")).unwrap();
        symlink("../usr/bin/etcd", at("usr/etcd")).unwrap();
        let base = installed_below(root.path()).unwrap();
        assert_eq!(base, at("usr/bin/etcd"));
        let starts = |path: &str| {
            let words = [format!("exec {} $ETCD_OPTIONS", at(path).display())];
            is_started(&base, &words, &at("opt"))
        };
        assert!(starts("usr/sbin/etcd"));
        assert!(starts("usr/etcd"));
        assert!(!starts("usr/local/bin/etcd"), "another file");
        assert!(!starts("usr/none/etcd"), "no file");
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
