//! Probes the etcd of members whose agent is silent.

use std::collections::BTreeSet;

use crate::agent::Agent;
use crate::model::{NodeName, SteadyMs};
use crate::ports::PortError;

/// Probes the etcd of each of these nodes that is due.
pub(crate) fn probe_silent(agent: &Agent, now: SteadyMs, nodes: &BTreeSet<NodeName>) {
    let due = agent.shared.with(|inner| inner.probes.start_due(nodes, now));
    for node in due {
        probe(agent, node);
    }
}

fn probe(agent: &Agent, node: NodeName) {
    let Some(url) = agent.spec.client_url(&node) else {
        return;
    };
    let agent = agent.clone();
    tokio::spawn(async move {
        let answer = agent.ports.etcd.probe(&url).await;
        let silent = matches!(answer, Err(PortError::Retryable(_)));
        let failed = answer.err().filter(|_| !silent);
        let now = agent.ports.clock.steady();
        let (changed, first_failure) = agent
            .shared
            .with(|inner| inner.probes.ended(&node, now, silent, failed.is_some()));
        if let Some(why) = failed.filter(|_| first_failure) {
            tracing::warn!("it is not known whether etcd on {node} is silent: {why}");
        }
        if changed {
            agent.shared.wake.notify_one();
        }
    });
}
