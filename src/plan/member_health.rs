//! Why a member does not count as healthy, and whether the members are known at all. Each cause is one reason
//! for `ok-to-stop`.

use std::collections::BTreeSet;

use super::context::Context;
use super::safety::{has_caught_up, is_healthy};
use crate::model::{
    EtcdStatus, Fact, Member, MemberId, MemberList, NodeName, NodeStatus, Reason, ReasonCode,
};

/// The members of the newest epoch, as the coordinator read them through quorum.
///
/// # Errors
/// Why they are not known.
pub(super) fn known_members<'a>(cx: &Context<'a>) -> Result<&'a MemberList, Reason> {
    let Some(genesis) = cx.genesis().filter(|_| !cx.obs.elector.hearsay) else {
        let text = format!(
            "{} knows no epoch of this cluster that is confirmed",
            cx.spec.node
        );
        return Err(Reason::new(ReasonCode::NoEpoch, text));
    };
    if let Some(list) = cx.coordinated_list() {
        return Ok(list);
    }
    let etcd = cx.obs.me.etcd.known();
    if etcd.is_some_and(|etcd| etcd.cluster_id != genesis.cluster_id) {
        let text = format!("etcd on {} does not serve epoch {}", cx.spec.node, genesis.epoch);
        return Err(Reason::new(ReasonCode::ForeignCluster, text));
    }
    if etcd.and_then(|etcd| etcd.leader).is_none() {
        let text = "no agent that answers sees a raft leader: nobody knows the current members";
        return Err(Reason::new(ReasonCode::NoLeader, text));
    }
    let text = if cx.is_coordinator() {
        format!("{} could not read the member list through quorum", cx.spec.node)
    } else {
        "the agent next to the raft leader gives no fresh answer: nobody knows the current members".to_owned()
    };
    Err(Reason::new(ReasonCode::MembersUnknown, text))
}

/// The agents that give no fresh answer, by node.
pub(super) fn silent_agents<'a>(cx: &Context<'a>) -> Vec<(&'a NodeName, Reason)> {
    let nodes = cx.spec.nodes.keys();
    nodes
        .filter_map(|node| Some((node, silent_agent(cx, node)?)))
        .collect()
}

/// Why the agent of this node gives no fresh answer; `None` if it answers or is this agent.
pub(super) fn silent_agent(cx: &Context<'_>, node: &NodeName) -> Option<Reason> {
    if !cx.spec.nodes.contains_key(node) || *node == cx.spec.node {
        return None;
    }
    let why = match cx.obs.peers.get(node) {
        Some(Fact::Known(_)) => return None,
        Some(Fact::Unreachable(why)) => why,
        Some(Fact::Absent) | None => "it was not asked",
    };
    let text = format!("the agent on {node} gives no fresh answer: {why}");
    Some(Reason::new(ReasonCode::AgentSilent, text))
}

/// Why this member is not seen healthy; `None` if it is.
pub(super) fn why_unhealthy(cx: &Context<'_>, list: &MemberList, member: &Member) -> Option<Reason> {
    let Some(node) = cx.spec.node_of(member) else {
        let text = format!(
            "member {} is on no node in cluster.nodes: it is unknown whether it serves",
            member.id
        );
        return Some(Reason::new(ReasonCode::UnknownMember, text));
    };
    let Some(status) = cx.status_of(node) else {
        return silent_agent(cx, node);
    };
    if is_healthy(member, list.cluster_id, status) {
        return None;
    }
    let (code, text) = cause(node, status);
    Some(Reason::new(code, text))
}

/// What an agent that answers reports of its etcd that is not healthy.
fn cause(node: &NodeName, status: &NodeStatus) -> (ReasonCode, String) {
    match (&status.unit, &status.etcd) {
        (Fact::Unreachable(why), _) => (
            ReasonCode::UnitUnknown,
            format!("the state of etcd.service on {node} is unknown: {why}"),
        ),
        (Fact::Known(unit), _) if !status.is_active() => (
            ReasonCode::EtcdDown,
            format!("etcd.service on {node} is not active, but {}", unit.sub),
        ),
        (_, Fact::Known(EtcdStatus { leader: None, .. })) => (
            ReasonCode::NoLeader,
            format!("etcd on {node} sees no raft leader"),
        ),
        (_, Fact::Known(etcd)) => (
            ReasonCode::ForeignMember,
            format!("etcd on {node} runs as another member, {}", etcd.member_id),
        ),
        (_, Fact::Unreachable(why)) => (
            ReasonCode::EtcdSilent,
            format!("etcd on {node} does not answer: {why}"),
        ),
        (_, Fact::Absent) => (ReasonCode::EtcdDown, format!("etcd on {node} does not run")),
    }
}

/// The voters other than `without` that have not caught up with the newest entry that any member reports. Without that
/// voter, quorum would need them.
pub(super) fn behind(cx: &Context<'_>, list: &MemberList, without: &NodeName) -> Vec<Reason> {
    let etcds = |member: &Member| {
        let node = cx.spec.node_of(member)?;
        Some((node, cx.status_of(node)?.etcd.known()?))
    };
    let newest = list.members.iter().filter_map(etcds).map(|(_, etcd)| etcd.index);
    let newest = newest.max().unwrap_or_default();
    let stay = list
        .voters()
        .filter_map(etcds)
        .filter(|(node, _)| *node != without);
    stay.filter(|(_, etcd)| !has_caught_up(etcd.applied, newest))
        .map(|(node, etcd)| {
            let text = format!(
                "etcd on {node} has applied entry {} of the log, and {newest} is there: it has not caught up",
                etcd.applied
            );
            Reason::new(ReasonCode::MemberBehind, text)
        })
        .collect()
}

/// Where the voters other than `without` contradict the coordinator or miss each other. Each of them has to
/// name the same raft leader and the same members, and to reach the agents of the others: after the stop
/// these voters have to form a quorum among themselves.
pub(super) fn disagreements(cx: &Context<'_>, list: &MemberList, without: &NodeName) -> Vec<Reason> {
    let nodes = list.voters().filter_map(|voter| cx.spec.node_of(voter));
    let stay: Vec<(&NodeName, &NodeStatus)> = nodes
        .filter(|node| *node != without)
        .filter_map(|node| Some((node, cx.status_of(node)?)))
        .collect();
    let led = cx.obs.me.etcd.known().map(|etcd| (etcd.leader, etcd.term));
    let mut reasons = Vec::new();
    for (node, status) in &stay {
        let follows = status.etcd.known().map(|etcd| (etcd.leader, etcd.term));
        if follows.is_some_and(|(leader, _)| leader.is_some()) && follows != led {
            let text = format!(
                "etcd on {node} follows another raft leader, or in another term, than {}",
                cx.spec.node
            );
            reasons.push(Reason::new(ReasonCode::NoLeader, text));
        }
        for (other, _) in &stay {
            if status.silent_agents.contains(*other) {
                let text = format!("the agent on {node} does not reach the one on {other}");
                reasons.push(Reason::new(ReasonCode::AgentSilent, text));
            }
        }
    }
    reasons.extend(other_lists(cx, list, stay));
    reasons
}

/// The nodes whose etcd lists other members than the coordinator. One node's list is no proof (rule 10).
pub(super) fn other_lists<'n>(
    cx: &Context<'_>,
    list: &MemberList,
    nodes: impl IntoIterator<Item = (&'n NodeName, &'n NodeStatus)>,
) -> Vec<Reason> {
    let differs = |status: &NodeStatus| {
        let own = status.members.known();
        own.is_some_and(|own| own.cluster_id != list.cluster_id || votes(own) != votes(list))
    };
    let nodes = nodes.into_iter().filter(|(_, status)| differs(status));
    nodes
        .map(|(node, _)| {
            let text = format!("etcd on {node} lists other members than {}", cx.spec.node);
            Reason::new(ReasonCode::MembersUnknown, text)
        })
        .collect()
}

/// Each member, and whether it is a learner.
fn votes(list: &MemberList) -> BTreeSet<(MemberId, bool)> {
    list.members
        .iter()
        .map(|member| (member.id, member.is_learner))
        .collect()
}
