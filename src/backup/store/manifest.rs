//! The commit markers of backups: our `backup.json`, and etcd-manager's `_etcd_backup.meta`.

use serde::{Deserialize, Serialize};

use crate::model::{
    BackupId, BackupSummary, ClusterId, ClusterName, Epoch, Fingerprint, MemberId, NodeName, Revision, UnixMs,
};

/// The format that this agent writes, and the only one that it reads.
pub(in crate::backup) const FORMAT: u32 = 1;

/// How the snapshot is compressed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Compression {
    /// `etcd.backup.zst`.
    Zstd,
    /// `etcd.backup.gz`, as etcd-manager writes it.
    Gzip,
}

/// `backup.json`, written last. Unknown fields are ignored; a field that must not be ignored
/// raises the format.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Manifest {
    /// [`FORMAT`].
    pub format: u32,
    /// The backup's name, which is also the name of its directory.
    pub id: BackupId,
    /// Of which cluster.
    pub cluster: ClusterName,
    /// In which epoch.
    pub epoch: Epoch,
    /// etcd's cluster ID.
    pub cluster_id: ClusterId,
    /// The member that the snapshot was streamed from.
    pub member_id: MemberId,
    /// The node that took it.
    pub node: NodeName,
    /// etcd's version.
    pub etcd_version: String,
    /// Read before the snapshot began, so the snapshot holds this revision at least.
    pub revision: Revision,
    /// Read while the snapshot streamed, so the snapshot holds no later revision.
    #[serde(default)]
    pub revision_at_most: Option<Revision>,
    /// The revision of users and roles before the snapshot began; `None` when etcd did not answer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub auth_revision: Option<u64>,
    /// The history within its epoch: grows when etcd was put back to an older state under the same cluster
    /// ID. `None` in a manifest of an older agent, which belongs to the timeline of the full before it.
    #[serde(default)]
    pub timeline: Option<u64>,
    /// The backup that it does not continue, when it begins a timeline.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub breaks: Option<Break>,
    /// The first 8 digits of the SHA-256 of what was written as `revision`, which identifies that history;
    /// `None` when etcd did not answer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub changes_sum: Option<String>,
    /// Size of what `etcdctl snapshot save` would have written: bbolt file and 32-byte trailer.
    pub raw_size_bytes: u64,
    /// Size of the stored object.
    pub stored_size_bytes: u64,
    /// SHA-256 of the bbolt file, in hexadecimal: the same as the snapshot's trailer.
    pub sha256: String,
    /// How the snapshot is compressed.
    pub compression: Compression,
    /// How the object is encrypted on top: `age`, and its name then ends in `.age`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub encryption: Option<String>,
    /// When it was begun.
    pub started_at: UnixMs,
    /// When the snapshot was complete in the store.
    pub finished_at: UnixMs,
    /// The version of the agent that took it.
    pub agent_version: String,
    /// What the member held at `revision`, for a verification to compare.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fingerprint: Option<Fingerprint>,
}

/// The backup that a full at the beginning of a timeline does not continue.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Break {
    /// The backup whose increments led furthest in the timeline before.
    pub backup: BackupId,
    /// The newest revision that they lead to.
    pub covered: Revision,
    /// True when etcd is known to have another history; false when that is unknown.
    #[serde(default)]
    pub went_back: bool,
    /// One line for people.
    pub why: String,
}

/// A commit marker that cannot be read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ManifestError {
    /// Written by an agent of another version.
    #[error("it has format {0}, and this agent reads format {FORMAT}; use a newer agent")]
    Format(u64),
    /// A backup of etcd 2.
    #[error("it is of etcd {0}, expected 3 or later: restore it with the etcd-manager that wrote it")]
    Etcd2(String),
    /// Not a commit marker.
    #[error("it is not a commit marker of a backup: {0}")]
    Malformed(String),
}

impl Manifest {
    /// Reads `backup.json` of the backup `id`.
    pub fn parse(id: &BackupId, text: &[u8]) -> Result<Self, ManifestError> {
        #[derive(Deserialize)]
        struct Version {
            format: u64,
        }
        // The format first: a later one may have fields that this agent does not know.
        let version: Version = serde_json::from_slice(text).map_err(malformed)?;
        if version.format != u64::from(FORMAT) {
            return Err(ManifestError::Format(version.format));
        }
        let manifest: Self = serde_json::from_slice(text).map_err(malformed)?;
        if manifest.id != *id {
            return Err(malformed(format!("it is of {}", manifest.id)));
        }
        Ok(manifest)
    }

    /// As JSON for people, ending in a newline.
    pub fn to_json(&self) -> Result<Vec<u8>, ManifestError> {
        let mut text = serde_json::to_vec_pretty(self).map_err(malformed)?;
        text.push(b'\n');
        Ok(text)
    }

    /// As the catalogue shows it.
    pub fn summary(&self) -> BackupSummary {
        BackupSummary {
            id: self.id.clone(),
            at: self.finished_at,
            revision: self.revision,
            size_bytes: self.stored_size_bytes,
        }
    }
}

/// etcd-manager's `_etcd_backup.meta`: jsonpb, so 64-bit numbers are strings, and both spellings of a name
/// occur.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub(in crate::backup) struct ForeignMeta {
    /// etcd's version.
    #[serde(alias = "etcd_version", rename = "etcdVersion", default)]
    pub etcd_version: String,
    #[serde(default)]
    timestamp: serde_json::Value,
}

impl ForeignMeta {
    /// Reads it.
    pub(in crate::backup) fn parse(text: &[u8]) -> Result<Self, ManifestError> {
        let meta: Self = serde_json::from_slice(text).map_err(malformed)?;
        if meta.at().is_none() {
            return Err(malformed("it has no time"));
        }
        // A tar of a data directory, which no current etcd reads.
        if meta.etcd_version.starts_with("2.") {
            return Err(ManifestError::Etcd2(meta.etcd_version));
        }
        Ok(meta)
    }

    /// When it was taken.
    pub(in crate::backup) fn at(&self) -> Option<UnixMs> {
        let seconds = match &self.timestamp {
            serde_json::Value::String(text) => text.parse().ok()?,
            serde_json::Value::Number(number) => number.as_u64()?,
            _ => return None,
        };
        Some(UnixMs(u64::checked_mul(seconds, 1000)?))
    }
}

#[expect(clippy::needless_pass_by_value, reason = "for `map_err`")]
fn malformed(why: impl ToString) -> ManifestError {
    ManifestError::Malformed(why.to_string())
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
pub(in crate::backup) fn example() -> Manifest {
    Manifest {
        format: FORMAT,
        id: BackupId::new("2026-03-01T04:05:06Z-000042").unwrap(),
        cluster: ClusterName::new("prod").unwrap(),
        epoch: Epoch(2),
        cluster_id: ClusterId(0xabc),
        member_id: MemberId(0xdef),
        node: NodeName::new("n1").unwrap(),
        etcd_version: "3.6.16".to_owned(),
        revision: Revision(81237),
        revision_at_most: Some(Revision(81240)),
        timeline: Some(0),
        breaks: None,
        changes_sum: None,
        auth_revision: None,
        raw_size_bytes: 20512,
        stored_size_bytes: 4711,
        sha256: "00".repeat(32),
        compression: Compression::Zstd,
        encryption: None,
        started_at: UnixMs(1_772_337_906_000),
        finished_at: UnixMs(1_772_337_907_000),
        agent_version: "0.1.0".to_owned(),
        fingerprint: None,
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn the_file_is_for_people_and_stays_as_it_is() {
        let text = String::from_utf8(example().to_json().unwrap()).unwrap();
        insta::assert_snapshot!(text, @r#"
        {
          "format": 1,
          "id": "2026-03-01T04:05:06Z-000042",
          "cluster": "prod",
          "epoch": 2,
          "cluster_id": "abc",
          "member_id": "def",
          "node": "n1",
          "etcd_version": "3.6.16",
          "revision": 81237,
          "revision_at_most": 81240,
          "timeline": 0,
          "raw_size_bytes": 20512,
          "stored_size_bytes": 4711,
          "sha256": "0000000000000000000000000000000000000000000000000000000000000000",
          "compression": "zstd",
          "started_at": 1772337906000,
          "finished_at": 1772337907000,
          "agent_version": "0.1.0"
        }
        "#);
    }

    #[test]
    fn only_our_format_under_its_own_name_is_read() {
        let id = example().id;
        let change = |from: &str, to: &str| {
            let text = String::from_utf8(example().to_json().unwrap()).unwrap();
            Manifest::parse(&id, text.replacen(from, to, 1).as_bytes())
        };
        assert!(change("x", "x").is_ok());
        assert!(change("\"format\": 1", "\"format\": 1, \"later\": 3").is_ok());
        assert_eq!(
            change("\"format\": 1", "\"new\": 3, \"format\": 2"),
            Err(ManifestError::Format(2))
        );
        for (from, to) in [("000042", "000043"), ("81237", "-1"), ("{", "[")] {
            assert!(
                matches!(change(from, to), Err(ManifestError::Malformed(_))),
                "{to}"
            );
        }
    }

    #[test]
    fn etcd_managers_marker_is_read_in_both_spellings() {
        for text in [
            r#"{"etcdVersion":"3.5.7","timestamp":"1700000000","clusterSpec":{"memberCount":3,"etcdVersion":"3.5.7"}}"#,
            r#"{"etcd_version":"3.5.7","timestamp":1700000000,"cluster_spec":{"member_count":3}}"#,
        ] {
            let meta = ForeignMeta::parse(text.as_bytes()).unwrap();
            assert_eq!(
                (meta.etcd_version.as_str(), meta.at()),
                ("3.5.7", Some(UnixMs(1_700_000_000_000)))
            );
        }
        let old = ForeignMeta::parse(br#"{"etcdVersion":"2.2.1","timestamp":"1500000000"}"#);
        assert_eq!(old, Err(ManifestError::Etcd2("2.2.1".to_owned())));
        for text in [
            "{}",
            r#"{"timestamp":"x"}"#,
            r#"{"timestamp":"18446744073709551615"}"#,
            "",
        ] {
            assert!(ForeignMeta::parse(text.as_bytes()).is_err(), "{text}");
        }
    }

    proptest! {
        #[test]
        fn what_is_written_is_read(revision in any::<u64>(), raw in any::<u64>(), stored in any::<u64>(), member in any::<u64>(), version in "\\PC{0,20}") {
            let mut manifest = example();
            manifest.revision = Revision(revision);
            manifest.raw_size_bytes = raw;
            manifest.stored_size_bytes = stored;
            manifest.member_id = MemberId(member);
            manifest.etcd_version = version;
            prop_assert_eq!(Manifest::parse(&manifest.id, &manifest.to_json().unwrap()).unwrap(), manifest);
        }

        #[test]
        fn garbage_is_an_error(text in any::<Vec<u8>>()) {
            prop_assert!(Manifest::parse(&example().id, &text).is_err());
            prop_assert!(ForeignMeta::parse(&text).is_err());
        }
    }
}
