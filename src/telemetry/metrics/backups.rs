//! The metrics of the backups.

use prometheus_client::metrics::MetricType;

use super::encode::{Metrics, Value, seconds};
use crate::model::{AdminStatus, Fact};
use crate::telemetry::counters::{Counters, Success, locked};

pub(super) fn backups(out: &mut Metrics, status: &AdminStatus) {
    let view = &status.backups;
    out.head(
        "etcd_agent_backup_job_failures",
        MetricType::Gauge,
        "Consecutive failures of a job in the store.",
    );
    let jobs = [
        ("increments", &view.increments),
        ("prune", &view.prune),
        ("verify", &view.verify),
    ];
    for (job, state) in jobs {
        out.sample(&[("job", job)], u64::from(state.failures));
    }
    out.one(
        "etcd_agent_increments_following",
        "This agent stores etcd's changes as increments.",
        u64::from(view.increments.running),
    );
    // Only an agent that follows etcd's changes knows what the increments cover.
    let Some((covered, at)) = view.covered.filter(|_| view.increments.running) else {
        return;
    };
    out.one(
        "etcd_agent_increments_covered_revision",
        "The newest revision that this agent has stored.",
        covered.0,
    );
    if let Fact::Known(etcd) = &status.node.etcd {
        let behind = etcd.revision.0.saturating_sub(covered.0);
        out.one(
            "etcd_agent_increments_lag_revisions",
            "Revisions of the local etcd that are not in the store yet.",
            behind,
        );
        let lag = if behind == 0 {
            0
        } else {
            status.node.now.0.saturating_sub(at.0)
        };
        out.head(
            "etcd_agent_increments_lag_seconds",
            MetricType::Gauge,
            "Time since this agent stored something, while there is something to store.",
        );
        out.sample(&[], seconds(lag));
    }
}

/// The backups that this agent itself has stored since it started, and the failed ones.
pub(super) fn stored(out: &mut Metrics, counters: &Counters) {
    type Field = (&'static str, &'static str, fn(&Success) -> Value);
    let fields: [Field; 4] = [
        (
            "etcd_agent_backup_success_timestamp_seconds",
            "When this agent last stored a backup of the kind.",
            |last| seconds(last.at.0),
        ),
        (
            "etcd_agent_backup_success_revision",
            "The newest backup of the kind that this agent stored holds at least this revision.",
            |last| Value::Integer(last.revision.0),
        ),
        (
            "etcd_agent_backup_success_size_bytes",
            "The stored size of the newest backup of the kind that this agent stored.",
            |last| Value::Integer(last.size_bytes),
        ),
        (
            "etcd_agent_backup_success_duration_seconds",
            "The duration of the newest backup of the kind that this agent stored.",
            |last| seconds(u64::try_from(last.took.as_millis()).unwrap_or(u64::MAX)),
        ),
    ];
    let kinds = locked(&counters.stored);
    for (name, help, value) in fields {
        if kinds.is_empty() {
            break;
        }
        out.head(name, MetricType::Gauge, help);
        for (kind, last) in kinds.iter() {
            out.sample(&[("kind", kind.as_str())], value(last));
        }
    }
    let name = "etcd_agent_backup_failures";
    out.head(
        name,
        MetricType::Counter,
        "Failed attempts of this agent to store a backup, by kind and by cause.",
    );
    for (kind, cause, count) in counters.failures() {
        out.sample(&[("kind", kind.as_str()), ("cause", cause.as_str())], count);
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::model::{Cause, Revision, UnixMs};
    use crate::telemetry::BackupKind;
    use crate::telemetry::metrics::encode::Format;

    #[test]
    fn backups_are_told_by_kind_and_cause() {
        let counters = Counters::default();
        let success = |revision| Success {
            at: UnixMs(1_700_000_000_042),
            revision: Revision(revision),
            size_bytes: 9,
            took: Duration::from_millis(1500),
        };
        counters.stored(BackupKind::Full, success(7));
        counters.stored(BackupKind::Increment, success(8));
        counters.stored(BackupKind::Increment, success(9));
        counters.failed(BackupKind::Full, Cause::Etcd);
        counters.failed(BackupKind::Full, Cause::Store);
        counters.failed(BackupKind::Full, Cause::Store);
        let mut out = Metrics::default();
        stored(&mut out, &counters);
        let text = out.encoded(Format::Text);
        for line in [
            "etcd_agent_backup_success_timestamp_seconds{kind=\"full\"} 1700000000.042",
            "etcd_agent_backup_success_revision{kind=\"full\"} 7",
            "etcd_agent_backup_success_revision{kind=\"increment\"} 9",
            "etcd_agent_backup_success_size_bytes{kind=\"full\"} 9",
            "etcd_agent_backup_success_duration_seconds{kind=\"full\"} 1.5",
            "etcd_agent_backup_failures_total{kind=\"full\",cause=\"etcd\"} 1",
            "etcd_agent_backup_failures_total{kind=\"full\",cause=\"store\"} 2",
            "etcd_agent_backup_failures_total{kind=\"full\",cause=\"host\"} 0",
            "etcd_agent_backup_failures_total{kind=\"increment\",cause=\"etcd\"} 0",
        ] {
            assert!(text.lines().any(|has| has == line), "{line} in {text}");
        }
    }
}
