//! What this agent cannot reach: the agents of other nodes, and the etcd of members whose agent is silent.
//! The coordinator compares the reports of several agents before it declares a member dead.

use std::collections::BTreeSet;

use crate::agent::Agent;
use crate::agent::observe::facts::Facts;
use crate::model::NodeName;
use crate::ports::PortError;

/// The nodes that are silent.
pub(super) struct Silence {
    pub(super) agents: BTreeSet<NodeName>,
    pub(super) etcds: BTreeSet<NodeName>,
}

/// The nodes whose agent does not answer, and those of them whose etcd did not answer its probe either.
pub(super) fn silence(agent: &Agent, facts: &Facts) -> Silence {
    let members = silent_members(agent, facts);
    let mut etcds = agent.shared.with(|inner| inner.probes.silent(facts.steady));
    etcds.retain(|node| members.contains(node));
    Silence {
        agents: silent_agents(facts),
        etcds,
    }
}

fn silent_agents(facts: &Facts) -> BTreeSet<NodeName> {
    let silent = facts.peers.iter().filter(|(_, fact)| fact.is_unreachable());
    silent.map(|(node, _)| node.clone()).collect()
}

/// The nodes of members whose agent is silent.
pub(crate) fn silent_members(agent: &Agent, facts: &Facts) -> BTreeSet<NodeName> {
    let agents = silent_agents(facts);
    let lists = facts.peers.values().filter_map(|f| f.known()?.members.known());
    facts
        .members
        .known()
        .into_iter()
        .chain(lists)
        .flat_map(|list| &list.members)
        .filter_map(|member| agent.spec.node_of(member))
        .filter(|node| agents.contains(*node))
        .cloned()
        .collect()
}

/// True if the etcd at this client URL does not answer. An etcd to which the probe could not be sent is not
/// silent.
pub(crate) async fn is_silent(agent: &Agent, client_url: &str) -> bool {
    matches!(
        agent.ports.etcd.probe(client_url).await,
        Err(PortError::Retryable(_))
    )
}
