//! The newest backups as the last listing of the store showed them.

use serde::{Deserialize, Serialize};

use super::{BackupId, Revision, UnixMs, Verified};

/// A backup in a listing. No decision depends on it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RecentBackup {
    /// Its name.
    pub id: BackupId,
    /// When it was begun.
    pub at: UnixMs,
    /// The stored size of the snapshot in bytes; `None` if the snapshot is not in the listing.
    pub size_bytes: Option<u64>,
    /// The number of its increments.
    pub increments: usize,
    /// The newest revision that they reach without a gap; 0 without any.
    pub covered: Revision,
    /// The result of its last verification.
    pub verification: SeenVerification,
    /// When the object with that result was last changed, if the store reports it.
    pub verification_changed: Option<UnixMs>,
}

/// How much is known about the verification of a backup.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SeenVerification {
    /// There was none.
    None,
    /// There is a result that was not read yet.
    Unread,
    /// The store does not return the result; the text says why.
    Unreadable(String),
    /// The result.
    Read(Verified),
}

impl SeenVerification {
    /// True if it is known to be good.
    pub fn is_good(&self) -> bool {
        matches!(self, Self::Read(verified) if verified.is_ok())
    }

    /// True if it is bad, or its result cannot be read.
    pub fn is_bad(&self) -> bool {
        match self {
            Self::Read(verified) => !verified.is_ok(),
            Self::Unreadable(_) => true,
            Self::None | Self::Unread => false,
        }
    }
}
