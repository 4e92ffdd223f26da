//! Answers from looks that begin after the question: this node's status, and an observation in which every
//! agent has looked again. Also the last observation, for questions that need no new one.

use std::time::Duration;

use futures::future::join_all;
use tokio::time::{sleep, timeout};

use crate::model::{Fact, NodeStatus, Observation};
use crate::ports::{AgentHandle, PortError, PortResult};

use crate::agent::Agent;

/// How long a new look may take. systemd, etcd's status and its member list each have shorter deadlines.
const LOOK_WITHIN: Duration = Duration::from_secs(7);
/// Part of that: how long certificate files and the binary may take to be read after a first look.
const READ_WITHIN: Duration = Duration::from_secs(2);
/// The pause between two looks that wait for them.
const LOOK_EVERY: Duration = Duration::from_millis(50);

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
    let seen = agent.shared.with(|inner| inner.last.observation().cloned());
    seen.ok_or_else(|| {
        PortError::Retryable("the agent has just started and has not looked around yet, try again".to_owned())
    })
}

/// Returns when the loop has looked again. Certificate files that are to be read, or were read long ago, are
/// read in between if that succeeds soon, and so is the version of a binary that was replaced: whether etcd may be
/// stopped depends on them.
async fn look(agent: &Agent) -> PortResult<()> {
    let begun = agent.ports.clock.steady();
    agent.shared.with(|inner| inner.data.forget_old_tls(begun));
    look_once(agent).await?;
    let unread = || {
        agent.shared.with(|inner| {
            let seen = inner.last.observation();
            seen.is_some_and(|seen| seen.tls.unread || seen.base.replaced && seen.base.unknown)
        })
    };
    let read = async {
        while unread() {
            sleep(LOOK_EVERY).await;
            if look_once(agent).await.is_err() {
                return;
            }
        }
    };
    let left = LOOK_WITHIN.saturating_sub(agent.ports.clock.steady().since(begun));
    // Files that are not read by then are unknown.
    let _ = timeout(left.min(READ_WITHIN), read).await;
    Ok(())
}

async fn look_once(agent: &Agent) -> PortResult<()> {
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
