//! Stores a new assignment of this node's etcd, and takes over a register of orders.

use crate::agent::Agent;
use crate::agent::execute::fence::stale;
use crate::agent::gate::save_gate;
use crate::model::{Assignment, Directives, FirstStart, Generation};
use crate::ports::PortResult;

/// Takes over a register that is still newer than the own one, or that orders this node out.
pub(crate) fn take_directives(agent: &Agent, wanted: &Directives) -> PortResult<()> {
    let takes_over = |mine: &Directives| wanted.is_newer_than(mine) || wanted.out.contains(&agent.spec.node);
    let next = |mine: &Directives| (takes_over(mine) && wanted != mine).then(|| wanted.clone());
    let (taken, changed) = agent.shared.direct(agent.ports.state.as_ref(), next)?;
    if changed {
        tracing::info!("operators' orders were taken over from a peer: {taken}");
    }
    Ok(())
}

pub(crate) fn assign(agent: &Agent, wanted: &Assignment) -> PortResult<()> {
    let current = agent
        .ports
        .state
        .assignment()?
        .map(|a| a.generation)
        .unwrap_or_default();
    if wanted.generation <= current {
        return Err(stale(format_args!(
            "generation {} of the assignment exists",
            wanted.generation
        )));
    }
    if current == Generation::default() || wanted.first_start == FirstStart::Held {
        // The generations begin anew with the agent's memory, and the file of this boot may be of a former one. And a
        // gate that reads the files of the former assignment must not let a member start that is held.
        agent.ports.state.close_gate()?;
    }
    agent.ports.state.save_assignment(wanted)?;
    tracing::info!(
        etcd_agent.epoch = wanted.epoch.0,
        etcd_agent.member_id = %wanted.member_id,
        "assigned member {} of epoch {} (generation {}, initial-cluster-state {})",
        wanted.member_id,
        wanted.epoch,
        wanted.generation,
        wanted.initial_state.as_str()
    );
    save_gate(agent)
}

/// Records that the first start of this member is allowed; false if that is recorded already. From then on the
/// member may have started without the agent's knowledge.
pub(crate) fn allow_first_start(agent: &Agent) -> PortResult<bool> {
    match agent.ports.state.assignment()? {
        Some(assigned) if assigned.first_start == FirstStart::Held && !mutant!(FirstStartUnmarked) => {
            agent.ports.state.save_assignment(&Assignment {
                first_start: FirstStart::Allowed,
                ..assigned
            })?;
            Ok(true)
        }
        _ => Ok(false),
    }
}
