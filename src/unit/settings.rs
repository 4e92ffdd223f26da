//! The configuration as the oneshots read it: from root's own files, never from the agent.

use crate::config::{self, Loaded, Problems, Settings};
use crate::paths::Paths;

/// Loads it.
///
/// # Errors
/// One line: what is wrong with it, or that there is none.
pub(crate) fn load(paths: &Paths) -> Result<Settings, String> {
    valid(paths, config::load(paths))
}

/// The settings of a configuration that was read.
///
/// # Errors
/// As [`load`].
pub(super) fn valid(paths: &Paths, read: Result<Option<Loaded>, Problems>) -> Result<Settings, String> {
    match read {
        Ok(Some(loaded)) => Ok(loaded.settings),
        Ok(None) => Err(format!(
            "not configured: {} is not there",
            paths.config_file().display()
        )),
        Err(problems) => Err(line(&problems)),
    }
}

/// All problems in one line.
pub(super) fn line(problems: &Problems) -> String {
    let text = problems.to_string();
    let lines: Vec<&str> = text.lines().map(str::trim).collect();
    lines.join("; ")
}
