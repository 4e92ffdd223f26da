//! Moves etcd between plain HTTP and TLS by restarts, one member at a time (ADR 25). `transport_step.rs` has the
//! steps, `transport_list.rs` lists members under the URLs at which they listen.

use super::context::Context;
use super::transport_list::is_listed;
use super::transport_step::{TransportSeen, is_steady, next_transport};
use super::{restart, tls_files};
use crate::model::{
    Assignment, GrantPurpose, Member, MemberList, NodeName, NodeStatus, Over, ReasonCode, are_tls,
};

/// Sets the transport of the next start. A listener for members changes only under a grant, and after the
/// coordinator has listed the member under its new URL: should all hosts lose power, at most one member is
/// not reached.
pub(super) fn follow(cx: &mut Context<'_>, assignment: &Assignment, wanted: &mut Assignment) {
    let assigned = assignment.transport(&cx.spec.etcd);
    let step = next_transport(&TransportSeen {
        spec: cx.spec,
        assigned: &assigned,
        started: wanted.started,
        members: cx.obs.me.members.known(),
        own: cx.obs.me.transport.as_ref(),
        peers: &cx.obs.peers,
    });
    for why in step.waits {
        cx.because(ReasonCode::TransportWaits, why);
    }
    let mut next = step.next;
    tls_files::keep_assigned(cx, wanted, &assigned, &mut next);
    if next.peer_listens != assigned.peer_listens
        && cx.spec.nodes.len() > 1
        && !may_switch(cx, assignment, next.peer_listens)
    {
        next.peer_listens = assigned.peer_listens;
    }
    if next.over() != assigned.over() {
        cx.because(
            ReasonCode::TransportSwitch,
            format!("from its next start on, etcd here {}", describe(next.over())),
        );
    }
    let moved = next.peer_listens != assigned.peer_listens;
    if (moved || wanted.settings_digest != assignment.settings_digest)
        && wanted.started
        && cx.spec.nodes.len() > 1
        && let Some(url) = cx.spec.peer_url_over(&cx.spec.node, next.peer_listens)
    {
        // Before its first start the member's ID is derived from the URLs under which it was added. A cluster
        // of one may have been taken over under an address that its owner chose.
        wanted.initial_cluster.insert(cx.spec.node.clone(), vec![url]);
    }
    wanted.transport = Some(next);
}

/// True if a restart is granted to this node, and its member is listed with this scheme.
fn may_switch(cx: &Context<'_>, assignment: &Assignment, tls: bool) -> bool {
    is_listed(cx, assignment, tls) && restart::leave(cx, GrantPurpose::Restart).is_some()
}

/// What an etcd with this transport does, for people.
fn describe(over: Over) -> String {
    let clients = if over.client_tls { "TLS" } else { "plain HTTP" };
    let peers = match (over.listens_tls, over.dials_tls) {
        (true, _) => "speaks TLS with members",
        (false, true) => "listens for members in plain HTTP and can connect to them over TLS",
        (false, false) => "speaks plain HTTP with members",
    };
    format!("serves clients over {clients} and {peers}")
}

/// Why etcd must not be restarted into this transport now, from fresh statuses of all other voters' nodes. A
/// restart that is not known to change the transport has no objection.
pub fn transport_objection<'s>(
    next: Over,
    runs: Option<Over>,
    others: impl IntoIterator<Item = &'s NodeStatus>,
) -> Option<String> {
    let begins_to_listen = next.listens_tls && runs.is_some_and(|runs| !runs.listens_tls);
    let stops_dialing = !next.dials_tls && runs.is_some_and(|runs| runs.dials_tls);
    others.into_iter().find_map(|status| {
        let view = status.transport.as_ref();
        let like = |like: fn(&Over) -> bool| view.is_some_and(|view| is_steady(view, like));
        let node = &status.node;
        if begins_to_listen && !like(|over| over.dials_tls) {
            return Some(format!("etcd on {node} cannot connect to members over TLS yet"));
        }
        (stops_dialing && !like(|over| !over.listens_tls)).then(|| {
            format!("etcd on {node} may listen for members over TLS, and etcd here could not connect to it")
        })
    })
}

/// The peer URL under which a node is added: over TLS if it is configured here and every voter can connect to
/// it like that, else in plain HTTP, from which it is moved later.
///
/// # Errors
/// Why the node cannot be a member now.
pub(super) fn url_to_add(
    cx: &Context<'_>,
    list: &MemberList,
    node: &NodeName,
) -> Result<Vec<String>, String> {
    let dials = |member: &Member| {
        let node = cx.spec.node_of(member);
        let view = node.and_then(|node| cx.status_of(node)?.transport.as_ref());
        view.is_some_and(|view| is_steady(view, |over| over.dials_tls))
    };
    let tls = cx.spec.etcd.peer_tls.is_some()
        && list
            .voters()
            .all(|member| are_tls(&member.peer_urls) || dials(member));
    let speaks = list.voters().find(|member| are_tls(&member.peer_urls));
    let configured = cx
        .status_of(node)
        .and_then(|status| status.transport.as_ref())
        .map(|view| view.configured);
    if let (Some(speaks), Some(Over { dials_tls: false, .. })) = (speaks, configured) {
        return Err(format!(
            "{node} has no [etcd.peer_tls], and member {} is at {}: configure it there too",
            speaks.id,
            speaks.peer_urls.join(",")
        ));
    }
    let tls = tls && configured.is_none_or(|configured| configured.dials_tls);
    Ok(cx.spec.peer_url_over(node, tls).into_iter().collect())
}

/// Which of these nodes are configured for another transport than this one, in words. A cluster whose members
/// are all started anew cannot be formed of them.
pub(super) fn mixture<'n>(cx: &Context<'_>, nodes: impl IntoIterator<Item = &'n NodeName>) -> Option<String> {
    let (client, peer) = (cx.spec.etcd.client_tls.is_some(), cx.spec.etcd.peer_tls.is_some());
    let mut found = Vec::new();
    for node in nodes {
        let Some(view) = cx.status_of(node).and_then(|status| status.transport.as_ref()) else {
            continue;
        };
        for (table, here, there) in [
            ("etcd.client_tls", client, view.configured.client_tls),
            ("etcd.peer_tls", peer, view.configured.dials_tls),
        ] {
            if here != there {
                let has = if there { "has" } else { "has no" };
                found.push(format!("{node} {has} [{table}]"));
            }
        }
    }
    (!found.is_empty()).then(|| {
        format!(
            "{}, other than this node: make that the same on all nodes",
            found.join(", ")
        )
    })
}
