//! Numbers for the metrics and the status page. No decision depends on them.

use std::collections::BTreeMap;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::{NodeName, UnixMs};

/// What this agent knows of its node in addition to the status.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Vitals {
    /// When the loop last looked at systemd, etcd and the other agents.
    pub looked_at: Option<UnixMs>,
    /// The quota of etcd's database on this node, in bytes; `None` if it is switched off.
    pub etcd_quota_bytes: Option<u64>,
    /// The interval between full backups; `None` if none are taken by an interval.
    pub backup_interval: Option<Duration>,
    /// When the first of the certificates that etcd uses here expires; `None` without TLS, or if it cannot be
    /// read.
    pub etcd_certificate_not_after: Option<UnixMs>,
    /// By how many milliseconds each peer's clock was ahead of this node's when it last answered.
    pub clocks: BTreeMap<NodeName, i64>,
}
