//! Nodes that a person has ordered out. Their members are removed one at a time under rule 3, without the
//! grace of a dead member. They stay out until a person adds them again.

use std::time::Duration;

use super::context::Context;
use super::directive::ordered_out;
use super::orders::{self, is_out};
use super::safety::{Change, healthy_members, keeps_quorum, must_wait};
use super::{leader, lock_holder};
use crate::model::{
    Action, ActionKind, DirectiveChange, Fact, Member, MemberList, Memory, NodeName, NodeStatus, Observation,
    ReasonCode,
};

/// Removes a member whose node was ordered out, if this agent is the coordinator.
pub(super) fn take_out(cx: &mut Context<'_>) -> Option<Action> {
    let list = cx.coordinated_list()?;
    let (member, node) = next(cx, list)?;
    if orders::under_way(cx) {
        return None;
    }
    let learner = list
        .members
        .iter()
        .find(|other| other.is_learner && other.id != member.id);
    if let Some(learner) = learner {
        let text = format!(
            "{node} is removed once learner {} has its vote or was removed",
            learner.id
        );
        cx.because(ReasonCode::RemovalDeferred, text);
        return None;
    }
    if let Some((holder, _)) = lock_holder::holder(cx, Some(node)) {
        let text = format!("{node} is removed once {holder} has released the reboot lock");
        cx.because(ReasonCode::RemovalDeferred, text);
        return None;
    }
    if let Err(why) = check_quorum(cx, list, member) {
        cx.because(
            ReasonCode::TooFewHealthy,
            format!("{node} was ordered out, but {why}"),
        );
        cx.wake_in(Duration::from_secs(1));
        return None;
    }
    if *node == cx.spec.node {
        cx.because(
            ReasonCode::LeaderFirst,
            "this node was ordered out: another member leads first",
        );
        return leader::away(cx, list);
    }
    if must_wait(cx, list, member, node) {
        return None;
    }
    cx.because(ReasonCode::OrderedOut, format!("an operator ordered {node} out"));
    cx.may_try(
        ActionKind::TakeOut,
        Duration::from_millis(250),
        Duration::from_secs(5),
    )
    .then(|| Action::TakeOut {
        id: member.id,
        node: node.clone(),
        term: list.term,
    })
}

/// The next member to remove. The raft leader comes last.
fn next<'a>(cx: &Context<'a>, list: &'a MemberList) -> Option<(&'a Member, &'a NodeName)> {
    list.members
        .iter()
        .filter_map(|member| Some((member, cx.spec.node_of(member)?)))
        .filter(|(_, node)| is_out(cx, node))
        .min_by_key(|(_, node)| (**node == cx.spec.node, (*node).clone()))
}

/// Checks rule 3 for one removal.
///
/// # Errors
/// Why rule 3 forbids the removal, for people.
fn check_quorum(cx: &Context<'_>, list: &MemberList, member: &Member) -> Result<(), String> {
    let healthy = healthy_members(cx, list);
    let change = if member.is_learner {
        Change::NoVote
    } else {
        Change::RemoveVoter(member.id)
    };
    if keeps_quorum(&list.voter_ids(), &healthy, change) {
        return Ok(());
    }
    let left: Vec<_> = list.voters().filter(|voter| voter.id != member.id).collect();
    let left_healthy = left.iter().filter(|voter| healthy.contains(&voter.id)).count();
    Err(format!(
        "of the {} other voters {left_healthy} are seen healthy, too few for a quorum",
        left.len()
    ))
}

/// Why an order is refused; `upgrade_objection` judges orders to upgrade. `force` permits a cluster that stays below
/// its size.
pub fn objection(observation: &Observation, change: &DirectiveChange, force: bool) -> Option<String> {
    if let Some(why) = ordered_out(observation) {
        return Some(why);
    }
    let cx = Context::new(observation, &Memory::default());
    let node = match change {
        DirectiveChange::Remove { node }
        | DirectiveChange::Add { node }
        | DirectiveChange::ReleaseRebootLock { node, .. } => node,
        DirectiveChange::Restart { nodes } | DirectiveChange::Defrag { nodes } => {
            let stranger = nodes.iter().find(|node| !cx.spec.nodes.contains_key(*node))?;
            return Some(format!("{stranger} is not in cluster.nodes"));
        }
        DirectiveChange::Pause
        | DirectiveChange::Resume
        | DirectiveChange::CancelRestart
        | DirectiveChange::CancelDefrag
        | DirectiveChange::Upgrade { .. }
        | DirectiveChange::Downgrade { .. }
        | DirectiveChange::FollowPackage
        | DirectiveChange::CancelUpgrade => return None,
    };
    if !cx.spec.nodes.contains_key(node) {
        return Some(format!("{node} is not in cluster.nodes"));
    }
    if !matches!(change, DirectiveChange::Remove { .. }) {
        return None;
    }
    let Fact::Known(list) = &cx.obs.me.members else {
        return Some("this node does not know the current members: ask a node whose etcd serves".to_owned());
    };
    let member = list
        .members
        .iter()
        .find(|member| cx.spec.node_of(member) == Some(node))?;
    // A spare takes the place of the only member before that member is removed.
    let replaced = list.voters().count() == 1 && spares(&cx, list).next().is_some();
    if let Err(why) = check_quorum(&cx, list, member)
        && !replaced
    {
        return Some(format!("{node} cannot be removed: {why}"));
    }
    let left = list.voters().filter(|voter| voter.id != member.id).count();
    if force || left >= cx.spec.size || spares(&cx, list).any(|spare| spare != node) {
        return None;
    }
    Some(format!(
        "without {node} the cluster has {left} of {} members and no spare to take the place: set the size first, or \
         --force",
        cx.spec.size
    ))
}

/// Nodes in reach that are not members and may become members.
fn spares<'a>(cx: &Context<'a>, list: &MemberList) -> impl Iterator<Item = &'a NodeName> {
    let members: Vec<NodeName> = list
        .members
        .iter()
        .filter_map(|m| cx.spec.node_of(m))
        .cloned()
        .collect();
    let out = cx.obs.me.steering.directives.out.clone();
    let held = |status: &NodeStatus| status.unit.known().is_none_or(|unit| unit.held);
    cx.known_nodes()
        .into_iter()
        .filter(move |(node, status)| !members.contains(node) && !out.contains(*node) && !held(status))
        .map(|(node, _)| node)
}
