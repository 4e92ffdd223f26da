//! Moves to another version of etcd through a new epoch.

use super::versions_world::{each, runs, select, to, version, with_versions};
use super::*;
use crate::model::EpochEtcd;
use crate::plan::{move_objection, ok_to_stop, upgrade_objection};

pub(super) const ALARM: &str = "memberID:7310577378113058405  alarm:CORRUPT";

pub(super) fn quarantine(obs: &mut Observation) {
    each(obs, |status| {
        if let Fact::Known(etcd) = &mut status.etcd {
            etcd.errors = vec![ALARM.to_owned()];
        }
    });
}

/// A healthy cluster of three with etcd 3.7.3 and a shared store.
pub(super) fn movable() -> Observation {
    let mut obs = with_versions(0, &["3.4.23", "3.7.3"]);
    each(&mut obs, |status| runs(status, "3.7.3"));
    obs.spec.store_shared = true;
    obs.spec.backup_interval = Some(Duration::from_hours(1));
    obs
}

pub(super) fn backup() -> BackupId {
    BackupId::new("2026-01-01T00:00:00Z-000001").unwrap()
}

fn order(continues: bool) -> OperatorRequest {
    OperatorRequest::Restore {
        backup: backup(),
        without: BTreeSet::new(),
        replace: None,
        etcd: Some(EpochEtcd {
            version: version("3.4.23"),
            continues,
        }),
        above: Some(Epoch(1)),
        asked: UnixMs::default(),
    }
}

#[test]
fn a_move_that_cannot_succeed_is_refused_before_anything_changes() {
    type Case = (&'static str, &'static str, fn(&mut Observation), &'static str);
    let target = "3.4.23";
    let table: [Case; 13] = [
        (
            "NOSPACE, with which etcd 3.5 lifts the quarantine",
            target,
            |obs| {
                if let Fact::Known(etcd) = &mut peer(obs, 1).etcd {
                    etcd.errors = vec!["memberID:5 alarm:NOSPACE".to_owned()];
                }
            },
            "the alarm NOSPACE is raised",
        ),
        (
            "NOSPACE with the next write",
            target,
            |obs| peer(obs, 2).steering.defrag.full = true,
            "the database on n3 has nearly reached its quota",
        ),
        ("etcd 2", "2.3.8", |_| {}, "expected 3.4 or a newer 3.x"),
        ("etcd 4", "4.0.0", |_| {}, "expected 3.4 or a newer 3.x"),
        (
            "no store",
            target,
            |obs| obs.spec.backup_interval = None,
            "set store.url",
        ),
        (
            "a local store",
            target,
            |obs| obs.spec.store_shared = false,
            "not shared",
        ),
        (
            "a silent node",
            target,
            |obs| _ = obs.peers.insert(name(2), Fact::Unreachable("no answer".into())),
            "n3 does not answer",
        ),
        ("nobody has it", "3.5.16", |_| {}, "n1 has no etcd 3.5.16"),
        (
            "a version whose members may differ after a crash",
            "3.5.2",
            |_| {},
            "take 3.5.26 or a later 3.5",
        ),
        (
            "one lacks it",
            target,
            |obs| peer(obs, 1).etcd_binaries = Some(EtcdBinaries::default()),
            "n2 has no etcd 3.4.23",
        ),
        (
            "a setting that it does not have",
            target,
            |obs| {
                let name = "compaction-batch-limit".to_owned();
                _ = obs.spec.etcd.settings.insert(name, "500".to_owned());
            },
            "etcd 3.4.23 would ignore etcd.settings.compaction-batch-limit (etcd 3.6 and newer have it; its name there is \
             experimental-compaction-batch-limit)",
        ),
        (
            "data that cannot be replaced",
            target,
            |obs| peer(obs, 1).archive_trouble = Some("/data is a mount point".into()),
            "n2 could not replace its data after its etcd was stopped: /data is a mount point",
        ),
        (
            "a member is down",
            target,
            |obs| peer(obs, 1).etcd = Fact::Unreachable("down".into()),
            "first all members have to be healthy",
        ),
    ];
    for (what, wanted, change, expected) in table {
        let mut obs = movable();
        change(&mut obs);
        let found = move_objection(&obs, version(wanted));
        assert!(
            found.as_ref().is_some_and(|why| why.contains(expected)),
            "{what}: {found:?}"
        );
    }
    assert_eq!(move_objection(&movable(), version(target)), None);
    // What serves the v2 API ends with it.
    let mut v2 = movable();
    v2.spec
        .etcd
        .settings
        .insert("enable-v2".to_owned(), "true".to_owned());
    assert_eq!(move_objection(&v2, version("3.7.3")), None);
    let mut again = movable();
    quarantine(&mut again);
    assert_eq!(
        move_objection(&again, version(target)),
        None,
        "a move that goes on"
    );
}

#[test]
fn a_move_opens_its_epoch_only_in_quarantine_and_with_its_version() {
    let mut obs = movable();
    obs.requests = vec![order(true)];
    obs.fetched = Some(backup());
    let Some(Action::Answer { done, message, .. }) = decide(&obs).action else {
        panic!("no answer")
    };
    assert!(
        !done && message.contains("does not serve in quarantine"),
        "{message}"
    );
    quarantine(&mut obs);
    let Some(Action::Propose { genesis, .. }) = decide(&obs).action else {
        panic!("no proposal")
    };
    assert!(genesis.continues_with(&backup()));
    assert_eq!(genesis.etcd.unwrap().version, version("3.4.23"));
    // Another backup than the one that was outrun is tried.
    let mut outrun = obs.clone();
    outrun.outrun = Some((
        BackupId::new("2026-01-01T00:00:00Z-000002").unwrap(),
        "more".to_owned(),
    ));
    assert!(matches!(decide(&outrun).action, Some(Action::Propose { .. })));
    outrun.outrun = Some((backup(), "etcd holds more than it".to_owned()));
    let Some(Action::Answer { done, message, .. }) = decide(&outrun).action else {
        panic!("no answer")
    };
    assert!(
        !done && message == "etcd holds more than it; nothing was changed",
        "{message}"
    );
    // A majority may have voted, too, and what reports the epoch may come later.
    outrun.me.voted = Epoch(2);
    let Some(Action::Answer { done, message, .. }) = decide(&outrun).action else {
        panic!("no answer")
    };
    assert!(
        !done
            && message.contains("epoch 2 may open all the same")
            && !message.contains("nothing was changed"),
        "{message}"
    );
    let mut paused = outrun.clone();
    paused.outrun = None;
    each(&mut paused, |status| {
        if let Fact::Known(etcd) = &mut status.etcd {
            etcd.leader = None;
        }
    });
    let Some(Action::Answer { message, .. }) = decide(&paused).action else {
        panic!("no answer")
    };
    assert!(
        message.contains("does not serve in quarantine") && message.contains("epoch 2 may open all the same"),
        "{message}"
    );
    let mut lacks = obs.clone();
    peer(&mut lacks, 2).etcd_binaries = Some(EtcdBinaries::default());
    assert!(matches!(
        decide(&lacks).action,
        Some(Action::Answer { done: false, .. })
    ));
    // An ordinary restore with a version needs no quarantine.
    let mut plain = movable();
    plain.requests = vec![order(false)];
    plain.fetched = Some(backup());
    let Some(Action::Propose { genesis, .. }) = decide(&plain).action else {
        panic!("no proposal")
    };
    assert!(!genesis.continues_with(&backup()));
}

#[test]
fn the_version_of_an_epoch_counts_until_another_is_ordered_in_it() {
    let mut obs = movable();
    select(&mut obs, &to("3.7.3"));
    let moved = |obs: &Observation, epoch| {
        let mut genesis = genesis(&obs.spec, 3, epoch, Origin::Backup(backup()));
        genesis.etcd = Some(EpochEtcd {
            version: version("3.4.23"),
            continues: true,
        });
        genesis
    };
    let second = moved(&obs, 2);
    let selected = |register: &Directives| register.etcd_in(Some(&second)).unwrap().version;
    let old = obs.me.steering.directives.clone();
    assert_eq!(
        selected(&old),
        Some(version("3.4.23")),
        "an order of the epoch before"
    );
    let upgrade = DirectiveChange::Upgrade {
        to: version("3.5.35"),
        pause_after: None,
    };
    let next = old
        .in_epoch(Some(&second))
        .after(&upgrade, &name(0), UnixMs(5))
        .unwrap();
    assert_eq!(selected(&next), Some(version("3.5.35")));
    assert_eq!(next.etcd.as_ref().unwrap().before, Some(version("3.4.23")));
    let cancel = |register: &Directives| register.after(&DirectiveChange::CancelUpgrade, &name(0), UnixMs(6));
    assert_eq!(
        cancel(&old.in_epoch(Some(&second))),
        None,
        "nothing was ordered in this epoch"
    );
    assert_eq!(cancel(&next).unwrap().etcd_version(), Some(version("3.4.23")));
    let in_later = next.etcd_in(Some(&moved(&obs, 3))).unwrap();
    assert_eq!(in_later.version, Some(version("3.4.23")), "moved again");
    assert_eq!(next.etcd_in(None), next.etcd);
    // The next restore keeps the version.
    obs.requests = vec![restore_from(backup(), Some(Epoch(2)))];
    obs.fetched = Some(backup());
    each(&mut obs, |status| {
        status.genesis = Some(second.clone());
        status.newest_epoch = Epoch(2);
    });
    (obs.newest_epoch, obs.assignment) = (Epoch(2), Some(assignment(&obs.spec, &second, 0)));
    let Some(Action::Propose { genesis, .. }) = decide(&obs).action else {
        panic!("no proposal: {:?}", decide(&obs))
    };
    let kept = genesis.etcd.unwrap();
    assert_eq!((kept.version, kept.continues), (version("3.4.23"), false));
}

#[test]
fn a_vote_holds_orders_back_only_while_its_epoch_may_be_open_or_is_being_opened() {
    type Case = (&'static str, fn(&mut Observation), bool);
    let table: [Case; 6] = [
        ("nobody knows of it", |_| {}, false),
        (
            "the store does not answer",
            |obs| obs.store = Fact::Unreachable("no answer".into()),
            true,
        ),
        ("the store was not asked", |obs| obs.store = Fact::Absent, true),
        (
            "the store records it",
            |obs| {
                let newer = genesis(&obs.spec, 3, 2, Origin::Backup(backup()));
                obs.store = Fact::Known(store_view(Some(newer), None));
            },
            true,
        ),
        (
            "a node knows of it",
            |obs| peer(obs, 1).newest_epoch = Epoch(2),
            true,
        ),
        (
            "a restore is ordered",
            |obs| peer(obs, 1).steering.restoring = true,
            true,
        ),
    ];
    for (what, change, counts) in table {
        // The vote of a round whose proposer died, and the one that a reinstalled elector may have cast.
        for voter in [0, 2] {
            let mut obs = movable();
            let open = genesis(&obs.spec, 3, 1, Origin::Empty);
            obs.store = Fact::Known(store_view(Some(open), None));
            match voter {
                0 => obs.me.voted = Epoch(2),
                peer_of => peer(&mut obs, peer_of).voted = Epoch(2),
            }
            change(&mut obs);
            let says =
                |text: Option<String>| text.is_some_and(|text| text.contains("may have voted for epoch 2"));
            let upgrade = DirectiveChange::Upgrade {
                to: version("3.7.3"),
                pause_after: None,
            };
            assert_eq!(
                ok_to_stop(&obs, &name(2))
                    .reasons
                    .iter()
                    .any(|reason| reason.text.contains("may have voted for epoch 2")),
                counts,
                "{what}: ok-to-stop"
            );
            if counts {
                assert!(move_objection(&obs, version("3.4.23")).is_some(), "{what}");
            } else {
                assert!(!says(upgrade_objection(&obs, &upgrade)), "{what}: upgrade");
                assert_eq!(move_objection(&obs, version("3.4.23")), None, "{what}");
            }
        }
    }
    // An elector that is silent may have learned it.
    let mut silent = movable();
    peer(&mut silent, 2).voted = Epoch(2);
    silent
        .peers
        .insert(name(1), Fact::Unreachable("no answer".into()));
    let verdict = ok_to_stop(&silent, &name(2));
    let says = |reason: &Reason| reason.text.contains("may have voted for epoch 2");
    assert!(verdict.reasons.iter().any(says), "{:?}", verdict.reasons);
}
