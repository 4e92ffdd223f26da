//! Log lines of the oneshots.

use std::process::ExitCode;

/// Logs one line.
///
/// It goes to standard error, which systemd connects to the journal. A oneshot often ends right after it.
/// journald finds the unit of a native message by its process. If that has ended, `journalctl -u` does not
/// show the message.
pub fn say(line: &str) {
    eprintln!("{}", one_line(line));
}

/// The exit code of `etcd-agent VERB`; logs why it failed.
pub(super) fn exit_code(verb: &str, result: Result<(), String>) -> ExitCode {
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(why) => {
            say(&format!("etcd-agent {verb}: {why}"));
            ExitCode::FAILURE
        }
    }
}

/// Line breaks become spaces: each line of standard error is an entry of its own in the journal.
pub(super) fn one_line(text: &str) -> String {
    text.replace(['\n', '\r'], " ")
}
