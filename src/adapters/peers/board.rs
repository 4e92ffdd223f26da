//! The last status of each peer.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Mutex, PoisonError};

use tokio::sync::Notify;

use crate::model::{Fact, NodeName, NodeStatus, UnixMs};

/// The last status of each peer, the offset of its clock at that time, and a notification for changes.
pub(super) struct Board {
    seen: Mutex<BTreeMap<NodeName, Fact<NodeStatus>>>,
    /// By how many milliseconds the clock of each known peer was ahead of this node's.
    clocks: Mutex<BTreeMap<NodeName, i64>>,
    bell: Notify,
    /// Peers that have neither answered nor failed yet.
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

    /// Whether each peer was asked at least once.
    pub(super) fn asked(&self) -> bool {
        self.unasked
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .is_empty()
    }

    /// Records an answer that was received at `now`.
    pub(super) fn received(&self, node: &NodeName, status: NodeStatus, now: UnixMs, news: bool) {
        let ahead = i128::from(status.now.0) - i128::from(now.0);
        let ahead = i64::try_from(ahead).unwrap_or(if ahead < 0 { i64::MIN } else { i64::MAX });
        self.clocks
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .insert(node.clone(), ahead);
        self.set(node, Fact::Known(status), news);
    }

    /// Records that a peer cannot be asked, and drops the offset of its clock.
    pub(super) fn lost(&self, node: &NodeName, why: String) {
        self.clocks
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .remove(node);
        self.set(node, Fact::Unreachable(why), false);
    }

    /// `news` says whether a status differs from the last one in a way that the planner could act on. It is
    /// always news if a peer appears, disappears, or cannot be asked for another reason than before.
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
            // `Notify` keeps a permit while nobody waits, so a change between two calls of `changed` is not
            // missed.
            self.bell.notify_one();
        }
    }

    pub(super) async fn changed(&self) {
        self.bell.notified().await;
    }
}
