//! Why a backup could not be fetched.

use std::io;
use std::path::Path;

use crate::ports::PortError;

/// Why a backup could not be fetched.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::backup) enum FetchError {
    /// The backup is damaged; a retry does not help.
    Damaged(String),
    /// One of its increments is damaged; the revisions before it can be restored.
    Increment(String),
    /// The store or the disk failed; nothing is known about the backup.
    Port(PortError),
}

impl From<PortError> for FetchError {
    fn from(error: PortError) -> Self {
        Self::Port(error)
    }
}

impl From<FetchError> for PortError {
    fn from(error: FetchError) -> Self {
        match error {
            FetchError::Damaged(why) => Self::Permanent(format!("{why}; restore another backup")),
            FetchError::Increment(why) => Self::Permanent(why),
            FetchError::Port(error) => error,
        }
    }
}

/// A file or directory that cannot be written.
pub(super) fn write_failed(dir: &Path, error: &io::Error) -> PortError {
    PortError::Permanent(format!("cannot write in {}: {error}", dir.display()))
}
