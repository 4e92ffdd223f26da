//! What the agent adds to an operator's request.

use crate::agent::Agent;
use crate::model::{ElectorRecord, Epoch, OperatorRequest};
use crate::ports::AgentHandle;

impl Agent {
    /// The epoch that an order to restore replaces when it is given now; `None` while it cannot be known. A
    /// node with a new memory does not know it before it has a vote. A node that knows no epoch does not know
    /// it before it has read the shared store. An epoch that was only reported does not count if another one
    /// is confirmed, because it may never open.
    pub(crate) fn asked_above(&self, elector: &ElectorRecord) -> Option<Epoch> {
        if !elector.eligible {
            return None;
        }
        if let Some(chosen) = &elector.chosen {
            return Some(chosen.epoch);
        }
        let stored = self.shared.with(|inner| {
            let view = inner.store.view()?;
            Some(view.genesis.as_ref().map(|genesis| genesis.epoch))
        });
        match stored {
            None if self.spec.store_shared && self.ports.store.is_some() => None,
            stored => Some(elector.newest_epoch.max(stored.flatten().unwrap_or_default())),
        }
    }

    /// Adds to a request the state of the cluster and the time at which it is made.
    pub(crate) fn fill_in(&self, request: &mut OperatorRequest) {
        if let OperatorRequest::Restore { above, asked, .. } = request {
            *above = self.asked_above(&self.shared.elector());
            *asked = self.ports.clock.now();
        }
        if let OperatorRequest::RebootLock { asked, .. } = request {
            *asked = self.ports.clock.steady();
        }
        if let OperatorRequest::MoveLeader { from, id, asked, .. } = request {
            *from = self.status().etcd.known().and_then(|etcd| etcd.leader);
            *id = self.ports.clock.random();
            *asked = self.ports.clock.steady();
        }
    }

    /// True if what the request asks for is so already, as far as this node knows.
    pub(crate) fn is_so(&self, request: &OperatorRequest) -> bool {
        request.is_already_done_on(&self.status())
    }
}
