//! Whether the etcd that runs on a node could start again after a stop: with the certificate files (`tls_files.rs`) and
//! the binary (`binary_trouble` in `version.rs`) of its next start, as its own agent reports. It holds back that
//! node alone (rule 10).

use crate::model::{NodeStatus, ReasonCode};

/// Why etcd on this node might not start again.
pub(super) fn trouble(status: &NodeStatus) -> Option<(ReasonCode, &str)> {
    let files = status.tls_trouble.as_deref();
    let binary = status.binary_trouble.as_deref();
    files
        .map(|why| (ReasonCode::TlsFilesUnusable, why))
        .or_else(|| Some((ReasonCode::UpgradeRefused, binary?)))
}

/// Why the etcd that runs on this node might not start again. An etcd that is down loses nothing by another stop.
pub(super) fn stays_down(status: &NodeStatus) -> Option<&str> {
    let (_, why) = trouble(status).filter(|_| status.is_active())?;
    Some(why)
}
