//! Grants: the coordinator's permissions.

use serde::{Deserialize, Serialize};

use super::{NodeName, RaftTerm};

/// The coordinator's permission for one voluntary disruption on one node. There is at most one in a cluster.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Grant {
    /// The node.
    pub node: NodeName,
    /// Distinguishes grants.
    pub id: u64,
    /// The raft term in which the granting node leads. In any other term the grant is void.
    pub term: RaftTerm,
    /// What the node may do.
    #[serde(default, skip_serializing_if = "GrantPurpose::is_restart")]
    pub purpose: GrantPurpose,
}

/// What a grant permits.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum GrantPurpose {
    /// To restart etcd.
    #[default]
    Restart,
    /// To take the reboot lock.
    Reboot,
    /// To defragment etcd.
    Defrag,
}

impl GrantPurpose {
    /// True for a restart, the only purpose that older versions of the agent know.
    #[allow(clippy::trivially_copy_pass_by_ref)] // serde's `skip_serializing_if` passes a reference.
    fn is_restart(&self) -> bool {
        *self == Self::Restart
    }
}
