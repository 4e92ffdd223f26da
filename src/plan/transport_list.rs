//! Members in the list under the URL at which they listen: over TLS or in plain HTTP.

use std::time::Duration;

use super::context::Context;
use crate::model::{
    Action, ActionKind, Assignment, Member, MemberList, NodeName, NodeStatus, ReasonCode, are_tls,
};

/// How soon the next look follows while the member list is about to change.
const SOON: Duration = Duration::from_millis(100);

/// True if this node's member is listed with this scheme.
pub(super) fn is_listed(cx: &Context<'_>, assignment: &Assignment, tls: bool) -> bool {
    let list = cx.obs.me.members.known();
    let own = list.and_then(|list| list.get(assignment.member_id));
    own.is_some_and(|own| are_tls(&own.peer_urls) == tls)
}

/// True while a granted restart has to wait: first the coordinator lists the member under the URL at which it
/// listens afterwards, then the listener is assigned.
pub(super) fn waits_for_list(cx: &mut Context<'_>, assignment: &Assignment) -> bool {
    let assigned = assignment.transport(&cx.spec.etcd).peer_listens;
    let next = cx.obs.me.transport.as_ref().and_then(|view| view.next);
    let next = next.map_or(assigned, |next| next.listens_tls);
    let ready = assigned == next && is_listed(cx, assignment, assigned);
    if cx.spec.nodes.len() == 1 || ready || cx.obs.me.members.known().is_none() {
        return false;
    }
    let text = "etcd here is restarted when the coordinator has listed it under its new peer URL";
    cx.because(ReasonCode::TransportSwitch, text);
    cx.wake_in(SOON);
    true
}

/// Lists a member under the scheme with which it listens, or is to listen after the restart that is granted
/// to it.
pub(super) fn list_anew(
    cx: &mut Context<'_>,
    list: &MemberList,
    granted: Option<&NodeName>,
) -> Option<Action> {
    if cx.spec.nodes.len() == 1 {
        return None;
    }
    // Not a learner: `MemberUpdate` makes it a voter in the member list (etcd#21694).
    let (member, node, url) = list.voters().find_map(|member| {
        let node = cx.spec.node_of(member)?;
        let status = cx.status_of(node).filter(|status| is_own(status, member))?;
        let view = status.transport.as_ref()?;
        let wanted = if granted == Some(node) {
            view.next?.listens_tls
        } else {
            let (runs, assigned) = (view.runs?.listens_tls, view.assigned?.listens_tls);
            // Otherwise it is restarted under the next grant.
            (runs == assigned).then_some(runs)?
        };
        let url = cx.spec.peer_url_over(node, wanted)?;
        (are_tls(&member.peer_urls) != wanted).then_some((member, node, url))
    })?;
    cx.because(
        ReasonCode::TransportSwitch,
        format!(
            "{node} is listed under {url} instead of {}",
            member.peer_urls.join(",")
        ),
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

fn is_own(status: &NodeStatus, member: &Member) -> bool {
    let assigned = status.assignment.as_ref();
    assigned.is_some_and(|assigned| assigned.member_id == member.id)
}

/// The nodes of members that listen with another scheme than they are listed with. Others cannot open
/// connections to them: no other member is restarted before them.
pub(super) fn half_switched<'a>(cx: &Context<'a>, list: &MemberList) -> Vec<&'a NodeName> {
    let half = |member: &Member| {
        let node = cx.spec.node_of(member)?;
        let runs = cx.status_of(node)?.transport.as_ref()?.runs?;
        (runs.listens_tls != are_tls(&member.peer_urls)).then_some(node)
    };
    if cx.spec.nodes.len() == 1 {
        return Vec::new();
    }
    list.voters().filter_map(half).collect()
}
