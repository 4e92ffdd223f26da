//! What an agent decided, when, why, and what came of it.

use serde::{Deserialize, Serialize};

use super::UnixMs;

/// What came of a decision.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "outcome")]
pub enum EventOutcome {
    /// The action was carried out.
    Done,
    /// A background job was started. The journal and `status` show how it ends.
    Begun,
    /// It was not; it is decided anew on what is seen next.
    Failed {
        /// One line.
        error: String,
    },
    /// Nothing was to be done, for these reasons.
    Waits,
    /// Nothing goes on until a person acts.
    Halted,
}

/// One decision. The same one again and again is one event.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Event {
    /// Grows with each event of one run of the agent, and when an event is repeated.
    pub seq: u64,
    /// When it was decided last.
    pub at: UnixMs,
    /// The action's name (`Action::name`), `wait` or `halt`.
    pub decision: String,
    /// Why: code and text, a line each.
    pub reasons: Vec<String>,
    /// What came of it.
    #[serde(flatten)]
    pub outcome: EventOutcome,
    /// How long the action took, in milliseconds; 0 without one.
    pub duration_ms: u64,
    /// How often in a row.
    pub times: u64,
}

/// The answer to `GET /v1/events`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct EventsView {
    /// The newest event's number; lower than what was seen before when the agent was restarted.
    pub newest: u64,
    /// Oldest first.
    pub events: Vec<Event>,
}
