//! What `etcd-agent apply` leaves for the agent.

use serde::{Deserialize, Serialize};

use super::loaded::Fingerprint;
use crate::model::InForce;

/// The content of [`crate::paths::Paths::apply_result`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ApplyResult {
    /// What was read back; `None` when nothing was written.
    pub in_force: Option<InForce>,
    /// `etcd.service` when it was read back.
    #[serde(default)]
    pub loaded: Fingerprint,
    /// Notes for the operator.
    pub notes: Vec<String>,
    /// Why it was refused, one line.
    pub error: Option<String>,
}
