//! The etcd of the version that operators have selected.

use std::path::PathBuf;

use crate::etcd_versions::etcd_versions;
use crate::model::{EtcdSpec, EtcdVersion};
use crate::unit::data::tool::etcd_version;
use crate::unit::roots::roots_own;

/// The path of the etcd of this version below `etcd.versions_dir`. Only root can have put it there, and it
/// says itself that it has that version.
///
/// # Errors
/// One line: what was found, what was expected, and what to do.
pub fn selected_etcd(spec: &EtcdSpec, version: EtcdVersion) -> Result<PathBuf, String> {
    if let Some(binary) = &spec.binary {
        return Err(format!(
            "etcd {version} is selected, and etcd.binary is configured ({}): remove that line, or `etcd-agent upgrade --cancel`",
            binary.display()
        ));
    }
    let dir = &spec.versions_dir;
    let mut found = etcd_versions(dir).map_err(|error| format!("reading {}: {error}", dir.display()))?;
    let etcd = found.remove(&version).ok_or_else(|| {
        format!(
            "etcd {version} is selected, and there is no {}/etcd-v{version}/etcd: unpack the release there, or \
             `etcd-agent upgrade --cancel`",
            dir.display()
        )
    })?;
    roots_own(&format!("etcd {version}"), &etcd)?;
    match etcd_version(&etcd) {
        Some(says) if says == version.to_string() => Ok(etcd),
        says => Err(format!(
            "{} reports the version {}, expected {version}: unpack the right release there",
            etcd.display(),
            says.as_deref().unwrap_or("(none: it does not run here)")
        )),
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use std::fs;
    use std::path::Path;

    use super::*;
    use crate::model::testing;

    fn spec(dir: &Path) -> EtcdSpec {
        EtcdSpec {
            versions_dir: dir.to_owned(),
            ..testing::spec(&["n1"]).etcd
        }
    }

    #[test]
    fn only_an_etcd_that_is_there_and_is_roots_is_taken() {
        let dir = tempfile::tempdir().unwrap();
        let version: EtcdVersion = "3.6.16".parse().unwrap();
        let missing = selected_etcd(&spec(dir.path()), version).unwrap_err();
        assert!(missing.contains("there is no"), "{missing}");
        let place = dir.path().join("etcd-v3.6.16");
        fs::create_dir(&place).unwrap();
        fs::write(place.join("etcd"), "#!/bin/sh\necho etcd Version: 3.6.16\n").unwrap();
        let refused = selected_etcd(&spec(dir.path()), version).unwrap_err();
        assert!(refused.contains("is not root's alone to write"), "{refused}");
        let pinned = EtcdSpec {
            binary: Some("/usr/bin/etcd".into()),
            ..spec(dir.path())
        };
        let refused = selected_etcd(&pinned, version).unwrap_err();
        assert!(
            refused.contains("etcd.binary is configured (/usr/bin/etcd)"),
            "{refused}"
        );
    }
}
