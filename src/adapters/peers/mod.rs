//! Talks to other nodes' agents over HTTP/1.1: one persistent connection to each for the long poll, others
//! for calls.

mod board;
mod call;
mod connection;
mod silence;
mod watch;

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use hyper::Method;
use serde::Serialize;
use serde::de::DeserializeOwned;
use tokio::task::JoinSet;

use crate::adapters::tls::Tls;
use crate::model::{
    Accept, AcceptReply, ClusterName, Enquire, EnquireAnswer, Fact, Learn, NodeName, NodeStatus,
    OperatorRequest, Prepare, PrepareReply, RequestView,
};
use crate::ports::{Peers, PortError, PortResult};

use board::Board;
use call::Caller;
use connection::Target;

/// The peers to ask, and this node's own identity.
pub struct PeersConfig {
    /// This node; it is not asked.
    pub me: NodeName,
    /// The cluster that every peer must belong to.
    pub cluster: ClusterName,
    /// All nodes and their addresses (`Spec::nodes`).
    pub nodes: BTreeMap<NodeName, String>,
    /// The port of their agents (`api.port`).
    pub port: u16,
    /// TLS; `None` is plain HTTP, which the configuration must request explicitly.
    pub tls: Option<Arc<Tls>>,
}

/// The peers of this node. Dropping the value ends the watchers and closes the connections.
pub struct HttpPeers {
    callers: BTreeMap<NodeName, Caller>,
    board: Arc<Board>,
    _watchers: JoinSet<()>,
}

impl HttpPeers {
    /// Starts to watch all peers. Must be called within a tokio runtime.
    pub fn start(config: &PeersConfig) -> Self {
        let mut callers = BTreeMap::new();
        let mut watchers = JoinSet::new();
        let targets: Vec<Arc<Target>> = config
            .nodes
            .iter()
            .filter(|(node, _)| **node != config.me)
            .map(|(node, address)| {
                Arc::new(Target {
                    node: node.clone(),
                    cluster: config.cluster.clone(),
                    address: address.clone(),
                    port: config.port,
                    tls: config.tls.clone(),
                })
            })
            .collect();
        let board = Arc::new(Board::new(targets.iter().map(|target| target.node.clone())));
        for target in targets {
            watchers.spawn(watch::watch(target.clone(), board.clone()));
            callers.insert(target.node.clone(), Caller::new(target));
        }
        Self {
            callers,
            board,
            _watchers: watchers,
        }
    }

    fn caller(&self, node: &NodeName) -> PortResult<&Caller> {
        self.callers
            .get(node)
            .ok_or_else(|| PortError::Permanent(format!("{node} is not a peer of this node (cluster.nodes)")))
    }

    async fn read_status(&self, node: &NodeName, path: &str, deadline: Duration) -> PortResult<NodeStatus> {
        let caller = self.caller(node)?;
        match caller
            .call_within::<watch::Versioned>(deadline, Method::GET, path, Vec::new())
            .await
        {
            Ok(answer) => caller
                .target()
                .expected(answer.status)
                .map_err(PortError::Permanent),
            // A read changes nothing, so a retry is always safe.
            Err(PortError::OutcomeUnknown(why)) => Err(PortError::Retryable(why)),
            Err(error) => Err(error),
        }
    }

    async fn post<M: Serialize + Sync, R: DeserializeOwned>(
        &self,
        node: &NodeName,
        step: &str,
        message: &M,
    ) -> PortResult<R> {
        let body = serde_json::to_vec(message)
            .map_err(|error| PortError::Permanent(format!("cannot write the message {step}: {error}")))?;
        self.caller(node)?
            .call(Method::POST, &format!("/v1/genesis/{step}"), body)
            .await
    }
}

#[async_trait]
impl Peers for HttpPeers {
    async fn status(&self, node: &NodeName) -> PortResult<NodeStatus> {
        self.read_status(node, "/v1/status", call::DEADLINE).await
    }

    async fn look_again(&self, node: &NodeName) -> PortResult<NodeStatus> {
        self.read_status(node, "/v1/status?fresh=true", call::LOOK_DEADLINE)
            .await
    }

    fn last_seen(&self) -> BTreeMap<NodeName, Fact<NodeStatus>> {
        self.board.all()
    }

    fn clocks(&self) -> BTreeMap<NodeName, i64> {
        self.board.clocks()
    }

    fn asked(&self) -> bool {
        self.board.asked()
    }

    async fn changed(&self) {
        self.board.changed().await;
    }

    async fn enquire(&self, node: &NodeName, message: &Enquire) -> PortResult<EnquireAnswer> {
        let answer = self.post(node, "enquire", message).await?;
        match &answer {
            EnquireAnswer::Reply(reply) if reply.from != *node => Err(PortError::Permanent(format!(
                "agent of {node} answers as {}",
                reply.from
            ))),
            _ => Ok(answer),
        }
    }

    async fn prepare(&self, node: &NodeName, message: &Prepare) -> PortResult<PrepareReply> {
        self.post(node, "prepare", message).await
    }

    async fn accept(&self, node: &NodeName, message: &Accept) -> PortResult<AcceptReply> {
        self.post(node, "accept", message).await
    }

    async fn learn(&self, node: &NodeName, message: &Learn) -> PortResult<()> {
        self.post(node, "learn", message).await
    }

    async fn submit(&self, node: &NodeName, request: &OperatorRequest) -> PortResult<RequestView> {
        let body = serde_json::to_vec(request)
            .map_err(|error| PortError::Permanent(format!("cannot write the request: {error}")))?;
        self.caller(node)?.call(Method::POST, "/v1/requests", body).await
    }

    async fn request(&self, node: &NodeName, id: u64) -> PortResult<RequestView> {
        self.caller(node)?
            .call(Method::GET, &format!("/v1/requests/{id}"), Vec::new())
            .await
    }
}
