//! Judges the health of the cluster from the status of this agent; a pure function. The exit code of
//! `status`, the metrics and the status page follow this one judgement.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use super::{AdminStatus, Epoch, EtcdStatus, Fact, MemberId, MemberList, NodeName, NodeStatus};

/// The health of the cluster.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Health {
    /// All wanted members serve, and nothing is wrong.
    Healthy,
    /// It serves, but something is wrong.
    Degraded(Vec<Problem>),
    /// No member serves with a leader. These are the other problems.
    Down(Vec<Problem>),
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

    /// What is wrong.
    pub fn problems(&self) -> &[Problem] {
        match self {
            Self::Degraded(wrong) | Self::Down(wrong) => wrong,
            Self::Healthy | Self::Starting => &[],
        }
    }
}

/// One thing that is wrong.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Problem {
    /// A stable code: one of [`PROBLEMS`], or a halt's reason code. `docs/output.md` explains them.
    pub code: String,
    /// The node that it is about, if it is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub node: Option<NodeName>,
    /// One line for people.
    pub text: String,
    /// What to do, or where to look.
    pub help: String,
}

/// The codes of problems that are not reasons, and what to do.
pub const PROBLEMS: &[(&str, &str)] = &[
    (
        "members-missing",
        "`etcd-agent plan` says what the agent waits for",
    ),
    (
        "node-unreachable",
        "on that node: `systemctl status etcd-agent`; its network and its certificate",
    ),
    ("node-never-answered", "start etcd-agent on that node"),
    (
        "etcd-error",
        "`etcd-agent alarm list`; on that node: `journalctl -u etcd`",
    ),
    ("unit-not-active", "on that node: `systemctl status etcd`"),
    (
        "member-without-vote",
        "nothing while it catches up; `etcd-agent plan`",
    ),
    ("member-not-serving", "on its node: `journalctl -u etcd`"),
    ("store-unusable", "`etcd-agent store check`"),
    (
        "configuration-refused",
        "`etcd-agent config check`, then `systemctl reload etcd-agent`",
    ),
    (
        "api-tls-unusable",
        "install a certificate, its key and its authority; the agent reads them again by itself",
    ),
    ("backup-unverified", "`etcd-agent backup verify`"),
    ("settings-in-the-way", "`systemctl cat etcd`"),
];

impl Problem {
    /// True if the agent does nothing more until a person acts: the code is that of a reason.
    pub fn is_halt(&self) -> bool {
        PROBLEMS.iter().all(|(code, _)| *code != self.code)
    }

    fn new(code: &str, node: Option<&NodeName>, text: String) -> Self {
        let help = PROBLEMS.iter().find(|(known, _)| *known == code);
        Self {
            code: code.to_owned(),
            node: node.cloned(),
            text,
            help: help.map_or_else(
                || format!("etcd-agent-reasons(7): {code}"),
                |(_, help)| (*help).to_owned(),
            ),
        }
    }
}

/// Judges the health.
pub fn judge(status: &AdminStatus) -> Health {
    if status.starting {
        return Health::Starting;
    }
    let wrong = problems(status);
    if serving(status).is_empty() {
        Health::Down(wrong)
    } else if wrong.is_empty() {
        Health::Healthy
    } else {
        Health::Degraded(wrong)
    }
}

/// What is wrong. Empty while the agent has not observed the cluster yet.
pub fn problems(status: &AdminStatus) -> Vec<Problem> {
    if status.starting {
        return Vec::new();
    }
    let good = serving(status);
    let mut wrong = Vec::new();
    let mut add =
        |code: &str, node: Option<&NodeName>, text: String| wrong.push(Problem::new(code, node, text));
    if good.len() < status.size {
        let text = format!("{} of {} wanted members serve", good.len(), status.size);
        add("members-missing", None, text);
    }
    for (node, seen) in nodes(status) {
        match seen {
            Fact::Unreachable(why) => {
                add(
                    "node-unreachable",
                    Some(node),
                    format!("{node} is out of reach: {why}"),
                );
            }
            Fact::Absent => add(
                "node-never-answered",
                Some(node),
                format!("{node} has never answered"),
            ),
            Fact::Known(seen) => {
                let Some(etcd) = seen.etcd.known() else { continue };
                for error in &etcd.errors {
                    add("etcd-error", Some(node), format!("{node}: {error}"));
                }
                if !seen.is_active() {
                    let text = format!("{node}: etcd serves, etcd.service is not active");
                    add("unit-not-active", Some(node), text);
                }
            }
        }
    }
    let ids: BTreeSet<MemberId> = good.values().map(|etcd| etcd.member_id).collect();
    if let Some(list) = status.node.members.known() {
        for member in &list.members {
            let node = nodes(status)
                .map(|(node, _)| node)
                .find(|node| node.as_str() == member.name);
            let name = if member.name.is_empty() {
                "not started"
            } else {
                member.name.as_str()
            };
            if member.is_learner {
                let text = format!("member {} ({name}) has no vote yet", member.id);
                add("member-without-vote", node, text);
            } else if !ids.contains(&member.id) {
                let text = format!("member {} ({name}) does not serve", member.id);
                add("member-not-serving", node, text);
            }
        }
    }
    let own = Some(&status.node.node);
    if let Some(error) = &status.store_error {
        add("store-unusable", own, format!("the store: {error}"));
    }
    if let Some(error) = &status.config_error {
        add(
            "configuration-refused",
            own,
            format!("the new configuration was refused: {error}"),
        );
    }
    if let Some(error) = &status.api_tls_error {
        add("api-tls-unusable", own, format!("[api.tls]: {error}"));
    }
    // Failures that are retried are listed too: a backup that could not be verified is not known to be valid.
    if let Some(error) = &status.backups.verify.error {
        add(
            "backup-unverified",
            own,
            format!("no backup could be verified: {error}"),
        );
    }
    for line in &status.conflicts {
        add(
            "settings-in-the-way",
            own,
            format!("something overrides etcd-agent: {line}"),
        );
    }
    for reason in status.decision.reasons.iter().filter(|reason| reason.halt) {
        add(
            reason.code.as_str(),
            own,
            format!("waits for you: {}", reason.text),
        );
    }
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

/// The voters that serve with a leader in an epoch after `before`, and that systemd knows to run.
pub fn serving_after(status: &AdminStatus, before: Epoch) -> usize {
    let good = serving(status);
    nodes(status)
        .filter_map(|(node, seen)| {
            let seen = seen.known()?;
            (seen.is_active() && good.contains_key(node)).then_some(seen.assignment.as_ref()?)
        })
        .filter(|assignment| assignment.epoch > before)
        .count()
}

/// The newest member list that was read through quorum, or else the one that this node's etcd has read alone, which may
/// be an old one. `None` if there is none yet.
pub fn newest_list(status: &AdminStatus) -> Option<&MemberList> {
    let lists = nodes(status).filter_map(|(node, seen)| Some((node, seen.known()?.members.known()?)));
    let newest = lists
        .filter(|(_, list)| list.linearizable)
        .max_by_key(|(node, list)| (list.term, **node == status.node.node));
    newest.map(|(_, list)| list).or(status.node.members.known())
}

/// The nodes that do not answer and may have a member: those in the newest member list, or all of them while there is
/// no list.
pub fn silent_members(status: &AdminStatus) -> BTreeSet<&NodeName> {
    let listed = newest_list(status);
    nodes(status)
        .filter(|(_, seen)| seen.known().is_none())
        .map(|(node, _)| node)
        .filter(|node| listed.is_none_or(|list| list.has_node(node)))
        .collect()
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
