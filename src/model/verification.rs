//! What a database holds, as far as it can be compared, and what came of verifying a backup.

use serde::{Deserialize, Serialize};

use super::{BackupId, Revision, UnixMs};

/// etcd's `HashKV`: a hash of all keys and values up to a revision. Two of one revision can be compared where both
/// were compacted at the same one, and the same etcd computed them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct KvHash {
    /// The hash.
    pub hash: u32,
    /// What was compacted away before it.
    pub compact_revision: Revision,
}

/// What a database holds at one revision. What could not be found out is left out.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Fingerprint {
    /// At this revision.
    pub revision: Revision,
    /// How many keys there are.
    #[serde(default)]
    pub keys: Option<u64>,
    /// Their hash.
    #[serde(default)]
    pub hash: Option<KvHash>,
}

/// What the last verification of a backup came to, as the catalogue shows it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Verified {
    /// When.
    pub at: UnixMs,
    /// Empty when all was well.
    pub problems: Vec<String>,
}

impl Verified {
    /// True when it was restored and is what was backed up.
    pub fn is_ok(&self) -> bool {
        self.problems.is_empty()
    }
}

/// What the planner knows of verifications.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct VerifyView {
    /// The newest backup that was verified, and what came of it.
    pub last: Option<(BackupId, Verified)>,
    /// When the oldest backup that is still there was begun.
    pub oldest_backup: Option<UnixMs>,
}
