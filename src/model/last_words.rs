//! Why etcd ended by itself, as its own last words say it.

use serde::{Deserialize, Serialize};

/// What etcd's last words are about.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Trouble {
    /// The write-ahead log is damaged.
    Log,
    /// The database is damaged.
    Database,
    /// The disk, or a quota on it, is full.
    NoSpace,
    /// The file system is mounted read-only.
    ReadOnly,
    /// etcd may not read or write a file: its owner or mode.
    NotPermitted,
    /// The disk answers with errors.
    DiskError,
    /// Another program listens at one of etcd's addresses.
    AddressTaken,
    /// A certificate or key cannot be read or used.
    Certificate,
    /// More members than one are learners, as this version of etcd reads its data.
    Learners,
}

impl Trouble {
    /// True where etcd says that its data is damaged. Everything else is trouble around the data, which is kept.
    pub fn is_damage(self) -> bool {
        matches!(self, Self::Log | Self::Database)
    }
}

/// What etcd said when it ended, in its last starts.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LastWords {
    /// What they are about.
    pub trouble: Trouble,
    /// What it said last, one line.
    pub text: String,
    /// How many starts in a row have ended with this trouble.
    pub starts: u32,
}

/// How often etcd has to end in the same way before its data counts as damaged.
const STARTS: u32 = 2;

impl LastWords {
    /// True when etcd has said often enough that its data is damaged. That alone is not believed.
    pub fn claim_damage(&self) -> bool {
        self.trouble.is_damage() && self.starts >= STARTS
    }
}
