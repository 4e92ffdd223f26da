//! Which node may become a member: ready to start one, and not tried in vain a moment ago. What a spare waits for.

use std::time::Duration;

use super::context::Context;
use super::orders::is_out;
use crate::model::{DataState, Fact, Genesis, MemberList, NodeName, NodeStatus, ReasonCode};

/// The pause after the first failed join of a node; it doubles with each further one.
const FIRST_PAUSE: Duration = Duration::from_mins(1);
/// The longest pause.
const LONGEST_PAUSE: Duration = Duration::from_mins(30);

/// The node that joins next: among those that are ready the one with the fewest failed joins, then by name.
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
    let factor = 1u32 << count.saturating_sub(1).min(8);
    let pause = FIRST_PAUSE.saturating_mul(factor).min(LONGEST_PAUSE);
    let passed = cx.obs.steady.since(at);
    if passed >= pause {
        return Some(node);
    }
    let left = pause.saturating_sub(passed);
    cx.because(
        ReasonCode::JoinBackoff,
        format!(
            "{node} did not manage to join {count} times; tried again in {} s",
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

/// A configured node that answers and has the same cluster and epoch. Its etcd is down and was not stopped by a person. It has no
/// data, or only data that it may archive: of a member that this list no longer has.
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
            // Its own agent says that this was the node's member in an epoch that was replaced.
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
            format!("the cluster has {there} of {size} members: this node is a spare, for when one is dead")
        }
        Some(there) => format!("the cluster has {there} of {size} members: this node waits to be added"),
        None => "this node is a spare, and no coordinator answers that could add it".to_owned(),
    }
}
