//! Where a failure of a backup came from: etcd, the store or this host.

use thiserror::Error;

use crate::ports::{PortError, PortResult};

/// Where it failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Cause {
    /// etcd did not answer, or did not send a whole snapshot.
    Etcd,
    /// The store.
    Store,
    /// This host: no room, no thread, no throw-away etcd.
    Host,
}

impl Cause {
    /// As a label of a metric.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Etcd => "etcd",
            Self::Store => "store",
            Self::Host => "host",
        }
    }
}

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
