//! Over what etcd speaks here: how this agent asks it, what it reports, and whether it needs a restart for
//! that.

use crate::agent::Agent;
use crate::agent::observe::facts::Facts;
use crate::model::{Assignment, EtcdRun, RestartWish, TlsFiles, Transport, TransportView};
use crate::plan;

/// How etcd may serve clients, over TLS with these files or over plain HTTP: as the last process that was seen, or as
/// it is assigned, if a new one runs.
pub(in crate::agent) fn client_ways(agent: &Agent, assignment: Option<&Assignment>) -> Vec<Option<TlsFiles>> {
    let runs = agent.shared.etcd_run().transport;
    let assigned = assignment.map(|assigned| assigned.transport(&agent.spec.etcd));
    let mut ways = Vec::new();
    for transport in runs.into_iter().chain(assigned) {
        if !ways.contains(&transport.client) {
            ways.push(transport.client);
        }
    }
    ways
}

/// Over what etcd speaks here.
pub(super) fn view(agent: &Agent, facts: &Facts, run: Option<&EtcdRun>) -> TransportView {
    let etcd = &facts.spec.etcd;
    let process = facts.process(agent);
    let process = process.known();
    let recorded = run.filter(|run| process.is_some() && run.process.as_ref() == process);
    let assignment = facts.assignment.as_ref();
    let assigned = assignment.map(|assignment| assignment.transport(etcd));
    let view = TransportView {
        configured: Transport::configured(etcd).over(),
        assigned: assigned.as_ref().map(Transport::over),
        runs: recorded.and_then(|run| run.transport.as_ref().map(Transport::over)),
        next: None,
    };
    let step = assigned.map(|assigned| {
        plan::next_transport(&plan::TransportSeen {
            spec: &facts.spec,
            assigned: &assigned,
            started: assignment.is_some_and(|assignment| assignment.started),
            members: facts.members.known(),
            own: Some(&view),
            peers: &facts.peers,
        })
    });
    TransportView {
        next: step.map(|step| step.next.over()),
        ..view
    }
}

/// Adds another listener for members to the wish, if that is the next step.
pub(super) fn with_listener(transport: &TransportView, wish: Option<RestartWish>) -> Option<RestartWish> {
    let Some((assigned, next)) = transport.assigned.zip(transport.next) else {
        return wish;
    };
    let now = transport.runs.unwrap_or(assigned);
    if now.listens_tls == next.listens_tls || wish.is_some() {
        return wish;
    }
    let over = if next.listens_tls {
        "over TLS"
    } else {
        "in plain HTTP"
    };
    Some(RestartWish::new(format!("etcd is to listen for members {over}")))
}
