//! What `etcd-agent apply` leaves for the agent.

use serde::{Deserialize, Serialize};

use crate::model::InForce;

/// The content of [`crate::paths::Paths::apply_result`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ApplyResult {
    /// What was read back; `None` when nothing was written.
    pub in_force: Option<InForce>,
    /// [`super::loaded::LoadedUnit::fingerprint`] when it was read back.
    pub fingerprint: String,
    /// Notes for the operator.
    pub notes: Vec<String>,
    /// Why it was refused, one line.
    pub error: Option<String>,
}
