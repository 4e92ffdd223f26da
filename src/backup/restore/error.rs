//! Why a backup could not be fetched.

use std::io;
use std::path::Path;

use crate::ports::PortError;

/// Why a backup could not be fetched.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::backup) enum FetchError {
    /// It is no good, whoever tries again.
    Damaged(String),
    /// One of its increments is no good: what is before it can be restored.
    Increment(String),
    /// Nothing is said about it.
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
