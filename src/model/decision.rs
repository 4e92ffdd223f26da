//! The planner's answer: at most one action, the reasons, and when to observe again.

use std::collections::BTreeMap;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::{Action, ActionKind, Grant, MemberId, NodeName, RaftTerm, Reason, SteadyMs};

/// The progress of a learner.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LearnerProgress {
    /// Which.
    pub id: MemberId,
    /// Its highest observed raft index.
    pub index: u64,
    /// When it reached that index.
    pub at: SteadyMs,
}

/// The planner's state between ticks. Its loss (a restart of the agent) is always safe.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Memory {
    /// Since when each peer has been unreachable.
    pub unreachable_since: BTreeMap<NodeName, SteadyMs>,
    /// Failed attempts by the kind of action: their number and the time of the last one.
    pub failures: BTreeMap<ActionKind, (u32, SteadyMs)>,
    /// The error of the last failed attempt, by the kind of action.
    #[serde(default)]
    pub errors: BTreeMap<ActionKind, String>,
    /// When etcd was last asked to start.
    pub started_at: Option<SteadyMs>,
    /// The member as which etcd was started then.
    #[serde(default)]
    pub started_as: Option<MemberId>,
    /// True once the unit's state has shown that start.
    #[serde(default)]
    pub start_shown: bool,
    /// Since when etcd has run and not answered.
    #[serde(default)]
    pub silent_since: Option<SteadyMs>,
    /// Since when etcd here has had data that it is to convert for an ordered downgrade.
    #[serde(default)]
    pub converts_since: Option<SteadyMs>,
    /// When the data directory was last inspected.
    #[serde(default)]
    pub looked_at: Option<SteadyMs>,
    /// Since when this agent has waited for electors to answer.
    pub waiting_since: Option<SteadyMs>,
    /// The number of consecutive starts after which etcd did not stay up.
    pub start_failures: u32,
    /// The raft term in which this node is coordinator, and since when.
    #[serde(default)]
    pub coordinates: Option<(RaftTerm, SteadyMs)>,
    /// Since when the restart of the leader's etcd, which is here, waits for a node that reads its files or its disk.
    #[serde(default)]
    pub leader_waits: Option<SteadyMs>,
    /// The leader of the newest raft term in which another member has led, as this node's etcd reported it.
    #[serde(default)]
    pub followed: Option<(RaftTerm, MemberId)>,
    /// The last raft term in which this node was the coordinator, unless a node may still act on a grant of
    /// it or of an earlier coordinator.
    #[serde(default)]
    pub grants_over: Option<RaftTerm>,
    /// What this node has granted as coordinator and what has not finished, and since when.
    #[serde(default)]
    pub grant: Option<(Grant, SteadyMs)>,
    /// The grant that this node has acted on last.
    #[serde(default)]
    pub grant_used: Option<u64>,
    /// As coordinator: the etcd process (boot ID and PID) of the node to which a restart is granted, at that
    /// time.
    #[serde(default)]
    pub granted_process: Option<(String, u32)>,
    /// Nodes that did not use a grant, and when.
    #[serde(default)]
    pub grant_unused: BTreeMap<NodeName, SteadyMs>,
    /// When etcd was last asked to restart.
    #[serde(default)]
    pub restarted_at: Option<SteadyMs>,
    /// Since when each member has been unreachable for every observer (coordinator only).
    #[serde(default)]
    pub dead_since: BTreeMap<MemberId, SteadyMs>,
    /// Since when each member's etcd has not run although its agent answers (coordinator only).
    #[serde(default)]
    pub broken_since: BTreeMap<MemberId, SteadyMs>,
    /// Since when each member has been listed without ever having started (coordinator only).
    #[serde(default)]
    pub unstarted_since: BTreeMap<MemberId, SteadyMs>,
    /// The learner that is joining (coordinator only).
    #[serde(default)]
    pub learner: Option<LearnerProgress>,
    /// Nodes that were added and did not become members: how often, and when for the last time.
    #[serde(default)]
    pub failed_joins: BTreeMap<NodeName, (u32, SteadyMs)>,
}

/// The planner's answer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Decision {
    /// At most one action.
    pub action: Option<Action>,
    /// Why this action, and why no other.
    pub reasons: Vec<Reason>,
    /// Observe again after this time, or earlier on news.
    pub wake: Duration,
    /// The planner's state for the next tick.
    pub memory: Memory,
    /// True on the node that decides for the cluster now.
    pub coordinator: bool,
    /// One human line for `STATUS=` and `status`.
    pub text: String,
    /// The progress of an order to open an epoch, if a person gave one here and there is something to report.
    #[serde(default)]
    pub order: Option<String>,
}
