//! Calls across a port that fail once, a few times, or until people repair them.

/// A call across a port.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Call {
    /// The state of `etcd.service`.
    Unit,
    /// Starting it.
    Start,
    /// Stopping it.
    Stop,
    /// Restarting it.
    Restart,
    /// Writing its settings.
    Apply,
    /// Inspecting the data directory.
    Inspect,
    /// Restoring next to it.
    Stage,
    /// Replacing it.
    Replace,
    /// Defragmenting its database.
    Defrag,
    /// Storing the agent's memory.
    Remember,
}

/// How a call fails.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum How {
    /// It is refused and has no effect.
    Refused,
    /// It takes effect, and its answer is lost.
    AnswerLost,
}

/// A call that fails.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Broken {
    /// What fails.
    pub call: Call,
    /// How.
    pub how: How,
    /// How many more times; `None` until it is repaired.
    pub times: Option<u32>,
}
