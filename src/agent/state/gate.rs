//! The state that the gate decides on while no agent answers.

use crate::model::{ElectorRecord, Epoch, GateState};
use crate::ports::{NodeState, PortResult};

/// Updates the gate's state. A node whose agent was just installed, with an etcd that may be of a replaced
/// epoch, gets a gate that blocks every start until there is an assignment.
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
        // With an assignment but no readable state, the gate lets no start through without its agent's
        // answer.
        Ok(None) | Err(_) => Ok(()),
    }
}
