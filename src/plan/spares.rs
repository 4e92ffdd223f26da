//! Which node may become a member: one that is ready to start etcd and did not fail to join recently. What a
//! spare waits for.

use std::time::Duration;

use super::context::Context;
use super::orders::is_out;
use crate::model::{Backoff, DataState, Fact, Genesis, MemberList, NodeName, NodeStatus, ReasonCode};

/// The pause after a failed join of a node.
const BACKOFF: Backoff = Backoff::new(Duration::from_mins(1), Duration::from_mins(30));

/// The node that joins next: the ready node with the fewest failed joins, then by name.
pub(super) fn next<'a>(cx: &mut Context<'a>, genesis: &Genesis, list: &MemberList) -> Option<&'a NodeName> {
    let ready: Vec<&NodeName> = cx
        .known_peers()
        .filter(|(node, status)| is_ready(cx, genesis, list, node, status))
        .map(|(node, _)| node)
        .collect();
    let failures = |node: &NodeName| cx.memory.failed_joins.get(node).map_or(0, |(count, _)| *count);
    let node = ready.into_iter().min_by_key(|node| failures(node))?;
    let Some((count, at)) = cx.memory.failed_joins.get(node).copied() else {
        return Some(node);
    };
    let pause = BACKOFF.after(count);
    let passed = cx.obs.steady.since(at);
    if passed >= pause {
        return Some(node);
    }
    let left = pause.saturating_sub(passed);
    cx.because(
        ReasonCode::JoinBackoff,
        format!(
            "{node} failed to join {count} times; next attempt in {} s",
            left.as_secs()
        ),
    );
    cx.wake_in(left.max(Duration::from_millis(10)));
    None
}

/// Remembers that a node was added and did not become a member.
pub(super) fn failed(cx: &mut Context<'_>, node: &NodeName) {
    let now = cx.obs.steady;
    let entry = cx.memory.failed_joins.entry(node.clone()).or_insert((0, now));
    *entry = (entry.0.saturating_add(1), now);
}

/// True for a configured node that answers and has the same cluster and epoch. Its etcd is down and was not
/// stopped by a person. It has no data, or only data that it may archive: of a replaced epoch, or of a member
/// that this list no longer has.
fn is_ready(
    cx: &Context<'_>,
    genesis: &Genesis,
    list: &MemberList,
    node: &NodeName,
    status: &NodeStatus,
) -> bool {
    let fresh = match &status.data {
        Fact::Known(DataState::Missing | DataState::Unusable { .. }) => true,
        Fact::Known(DataState::Present {
            cluster_id,
            member_id,
        }) => {
            // The node's own agent reports that this was the node's member in a replaced epoch.
            let outdated = status.assignment.as_ref().is_some_and(|assigned| {
                assigned.epoch < genesis.epoch
                    && (assigned.cluster_id, assigned.member_id) == (*cluster_id, *member_id)
            });
            outdated
                || genesis.replaces(*cluster_id)
                || (*cluster_id == genesis.cluster_id && list.get(*member_id).is_none())
        }
        Fact::Absent | Fact::Unreachable(_) => false,
    };
    let down = status.unit.known().is_some_and(|u| !u.active.is_up() && !u.held);
    let is_member = list.members.iter().any(|m| cx.spec.node_of(m) == Some(node));
    fresh
        && down
        && !is_member
        && !is_out(cx, node)
        && status.cluster == cx.spec.cluster
        && status.newest_epoch == genesis.epoch
        && cx.spec.nodes.contains_key(node)
}

/// What a spare waits for.
pub(super) fn waits_for(cx: &Context<'_>) -> String {
    let list = cx
        .known_peers()
        .filter_map(|(_, status)| status.members.known())
        .filter(|list| list.linearizable)
        .max_by_key(|list| list.term);
    let size = cx.spec.size;
    match list.map(|list| list.members.len()) {
        Some(there) if there >= size => {
            format!(
                "the cluster has {there} of {size} members: this node is a spare, to replace a dead member"
            )
        }
        Some(there) => format!("the cluster has {there} of {size} members: this node waits to be added"),
        None => "this node is a spare, and no coordinator answers that could add it".to_owned(),
    }
}
