//! The nodes: roles, lag and space.

use maud::{Markup, html};

use super::parts;
use super::picture::Picture;
use crate::model::{AdminStatus, EtcdStatus, Fact, NodeStatus, health, wording};

const HEAD: [&str; 10] = [
    "Node",
    "Role",
    "etcd.service",
    "Data",
    "etcd",
    "Revision",
    "Lag",
    "Database",
    "Epoch",
    "Agent",
];

pub(super) fn section(picture: &Picture) -> Markup {
    let status = &picture.status;
    let leader = leaders_index(status);
    let rows: Vec<Vec<Markup>> = health::nodes(status)
        .map(|(name, seen)| {
            let here = *name == status.node.node;
            let name = html! { (name) @if here { " (here)" } };
            match seen {
                Fact::Known(node) => {
                    let quota = status.vitals.etcd_quota_bytes.filter(|_| here);
                    row(name, node, leader, quota)
                }
                Fact::Absent => unknown(name, "never answered"),
                Fact::Unreachable(_) => unknown(name, "out of reach"),
            }
        })
        .collect();
    html! {
        section aria-labelledby="nodes" {
            h2 #nodes { "Nodes" }
            p {
                (status.size) " voters are wanted. "
                @match &status.coordinator {
                    Some(node) => { (node) " decides for the cluster." }
                    None => { "No node decides for the cluster now." }
                }
            }
            (parts::table("Each node by its own last report", &HEAD, &rows))
            p .small {
                "Lag is what the log of the leader holds and this member has not applied. A report of another node \
                 can be 25 seconds old, so a busy cluster shows more lag than there is."
            }
        }
    }
}

/// The newest index in the log of the leader, as it last reported.
fn leaders_index(status: &AdminStatus) -> Option<u64> {
    let etcds = health::nodes(status).filter_map(|(_, seen)| seen.known().copied()?.etcd.known());
    let leaders = etcds.filter(|etcd| etcd.leader == Some(etcd.member_id));
    leaders.map(|etcd| etcd.index).max()
}

/// The row of a node that reports nothing. Why that is so is among the problems.
fn unknown(name: Markup, why: &str) -> Vec<Markup> {
    let dashes = std::iter::repeat_with(|| html! { "-" }).take(HEAD.len() - 2);
    [name, html! { (why) }].into_iter().chain(dashes).collect()
}

fn row(name: Markup, node: &NodeStatus, leader: Option<u64>, quota: Option<u64>) -> Vec<Markup> {
    let etcd = node.etcd.known();
    let or_dash = |text: Option<String>| html! { (text.unwrap_or_else(|| "-".to_owned())) };
    let epoch = node
        .assignment
        .as_ref()
        .map(|assignment| assignment.epoch.to_string());
    vec![
        name,
        html! { (wording::role(node)) },
        or_dash(Some(
            node.unit
                .known()
                .map_or_else(|| "unknown".to_owned(), wording::unit),
        )),
        or_dash(Some(
            node.data.known().map_or("unknown", wording::data).to_owned(),
        )),
        or_dash(etcd.map(|etcd| etcd.version.clone())),
        or_dash(etcd.map(|etcd| parts::number(etcd.revision.0))),
        or_dash(etcd.map(|etcd| lag(etcd, leader))),
        or_dash(etcd.map(|etcd| space(etcd, quota))),
        or_dash(epoch),
        or_dash(Some(node.agent_version.clone())),
    ]
}

fn lag(etcd: &EtcdStatus, leader: Option<u64>) -> String {
    let newest = leader.unwrap_or(etcd.index).max(etcd.index);
    match newest.saturating_sub(etcd.applied) {
        1 => "1 entry".to_owned(),
        entries => format!("{} entries", parts::number(entries)),
    }
}

/// The size of the database, the part of it that is in use, and its quota.
fn space(etcd: &EtcdStatus, quota: Option<u64>) -> String {
    let mut text = wording::size(etcd.db_size_bytes);
    if let Some(used) = etcd.db_in_use_bytes {
        text = format!("{text}, {} in use", wording::size(used));
    }
    if let Some(quota) = quota.filter(|quota| *quota > 0) {
        let percent = u128::from(etcd.db_size_bytes) * 100 / u128::from(quota);
        text = format!("{text}, {percent}% of the quota of {}", wording::size(quota));
    }
    text
}
