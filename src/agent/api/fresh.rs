//! Answers from looks that begin after the question: this node's status, and an observation in which every
//! agent has looked again. Also the last observation, for questions that need no new one.

use std::time::Duration;

use futures::future::join_all;
use tokio::time::timeout;

use crate::model::{Fact, NodeStatus, Observation};
use crate::ports::{AgentHandle, PortError, PortResult};

use crate::agent::Agent;

/// How long a new look may take. systemd, etcd's status and its member list each have shorter deadlines.
const LOOK_WITHIN: Duration = Duration::from_secs(7);

/// This node's status from a look that begins now.
///
/// # Errors
/// Retryable when no look ends in time.
pub(crate) async fn status(agent: &Agent) -> PortResult<NodeStatus> {
    look(agent).await?;
    Ok(agent.status())
}

/// What this node sees when its agent and all others look again now. A peer that does not look in time is
/// unreachable in it.
///
/// # Errors
/// Retryable when this agent itself does not look in time.
pub(crate) async fn observation(agent: &Agent) -> PortResult<Observation> {
    let peers = agent.spec.nodes.keys().filter(|node| **node != agent.spec.node);
    let asked = peers.map(|node| async move {
        let answer = agent.ports.peers.look_again(node).await;
        (node.clone(), Fact::from(answer))
    });
    let (own, answers) = tokio::join!(look(agent), join_all(asked));
    own?;
    let mut seen = last(agent)?;
    // The status names the grant that this node has given; the planner's input does not.
    seen.me = agent.status();
    seen.peers = answers.into_iter().collect();
    Ok(seen)
}

/// The last observation.
///
/// # Errors
/// Retryable before the first tick.
pub(crate) fn last(agent: &Agent) -> PortResult<Observation> {
    let seen = agent.shared.with(|inner| inner.last.observation.clone());
    seen.ok_or_else(|| {
        PortError::Retryable("the agent has just started and has not looked around yet, try again".to_owned())
    })
}

/// Returns when the loop has looked again.
async fn look(agent: &Agent) -> PortResult<()> {
    let next = agent.shared.looks.next();
    agent.shared.wake.notify_one();
    timeout(LOOK_WITHIN, next).await.map_err(|_| {
        PortError::Retryable(format!(
            "the agent on {} has not looked again within {} s: it is busy, or systemd or etcd does not answer",
            agent.spec.node,
            LOOK_WITHIN.as_secs()
        ))
    })
}
