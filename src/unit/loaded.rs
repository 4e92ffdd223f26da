//! `etcd.service` as systemd has loaded it, and a fingerprint that shows whether that has changed.

use std::fmt::Write as _;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use crate::model::LoadState;

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

    /// A digest of what is loaded and of the identity, size and time of each of its files. It does not read
    /// the files, so that the agent can compute it too.
    pub fn fingerprint(&self) -> String {
        let stable = Self {
            unit_file_state: String::new(),
            need_daemon_reload: false,
            ..self.clone()
        };
        let mut text = serde_json::to_string(&stable).unwrap_or_default();
        for path in self.files() {
            let _ = write!(text, "\n{path} {}", stamp(Path::new(path)));
        }
        let mut out = String::new();
        for byte in Sha256::digest(text.as_bytes()) {
            let _ = write!(out, "{byte:02x}");
        }
        out
    }
}

fn stamp(path: &Path) -> String {
    match std::fs::metadata(path) {
        Ok(meta) => format!(
            "{} {} {}.{:09}",
            meta.ino(),
            meta.len(),
            meta.mtime(),
            meta.mtime_nsec()
        ),
        Err(error) => error.kind().to_string(),
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
}
