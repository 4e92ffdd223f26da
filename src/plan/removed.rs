//! A node whose member was removed from the cluster: its etcd is stopped, its data goes into the archive, and
//! the node is a spare from then on. The assignment stays on record: the next generation is counted from it,
//! and the gate holds starts back with it.
//!
//! One peer may lie (rule 10), so its list only starts a check. The node acts on the result of that check
//! (`agent/execute/removal_check.rs`).

use std::collections::BTreeMap;
use std::time::Duration;

use super::context::Context;
use crate::model::{
    Action, ActionKind, Assignment, ClusterId, DataState, Fact, MemberId, MemberList, NodeName, NodeStatus,
    RaftTerm, ReasonCode,
};

/// A removal that was not confirmed is checked again after this long.
const CHECK_AGAIN: Duration = Duration::from_secs(30);

/// What is known of a removal.
pub(super) enum Confirmation {
    /// It is certain.
    Certain,
    /// Not known yet: this check comes first.
    First(Action),
    /// It is not confirmed; the reason is recorded.
    No,
}

/// Whether the reported removal of this member is certain; if not, whether to check it now.
pub(super) fn removal(
    cx: &mut Context<'_>,
    cluster_id: ClusterId,
    member_id: MemberId,
    listed: RaftTerm,
) -> Confirmation {
    let assigned = cx.obs.assignment.as_ref();
    let known = assigned.is_some_and(|a| a.removed && a.is_of(cluster_id, member_id));
    let seen = cx.obs.removal.as_ref();
    let seen = seen.filter(|seen| seen.is_of(cluster_id, member_id));
    if known || seen.is_some_and(|seen| seen.removed) {
        return Confirmation::Certain;
    }
    let fresh = seen.is_some_and(|seen| cx.obs.steady.since(seen.at) < CHECK_AGAIN);
    if !fresh && cx.may_try(ActionKind::CheckRemoval, Duration::from_millis(500), CHECK_AGAIN) {
        return Confirmation::First(Action::CheckRemoval {
            cluster_id,
            member_id,
            listed,
        });
    }
    cx.because(
        ReasonCode::RemovalHearsay,
        format!("a peer reports the removal of member {member_id} of this node; neither etcd nor a second node confirms it"),
    );
    Confirmation::No
}

/// The peer and the member list that show that the member of this assignment is not in the cluster any more.
/// The list is the newest by raft term among those that peers have read through quorum and that are new
/// enough (`Assignment::is_current_in`). etcd never uses a member ID twice, so a list without the ID is newer
/// than the one that had it.
pub(super) fn removed_by<'a>(
    assignment: &Assignment,
    peers: &'a BTreeMap<NodeName, Fact<NodeStatus>>,
) -> Option<(&'a NodeName, &'a MemberList)> {
    let lists = || {
        peers.iter().filter_map(|(node, fact)| {
            let list = fact.known()?.members.known()?;
            assignment.is_current_in(list).then_some((node, list))
        })
    };
    let newest = lists().map(|(_, list)| list.term).max()?;
    let mut last = lists().filter(|(_, list)| list.term == newest);
    if last
        .clone()
        .any(|(_, list)| list.get(assignment.member_id).is_some())
    {
        return None;
    }
    last.next()
}

/// Leaves the cluster that has removed this node's member.
pub(super) fn leave(cx: &mut Context<'_>, assignment: &Assignment) -> Option<Action> {
    let unit = cx.obs.me.unit.known()?;
    let id = assignment.member_id;
    if unit.active.is_up() {
        cx.because(
            ReasonCode::Removed,
            format!("member {id} was removed: its etcd is stopped"),
        );
        return cx
            .may_try(
                ActionKind::StopRemoved,
                Duration::from_secs(1),
                Duration::from_secs(30),
            )
            .then_some(Action::StopRemoved {
                generation: assignment.generation,
            });
    }
    let why = match &cx.obs.me.data {
        Fact::Known(DataState::Present {
            cluster_id,
            member_id,
        }) if assignment.is_of(*cluster_id, *member_id) => "removed",
        Fact::Known(DataState::Unusable { .. }) => "unusable",
        _ => {
            cx.because(ReasonCode::Spare, super::spares::waits_for(cx));
            return None;
        }
    };
    cx.because(
        ReasonCode::Archive,
        format!("the data of member {id}, which was removed, goes into the archive"),
    );
    cx.may_try(
        ActionKind::ReplaceData,
        Duration::from_millis(500),
        Duration::from_secs(30),
    )
    .then(|| Action::ReplaceData {
        epoch: assignment.epoch,
        why: why.to_owned(),
        staged: false,
    })
}
