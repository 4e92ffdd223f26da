//! Members and nodes with a doubtful identity. They are reported and never acted on (rule 8).

use std::collections::BTreeMap;
use std::time::Duration;

use super::context::Context;
use super::orders::is_out;
use crate::model::{
    Action, ActionKind, Genesis, Incarnation, MemberList, NodeName, NodeStatus, ReasonCode, are_tls,
    same_endpoint,
};

/// Reports doubtful members and nodes. True if the member list cannot be acted on.
pub(super) fn doubtful(cx: &mut Context<'_>, genesis: &Genesis, list: &MemberList) -> bool {
    for member in list.members.iter().filter(|m| cx.spec.node_of(m).is_none()) {
        let runs = |status: &NodeStatus| {
            let etcd = status.etcd.known();
            etcd.is_some_and(|etcd| etcd.member_id == member.id && etcd.cluster_id == list.cluster_id)
        };
        let node = cx.known_nodes().into_iter().find(|(_, status)| runs(status));
        let what_to_do = match node {
            // An etcd that was taken over has its former name until then.
            Some((node, _)) => format!("it runs on {node}, and gets that name when etcd is restarted there"),
            None => "add its node, or remove it with etcdctl".to_owned(),
        };
        cx.because(
            ReasonCode::UnknownMember,
            format!(
                "member {} ({}, {}) belongs to no node in cluster.nodes: it counts for quorum, and is never acted on; \
                 {what_to_do}",
                member.id,
                if member.name.is_empty() { "not started" } else { &member.name },
                member.peer_urls.join(",")
            ),
        );
    }
    let foreign: Vec<String> = cx
        .known_peers()
        .filter(|(_, status)| status.newest_epoch == genesis.epoch)
        .filter_map(|(node, status)| Some((node, status.etcd.known()?)))
        // The node's own agent stops an etcd that this epoch has replaced.
        .filter(|(_, etcd)| etcd.cluster_id != genesis.cluster_id && !genesis.replaces(etcd.cluster_id))
        .map(|(node, etcd)| {
            format!(
                "etcd on {node} is member {} of cluster {}, and this cluster is {}: find out who started it",
                etcd.member_id, etcd.cluster_id, genesis.cluster_id
            )
        })
        .collect();
    for text in foreign {
        cx.because(ReasonCode::ForeignCluster, text);
    }
    let twice_listed = two_members(cx, list);
    let twice_there = two_agents(cx);
    twice_listed || twice_there
}

/// Reports two members of one node: the agent does not know which of them is the intended one.
fn two_members(cx: &mut Context<'_>, list: &MemberList) -> bool {
    let mut first = BTreeMap::new();
    for member in &list.members {
        let Some(node) = cx.spec.node_of(member) else {
            continue;
        };
        if let Some(other) = first.insert(node, member.id) {
            cx.halt(
                ReasonCode::DuplicateMember,
                format!(
                    "{node} has two members, {other} and {}: remove the one that is not meant with `etcdctl member \
                     remove`",
                    member.id
                ),
            );
            return true;
        }
    }
    false
}

/// Reports two agents with the same memory: a state directory was copied, perhaps with a machine image. What a node
/// that was ordered out says of itself does not count (rule 10).
fn two_agents(cx: &mut Context<'_>) -> bool {
    let mut first: BTreeMap<&Incarnation, &NodeName> = BTreeMap::new();
    for (node, status) in cx.known_nodes() {
        if is_out(cx, node) {
            continue;
        }
        if let Some(other) = first.insert(&status.incarnation, node) {
            cx.halt(
                ReasonCode::DuplicateNode,
                format!(
                    "{other} and {node} have the same memory ({}): one was copied from the other; stop the agent on \
                     the copy, delete all files in /var/lib/etcd-agent/state there, start it again. For one that you do \
                     not trust: `etcd-agent member remove NODE`",
                    status.incarnation
                ),
            );
            return true;
        }
    }
    false
}

/// Updates the address of a member whose node has moved: the node's own agent answers, has the member in its
/// assignment, and is configured with the same new address as this node.
pub(super) fn address_changed(cx: &mut Context<'_>, genesis: &Genesis, list: &MemberList) -> Option<Action> {
    // A cluster of one may have been taken over under an address that its owner chose.
    if cx.spec.nodes.len() == 1 {
        return None;
    }
    // Learners are left out: `MemberUpdate` makes a learner a voter in the member list (etcd#21694). A
    // learner that is not reachable at its old address is given up and added again at the new one.
    let mut members = list.members.iter();
    let (member, node, url) = members.find_map(|member| {
        if member.is_learner && !mutant!(UpdatesLearners) {
            return None;
        }
        let node = cx.spec.nodes.keys().find(|node| member.name == node.as_str())?;
        // The scheme stays: `transport::list_anew` changes it together with the listener.
        let url = cx.spec.peer_url_over(node, are_tls(&member.peer_urls))?;
        let status = cx.status_of(node)?;
        let its_own = status
            .assignment
            .as_ref()
            .is_some_and(|a| a.member_id == member.id && a.epoch == genesis.epoch);
        let agreed = status
            .peer_url
            .as_deref()
            .is_some_and(|theirs| same_endpoint(theirs, &url));
        (its_own && agreed && member.peer_urls != [url.clone()]).then_some((member, node, url))
    })?;
    cx.because(
        ReasonCode::AddressChanged,
        format!("{node} moved from {} to {url}", member.peer_urls.join(",")),
    );
    cx.may_try(
        ActionKind::UpdateMember,
        Duration::from_millis(500),
        Duration::from_secs(10),
    )
    .then(|| Action::UpdateMember {
        id: member.id,
        node: node.clone(),
        peer_urls: vec![url],
        term: list.term,
    })
}
