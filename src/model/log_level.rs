//! The level of the agent's own log messages.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// The least important messages that are still logged.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
#[allow(missing_docs)]
pub enum LogLevel {
    Error,
    Warn,
    Info,
    Debug,
    Trace,
}

impl LogLevel {
    const ALL: [Self; 5] = [Self::Error, Self::Warn, Self::Info, Self::Debug, Self::Trace];
}

impl fmt::Display for LogLevel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Error => "error",
            Self::Warn => "warn",
            Self::Info => "info",
            Self::Debug => "debug",
            Self::Trace => "trace",
        })
    }
}

impl FromStr for LogLevel {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let found = Self::ALL.into_iter().find(|level| text == level.to_string());
        found
            .ok_or_else(|| format!("{text:?} is not a log level; expected error, warn, info, debug or trace"))
    }
}

/// `POST /v1/log-level`: another level, until the agent is restarted.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LogOrder {
    /// The level; `None` for what was in force when the agent started.
    pub level: Option<LogLevel>,
}

/// The answer to `GET` and `POST /v1/log-level`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LogView {
    /// The filter in force, e.g. `warn,etcd_agent=info`.
    pub filter: String,
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn a_level_is_one_of_five_words() {
        for level in LogLevel::ALL {
            assert_eq!(level.to_string().parse(), Ok(level));
            assert_eq!(serde_json::to_value(level).unwrap(), level.to_string());
        }
        let wrong = "loud".parse::<LogLevel>().unwrap_err();
        assert!(wrong.contains("\"loud\"") && wrong.contains("trace"), "{wrong}");
    }
}
