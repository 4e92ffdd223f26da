//! An agent's decisions: when, why, and with which outcome.

use serde::{Deserialize, Serialize};

use super::UnixMs;

/// The outcome of a decision.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "outcome")]
pub enum EventOutcome {
    /// The action was carried out.
    Done,
    /// A background job was started. The journal and `status` show how it ends.
    Begun,
    /// The action failed. The planner decides again on the next observation.
    Failed {
        /// One line.
        error: String,
    },
    /// There was nothing to do, for the event's reasons.
    Waits,
    /// The agent does nothing until a person acts.
    Halted,
}

/// One decision. Consecutive repetitions of a decision are one event.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Event {
    /// A number that grows with each event of one run of the agent, and with each repetition.
    pub seq: u64,
    /// When it was last decided.
    pub at: UnixMs,
    /// The action's name (`Action::name`), `wait` or `halt`.
    pub decision: String,
    /// The reasons: code and text, one line each.
    pub reasons: Vec<String>,
    /// The outcome.
    #[serde(flatten)]
    pub outcome: EventOutcome,
    /// How long the action took, in milliseconds; 0 without one.
    pub duration_ms: u64,
    /// The number of consecutive repetitions, with the first.
    pub times: u64,
}

/// The answer to `GET /v1/events`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct EventsView {
    /// The number of the newest event. It is lower than in an earlier answer if the agent was restarted.
    pub newest: u64,
    /// Oldest first.
    pub events: Vec<Event>,
}
