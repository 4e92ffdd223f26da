//! Metrics in the Prometheus text format.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use crate::model::{ActiveState, AdminStatus, Fact, Revision, UnixMs};

/// What is counted while the agent runs.
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
    /// Counts one executed action by its name (`Action::name`) and its result: `ok`, `failed`, or `begun` for a job that
    /// runs concurrently with the loop.
    pub fn action(&self, name: &'static str, result: &'static str) {
        *locked(&self.actions).entry((name, result)).or_insert(0) += 1;
    }

    /// Notes the last backup of a kind (`full`, `increment`).
    pub fn stored(&self, kind: &'static str, success: Success) {
        locked(&self.stored).insert(kind, success);
    }

    /// Counts a backup of a kind that failed, by where it failed (`backup::Cause`).
    pub fn failed(&self, kind: &'static str, cause: &'static str) {
        *locked(&self.failed).entry((kind, cause)).or_insert(0) += 1;
    }
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The body of `GET /metrics`. An unknown value is omitted, never shown as zero.
pub fn exposition(status: &AdminStatus, counters: &Counters) -> String {
    let mut out = Text(String::with_capacity(4096));
    let node = &status.node;
    out.head(
        "etcd_agent_up",
        "gauge",
        "The agent runs; its labels say which and where.",
    );
    out.sample(
        "etcd_agent_up",
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
    out.one("etcd_agent_epoch", "Newest epoch heard of.", node.newest_epoch.0);
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
            "Rounds of copying to the second store that failed since the last that did not.",
            u64::from(copy.failures),
        );
        if let Some(covered) = copy.covered {
            let name = "etcd_agent_copy_revision";
            out.head(
                name,
                "gauge",
                "The newest revision that this node has seen covered in the second store.",
            );
            out.sample(name, &[], covered.0);
        }
        if let Some(at) = copy.at {
            let name = "etcd_agent_copy_complete_timestamp_seconds";
            out.head(
                name,
                "gauge",
                "When this node last found every backup in the second store.",
            );
            out.sample(name, &[], seconds(at.0));
        }
    }
    unit(&mut out, status);
    etcd(&mut out, status);
    peers(&mut out, status);
    if let Some(backup) = &node.last_backup {
        out.head(
            "etcd_agent_last_backup_timestamp_seconds",
            "gauge",
            "When the newest full backup was committed.",
        );
        out.sample(
            "etcd_agent_last_backup_timestamp_seconds",
            &[],
            seconds(backup.at.0),
        );
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
            "gauge",
            "When the newest verified backup was verified by a real restore.",
        );
        out.sample(
            "etcd_agent_last_verification_timestamp_seconds",
            &[],
            seconds(last.at.0),
        );
        out.one(
            "etcd_agent_last_verification_ok",
            "That backup was found good.",
            u64::from(last.is_ok()),
        );
    }
    if let Some(at) = node.certificate_not_after {
        out.head(
            "etcd_agent_certificate_expiry_timestamp_seconds",
            "gauge",
            "When the first certificate of the agent or of etcd expires, or one that it depends on.",
        );
        out.sample(
            "etcd_agent_certificate_expiry_timestamp_seconds",
            &[],
            seconds(at.0),
        );
    }
    out.head(
        "etcd_agent_actions_total",
        "counter",
        "Actions executed, by name and result.",
    );
    for ((action, result), count) in locked(&counters.actions).iter() {
        out.sample(
            "etcd_agent_actions_total",
            &[("action", action), ("result", result)],
            count,
        );
    }
    out.0
}

fn backups(out: &mut Text, status: &AdminStatus) {
    let view = &status.backups;
    out.head(
        "etcd_agent_backup_job_failures",
        "gauge",
        "Failures in a row of a job in the store.",
    );
    let jobs = [
        ("increments", &view.increments),
        ("prune", &view.prune),
        ("verify", &view.verify),
    ];
    for (job, state) in jobs {
        out.sample(
            "etcd_agent_backup_job_failures",
            &[("job", job)],
            u64::from(state.failures),
        );
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
            "gauge",
            "Time since something was stored, while there is something to store.",
        );
        out.sample("etcd_agent_increments_lag_seconds", &[], seconds(lag));
    }
}

/// What this agent has stored itself since it started, and what failed.
fn stored(out: &mut Text, counters: &Counters) {
    type Field = (&'static str, &'static str, fn(&Success) -> String);
    let fields: [Field; 4] = [
        (
            "etcd_agent_backup_success_timestamp_seconds",
            "When this agent last stored a backup of the kind.",
            |last| seconds(last.at.0),
        ),
        (
            "etcd_agent_backup_success_revision",
            "The revision that it holds at least.",
            |last| last.revision.0.to_string(),
        ),
        (
            "etcd_agent_backup_success_size_bytes",
            "Its stored size.",
            |last| last.size_bytes.to_string(),
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
        out.head(name, "gauge", help);
        for (kind, last) in kinds.iter() {
            out.sample(name, &[("kind", kind)], value(last));
        }
    }
    let name = "etcd_agent_backup_failures_total";
    out.head(
        name,
        "counter",
        "Failed tries of this agent to store a backup, by kind and by where.",
    );
    for ((kind, cause), count) in locked(&counters.failed).iter() {
        out.sample(name, &[("kind", kind), ("cause", cause)], count);
    }
}

fn unit(out: &mut Text, status: &AdminStatus) {
    let Fact::Known(unit) = &status.node.unit else {
        return;
    };
    out.head(
        "etcd_agent_etcd_unit_state",
        "gauge",
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
        out.sample(
            "etcd_agent_etcd_unit_state",
            &[("state", name)],
            u64::from(unit.active == state),
        );
    }
    out.one(
        "etcd_agent_etcd_held",
        "A person stopped etcd.service.",
        u64::from(unit.held),
    );
}

fn etcd(out: &mut Text, status: &AdminStatus) {
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
            "gauge",
            "Members of the etcd cluster, by role.",
        );
        for (role, count) in [("voter", voters), ("learner", list.members.len() - voters)] {
            out.sample(
                "etcd_agent_members",
                &[("role", role)],
                u64::try_from(count).unwrap_or(u64::MAX),
            );
        }
    }
}

fn peers(out: &mut Text, status: &AdminStatus) {
    if status.starting || status.peers.is_empty() {
        return;
    }
    out.head("etcd_agent_peer_reachable", "gauge", "The peer's agent answers.");
    for (name, fact) in &status.peers {
        out.sample(
            "etcd_agent_peer_reachable",
            &[("peer", name.as_str())],
            u64::from(fact.known().is_some()),
        );
    }
}

/// Milliseconds as seconds with three digits.
fn seconds(ms: u64) -> String {
    format!("{}.{:03}", ms / 1000, ms % 1000)
}

struct Text(String);

impl Text {
    fn head(&mut self, name: &str, kind: &str, help: &str) {
        let _ = writeln!(self.0, "# HELP {name} {help}\n# TYPE {name} {kind}");
    }

    fn sample(&mut self, name: &str, labels: &[(&str, &str)], value: impl std::fmt::Display) {
        self.0.push_str(name);
        if !labels.is_empty() {
            let all: Vec<String> = labels
                .iter()
                .map(|(key, value)| format!("{key}=\"{}\"", escape(value)))
                .collect();
            let _ = write!(self.0, "{{{}}}", all.join(","));
        }
        let _ = writeln!(self.0, " {value}");
    }

    fn one(&mut self, name: &str, help: &str, value: u64) {
        self.head(name, "gauge", help);
        self.sample(name, &[], value);
    }
}

/// Escapes a label value for the text format.
fn escape(value: &str) -> String {
    value
        .replace('\\', "\\\\")
        .replace('"', "\\\"")
        .replace('\n', "\\n")
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
        let mut out = Text(String::new());
        stored(&mut out, &counters);
        for line in [
            "etcd_agent_backup_success_timestamp_seconds{kind=\"full\"} 1700000000.042",
            "etcd_agent_backup_success_revision{kind=\"full\"} 7",
            "etcd_agent_backup_success_revision{kind=\"increment\"} 9",
            "etcd_agent_backup_success_size_bytes{kind=\"full\"} 9",
            "etcd_agent_backup_success_duration_seconds{kind=\"full\"} 1.500",
            "etcd_agent_backup_failures_total{kind=\"full\",cause=\"etcd\"} 1",
            "etcd_agent_backup_failures_total{kind=\"full\",cause=\"store\"} 2",
        ] {
            assert!(out.0.lines().any(|has| has == line), "{line} in {}", out.0);
        }
    }

    #[test]
    fn labels_are_escaped() {
        assert_eq!(escape("a\"b\\c\nd"), "a\\\"b\\\\c\\nd");
        assert_eq!(seconds(1_700_000_000_042), "1700000000.042");
    }
}
