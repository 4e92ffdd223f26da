//! The ports that the loop works through, bound to adapters by `agent::build` or to a simulator.

use std::sync::Arc;

use crate::ports::{Clock, Etcd, NodeState, ObjectStore, Peers, ServiceManager};

/// Every port of one agent.
#[derive(Clone)]
pub struct Ports {
    /// systemd.
    pub service: Arc<dyn ServiceManager>,
    /// The local etcd.
    pub etcd: Arc<dyn Etcd>,
    /// Other agents.
    pub peers: Arc<dyn Peers>,
    /// The store, when one is configured.
    pub store: Option<Arc<dyn ObjectStore>>,
    /// What survives a restart.
    pub state: Arc<dyn NodeState>,
    /// Time and randomness.
    pub clock: Arc<dyn Clock>,
}
