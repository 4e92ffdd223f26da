//! What the gate may decide on when no agent answers.

use crate::agent::Agent;
use crate::model::{ElectorRecord, Epoch, GateState};
use crate::ports::{NodeState, PortResult};

/// Stores what the gate decides on while no agent answers.
pub(crate) fn save_gate(agent: &Agent) -> PortResult<()> {
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

/// Updates the gate's state. A node whose agent was just installed, with an etcd that may be of a replaced epoch, gets a gate
/// that blocks every start until there is an assignment.
pub(crate) fn update_gate(state: &dyn NodeState, changed: &ElectorRecord) -> PortResult<()> {
    let newest_epoch = changed.newest_epoch;
    match state.gate() {
        Ok(Some(gate)) => state.save_gate(&GateState {
            newest_epoch: if mutant!(GateUnaware) {
                gate.newest_epoch
            } else {
                newest_epoch
            },
            voted: changed.voted(),
            ..gate
        }),
        Ok(None) if newest_epoch > Epoch(1) && state.assignment()?.is_none() => {
            state.save_gate(&GateState::of_nobody(newest_epoch))
        }
        // A gate with an assignment, but without readable state, lets nothing through without its agent's answer.
        Ok(None) | Err(_) => Ok(()),
    }
}
