#![allow(clippy::unwrap_used)]

use std::collections::BTreeSet;
use std::time::Duration;

use proptest::prelude::*;

use super::*;
use crate::model::{BackupId, BackupSummary, Kept, Marks, NodeName, Revision};

const NOTHING: Retention = Retention {
    enabled: true,
    recent: Duration::ZERO,
    hourly: 0,
    daily: 0,
    weekly: 0,
    yearly: 0,
    count: 0,
};

/// 2026-03-01T12:00:00Z, a Sunday.
const NOON: u64 = 1_772_366_400_000;

fn backup(at: u64, number: u64) -> StoredBackup {
    StoredBackup {
        summary: BackupSummary {
            id: BackupId::new(format!("b-{at:020}-{number:06}")).unwrap(),
            at: UnixMs(at),
            revision: Revision(number),
            size_bytes: 1,
        },
        writer: Writer::EtcdAgent,
        verified: None,
        verify_unreadable: None,
        epoch: None,
        timeline: None,
        went_back: None,
        revision_at_most: None,
        covered: Revision(0),
        marks: Marks::default(),
    }
}

/// Of backups taken this many minutes before noon, those that stay, and why.
fn kept(minutes: &[u64], wanted: &Retention) -> Vec<(u64, Vec<Keep>)> {
    let backups: Vec<_> = minutes.iter().map(|m| backup(NOON - m * 60_000, 0)).collect();
    judge(&backups, UnixMs(NOON), wanted)
        .into_iter()
        .filter(|v| !v.goes())
        .map(|v| ((NOON - v.backup.summary.at.0) / 60_000, v.keep))
        .collect()
}

#[test]
fn s30_each_class_keeps_what_it_says() {
    const H: u64 = 60;
    const D: u64 = 24 * H;
    use Keep::{Count, Daily, Hourly, Newest, Recent, Weekly, Yearly};
    type Row<'a> = (&'a str, &'a [u64], Retention, Vec<(u64, Vec<Keep>)>);
    let rows: Vec<Row<'_>> = vec![
        (
            "nothing wanted keeps the newest",
            &[5, 65, 9000],
            NOTHING,
            vec![(5, vec![Newest])],
        ),
        (
            "recent",
            &[5, 59, 60],
            Retention {
                recent: Duration::from_hours(1),
                ..NOTHING
            },
            vec![(59, vec![Recent]), (5, vec![Newest, Recent])],
        ),
        (
            "the newest of each hour that has one, however long ago",
            &[5, 20, 70, 80, 90 * D],
            Retention { hourly: 3, ..NOTHING },
            vec![
                (90 * D, vec![Hourly]),
                (70, vec![Hourly]),
                (5, vec![Newest, Hourly]),
            ],
        ),
        (
            "a day begins at midnight UTC",
            &[5, 11 * H, 13 * H, 14 * H],
            Retention { daily: 2, ..NOTHING },
            vec![(13 * H, vec![Daily]), (5, vec![Newest, Daily])],
        ),
        (
            "a week begins on Monday",
            &[5, 6 * D, 7 * D, 8 * D],
            Retention { weekly: 2, ..NOTHING },
            vec![(7 * D, vec![Weekly]), (5, vec![Newest, Weekly])],
        ),
        (
            "a year begins on the first of January",
            &[5, 59 * D, 60 * D, 61 * D],
            Retention { yearly: 2, ..NOTHING },
            vec![(60 * D, vec![Yearly]), (5, vec![Newest, Yearly])],
        ),
        (
            "by count",
            &[5, 100 * D, 200 * D],
            Retention { count: 2, ..NOTHING },
            vec![(100 * D, vec![Count]), (5, vec![Newest, Count])],
        ),
    ];
    for (what, minutes, wanted, expected) in rows {
        assert_eq!(kept(minutes, &wanted), expected, "{what}");
    }
}

#[test]
fn what_is_not_ours_or_from_the_future_stays_and_takes_no_place() {
    let mut foreign = backup(NOON - 1, 1);
    foreign.writer = Writer::EtcdManager;
    let backups = [
        backup(NOON + 60_000, 2),
        foreign,
        backup(NOON - 60_000, 3),
        backup(NOON - 120_000, 4),
    ];
    let verdicts = judge(&backups, UnixMs(NOON), &NOTHING);
    let keeps: Vec<_> = verdicts.iter().map(|v| v.keep.clone()).collect();
    assert_eq!(
        keeps,
        [
            vec![],
            vec![Keep::Newest],
            vec![Keep::NotOurs],
            vec![Keep::Future]
        ]
    );
}

#[test]
fn the_name_decides_nothing_but_a_tie() {
    // A name that sorts wrongly (a digit rollover) must not make an old backup the newest.
    let mut old = backup(NOON - 1000, 1);
    old.summary.id = BackupId::new("zzz").unwrap();
    let verdicts = judge(&[old, backup(NOON, 2)], UnixMs(NOON), &NOTHING);
    assert_eq!(verdicts[1].keep, [Keep::Newest]);
    assert_eq!(verdicts[1].backup.summary.revision, Revision(2));
    assert!(verdicts[0].goes());
}

fn wanted() -> impl Strategy<Value = Retention> {
    (
        0_u64..200,
        0_usize..6,
        0_usize..6,
        0_usize..4,
        0_usize..4,
        0_usize..4,
    )
        .prop_map(|(recent, hourly, daily, weekly, yearly, count)| Retention {
            enabled: true,
            recent: Duration::from_mins(recent),
            hourly,
            daily,
            weekly,
            yearly,
            count,
        })
}

/// Backups at random times of three years, with several in some days and several in some hours.
fn history() -> impl Strategy<Value = Vec<StoredBackup>> {
    let at = prop_oneof![0_u64..1_600_000, 0_u64..3000, 0_u64..200];
    let chain = (0_u64..30, 0_u64..30, 0_u64..12, any::<bool>());
    proptest::collection::btree_map(at, chain, 1..60).prop_map(|minutes| {
        let oldest_first = minutes.into_iter().rev().enumerate();
        let all = oldest_first.map(|(number, (minute, (late, more, ahead, good)))| {
            let number = number as u64;
            // Clocks differ: a backup of an older epoch or revision may have a later date than one of a
            // newer.
            let mut full = backup(NOON - minute * 60_000, number * 10 + late);
            full.epoch = Some(Epoch(1 + (number + ahead) / 20));
            full.timeline = Some((number + ahead) % 20 / 10);
            // And chains overlap.
            full.covered = Revision(full.summary.revision.0 + more);
            full.verified = good.then(|| Verified {
                at: full.summary.at,
                problems: Vec::new(),
            });
            full
        });
        all.collect()
    })
}

fn prune(backups: &[StoredBackup], now: UnixMs, wanted: &Retention) -> Vec<StoredBackup> {
    judge(backups, now, wanted)
        .into_iter()
        .filter(|v| !v.goes())
        .map(|v| v.backup)
        .collect()
}

fn names(backups: &[StoredBackup]) -> BTreeSet<String> {
    backups.iter().map(|b| b.summary.id.to_string()).collect()
}

proptest! {
    #[test]
    fn s30_the_newest_always_stays(backups in history(), wanted in wanted(), now in any::<u64>()) {
        let newest = backups.iter().filter(|b| b.summary.at.0 <= now).max_by_key(|b| b.summary.at);
        let left = prune(&backups, UnixMs(now), &wanted);
        prop_assert!(!left.is_empty());
        if let Some(newest) = newest {
            prop_assert!(left.contains(newest));
        }
        // A later clock does not change what the classes keep.
        let later = prune(&backups, UnixMs(u64::MAX), &Retention { recent: Duration::ZERO, ..wanted.clone() });
        let at_noon = prune(&backups, UnixMs(NOON), &Retention { recent: Duration::ZERO, ..wanted });
        prop_assert_eq!(later, at_noon);
    }

    #[test]
    fn s30_pruning_again_changes_nothing(backups in history(), wanted in wanted()) {
        let once = prune(&backups, UnixMs(NOON), &wanted);
        prop_assert_eq!(&prune(&once, UnixMs(NOON), &wanted), &once);
        let mut shuffled = backups;
        shuffled.reverse();
        prop_assert_eq!(prune(&shuffled, UnixMs(NOON), &wanted), once);
    }

    /// The same backups remain whether they are pruned after each backup or once at the end.
    #[test]
    fn s30_when_it_is_pruned_does_not_matter(backups in history(), wanted in wanted(), every in 1_usize..5) {
        let mut left: Vec<StoredBackup> = Vec::new();
        for (at, backup) in backups.iter().enumerate() {
            left.push(backup.clone());
            if at % every == 0 {
                left = prune(&left, backup.summary.at, &wanted);
            }
        }
        let step_by_step = prune(&left, UnixMs(NOON), &wanted);
        prop_assert_eq!(names(&step_by_step), names(&prune(&backups, UnixMs(NOON), &wanted)));
    }

    /// Rule 7: pruning does not lower the newest restorable revision of the history that etcd continues.
    #[test]
    fn rule_7_what_increments_lead_to_stays(backups in history(), wanted in wanted()) {
        let furthest = |backups: &[StoredBackup]| {
            let living = backups.iter().map(StoredBackup::history).max()?;
            backups.iter().filter(|b| b.history() == living).map(|b| b.covered).max()
        };
        let left = prune(&backups, UnixMs(NOON), &wanted);
        prop_assert_eq!(furthest(&left), furthest(&backups));
    }

    #[test]
    fn a_wider_retention_keeps_no_less(backups in history(), wanted in wanted()) {
        let wider = Retention { hourly: wanted.hourly + 1, count: wanted.count + 1, ..wanted.clone() };
        let (less, more) = (prune(&backups, UnixMs(NOON), &wanted), prune(&backups, UnixMs(NOON), &wider));
        prop_assert!(names(&less).is_subset(&names(&more)));
    }
}

/// Otherwise `restore latest` would restore an older state after the prune than before it.
#[test]
fn rule_7_the_increments_that_lead_furthest_stay_with_their_full() {
    let chain = |n: u64, epoch: u64, revision: u64, covered: u64| {
        let mut full = backup(NOON - (10 - n) * 60_000, n);
        full.epoch = Some(Epoch(epoch));
        full.summary.revision = Revision(revision);
        full.revision_at_most = Some(Revision(revision + 2));
        full.covered = Revision(covered);
        full
    };
    let keeps = |backups: &[StoredBackup]| -> Vec<Vec<Keep>> {
        let verdicts = judge(backups, UnixMs(NOON), &NOTHING);
        verdicts.into_iter().map(|v| v.keep).collect()
    };
    let rows = [
        (
            "the newest took over",
            vec![chain(1, 1, 10, 20), chain(2, 1, 19, 30)],
            vec![vec![], vec![Keep::Newest]],
        ),
        (
            "the newest has none yet, and the older chain went on",
            vec![chain(1, 1, 10, 19), chain(2, 1, 19, 25), chain(3, 1, 20, 20)],
            vec![vec![], vec![Keep::Increments], vec![Keep::Newest]],
        ),
        (
            "the newest full may hold what the older chain leads to, and may not",
            vec![chain(1, 1, 10, 22), chain(2, 1, 20, 20)],
            vec![vec![Keep::Increments], vec![Keep::Newest]],
        ),
        (
            "an older epoch is no part of it",
            vec![chain(1, 1, 10, 90), chain(2, 2, 20, 20)],
            vec![vec![], vec![Keep::Newest]],
        ),
        (
            "one of an older epoch, dated last by a clock that is ahead, changes nothing",
            vec![chain(1, 2, 470, 498), chain(2, 1, 480, 490)],
            vec![vec![Keep::Increments], vec![Keep::Newest]],
        ),
        (
            "and does not when the newer epoch went on",
            vec![
                chain(1, 2, 470, 498),
                chain(2, 1, 480, 490),
                chain(3, 2, 490, 490),
            ],
            vec![vec![Keep::Increments], vec![], vec![Keep::Newest]],
        ),
    ];
    for (what, backups, expected) in rows {
        assert_eq!(keeps(&backups), expected, "{what}");
    }
}

#[test]
fn the_newest_that_was_found_good_stays() {
    let mut all: Vec<StoredBackup> = (1..=5).map(|n| backup(n * 1000, n)).collect();
    let verified = |problems: &[&str]| {
        Some(Verified {
            at: UnixMs(9),
            problems: problems.iter().map(ToString::to_string).collect(),
        })
    };
    all[1].verified = verified(&[]);
    all[2].verified = verified(&[]);
    all[3].verified = verified(&["it is cut off"]);
    let wanted = Retention {
        recent: Duration::ZERO,
        hourly: 0,
        daily: 0,
        weekly: 0,
        yearly: 0,
        count: 0,
        ..Retention::default()
    };
    let keep: Vec<Vec<Keep>> = judge(&all, UnixMs(1_000_000), &wanted)
        .into_iter()
        .map(|verdict| verdict.keep)
        .collect();
    assert_eq!(
        keep,
        [vec![], vec![], vec![Keep::Verified], vec![], vec![Keep::Newest]]
    );
}

/// After a restore of the wrong point, or after machines were rolled back by mistake, an operator may want
/// the earlier history.
#[test]
fn c09f_c04_what_the_history_before_leads_to_stays_for_as_many_days_as_there_are_daily_backups() {
    type Row = (&'static str, usize, Vec<StoredBackup>, Vec<Vec<Keep>>);
    const D: u64 = 24 * 60;
    let chain = |minutes: u64, epoch: u64, timeline: u64, revision: u64, covered: u64| {
        let mut full = backup(NOON - minutes * 60_000, revision);
        full.epoch = Some(Epoch(epoch));
        full.timeline = Some(timeline);
        full.covered = Revision(covered);
        full
    };
    let wanted = |daily| Retention { daily, ..NOTHING };
    let rows: Vec<Row> = vec![
        (
            "of the epoch before a restore",
            1,
            vec![
                chain(20, 1, 0, 10, 90),
                chain(10, 1, 0, 80, 85),
                chain(5, 2, 0, 20, 20),
            ],
            vec![
                vec![Keep::Increments],
                vec![Keep::Increments],
                vec![Keep::Newest, Keep::Daily],
            ],
        ),
        (
            "of the timeline before",
            1,
            vec![chain(20, 1, 0, 10, 5000), chain(5, 1, 1, 3000, 3100)],
            vec![vec![Keep::Increments], vec![Keep::Newest, Keep::Daily]],
        ),
        (
            "and what leads less far does not",
            1,
            vec![
                chain(20, 1, 0, 10, 50),
                chain(10, 1, 0, 40, 5000),
                chain(5, 1, 1, 3000, 3100),
            ],
            vec![vec![], vec![Keep::Increments], vec![Keep::Newest, Keep::Daily]],
        ),
        (
            "not past the days that have a backup",
            2,
            vec![
                chain(3 * D, 1, 0, 10, 5000),
                chain(2 * D, 1, 1, 3000, 3100),
                chain(D, 1, 1, 3100, 3200),
                chain(5, 1, 1, 3200, 3300),
            ],
            vec![vec![], vec![], vec![Keep::Daily], vec![Keep::Newest, Keep::Daily]],
        ),
    ];
    for (what, daily, backups, expected) in rows {
        let verdicts = judge(&backups, UnixMs(NOON), &wanted(daily));
        let keeps: Vec<Vec<Keep>> = verdicts.into_iter().map(|v| v.keep).collect();
        assert_eq!(keeps, expected, "{what}");
    }
}

/// The third founder of a restored epoch has not started. The backup that it is restored from stays, whatever
/// the retention settings are.
#[test]
fn c03_the_origin_of_the_newest_epoch_stays_and_nothing_else_does() {
    let all: Vec<_> = (1..5).map(|n| backup(NOON - n * 3_600_000, n)).collect();
    let id = |n: usize| all.get(n).unwrap().summary.id.clone();
    let point = |n: usize| BackupId::new(format!("{}.r77", id(n))).unwrap();
    let rows = [
        ("a full", id(2), vec![id(2), id(0)]),
        ("a point of its increments", point(3), vec![id(3), id(0)]),
        ("the newest has two reasons", point(0), vec![id(0)]),
        ("of another store", BackupId::new("b-0").unwrap(), vec![id(0)]),
    ];
    for (what, origin, expected) in rows {
        let mut verdicts = judge(&all, UnixMs(NOON), &NOTHING);
        keep_origin(&mut verdicts, &origin);
        let stays = verdicts.into_iter().filter(|v| !v.goes());
        let stays: Vec<BackupId> = stays.map(|v| v.backup.summary.id).collect();
        assert_eq!(stays, expected, "{what}");
    }
}

/// An order to keep a backup adds it to what the classes keep, and changes nothing else.
#[test]
fn a_kept_backup_stays_and_takes_its_usual_place() {
    let all: Vec<_> = (1..9).map(|n| backup(NOON - n * 3_600_000, n)).collect();
    let wanted = Retention { hourly: 2, ..NOTHING };
    let stays = |backups: &[StoredBackup]| -> BTreeSet<BackupId> {
        let verdicts = judge(backups, UnixMs(NOON), &wanted).into_iter();
        verdicts
            .filter(|v| !v.goes())
            .map(|v| v.backup.summary.id)
            .collect()
    };
    let usual = stays(&all);
    for n in 0..all.len() {
        let (mut marked, mut unknown) = (all.clone(), all.clone());
        marked[n].marks.kept = Some(Kept {
            since: UnixMs(1),
            node: NodeName::new("n1").unwrap(),
            reason: None,
        });
        unknown[n].marks.marks_unreadable = Some("403".to_owned());
        let mut expected = usual.clone();
        expected.insert(all[n].summary.id.clone());
        assert_eq!(stays(&marked), expected, "{n}");
        assert_eq!(stays(&unknown), expected, "{n}");
        let verdict = |backups: &[StoredBackup]| {
            let mut verdicts = judge(backups, UnixMs(NOON), &wanted).into_iter();
            verdicts
                .find(|v| v.backup.summary.id == all[n].summary.id)
                .unwrap()
                .keep
        };
        assert!(verdict(&marked).contains(&Keep::Kept), "{n}");
        assert!(verdict(&unknown).contains(&Keep::Unreadable), "{n}");
        // An order that was withdrawn has left nothing behind.
        let left: Vec<_> = all
            .iter()
            .filter(|b| expected.contains(&b.summary.id))
            .cloned()
            .collect();
        assert_eq!(stays(&left), usual, "{n}");
    }
}
