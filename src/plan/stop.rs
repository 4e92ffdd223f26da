//! Whether a node may be stopped now: for drains, package hooks and rolling changes by other tools. A stop is
//! a voluntary disruption, so rule 4 applies. What is unknown is never a yes.
//!
//! A node without a vote may be stopped whenever the members are known. A voter may be stopped while every
//! other member is a healthy voter, these are a quorum, and nothing else disturbs the cluster. Whether the
//! voter itself is healthy does not matter, as long as its agent answers: a reboot often is the cure. An etcd
//! that runs and could not start again, with its certificate files or the binary of its next start, must not be
//! stopped.

use super::context::Context;
use super::coordinator_view::as_coordinator;
use super::directive::known_orders;
use super::member_health::{
    behind, disagreements, known_members, other_lists, silent_agent, silent_agents, why_unhealthy,
};
use super::next_start;
use super::safety::{Change, Disturbance, disturbances, halted, keeps_quorum};
use super::under_way::under_way;
use super::voters_left::{healthy_without, is_quorum, voters_left};
use crate::model::{
    Member, MemberList, Memory, NodeName, NodeStatus, Observation, Reason, ReasonCode, StopVerdict,
};

/// Judges whether `node` may be stopped, from an observation in which every agent has just looked again.
pub fn ok_to_stop(observation: &Observation, node: &NodeName) -> StopVerdict {
    let view = with_all_orders(observation);
    let cx = Context::new(&view, &Memory::default());
    let silent = silent_agents(&cx);
    let list = match known_members(&cx) {
        Ok(list) => list,
        Err(reason) => {
            let silent = silent.into_iter().map(|(_, reason)| reason);
            return verdict(node, std::iter::once(reason).chain(silent).collect(), Vec::new());
        }
    };
    let is_members = |other: &NodeName| list.members.iter().any(|m| cx.spec.node_of(m) == Some(other));
    // A silent node that has no member costs no quorum, now or later.
    let mut notes: Vec<Reason> = silent
        .into_iter()
        .filter(|(other, _)| !is_members(other))
        .map(|(_, reason)| reason)
        .collect();
    let own = list.members.iter().filter(|m| cx.spec.node_of(m) == Some(node));
    let own = own.min_by_key(|member| member.is_learner);
    let mut reasons = match own {
        Some(member) if !member.is_learner => {
            notes.extend(cx.status_of(node).and_then(|_| why_unhealthy(&cx, list, member)));
            notes.extend(leads(&cx, member, node));
            voter(&cx, &view, list, node)
        }
        Some(learner) => {
            let text =
                format!("the member of {node} is a learner: it has no vote, and gets none while it is down");
            notes.push(Reason::new(ReasonCode::LearnerJoins, text));
            promoted(&cx, list, learner, node)
        }
        None if let Some(member) = may_have(&cx, list, node) => {
            let text = format!(
                "{node} may have member {}, which has neither the name nor the peer URL of a node in cluster.nodes",
                member.id
            );
            vec![Reason::new(ReasonCode::UnknownMember, text)]
        }
        None => {
            let text = format!("{node} has no member: etcd loses no vote with it");
            notes.push(Reason::new(ReasonCode::Spare, text));
            other_lists(&cx, list, cx.known_nodes())
        }
    };
    if let Some(status) = own.and_then(|_| cx.status_of(node)) {
        match stays_down(status) {
            Some(reason) => reasons.push(reason),
            None => notes.extend(starts_again(status)),
        }
    }
    StopVerdict {
        left: Some(voters_left(&cx, list, Some(node))),
        ..verdict(node, reasons, notes)
    }
}

/// A member of no configured node that this node may have: it is silent, or has an etcd. Unknown is never yes.
fn may_have<'a>(cx: &Context<'_>, list: &'a MemberList, node: &NodeName) -> Option<&'a Member> {
    let has_none = |status: &NodeStatus| status.assignment.is_none() && status.etcd.is_absent();
    if cx.status_of(node).is_some_and(has_none) {
        return None;
    }
    list.members
        .iter()
        .find(|member| cx.spec.node_of(member).is_none())
}

/// The coordinator's view, with the newest orders that any agent has.
fn with_all_orders(observation: &Observation) -> Observation {
    let mut view = as_coordinator(observation);
    view.me.steering.directives = known_orders(observation);
    view
}

fn verdict(node: &NodeName, mut reasons: Vec<Reason>, notes: Vec<Reason>) -> StopVerdict {
    let mut seen = Vec::new();
    reasons.retain(|reason| {
        let new = !seen.contains(reason);
        seen.push(reason.clone());
        new
    });
    StopVerdict {
        node: node.clone(),
        ok: reasons.is_empty(),
        reasons,
        notes,
        left: None,
    }
}

/// Why this voter must not be stopped.
fn voter(cx: &Context<'_>, view: &Observation, list: &MemberList, node: &NodeName) -> Vec<Reason> {
    let mut reasons = halts(view);
    if list.voters().count() == 1 {
        let text = format!("{node} has the only voter: etcd does not serve while it is down");
        reasons.push(Reason::new(ReasonCode::OnlyVoter, text));
    } else if !is_quorum(list, &healthy_without(cx, list, Some(node))) {
        reasons.push(too_few(cx, list, node));
    }
    reasons.extend(silent_agent(cx, node));
    let mut disturbances = disturbances(cx, list);
    disturbances.sort_by_key(|(member, _)| cx.spec.node_of(member));
    for (member, disturbance) in disturbances {
        let on = cx.spec.node_of(member);
        if on == Some(node) && !member.is_learner {
            continue;
        }
        if disturbance == Disturbance::NoVote {
            let on = on.map_or("an unknown node", NodeName::as_str);
            let text = format!("the member of {on} is a learner: it joins, and has no vote yet");
            reasons.push(Reason::new(ReasonCode::LearnerJoins, text));
        } else if disturbance == Disturbance::Defragmenting {
            let on = on.map_or("an unknown node", NodeName::as_str);
            let text = format!("etcd on {on} is being defragmented");
            reasons.push(Reason::new(ReasonCode::Defragmenting, text));
        } else {
            reasons.extend(why_unhealthy(cx, list, member));
        }
    }
    reasons.extend(behind(cx, list, node));
    reasons.extend(disagreements(cx, list, node));
    reasons.extend(under_way(cx, view, list, node));
    reasons
}

/// Why this learner must not be stopped. If it is promoted at the same moment, quorum grows.
fn promoted(cx: &Context<'_>, list: &MemberList, learner: &Member, node: &NodeName) -> Vec<Reason> {
    let mut reasons = other_lists(cx, list, cx.known_nodes());
    let healthy = healthy_without(cx, list, Some(node));
    if !keeps_quorum(&list.voter_ids(), &healthy, Change::Promote(learner.id)) {
        let text = format!("{node} may get its vote at any moment, and the others are no quorum then");
        reasons.push(Reason::new(ReasonCode::TooFewHealthy, text));
    }
    reasons
}

fn too_few(cx: &Context<'_>, list: &MemberList, node: &NodeName) -> Reason {
    let left = voters_left(cx, list, Some(node));
    let text = format!(
        "without {node}, {} of {} voters would be healthy; quorum is {}",
        left.healthy, left.voters, left.quorum
    );
    Reason::new(ReasonCode::TooFewHealthy, text)
}

/// The reasons for which every agent halts.
fn halts(view: &Observation) -> Vec<Reason> {
    let mut cx = Context::new(view, &Memory::default());
    halted(&mut cx);
    cx.reasons()
        .iter()
        .filter(|reason| reason.halt)
        .cloned()
        .collect()
}

/// Why the etcd that runs on this node might not start again after a stop.
pub(super) fn stays_down(status: &NodeStatus) -> Option<Reason> {
    next_start::stays_down(status).and_then(|_| starts_again(status))
}

/// Why etcd on this node might not start again.
fn starts_again(status: &NodeStatus) -> Option<Reason> {
    let (code, why) = next_start::trouble(status)?;
    let text = format!("etcd on {} might not start again: {why}", status.node);
    Some(Reason::new(code, text))
}

/// A note for the node of the raft leader.
fn leads(cx: &Context<'_>, member: &Member, node: &NodeName) -> Option<Reason> {
    let leader = cx.obs.me.etcd.known()?.leader?;
    let text = format!(
        "{node} has the raft leader: the others elect another one; `etcd-agent move-leader` first avoids the election"
    );
    (leader == member.id).then(|| Reason::new(ReasonCode::LeaderMoves, text))
}
