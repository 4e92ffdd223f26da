//! Carries out voluntary disruptions: a restart or a defragmentation under the coordinator's grant, a move of the raft
//! leader, and the removal of a member that was ordered out. Also writes settings that a running etcd does not have
//! yet.

use std::time::Duration;

use futures::future::join_all;

use crate::model::{
    ActiveState, EtcdStatus, EtcdVersion, Fact, Grant, InForce, MemberId, MemberList, NodeName, NodeOrder,
    NodeStatus, RaftTerm, StartFence,
};
use crate::plan;
use crate::ports::{PortError, PortResult};

use crate::agent::Agent;
use crate::agent::execute::fence::{assignment, fence_start, fenced_list, stale};
use crate::agent::jobs::flush::leave_to_coordinator;
use crate::agent::jobs::space;

/// The longest time from the first fresh check to the queued restart or the call to defragment. A coordinator
/// that has withdrawn a grant, or has just become the coordinator, grants nothing for longer than this
/// (`plan/grant.rs`, `GRANT_COOLDOWN`). So two disruptions never overlap.
const RESTART: Duration = Duration::from_secs(3);
// Rule 4: a withdrawn grant is not acted on any more when the next one is given.
const _: () = assert!(RESTART.as_millis() < crate::plan::GRANT_COOLDOWN.as_millis());

/// Writes the settings, and records which process runs with the older ones.
pub(crate) async fn apply(agent: &Agent, deadline: Duration) -> PortResult<InForce> {
    let state = agent.ports.state.as_ref();
    let process = |unit: &crate::model::UnitState| agent.etcd_process(unit);
    let before = process(&agent.ports.service.etcd_unit().await?);
    agent
        .shared
        .update_etcd_run(state, |run| run.look(&before, None, None, None, &agent.spec.node))?;
    let in_force = agent.ports.service.apply(deadline).await?;
    if let Fact::Known(after) = process(&agent.ports.service.etcd_unit().await?) {
        agent
            .shared
            .update_etcd_run(state, |run| run.came_up_meanwhile(&after))?;
    }
    Ok(in_force)
}

/// Restarts etcd if the grant is still valid and all other voters are seen healthy now.
pub(crate) async fn restart(
    agent: &Agent,
    fence: &StartFence,
    grant: &Grant,
    coordinator: &NodeName,
) -> PortResult<()> {
    fence_start(agent, fence).await?;
    let unit = agent.ports.service.etcd_unit().await?;
    if unit.active != ActiveState::Active {
        return Err(stale("etcd.service is already starting or stopping"));
    }
    let (own, others) = fence_grant(agent, grant, coordinator).await?;
    fence_transport(agent, &others)?;
    fence_version(agent, &own)?;
    note_own_stop(agent, unit.main_pid);
    agent.ports.service.restart_etcd().await?;
    tracing::warn!("etcd.service is restarted: {coordinator} granted it");
    Ok(())
}

/// Begins to defragment etcd if the grant is still valid and all other voters are seen healthy now.
pub(crate) async fn defragment(
    agent: &Agent,
    order: Option<&NodeOrder>,
    grant: &Grant,
    coordinator: &NodeName,
) -> PortResult<()> {
    fence_grant(agent, grant, coordinator).await?;
    tracing::warn!("etcd is defragmented: {coordinator} granted it");
    space::defragment(agent, order.cloned());
    Ok(())
}

/// Checks that etcd and the other members can still connect to each other after the restart.
fn fence_transport(agent: &Agent, others: &[(NodeStatus, EtcdStatus)]) -> PortResult<()> {
    let next = assignment(agent)?.transport(&agent.spec.etcd).over();
    let own = agent.shared.with(|inner| inner.last.status().cloned());
    let runs = own.and_then(|status| status.transport?.runs);
    let objection = plan::transport_objection(next, runs, others.iter().map(|(status, _)| status));
    objection.map_or(Ok(()), |why| Err(stale(why)))
}

/// Checks that the version of the next start opens the data, which etcd may have converted since the last look.
fn fence_version(agent: &Agent, own: &EtcdStatus) -> PortResult<()> {
    let objection = agent.shared.with(|inner| {
        let seen = inner.last.observation();
        seen.and_then(|seen| plan::version_objection(seen, own))
    });
    objection.map_or(Ok(()), |why| Err(stale(why)))
}

/// Checks that the grant is still valid and that all other voters are healthy and have caught up. Returns the status
/// of the etcd here, and of the others.
async fn fence_grant(
    agent: &Agent,
    grant: &Grant,
    coordinator: &NodeName,
) -> PortResult<(EtcdStatus, Vec<(NodeStatus, EtcdStatus)>)> {
    if *coordinator != agent.spec.node {
        leave_to_coordinator(agent).await;
    }
    let begun = agent.ports.clock.steady();
    let own = agent.ports.etcd.status().await?;
    let list = agent.ports.etcd.members(true).await?;
    let others = fresh_others(agent, &list, &own).await?;
    granted(agent, grant, coordinator, &own, &others)?;
    let indexes = others.iter().map(|(_, etcd)| etcd.index);
    let newest = indexes.chain([own.index]).max().unwrap_or_default();
    for (status, etcd) in &others {
        if !plan::has_caught_up(etcd.applied, newest) {
            return Err(stale(format_args!("{} has not caught up", status.node)));
        }
    }
    if agent.ports.clock.steady().since(begun) > RESTART {
        return Err(stale(format_args!(
            "the checks took longer than {} s",
            RESTART.as_secs()
        )));
    }
    Ok((own, others))
}

/// Notes that the agent itself is about to stop etcd: the gate need not ask for leave.
pub(super) fn note_own_stop(agent: &Agent, pid: u32) {
    agent.shared.with(|inner| inner.stop.note_own(pid));
}

/// Checks that the granting node leads in the term of the grant, according to both that node and this node's
/// member.
fn granted(
    agent: &Agent,
    grant: &Grant,
    coordinator: &NodeName,
    own: &EtcdStatus,
    others: &[(NodeStatus, EtcdStatus)],
) -> PortResult<()> {
    let void = || stale(format_args!("the grant of {coordinator} is no longer valid"));
    let (reported, leads) = if *coordinator == agent.spec.node {
        let reported = agent
            .shared
            .with(|inner| inner.last.status().and_then(|s| s.steering.grant.clone()));
        (reported, own.leader == Some(own.member_id))
    } else {
        let (status, etcd) = others
            .iter()
            .find(|(status, _)| status.node == *coordinator)
            .ok_or_else(void)?;
        let leads = etcd.leader == Some(etcd.member_id) && own.leader == Some(etcd.member_id);
        (status.steering.grant.clone(), leads && etcd.term == grant.term)
    };
    if (reported.as_ref() == Some(grant) && leads && own.term == grant.term) || mutant!(RestartsTogether) {
        Ok(())
    } else {
        Err(void())
    }
}

/// A fresh status of every other voter's agent. Each agent has to report that its member is healthy.
async fn fresh_others(
    agent: &Agent,
    list: &MemberList,
    own: &EtcdStatus,
) -> PortResult<Vec<(NodeStatus, EtcdStatus)>> {
    let voters: Vec<MemberId> = list
        .voters()
        .map(|m| m.id)
        .filter(|id| *id != own.member_id)
        .collect();
    let mut seen = fresh_serving(agent, own).await;
    seen.retain(|(_, etcd)| voters.contains(&etcd.member_id));
    if seen.len() == voters.len() || mutant!(RestartsTogether) {
        return Ok(seen);
    }
    Err(stale(format_args!(
        "{} of the {} other voters are seen healthy",
        seen.len(),
        voters.len()
    )))
}

/// Fresh statuses of the peers whose etcd is up and follows the same leader as this node's etcd.
async fn fresh_serving(agent: &Agent, own: &EtcdStatus) -> Vec<(NodeStatus, EtcdStatus)> {
    let peers = agent.spec.nodes.keys().filter(|node| **node != agent.spec.node);
    join_all(peers.map(|node| agent.ports.peers.status(node)))
        .await
        .into_iter()
        .filter_map(Result::ok)
        .filter_map(|status| serving(status, own))
        .collect()
}

/// The status, if the node's etcd is up and follows the same leader as this node's etcd.
fn serving(status: NodeStatus, own: &EtcdStatus) -> Option<(NodeStatus, EtcdStatus)> {
    let etcd = status.etcd.known()?.clone();
    let same = etcd.cluster_id == own.cluster_id && etcd.leader.is_some() && etcd.leader == own.leader;
    (status.is_active() && same).then_some((status, etcd))
}

/// Moves the leader to another voter if this node's member still leads in the same term.
pub(crate) async fn move_leader(
    agent: &Agent,
    to: MemberId,
    node: &NodeName,
    term: RaftTerm,
) -> PortResult<()> {
    let list = fenced_list(agent, term).await?;
    if !list.voters().any(|member| member.id == to) {
        return Err(stale(format_args!("member {to} has no vote")));
    }
    let own = agent.ports.etcd.status().await?;
    let status = agent.ports.peers.status(node).await?;
    if serving(status, &own).is_none_or(|(_, etcd)| etcd.member_id != to) {
        return Err(PortError::Retryable(format!(
            "not done: {node} is not seen healthy"
        )));
    }
    agent.ports.etcd.move_leader(to).await?;
    tracing::warn!(etcd_agent.member_id = %to, "{node} leads now: the leader was moved to member {to}");
    Ok(())
}

/// Asks etcd to prepare a downgrade that is still ordered, or to end one that is not.
pub(crate) async fn downgrade(agent: &Agent, to: Option<EtcdVersion>, term: RaftTerm) -> PortResult<()> {
    let selected = agent.shared.directives().etcd;
    let ordered = selected.filter(|etcd| etcd.downgrade && !etcd.cancelled);
    if to != ordered.and_then(|etcd| etcd.version) {
        return Err(stale("another version was selected meanwhile"));
    }
    fenced_list(agent, term).await?;
    agent.ports.etcd.downgrade(to).await?;
    let what = to.map_or("ends the downgrade".to_owned(), |to| {
        format!("converts its data for the downgrade to {to}")
    });
    tracing::warn!("etcd {what}");
    Ok(())
}

/// Removes the member of a node that is still ordered out, if enough other voters are seen healthy now.
pub(crate) async fn take_out(agent: &Agent, id: MemberId, node: &NodeName, term: RaftTerm) -> PortResult<()> {
    if !agent.shared.directives().out.contains(node) {
        return Err(stale(format_args!("{node} is no longer ordered out")));
    }
    let list = fenced_list(agent, term).await?;
    if list.get(id).is_none() {
        return Err(stale(format_args!("member {id} is not in the list any more")));
    }
    let own = agent.ports.etcd.status().await?;
    let serving = fresh_serving(agent, &own).await;
    let left: Vec<MemberId> = list
        .voters()
        .map(|member| member.id)
        .filter(|voter| *voter != id)
        .collect();
    let healthy = |voter: &&MemberId| {
        **voter == own.member_id || serving.iter().any(|(_, etcd)| etcd.member_id == **voter)
    };
    let count = left.iter().filter(healthy).count();
    if count <= left.len() / 2 {
        return Err(stale(format_args!(
            "of the {} other voters {count} are seen healthy, too few for a quorum",
            left.len()
        )));
    }
    agent.ports.etcd.remove_member(id).await?;
    tracing::warn!(etcd_agent.member_id = %id, "member {id} of {node} was removed: an operator ordered it out");
    Ok(())
}
