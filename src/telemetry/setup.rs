//! Sets up logging.

use std::io::IsTerminal;
use std::os::unix::fs::MetadataExt;

use tracing_journald::{Priority, PriorityMappings};
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;
use tracing_subscriber::{EnvFilter, Layer};

/// Where log lines go.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Output {
    /// To journald, with fields.
    Journal,
    /// To standard error, one line each.
    Stderr,
}

/// Sets up logging, once per process: journald's own protocol when standard error is the journal
/// (`JOURNAL_STREAM`, systemd.exec(5)), otherwise plain lines on standard error. `ETCD_AGENT_LOG` sets the
/// level, e.g. `debug` or `info,etcd_agent=trace`; an invalid value counts as the default.
pub fn init() -> Output {
    let journal = stderr_is_the_journal(std::env::var("JOURNAL_STREAM").ok().as_deref())
        .then(journal)
        .and_then(Result::ok);
    let registry = tracing_subscriber::registry();
    if let Some(journal) = journal {
        // A second call changes nothing: tests call this more than once per process.
        let _ = registry.with(journal.with_filter(filter())).try_init();
        Output::Journal
    } else {
        let plain = tracing_subscriber::fmt::layer()
            .with_writer(std::io::stderr)
            .with_ansi(std::io::stderr().is_terminal())
            .with_target(false)
            .with_filter(filter());
        let _ = registry.with(plain).try_init();
        Output::Stderr
    }
}

/// journald's native protocol. The layer writes each field in upper case and a dot as an underscore:
/// `message_id` becomes `MESSAGE_ID`, as the journal catalog needs it, and `etcd_agent.epoch` becomes
/// `ETCD_AGENT_EPOCH`.
fn journal() -> std::io::Result<tracing_journald::Layer> {
    let layer = tracing_journald::layer()?;
    Ok(layer
        .with_field_prefix(None)
        .with_syslog_identifier("etcd-agent".to_owned())
        .with_priority_mappings(priorities()))
}

/// syslog(3) priorities. `info` is 6, so that `journalctl -p notice` shows only what needs attention.
fn priorities() -> PriorityMappings {
    PriorityMappings {
        info: Priority::Informational,
        debug: Priority::Debug,
        ..PriorityMappings::new()
    }
}

fn filter() -> EnvFilter {
    let default = || EnvFilter::new("warn,etcd_agent=info");
    match std::env::var("ETCD_AGENT_LOG") {
        Ok(text) if !text.is_empty() => EnvFilter::try_new(text).unwrap_or_else(|_| default()),
        _ => default(),
    }
}

/// `JOURNAL_STREAM` is `device:inode` of the stream that systemd connected; a child with its output
/// redirected inherits the variable but not the stream.
fn stderr_is_the_journal(stream: Option<&str>) -> bool {
    let Some((device, inode)) = stream.and_then(|text| text.split_once(':')) else {
        return false;
    };
    std::fs::metadata("/proc/self/fd/2")
        .is_ok_and(|meta| device == meta.dev().to_string() && inode == meta.ino().to_string())
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn an_inherited_variable_is_not_a_journal() {
        let meta = std::fs::metadata("/proc/self/fd/2").unwrap();
        assert!(stderr_is_the_journal(Some(&format!(
            "{}:{}",
            meta.dev(),
            meta.ino()
        ))));
        assert!(!stderr_is_the_journal(Some("1:2")));
        assert!(!stderr_is_the_journal(Some("nonsense")));
        assert!(!stderr_is_the_journal(None));
    }
}
