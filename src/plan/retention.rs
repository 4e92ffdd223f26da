//! Which backups stay, and why.
//!
//! The backups alone decide what the classes keep, never the clock: the classes count the hours, days, weeks
//! and years *that have a backup*. So a cluster that was off for a year keeps what it had, and a clock jump
//! deletes only backups that were kept for being recent. Pruning early or late, often or seldom, ends in the
//! same set (`tests`): no order of events can delete what another order would have kept.

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;
use jiff::tz::TimeZone;

use crate::model::{
    BackupId, Epoch, EtcdStatus, Fact, Keep, MemberList, NodeStatus, Observation, Origin, Retention,
    Revision, StoredBackup, UnixMs, Verdict, Verified, Writer,
};

const HOUR_MS: u64 = 3_600_000;
const DAY_MS: u64 = 24 * HOUR_MS;

/// Judges each backup; the verdicts are oldest first.
pub fn judge(backups: &[StoredBackup], now: UnixMs, wanted: &Retention) -> Vec<Verdict> {
    let mut verdicts: Vec<Verdict> = backups
        .iter()
        .map(|backup| Verdict {
            backup: backup.clone(),
            keep: Vec::new(),
        })
        .collect();
    verdicts.sort_by(|a, b| key(&b.backup).cmp(&key(&a.backup)));
    let mut seen = 0;
    let mut verified = false;
    let mut reach = Reach::of(&verdicts, now);
    let (mut hours, mut days, mut weeks, mut years) = <(Slots, Slots, Slots, Slots)>::default();
    for verdict in &mut verdicts {
        if mutant!(PrunesAll) {
            continue;
        }
        let at = verdict.backup.summary.at;
        // A kept backup takes its place in the classes like any other, so that the order changes nothing
        // else.
        if verdict.backup.marks.kept.is_some() && !mutant!(KeptPruned) {
            verdict.keep.push(Keep::Kept);
        }
        if verdict.backup.marks.marks_unreadable.is_some() {
            verdict.keep.push(Keep::Unreadable);
        }
        if let Some(why) = takes_no_place(&verdict.backup, now) {
            verdict.keep.push(why);
            continue;
        }
        let good = backup_is_good(&verdict.backup);
        let leads = reach.is_longer_with(&verdict.backup);
        // A restore or a step back ends a history, but an operator may still want that history later.
        let kept_for_it = reach.is_living(&verdict.backup) || days.reach(at.0 / DAY_MS, wanted.daily);
        let slots = [
            (seen == 0, Keep::Newest),
            (leads && kept_for_it && seen > 0, Keep::Increments),
            (good && !verified, Keep::Verified),
            (now.since(at) < wanted.recent, Keep::Recent),
            (hours.first_of(at.0 / HOUR_MS, wanted.hourly), Keep::Hourly),
            (days.first_of(at.0 / DAY_MS, wanted.daily), Keep::Daily),
            (weeks.first_of(week(at), wanted.weekly), Keep::Weekly),
            (years.first_of(year(at), wanted.yearly), Keep::Yearly),
            (seen < wanted.count, Keep::Count),
        ];
        let wanted_by = slots.into_iter().filter(|(wants, _)| *wants);
        verdict.keep.extend(wanted_by.map(|(_, why)| why));
        seen += 1;
        verified |= good;
    }
    verdicts.reverse();
    verdicts
}

/// Keeps the backup that founders of the newest epoch have still to be restored from: a full backup, or the
/// full backup that a point of its increments is named after. It is kept in addition to the backups that the
/// classes count.
pub fn keep_origin(verdicts: &mut [Verdict], origin: &BackupId) {
    let named = |full: &BackupId| {
        let rest = origin.as_str().strip_prefix(full.as_str());
        rest.is_some_and(|rest| rest.is_empty() || rest.starts_with(".r"))
    };
    for verdict in verdicts.iter_mut().filter(|v| named(&v.backup.summary.id)) {
        verdict.keep.push(Keep::Origin);
    }
}

/// The backup that founders of the newest epoch may have still to be restored from. It is needed until some
/// member list of that epoch shows that each founder has started or was removed. The data of an epoch that
/// was opened by a move is compared with its backup until the quarantine ends. While this is not known, the
/// backup counts as needed.
pub fn needed_origin(observation: &Observation) -> Option<BackupId> {
    let genesis = observation.me.genesis.as_ref()?;
    let Origin::Backup(backup) = &genesis.origin else {
        return None;
    };
    if mutant!(OriginPruned) {
        return None;
    }
    // A member publishes its client URLs when it starts for the first time. Neither that nor a removal is
    // ever undone, so an older list is valid evidence too.
    let settled = |list: &&MemberList| {
        let mut founders = genesis.members.keys().filter_map(|node| genesis.member_id(node));
        let done = |id| list.get(id).is_none_or(|member| !member.client_urls.is_empty());
        list.cluster_id == genesis.cluster_id && !list.members.is_empty() && founders.all(done)
    };
    let peers = observation.peers.values().filter_map(Fact::known);
    let nodes: Vec<&NodeStatus> = std::iter::once(&observation.me).chain(peers).collect();
    let mut lists = nodes.iter().filter_map(|status| status.members.known());
    let moved = genesis.etcd.is_some_and(|etcd| etcd.continues);
    // Such an epoch begins in quarantine, so a member that does not show it has seen its end.
    let ended = |etcd: &EtcdStatus| etcd.cluster_id == genesis.cluster_id && !etcd.in_quarantine();
    let mut etcds = nodes.iter().filter_map(|status| status.etcd.known());
    let needed = lists.find(settled).is_none() || moved && !etcds.any(ended);
    needed.then(|| backup.clone())
}

/// Why a backup is kept without being counted by the classes, if so.
fn takes_no_place(backup: &StoredBackup, now: UnixMs) -> Option<Keep> {
    if backup.writer != Writer::EtcdAgent {
        return Some(Keep::NotOurs);
    }
    if backup.verify_unreadable.is_some() {
        return Some(Keep::Unreadable);
    }
    (backup.summary.at > now).then_some(Keep::Future)
}

fn backup_is_good(backup: &StoredBackup) -> bool {
    backup.verified.as_ref().is_some_and(Verified::is_ok)
}

/// The highest revision that the backups of each history lead to. Backups are visited newest first.
struct Reach {
    /// The history that etcd continues.
    living: Option<(Epoch, u64)>,
    holds: BTreeMap<(Epoch, u64), Revision>,
}

impl Reach {
    /// Takes the newest timeline of the highest epoch as living, not that of the newest backup. Clocks
    /// differ, so the backup with the latest date may belong to a replaced epoch, and a later prune would
    /// decide differently.
    fn of(verdicts: &[Verdict], now: UnixMs) -> Self {
        let counted = verdicts
            .iter()
            .filter(|verdict| takes_no_place(&verdict.backup, now).is_none());
        Self {
            living: counted.filter_map(|verdict| verdict.backup.history()).max(),
            holds: BTreeMap::new(),
        }
    }

    fn is_living(&self, backup: &StoredBackup) -> bool {
        self.living.is_some() && backup.history() == self.living
    }

    /// True if this backup with its increments leads to a higher revision than any newer backup of its
    /// history. Without these increments that state would be lost, e.g. if etcd was lost before the newest
    /// backup had increments of its own.
    fn is_longer_with(&mut self, backup: &StoredBackup) -> bool {
        let Some(history) = backup.history() else {
            return false;
        };
        // The revision that it certainly leads to: a full backup may hold less than `revision_at_most`.
        let holds = backup.covered.max(backup.summary.revision);
        let longer = self.holds.get(&history).is_none_or(|held| holds > *held);
        if longer {
            self.holds.insert(history, holds);
        }
        longer
    }
}

fn key(backup: &StoredBackup) -> (UnixMs, &str) {
    (backup.summary.at, backup.summary.id.as_str())
}

/// The hours (days, …) that have a backup, newest first.
#[derive(Default)]
struct Slots(BTreeSet<u64>);

impl Slots {
    /// True for the newest backup of one of the newest `limit` slots; backups come newest first.
    fn first_of(&mut self, slot: u64, limit: usize) -> bool {
        self.0.len() < limit && self.0.insert(slot)
    }

    /// True for a slot that is one of the newest `limit`, whichever of its backups asks.
    fn reach(&self, slot: u64, limit: usize) -> bool {
        self.0.len() < limit || self.0.contains(&slot)
    }
}

/// Weeks begin on Monday; the Unix epoch was a Thursday.
fn week(at: UnixMs) -> u64 {
    (at.0 / DAY_MS + 3) / 7
}

fn year(at: UnixMs) -> u64 {
    let civil = i64::try_from(at.0)
        .ok()
        .and_then(|ms| Timestamp::from_millisecond(ms).ok())
        .map(|time| time.to_zoned(TimeZone::UTC).year());
    civil
        .and_then(|year| u64::try_from(year).ok())
        .unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests;
