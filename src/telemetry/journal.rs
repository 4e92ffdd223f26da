//! journald's native protocol (systemd's `JOURNAL_NATIVE_PROTOCOL`).
//!
//! The journal catalog needs the field `MESSAGE_ID` without a prefix. All fields of the agent have the prefix
//! `ETCD_AGENT_`.

use std::fmt::{self, Write as _};
use std::io;
use std::os::unix::net::UnixDatagram;
use std::path::{Path, PathBuf};

use tracing::field::{Field, Visit};
use tracing::{Event, Level, Metadata, Subscriber};
use tracing_subscriber::Layer;
use tracing_subscriber::layer::Context;

const SOCKET: &str = "/run/systemd/journal/socket";
/// A datagram has to fit into the socket's buffer. The agent's messages are much smaller.
const VALUE_BYTES: usize = 16 * 1024;

/// Sends each event to journald. The fields `message` and `message_id` become `MESSAGE` and `MESSAGE_ID`, every
/// other field becomes `ETCD_AGENT_<NAME>`.
pub(super) struct Journal {
    socket: UnixDatagram,
    path: PathBuf,
}

impl Journal {
    /// Connects to the journal of this host.
    pub(super) fn connect() -> io::Result<Self> {
        Self::at(Path::new(SOCKET))
    }

    fn at(path: &Path) -> io::Result<Self> {
        let socket = UnixDatagram::unbound()?;
        socket.connect(path)?;
        Ok(Self {
            socket,
            path: path.to_owned(),
        })
    }

    /// Sends to the journal. Reconnects once, as a restarted journald has a new socket at the same path.
    fn send(&self, entry: &[u8]) -> io::Result<usize> {
        self.socket.send(entry).or_else(|_| {
            self.socket.connect(&self.path)?;
            self.socket.send(entry)
        })
    }
}

impl<S: Subscriber> Layer<S> for Journal {
    fn on_event(&self, event: &Event<'_>, _: Context<'_, S>) {
        // A failure to log cannot be logged.
        let _ = self.send(&entry(event.metadata(), |fields| event.record(fields)));
    }
}

fn entry(metadata: &Metadata<'_>, record: impl FnOnce(&mut Fields)) -> Vec<u8> {
    let mut fields = Fields(Vec::with_capacity(512));
    fields.put("PRIORITY", priority(*metadata.level()));
    fields.put("SYSLOG_IDENTIFIER", "etcd-agent");
    if let Some(file) = metadata.file() {
        fields.put("CODE_FILE", file);
    }
    if let Some(line) = metadata.line() {
        fields.put("CODE_LINE", &line.to_string());
    }
    record(&mut fields);
    fields.0
}

/// syslog(3) priorities. `info` is 6, so that `journalctl -p notice` shows only what needs attention.
fn priority(level: Level) -> &'static str {
    match level {
        Level::ERROR => "3",
        Level::WARN => "4",
        Level::INFO => "6",
        _ => "7",
    }
}

struct Fields(Vec<u8>);

impl Fields {
    /// `NAME=value\n`; for a value with a newline the name, a newline, the length and the value.
    fn put(&mut self, name: &str, value: &str) {
        let value = cut(value);
        self.0.extend_from_slice(name.as_bytes());
        if value.contains('\n') {
            self.0.push(b'\n');
            self.0.extend_from_slice(&(value.len() as u64).to_le_bytes());
        } else {
            self.0.push(b'=');
        }
        self.0.extend_from_slice(value.as_bytes());
        self.0.push(b'\n');
    }

    fn put_field(&mut self, field: &Field, value: &str) {
        match field.name() {
            "message" => self.put("MESSAGE", value),
            "message_id" => self.put("MESSAGE_ID", value),
            name => self.put(&field_name(name), value),
        }
    }
}

fn cut(value: &str) -> &str {
    let mut end = value.len().min(VALUE_BYTES);
    while !value.is_char_boundary(end) {
        end -= 1;
    }
    value.get(..end).unwrap_or_default()
}

/// journald takes upper-case letters, digits and underscores.
fn field_name(name: &str) -> String {
    let mut out = String::from("ETCD_AGENT_");
    out.extend(name.chars().map(|c| {
        if c.is_ascii_alphanumeric() {
            c.to_ascii_uppercase()
        } else {
            '_'
        }
    }));
    out
}

impl Visit for Fields {
    fn record_str(&mut self, field: &Field, value: &str) {
        self.put_field(field, value);
    }
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        let mut text = String::new();
        let _ = write!(text, "{value:?}");
        self.put_field(field, &text);
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use std::sync::{Arc, Mutex};

    use tracing_subscriber::layer::SubscriberExt;

    use super::*;

    struct Capture(Arc<Mutex<Vec<u8>>>);

    impl<S: Subscriber> Layer<S> for Capture {
        fn on_event(&self, event: &Event<'_>, _: Context<'_, S>) {
            *self.0.lock().unwrap() = entry(event.metadata(), |fields| event.record(fields));
        }
    }

    #[test]
    fn b16_a_journal_that_was_started_anew_is_found_again() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("socket");
        let first = UnixDatagram::bind(&path).unwrap();
        let journal = Journal::at(&path).unwrap();
        journal.send(b"one").unwrap();
        let mut buffer = [0; 16];
        assert_eq!(first.recv(&mut buffer).unwrap(), 3);
        drop(first);
        std::fs::remove_file(&path).unwrap();
        // While nobody listens one line is lost, and no other.
        assert!(journal.send(b"lost").is_err());
        let second = UnixDatagram::bind(&path).unwrap();
        second.set_nonblocking(true).unwrap();
        journal.send(b"two lines").unwrap();
        assert_eq!(second.recv(&mut buffer).unwrap(), 9);
    }

    #[test]
    fn fields_have_our_prefix_and_the_message_id_has_none() {
        let seen = Arc::new(Mutex::new(Vec::new()));
        let subscriber = tracing_subscriber::registry().with(Capture(seen.clone()));
        tracing::subscriber::with_default(subscriber, || {
            tracing::warn!(message_id = "abc", epoch = 3_u64, member_id = %"8e9e", "two\nlines");
        });
        let bytes = seen.lock().unwrap().clone();
        let text = String::from_utf8_lossy(&bytes);
        for line in [
            "PRIORITY=4\n",
            "MESSAGE_ID=abc\n",
            "ETCD_AGENT_EPOCH=3\n",
            "ETCD_AGENT_MEMBER_ID=8e9e\n",
        ] {
            assert!(text.contains(line), "{line:?} in {text:?}");
        }
        let framed = b"MESSAGE\n\x09\0\0\0\0\0\0\0two\nlines\n";
        assert!(bytes.windows(framed.len()).any(|part| part == framed), "{text:?}");
    }
}
