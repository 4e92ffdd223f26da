//! Carries out one decided change of the member list. Right before the change, everything that the decision
//! was based on is read again: the raft term, the list, and the nodes' statuses.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use futures::future::{join, join_all};
use tokio::time::sleep;

use crate::model::{
    ActiveState, Member, MemberId, MemberList, NodeName, NodeStatus, RaftTerm, Removal, SteadyMs,
};
use crate::plan::{Change, has_caught_up, is_healthy, is_lost, keeps_quorum, misses};
use crate::ports::PortResult;

use crate::agent::Agent;
use crate::agent::execute::fence::{fenced_list, stale};
use crate::agent::observe::reachability;

/// The pause before a dead member that refuses connections is asked again.
const ASK_AGAIN: Duration = Duration::from_millis(500);

/// The member to remove, and why, as decided.
pub(crate) struct MemberRemoval<'a> {
    pub(crate) id: MemberId,
    pub(crate) node: &'a NodeName,
    pub(crate) why: Removal,
    pub(crate) replaced_by: Option<MemberId>,
    pub(crate) not_before: SteadyMs,
    pub(crate) term: RaftTerm,
}

/// Adds a learner, unless there is one already or the address is a member's.
pub(crate) async fn add(
    agent: &Agent,
    node: &NodeName,
    peer_urls: &[String],
    term: RaftTerm,
) -> PortResult<()> {
    let list = fenced_list(agent, term).await?;
    let taken = |urls: &[String]| urls.iter().any(|url| peer_urls.contains(url));
    let another = |m: &Member| m.is_learner && !mutant!(TwoLearners);
    if list.members.iter().any(|m| another(m) || taken(&m.peer_urls)) {
        return Err(stale(format_args!(
            "there is another learner already, or {node} is a member"
        )));
    }
    let id = agent.ports.etcd.add_learner(peer_urls).await?;
    tracing::info!(etcd_agent.member_id = %id, "{node} was added as learner {id}");
    Ok(())
}

/// Gives a learner its vote.
pub(crate) async fn promote(agent: &Agent, id: MemberId, node: &NodeName, term: RaftTerm) -> PortResult<()> {
    let list = fenced_list(agent, term).await?;
    if !list.get(id).is_some_and(|m| m.is_learner) {
        return Err(stale(format_args!("member {id} is no learner any more")));
    }
    agent.ports.etcd.promote(id).await?;
    tracing::info!(etcd_agent.member_id = %id, "{node} has caught up and votes as member {id}");
    Ok(())
}

/// Gives a member its node's new address.
pub(crate) async fn update(
    agent: &Agent,
    id: MemberId,
    node: &NodeName,
    peer_urls: &[String],
    term: RaftTerm,
) -> PortResult<()> {
    let list = fenced_list(agent, term).await?;
    let taken = list
        .members
        .iter()
        .any(|m| m.id != id && m.peer_urls.iter().any(|url| peer_urls.contains(url)));
    // etcd#21694: the change would drop the flag that makes a member a learner.
    if taken
        || list
            .get(id)
            .is_none_or(|m| m.is_learner && !mutant!(UpdatesLearners))
    {
        return Err(stale(format_args!(
            "member {id} was removed or has no vote yet, or {} is another member's address",
            peer_urls.join(",")
        )));
    }
    agent.ports.etcd.update_member(id, peer_urls).await?;
    tracing::info!(etcd_agent.member_id = %id, "member {id} of {node} is at {} now", peer_urls.join(","));
    Ok(())
}

/// Removes a member if all conditions of the decision still hold, and rule 3 too.
pub(crate) async fn remove(agent: &Agent, removal: &MemberRemoval<'_>) -> PortResult<()> {
    let before = fenced_list(agent, removal.term).await?;
    // A dead member is asked until its grace is over.
    let (fresh, silent) = loop {
        // Both run concurrently: for a dead node each waits until its deadline.
        let looked = join(
            statuses(agent, &before, removal.node),
            unreached(agent, removal.node, removal.why),
        )
        .await;
        let left = removal.not_before.since(agent.ports.clock.steady());
        if left.is_zero() {
            break looked;
        }
        sleep(left.min(ASK_AGAIN)).await;
    };
    check_again(agent, removal, &before, &fresh, silent).await?;
    // The answers took time, so the list is read from raft again.
    let list = fenced_list(agent, removal.term).await?;
    if list.members != before.members {
        return Err(stale("the member list has changed"));
    }
    let Some(member) = list.get(removal.id) else {
        return Err(stale(format_args!(
            "member {} is not in the list any more",
            removal.id
        )));
    };
    let healthy: BTreeSet<MemberId> = list
        .members
        .iter()
        .filter(|m| {
            let status = agent.spec.node_of(m).and_then(|node| fresh.get(node));
            status.is_some_and(|status| is_healthy(m, list.cluster_id, status))
        })
        .map(|m| m.id)
        .collect();
    let change = if member.is_learner {
        Change::NoVote
    } else {
        Change::RemoveVoter(removal.id)
    };
    if !keeps_quorum(&list.voter_ids(), &healthy, change) && !mutant!(RemovesAnyway) {
        return Err(stale(format_args!(
            "only {} of {} members answer and are healthy",
            healthy.len(),
            list.members.len()
        )));
    }
    agent.ports.etcd.remove_member(removal.id).await?;
    tracing::warn!(
        etcd_agent.member_id = %removal.id,
        "member {} of {} was removed: {}",
        removal.id,
        removal.node,
        removal.why
    );
    Ok(())
}

/// Fresh statuses of the nodes of all members, this one's included, and of `node`. Nodes that do not answer
/// are left out.
async fn statuses(agent: &Agent, list: &MemberList, node: &NodeName) -> BTreeMap<NodeName, NodeStatus> {
    let mut nodes: BTreeSet<&NodeName> = list
        .members
        .iter()
        .filter_map(|m| agent.spec.node_of(m))
        .collect();
    nodes.insert(node);
    nodes.remove(&agent.spec.node);
    let asked = nodes.into_iter().map(|node| async move {
        let status = agent.ports.peers.status(node).await;
        status.ok().map(|status| (node.clone(), status))
    });
    let mut fresh: BTreeMap<NodeName, NodeStatus> = join_all(asked).await.into_iter().flatten().collect();
    // This node's own status is one tick old. That its etcd leads was read just now.
    if let Some(me) = agent.shared.with(|inner| inner.last.status().cloned()) {
        fresh.insert(agent.spec.node.clone(), me);
    }
    fresh
}

/// Checks the conditions of the removal again, on fresh answers.
async fn check_again(
    agent: &Agent,
    removal: &MemberRemoval<'_>,
    list: &MemberList,
    fresh: &BTreeMap<NodeName, NodeStatus>,
    silent: bool,
) -> PortResult<()> {
    let node = removal.node;
    let status = fresh.get(node);
    let unit = status.and_then(|s| s.unit.known());
    let down = unit.is_some_and(|u| u.active != ActiveState::Active && u.main_pid == 0);
    let member = list.get(removal.id);
    let learner = member.is_some_and(|m| m.is_learner);
    let holds = match removal.why {
        Removal::Gone => {
            let newest = agent.shared.elector().chosen;
            let gone = status
                .zip(newest.as_ref())
                .is_some_and(|(s, genesis)| is_lost(&s.data, genesis));
            (down && gone) || mutant!(RemovesAnyway)
        }
        Removal::Dead => status.is_none() && silent && others_miss(agent, node, list, fresh),
        Removal::Broken => down && unit.is_some_and(|u| !u.held),
        Removal::Unstarted => member.is_some_and(|m| m.name.is_empty()),
        Removal::Corrupt => {
            let last = agent.shared.with(|inner| inner.jobs.last_hash_check().cloned());
            !learner && last.is_some_and(|check| check.found.corrupt.contains(&removal.id))
        }
        Removal::Stuck | Removal::Surplus => learner,
        Removal::Excess => !learner && list.voters().count() > agent.size() && *node != agent.spec.node,
    };
    if !holds {
        return Err(stale(format_args!("no longer true: {} ({node})", removal.why)));
    }
    let Some(learner) = removal.replaced_by else {
        return Ok(());
    };
    let index = |status: &NodeStatus| status.etcd.known().map(|e| (e.member_id, e.index));
    let here = agent.ports.etcd.status().await?.index;
    let caught_up = fresh.values().filter_map(index).any(|(id, index)| {
        id == learner && has_caught_up(index, here) && index.saturating_mul(10) >= here.saturating_mul(9)
    });
    if caught_up && list.get(learner).is_some_and(|m| m.is_learner) {
        return Ok(());
    }
    Err(stale(format_args!(
        "learner {learner}, which is to take the place of {node}, has not caught up yet"
    )))
}

/// True if this agent does not reach the node's etcd. etcd is probed only if the removal depends on that.
async fn unreached(agent: &Agent, node: &NodeName, why: Removal) -> bool {
    match agent.spec.client_url(node) {
        Some(url) if why == Removal::Dead => reachability::is_silent(agent, &url).await,
        _ => false,
    }
}

/// True if the other voters' agents that answer, at least one, all reach neither the node's agent nor its
/// etcd.
fn others_miss(
    agent: &Agent,
    node: &NodeName,
    list: &MemberList,
    fresh: &BTreeMap<NodeName, NodeStatus>,
) -> bool {
    let mut witnesses = list
        .voters()
        .filter_map(|m| agent.spec.node_of(m))
        .filter(|other| *other != node && **other != agent.spec.node)
        .filter_map(|other| fresh.get(other))
        .peekable();
    witnesses.peek().is_some() && witnesses.all(|witness| misses(witness, node))
}
