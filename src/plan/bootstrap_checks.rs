//! What holds the first epoch back: a store that does not answer, data on a node, or another cluster's backups.

use std::collections::BTreeSet;
use std::time::Duration;

use super::context::{Context, names};
use crate::model::{DataState, Fact, NodeName, OperatorRequest, ReasonCode, SteadyMs};

/// How long a missing elector is waited for if the store or the operator allows the cluster to form without
/// it.
pub(super) const PATIENCE: Duration = Duration::from_secs(8);

/// A shared store that does not answer, or ignores conditional writes, holds the first epoch back.
pub(super) fn store_allows(cx: &mut Context<'_>) -> bool {
    if !cx.spec.store_shared {
        return true;
    }
    match &cx.obs.store {
        Fact::Known(store) if store.conditional_writes => true,
        Fact::Known(_) => {
            cx.halt(
                ReasonCode::StoreIgnoresConditions,
                "the store ignores `If-None-Match: *`, so it cannot keep two clusters apart: use one that honours \
                 it, or set store.shared = false",
            );
            false
        }
        Fact::Unreachable(why) => {
            let text = format!("the store may hold an earlier epoch and does not answer: {why}");
            cx.because(ReasonCode::StoreUnreachable, text);
            cx.wake_in(Duration::from_secs(1));
            false
        }
        Fact::Absent => true,
    }
}

/// False while a node has data or may have data: no empty cluster is formed then. A directory that was not
/// inspected does not count as empty.
pub(super) fn data_allows(cx: &mut Context<'_>, without: &BTreeSet<NodeName>) -> bool {
    let nodes = cx.known_nodes();
    let held: Vec<String> = nodes
        .iter()
        .filter_map(|(node, status)| match &status.data {
            Fact::Known(DataState::Present {
                cluster_id,
                member_id,
            }) => Some(format!("{node} holds member {member_id} of cluster {cluster_id}")),
            Fact::Known(DataState::Unusable { why, .. }) => Some(format!("{node}: {why}")),
            _ => None,
        })
        .collect();
    if mutant!(FormsDespiteData) {
        return true;
    }
    if !held.is_empty() {
        cx.halt(
            ReasonCode::DataWithoutEpoch,
            format!(
                "{}, but no epoch is known: nothing is formed next to existing data; restore a backup, or move the \
                 data away by hand",
                held.join("; ")
            ),
        );
        return false;
    }
    let unseen: Vec<&NodeName> = nodes
        .into_iter()
        .filter(|(node, status)| status.data.known().is_none() && !without.contains(*node))
        .map(|(node, _)| node)
        .collect();
    if unseen.is_empty() {
        return true;
    }
    cx.because(
        ReasonCode::DataUnknown,
        format!(
            "the data directory on {} was not inspected yet, and no empty cluster is formed while it may hold data",
            names(unseen)
        ),
    );
    cx.wake_in(Duration::from_millis(200));
    false
}

/// False if another cluster has written to the store: no empty cluster is formed then, unless a person asks
/// for it. The other cluster may be one of etcd-manager, or one whose agents have lost their state. A store
/// that this node does not share is waited for only a while.
pub(super) fn nothing_stored(cx: &mut Context<'_>, since: SteadyMs) -> bool {
    let waited = cx.obs.steady.since(since);
    let wanted =
        |request: &OperatorRequest| matches!(request, OperatorRequest::Bootstrap { empty: true, .. });
    let trace = match &cx.obs.store {
        _ if cx.obs.requests.iter().any(wanted) => return true,
        Fact::Known(store) => store.trace.as_ref(),
        Fact::Unreachable(why) if waited < PATIENCE => {
            let text = format!("the store may hold backups and does not answer: {why}");
            cx.because(ReasonCode::StoreUnreachable, text);
            cx.wake_in(Duration::from_millis(200));
            return false;
        }
        Fact::Unreachable(_) | Fact::Absent => None,
    };
    let Some(key) = trace else {
        return true;
    };
    let text = format!(
        "the store holds {key}, but no epoch is known: no empty cluster is formed while another cluster's objects are \
         there; `etcd-agent restore latest` restores its newest backup, `etcd-agent bootstrap --empty` begins with an \
         empty cluster anyway, another store.url or cluster.name leaves it alone"
    );
    cx.halt(ReasonCode::StoreWithoutEpoch, text);
    false
}
