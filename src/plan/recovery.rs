//! Restore: a new epoch from a backup, on a person's command (rule 6).

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use super::alarms;
use super::archive_trouble;
use super::bootstrap::{become_eligible, propose};
use super::clocks::CLOCK_SKEW;
use super::context::{Context, names};
use super::electors;
use super::epoch_etcd;
use super::failure;
use super::orders::is_out;
use super::removed::removed_by;
use super::safety::{newest_epoch, other_stores_without};
use super::transport;
use crate::model::{
    Action, ActionKind, Assignment, BackupId, Epoch, EpochEtcd, Fact, Genesis, NodeName, OperatorRequest,
    Origin, ReasonCode, UnixMs,
};

/// How many starts in a row an order waits for. With the pauses between them that is half a minute.
const STARTS: u32 = 5;

/// Carries out a restore that a person asked for.
pub(super) fn restore(cx: &mut Context<'_>) -> Option<Action> {
    let asked = cx.obs.requests.iter().find_map(|request| match request {
        OperatorRequest::Restore {
            backup,
            above,
            asked,
            etcd,
            ..
        } => Some((request.clone(), backup.clone(), *above, *asked, *etcd)),
        _ => None,
    });
    #[cfg(feature = "mutants")]
    let asked = asked.or_else(|| crate::mutant::restores_unasked(cx.obs));
    let (request, backup, above, at, etcd) = asked.filter(|_| !mutant!(RestoresDropped))?;
    let opened_since = cx
        .genesis()
        .filter(|genesis| above.is_some_and(|above| genesis.epoch > above));
    if let Some(genesis) = opened_since
        && let Origin::Backup(restored) = &genesis.origin
    {
        let (done, message) = answered_by(cx, genesis, restored, &backup, at)?;
        return Some(Action::Answer {
            request,
            done,
            message,
        });
    }
    let refused = |message| Action::Answer {
        request: request.clone(),
        done: false,
        message,
    };
    if let Some(message) = objection(cx, &request, etcd, &backup) {
        return Some(refused(message));
    }
    let gone = match electors::declared_lost(cx, &request) {
        Ok(gone) => gone,
        Err(message) => return Some(refused(message)),
    };
    electors::report_missing(cx, &gone);
    // An elector with a new memory asks only the configured electors.
    let without = request.without().filter(|node| cx.spec.nodes.contains_key(*node));
    if let Some(action) = become_eligible(cx, &without.cloned().collect()) {
        return Some(action);
    }
    if !cx.obs.elector.eligible {
        return None;
    }
    if cx.spec.store_shared
        && let Fact::Unreachable(why) = &cx.obs.store
    {
        let text = format!("the shared store records each epoch and does not answer: {why}");
        cx.because(ReasonCode::StoreUnreachable, text);
        cx.wake_in(Duration::from_secs(1));
        return None;
    }
    if cx.obs.fetched.as_ref() != Some(&backup) && !mutant!(RestoresUnfetched) {
        if cx.obs.restore.running {
            cx.because(ReasonCode::Fetching, format!("fetching and checking {backup}"));
            return None;
        }
        cx.because(
            ReasonCode::FetchFirst,
            format!("{backup} is fetched and checked before anything is replaced"),
        );
        return cx
            .may_try(
                ActionKind::FetchBackup,
                Duration::from_millis(500),
                Duration::from_secs(10),
            )
            .then_some(Action::FetchBackup { backup });
    }
    let members = new_members(cx);
    let epoch = new_epoch(cx);
    let with = epoch_etcd::etcd_of_epoch(cx, etcd);
    let mut action = propose(cx, epoch, Origin::Backup(backup), members, gone)?;
    if let Action::Propose { genesis, .. } = &mut action {
        genesis.etcd = with;
        // The wall clock may have been set back since the order.
        genesis.created = genesis.created.max(at);
    }
    Some(action)
}

/// Why the backup is not restored, before anything is fetched or changed for it.
fn objection(
    cx: &Context<'_>,
    request: &OperatorRequest,
    etcd: Option<EpochEtcd>,
    backup: &BackupId,
) -> Option<String> {
    let fetch = &cx.obs.restore;
    if let Some(error) = fetch.error.as_ref().filter(|_| fetch.failures >= 3) {
        return Some(format!(
            "{backup} cannot be fetched: {error}; nothing was changed"
        ));
    }
    let without: BTreeSet<NodeName> = request.without().cloned().collect();
    let out = &cx.obs.me.steering.directives.out;
    let counted = cx.spec.nodes.keys();
    let counted = counted.filter(|node| !without.contains(*node) && !out.contains(*node));
    let apart = |differs| {
        format!(
            "{differs}. For one that you do not trust, first `etcd-agent member remove NODE`, or stop its agent; nothing \
             was changed"
        )
    };
    epoch_etcd::objection(cx, etcd, backup)
        .or_else(|| {
            // A node with another store has neither the backup nor the record of the epoch. With a new memory it
            // would vote for another epoch.
            let differs = other_stores_without(cx.obs, &without).filter(|_| !mutant!(RestoresApart));
            differs.map(apart)
        })
        .or_else(|| archive_trouble::objection(cx, &new_members(cx), &without))
        .or_else(|| transport::mixture(cx, counted).map(apart))
}

/// The members of the epoch that a restore opens. A node that cannot replace its data becomes one only if no other node
/// can.
pub(super) fn new_members(cx: &Context<'_>) -> BTreeMap<NodeName, Vec<String>> {
    let mut ready: Vec<&NodeName> = cx
        .known_nodes()
        .into_iter()
        .filter(|(n, s)| (cx.spec.store_shared || **n == cx.spec.node) && s.eligible)
        .map(|(n, _)| n)
        .collect();
    // A node that was ordered out becomes a member only if no other node can. It is removed again once a
    // spare has a vote.
    if ready.iter().any(|node| !is_out(cx, node)) {
        ready.retain(|node| !is_out(cx, node));
    }
    let is_stuck = |node: &NodeName| {
        cx.status_of(node)
            .is_some_and(|seen| seen.archive_trouble.is_some())
    };
    if ready.iter().any(|node| !is_stuck(node)) {
        ready.retain(|node| !is_stuck(node));
    }
    ready
        .iter()
        .take(cx.spec.size)
        .filter_map(|node| cx.spec.peer_url(node).map(|url| ((*node).clone(), vec![url])))
        .collect()
}

/// The epoch that a restore opens. Where all nodes and the store's records are lost, only the backups tell what there
/// was, and `latest` means the highest epoch: the new one ranks above theirs. Where an epoch is known, the next number
/// is taken in any case, because electors may have accepted a value for it, which must not be passed over.
fn new_epoch(cx: &Context<'_>) -> Epoch {
    let newest = newest_epoch(cx);
    let of_backups = cx.obs.highest_backup_epoch;
    let alone = newest.is_zero() && cx.open_epoch().can_believe(of_backups);
    if alone { of_backups.next() } else { newest.next() }
}

/// The answer to an order to restore `backup`, given at `at`, if an epoch was restored since: whether the
/// order is done, and one line. `None` while this node's etcd of that epoch has still to come up.
fn answered_by(
    cx: &Context<'_>,
    genesis: &Genesis,
    restored: &BackupId,
    backup: &BackupId,
    at: UnixMs,
) -> Option<(bool, String)> {
    let epoch = genesis.epoch;
    // This node was cut off when it received the order, and could not know of the restore. Writes since that
    // restore are acknowledged and must not be undone.
    let before = at.since(genesis.created);
    if before > CLOCK_SKEW {
        let message = format!(
            "epoch {epoch} was restored from {restored} {} s before this order, which this node did not know: nothing \
             was changed; ask again if what was written since is to be undone",
            before.as_secs()
        );
        return Some((false, message));
    }
    // Two concurrent restores must not replace each other in turn: the epoch that was opened last stays.
    if restored != backup {
        let message = format!(
            "epoch {epoch} was restored from {restored} meanwhile, so {backup} is not restored over it: ask again if it \
             should be"
        );
        return Some((false, message));
    }
    let own = cx.obs.me.etcd.known();
    let serving = own.filter(|etcd| etcd.cluster_id == genesis.cluster_id && etcd.leader.is_some());
    if serving.is_none()
        && let Some(lost) = failure::quorum_lost(cx)
    {
        let message = format!("epoch {epoch} was opened from {backup}, and does not serve: {lost}");
        return Some((false, message));
    }
    if serving.is_none() && is_to_come_up(cx, genesis) {
        return None;
    }
    let verb = if serving.is_some() {
        "serves"
    } else {
        "was opened from"
    };
    let members = names(genesis.members.keys());
    // The backup contains the alarm. The person who restored it has to know that the cluster refuses writes.
    let alarm = serving.and_then(|etcd| alarms::raised(etcd, cx.spec.space.recover));
    let alarm = alarm.map_or_else(String::new, |text| format!("; but {text}"));
    let down = if serving.is_none() && ends_after_each_start(cx) {
        "; but etcd does not stay up on this node: see `journalctl -u etcd`"
    } else {
        ""
    };
    Some((
        true,
        format!("epoch {epoch} {verb} {backup} with {members}{alarm}{down}"),
    ))
}

/// Whether this node's member of a restored epoch has still to come up. A member that was removed, or that
/// has run and has lost its data since, no longer belongs to the restore. The same holds if the genesis names
/// a former memory of this node. The next restore must not wait for such a member.
fn is_to_come_up(cx: &Context<'_>, genesis: &Genesis) -> bool {
    if ends_after_each_start(cx) {
        return false;
    }
    let same_memory = genesis.electorate.get(&cx.spec.node) == Some(&cx.obs.me.incarnation);
    let comes = |assigned: &Assignment| !assigned.started && removed_by(assigned, &cx.obs.peers).is_none();
    let current = cx
        .obs
        .assignment
        .as_ref()
        .filter(|assigned| assigned.epoch >= genesis.epoch);
    genesis.members.contains_key(&cx.spec.node) && current.map_or(same_memory, comes)
}

/// Whether etcd has ended after each of several starts. Its member may have been removed before its first
/// start, and a cluster that has lost its quorum cannot confirm that.
fn ends_after_each_start(cx: &Context<'_>) -> bool {
    let same = |assigned: &Assignment| cx.memory.started_as == Some(assigned.member_id);
    cx.memory.start_failures >= STARTS && cx.obs.assignment.as_ref().is_some_and(same)
}
