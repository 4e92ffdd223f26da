//! A failure of a backup with its cause.

use thiserror::Error;

pub use crate::model::Cause;
use crate::ports::{PortError, PortResult};

/// What went wrong, and where.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("{error}")]
pub struct Failed {
    /// Where.
    pub cause: Cause,
    /// What.
    pub error: PortError,
}

impl From<Failed> for PortError {
    fn from(failed: Failed) -> Self {
        failed.error
    }
}

/// Attaches a cause to a failure.
pub trait CausedBy<T> {
    /// This result; a failure gets this cause.
    ///
    /// # Errors
    /// The error of this result, with the cause.
    fn caused_by(self, cause: Cause) -> Result<T, Failed>;
}

impl<T> CausedBy<T> for PortResult<T> {
    fn caused_by(self, cause: Cause) -> Result<T, Failed> {
        self.map_err(|error| Failed { cause, error })
    }
}
