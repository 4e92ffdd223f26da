//! Sets up logging.

use std::io::IsTerminal;
use std::os::unix::fs::MetadataExt;
use std::sync::OnceLock;

use tracing_journald::{Priority, PriorityMappings};
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;
use tracing_subscriber::{EnvFilter, Layer, Registry, reload};

use crate::model::LogLevel;

/// The filter of this process, which can be replaced.
static FILTER: OnceLock<reload::Handle<EnvFilter, Registry>> = OnceLock::new();

/// Where log lines go.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Output {
    /// To journald, with fields.
    Journal,
    /// To standard error, one line each.
    Stderr,
}

/// Sets up logging; a second call changes nothing. It uses journald's own protocol when standard error is the
/// journal (`JOURNAL_STREAM`, systemd.exec(5)), otherwise plain lines on standard error. `ETCD_AGENT_LOG`
/// sets the level, e.g. `debug` or `info,etcd_agent=trace`; an invalid value counts as the default.
pub fn init() -> Output {
    static OUTPUT: OnceLock<Output> = OnceLock::new();
    *OUTPUT.get_or_init(begin)
}

fn begin() -> Output {
    let journal = stderr_is_the_journal(std::env::var("JOURNAL_STREAM").ok().as_deref())
        .then(journal)
        .and_then(Result::ok);
    let registry = tracing_subscriber::registry();
    let (filter, handle) = reload::Layer::new(filter());
    let _ = FILTER.set(handle);
    if let Some(journal) = journal {
        let _ = registry.with(journal.with_filter(filter)).try_init();
        Output::Journal
    } else {
        let plain = tracing_subscriber::fmt::layer()
            .with_writer(std::io::stderr)
            .with_ansi(std::io::stderr().is_terminal())
            .with_target(false)
            .with_filter(filter);
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

/// The filter in force, e.g. `warn,etcd_agent=info`; empty before [`init`].
pub fn log_filter() -> String {
    let filter = FILTER
        .get()
        .and_then(|handle| handle.with_current(ToString::to_string).ok());
    filter.unwrap_or_default()
}

/// Logs the agent's own messages from this level on; `None` restores the filter of the start. Libraries stay
/// at `warn`: below that, some of them log what they send.
pub fn set_log_level(level: Option<LogLevel>) {
    let wanted = match level {
        Some(level) => EnvFilter::new(format!("warn,etcd_agent={level}")),
        None => filter(),
    };
    // It fails only if no subscriber is left.
    if let Some(handle) = FILTER.get() {
        let _ = handle.reload(wanted);
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
    fn the_level_changes_while_the_process_runs() {
        init();
        let logs_debug = || tracing::enabled!(target: "etcd_agent::agent", tracing::Level::DEBUG);
        set_log_level(Some(LogLevel::Debug));
        assert!(logs_debug());
        assert!(log_filter().contains("etcd_agent=debug"), "{}", log_filter());
        assert!(!tracing::enabled!(target: "hyper", tracing::Level::INFO));
        set_log_level(None);
        assert!(!logs_debug());
    }

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
