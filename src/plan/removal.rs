//! The removal of a member: code shared by the concerns that decide one.

use std::time::Duration;

use super::context::Context;
use super::failure::{self, Failing};
use super::safety::{Change, healthy_members, keeps_quorum};
use crate::model::{Action, ActionKind, Join, Member, MemberId, MemberList, NodeName, ReasonCode, Removal};

/// True if the join strategy allows removing a voter without the operator's word.
pub(super) fn may_remove_voters(cx: &mut Context<'_>, failing: &Failing<'_>) -> bool {
    if matches!(cx.spec.join, Join::Replace | Join::Prune) {
        return true;
    }
    cx.because(
        ReasonCode::RemovalNotAllowed,
        format!(
            "{} ({}) stays a member: cluster.join = \"{}\" never removes one",
            failing.node, failing.why, cx.spec.join
        ),
    );
    false
}

/// True if rule 3 allows the removal of this voter. Otherwise the reason is recorded.
pub(super) fn may_lose(cx: &mut Context<'_>, list: &MemberList, failing: &Failing<'_>) -> bool {
    let healthy = healthy_members(cx, list);
    if keeps_quorum(
        &list.voter_ids(),
        &healthy,
        Change::RemoveVoter(failing.member.id),
    ) || mutant!(RemovesAnyway)
    {
        return true;
    }
    cx.because(
        ReasonCode::TooFewHealthy,
        format!(
            "{} ({}), but only {} of {} members are seen healthy and quorum is {}",
            failing.node,
            failing.why,
            healthy.len(),
            list.members.len(),
            list.quorum()
        ),
    );
    false
}

/// Decides the removal of a member, with a pause after failed attempts.
pub(super) fn remove(
    cx: &mut Context<'_>,
    member: &Member,
    node: &NodeName,
    why: Removal,
    replaced_by: Option<MemberId>,
    list: &MemberList,
) -> Option<Action> {
    cx.may_try(
        ActionKind::RemoveMember,
        Duration::from_millis(250),
        Duration::from_secs(5),
    )
    .then(|| Action::RemoveMember {
        not_before: failure::grace_ends(cx, member, why),
        id: member.id,
        node: node.clone(),
        why,
        replaced_by,
        term: list.term,
    })
}
