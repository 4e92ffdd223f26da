//! Data that cannot be replaced, because their directory cannot be renamed. Its owner finds that out while etcd
//! runs (`src/unit/data/archive_trouble.rs`). An order that replaces data is refused then, before any etcd is
//! stopped for it.

use std::collections::{BTreeMap, BTreeSet};

use super::context::Context;
use super::epoch_etcd::unchanged;
use super::orders::is_out;
use crate::model::{NodeName, ReasonCode};

/// Says on this node why its data cannot be replaced.
pub(super) fn report(cx: &mut Context<'_>) {
    if let Some(why) = &cx.obs.me.archive_trouble {
        let member = "Until then `etcd-agent restore` and `etcd-agent move` are refused";
        let text = match &cx.obs.assignment {
            Some(_) => format!("{why}. {member}"),
            None => why.clone(),
        };
        cx.because(ReasonCode::CannotArchive, text);
    }
}

/// Why no epoch with these `members` is opened from a backup; `None` if no node has reported that it cannot replace its
/// data. Nodes `without` and those that were ordered out do not count, nor does one that has no member and gets none.
///
/// Another node counts only while an etcd that is not its own has a leader, or while this node has no member and cannot
/// know better. Otherwise one node could keep the operator from the last way out (rule 10). `new_members` then leaves
/// it out.
pub(super) fn objection(
    cx: &Context<'_>,
    members: &BTreeMap<NodeName, Vec<String>>,
    without: &BTreeSet<NodeName>,
) -> Option<String> {
    let mut counted = cx.known_nodes().into_iter().filter(|(node, status)| {
        let concerned = status.assignment.is_some() || members.contains_key(*node);
        let prevents = **node == cx.obs.me.node || serves_without(cx, node) || cx.obs.assignment.is_none();
        concerned && prevents && !without.contains(*node) && !is_out(cx, node)
    });
    let (node, why) = counted.find_map(|(node, status)| Some((node, status.archive_trouble.as_ref()?)))?;
    Some(format!(
        "{node} could not replace its data after its etcd was stopped: {why}. Then run `etcd-agent reload` there. For a node \
         that you do not trust, first `etcd-agent member remove NODE`, or stop its agent; {}",
        unchanged(cx, "the order")
    ))
}

/// True if the etcd of another node than this one has a leader.
fn serves_without(cx: &Context<'_>, node: &NodeName) -> bool {
    cx.known_nodes()
        .into_iter()
        .any(|(other, status)| other != node && status.etcd.known().is_some_and(|etcd| etcd.leader.is_some()))
}
