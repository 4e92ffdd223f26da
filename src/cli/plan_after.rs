//! `etcd-agent plan --after`: what would follow from a fault.

use super::decision::decided;
use super::exit::{Exit, Failure};
use super::ok_to_stop;
use crate::model::{Hypothesis, HypothesisView, NodeName, Observation};

/// Assumes the fault.
///
/// # Errors
/// Usage, if the observation has no such node.
pub(super) fn suppose(observation: &Observation, after: &Hypothesis) -> Result<HypothesisView, Failure> {
    let nodes = &observation.spec.nodes;
    if !nodes.contains_key(&after.node) {
        let all: Vec<&str> = nodes.keys().map(NodeName::as_str).collect();
        return Err(Failure::new(
            Exit::Usage,
            format!(
                "--after {after:?}: {} is not a node of this cluster; its nodes are: {}",
                after.node,
                all.join(", "),
                after = after.to_string()
            ),
        ));
    }
    Ok(crate::plan::after(observation, after))
}

/// The voters that are left, and what the coordinator would decide.
pub(super) fn render(view: &HypothesisView) -> String {
    let left = view.left.as_ref().map_or_else(
        || "the members are not known here, so nothing is known about quorum.\n".to_owned(),
        ok_to_stop::further,
    );
    let who = match &view.coordinator {
        Some(node) => format!("What the coordinator, then {node}, would decide:"),
        None => "There would be no coordinator.".to_owned(),
    };
    let decided = match &view.coordinator {
        Some(_) => decided(&view.decision),
        None => String::new(),
    };
    format!("After {:?}: {left}\n{who}\n{decided}", view.after.to_string())
}
