//! Calls to other agents: they are lost, late, duplicated, reordered, answered or not.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use etcd_agent::agent::Agent;
use etcd_agent::model::{
    Accept, AcceptReply, Enquire, EnquireAnswer, Fact, Learn, NodeName, NodeStatus, OperatorRequest, Prepare,
    PrepareReply, RequestView,
};
use etcd_agent::ports::{AgentHandle, Peers, PortError, PortResult};
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::board::is_expected;
use super::{Board, Seat};
use crate::liar;
use crate::world::{Plane, World};

/// The timeout of an answer (`adapters::peers::call`).
const DEADLINE: Duration = Duration::from_secs(2);

pub(super) struct Others {
    pub(super) seat: Arc<Seat>,
    pub(super) board: Arc<Board>,
}

/// The fate of one call.
struct Way {
    there_ms: u64,
    back_ms: u64,
    lost: bool,
    answer_lost: bool,
    twice: bool,
}

impl Others {
    fn way(&self, peer: usize) -> Way {
        let mut world = self.seat.sim.world();
        let (me, links) = (self.seat.host, &world.links);
        let (loss, twice, delay) = (links.loss, links.twice, links.delay);
        let open = links.open(Plane::Agents, me, peer) && world.hosts[peer].up;
        let back = links.open(Plane::Agents, peer, me);
        let rng = &mut world.rng;
        Way {
            there_ms: rng.below(delay + 1),
            back_ms: rng.below(delay + 1),
            lost: !open || rng.chance(loss),
            answer_lost: !back || rng.chance(loss),
            twice: rng.chance(twice),
        }
    }

    /// The answer of a node, falsified if it lies.
    fn lie<T>(
        &self,
        node: &NodeName,
        reply: PortResult<T>,
        lie: impl FnOnce(&mut World, usize, T) -> T,
    ) -> PortResult<T> {
        let mut world = self.seat.sim.world();
        let peer = world.host_of(node);
        match peer {
            Some(peer) => reply.map(|reply| lie(&mut world, peer, reply)),
            None => reply,
        }
    }

    async fn call<T, F>(&self, node: &NodeName, ask: impl Fn(Agent) -> F + Send + Sync) -> PortResult<T>
    where
        T: Send + Serialize + DeserializeOwned,
        F: Future<Output = PortResult<T>> + Send,
    {
        self.seat.cross().await;
        let peer = self.seat.sim.world().host_of(node);
        let peer = peer.ok_or_else(|| PortError::Permanent(format!("{node} is no peer")))?;
        self.seat.sim.note_messages();
        let way = self.way(peer);
        if way.lost {
            tokio::time::sleep(DEADLINE).await;
            return Err(PortError::Retryable("no connection".to_owned()));
        }
        tokio::time::sleep(Duration::from_millis(way.there_ms)).await;
        let Some(agent) = self.seat.sim.agent(peer) else {
            return Err(PortError::Retryable("connection refused".to_owned()));
        };
        let run = self.seat.sim.world().hosts[peer].run;
        let reply = ask(agent.clone()).await;
        let reply = if way.twice { ask(agent).await } else { reply };
        let died = self.seat.sim.world().hosts[peer].run != run;
        if way.answer_lost || died {
            if !died {
                tokio::time::sleep(DEADLINE).await;
            }
            return Err(PortError::OutcomeUnknown("no answer".to_owned()));
        }
        tokio::time::sleep(Duration::from_millis(way.back_ms)).await;
        self.seat.cross().await;
        reply.and_then(|reply| as_sent(&reply))
    }
}

/// An answer after it was encoded as JSON and decoded again, as between hosts.
fn as_sent<T: Serialize + DeserializeOwned>(answer: &T) -> PortResult<T> {
    serde_json::to_vec(answer)
        .and_then(|body| serde_json::from_slice(&body))
        .map_err(|error| PortError::OutcomeUnknown(format!("its answer is not understood: {error}")))
}

/// Refuses the status of another node or cluster, as an agent does.
fn expected(node: &NodeName, answer: PortResult<NodeStatus>) -> PortResult<NodeStatus> {
    let status = answer?;
    if is_expected(node, &status) {
        return Ok(status);
    }
    Err(PortError::Permanent(format!(
        "{node} answers as {} of cluster {}",
        status.node, status.cluster
    )))
}

#[async_trait]
impl Peers for Others {
    async fn status(&self, node: &NodeName) -> PortResult<NodeStatus> {
        let ask = |agent: Agent| async move { Ok(agent.status()) };
        let status = self.call(node, ask).await;
        match expected(node, self.lie(node, status, liar::status)) {
            Err(PortError::OutcomeUnknown(why)) => Err(PortError::Retryable(why)),
            other => other,
        }
    }

    async fn look_again(&self, node: &NodeName) -> PortResult<NodeStatus> {
        let ask = |agent: Agent| async move { agent.fresh_status().await };
        let status = self.call(node, ask).await;
        expected(node, self.lie(node, status, liar::status))
    }

    fn last_seen(&self) -> BTreeMap<NodeName, Fact<NodeStatus>> {
        self.board.all()
    }

    /// A simulated agent does not wait for the first answers of the others.
    fn asked(&self) -> bool {
        true
    }

    async fn changed(&self) {
        self.board.changed().await;
    }

    async fn enquire(&self, node: &NodeName, message: &Enquire) -> PortResult<EnquireAnswer> {
        let reply = self
            .call(node, |agent| {
                let message = message.clone();
                async move { agent.enquire(message).await }
            })
            .await;
        self.lie(node, reply, |world, host, answer| {
            liar::enquired(world, host, message, answer)
        })
    }

    async fn prepare(&self, node: &NodeName, message: &Prepare) -> PortResult<PrepareReply> {
        let reply = self
            .call(node, |agent| {
                let message = message.clone();
                async move { agent.prepare(message).await }
            })
            .await;
        self.lie(node, reply, |world, host, reply| {
            liar::prepared(world, host, message, reply)
        })
    }

    async fn accept(&self, node: &NodeName, message: &Accept) -> PortResult<AcceptReply> {
        let reply = self
            .call(node, |agent| {
                let message = message.clone();
                async move { agent.accept(message).await }
            })
            .await;
        self.lie(node, reply, |world, host, reply| {
            liar::accepted(world, host, message, reply)
        })
    }

    async fn learn(&self, node: &NodeName, message: &Learn) -> PortResult<()> {
        self.call(node, |agent| {
            let message = message.clone();
            async move { agent.learn(message).await }
        })
        .await
    }

    async fn submit(&self, node: &NodeName, request: &OperatorRequest) -> PortResult<RequestView> {
        let view = self
            .call(node, |agent| {
                let request = request.clone();
                async move { agent.take_over(request) }
            })
            .await;
        self.lie(node, view, liar::reported)
    }

    async fn request(&self, node: &NodeName, id: u64) -> PortResult<RequestView> {
        let unknown = PortError::Permanent(format!("{node} does not know the request any more"));
        let view = self
            .call(node, |agent| async move { Ok(agent.request(id)) })
            .await?;
        self.lie(node, view.ok_or(unknown), liar::reported)
    }
}
