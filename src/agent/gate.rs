//! What the gate may decide on when no agent answers.

use crate::agent::Agent;
use crate::model::GateState;
use crate::ports::PortResult;

/// Stores what the gate decides on while no agent answers.
pub(super) fn save_gate(agent: &Agent) -> PortResult<()> {
    let Some(assigned) = agent.ports.state.assignment()? else {
        return Ok(());
    };
    let elector = agent.shared.elector();
    let genesis_voters = elector.acted_on().map_or(0, |g| g.members.len());
    let voters = agent.shared.with(|inner| {
        inner
            .last
            .status
            .as_ref()
            .and_then(|s| s.members.known())
            .map_or(0, |list| list.voters().count())
    });
    agent.ports.state.save_gate(&GateState {
        started_once: assigned.had_data(),
        epoch: assigned.epoch,
        newest_epoch: if mutant!(GateUnaware) {
            assigned.epoch
        } else {
            elector.newest_epoch
        },
        voted: elector.voted(),
        cluster_id: assigned.cluster_id,
        member_id: assigned.member_id,
        generation: assigned.generation,
        data_dir: assigned.data_dir,
        voters: if voters == 0 { genesis_voters } else { voters },
        electors: agent.spec.nodes.len(),
    })
}
