//! An etcd older than the oldest supported version. No cluster is formed with it. In an existing cluster it
//! is only reported.

use super::context::Context;
use crate::model::{NodeName, ReasonCode};

/// True when there is no cluster yet and a node's etcd is too old for one.
pub(super) fn refuses(cx: &mut Context<'_>) -> bool {
    let old: Vec<(&NodeName, &String)> = cx
        .known_nodes()
        .into_iter()
        .filter_map(|(node, status)| Some((node, status.etcd_too_old.as_ref()?)))
        .collect();
    if old.is_empty() {
        return false;
    }
    let found: Vec<String> = old
        .iter()
        .map(|(node, version)| format!("{node} has etcd {version}"))
        .collect();
    let text = format!(
        "{}: older than 3.5, the oldest supported version; install etcd 3.5 or newer there",
        found.join(", ")
    );
    if cx.genesis().is_some() {
        cx.because(ReasonCode::EtcdTooOld, text);
        return false;
    }
    cx.halt(ReasonCode::EtcdTooOld, text);
    true
}
