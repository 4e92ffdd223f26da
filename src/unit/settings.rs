//! The configuration as the oneshots read it: from root's own files, never from the agent.

use crate::config::{self, Settings};
use crate::paths::Paths;

/// Loads it.
///
/// # Errors
/// One line: what is wrong with it, or that there is none.
pub(crate) fn load(paths: &Paths) -> Result<Settings, String> {
    match config::load(paths) {
        Ok(Some(loaded)) => Ok(loaded.settings),
        Ok(None) => Err(format!(
            "not configured: {} is not there",
            paths.config_file().display()
        )),
        Err(problems) => {
            let lines: Vec<String> = problems
                .to_string()
                .lines()
                .map(|line| line.trim().to_owned())
                .collect();
            Err(lines.join("; "))
        }
    }
}
