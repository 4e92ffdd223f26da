//! Whether the gate of this node lets etcd start.

use std::time::Duration;

use super::context::{Context, names};
use crate::model::{Action, Assignment, Genesis, NodeName, NodeStatus, ReasonCode};

/// Clears the gate once the epoch is confirmed by a majority of the electorate or by the shared store.
pub(super) fn clear_gate(cx: &mut Context<'_>, genesis: &Genesis, assignment: &Assignment) -> Option<Action> {
    // A report of a newer epoch is enough to hold a start back.
    if assignment.is_cleared(cx.obs.gate.cleared) || cx.obs.newest_epoch > genesis.epoch {
        return None;
    }
    let nodes = cx.known_nodes();
    let knows_none = |s: &NodeStatus| s.newest_epoch <= genesis.epoch;
    // An elector that may have accepted a later epoch does not know whether another node has learned that
    // this epoch was chosen. If all electors answer and report no later epoch, no node has learned one.
    let all_know_none =
        nodes.len() == cx.spec.nodes.len() && nodes.iter().all(|(_, status)| knows_none(status));
    let may_know = |s: &NodeStatus| {
        !all_know_none && (!s.eligible || s.voted > genesis.epoch) && !mutant!(VotesForgotten)
    };
    let agrees = |s: &NodeStatus| knows_none(s) && !may_know(s);
    let agreeing = nodes.iter().filter(|(_, s)| agrees(s)).count();
    // A node that was added to `cluster.nodes` later had no vote on a later epoch that the electors of this
    // epoch may have accepted.
    let named = |node: &NodeName| cx.spec.nodes.contains_key(node) && !mutant!(AddedNodesVouch);
    let former = genesis.electors_among(named);
    let of_former = nodes
        .iter()
        .filter(|(n, s)| agrees(s) && former.contains(n))
        .count();
    let lacks_former = !former.is_empty() && of_former * 2 <= former.len();
    let voted: Vec<&NodeName> = nodes
        .iter()
        .filter(|(_, s)| knows_none(s) && may_know(s))
        .map(|(n, _)| *n)
        .collect();
    // The store may have been read before a newer epoch was recorded; peers report such an epoch. The store
    // is also read again before the gate is cleared: the last answer may be hours old.
    let by_store = cx.spec.store_shared
        && nodes.iter().all(|(_, status)| knows_none(status))
        && cx
            .obs
            .store
            .known()
            .is_some_and(|s| s.genesis.as_ref().is_some_and(|g| g.same_value(genesis)));
    let lacks_votes = agreeing < cx.spec.majority() || lacks_former;
    if lacks_votes && !by_store {
        let before = if lacks_former {
            format!(
                "; of the {} electors of that epoch by {of_former}, which is no majority",
                former.len()
            )
        } else {
            String::new()
        };
        let voted = if voted.is_empty() {
            String::new()
        } else {
            format!(
                "; may have accepted a later epoch, which may be open: {}",
                names(voted)
            )
        };
        cx.because(
            ReasonCode::EpochUnconfirmed,
            format!(
                "epoch {} is confirmed by {agreeing} of {} electors, a majority or the shared store is needed; silent: {}{before}{voted}",
                genesis.epoch,
                cx.spec.nodes.len(),
                names(&cx.silent())
            ),
        );
        cx.wake_in(Duration::from_secs(1));
        return None;
    }
    Some(Action::ClearGate {
        generation: assignment.generation,
        by_store: lacks_votes.then_some(genesis.epoch),
    })
}
