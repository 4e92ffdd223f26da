//! `verify.json`, next to `backup.json`: the result of the last verification of a backup.

use serde::{Deserialize, Serialize};

use crate::model::{BackupId, Fingerprint, NodeName, Revision, UnixMs, Verified};

/// The format that this agent writes, and the only one that it reads.
pub(in crate::backup) const FORMAT: u32 = 1;

/// `verify.json`; the next verification overwrites it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Verification {
    /// Always 1.
    pub format: u32,
    /// The backup's name.
    pub id: BackupId,
    /// True when it was restored and holds what was backed up.
    pub ok: bool,
    /// What is wrong with it, a line each.
    pub problems: Vec<String>,
    /// Which values were compared with the recorded ones: `sha256`, `revision`, `keys`, `hash`; with its
    /// increments also `increments`, `increment-keys`, `increment-hash`.
    pub compared: Vec<String>,
    /// When the verification ended.
    pub verified_at: UnixMs,
    /// How long it took, in milliseconds.
    pub took_ms: u64,
    /// The node that verified it.
    pub node: NodeName,
    /// The etcd that it was restored into.
    pub etcd_version: Option<String>,
    /// The newest revision that it holds.
    pub revision: Option<Revision>,
    /// The fingerprint of its data.
    pub fingerprint: Option<Fingerprint>,
    /// The revision that its increments led to, when it had any.
    #[serde(default)]
    pub increments_to: Option<Revision>,
    /// The version of the agent that verified it.
    pub agent_version: String,
}

impl Verification {
    /// Reads `verify.json` of the backup `id`; `None` for one that this agent does not understand, which is
    /// ignored: the backup can be verified again.
    pub fn parse(id: &BackupId, text: &[u8]) -> Option<Self> {
        let read: Self = serde_json::from_slice(text).ok()?;
        (read.format == FORMAT && read.id == *id && read.ok == read.problems.is_empty()).then_some(read)
    }

    /// As JSON for people, ending in a newline.
    ///
    /// # Errors
    /// Never for what was made or parsed here.
    pub fn to_json(&self) -> Result<Vec<u8>, serde_json::Error> {
        let mut text = serde_json::to_vec_pretty(self)?;
        text.push(b'\n');
        Ok(text)
    }

    /// As the catalogue shows it.
    pub fn summary(&self) -> Verified {
        Verified {
            at: self.verified_at,
            problems: self.problems.clone(),
        }
    }

    /// One line for people.
    pub fn text(&self) -> String {
        if !self.ok {
            return format!("{} is bad: {}", self.id, self.problems.join("; "));
        }
        let revision = self.revision.unwrap_or_default();
        let to = self.increments_to;
        let to = to.map_or_else(String::new, |to| format!(", its increments lead to {to}"));
        let keys = self.fingerprint.and_then(|print| print.keys);
        let keys = keys.map_or_else(String::new, |keys| format!(", {keys} keys"));
        format!(
            "{} is good: etcd {} serves it at revision {revision}{keys}{to}; compared: {}",
            self.id,
            self.etcd_version.as_deref().unwrap_or("?"),
            self.compared.join(", ")
        )
    }
}
