//! Which backups stay, and why.
//!
//! What the classes keep follows from the backups alone, never from the clock: they count the hours, days, weeks and
//! years *that have a backup*. So a cluster that was off for a year keeps what it had, and a clock that jumps deletes
//! nothing but what was only kept for being recent. Pruning early or late, often or seldom, ends in the same set
//! (`tests`): no order of events can take away what another order would have kept.

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;
use jiff::tz::TimeZone;

use crate::model::{
    BackupId, Epoch, Fact, Keep, MemberList, Observation, Origin, Retention, Revision, StoredBackup, UnixMs,
    Verdict, Verified, Writer,
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
        if let Some(why) = takes_no_place(&verdict.backup, now) {
            verdict.keep.push(why);
            continue;
        }
        let good = backup_is_good(&verdict.backup);
        let leads = reach.is_longer_with(&verdict.backup);
        // A history that a restore or a step back has ended may turn out to be the one that is wanted after all.
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

/// Keeps what founders of the newest epoch have still to be restored from: a full backup, or a point of its increments, which
/// is named after it. It takes no place among those that are counted.
pub fn keep_origin(verdicts: &mut [Verdict], origin: &BackupId) {
    let named = |full: &BackupId| {
        let rest = origin.as_str().strip_prefix(full.as_str());
        rest.is_some_and(|rest| rest.is_empty() || rest.starts_with(".r"))
    };
    for verdict in verdicts.iter_mut().filter(|v| named(&v.backup.summary.id)) {
        verdict.keep.push(Keep::Origin);
    }
}

/// The backup that founders of the newest epoch may have still to be restored from: until some member list of that epoch
/// says of each that it has started, or was removed. What is not known counts as needed.
pub fn needed_origin(observation: &Observation) -> Option<BackupId> {
    let genesis = observation.me.genesis.as_ref()?;
    let Origin::Backup(backup) = &genesis.origin else {
        return None;
    };
    if mutant!(OriginPruned) {
        return None;
    }
    // A member publishes its client URLs when it starts for the first time. Neither that nor a removal is ever undone, so
    // an older list tells the truth too.
    let settled = |list: &&MemberList| {
        let mut founders = genesis.members.keys().filter_map(|node| genesis.member_id(node));
        let done = |id| list.get(id).is_none_or(|member| !member.client_urls.is_empty());
        list.cluster_id == genesis.cluster_id && !list.members.is_empty() && founders.all(done)
    };
    let peers = observation.peers.values().filter_map(Fact::known);
    let mut lists = std::iter::once(&observation.me)
        .chain(peers)
        .filter_map(|status| status.members.known());
    lists.find(settled).is_none().then(|| backup.clone())
}

/// Why a backup stays without a place among those that are counted.
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

/// How far the backups of each history lead, newest first.
struct Reach {
    /// The history that etcd goes on with.
    living: Option<(Epoch, u64)>,
    holds: BTreeMap<(Epoch, u64), Revision>,
}

impl Reach {
    /// The newest timeline of the highest epoch, not the newest backup's: what is dated last may be of an epoch that was
    /// replaced, as clocks differ, and a later prune would judge otherwise.
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

    /// True when the increments of this backup lead further than any newer one of its history does: without them that
    /// state is lost, e.g. when etcd was lost before the newest backup had increments of its own.
    fn is_longer_with(&mut self, backup: &StoredBackup) -> bool {
        let Some(history) = backup.history() else {
            return false;
        };
        // What it leads to for sure: a full may hold less than `revision_at_most`.
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

    /// True for a slot that is one of the newest `limit`, whichever backup it is of.
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
