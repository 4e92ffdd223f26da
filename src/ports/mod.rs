//! The ports of the agent, by role. Adapters implement them; the simulator has its own implementations.

mod agent_handle;
mod certificates;
mod clock;
mod etcd;
mod node_state;
mod peers;
mod service;
mod store;

use std::pin::Pin;

use bytes::Bytes;
use futures::Stream;

use crate::model::{Fact, Watched};

pub use agent_handle::AgentHandle;
pub use certificates::{Certificates, EtcdCertificates};
pub use clock::Clock;
pub use etcd::Etcd;
pub use node_state::NodeState;
pub use peers::Peers;
pub use service::{
    DataReport, DataRequest, Inspection, ProcessReport, RestoreReport, STAGE_WITHIN, ServiceManager,
    ShutdownLock, VerifyRestoreRequest,
};
pub use store::{Created, Expected, ObjectMeta, ObjectStore, PART_BYTES, Replaced, Tag, Upload};

/// The failure of a call across a port. The text is one line: what was tried, on what, and what the operator
/// can do.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PortError {
    /// The call had no effect and may be retried.
    #[error("{0}")]
    Retryable(String),
    /// The call will fail until something changes.
    #[error("{0}")]
    Permanent(String),
    /// The call may have taken effect. Observe again, and never repeat it blindly.
    #[error("{0} (it may have taken effect)")]
    OutcomeUnknown(String),
}

impl PortError {
    /// The kind of failure, for the journal.
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Retryable(_) => "retryable",
            Self::Permanent(_) => "permanent",
            Self::OutcomeUnknown(_) => "outcome unknown",
        }
    }
}

/// Why an order was not carried out.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum OrderError {
    /// This agent refuses it, or is not ready for it.
    #[error(transparent)]
    Here(#[from] PortError),
    /// The store did not carry it out.
    #[error("{0}")]
    Store(PortError),
}

/// The result of a port call.
pub type PortResult<T> = Result<T, PortError>;

impl<T> From<PortResult<T>> for Fact<T> {
    /// A failed call makes a fact unreachable, never absent.
    fn from(result: PortResult<T>) -> Self {
        match result {
            Ok(value) => Self::Known(value),
            Err(error) => Self::Unreachable(error.to_string()),
        }
    }
}

/// A stream of bytes that can fail.
pub type ByteStream = Pin<Box<dyn Stream<Item = PortResult<Bytes>> + Send>>;

/// The events of a watch of all keys, or its error.
pub type WatchStream = Pin<Box<dyn Stream<Item = PortResult<Watched>> + Send>>;
