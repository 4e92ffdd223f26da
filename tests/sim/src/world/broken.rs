//! Calls across a port that fail once, a few times, or until people repair them.

use super::Host;

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
    /// Storing the agent's memory.
    Remember,
}

/// How a call fails.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum How {
    /// It is refused and has no effect.
    Refused,
    /// It takes effect, and its answer is lost.
    Unheard,
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

impl Host {
    /// How this call fails now, if it does.
    pub fn breaks(&mut self, call: Call) -> Option<How> {
        let at = self.broken_calls.iter().position(|broken| broken.call == call)?;
        let broken = self.broken_calls.get_mut(at)?;
        let how = broken.how;
        if let Some(times) = &mut broken.times {
            *times = times.saturating_sub(1);
            if *times == 0 {
                self.broken_calls.remove(at);
            }
        }
        Some(how)
    }
}
