//! What the coordinator would decide, given what another agent sees. It serves dry runs, which a person may
//! request at any node.

use super::context::Context;
use super::coordinate;
use super::status_line::status_line;
use crate::model::{Decision, EtcdStatus, Fact, MemberId, Memory, Observation, SteadyMs};

/// Decides as the coordinator would, as far as this agent sees what the coordinator sees. If this agent sees
/// no coordinator, it decides as this node.
pub fn preview(observation: &Observation) -> Decision {
    let view = as_coordinator(observation);
    decide(Context::new(&view, &settled(&view)))
}

/// What the coordinator decides for the cluster.
pub(super) fn decide(mut cx: Context<'_>) -> Decision {
    let action = coordinate(&mut cx);
    let line = status_line(&cx, action.as_ref());
    cx.into_decision(action, line)
}

/// The memory of a coordinator that has led for a while, so no cooldown applies.
pub(super) fn settled(view: &Observation) -> Memory {
    let term = view.me.etcd.known().map(|etcd| etcd.term).unwrap_or_default();
    Memory {
        coordinates: Some((term, SteadyMs(0))),
        ..Memory::default()
    }
}

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
