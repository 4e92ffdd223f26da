//! Other nodes' agents.

use std::collections::BTreeMap;

use async_trait::async_trait;

use crate::model::{
    Accept, AcceptReply, Enquire, EnquireAnswer, Fact, Learn, NodeName, NodeStatus, OperatorRequest, Prepare,
    PrepareReply, RequestView,
};

use super::{PortError, PortResult};

/// Other nodes' agents.
#[async_trait]
pub trait Peers: Send + Sync {
    /// A fresh answer, not a cached one: what the peer's agent saw in its last look, up to five seconds ago.
    async fn status(&self, node: &NodeName) -> PortResult<NodeStatus>;
    /// The status from a look that the peer's agent begins after this call.
    ///
    /// # Errors
    /// When the peer gives no such answer within a few seconds. An agent of an older version never does.
    async fn look_again(&self, node: &NodeName) -> PortResult<NodeStatus>;
    /// The last status of each peer. A long poll per peer keeps it up to date; it is `Unreachable` as soon as
    /// that poll fails.
    fn last_seen(&self) -> BTreeMap<NodeName, Fact<NodeStatus>>;
    /// By how many milliseconds the clock of each peer in `last_seen` was ahead of this node's when its
    /// answer arrived. The transfer time makes a peer's clock look up to two seconds behind. Empty if the
    /// transport does not report it.
    fn clocks(&self) -> BTreeMap<NodeName, i64> {
        BTreeMap::new()
    }
    /// Whether each peer was asked at least once, with or without success.
    fn asked(&self) -> bool;
    /// Returns when something in `last_seen` has changed since the last call.
    async fn changed(&self);
    /// Asks an elector for all it knows.
    async fn enquire(&self, node: &NodeName, message: &Enquire) -> PortResult<EnquireAnswer>;
    /// Phase 1.
    async fn prepare(&self, node: &NodeName, message: &Prepare) -> PortResult<PrepareReply>;
    /// Phase 2.
    async fn accept(&self, node: &NodeName, message: &Accept) -> PortResult<AcceptReply>;
    /// Sends a chosen genesis.
    async fn learn(&self, node: &NodeName, message: &Learn) -> PortResult<()>;
    /// Forwards an operator's request to the agent of another node.
    async fn submit(&self, node: &NodeName, _request: &OperatorRequest) -> PortResult<RequestView> {
        Err(PortError::Permanent(format!(
            "{node} takes no requests from here"
        )))
    }
    /// The state of such a request on that node; a permanent error if that node does not know it (any more).
    async fn request(&self, node: &NodeName, _id: u64) -> PortResult<RequestView> {
        Err(PortError::Permanent(format!(
            "{node} takes no requests from here"
        )))
    }
}
