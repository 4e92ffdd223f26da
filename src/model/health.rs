//! Judges the health of the cluster from the status of this agent; a pure function. The exit code of `status`,
//! the metrics and the status page follow this one judgement.

use std::collections::{BTreeMap, BTreeSet};

use super::{AdminStatus, Epoch, EtcdStatus, Fact, MemberId, NodeName, NodeStatus};

/// The health of the cluster.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Health {
    /// All wanted members serve, and nothing is wrong.
    Healthy,
    /// It serves, but something is wrong; each line names one problem.
    Degraded(Vec<String>),
    /// No member serves with a leader; each line names another problem.
    Down(Vec<String>),
    /// The agent has just started and has not observed the cluster yet.
    Starting,
}

impl Health {
    /// All words, the best state first.
    pub const WORDS: [&str; 4] = ["healthy", "degraded", "down", "starting"];

    /// The state as one word, for metrics and the status page.
    pub fn word(&self) -> &'static str {
        match self {
            Self::Healthy => "healthy",
            Self::Degraded(_) => "degraded",
            Self::Down(_) => "down",
            Self::Starting => "starting",
        }
    }

    /// What is wrong, one problem per line.
    pub fn problems(&self) -> &[String] {
        match self {
            Self::Degraded(wrong) | Self::Down(wrong) => wrong,
            Self::Healthy | Self::Starting => &[],
        }
    }
}

/// Judges the health.
pub fn judge(status: &AdminStatus) -> Health {
    if status.starting {
        return Health::Starting;
    }
    let good = serving(status);
    let wrong = wrong(status, &good);
    if good.is_empty() {
        Health::Down(wrong)
    } else if wrong.is_empty() {
        Health::Healthy
    } else {
        Health::Degraded(wrong)
    }
}

fn wrong(status: &AdminStatus, good: &BTreeMap<&NodeName, &EtcdStatus>) -> Vec<String> {
    let mut wrong = Vec::new();
    if good.len() < status.size {
        wrong.push(format!("{} of {} wanted members serve", good.len(), status.size));
    }
    for (node, seen) in nodes(status) {
        match seen {
            Fact::Unreachable(why) => wrong.push(format!("{node} is out of reach: {why}")),
            Fact::Absent => wrong.push(format!("{node} has never answered")),
            Fact::Known(seen) => {
                let Some(etcd) = seen.etcd.known() else { continue };
                wrong.extend(etcd.errors.iter().map(|error| format!("{node}: {error}")));
                if !seen.is_active() {
                    wrong.push(format!("{node}: etcd serves, etcd.service is not active"));
                }
            }
        }
    }
    let ids: BTreeSet<MemberId> = good.values().map(|etcd| etcd.member_id).collect();
    if let Some(list) = status.node.members.known() {
        for member in &list.members {
            let name = if member.name.is_empty() {
                "not started"
            } else {
                member.name.as_str()
            };
            if member.is_learner {
                wrong.push(format!("member {} ({name}) has no vote yet", member.id));
            } else if !ids.contains(&member.id) {
                wrong.push(format!("member {} ({name}) does not serve", member.id));
            }
        }
    }
    let more = [
        ("the store: ", &status.store_error),
        ("the new configuration was refused: ", &status.config_error),
    ];
    for (what, error) in more {
        wrong.extend(error.iter().map(|error| format!("{what}{error}")));
    }
    // Failures that are retried are listed too: a backup that could not be verified is not known to be valid.
    wrong.extend(
        status
            .backups
            .verify
            .error
            .iter()
            .map(|error| format!("no backup could be verified: {error}")),
    );
    wrong.extend(
        status
            .conflicts
            .iter()
            .map(|line| format!("something overrides etcd-agent: {line}")),
    );
    let halts = status.decision.reasons.iter().filter(|reason| reason.halt);
    wrong.extend(halts.map(|reason| format!("waits for you: {}", reason.text)));
    wrong
}

/// The voters that serve with a leader, by node. If they form several clusters, only the largest counts.
pub fn serving(status: &AdminStatus) -> BTreeMap<&NodeName, &EtcdStatus> {
    let mut good: BTreeMap<&NodeName, &EtcdStatus> = nodes(status)
        .filter_map(|(node, seen)| Some((node, seen.known()?.etcd.known()?)))
        .filter(|(_, etcd)| etcd.leader.is_some() && !etcd.is_learner)
        .collect();
    // The largest group.
    let mut groups: BTreeMap<_, usize> = BTreeMap::new();
    for etcd in good.values() {
        *groups.entry(etcd.cluster_id).or_default() += 1;
    }
    if let Some((cluster, _)) = groups.into_iter().max_by_key(|(_, count)| *count) {
        good.retain(|_, etcd| etcd.cluster_id == cluster);
    }
    good
}

/// The voters that serve with a leader in an epoch after `before`.
pub fn serving_after(status: &AdminStatus, before: Epoch) -> usize {
    let good = serving(status);
    nodes(status)
        .filter_map(|(node, seen)| Some((node, seen.known()?.assignment.as_ref()?)))
        .filter(|(node, assignment)| assignment.epoch > before && good.contains_key(node))
        .count()
}

/// The newest epoch that any node reports.
pub fn newest_epoch(status: &AdminStatus) -> Epoch {
    nodes(status)
        .filter_map(|(_, seen)| seen.known().copied())
        .map(|seen| seen.newest_epoch)
        .max()
        .unwrap_or_default()
}

/// Every node, this one included, in order of their names.
pub fn nodes(status: &AdminStatus) -> impl Iterator<Item = (&NodeName, FactRef<'_>)> {
    let mut all: BTreeMap<&NodeName, FactRef<'_>> = status
        .peers
        .iter()
        .map(|(node, seen)| {
            let seen = match seen {
                Fact::Known(seen) => Fact::Known(seen),
                Fact::Absent => Fact::Absent,
                Fact::Unreachable(why) => Fact::Unreachable(why.clone()),
            };
            (node, seen)
        })
        .collect();
    all.insert(&status.node.node, Fact::Known(&status.node));
    all.into_iter()
}

/// The status of one node.
pub type FactRef<'a> = Fact<&'a NodeStatus>;
