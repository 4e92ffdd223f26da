//! The next step of one member between plain HTTP and TLS, from what all members report and from the member
//! list.
//!
//! There are two rounds. In the first, each member is started with the files, so that it can connect to
//! others over TLS, and still listens in plain HTTP. When all run like that, each is restarted with a
//! listener for TLS. The way back has the same steps in reverse.

use std::collections::BTreeMap;

use crate::model::{
    Fact, Member, MemberList, NodeName, NodeStatus, Over, Spec, Transport, TransportView, are_tls,
};

/// What the next step depends on.
pub struct TransportSeen<'a> {
    /// This node's spec.
    pub spec: &'a Spec,
    /// The transport that is assigned to the next start.
    pub assigned: &'a Transport,
    /// True once the member has started.
    pub started: bool,
    /// The members, as this node's etcd lists them.
    pub members: Option<&'a MemberList>,
    /// What this node reports; `None` if it does not know that yet.
    pub own: Option<&'a TransportView>,
    /// What the others report.
    pub peers: &'a BTreeMap<NodeName, Fact<NodeStatus>>,
}

/// The next step, and why further ones wait.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TransportStep {
    /// The transport after it.
    pub next: Transport,
    /// One line each.
    pub waits: Vec<String>,
}

/// The next step towards the configured transport that all members permit.
pub fn next_transport(seen: &TransportSeen<'_>) -> TransportStep {
    let configured = Transport::configured(&seen.spec.etcd);
    let mut step = TransportStep {
        next: seen.assigned.clone(),
        waits: Vec::new(),
    };
    let next = &mut step.next;
    // Files with other names are no step.
    for (files, names) in [
        (&mut next.client, &configured.client),
        (&mut next.peer, &configured.peer),
    ] {
        if files.is_some() && names.is_some() {
            files.clone_from(names);
        }
    }
    if step.next.over() == configured.over() {
        return step;
    }
    if seen.spec.nodes.len() == 1 {
        step.next = configured;
    } else if seen.started {
        clients(seen, &configured, &mut step);
        peers(seen, &configured, &mut step);
    }
    step
}

/// Clients are served in the configured way once all members are configured like that: their operators have
/// prepared all of them, and the agents can ask each other's etcd.
fn clients(seen: &TransportSeen<'_>, configured: &Transport, step: &mut TransportStep) {
    let tls = configured.client.is_some();
    if tls == step.next.client.is_some() {
        return;
    }
    match seen.lacking(|view| view.configured.client_tls == tls) {
        None => step.next.client.clone_from(&configured.client),
        Some(nodes) => step
            .waits
            .push(disagreement("serve clients", tls, "etcd.client_tls", &nodes)),
    }
}

fn peers(seen: &TransportSeen<'_>, configured: &Transport, step: &mut TransportStep) {
    let tls = configured.peer.is_some();
    let next = &mut step.next;
    if tls && next.peer.is_none() {
        // Files alone change nothing for others.
        next.peer.clone_from(&configured.peer);
        return;
    }
    if tls == next.peer_listens && tls == next.peer.is_some() {
        return;
    }
    if let Some(nodes) = seen.lacking(|view| view.configured.dials_tls == tls) {
        step.waits
            .push(disagreement("speak with members", tls, "etcd.peer_tls", &nodes));
        return;
    }
    let late = if tls {
        let late = seen.lacking(|view| is_steady(view, |over| over.dials_tls));
        next.peer_listens = late.is_none();
        late.map(|nodes| ("can connect to members over TLS", nodes))
    } else if next.peer_listens {
        // Everybody can connect to a listener in plain HTTP.
        next.peer_listens = false;
        None
    } else {
        let late = seen.listening_over_tls();
        if late.is_none() {
            next.peer = None;
        }
        late.map(|nodes| ("listens for members in plain HTTP", nodes))
    };
    if let Some((what, nodes)) = late {
        step.waits.push(format!(
            "the next step follows when etcd of each member {what}; not yet, or unknown: {nodes}"
        ));
    }
}

fn disagreement(what: &str, tls: bool, table: &str, nodes: &str) -> String {
    let (over, without) = if tls {
        ("over TLS", "without")
    } else {
        ("in plain HTTP", "with")
    };
    format!(
        "etcd here is to {what} {over} when all members are configured for it; {without} [{table}], or unknown: {nodes}"
    )
}

/// True if the process that runs and the next start are both like that.
pub(super) fn is_steady(view: &TransportView, like: impl Fn(&Over) -> bool) -> bool {
    view.runs.as_ref().is_some_and(&like) && view.assigned.as_ref().is_some_and(&like)
}

impl TransportSeen<'_> {
    /// The members that listen over TLS, or may, in words; `None` if there is none.
    fn listening_over_tls(&self) -> Option<String> {
        let listed = |member: &Member| are_tls(&member.peer_urls);
        let steady = |view: &TransportView| is_steady(view, |over| !over.listens_tls);
        self.named(|member| listed(member) || !self.view(member).is_some_and(steady))
    }

    /// The members whose agent does not report that this holds, in words; `None` if there is none.
    fn lacking(&self, holds: impl Fn(&TransportView) -> bool) -> Option<String> {
        self.named(|member| !self.view(member).is_some_and(&holds))
    }

    fn named(&self, which: impl Fn(&Member) -> bool) -> Option<String> {
        let Some(list) = self.members else {
            return Some("all, because etcd here does not list the members now".to_owned());
        };
        let name = |member: &Member| {
            let node = self.spec.node_of(member);
            node.map_or_else(|| format!("member {}", member.id), ToString::to_string)
        };
        let found: Vec<String> = list
            .members
            .iter()
            .filter(|member| which(member))
            .map(name)
            .collect();
        (!found.is_empty()).then(|| found.join(", "))
    }

    fn view(&self, member: &Member) -> Option<&TransportView> {
        let node = self.spec.node_of(member)?;
        if *node == self.spec.node {
            return self.own;
        }
        self.peers.get(node)?.known()?.transport.as_ref()
    }
}
