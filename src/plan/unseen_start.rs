//! A first start of this node's member that only peers have seen: the agent died before it recorded the start.

use std::time::Duration;

use super::context::Context;
use super::orders;
use crate::model::{Assignment, NodeName, ReasonCode};

/// How many peers must have seen the start before this node believes that it has forgotten it (rule 10).
const WITNESSES: usize = 2;

/// True if this node believes that its member has started. In a cluster of two there is only one other member. It
/// alone decides about the quorum in any case.
pub(super) fn is_confirmed(cx: &Context<'_>, assignment: &Assignment) -> bool {
    let others = cx.genesis().map_or(0, |genesis| {
        let other = |node: &&NodeName| **node != cx.spec.node && !orders::is_out(cx, node);
        genesis.members.keys().filter(other).count()
    });
    witnesses(cx, assignment) >= WITNESSES.min(others.max(1))
}

/// True if this member may have started although this node does not know of it. A member that has started must not
/// start as a new one again, and one peer alone is not believed: the start waits. Reports it.
pub(super) fn may_have_been(cx: &mut Context<'_>, assignment: &Assignment) -> bool {
    if assignment.started || witnesses(cx, assignment) == 0 {
        return false;
    }
    cx.because(
        ReasonCode::StartUnconfirmed,
        "a peer reports that this member has started, which this node does not know, and one peer alone is not believed: \
         the member is not started as a new one while that peer says so",
    );
    cx.wake_in(Duration::from_secs(1));
    true
}

/// How many peers have a member list with client URLs of this member. A member publishes them at its first start. A
/// node that was ordered out is no witness.
fn witnesses(cx: &Context<'_>, assignment: &Assignment) -> usize {
    if mutant!(FounderForgets) {
        return 0;
    }
    let peers = cx.known_peers().filter(|(node, _)| !orders::is_out(cx, node));
    peers
        .filter_map(|(_, status)| status.members.known())
        .filter(|list| list.cluster_id == assignment.cluster_id)
        .filter_map(|list| list.get(assignment.member_id))
        .filter(|member| !member.client_urls.is_empty())
        .count()
}
