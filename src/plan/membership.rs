//! Membership, decided by the coordinator: one change at a time, new members as learners, and never below quorum
//! (rules 3, 4 and 8).

use std::time::Duration;

use super::context::Context;
use super::out;
use super::safety::{Change, healthy_members, keeps_quorum};
use crate::model::{Action, ActiveState, DataState, Fact, Genesis, Member, MemberList, NodeName, NodeStatus};

/// The next membership change, if this agent is the coordinator.
pub(super) fn change(cx: &mut Context<'_>) -> Option<Action> {
    if !cx.is_coordinator() {
        return None;
    }
    let genesis = cx.genesis()?;
    let list = cx
        .obs
        .me
        .members
        .known()
        .filter(|l| l.linearizable && l.cluster_id == genesis.cluster_id)?;
    let learners: Vec<&Member> = list.members.iter().filter(|m| m.is_learner).collect();
    if !learners.is_empty() {
        return settle_learner(cx, genesis, list, &learners);
    }
    if let Some(action) = remove_gone(cx, genesis, list) {
        return Some(action);
    }
    add_missing(cx, genesis, list)
}

fn settle_learner(
    cx: &mut Context<'_>,
    genesis: &Genesis,
    list: &MemberList,
    learners: &[&Member],
) -> Option<Action> {
    let learner = learners.first()?;
    let node = cx.spec.node_of(learner)?;
    if learner.name.is_empty() {
        cx.because(
            "learner-unstarted",
            format!("learner {} waits for {node} to start it", learner.id),
        );
        cx.wake_in(Duration::from_secs(1));
        return None;
    }
    if cx
        .status_of(node)
        .is_some_and(|status| attests_gone(learner, genesis, status))
    {
        cx.because(
            "replace-gone",
            format!("{node} attests that the data of learner {} is gone", learner.id),
        );
        return remove(cx, learner, node, list);
    }
    let serving = cx
        .status_of(node)
        .and_then(|s| s.etcd.known())
        .is_some_and(|e| e.member_id == learner.id);
    if !serving {
        cx.because(
            "learner-starting",
            format!("learner {} on {node} does not answer yet", learner.id),
        );
        cx.wake_in(Duration::from_millis(500));
        return None;
    }
    cx.because(
        "promote",
        format!("{node} gets its vote as soon as it has caught up"),
    );
    cx.may_try("promote", Duration::from_millis(100), Duration::from_secs(1))
        .then(|| Action::Promote {
            id: learner.id,
            node: node.clone(),
            term: list.term,
        })
}

/// True when a node's own agent attests that this member's data is gone: its etcd does not run, its data directory
/// was looked at by its owner and is missing or unusable, and it is not merely a founder that never started.
fn attests_gone(member: &Member, genesis: &Genesis, status: &NodeStatus) -> bool {
    let down = status
        .unit
        .known()
        .is_some_and(|u| matches!(u.active, ActiveState::Inactive | ActiveState::Failed) && !u.held);
    let gone = matches!(
        &status.data,
        Fact::Known(DataState::Missing | DataState::Unusable { .. })
    );
    let same_epoch = status.newest_epoch == genesis.epoch;
    let about_this_member = match &status.assignment {
        Some(assigned) => assigned.member_id == member.id && assigned.started_once,
        // A reinstalled agent with no data: it will never start this member again.
        None => genesis.electorate.get(&status.node) != Some(&status.incarnation),
    };
    down && gone && same_epoch && about_this_member
}

fn remove_gone(cx: &mut Context<'_>, genesis: &Genesis, list: &MemberList) -> Option<Action> {
    let (member, node) = list.voters().find_map(|member| {
        let node = cx.spec.node_of(member)?;
        let status = cx.status_of(node)?;
        attests_gone(member, genesis, status).then_some((member, node))
    })?;
    let healthy = healthy_members(cx, list);
    if !keeps_quorum(&list.voter_ids(), &healthy, Change::RemoveVoter(member.id)) {
        let healthy = healthy.len();
        cx.because(
            "too-few-healthy",
            format!(
                "{node} has lost its data, but only {healthy} of {} voters are seen healthy and quorum is {}",
                list.voters().count(),
                list.quorum()
            ),
        );
        return None;
    }
    cx.because(
        "replace-gone",
        format!("{node} attests that the data of member {} is gone", member.id),
    );
    remove(cx, member, node, list)
}

fn remove(cx: &mut Context<'_>, member: &Member, node: &NodeName, list: &MemberList) -> Option<Action> {
    cx.may_try(
        "remove-member",
        Duration::from_millis(250),
        Duration::from_secs(5),
    )
    .then(|| Action::RemoveMember {
        id: member.id,
        node: node.clone(),
        term: list.term,
    })
}

fn add_missing(cx: &mut Context<'_>, genesis: &Genesis, list: &MemberList) -> Option<Action> {
    if list.members.len() >= cx.spec.size {
        return None;
    }
    let candidate = cx.known_peers().find(|(node, status)| {
        let fresh = match &status.data {
            Fact::Known(DataState::Missing | DataState::Unusable { .. }) => true,
            Fact::Known(DataState::Present {
                cluster_id,
                member_id,
            }) => *cluster_id == genesis.cluster_id && list.get(*member_id).is_none(),
            Fact::Absent | Fact::Unreachable(_) => false,
        };
        let down = status.unit.known().is_some_and(|u| !u.active.is_up() && !u.held);
        let is_member = list.members.iter().any(|m| cx.spec.node_of(m) == Some(*node));
        fresh
            && down
            && !is_member
            && !out::is_out(cx, node)
            && status.newest_epoch == genesis.epoch
            && cx.spec.nodes.contains_key(*node)
    });
    let Some((node, _)) = candidate else {
        cx.because(
            "below-size",
            format!(
                "{} of {} members, and no node is ready to join",
                list.members.len(),
                cx.spec.size
            ),
        );
        return None;
    };
    let healthy = healthy_members(cx, list);
    if !keeps_quorum(&list.voter_ids(), &healthy, Change::NoVote) {
        let healthy = healthy.len();
        cx.because(
            "too-few-healthy",
            format!("{node} could join, but only {healthy} voters are seen healthy"),
        );
        return None;
    }
    cx.because(
        "add-learner",
        format!(
            "{node} joins as a learner: {} of {} members",
            list.members.len(),
            cx.spec.size
        ),
    );
    let peer_urls = cx.spec.peer_url(node).into_iter().collect();
    cx.may_try(
        "add-learner",
        Duration::from_millis(100),
        Duration::from_millis(400),
    )
    .then(|| Action::AddLearner {
        node: node.clone(),
        peer_urls,
        term: list.term,
    })
}
