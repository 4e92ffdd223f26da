//! Work that an agent does in the background.

use serde::{Deserialize, Serialize};

use super::SteadyMs;

/// The state of a background job of this agent: it runs, or has ended.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Job {
    /// True while it runs.
    pub running: bool,
    /// When the last attempt failed.
    pub failed_at: Option<SteadyMs>,
    /// Consecutive failures.
    pub failures: u32,
    /// The last error, one line.
    pub error: Option<String>,
}
