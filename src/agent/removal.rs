//! Whether a member of this node was removed: etcd itself is asked, at every node, over its own TLS, and the agents are.
//! One node may lie, with its agent and with what answers at its client port; so two have to say it.

use std::time::Duration;

use futures::future::{join, join_all};
use tokio::time::timeout;

use crate::model::{ClusterId, MemberId, MemberList, NodeName, NodeStatus, RaftTerm, RemovalView};
use crate::ports::{PortError, PortResult};

use super::Agent;

/// The longest that one question may take.
const ASK: Duration = Duration::from_secs(8);

/// What was heard at one node.
struct Heard<'a> {
    node: &'a NodeName,
    /// Its agent.
    status: Option<NodeStatus>,
    /// The list that its etcd read through quorum.
    list: Option<MemberList>,
}

/// Asks, and remembers what came of it.
///
/// # Errors
/// What `is_removed` could not find out.
pub(super) async fn check(
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
        // On disk before anything follows. When this agent is started again, who says it now may have left as well.
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
            member_id = %member,
            "a peer's member list lacks member {member} of this node, and nobody bears it out: nothing follows from it"
        );
    }
    Ok(())
}

/// Whether the member is not in the cluster any more.
///
/// # Errors
/// Retryable when nobody says that it still is in, and too few say that it is not.
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
    let asked = join_all(others.iter().map(|node| hear(agent, node)));
    let (heard, own) = join(asked, own_list(agent, cluster)).await;
    // A list through quorum by the member itself: a removed one can read none.
    if own.is_some_and(|list| list.get(member).is_some()) && !mutant!(BelievesRemovals) {
        return Ok(false);
    }
    // What was not read through quorum may be older than the list that named the member first.
    let telling = |list: &&MemberList| list.linearizable && list.cluster_id == cluster && list.term >= listed;
    let lacks = |list: &MemberList| list.get(member).is_none();
    let mut gone = 0;
    let (mut has, mut alone) = (false, true);
    let out = agent.shared.directives().out;
    for heard in &heard {
        let etcd = heard.list.as_ref().filter(telling);
        let status = heard.status.as_ref();
        let agents = status.and_then(|status| status.members.known()).filter(telling);
        if etcd.or(agents).is_some_and(lacks) {
            gone += 1;
            alone &= etcd.is_some_and(|list| list.voters().count() == 1);
        } else {
            has |= etcd.or(agents).is_some();
            // A spare bears no member that could say something else. What is ordered out is not to bear one.
            alone &= out.contains(heard.node) || status.is_some_and(|status| status.assignment.is_none());
        }
    }
    // A cluster of one has nobody else to say it: then every other node has to be there, and to bear no member. Or an
    // operator has ordered this node out.
    let ordered = out.contains(&agent.spec.node);
    if gone >= 2 || (gone == 1 && (alone || ordered || mutant!(BelievesRemovals))) {
        return Ok(true);
    }
    if has {
        return Ok(false);
    }
    Err(PortError::Retryable(format!(
        "whether member {member} was removed cannot be made sure of: {gone} of {} other nodes say so",
        others.len()
    )))
}

async fn hear<'a>(agent: &Agent, node: &'a NodeName) -> Heard<'a> {
    let etcd = agent.ports.etcd.of(node);
    let list = async {
        match etcd {
            Some(etcd) => timeout(ASK, etcd.members(true)).await.ok()?.ok(),
            None => None,
        }
    };
    let status = timeout(ASK, agent.ports.peers.status(node));
    let (status, list) = join(status, list).await;
    Heard {
        node,
        status: status.ok().and_then(Result::ok),
        list,
    }
}

/// What the etcd here reads through quorum, if it runs.
async fn own_list(agent: &Agent, cluster: ClusterId) -> Option<MemberList> {
    let unit = agent.ports.service.etcd_unit().await.ok()?;
    if unit.main_pid == 0 {
        return None;
    }
    let list = timeout(ASK, agent.ports.etcd.members(true)).await.ok()?.ok()?;
    (list.cluster_id == cluster).then_some(list)
}
