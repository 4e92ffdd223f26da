//! One line into the journal from a oneshot: in the native protocol where there is a journal, for the
//! `MESSAGE_ID`; to standard error otherwise.

use std::fmt::Write as _;
use std::os::unix::net::UnixDatagram;

const SOCKET: &str = "/run/systemd/journal/socket";

/// Logs one line; line breaks in it become spaces.
pub fn say(line: &str, message_id: Option<&str>) {
    let line = line.replace(['\n', '\r'], " ");
    // Under systemd standard error also goes to the journal, so use it only if the native protocol fails.
    let native = message_id.filter(|_| std::env::var_os("JOURNAL_STREAM").is_some());
    if native.is_some_and(|id| send(&line, id).is_ok()) {
        return;
    }
    eprintln!("{line}");
}

fn send(line: &str, id: &str) -> std::io::Result<()> {
    let mut message = String::new();
    let _ = write!(
        message,
        "PRIORITY=4\nSYSLOG_IDENTIFIER=etcd-agent\nMESSAGE_ID={id}\nMESSAGE={line}\n"
    );
    UnixDatagram::unbound()?.send_to(message.as_bytes(), SOCKET)?;
    Ok(())
}
