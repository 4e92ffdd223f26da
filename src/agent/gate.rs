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
    let before = agent.ports.state.gate().ok().flatten();
    let seen = agent.shared.with(|inner| {
        inner
            .last
            .status()
            .and_then(|s| s.members.known())
            .map_or(0, |list| list.voters().count())
    });
    // Members may have been removed since the genesis. An agent that has not seen the member list since its
    // own start keeps the number that it stored before.
    let stored = before
        .filter(|gate| gate.cluster_id == assigned.cluster_id && !mutant!(VotersForgotten))
        .map_or(0, |gate| gate.voters);
    let named = elector.acted_on().map_or(0, |g| g.members.len());
    let voters = [seen, stored, named].into_iter().find(|voters| *voters > 0);
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
        initial: Some(assigned.initial_settings()),
        data_dir: assigned.data_dir,
        wal_dir: assigned.wal_dir,
        voters: voters.unwrap_or(0),
        electors: agent.spec.nodes.len(),
    })
}
