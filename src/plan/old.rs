//! An etcd older than the oldest version that is fully supported. 3.4 is only reported: it runs, so that it
//! can be upgraded. With an older one no cluster is formed.

use super::context::Context;
use crate::model::{NodeName, ReasonCode, is_too_old};

/// True when there is no cluster yet and a node's etcd is too old for one.
pub(super) fn refuses(cx: &mut Context<'_>) -> bool {
    let old: Vec<(&NodeName, &String)> = cx
        .known_nodes()
        .into_iter()
        .filter_map(|(node, status)| Some((node, status.etcd_too_old.as_ref()?)))
        .collect();
    let found = |old: &[(&NodeName, &String)]| {
        let found = old
            .iter()
            .map(|(node, version)| format!("{node} has etcd {version}"));
        found.collect::<Vec<_>>().join(", ")
    };
    let (too_old, only_old): (Vec<_>, Vec<_>) = old.into_iter().partition(|(_, version)| is_too_old(version));
    let is_formed = cx.genesis().is_some();
    if !only_old.is_empty() {
        let text = format!(
            "{}: older than 3.5, the oldest fully supported version; `etcd-agent upgrade` to 3.5 or newer",
            found(&only_old)
        );
        cx.because(ReasonCode::EtcdTooOld, text);
    }
    if too_old.is_empty() {
        return false;
    }
    let text = format!(
        "{}: older than 3.4, the oldest version that runs; install etcd 3.5 or newer there",
        found(&too_old)
    );
    if is_formed {
        cx.because(ReasonCode::EtcdTooOld, text);
    } else {
        cx.halt(ReasonCode::EtcdTooOld, text);
    }
    !is_formed
}
