//! Metrics for Prometheus.

mod backups;
mod encode;
mod process;
#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests;
mod vitals;

use std::collections::BTreeSet;

use prometheus_client::metrics::MetricType;

use super::counters::Counters;
use super::process::Process;
use crate::model::health::{self, Health};
use crate::model::{ActiveState, AdminStatus, AlarmKind, Fact};

use backups::{backups, stored};
pub use encode::Format;
use encode::{Metrics, seconds};
use process::process;
use vitals::vitals;

/// The body of `GET /metrics`. An unknown value is omitted, never shown as zero.
pub fn exposition(status: &AdminStatus, counters: &Counters, used: &Process, format: Format) -> String {
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
    out.head(
        "etcd_agent_build",
        MetricType::Info,
        "The build of the agent: its version and the architecture that it was compiled for.",
    );
    let arch = std::env::consts::ARCH;
    out.sample(&[("version", &node.agent_version), ("arch", arch)], 1);
    out.head(
        "etcd_agent_health",
        MetricType::Gauge,
        "The verdict of `etcd-agent status`: 1 for the one that holds.",
    );
    let holds = health::judge(status).word();
    for word in Health::WORDS {
        out.sample(&[("state", word)], u64::from(word == holds));
    }
    vitals(&mut out, &status.vitals);
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
        "etcd_agent_paused",
        "An operator ordered a pause.",
        u64::from(node.steering.directives.paused.is_some()),
    );
    if !status.decision.reasons.is_empty() {
        out.head(
            "etcd_agent_reason",
            MetricType::Gauge,
            "The reasons of the last decision, by code: see etcd-agent-reasons(7).",
        );
        let codes: BTreeSet<&str> = status.decision.reasons.iter().map(|r| r.code.as_str()).collect();
        for code in codes {
            out.sample(&[("code", code)], 1);
        }
    }
    out.one(
        "etcd_agent_reboot_lock_held",
        "This host holds the reboot lock.",
        u64::from(node.steering.reboot_locks.own.hold.is_some()),
    );
    out.one(
        "etcd_agent_wanted_voters",
        "How many voters are wanted (cluster.size).",
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
            "The revision that the newest full backup holds at least.",
            backup.revision.0,
        );
        out.one(
            "etcd_agent_last_backup_size_bytes",
            "The stored size of the newest full backup.",
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
            "The newest verified backup was found good.",
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
    for (action, result, count) in counters.actions() {
        out.sample(&[("action", action.as_str()), ("result", result.as_str())], count);
    }
    process(&mut out, used);
    out.encoded(format)
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
    out.one(
        "etcd_agent_conflicts",
        "Settings of etcd.service that contradict the agent's.",
        u64::try_from(status.conflicts.len()).unwrap_or(u64::MAX),
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
        if let Some(used) = etcd.db_in_use_bytes {
            out.one(
                "etcd_agent_etcd_db_in_use_bytes",
                "The bytes of the backend database that are in use.",
                used,
            );
        }
        out.one(
            "etcd_agent_etcd_revision",
            "The current revision of the local etcd.",
            etcd.revision.0,
        );
        out.one(
            "etcd_agent_etcd_raft_term",
            "The raft term of the local etcd.",
            etcd.term.0,
        );
        out.head(
            "etcd_agent_etcd_alarm",
            MetricType::Gauge,
            "The local etcd reports this alarm of a member: 1 for each that is raised.",
        );
        for alarm in [AlarmKind::NoSpace, AlarmKind::Corrupt] {
            let name = alarm.to_string();
            let raised = etcd.alarms().any(|raised| raised.starts_with(&name));
            out.sample(&[("type", &name)], u64::from(raised));
        }
    }
    if let Some(check) = &status.node.steering.hash_check {
        out.one(
            "etcd_agent_hash_check_timestamp_seconds",
            "When this node last compared the members' data, as coordinator.",
            check.at.0 / 1000,
        );
        let differ = check.found.corrupt.len() + check.found.unclear.len();
        out.one(
            "etcd_agent_members_differing",
            "Voters whose data differs from the others', in this node's last comparison as coordinator.",
            u64::try_from(differ).unwrap_or(u64::MAX),
        );
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
