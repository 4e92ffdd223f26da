//! The findings of a verification, until they are recorded.

use std::time::Duration;

use crate::backup::store::verification::{FORMAT, Verification};
use crate::model::{BackupId, ClusterName, Fingerprint, NodeName, Revision, UnixMs};

/// Which backup is verified, and by which node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct VerifyMeta {
    /// Of which cluster.
    pub cluster: ClusterName,
    /// Which backup.
    pub id: BackupId,
    /// The node that verifies.
    pub node: NodeName,
    /// Now.
    pub now: UnixMs,
}

/// The findings, before they are recorded.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Found {
    pub(super) problems: Vec<String>,
    pub(super) compared: Vec<String>,
    pub(super) etcd_version: Option<String>,
    pub(super) revision: Option<Revision>,
    pub(super) fingerprint: Option<Fingerprint>,
    pub(super) increments_to: Option<Revision>,
}

impl Found {
    pub(super) fn bad(why: String) -> Self {
        Self {
            problems: vec![why],
            ..Self::default()
        }
    }

    pub(super) fn into_verification(self, meta: &VerifyMeta, took: Duration) -> Verification {
        Verification {
            format: FORMAT,
            id: meta.id.clone(),
            ok: self.problems.is_empty(),
            problems: self.problems,
            compared: self.compared,
            verified_at: meta.now.plus(took),
            took_ms: u64::try_from(took.as_millis()).unwrap_or(u64::MAX),
            node: meta.node.clone(),
            etcd_version: self.etcd_version,
            revision: self.revision,
            fingerprint: self.fingerprint,
            increments_to: self.increments_to,
            agent_version: env!("CARGO_PKG_VERSION").to_owned(),
        }
    }
}
