//! The quarantine of a move to another version of etcd, and its end.

use super::moves::{ALARM, backup, movable, quarantine};
use super::versions_world::{each, runs, version, with_versions};
use super::*;
use crate::model::{EpochEtcd, QUARANTINE};
use crate::plan::{end_objection, upgrade_objection};

/// The quarantine ends only while all members run the version that they were moved to.
#[test]
fn no_upgrade_or_downgrade_begins_in_quarantine() {
    let change = |newer: &str, downgrade: bool| {
        let to = version(newer);
        if downgrade {
            DirectiveChange::Downgrade { to }
        } else {
            DirectiveChange::Upgrade {
                to,
                pause_after: None,
            }
        }
    };
    for (runs_now, to, downgrade) in [("3.5.35", "3.6.16", false), ("3.6.16", "3.5.35", true)] {
        let mut obs = with_versions(0, &["3.5.35", "3.6.16"]);
        each(&mut obs, |status| {
            runs(status, runs_now);
            if let Fact::Known(etcd) = &mut status.etcd {
                etcd.storage_version = downgrade.then(|| version("3.6.0"));
            }
        });
        let change = change(to, downgrade);
        assert_eq!(upgrade_objection(&obs, &change), None, "{runs_now} to {to}");
        // Another node shows it first.
        if let Fact::Known(etcd) = &mut peer(&mut obs, 1).etcd {
            etcd.errors = vec![ALARM.to_owned()];
        }
        let why = upgrade_objection(&obs, &change).unwrap();
        assert!(
            why.contains("in quarantine") && why.contains("move --cancel"),
            "{why}"
        );
    }
}

#[test]
fn the_marker_of_the_quarantine_is_what_etcd_shows() {
    assert_eq!(QUARANTINE.0.0.to_string(), "7310577378113058405");
    let mut obs = movable();
    assert!(!obs.me.etcd.known().unwrap().in_quarantine());
    quarantine(&mut obs);
    assert!(obs.me.etcd.known().unwrap().in_quarantine());
    let shown = |obs: &Observation, code: &str| decide(obs).reasons.iter().any(|r| r.code == code);
    assert!(shown(&obs, "quarantine") && !shown(&obs, "etcd-alarm"));
    if let Fact::Known(etcd) = &mut obs.me.etcd {
        etcd.errors = vec!["memberID:5 alarm:CORRUPT".to_owned()];
    }
    assert!(
        !shown(&obs, "quarantine") && shown(&obs, "etcd-alarm"),
        "a real one"
    );
}

#[test]
fn the_quarantine_ends_only_when_no_node_can_open_an_epoch_from_the_backup() {
    type Case = (&'static str, fn(&mut Observation), bool, &'static str);
    let silent: fn(&mut Observation) =
        |obs| _ = obs.peers.insert(name(1), Fact::Unreachable("no answer".into()));
    let table: [Case; 9] = [
        (
            "an elector has voted, and the proposer is silent",
            |obs| {
                obs.peers.insert(name(1), Fact::Unreachable("no power".into()));
                peer(obs, 2).voted = Epoch(2);
            },
            true,
            "the elector on n3 may have voted for epoch 2",
        ),
        (
            "an elector has voted, and all answer",
            |obs| peer(obs, 1).voted = Epoch(2),
            false,
            "open it with `etcd-agent move --to VERSION` and another version than runs",
        ),
        (
            "the own elector has voted",
            |obs| obs.me.voted = Epoch(2),
            true,
            "the elector on n1 may have voted for epoch 2",
        ),
        (
            "a vote for the epoch that is open",
            |obs| peer(obs, 1).voted = Epoch(1),
            false,
            "",
        ),
        (
            "a node restores",
            |obs| peer(obs, 1).steering.restoring = true,
            true,
            "n2 is about to open a new epoch",
        ),
        ("a silent node", silent, false, "add --force"),
        ("a silent node that is down for good", silent, true, ""),
        (
            "a newer epoch elsewhere",
            |obs| {
                let newer = genesis(&obs.spec, 3, 2, Origin::Empty);
                peer(obs, 2).genesis = Some(newer);
            },
            true,
            "is not of epoch 2",
        ),
        ("nothing", |_| {}, false, ""),
    ];
    for (what, change, force, expected) in table {
        let mut obs = movable();
        quarantine(&mut obs);
        change(&mut obs);
        let serves = obs.me.etcd.known().unwrap().cluster_id;
        let found = end_objection(&obs, serves, force);
        if expected.is_empty() {
            assert_eq!(found, None, "{what}");
        } else {
            assert!(
                found.as_ref().is_some_and(|why| why.contains(expected)),
                "{what}: {found:?}"
            );
        }
    }
}

#[test]
fn the_backup_of_a_move_stays_until_its_quarantine_has_ended() {
    let needed = |obs: &Observation| crate::plan::needed_origin(obs);
    let opened = |continues: bool| {
        let mut obs = movable();
        each(&mut obs, |status| {
            if let Fact::Known(list) = &mut status.members {
                for member in &mut list.members {
                    member.client_urls = vec!["https://it:2379".into()];
                }
            }
            let genesis = status.genesis.as_mut().unwrap();
            genesis.origin = Origin::Backup(backup());
            genesis.etcd = Some(EpochEtcd {
                version: version("3.7.3"),
                continues,
            });
        });
        obs
    };
    let mut obs = opened(true);
    assert_eq!(needed(&obs), None, "it has ended");
    quarantine(&mut obs);
    assert_eq!(
        needed(&obs),
        Some(backup()),
        "the data may have still to be compared"
    );
    obs.me.etcd = Fact::Unreachable("x".into());
    for peer in obs.peers.values_mut() {
        *peer = Fact::Unreachable("x".into());
    }
    assert_eq!(needed(&obs), Some(backup()), "nobody knows");
    let mut obs = opened(false);
    quarantine(&mut obs);
    assert_eq!(needed(&obs), None, "a restore is not compared");
}
