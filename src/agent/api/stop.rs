//! Answers whether a node may be stopped now, from fresh facts.

use crate::agent::Agent;
use crate::agent::api::fresh;
use crate::model::{NodeName, StopVerdict};
use crate::plan;
use crate::ports::{PortError, PortResult};

/// Whether `node` (by default this one) may be stopped now.
///
/// # Errors
/// Permanent for a node that is not configured; retryable when this agent does not look in time.
pub(crate) async fn ok_to_stop(agent: &Agent, node: Option<NodeName>) -> PortResult<StopVerdict> {
    let node = node.unwrap_or_else(|| agent.spec.node.clone());
    if !agent.spec.nodes.contains_key(&node) {
        let nodes: Vec<&str> = agent.spec.nodes.keys().map(NodeName::as_str).collect();
        return Err(PortError::Permanent(format!(
            "{node} is not a node of this cluster; its nodes are: {}",
            nodes.join(", ")
        )));
    }
    let seen = fresh::observation(agent).await?;
    Ok(plan::ok_to_stop(&seen, &node))
}
