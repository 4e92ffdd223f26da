//! The comparable content of a database, and the result of verifying a backup.

use serde::{Deserialize, Serialize};

use super::{BackupId, Revision, UnixMs};

/// etcd's `HashKV`: a hash of all keys and values up to a revision. Two hashes of one revision can be
/// compared if both databases were compacted at the same revision and the same version of etcd computed them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct KvHash {
    /// The hash.
    pub hash: u32,
    /// The revision up to which the database was compacted.
    pub compact_revision: Revision,
}

/// The content of a database at one revision. Unknown fields are `None`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Fingerprint {
    /// The revision.
    pub revision: Revision,
    /// The number of keys.
    #[serde(default)]
    pub keys: Option<u64>,
    /// The hash of the keys.
    #[serde(default)]
    pub hash: Option<KvHash>,
}

/// The result of the last verification of a backup, as the catalogue shows it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Verified {
    /// When.
    pub at: UnixMs,
    /// The problems found; empty if there are none.
    pub problems: Vec<String>,
}

impl Verified {
    /// True if the backup was restored and matches what was backed up.
    pub fn is_ok(&self) -> bool {
        self.problems.is_empty()
    }
}

/// The planner's view of verifications.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct VerifyView {
    /// The newest verified backup, and the result.
    pub last: Option<(BackupId, Verified)>,
    /// When the oldest remaining backup was begun.
    pub oldest_backup: Option<UnixMs>,
}
