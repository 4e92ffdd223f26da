//! What the coordinator would decide, given what another agent sees. It serves dry runs, which a person may
//! request at any node.

use super::context::Context;
use super::coordinate;
use super::coordinator_view::as_coordinator;
use super::status_line::status_line;
use crate::model::{Decision, Memory, Observation, SteadyMs};

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
