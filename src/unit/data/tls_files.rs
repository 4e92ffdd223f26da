//! Whether etcd can work with the certificate files with which it may be started, read as its own user. Which files
//! these are is taken from root's configuration and from the environment that root wrote, never from the agent.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use crate::adapters::tls::{Fits, unusable};
use crate::model::{Spec, TlsFiles, TlsFinding, TlsUse, Transport};
use crate::unit::apply::allow::written_transport;

/// Places that `etcd-agent-data.service` cannot see even where etcd may read them: those of its
/// `InaccessiblePaths=` and `PrivateTmp=` (Debian's `etcd.service` has neither), and the credentials of other
/// units. Nothing is found in files there.
const HIDDEN: [&str; 5] = [
    "/etc/etcd-agent/secret",
    "/etc/etcd-agent/tls",
    "/run/credentials",
    "/tmp",
    "/var/tmp",
];

/// How many symbolic links are followed from a file: as many as Linux follows (`path_resolution(7)`).
const MOST_LINKS: usize = 40;

/// A set of files that etcd may be started with.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct TlsSet {
    serves: TlsUse,
    files: TlsFiles,
    fits: Fits,
}

/// The sets that are configured, and those of the environment that was written last.
pub(super) fn sets(spec: &Spec, written: &BTreeMap<String, String>) -> Vec<TlsSet> {
    let transports = [Transport::configured(&spec.etcd), written_transport(written)];
    let mut sets: Vec<TlsSet> = Vec::new();
    for (serves, files) in transports.iter().flat_map(Transport::files) {
        let known = |set: &TlsSet| set.serves == serves && set.files == *files;
        if !sets.iter().any(known) {
            sets.push(TlsSet {
                serves,
                files: files.clone(),
                fits: fits(spec, serves),
            });
        }
    }
    sets
}

/// What the certificate must name: for members the address at which they connect, for clients that or the node, as the
/// agent itself accepts both. A cluster of one may have been taken over under any name.
fn fits(spec: &Spec, serves: TlsUse) -> Fits {
    let address = spec.nodes.get(&spec.node).cloned();
    let hosts: Vec<String> = match serves {
        TlsUse::Members if spec.nodes.len() == 1 => Vec::new(),
        TlsUse::Members => address.into_iter().collect(),
        TlsUse::Clients => address.into_iter().chain([spec.node.to_string()]).collect(),
    };
    Fits {
        hosts,
        as_client: serves == TlsUse::Members,
    }
}

/// What is found in each set. `process` is the directory of etcd's process in `/proc`, if it runs.
pub(super) fn check(sets: &[TlsSet], process: Option<&Path>) -> Vec<TlsFinding> {
    let not_etcds = process.map(groups_beyond).unwrap_or_default();
    let check = |set: &TlsSet| TlsFinding {
        serves: set.serves,
        files: set.files.clone(),
        trouble: trouble(set, &not_etcds),
    };
    sets.iter().map(check).collect()
}

fn trouble(set: &TlsSet, not_etcds: &BTreeSet<u32>) -> Option<String> {
    if paths(&set.files).into_iter().any(is_hidden) {
        return None;
    }
    found(set, not_etcds)
}

fn paths(files: &TlsFiles) -> [&Path; 3] {
    let TlsFiles {
        cert_file,
        key_file,
        ca_file,
    } = files;
    [cert_file, key_file, ca_file]
}

/// True if the file, or what it is a link to, is in a place that this process cannot see as etcd does.
fn is_hidden(path: &Path) -> bool {
    let mut path = path.to_owned();
    for _ in 0..MOST_LINKS {
        if HIDDEN.iter().any(|dir| path.starts_with(dir)) {
            return true;
        }
        let Ok(target) = fs::read_link(&path) else {
            return false;
        };
        path = path.parent().unwrap_or(Path::new("/")).join(target);
    }
    false
}

/// What is found in files that this process can see.
fn found(set: &TlsSet, not_etcds: &BTreeSet<u32>) -> Option<String> {
    let by_our_group = |path: &&Path| is_by_group(path, not_etcds);
    paths(&set.files)
        .into_iter()
        .find(by_our_group)
        .map(|path| {
            format!(
                "cannot use {}: etcd's user may not read it: give it to the group of that user with mode 0640",
                path.display()
            )
        })
        .or_else(|| unusable(&set.files, &set.fits))
}

/// What is wrong with the files that are configured, one line each, for a person who checks a configuration. Files that
/// this process may not read are left out.
pub fn tls_troubles(spec: &Spec) -> Vec<String> {
    let readable = |set: &TlsSet| {
        let denied = |path: &Path| {
            fs::File::open(path).is_err_and(|error| error.kind() == std::io::ErrorKind::PermissionDenied)
        };
        !paths(&set.files).into_iter().any(denied)
    };
    let configured = sets(spec, &BTreeMap::new());
    let checked = configured.iter().filter(|set| readable(set));
    let found = checked.filter_map(|set| Some((set.serves.table(), unusable(&set.files, &set.fits)?)));
    found.map(|(table, why)| format!("[{table}]: {why}")).collect()
}

/// True if this process may read the file only because of one of these groups.
fn is_by_group(path: &Path, groups: &BTreeSet<u32>) -> bool {
    let Ok(meta) = fs::metadata(path) else {
        return false;
    };
    let mut list = [0_u8; 0];
    // A list of access decides instead of the group.
    let listed = rustix::fs::getxattr(path, "system.posix_acl_access", &mut list).is_ok();
    let own = meta.uid() == rustix::process::geteuid().as_raw();
    !own && !listed && meta.mode() & 0o004 == 0 && groups.contains(&meta.gid())
}

/// The groups of this process that etcd's process does not have; none if that is not known.
fn groups_beyond(process: &Path) -> BTreeSet<u32> {
    let Ok(status) = fs::read_to_string(process.join("status")) else {
        return BTreeSet::new();
    };
    let of_line = |line: &str| -> Option<BTreeSet<u32>> {
        let (key, rest) = line.split_once(':')?;
        matches!(key, "Gid" | "Groups")
            .then(|| rest.split_whitespace().filter_map(|id| id.parse().ok()).collect())
    };
    let etcds: BTreeSet<u32> = status.lines().filter_map(of_line).flatten().collect();
    let ours = rustix::process::getgroups().unwrap_or_default();
    let ours = ours.into_iter().map(rustix::process::Gid::as_raw);
    ours.filter(|gid| !etcds.contains(gid)).collect()
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use crate::adapters::tls::testing::Authority;
    use crate::model::testing;

    #[test]
    fn the_files_of_the_configuration_and_of_the_next_start_are_checked() {
        let dir = tempfile::tempdir().unwrap();
        let authority = Authority::new();
        let mut spec = testing::spec(&["n1", "n2", "n3"]);
        let (node, address) = (spec.node.to_string(), "10.0.0.1".to_owned());
        spec.nodes.insert(spec.node.clone(), address.clone());
        let named = authority.issue(dir.path(), "named", &[&node], 2099);
        let other = authority.issue(dir.path(), "other", &["elsewhere"], 2099);
        spec.etcd.client_tls = Some(named.clone());
        spec.etcd.peer_tls = Some(other.clone());
        let variables = [
            ("CERT", &named.cert_file),
            ("KEY", &named.key_file),
            ("TRUSTED_CA", &named.ca_file),
        ];
        let written = variables
            .iter()
            .map(|(name, path)| (format!("ETCD_PEER_{name}_FILE"), path.display().to_string()))
            .collect();
        let sets = sets(&spec, &written);
        let of: Vec<_> = sets.iter().map(|set| (set.serves, &set.files)).collect();
        assert_eq!(
            of,
            [
                (TlsUse::Clients, &named),
                (TlsUse::Members, &other),
                (TlsUse::Members, &named)
            ]
        );
        // `trouble` looks at no files below /tmp.
        let troubles: Vec<_> = sets.iter().map(|set| found(set, &BTreeSet::new())).collect();
        assert_eq!(troubles[0], None, "the node's name is enough for clients");
        for trouble in &troubles[1..] {
            let text = trouble.as_ref().unwrap();
            assert!(text.contains(&format!("others connect to {address}:")), "{text}");
        }
        let shown = tls_troubles(&spec);
        assert_eq!(shown.len(), 1);
        assert!(shown[0].starts_with("[etcd.peer_tls]: "), "{shown:?}");

        spec.nodes.retain(|node, _| *node == spec.node);
        assert_eq!(tls_troubles(&spec), [""; 0], "nobody connects to a single member");
    }

    /// The files are missing, but etcd may see them.
    #[test]
    fn files_that_this_unit_cannot_see_are_unknown() {
        let files = |dir: &str| TlsFiles {
            cert_file: "/none/none.crt".into(),
            key_file: Path::new(dir).join("none.key"),
            ca_file: "/none/ca.crt".into(),
        };
        let trouble = |files: TlsFiles| {
            let mut spec = testing::spec(&["n1"]);
            spec.etcd.peer_tls = Some(files);
            super::trouble(&sets(&spec, &BTreeMap::new())[0], &BTreeSet::new())
        };
        for dir in HIDDEN {
            assert_eq!(trouble(files(dir)), None, "{dir}");
        }
        for dir in ["/none", "/tmpfs", "/var/tmpfs", "/etc/etcd-agent"] {
            let said = trouble(files(dir)).unwrap_or_default();
            assert!(said.contains("is not there"), "{dir}: {said}");
        }
        // Not below /tmp: links to a file there, one of them by another link.
        let here = std::env::current_exe().unwrap();
        let links = tempfile::tempdir_in(here.parent().unwrap()).unwrap();
        let link = |name: &str, target: &str| {
            std::os::unix::fs::symlink(target, links.path().join(name)).unwrap();
        };
        link("none.key", "second");
        link("second", "/var/tmp/none.key");
        assert_eq!(trouble(files(links.path().to_str().unwrap())), None);
        fs::remove_file(links.path().join("second")).unwrap();
        assert!(trouble(files(links.path().to_str().unwrap())).is_some());
    }

    /// What is hidden here follows from the unit.
    #[test]
    fn the_unit_hides_what_is_named_as_hidden() {
        let unit = Path::new(env!("CARGO_MANIFEST_DIR")).join("units/etcd-agent-data.service");
        let unit = fs::read_to_string(unit).unwrap();
        assert!(unit.contains("\nPrivateTmp=yes\n"));
        let hides = unit
            .lines()
            .find_map(|line| line.strip_prefix("InaccessiblePaths="));
        for dir in ["-/etc/etcd-agent/tls", "-/etc/etcd-agent/secret"] {
            assert!(hides.unwrap().contains(dir), "{dir}");
        }
        for place in ["ProtectHome", "TemporaryFileSystem", "RootDirectory"] {
            assert!(!unit.contains(&format!("\n{place}=")), "{place} hides more");
        }
    }

    #[test]
    fn a_file_that_only_a_group_of_ours_may_read_is_not_etcds() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("key");
        fs::write(&path, "x").unwrap();
        let gid = fs::metadata(&path).unwrap().gid();
        assert!(!is_by_group(&path, &[gid].into()), "it is the file of our user");
        fs::write(
            dir.path().join("status"),
            format!("Name:\tetcd\nGid:\t7 7 7 7\nGroups:\t8 {gid}\n"),
        )
        .unwrap();
        assert!(!groups_beyond(dir.path()).contains(&gid));
        assert!(groups_beyond(&dir.path().join("none")).is_empty(), "not known");
    }
}
