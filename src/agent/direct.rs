//! Takes an operator's order for the whole cluster, or says what would follow from it.

use crate::model::{DirectiveOrder, DirectiveView, Directives, Memory};
use crate::plan;
use crate::ports::{PortError, PortResult};

use super::Agent;

/// Takes the order; the register is on disk before this returns.
///
/// # Errors
/// Retryable before the first look around; permanent when the register cannot be written.
pub(super) fn direct(agent: &Agent, order: &DirectiveOrder) -> PortResult<DirectiveView> {
    let seen = agent.shared.with(|inner| inner.observation.clone());
    let mut seen = seen.ok_or_else(|| {
        PortError::Retryable("the agent has just started and has not looked around yet, try again".to_owned())
    })?;
    let now = agent.ports.clock.now();
    let after = |mine: &Directives| mine.after(&order.change, &agent.spec.node, now);
    let steps = plan::steps(&order.change);
    if order.dry_run {
        let mine = agent.shared.directives();
        let directives = after(&mine).unwrap_or(mine);
        seen.me.steering.directives = directives.clone();
        let decision = plan::plan(&seen, &Memory::default(), &agent.spec);
        return Ok(DirectiveView {
            directives,
            changed: false,
            steps,
            decision: Some(decision),
        });
    }
    let (directives, changed) = agent.shared.direct(agent.ports.state.as_ref(), after)?;
    if changed {
        tracing::warn!("an operator ordered: {}", steps.join("; "));
    }
    Ok(DirectiveView {
        directives,
        changed,
        steps,
        decision: None,
    })
}
