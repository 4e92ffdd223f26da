//! The space of etcd's database: its quota, and when it is defragmented.

use serde::{Deserialize, Serialize};

use super::{Calendar, ClusterId, Revision};

/// True for a database of this size, in bytes, that has too little space left: 95% of the quota. etcd raises
/// NOSPACE when the next request does not fit any more, so the size is below the quota then.
pub fn is_full(size: u64, quota: Option<u64>) -> bool {
    quota.is_some_and(|quota| size >= quota - quota / 20)
}

/// The pages in use, in bytes, at which a defragmentation alone would not give much space: 90% of the quota.
pub fn crowded_at(quota: u64) -> u64 {
    quota - quota / 10
}

/// When etcd is defragmented, and whether it is freed from NOSPACE.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SpaceSpec {
    /// A database is defragmented when this part of its file is free, in percent; 0 if never.
    pub defrag_percent: usize,
    /// Databases smaller than this many bytes are left as they are.
    pub defrag_min_size: u64,
    /// The times at which a defragmentation may begin, each for an hour; `None` for any time.
    pub defrag_on_calendar: Option<Calendar>,
    /// Whether the agents compact and defragment etcd and disarm the alarm when NOSPACE is raised.
    pub recover: bool,
}

impl Default for SpaceSpec {
    fn default() -> Self {
        Self {
            defrag_percent: 50,
            defrag_min_size: 100 << 20,
            defrag_on_calendar: None,
            recover: true,
        }
    }
}

/// A compaction of the history of all keys because of NOSPACE.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Compaction {
    /// In which cluster.
    pub cluster_id: ClusterId,
    /// Before which revision.
    pub revision: Revision,
}

/// The end of a node's last defragmentation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DefragEnd {
    /// The size in bytes that the database had then.
    pub size: u64,
    /// The newest revision before which a coordinator had compacted the history because of NOSPACE when it
    /// began.
    pub compacted: Option<Revision>,
}

/// Why the etcd of a node is to be defragmented.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct DefragWish {
    /// One line.
    pub why: String,
    /// The order; `None` if its database has much free space.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub order: Option<u64>,
    /// The error of the last attempt, if it failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failed: Option<String>,
    /// True if etcd has no space: its history is compacted first.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub no_space: bool,
    /// True during the pause after an attempt that failed: it asks for no grant.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub rests: bool,
}

/// The defragmentation of a node's etcd.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct DefragView {
    /// Why it is to be defragmented, if it is. The defragmentation waits for a grant.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub wish: Option<DefragWish>,
    /// True while it is being defragmented.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub running: bool,
    /// True if its database has too little space left, by this node's quota.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub full: bool,
}

impl DefragView {
    pub(super) fn is_idle(&self) -> bool {
        *self == Self::default()
    }
}
