//! Which backups stay, and why.
//!
//! What the classes keep follows from the backups alone, never from the clock: they count the hours, days, weeks and
//! years *that have a backup*. So a cluster that was off for a year keeps what it had, and a clock that jumps deletes
//! nothing but what was only kept for being recent. Pruning early or late, often or seldom, ends in the same set
//! (`tests`): no order of events can take away what another order would have kept.

use std::collections::BTreeSet;

use jiff::Timestamp;
use jiff::tz::TimeZone;

use crate::model::{Epoch, Keep, Retention, Revision, StoredBackup, UnixMs, Verdict, Verified, Writer};

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
        let slots = [
            (seen == 0, Keep::Newest),
            (leads && seen > 0, Keep::Increments),
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

/// How far the highest epoch's backups lead, newest first.
struct Reach {
    epoch: Option<Epoch>,
    holds: Option<Revision>,
}

impl Reach {
    /// The highest epoch, not the newest backup's: what is dated last may be of an epoch that was replaced, as clocks
    /// differ, and a later prune would judge otherwise.
    fn of(verdicts: &[Verdict], now: UnixMs) -> Self {
        let counted = verdicts
            .iter()
            .filter(|verdict| takes_no_place(&verdict.backup, now).is_none());
        Self {
            epoch: counted.filter_map(|verdict| verdict.backup.epoch).max(),
            holds: None,
        }
    }

    /// True when the increments of this backup lead further than any newer one does: without them that state is lost,
    /// e.g. when etcd was lost before the newest backup had increments of its own.
    fn is_longer_with(&mut self, backup: &StoredBackup) -> bool {
        // What it leads to for sure: a full may hold less than `revision_at_most`.
        let holds = Some(backup.covered.max(backup.summary.revision));
        let longer = self.epoch.is_some() && self.epoch == backup.epoch && holds > self.holds;
        self.holds = if longer { holds } else { self.holds };
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
