//! Stores this node's reboot lock, and confirms it.

use std::collections::BTreeMap;

use futures::future::join_all;

use crate::agent::Agent;
use crate::agent::execute::fence::stale;
use crate::model::{EtcdStatus, NodeName, NodeStatus, RebootHold, RebootLock};
use crate::plan::has_recorded;
use crate::ports::{AgentHandle, PortResult};

/// Stores the lock if it is newer than the stored one.
pub(crate) fn set(agent: &Agent, lock: &RebootLock) -> PortResult<()> {
    let state = agent.ports.state.as_ref();
    agent.shared.update_reboot_locks(state, |locks| {
        if lock.version <= locks.own.version {
            return Err(stale("the reboot lock of this node has changed"));
        }
        locks.own = lock.clone();
        Ok(())
    })
}

/// Confirms the lock if its grant is still valid, all members are seen healthy now, and their agents have
/// recorded the lock in the raft term of the grant. An agent shows a raft term and its records in one status.
/// So one that becomes the coordinator later has recorded the lock before.
pub(crate) async fn confirm(agent: &Agent, version: u64, coordinator: &NodeName) -> PortResult<()> {
    let own = agent.shared.reboot_locks().own;
    let hold = own.hold.as_ref().filter(|_| own.version == version);
    let hold = hold.ok_or_else(|| stale("the reboot lock of this node has changed"))?;
    let seen = fresh_statuses(agent).await;
    let leads = seen
        .get(coordinator)
        .filter(|status| status.steering.grant.as_ref() == Some(&hold.grant))
        .and_then(|status| status.etcd.known())
        .filter(|etcd| etcd.leader == Some(etcd.member_id))
        .ok_or_else(|| stale(format_args!("the grant of {coordinator} is no longer valid")))?;
    let list = if agent.status().etcd.known().is_some() {
        agent.ports.etcd.members(true).await?
    } else {
        let reported = seen.get(coordinator).and_then(|status| status.members.known());
        reported
            .cloned()
            .ok_or_else(|| stale(format_args!("{coordinator} does not report the members")))?
    };
    for member in &list.members {
        let node = agent.spec.node_of(member);
        let node = node.ok_or_else(|| stale(format_args!("member {} is on an unknown node", member.id)))?;
        let status = seen.get(node);
        let status = status.ok_or_else(|| stale(format_args!("the agent on {node} does not answer")))?;
        let etcd = status.etcd.known().filter(|etcd| etcd.member_id == member.id);
        if !status.is_active() || !etcd.is_some_and(|etcd| follows(etcd, hold, leads)) {
            return Err(stale(format_args!(
                "{node} is not seen healthy in the raft term of the grant"
            )));
        }
        let recorded = *node == agent.spec.node || has_recorded(status, version, &agent.spec.node);
        if !recorded && !mutant!(RebootsUnrecorded) {
            return Err(stale(format_args!("{node} has not recorded the reboot lock")));
        }
    }
    set(agent, &own.confirmed())?;
    tracing::warn!(
        "this host may reboot: it holds the reboot lock for {}",
        hold.owner
    );
    Ok(())
}

/// True if etcd follows this leader in the raft term of the grant.
fn follows(etcd: &EtcdStatus, hold: &RebootHold, leads: &EtcdStatus) -> bool {
    etcd.term == hold.grant.term
        && etcd.leader == Some(leads.member_id)
        && etcd.cluster_id == leads.cluster_id
}

/// The statuses of all nodes that answer now, and this node's last one.
async fn fresh_statuses(agent: &Agent) -> BTreeMap<NodeName, NodeStatus> {
    let peers = agent.spec.nodes.keys().filter(|node| **node != agent.spec.node);
    let asked = peers.map(|node| async move { (node.clone(), agent.ports.peers.status(node).await) });
    let answers = join_all(asked).await.into_iter();
    let mut seen: BTreeMap<NodeName, NodeStatus> = answers
        .filter_map(|(node, answer)| Some((node, answer.ok()?)))
        .collect();
    seen.insert(agent.spec.node.clone(), agent.status());
    seen
}
