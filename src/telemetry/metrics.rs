//! Metrics in the Prometheus text format.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, NoLabelSet, prometheus_text};
use prometheus_client::metrics::MetricType;
use prometheus_client::registry::Registry;

use crate::model::{ActiveState, AdminStatus, Fact, Revision, UnixMs};

/// The counters of a running agent.
#[derive(Debug, Default)]
pub struct Counters {
    actions: Mutex<BTreeMap<(&'static str, &'static str), u64>>,
    stored: Mutex<BTreeMap<&'static str, Success>>,
    failed: Mutex<BTreeMap<(&'static str, &'static str), u64>>,
}

/// A backup that this agent has stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Success {
    /// When it was committed.
    pub at: UnixMs,
    /// The newest revision that it is known to contain.
    pub revision: Revision,
    /// Its stored size.
    pub size_bytes: u64,
    /// How long it took.
    pub took: Duration,
}

impl Counters {
    /// Counts one executed action by its name (`Action::name`) and its result: `ok`, `failed`, or `begun` for
    /// a job that runs concurrently with the loop.
    pub fn action(&self, name: &'static str, result: &'static str) {
        *locked(&self.actions).entry((name, result)).or_insert(0) += 1;
    }

    /// Records the last backup of a kind (`full`, `increment`).
    pub fn stored(&self, kind: &'static str, success: Success) {
        locked(&self.stored).insert(kind, success);
    }

    /// Counts a failed backup of a kind, by the place of the failure (`backup::Cause`).
    pub fn failed(&self, kind: &'static str, cause: &'static str) {
        *locked(&self.failed).entry((kind, cause)).or_insert(0) += 1;
    }
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The body of `GET /metrics`. An unknown value is omitted, never shown as zero.
pub fn exposition(status: &AdminStatus, counters: &Counters) -> String {
    let mut out = Metrics::default();
    let node = &status.node;
    out.head(
        "etcd_agent_up",
        MetricType::Gauge,
        "The agent runs; its labels name node, cluster and version.",
    );
    out.sample(
        &[
            ("node", node.node.as_str()),
            ("cluster", node.cluster.as_str()),
            ("version", &node.agent_version),
        ],
        1,
    );
    out.one(
        "etcd_agent_insecure",
        "The peer API is plain HTTP.",
        u64::from(node.insecure),
    );
    out.one(
        "etcd_agent_epoch",
        "Newest epoch reported to this node.",
        node.newest_epoch.0,
    );
    out.one(
        "etcd_agent_coordinator",
        "This agent decides for the cluster.",
        u64::from(status.decision.coordinator),
    );
    out.one(
        "etcd_agent_halted",
        "The planner waits for a person.",
        u64::from(status.decision.reasons.iter().any(|reason| reason.halt)),
    );
    out.one(
        "etcd_agent_size",
        "Wanted number of voters.",
        u64::try_from(status.size).unwrap_or(u64::MAX),
    );
    out.one(
        "etcd_agent_config_error",
        "The configuration on disk was refused.",
        u64::from(status.config_error.is_some()),
    );
    if status.store.is_some() {
        out.one(
            "etcd_agent_store_usable",
            "The store answers and can be used.",
            u64::from(status.store_error.is_none()),
        );
    }
    if let Some(copy) = &status.copy {
        out.one(
            "etcd_agent_copy_failures",
            "Failed rounds of copying to the second store since the last successful one.",
            u64::from(copy.failures),
        );
        if let Some(covered) = copy.covered {
            let name = "etcd_agent_copy_revision";
            out.head(
                name,
                MetricType::Gauge,
                "The newest revision that this node has seen covered in the second store.",
            );
            out.sample(&[], covered.0);
        }
        if let Some(at) = copy.at {
            let name = "etcd_agent_copy_complete_timestamp_seconds";
            out.head(
                name,
                MetricType::Gauge,
                "When this node last found every backup in the second store.",
            );
            out.sample(&[], seconds(at.0));
        }
    }
    unit(&mut out, status);
    etcd(&mut out, status);
    peers(&mut out, status);
    if let Some(backup) = &node.last_backup {
        out.head(
            "etcd_agent_last_backup_timestamp_seconds",
            MetricType::Gauge,
            "When the newest full backup was committed.",
        );
        out.sample(&[], seconds(backup.at.0));
        out.one(
            "etcd_agent_last_backup_revision",
            "Revision that it holds at least.",
            backup.revision.0,
        );
        out.one(
            "etcd_agent_last_backup_size_bytes",
            "Its stored size.",
            backup.size_bytes,
        );
    }
    backups(&mut out, status);
    stored(&mut out, counters);
    if let Some((_, last)) = &status.verified {
        out.head(
            "etcd_agent_last_verification_timestamp_seconds",
            MetricType::Gauge,
            "When the newest verified backup was verified by a real restore.",
        );
        out.sample(&[], seconds(last.at.0));
        out.one(
            "etcd_agent_last_verification_ok",
            "That backup was found good.",
            u64::from(last.is_ok()),
        );
    }
    if let Some(at) = node.certificate_not_after {
        out.head(
            "etcd_agent_certificate_expiry_timestamp_seconds",
            MetricType::Gauge,
            "When the first certificate of the agent or of etcd expires, or one that it depends on.",
        );
        out.sample(&[], seconds(at.0));
    }
    out.head(
        "etcd_agent_actions",
        MetricType::Counter,
        "Actions executed, by name and result.",
    );
    for ((action, result), count) in locked(&counters.actions).iter() {
        out.sample(&[("action", action), ("result", result)], *count);
    }
    out.text()
}

fn backups(out: &mut Metrics, status: &AdminStatus) {
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
        "The newest revision in the store.",
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
            "Time since something was stored, while there is something to store.",
        );
        out.sample(&[], seconds(lag));
    }
}

/// The backups that this agent itself has stored since it started, and the failed ones.
fn stored(out: &mut Metrics, counters: &Counters) {
    type Field = (&'static str, &'static str, fn(&Success) -> Value);
    let fields: [Field; 4] = [
        (
            "etcd_agent_backup_success_timestamp_seconds",
            "When this agent last stored a backup of the kind.",
            |last| seconds(last.at.0),
        ),
        (
            "etcd_agent_backup_success_revision",
            "The revision that it holds at least.",
            |last| Value::Integer(last.revision.0),
        ),
        (
            "etcd_agent_backup_success_size_bytes",
            "Its stored size.",
            |last| Value::Integer(last.size_bytes),
        ),
        (
            "etcd_agent_backup_success_duration_seconds",
            "How long it took.",
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
            out.sample(&[("kind", kind)], value(last));
        }
    }
    let name = "etcd_agent_backup_failures";
    out.head(
        name,
        MetricType::Counter,
        "Failed attempts of this agent to store a backup, by kind and by cause.",
    );
    for ((kind, cause), count) in locked(&counters.failed).iter() {
        out.sample(&[("kind", kind), ("cause", cause)], *count);
    }
}

fn unit(out: &mut Metrics, status: &AdminStatus) {
    let Fact::Known(unit) = &status.node.unit else {
        return;
    };
    out.head(
        "etcd_agent_etcd_unit_state",
        MetricType::Gauge,
        "ActiveState of etcd.service: 1 for the one that holds.",
    );
    for (state, name) in [
        (ActiveState::Active, "active"),
        (ActiveState::Reloading, "reloading"),
        (ActiveState::Inactive, "inactive"),
        (ActiveState::Failed, "failed"),
        (ActiveState::Activating, "activating"),
        (ActiveState::Deactivating, "deactivating"),
        (ActiveState::Maintenance, "maintenance"),
    ] {
        out.sample(&[("state", name)], u64::from(unit.active == state));
    }
    out.one(
        "etcd_agent_etcd_held",
        "A person stopped etcd.service.",
        u64::from(unit.held),
    );
}

fn etcd(out: &mut Metrics, status: &AdminStatus) {
    if !status.starting {
        out.one(
            "etcd_agent_etcd_up",
            "The local etcd answers.",
            u64::from(status.node.etcd.known().is_some()),
        );
    }
    if let Fact::Known(etcd) = &status.node.etcd {
        out.one(
            "etcd_agent_etcd_has_leader",
            "The local etcd sees a raft leader.",
            u64::from(etcd.leader.is_some()),
        );
        out.one(
            "etcd_agent_etcd_is_learner",
            "The local member has no vote.",
            u64::from(etcd.is_learner),
        );
        out.one(
            "etcd_agent_etcd_db_size_bytes",
            "Size of the backend database.",
            etcd.db_size_bytes,
        );
        out.one("etcd_agent_etcd_revision", "Current revision.", etcd.revision.0);
        out.one("etcd_agent_etcd_raft_term", "Raft term.", etcd.term.0);
    }
    if let Fact::Known(list) = &status.node.members {
        let voters = list.voters().count();
        out.head(
            "etcd_agent_members",
            MetricType::Gauge,
            "Members of the etcd cluster, by role.",
        );
        for (role, count) in [("voter", voters), ("learner", list.members.len() - voters)] {
            out.sample(&[("role", role)], u64::try_from(count).unwrap_or(u64::MAX));
        }
    }
}

fn peers(out: &mut Metrics, status: &AdminStatus) {
    if status.starting || status.peers.is_empty() {
        return;
    }
    out.head(
        "etcd_agent_peer_reachable",
        MetricType::Gauge,
        "The peer's agent answers.",
    );
    for (name, fact) in &status.peers {
        out.sample(&[("peer", name.as_str())], u64::from(fact.known().is_some()));
    }
}

/// Milliseconds as seconds.
fn seconds(ms: u64) -> Value {
    Value::Seconds(Duration::from_millis(ms).as_secs_f64())
}

/// All metrics of one answer, in the order in which they are shown.
#[derive(Debug, Default)]
struct Metrics(Vec<Metric>);

#[derive(Debug)]
struct Metric {
    name: &'static str,
    help: &'static str,
    kind: MetricType,
    samples: Vec<(Vec<(&'static str, String)>, Value)>,
}

#[derive(Debug, Clone, Copy)]
enum Value {
    Integer(u64),
    Seconds(f64),
}

impl From<u64> for Value {
    fn from(value: u64) -> Self {
        Self::Integer(value)
    }
}

impl Metrics {
    /// Begins a metric. Its samples follow. A counter is named without `_total`, which the encoder appends.
    fn head(&mut self, name: &'static str, kind: MetricType, help: &'static str) {
        self.0.push(Metric {
            name,
            help,
            kind,
            samples: Vec::new(),
        });
    }

    /// A sample of the metric that was begun last.
    fn sample(&mut self, labels: &[(&'static str, &str)], value: impl Into<Value>) {
        let labels = labels.iter().map(|(key, value)| (*key, (*value).to_owned()));
        if let Some(metric) = self.0.last_mut() {
            metric.samples.push((labels.collect(), value.into()));
        }
    }

    fn one(&mut self, name: &'static str, help: &'static str, value: u64) {
        self.head(name, MetricType::Gauge, help);
        self.sample(&[], value);
    }

    /// The Prometheus text format, version 0.0.4.
    fn text(self) -> String {
        let mut registry = Registry::default();
        registry.register_collector(Box::new(self));
        let mut text = String::with_capacity(8192);
        // Writing to a string cannot fail.
        let _ = prometheus_text::encode(&mut text, &registry);
        text
    }
}

impl Collector for Metrics {
    fn encode(&self, mut encoder: DescriptorEncoder) -> Result<(), fmt::Error> {
        for metric in &self.0 {
            let mut family = encoder.encode_descriptor(metric.name, metric.help, None, metric.kind)?;
            for (labels, value) in &metric.samples {
                let mut sample = family.encode_family(labels)?;
                match (metric.kind, value) {
                    (MetricType::Counter, Value::Integer(count)) => {
                        sample.encode_counter::<NoLabelSet, u64, u64>(count, None)?;
                    }
                    (_, Value::Integer(value)) => sample.encode_gauge(value)?,
                    (_, Value::Seconds(value)) => sample.encode_gauge(value)?,
                }
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn backups_are_told_by_kind_and_cause() {
        let counters = Counters::default();
        let success = |revision| Success {
            at: UnixMs(1_700_000_000_042),
            revision: Revision(revision),
            size_bytes: 9,
            took: Duration::from_millis(1500),
        };
        counters.stored("full", success(7));
        counters.stored("increment", success(8));
        counters.stored("increment", success(9));
        counters.failed("full", "etcd");
        counters.failed("full", "store");
        counters.failed("full", "store");
        let mut out = Metrics::default();
        stored(&mut out, &counters);
        let text = out.text();
        for line in [
            "etcd_agent_backup_success_timestamp_seconds{kind=\"full\"} 1700000000.042",
            "etcd_agent_backup_success_revision{kind=\"full\"} 7",
            "etcd_agent_backup_success_revision{kind=\"increment\"} 9",
            "etcd_agent_backup_success_size_bytes{kind=\"full\"} 9",
            "etcd_agent_backup_success_duration_seconds{kind=\"full\"} 1.5",
            "etcd_agent_backup_failures_total{kind=\"full\",cause=\"etcd\"} 1",
            "etcd_agent_backup_failures_total{kind=\"full\",cause=\"store\"} 2",
        ] {
            assert!(text.lines().any(|has| has == line), "{line} in {text}");
        }
    }
}
