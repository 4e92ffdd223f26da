//! Following the newest epoch: a node runs etcd only for the newest one that it knows (rule 1).

use std::time::Duration;

use super::context::Context;
use super::safety::{newest_epoch, say_unbelieved};
use crate::model::{Action, Epoch};

/// Learns a newer genesis, and stops an etcd that serves an older epoch.
pub(super) fn follow(cx: &mut Context<'_>) -> Option<Action> {
    say_unbelieved(cx);
    let mine = cx.open_epoch();
    let told = cx
        .known_peers()
        .filter_map(|(_, s)| s.genesis.as_ref())
        .filter(|g| g.cluster == cx.spec.cluster && g.objection(mine).is_none())
        .chain(cx.stored_genesis());
    if let Some(newer) = told.filter(|g| g.epoch > mine).max_by_key(|g| g.epoch) {
        cx.because(
            "newer-epoch",
            format!("epoch {} ({}) was chosen", newer.epoch, newer.origin),
        );
        return Some(Action::Learn {
            genesis: Box::new(newer.clone()),
        });
    }

    let newest = newest_epoch(cx);
    let text = outdated(cx, newest)?;
    cx.because("epoch-outdated", text);
    let up = cx.obs.me.unit.known().is_some_and(|unit| unit.active.is_up());
    if up && cx.may_try("stop-etcd", Duration::from_secs(1), Duration::from_secs(30)) {
        return Some(Action::StopEtcd { newest });
    }
    None
}

/// How etcd here is of an older epoch, if it is: by its assignment; or by the newest genesis, which names the clusters
/// that it replaced. The second counts beside any assignment: a process outlives the assignment that it was started with.
fn outdated(cx: &Context<'_>, newest: Epoch) -> Option<String> {
    if let Some(assigned) = cx.obs.assignment.as_ref().filter(|a| a.epoch < newest) {
        return Some(format!(
            "etcd here serves epoch {}, the newest is {newest}",
            assigned.epoch
        ));
    }
    if mutant!(StopForgotten) && cx.obs.assignment.is_some() {
        return None;
    }
    let genesis = cx.genesis()?;
    let etcd = cx.obs.me.etcd.known()?;
    genesis.replaces(etcd.cluster_id).then(|| {
        format!(
            "etcd here is member {} of cluster {}, which epoch {} has replaced",
            etcd.member_id, etcd.cluster_id, genesis.epoch
        )
    })
}
