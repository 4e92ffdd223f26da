//! What each peer last said.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Mutex, PoisonError};

use tokio::sync::Notify;

use crate::model::{Fact, NodeName, NodeStatus, UnixMs};

/// What each peer last said, how its clock went then, and a bell for when what it says changes.
pub(super) struct Board {
    seen: Mutex<BTreeMap<NodeName, Fact<NodeStatus>>>,
    /// By how many milliseconds each peer that is known was ahead.
    clocks: Mutex<BTreeMap<NodeName, i64>>,
    bell: Notify,
    /// Peers that neither answered nor failed to yet.
    unasked: Mutex<BTreeSet<NodeName>>,
}

impl Board {
    pub(super) fn new(peers: impl Iterator<Item = NodeName>) -> Self {
        let peers: BTreeSet<NodeName> = peers.collect();
        Self {
            seen: Mutex::new(
                peers
                    .iter()
                    .map(|node| (node.clone(), Fact::Unreachable("not asked yet".to_owned())))
                    .collect(),
            ),
            unasked: Mutex::new(peers),
            clocks: Mutex::default(),
            bell: Notify::new(),
        }
    }

    pub(super) fn all(&self) -> BTreeMap<NodeName, Fact<NodeStatus>> {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub(super) fn clocks(&self) -> BTreeMap<NodeName, i64> {
        self.clocks.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Whether each peer was asked once at least.
    pub(super) fn asked(&self) -> bool {
        self.unasked
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .is_empty()
    }

    /// Takes over an answer that came at `now`.
    pub(super) fn heard(&self, node: &NodeName, status: NodeStatus, now: UnixMs, news: bool) {
        let ahead = i128::from(status.now.0) - i128::from(now.0);
        let ahead = i64::try_from(ahead).unwrap_or(if ahead < 0 { i64::MIN } else { i64::MAX });
        self.clocks
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .insert(node.clone(), ahead);
        self.set(node, Fact::Known(status), news);
    }

    /// A peer that cannot be asked tells no time.
    pub(super) fn lost(&self, node: &NodeName, why: String) {
        self.clocks
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .remove(node);
        self.set(node, Fact::Unreachable(why), false);
    }

    /// `news` tells whether a status differs from the last one in what a planner could act on; that a peer
    /// appears, disappears, or cannot be asked for another reason always is news.
    fn set(&self, node: &NodeName, fact: Fact<NodeStatus>, news: bool) {
        let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        let news = news
            || match (seen.get(node), &fact) {
                (Some(Fact::Known(_)), Fact::Known(_)) => false,
                (Some(old), new) => old != new,
                (None, _) => true,
            };
        seen.insert(node.clone(), fact);
        drop(seen);
        let first = self
            .unasked
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .remove(node);
        if news || first {
            // A permit is kept while there is no waiter, so that nothing between two calls of `changed` is missed.
            self.bell.notify_one();
        }
    }

    pub(super) async fn changed(&self) {
        self.bell.notified().await;
    }
}
