//! Moves between versions of etcd that no rolling upgrade or downgrade joins: the cluster is put into quarantine,
//! backed up, and restored as a new epoch with the other version. The command gives the orders one after the
//! other, and each is judged here.

use std::collections::BTreeSet;

use super::archive_trouble;
use super::context::{Context, names};
use super::coordinator_view::as_coordinator;
use super::epoch_etcd::lack;
use super::ignored_settings;
use super::member_health::known_members;
use super::recovery::new_members;
use super::upgrade::disturbed;
use crate::model::{
    ClusterId, EtcdStatus, EtcdVersion, Fact, Memory, NOSPACE_LIFTS_QUARANTINE, NodeName, Observation,
};

/// The oldest version to which a cluster can be moved: the first whose learners etcd-agent can add.
const OLDEST: (u64, u64) = (3, 4);

/// Why the cluster cannot be moved to this version; `None` if it can. The observation has fresh statuses of all
/// nodes that answer.
pub fn move_objection(observation: &Observation, to: EtcdVersion) -> Option<String> {
    let view = as_coordinator(observation);
    let cx = Context::new(&view, &Memory::default());
    if to.major != OLDEST.0 || to.series() < OLDEST {
        return Some(format!(
            "a cluster cannot be moved to etcd {to}: expected {}.{} or a newer {}.x",
            OLDEST.0, OLDEST.1, OLDEST.0
        ));
    }
    if let Some(why) = to.target_objection() {
        return Some(why);
    }
    if cx.spec.backup_interval.is_none() {
        return Some("no store is configured, and a move goes through a backup: set store.url".to_owned());
    }
    if cx.spec.nodes.len() > 1 && !cx.spec.store_shared {
        return Some(
            "the store is not shared, so the other nodes could not fetch the backup: set store.url to one that all nodes \
             reach"
                .to_owned(),
        );
    }
    let list = match known_members(&cx) {
        Ok(list) => list,
        Err(reason) => return Some(reason.text),
    };
    if let Some(node) = unknown(&cx).next() {
        return Some(format!(
            "{node} does not answer, and each node takes part in a move: start its agent, or remove it from \
             cluster.nodes"
        ));
    }
    lacks_space(&cx)
        .or_else(|| disturbed(&cx, &view, list))
        .or_else(|| lack(&cx, to))
        .or_else(|| archive_trouble::objection(&cx, &new_members(&cx), &BTreeSet::new()))
        .or_else(|| ignored_settings::objection(cx.spec, to))
}

/// Why the databases have too little space for a quarantine. The next write of a client would raise NOSPACE.
fn lacks_space(cx: &Context<'_>) -> Option<String> {
    let nodes = cx.known_nodes();
    let raised = |etcd: &EtcdStatus| etcd.has_no_space();
    if nodes
        .iter()
        .any(|(_, status)| status.etcd.known().is_some_and(raised))
    {
        return Some(NOSPACE_LIFTS_QUARANTINE.to_owned());
    }
    let (node, _) = nodes
        .into_iter()
        .find(|(_, status)| status.steering.defrag.full)?;
    Some(format!(
        "the database on {node} has nearly reached its quota, and the alarm NOSPACE would lift the quarantine in etcd 3.4 and \
         3.5: first free space (`etcdctl compact REVISION` with the revision of `etcd-agent status`, then `etcd-agent defrag \
         --rolling`) or set a larger space.quota"
    ))
}

/// The nodes of the configuration that did not answer.
fn unknown<'a>(cx: &Context<'a>) -> impl Iterator<Item = &'a NodeName> {
    let obs = cx.obs;
    let peers = cx.spec.nodes.keys().filter(|node| **node != cx.spec.node);
    peers.filter(|node| obs.peers.get(*node).and_then(Fact::known).is_none())
}

/// Why the quarantine of the cluster `serves` must not be ended now; `None` if it may be. The observation has
/// fresh statuses of all nodes that answer. With `force` a node may be silent, but no elector that answers
/// may have voted for another epoch: a majority may have, and the store or another elector may confirm that
/// epoch at any moment.
pub fn end_objection(observation: &Observation, serves: ClusterId, force: bool) -> Option<String> {
    let cx = Context::new(observation, &Memory::default());
    let known = cx.known_nodes();
    let newest = known.iter().filter_map(|(_, status)| status.genesis.as_ref());
    let newest = newest.max_by_key(|genesis| genesis.epoch);
    if let Some(newest) = newest.filter(|newest| newest.cluster_id != serves) {
        return Some(format!(
            "the etcd of this node is not of epoch {}, which has replaced it: wait until it is",
            newest.epoch
        ));
    }
    let restoring = known.iter().find(|(_, status)| status.steering.restoring);
    if let Some((node, _)) = restoring {
        return Some(format!(
            "{node} is about to open a new epoch from a backup: wait for it, and see `etcd-agent status` there"
        ));
    }
    let open = newest.map(|newest| newest.epoch).unwrap_or_default();
    if let Some((node, status)) = known.iter().find(|(_, status)| status.voted > open) {
        return Some(format!(
            "the elector on {node} may have voted for epoch {}, which may open at any moment, and what is written before it \
             would be lost: open it with `etcd-agent move --to VERSION` and another version than runs, or with `etcd-agent \
             restore BACKUP`",
            status.voted
        ));
    }
    let silent: Vec<&NodeName> = unknown(&cx).collect();
    (!silent.is_empty() && !force).then(|| {
        format!(
            "{} may be about to open a new epoch, and what is written before it would be lost: wait until it answers. If \
             it is down for good, add --force",
            names(silent)
        )
    })
}
