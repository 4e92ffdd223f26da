//! Waits until an upgrade or a downgrade of etcd is done, or cannot go on, or until its members are back.

use std::time::{Duration, Instant};

use super::client::Client;
use super::direct;
use super::exit::Failure;
use super::health;
use super::progress::Progress;
use super::upgrade_target::Target;
use super::version_path::{members, running};
use super::wait::{self, Deadline};
use crate::model::{AdminStatus, Directives, EtcdSelection, EtcdVersion, NodeName, NodeStatus};

/// Trouble that lasts for this long ends the command.
const LONGEST: Duration = Duration::from_secs(90);

/// How far an upgrade is.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum UpgradeProgress {
    /// It is done, as far as it was ordered.
    Done,
    /// What it waits for, and what may keep it from going on.
    Waits(String, Option<Trouble>),
    /// It was cancelled, or another order has replaced it.
    Ended(String),
}

/// What ends an upgrade or a downgrade if it lasts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Trouble {
    /// The etcd of this node was given the version, and does not serve.
    NotServing(NodeName),
    /// The etcd of this node was given the version, and still serves with another one.
    NotRestarted(NodeName),
    /// This node does not take the version, and why.
    Refuses(NodeName, String),
    /// The agent of this member does not answer.
    Silent(NodeName),
    /// All members serve, and etcd does not convert its data for a downgrade.
    NotConverting,
}

impl Trouble {
    /// True if it is the same as before. The text of a refusal may change.
    fn lasts(&self, before: &Self) -> bool {
        match (self, before) {
            (Self::Refuses(node, _), Self::Refuses(other, _)) => node == other,
            _ => self == before,
        }
    }

    fn text(&self, to: Target) -> String {
        let (limit, etcd) = (LONGEST.as_secs(), to.etcd());
        match self {
            Self::NotRestarted(node) => format!(
                "{node} was given {etcd} and still runs another version after {limit} s: `etcd-agent plan` there says why"
            ),
            Self::Refuses(node, why) => format!("{node} has not taken {etcd} for {limit} s: {why}"),
            Self::Silent(node) => format!(
                "the agent of {node} has not answered for {limit} s, and no other node gets {etcd} before it does: see \
                 `systemctl status etcd-agent` there"
            ),
            Self::NotServing(node) => format!(
                "{etcd} on {node} has not served for {limit} s, and no other node gets it before it does: see \
                 `journalctl -u etcd` there"
            ),
            Self::NotConverting => format!(
                "etcd has not converted its data for the downgrade to {to} within {limit} s: see `etcd-agent status` and \
                 `journalctl -u etcd`"
            ),
        }
    }
}

/// How far an upgrade to `to` is, as this agent sees it.
pub(super) fn upgrade_progress(status: &AdminStatus, order: &Directives, to: Target) -> UpgradeProgress {
    let mine = &status.node.steering.directives;
    if mine.is_newer_than(order) && mine.etcd != order.etcd {
        let text = "another order took its place, or it was cancelled: see `etcd-agent status`";
        return UpgradeProgress::Ended(text.to_owned());
    }
    let behind = direct::behind(status, order);
    if !behind.is_empty() {
        return UpgradeProgress::Waits(direct::not_adopted(&behind), None);
    }
    let only = order
        .etcd
        .as_ref()
        .and_then(|selected| selected.pause_after.as_ref());
    let serving = health::serving(status);
    let (mut done, mut down, mut converts, mut waiting) = (0, Vec::new(), Vec::new(), Vec::new());
    let mut troubles = Vec::new();
    let mut refuses = None;
    for (node, seen) in members(status).filter(|(node, _)| only.is_none_or(|only| only == *node)) {
        let stored = serving.get(node).and_then(|etcd| etcd.storage_version);
        if !serving.contains_key(node) {
            down.push(node.clone());
        } else if !to.runs(seen) {
            waiting.push(node.clone());
            if let Some(why) = &seen.version_trouble {
                troubles.push(format!("on {node}: {why}"));
                refuses.get_or_insert(Trouble::Refuses(node.clone(), why.clone()));
            }
        } else if only.is_none() && stored.is_some_and(|stored| !is_format_of(running(seen), stored)) {
            converts.push(node.clone());
        } else {
            done += 1;
        }
    }
    // The agent of a member may be silent for a moment.
    let silent = health::silent_members(status).into_iter();
    let silent: Vec<&NodeName> = silent
        .filter(|node| only.is_none_or(|only| only == *node))
        .collect();
    down.extend(silent.iter().copied().cloned());
    if done > 0 && down.is_empty() && converts.is_empty() && waiting.is_empty() {
        return UpgradeProgress::Done;
    }
    let mut text = format!("{done} with {}", to.etcd());
    for (what, nodes) in [
        ("not serving", &down),
        ("etcd converts its data", &converts),
        ("to come", &waiting),
    ] {
        if !nodes.is_empty() {
            let names: Vec<&str> = nodes.iter().map(NodeName::as_str).collect();
            text = format!("{text}; {what}: {}", names.join(", "));
        }
    }
    for trouble in troubles {
        text = format!("{text}; {trouble}");
    }
    let selected = |node: &NodeName| {
        let mut all = members(status);
        let found = all.find(|(other, _)| *other == node);
        found.is_some_and(|(_, seen)| to.is_assigned(seen))
    };
    let older = order.etcd.as_ref().filter(|selected| selected.downgrade);
    let older = older.and_then(|selected| selected.version);
    let has_to_convert =
        down.is_empty() && older.is_some_and(|older| serving.values().any(|etcd| etcd.has_newer_data(older)));
    let not_serving = down.into_iter().find(&selected).map(Trouble::NotServing);
    // A pause holds all of it back.
    let stuck = || {
        let not_restarted = waiting.into_iter().find(&selected).map(Trouble::NotRestarted);
        let silent = silent.first().map(|node| Trouble::Silent((*node).clone()));
        let converting = has_to_convert.then_some(Trouble::NotConverting);
        not_restarted.or(refuses).or(silent).or(converting)
    };
    let trouble = not_serving.or_else(|| stuck().filter(|_| mine.paused.is_none()));
    UpgradeProgress::Waits(text, trouble)
}

/// True if data of the format `stored` is what an etcd of this version writes.
fn is_format_of(version: Option<EtcdVersion>, stored: EtcdVersion) -> bool {
    version.is_some_and(|version| version.series() == stored.series())
}

/// Waits until an upgrade or a downgrade to `to` is done. Returns why it does not go on, for people, if trouble lasts.
pub(super) async fn until_done(
    client: &Client,
    order: &Directives,
    to: Target,
    deadline: &Deadline,
) -> Result<Option<String>, Failure> {
    let noun = order.etcd.as_ref().map_or("upgrade", EtcdSelection::noun);
    let mut progress = Progress::new();
    let mut trouble: Option<(Trouble, Instant)> = None;
    loop {
        match wait::status(client).await? {
            Err(text) => progress.say(&text),
            Ok(status) => match upgrade_progress(&status, order, to) {
                UpgradeProgress::Done => return Ok(None),
                UpgradeProgress::Ended(text) => return Err(Failure::failed(text)),
                UpgradeProgress::Waits(text, now) => {
                    progress.say(&text);
                    trouble = now.map(|now| match trouble.take() {
                        Some((before, since)) if now.lasts(&before) => (now, since),
                        _ => (now, Instant::now()),
                    });
                }
            },
        }
        if let Some((trouble, since)) = &trouble
            && since.elapsed() >= LONGEST
        {
            return Ok(Some(trouble.text(to)));
        }
        deadline.next(&format!("the {noun}"), &progress).await?;
    }
}

/// Waits until all members serve with the etcd of before.
pub(super) async fn until_back(
    client: &Client,
    order: &Directives,
    deadline: &Deadline,
) -> Result<(), Failure> {
    let mut progress = Progress::new();
    let before = order.etcd_version();
    loop {
        match wait::status(client).await? {
            Err(text) => progress.say(&text),
            Ok(status) => {
                let serving = health::serving(&status);
                let is_back = |node: &NodeName, seen: &NodeStatus| {
                    let assigned = seen.assignment.as_ref();
                    serving.contains_key(node)
                        && seen.steering.wants_restart.is_none()
                        && assigned.is_some_and(|assigned| assigned.etcd_version == before)
                };
                let left = members(&status).filter(|(node, seen)| !is_back(node, seen));
                let left = left.map(|(node, _)| node).chain(health::silent_members(&status));
                let left: Vec<&str> = left.map(NodeName::as_str).collect();
                if left.is_empty() && direct::behind(&status, order).is_empty() {
                    return Ok(());
                }
                progress.say(&format!("not back yet: {}", left.join(", ")));
            }
        }
        deadline.next("the way back", &progress).await?;
    }
}
