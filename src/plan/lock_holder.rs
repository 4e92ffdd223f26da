//! Who holds the reboot lock, as far as this node knows.

use super::context::Context;
use crate::model::{Fact, Grant, NodeName, Observation, RebootHold, RebootLock};

/// A node other than `except` that holds the lock, confirmed or not, as far as this node knows.
pub(super) fn holder<'a>(
    cx: &Context<'a>,
    except: Option<&NodeName>,
) -> Option<(&'a NodeName, &'a RebootHold)> {
    if mutant!(RebootsTogether) {
        return None;
    }
    let mut nodes = cx.spec.nodes.keys().filter(|node| Some(*node) != except);
    nodes.find_map(|node| Some((node, hold_of(cx, node)?)))
}

/// The hold of this node: its own report, or, while it is silent, the newest that any agent has recorded.
pub(super) fn hold_of<'a>(cx: &Context<'a>, node: &NodeName) -> Option<&'a RebootHold> {
    let directives = &cx.obs.me.steering.directives;
    if directives.out.contains(node) {
        return None;
    }
    let released = directives.released.get(node).copied().unwrap_or_default();
    let lock = match cx.status_of(node) {
        Some(status) => Some(&status.steering.reboot_locks.own),
        None => newest(cx.obs, node),
    };
    lock.filter(|lock| lock.version > released)?.hold.as_ref()
}

/// The newest version of this node's lock that any agent reports, and its hold.
pub fn lock_of<'a>(observation: &'a Observation, node: &NodeName) -> (u64, Option<&'a RebootHold>) {
    newest(observation, node).map_or((0, None), |lock| (lock.version, lock.hold.as_ref()))
}

/// The newest version of this node's lock. What a peer reports of a third node may be a lie (rule 10): a
/// version that leaves no room for later ones does not count.
fn newest<'a>(observation: &'a Observation, node: &NodeName) -> Option<&'a RebootLock> {
    let me = std::iter::once(&observation.me);
    let peers = observation.peers.values().filter_map(Fact::known);
    let locks = me.chain(peers).filter_map(|status| {
        let locks = &status.steering.reboot_locks;
        if status.node == *node {
            return Some(&locks.own);
        }
        let recorded = locks.others.get(node).map(|recorded| &recorded.lock);
        recorded.filter(|lock| status.node == observation.me.node || lock.leaves_room())
    });
    locks.max_by_key(|lock| lock.version)
}

/// True if the node of this grant needs it no longer: the lock is confirmed, or the node has given up.
pub(super) fn is_taken(cx: &Context<'_>, grant: &Grant) -> bool {
    match (cx.status_of(&grant.node), hold_of(cx, &grant.node)) {
        (_, Some(hold)) => hold.confirmed,
        (Some(status), None) => !status.steering.wants_reboot_lock,
        (None, None) => false,
    }
}
