//! What the coordinator sees, as far as another agent sees it.

use crate::model::{EtcdStatus, Fact, MemberId, Observation};

/// The observation with the coordinator in the place of this node. Unchanged if no coordinator is seen.
pub(super) fn as_coordinator(observation: &Observation) -> Observation {
    let mut view = observation.clone();
    let leader = leader(&view);
    let leads = view.peers.iter().find_map(|(node, seen)| {
        let status = seen.known()?;
        let its = status.etcd.known().map(|etcd| etcd.member_id);
        (leader.is_some() && its == leader).then(|| (node.clone(), status.clone()))
    });
    if let Some((node, mut status)) = leads {
        // The preview uses the orders of this node's observation, not those that the coordinator has received
        // so far.
        status.steering.directives = view.me.steering.directives.clone();
        let me = std::mem::replace(&mut view.me, status);
        view.peers.remove(&node);
        view.peers.insert(me.node.clone(), Fact::Known(me));
        view.spec.node = node;
        view.assignment = None;
    }
    view
}

/// The raft leader that this node's etcd names. If it names none, the member that leads according to its own
/// node, in the newest term.
fn leader(seen: &Observation) -> Option<MemberId> {
    let own = seen.me.etcd.known().and_then(|etcd| etcd.leader);
    let cluster = seen.me.genesis.as_ref().map(|genesis| genesis.cluster_id);
    let leads = |etcd: &&EtcdStatus| {
        etcd.leader == Some(etcd.member_id) && !etcd.is_learner && Some(etcd.cluster_id) == cluster
    };
    own.or_else(|| {
        let peers = seen.peers.values().filter_map(Fact::known);
        let etcds = peers.filter_map(|status| status.etcd.known());
        let newest = etcds.filter(leads).max_by_key(|etcd| etcd.term);
        newest.map(|etcd| etcd.member_id)
    })
}
