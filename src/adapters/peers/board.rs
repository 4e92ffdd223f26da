//! What each peer last said.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

use tokio::sync::Notify;

use crate::model::{Fact, NodeName, NodeStatus};

/// What each peer last said, and a bell for when that changes.
pub(super) struct Board {
    seen: Mutex<BTreeMap<NodeName, Fact<NodeStatus>>>,
    bell: Notify,
}

impl Board {
    pub(super) fn new(peers: impl Iterator<Item = NodeName>) -> Self {
        Self {
            seen: Mutex::new(
                peers
                    .map(|node| (node, Fact::Unreachable("not asked yet".to_owned())))
                    .collect(),
            ),
            bell: Notify::new(),
        }
    }

    pub(super) fn all(&self) -> BTreeMap<NodeName, Fact<NodeStatus>> {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// `news` tells whether a status differs from the last one in what a planner could act on; that a peer
    /// appears, disappears, or cannot be asked for another reason always is news.
    pub(super) fn set(&self, node: &NodeName, fact: Fact<NodeStatus>, news: bool) {
        let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        let news = news
            || match (seen.get(node), &fact) {
                (Some(Fact::Known(_)), Fact::Known(_)) => false,
                (Some(old), new) => old != new,
                (None, _) => true,
            };
        seen.insert(node.clone(), fact);
        drop(seen);
        if news {
            // One permit is kept while nobody waits: nothing between two calls of `changed` is missed.
            self.bell.notify_one();
        }
    }

    pub(super) async fn changed(&self) {
        self.bell.notified().await;
    }
}
