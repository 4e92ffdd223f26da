//! Whether a member of this node was removed. The agent asks etcd at every node, over etcd's own TLS, and
//! every other agent. One node may lie through its agent and at its client port, so two nodes have to confirm
//! a removal.

use std::time::Duration;

use futures::future::{join, join_all};
use tokio::time::timeout;

use crate::model::{ClusterId, MemberId, MemberList, NodeName, NodeStatus, RaftTerm, RemovalView};
use crate::ports::{PortError, PortResult};

use crate::agent::Agent;

/// Timeout of one request.
const ASK: Duration = Duration::from_secs(8);

/// What one node answers.
struct Witness<'a> {
    node: &'a NodeName,
    /// The status that its agent reports.
    status: Option<NodeStatus>,
    /// The list that its etcd read through quorum.
    list: Option<MemberList>,
}

/// Asks the other nodes, and records the result.
///
/// # Errors
/// The errors of `is_removed`, and a state that could not be read or written.
pub(crate) async fn check(
    agent: &Agent,
    cluster: ClusterId,
    member: MemberId,
    listed: RaftTerm,
) -> PortResult<()> {
    let removed = is_removed(agent, cluster, member, listed).await?;
    let assigned = agent.ports.state.assignment()?;
    if let Some(mut assigned) = assigned.filter(|a| a.is_of(cluster, member))
        && removed
    {
        // Saved before anything acts on it: the nodes that confirm it now may have left when this agent
        // starts again.
        assigned.removed = true;
        agent.ports.state.save_assignment(&assigned)?;
    }
    let at = agent.ports.clock.steady();
    let view = RemovalView {
        cluster_id: cluster,
        member_id: member,
        removed,
        at,
    };
    let news = agent.shared.with(|inner| {
        let before = inner.removal.replace(view);
        before.is_none_or(|before| (before.member_id, before.removed) != (member, removed))
    });
    if news && !removed {
        tracing::warn!(
            etcd_agent.member_id = %member,
            "ignoring a peer's member list without member {member} of this node: neither etcd nor a second node confirms it"
        );
    }
    Ok(())
}

/// True when the member is no longer in the cluster.
///
/// # Errors
/// Retryable when no list has the member and too few lists lack it.
async fn is_removed(
    agent: &Agent,
    cluster: ClusterId,
    member: MemberId,
    listed: RaftTerm,
) -> PortResult<bool> {
    let others: Vec<&NodeName> = agent
        .spec
        .nodes
        .keys()
        .filter(|n| **n != agent.spec.node)
        .collect();
    let asked = join_all(others.iter().map(|node| ask(agent, node)));
    let (witnesses, own) = join(asked, own_list(agent, cluster)).await;
    // A removed member cannot read a list through quorum.
    if own.is_some_and(|list| list.get(member).is_some()) && !mutant!(BelievesRemovals) {
        return Ok(false);
    }
    // A list of an older term, or one that was not read through quorum, may be from before the member was
    // added.
    let telling = |list: &&MemberList| list.linearizable && list.cluster_id == cluster && list.term >= listed;
    let lacks = |list: &MemberList| list.get(member).is_none();
    let mut gone = 0;
    let (mut has, mut alone) = (false, true);
    let out = agent.shared.directives().out;
    for witness in &witnesses {
        let etcd = witness.list.as_ref().filter(telling);
        let status = witness.status.as_ref();
        let agents = status.and_then(|status| status.members.known()).filter(telling);
        if etcd.or(agents).is_some_and(lacks) {
            gone += 1;
            alone &= etcd.is_some_and(|list| list.voters().count() == 1);
        } else {
            has |= etcd.or(agents).is_some();
            // A spare has no member that could contradict. A node that was ordered out must not have one
            // either.
            alone &= out.contains(witness.node) || status.is_some_and(|status| status.assignment.is_none());
        }
    }
    // The last voter has no second witness: its list is enough when every other node answers and has no
    // member. One list is also enough when an operator has ordered this node out.
    let ordered = out.contains(&agent.spec.node);
    if gone >= 2 || (gone == 1 && (alone || ordered || mutant!(BelievesRemovals))) {
        return Ok(true);
    }
    if has {
        return Ok(false);
    }
    Err(PortError::Retryable(format!(
        "the removal of member {member} is not confirmed: {gone} of {} other nodes report it",
        others.len()
    )))
}

async fn ask<'a>(agent: &Agent, node: &'a NodeName) -> Witness<'a> {
    let etcd = agent.ports.etcd.of(node);
    let list = async {
        match etcd {
            Some(etcd) => timeout(ASK, etcd.members(true)).await.ok()?.ok(),
            None => None,
        }
    };
    let status = timeout(ASK, agent.ports.peers.status(node));
    let (status, list) = join(status, list).await;
    Witness {
        node,
        status: status.ok().and_then(Result::ok),
        list,
    }
}

/// The list that the local etcd reads through quorum, if it runs.
async fn own_list(agent: &Agent, cluster: ClusterId) -> Option<MemberList> {
    let unit = agent.ports.service.etcd_unit().await.ok()?;
    if unit.main_pid == 0 {
        return None;
    }
    let list = timeout(ASK, agent.ports.etcd.members(true)).await.ok()?.ok()?;
    (list.cluster_id == cluster).then_some(list)
}
