//! Progress on standard error: a spinner on a terminal, a line for each change elsewhere.

use std::io::{IsTerminal, Write};
use std::time::Duration;

use indicatif::ProgressBar;

use super::plain;

/// Shows progress.
#[derive(Debug)]
pub(super) struct Progress {
    spinner: Option<ProgressBar>,
    last: String,
}

impl Progress {
    pub(super) fn new() -> Self {
        let spinner = std::io::stderr().is_terminal().then(|| {
            let spinner = ProgressBar::new_spinner();
            spinner.enable_steady_tick(Duration::from_millis(120));
            spinner
        });
        Self {
            spinner,
            last: String::new(),
        }
    }

    /// Shows a line, unless it equals the last one.
    pub(super) fn say(&mut self, line: &str) {
        if line == self.last || line.is_empty() {
            return;
        }
        line.clone_into(&mut self.last);
        match &self.spinner {
            Some(spinner) => spinner.set_message(plain::line(line).into_owned()),
            None => note(line),
        }
    }

    /// The line that was shown last.
    pub(super) fn last(&self) -> &str {
        &self.last
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        if let Some(spinner) = &self.spinner {
            spinner.finish_and_clear();
        }
    }
}

/// Prints a line on standard error, with nothing in it that a terminal obeys. Ignores a failure to write it.
pub(super) fn note(line: &str) {
    let _ = writeln!(std::io::stderr(), "{}", plain::line(line));
}
