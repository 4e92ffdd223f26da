//! What this agent cannot reach: the agents of other nodes, and the etcd of members whose agent is silent. The
//! coordinator holds what several agents say of this against each other before it calls a member dead.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use crate::model::{Fact, MemberList, NodeName, NodeStatus, SteadyMs};

use crate::ports::PortError;

use crate::agent::Agent;

/// How often the etcd behind a silent agent is asked.
const EVERY: Duration = Duration::from_secs(5);
/// An answer, or its absence, that is older than this says nothing any more.
const GOOD_FOR: Duration = Duration::from_secs(30);

/// One node's etcd, asked while its agent is silent.
#[derive(Debug, Clone, Default)]
pub(crate) struct Probe {
    asking: bool,
    /// When it was last asked, and whether it was silent.
    last: Option<(SteadyMs, bool)>,
    /// Why it could not be asked then, when it could not.
    unasked: Option<String>,
}

/// Who is silent.
#[derive(Debug, Clone, Default)]
pub(crate) struct Silence {
    pub(crate) agents: BTreeSet<NodeName>,
    pub(crate) etcds: BTreeSet<NodeName>,
}

/// Looks at the peers as last heard of, and asks beside the loop the etcd of each member whose agent is silent.
pub(crate) fn look(
    agent: &Agent,
    now: SteadyMs,
    peers: &BTreeMap<NodeName, Fact<NodeStatus>>,
    own: Option<&MemberList>,
) -> Silence {
    let agents: BTreeSet<NodeName> = peers
        .iter()
        .filter(|(_, fact)| fact.is_unreachable())
        .map(|(node, _)| node.clone())
        .collect();
    let lists = peers.values().filter_map(|f| f.known()?.members.known());
    let members: BTreeSet<&NodeName> = own
        .into_iter()
        .chain(lists)
        .flat_map(|list| &list.members)
        .filter_map(|member| agent.spec.node_of(member))
        .filter(|node| agents.contains(*node))
        .collect();
    let (etcds, due) = agent.shared.with(|inner| {
        inner.probes.retain(|node, _| members.contains(node));
        let mut due = Vec::new();
        let mut etcds = BTreeSet::new();
        for node in members {
            let probe = inner.probes.entry(node.clone()).or_default();
            if let Some((at, true)) = probe.last
                && now.since(at) < GOOD_FOR
            {
                etcds.insert(node.clone());
            }
            if !probe.asking && probe.last.is_none_or(|(at, _)| now.since(at) >= EVERY) {
                probe.asking = true;
                due.push(node.clone());
            }
        }
        (etcds, due)
    });
    for node in due {
        ask(agent, node);
    }
    Silence { agents, etcds }
}

fn ask(agent: &Agent, node: NodeName) {
    let Some(url) = agent.spec.client_url(&node) else {
        return;
    };
    let agent = agent.clone();
    tokio::spawn(async move {
        let answer = agent.ports.etcd.probe(&url).await;
        let silent = matches!(answer, Err(PortError::Retryable(_)));
        let unasked = answer.err().filter(|_| !silent).map(|error| error.to_string());
        let now = agent.ports.clock.steady();
        let news = agent.shared.with(|inner| {
            // Without an entry the agent there has answered meanwhile.
            let Some(probe) = inner.probes.get_mut(&node) else {
                return false;
            };
            let news = probe.last.is_none_or(|(_, was)| was != silent);
            if let Some(why) = &unasked
                && probe.unasked.is_none()
            {
                tracing::warn!("whether etcd on {node} is silent is not known: {why}");
            }
            *probe = Probe {
                asking: false,
                last: Some((now, silent)),
                unasked,
            };
            news
        });
        if news {
            agent.shared.wake.notify_one();
        }
    });
}

/// Whether nothing comes back from the etcd at this client URL. One that could not be asked is not silent.
pub(crate) async fn is_silent(agent: &Agent, client_url: &str) -> bool {
    matches!(
        agent.ports.etcd.probe(client_url).await,
        Err(PortError::Retryable(_))
    )
}
