//! `etcd.service` as systemd has loaded it, and a fingerprint that shows whether that has changed.

use std::collections::BTreeMap;
use std::io::ErrorKind;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use crate::model::{LoadState, hex};

/// What D-Bus says of the unit.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct LoadedUnit {
    /// `LoadState`.
    pub load_state: LoadState,
    /// `UnitFileState`: `enabled`, `disabled`, `masked`, ...
    pub unit_file_state: String,
    /// True when files changed since systemd read them.
    pub need_daemon_reload: bool,
    /// The unit file.
    pub fragment_path: String,
    /// Its drop-ins, in the order in which they apply.
    pub drop_in_paths: Vec<String>,
    /// `User=`.
    pub user: String,
    /// `Environment=`, merged, specifiers expanded.
    pub environment: Vec<String>,
    /// `EnvironmentFile=` in order; true when it may be missing.
    pub environment_files: Vec<(String, bool)>,
    /// `UnsetEnvironment=`.
    pub unset_environment: Vec<String>,
    /// `ExecStart=`: argv of each command, variables not expanded.
    pub exec_start: Vec<Vec<String>>,
    /// `ExecStartPre=`, likewise.
    pub exec_start_pre: Vec<Vec<String>>,
    /// `ExecStop=`, likewise.
    pub exec_stop: Vec<Vec<String>>,
}

impl LoadedUnit {
    /// Every file whose content matters.
    pub fn files(&self) -> Vec<&str> {
        std::iter::once(self.fragment_path.as_str())
            .chain(self.drop_in_paths.iter().map(String::as_str))
            .chain(self.environment_files.iter().map(|(path, _)| path.as_str()))
            .filter(|path| !path.is_empty())
            .collect()
    }

    /// What shows whether the unit or its files have changed. It does not read the files, so that the agent can
    /// compute it too.
    pub fn fingerprint(&self) -> Fingerprint {
        let stable = Self {
            unit_file_state: String::new(),
            need_daemon_reload: false,
            ..self.clone()
        };
        let text = serde_json::to_string(&stable).unwrap_or_default();
        let unit = hex(&Sha256::digest(text.as_bytes()));
        let stamped = |path: &str| (path.to_owned(), stamp(Path::new(path)));
        let files = self.files().into_iter().map(stamped).collect();
        Fingerprint { unit, files }
    }
}

/// A digest of the unit as it is loaded, and a stamp of each of its files.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Fingerprint {
    unit: String,
    /// Identity, size and time of each file by its path; `None` if this user may not look at it.
    files: BTreeMap<String, Option<String>>,
}

impl Fingerprint {
    /// True if `now`, as another user sees it, shows no change. Of a file that this user may not look at, no
    /// change can be seen.
    pub fn is_still(&self, now: &Self) -> bool {
        let same = |(path, stamp): (&String, &Option<String>)| match now.files.get(path) {
            Some(seen) => seen.is_none() || seen == stamp,
            None => false,
        };
        self.unit == now.unit && self.files.len() == now.files.len() && self.files.iter().all(same)
    }

    /// The files that this user may not look at.
    pub fn hidden(&self) -> impl Iterator<Item = &str> {
        let hidden = self.files.iter().filter(|(_, stamp)| stamp.is_none());
        hidden.map(|(path, _)| path.as_str())
    }
}

fn stamp(path: &Path) -> Option<String> {
    match std::fs::metadata(path) {
        Ok(meta) => Some(format!(
            "{} {} {}.{:09}",
            meta.ino(),
            meta.len(),
            meta.mtime(),
            meta.mtime_nsec()
        )),
        Err(error) if error.kind() == ErrorKind::PermissionDenied => None,
        Err(error) => Some(error.kind().to_string()),
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn the_fingerprint_sees_properties_and_files() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("env").display().to_string();
        let mut unit = LoadedUnit {
            environment_files: vec![(file.clone(), true)],
            ..LoadedUnit::default()
        };
        let absent = unit.fingerprint();
        assert_eq!(unit.fingerprint(), absent);
        std::fs::write(&file, "A=1").unwrap();
        let present = unit.fingerprint();
        assert_ne!(present, absent, "a file came");
        unit.need_daemon_reload = true;
        assert_eq!(unit.fingerprint(), present, "asked for separately");
        unit.exec_start = vec![vec!["/usr/bin/etcd".to_owned()]];
        assert_ne!(unit.fingerprint(), present, "a property changed");
    }

    /// A directory that the agent's user may not enter, such as `/etc/etcd` with mode 0750.
    #[test]
    fn j_a_file_that_the_agent_may_not_look_at_counts_as_unchanged() {
        let of = |unit: &str, env: Option<&str>| Fingerprint {
            unit: unit.to_owned(),
            files: [
                ("/etc/etcd/etcd.env".to_owned(), env.map(str::to_owned)),
                (
                    "/usr/lib/systemd/system/etcd.service".to_owned(),
                    Some("1 2 3.4".to_owned()),
                ),
            ]
            .into(),
        };
        let applied = of("unit", Some("5 6 7.8"));
        assert!(applied.is_still(&applied));
        assert!(
            !applied.is_still(&of("unit", Some("9 6 7.8"))),
            "the file has changed"
        );
        let seen = of("unit", None);
        assert!(applied.is_still(&seen));
        assert!(!applied.is_still(&of("other", None)), "the unit has changed");
        assert_eq!(seen.hidden().collect::<Vec<_>>(), ["/etc/etcd/etcd.env"]);
        let mut more = seen.clone();
        more.files.insert("/etc/default/etcd".to_owned(), None);
        assert!(!applied.is_still(&more) && !more.is_still(&applied));
        assert!(!Fingerprint::default().is_still(&seen), "nothing was applied");
    }
}
