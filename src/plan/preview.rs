//! What the coordinator would decide, given what another agent sees. It serves dry runs, which a person may
//! request at any node.

use super::context::Context;
use super::coordinate;
use super::status_line::status_line;
use crate::model::{Decision, Fact, Memory, Observation, SteadyMs};

/// Decides as the coordinator would, as far as this agent sees what the coordinator sees. If this agent sees
/// no coordinator, it decides as this node.
pub fn preview(observation: &Observation) -> Decision {
    let view = as_coordinator(observation);
    let term = view.me.etcd.known().map(|etcd| etcd.term).unwrap_or_default();
    let memory = Memory {
        // The coordinator has led for a while, so no cooldown applies.
        coordinates: Some((term, SteadyMs(0))),
        ..Memory::default()
    };
    let mut cx = Context::new(&view, &memory);
    let action = coordinate(&mut cx);
    let line = status_line(&cx, action.as_ref());
    cx.into_decision(action, line)
}

/// The observation with the coordinator in the place of this node.
fn as_coordinator(observation: &Observation) -> Observation {
    let mut view = observation.clone();
    let leader = view.me.etcd.known().and_then(|etcd| etcd.leader);
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
