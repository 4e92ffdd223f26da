//! The last tick of the loop, as the servers and the jobs read it.

use crate::model::{DataState, Decision, Fact, NodeStatus, Observation, SteadyMs};

/// The last tick of the loop. Nothing before the first one has ended.
#[derive(Debug, Default)]
pub(crate) struct LastTick {
    status: Option<NodeStatus>,
    /// The part of `status` that a peer's planner could act on.
    material: Option<NodeStatus>,
    observation: Option<Observation>,
    decision: Option<Decision>,
}

/// What a tick changed.
pub(crate) struct Changes {
    /// Something on which a peer's planner could act.
    pub(crate) material: bool,
    /// The number of voters.
    pub(crate) voters: bool,
}

impl LastTick {
    /// Takes the place of the last tick. `material` is the part of `status` that a peer's planner could act on.
    pub(crate) fn replace(
        &mut self,
        status: NodeStatus,
        material: NodeStatus,
        observation: Observation,
        decision: Decision,
    ) -> Changes {
        let voters = |status: &NodeStatus| status.members.known().map(|list| list.voters().count());
        let changes = Changes {
            material: self.material.as_ref() != Some(&material),
            voters: self
                .status
                .as_ref()
                .is_none_or(|old| voters(old) != voters(&status)),
        };
        *self = Self {
            status: Some(status),
            material: Some(material),
            observation: Some(observation),
            decision: Some(decision),
        };
        changes
    }

    /// This node's status as the loop reported it last.
    pub(crate) fn status(&self) -> Option<&NodeStatus> {
        self.status.as_ref()
    }

    pub(crate) fn observation(&self) -> Option<&Observation> {
        self.observation.as_ref()
    }

    pub(crate) fn decision(&self) -> Option<&Decision> {
        self.decision.as_ref()
    }

    /// When it observed.
    pub(crate) fn at(&self) -> Option<SteadyMs> {
        self.observation.as_ref().map(|observation| observation.steady)
    }

    /// Replaces what the status says of the data directory.
    pub(crate) fn set_data(&mut self, data: Fact<DataState>) {
        if let Some(status) = &mut self.status {
            status.data = data;
        }
    }
}
