//! Exit codes: the one place where they are defined. `docs/man/etcd-agent.8` documents them.

use std::fmt;
use std::process::ExitCode;

/// How a command ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum Exit {
    /// Done; for `status`: healthy.
    Ok = 0,
    /// It was tried and failed.
    Failed = 1,
    /// Wrong usage (clap's own code too) or a bad configuration.
    Usage = 2,
    /// The agent does not answer, is not configured, or is not ready to answer.
    Unreachable = 3,
    /// Refused because it would not be safe; nothing was done.
    Refused = 4,
    /// It began, and did not end within the deadline.
    TimedOut = 5,
    /// `status`: the cluster serves, but not all is well.
    Degraded = 6,
    /// `status`: the cluster does not serve.
    Down = 7,
    /// `status`: the agent has just started and has not observed the cluster yet.
    Starting = 8,
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        Self::from(exit as u8)
    }
}

/// Why a command failed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{text}")]
pub struct Failure {
    /// The exit code.
    pub exit: Exit,
    /// What was tried, on what, and what to do.
    pub text: String,
}

impl Failure {
    /// A failure with this code.
    pub fn new(exit: Exit, text: impl fmt::Display) -> Self {
        Self {
            exit,
            text: text.to_string(),
        }
    }
    /// It was tried and failed.
    pub fn failed(text: impl fmt::Display) -> Self {
        Self::new(Exit::Failed, text)
    }
    /// It would not be safe.
    pub fn refused(text: impl fmt::Display) -> Self {
        Self::new(Exit::Refused, text)
    }
}

impl From<crate::config::Problems> for Failure {
    fn from(problems: crate::config::Problems) -> Self {
        Self::new(Exit::Usage, problems)
    }
}

/// The result of a command.
pub(super) type Outcome = Result<Exit, Failure>;
