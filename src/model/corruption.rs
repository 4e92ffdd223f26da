//! The comparison of the members' data: etcd's `HashKV` of each voter at one revision.

use std::collections::BTreeSet;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::{ClusterId, EtcdVersion, KvHash, MemberId, Revision, UnixMs};

/// When the members' data is compared, and what follows if one differs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RepairSpec {
    /// How often; `None` for never.
    pub check_interval: Option<Duration>,
    /// Whether a member whose data differs from the others' is rebuilt from them.
    pub corrupt: bool,
}

impl Default for RepairSpec {
    fn default() -> Self {
        Self {
            check_interval: Some(Duration::from_hours(24)),
            corrupt: false,
        }
    }
}

/// The hash of one member's data.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MemberHash {
    /// The hash.
    pub hash: KvHash,
    /// The version of etcd that computed it.
    pub version: EtcdVersion,
}

/// What the hashes of all voters show.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Differences {
    /// Voters whose data differs from that of a majority of the voters.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub corrupt: BTreeSet<MemberId>,
    /// Voters whose data differs, while no majority has the same data: nobody knows which is right.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub unclear: BTreeSet<MemberId>,
}

impl Differences {
    /// True if no difference was found.
    pub fn is_none(&self) -> bool {
        self.corrupt.is_empty() && self.unclear.is_empty()
    }

    /// The differences that both comparisons found.
    #[must_use]
    pub fn and(&self, other: &Self) -> Self {
        Self {
            corrupt: &self.corrupt & &other.corrupt,
            unclear: &self.unclear & &other.unclear,
        }
    }
}

/// The last comparison.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct HashCheck {
    /// Of which cluster.
    pub cluster_id: ClusterId,
    /// At which revision.
    pub revision: Revision,
    /// When it ended.
    pub at: UnixMs,
    /// How many voters could be compared.
    pub compared: usize,
    /// What it found.
    #[serde(default, skip_serializing_if = "Differences::is_none")]
    pub found: Differences,
}
