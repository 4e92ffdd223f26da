//! Upgrades of etcd: which order is refused, which node gets another version, and when it goes back.

use super::restarts::settled;
use super::steering::pause;
use super::versions_world::{
    converted, each, key_of_v2, runs, select, to, upgrade, version, wish_of, with_versions,
};
use super::*;
use crate::plan::upgrade_objection;

#[test]
fn each_order_that_would_do_harm_is_refused_with_what_to_do() {
    type Case = (&'static str, &'static str, fn(&mut Observation), &'static str);
    let table: [Case; 16] = [
        (
            "a version that nobody has",
            "3.6.1",
            |_| {},
            "n1 has no etcd 3.6.1: unpack",
        ),
        (
            "one that a node lacks",
            "3.6.16",
            |obs| peer(obs, 1).etcd_binaries = Some(EtcdBinaries::default()),
            "n2 has no etcd 3.6.16",
        ),
        (
            "a pinned binary",
            "3.6.16",
            |obs| peer(obs, 2).etcd_binaries.as_mut().unwrap().pinned = true,
            "etcd.binary is configured on n3",
        ),
        (
            "an old agent",
            "3.6.16",
            |obs| peer(obs, 2).etcd_binaries = None,
            "the agent on n3 is 0 and cannot select",
        ),
        ("two minors", "3.7.3", |_| {}, "one minor at a time"),
        (
            "an older version",
            "3.5.30",
            |_| {},
            "a downgrade is not an upgrade",
        ),
        (
            "an etcd that forgets promotions",
            "3.6.16",
            |obs| runs(peer(obs, 1), "3.5.16"),
            "upgrade to 3.5.26 or a later 3.5 first",
        ),
        (
            "data that is not converted yet",
            "3.7.3",
            |obs| {
                each(obs, |status| {
                    runs(status, "3.6.16");
                    let Fact::Known(etcd) = &mut status.etcd else {
                        return;
                    };
                    etcd.storage_version = Some(version("3.5.0"));
                });
            },
            "its data still has the format of 3.5",
        ),
        (
            "a log with entries of 3.5",
            "3.7.3",
            |obs| {
                converted(obs);
                obs.me.v2_entries = Some(false);
                peer(obs, 1).v2_entries = Some(true);
                peer(obs, 2).v2_entries = Some(false);
            },
            "on n2: etcd's log still holds entries of etcd 3.5, on which 3.7.3 panics",
        ),
        (
            "a log that was not read yet",
            "3.7.3",
            |obs| converted(obs),
            "try again in some seconds",
        ),
        (
            "keys of v2 on the disk of a peer",
            "3.6.16",
            |obs| peer(obs, 2).v2_trouble = Some("etcd's v2 API holds the key \"/app/one\"".into()),
            "on n3: etcd's v2 API holds the key \"/app/one\", and etcd 3.6.16 does not start on them",
        ),
        (
            "requests of v2 in its log",
            "3.6.16",
            |obs| peer(obs, 1).v2_trouble = key_of_v2().trouble(),
            "or `etcd-agent move --to 3.6.16 --include-v2`",
        ),
        (
            "a member that is down",
            "3.6.16",
            |obs| lose_data(peer(obs, 1)),
            "first all members have to be healthy",
        ),
        (
            "a silent agent",
            "3.6.16",
            |obs| {
                obs.peers.insert(name(1), Fact::Unreachable("timed out".into()));
            },
            "first all members have to be healthy",
        ),
        (
            "a restore",
            "3.6.16",
            |obs| peer(obs, 1).steering.restoring = true,
            "an operator ordered a restore on n2",
        ),
        (
            "no leader",
            "3.6.16",
            |obs| {
                each(obs, |status| {
                    let Fact::Known(etcd) = &mut status.etcd else {
                        return;
                    };
                    etcd.leader = None;
                });
            },
            "nobody knows the current members",
        ),
    ];
    for (what, wanted, spoil, expected) in table {
        for me in [0, 1] {
            let mut obs = with_versions(me, &["3.5.30", "3.5.35", "3.6.16", "3.7.3"]);
            if me == 0 {
                spoil(&mut obs);
            } else if what != "a silent agent" && what != "a member that is down" {
                // The same from a follower, which judges as the coordinator.
                let mut seen = with_versions(0, &["3.5.30", "3.5.35", "3.6.16", "3.7.3"]);
                spoil(&mut seen);
                obs.me = peer(&mut seen, 1).clone();
                obs.peers.insert(name(0), Fact::Known(seen.me.clone()));
                obs.peers.insert(name(2), Fact::Known(peer(&mut seen, 2).clone()));
            } else {
                continue;
            }
            let found = upgrade_objection(&obs, &upgrade(wanted));
            let found = found.unwrap_or_else(|| panic!("{what} is not refused"));
            assert!(found.contains(expected), "{what}: {found}");
        }
    }
    let good = with_versions(0, &["3.6.16"]);
    assert_eq!(upgrade_objection(&good, &upgrade("3.6.16")), None);
}

#[test]
fn a_pause_needs_a_member_and_the_same_version_again_continues() {
    let mut obs = with_versions(0, &["3.6.16"]);
    let after = |node: &str| DirectiveChange::Upgrade {
        to: version("3.6.16"),
        pause_after: Some(NodeName::new(node).unwrap()),
    };
    assert_eq!(upgrade_objection(&obs, &after("n2")), None);
    let stranger = upgrade_objection(&obs, &after("n9"));
    assert!(stranger.is_some_and(|why| why.contains("n9 has no member")));
    select(&mut obs, &to("3.6.16"));
    lose_data(peer(&mut obs, 1));
    assert_eq!(upgrade_objection(&obs, &upgrade("3.6.16")), None);
}

#[test]
fn another_upgrade_begins_only_after_the_last_one_has_ended() {
    let mut obs = with_versions(0, &["3.5.40", "3.6.16"]);
    select(&mut obs, &to("3.6.16"));
    let found = upgrade_objection(&obs, &upgrade("3.5.40")).unwrap();
    assert!(
        found.contains("the upgrade to etcd 3.6.16 is not complete on n1"),
        "{found}"
    );
    let back = EtcdSelection {
        cancelled: true,
        ..EtcdSelection::default()
    };
    select(&mut obs, &back);
    assert_eq!(upgrade_objection(&obs, &upgrade("3.5.40")), None);
    let n2 = peer(&mut obs, 1);
    n2.assignment.as_mut().unwrap().etcd_version = Some(version("3.6.16"));
    n2.steering.wants_restart = wanting(false).me.steering.wants_restart;
    let found = upgrade_objection(&obs, &upgrade("3.5.40")).unwrap();
    assert!(found.contains("n2 is not yet back"), "{found}");
    let named = EtcdSelection {
        cancelled: true,
        ..to("3.5.35")
    };
    select(&mut obs, &named);
    let found = upgrade_objection(&obs, &upgrade("3.5.35")).unwrap();
    assert!(found.contains("is not yet back"), "the same version: {found}");
}

#[test]
fn an_upgrade_is_cancelled_only_while_a_member_runs_the_former_version() {
    let mut obs = with_versions(0, &["3.6.16"]);
    let cancel = |obs: &Observation| upgrade_objection(obs, &DirectiveChange::CancelUpgrade);
    assert_eq!(cancel(&obs).as_deref(), Some("no upgrade was ordered"));
    select(&mut obs, &to("3.6.16"));
    runs(peer(&mut obs, 1), "3.6.16");
    assert_eq!(cancel(&obs), None);
    each(&mut obs, |status| runs(status, "3.6.16"));
    assert!(cancel(&obs).is_some_and(|why| why.contains("the upgrade is complete")));
    lose_data(peer(&mut obs, 2));
    assert_eq!(cancel(&obs), None, "a member whose version is not known");
    each(&mut obs, |status| {
        let Fact::Known(etcd) = &mut status.etcd else {
            return;
        };
        etcd.storage_version = Some(version("3.6.0"));
    });
    assert!(cancel(&obs).is_some_and(|why| why.contains("has converted its data")));
    let older = EtcdSelection {
        before: Some(version("3.7.3")),
        downgrade: true,
        ..to("3.6.16")
    };
    select(&mut obs, &older);
    assert_eq!(cancel(&obs), None, "the newer etcd opens older data");
    let patch = EtcdSelection {
        before: Some(version("3.6.1")),
        ..to("3.6.16")
    };
    select(&mut obs, &patch);
    assert_eq!(cancel(&obs), None, "the same minor");
}

#[test]
fn a_node_wants_the_selected_version_and_checks_the_step_itself() {
    let mut obs = with_versions(1, &["3.6.16", "3.7.3"]);
    assert_eq!(wish_of(&obs), Ok(None), "nothing is selected");
    select(&mut obs, &to("3.6.16"));
    let wish = wish_of(&obs).unwrap().unwrap();
    assert!(
        wish.contains("etcd 3.5.35 runs, and 3.6.16 is selected"),
        "{wish}"
    );
    // Assigned, and not restarted yet.
    obs.assignment.as_mut().unwrap().etcd_version = Some(version("3.6.16"));
    assert!(wish_of(&obs).unwrap().is_some());
    runs(&mut obs.me, "3.6.16");
    assert_eq!(wish_of(&obs), Ok(None), "it runs");
    // One node's false order (rule 10).
    let mut forged = with_versions(1, &["3.6.16", "3.7.3"]);
    select(&mut forged, &to("3.7.3"));
    assert!(wish_of(&forged).unwrap_err().contains("one minor at a time"));
    select(&mut forged, &to("3.6.1"));
    assert!(wish_of(&forged).unwrap_err().contains("n2 has no etcd 3.6.1"));
    let reasons = plan(&forged, &Memory::default()).reasons;
    assert!(
        reasons.iter().any(|reason| reason.code == "upgrade-refused"),
        "{reasons:?}"
    );
}

#[test]
fn a_node_goes_back_only_while_another_one_runs_the_former_version() {
    let mut obs = with_versions(1, &["3.5.35", "3.6.16"]);
    let back = EtcdSelection {
        before: Some(version("3.6.16")),
        cancelled: true,
        ..EtcdSelection::default()
    };
    select(&mut obs, &back);
    converted(&mut obs);
    for i in [0, 2] {
        runs(peer(&mut obs, i), "3.5.35");
    }
    let Fact::Known(etcd) = &mut obs.me.etcd else {
        panic!()
    };
    etcd.storage_version = Some(version("3.5.0"));
    obs.assignment.as_mut().unwrap().etcd_version = Some(version("3.6.16"));
    assert!(wish_of(&obs).unwrap().is_some(), "the others run 3.5.35");
    for i in [0, 2] {
        runs(peer(&mut obs, i), "3.6.16");
        peer(&mut obs, i).assignment.as_mut().unwrap().etcd_version = Some(version("3.6.16"));
    }
    assert!(wish_of(&obs).unwrap_err().contains("stays at 3.6.16"));
    let named = EtcdSelection {
        version: Some(version("3.5.35")),
        ..back.clone()
    };
    select(&mut obs, &named);
    assert!(wish_of(&obs).unwrap_err().contains("stays at 3.6.16"));
    peer(&mut obs, 2).assignment.as_mut().unwrap().etcd_version = Some(version("3.5.35"));
    runs(peer(&mut obs, 2), "3.5.35");
    assert!(wish_of(&obs).unwrap().is_some());
}

/// n2 wants 3.6.16, and n1 may have granted it.
fn wanting(granted: bool) -> Observation {
    let mut obs = with_versions(1, &["3.6.16"]);
    select(&mut obs, &to("3.6.16"));
    obs.me.steering.wants_restart = Some(RestartWish {
        version: true,
        ..RestartWish::new("why".into())
    });
    if granted {
        peer(&mut obs, 0).steering.grant = Some(Grant {
            node: name(1),
            id: 7,
            term: RaftTerm(2),
            purpose: GrantPurpose::Restart,
        });
    }
    obs
}

#[test]
fn rule_4_a_version_is_assigned_only_under_a_grant() {
    let memory = Memory::default();
    assert_eq!(plan(&wanting(false), &memory).action, None);
    let granted = plan(&wanting(true), &memory);
    let Some(Action::Assign { assignment }) = granted.action else {
        panic!("not assigned: {granted:?}")
    };
    assert_eq!(assignment.etcd_version, Some(version("3.6.16")));
    assert!(assignment.generation > Generation(2));
    // Then the settings are written, and only then is etcd restarted.
    let mut assigned = wanting(true);
    assigned.assignment = Some(*assignment.clone());
    let next = plan(&assigned, &memory).action;
    assert!(matches!(next, Some(Action::Apply { .. })), "{next:?}");
    assigned.gate.cleared = Some(assignment.generation);
    let Fact::Known(in_force) = &mut assigned.in_force else {
        panic!()
    };
    in_force.generation = assignment.generation;
    let last = plan(&assigned, &memory).action;
    assert!(matches!(last, Some(Action::RestartEtcd { .. })), "{last:?}");
}

#[test]
fn an_etcd_that_is_down_keeps_its_version_unless_the_upgrade_was_cancelled() {
    let mut obs = with_versions(1, &["3.5.35", "3.6.16"]);
    let present = obs.me.data.clone();
    select(&mut obs, &to("3.6.16"));
    take_down(&mut obs.me, ActiveState::Failed);
    obs.me.data = present;
    let action = plan(&obs, &Memory::default()).action;
    assert!(!matches!(action, Some(Action::Assign { .. })), "{action:?}");

    let mut failed = obs.clone();
    failed.assignment.as_mut().unwrap().etcd_version = Some(version("3.6.16"));
    let back = EtcdSelection {
        before: Some(version("3.6.16")),
        cancelled: true,
        ..EtcdSelection::default()
    };
    select(&mut failed, &back);
    let Some(Action::Assign { assignment }) = plan(&failed, &Memory::default()).action else {
        panic!("it does not go back")
    };
    assert_eq!(assignment.etcd_version, None);
    failed.me.unit = unit(ActiveState::Active);
    let action = plan(&failed, &Memory::default()).action;
    assert!(
        !matches!(action, Some(Action::Assign { .. })),
        "it may run: {action:?}"
    );
}

/// One node forges that an upgrade from that version was cancelled, while the etcd here has crashed.
#[test]
fn rule_10_an_etcd_that_is_down_takes_no_version_that_skips_a_step() {
    for (selected, expected) in [("3.6.16", true), ("3.7.3", false)] {
        let mut obs = with_versions(1, &["3.5.35", "3.6.16", "3.7.3"]);
        let present = obs.me.data.clone();
        obs.assignment.as_mut().unwrap().etcd_version = Some(version("3.5.35"));
        let forged = EtcdSelection {
            cancelled: true,
            ..to(selected)
        };
        select(&mut obs, &forged);
        take_down(&mut obs.me, ActiveState::Failed);
        obs.me.data = present;
        let action = plan(&obs, &Memory::default()).action;
        let taken = matches!(action, Some(Action::Assign { .. }));
        assert_eq!(taken, expected, "{selected}: {action:?}");
    }
}

#[test]
fn a_new_member_begins_with_the_selected_version() {
    let mut obs = cluster(3, 2, 3);
    let g = obs.me.genesis.clone().unwrap();
    let mut joins = fresh(2, 3, 3);
    joins.spec = obs.spec.clone();
    joins.spec.node = name(2);
    let spec = joins.spec.clone();
    joins.me = node(&spec, 2);
    joins.me.genesis = Some(g.clone());
    joins.newest_epoch = Epoch(1);
    let learner = MemberId(77);
    let mut list = members(&spec, &g, 2);
    list.members.push(Member {
        id: learner,
        name: String::new(),
        peer_urls: vec![spec.peer_url(&name(2)).unwrap()],
        client_urls: vec![],
        is_learner: true,
    });
    for i in [0, 1] {
        let mut status = if i == 0 {
            obs.me.clone()
        } else {
            peer(&mut obs, 1).clone()
        };
        status.members = Fact::Known(list.clone());
        joins.peers.insert(name(i), Fact::Known(status));
    }
    select(&mut joins, &to("3.6.16"));
    let action = plan(&joins, &Memory::default()).action;
    let Some(Action::Assign { assignment }) = action else {
        panic!("not assigned: {action:?}")
    };
    assert_eq!(assignment.etcd_version, Some(version("3.6.16")));
}

#[test]
fn only_one_node_is_upgraded_before_a_pause_and_a_pause_of_the_cluster_holds_all() {
    let selection = EtcdSelection {
        pause_after: Some(name(2)),
        ..to("3.6.16")
    };
    let mut obs = with_versions(1, &["3.6.16"]);
    select(&mut obs, &selection);
    assert_eq!(wish_of(&obs), Ok(None), "another node goes first");
    let reasons = plan(&obs, &Memory::default()).reasons;
    let paused = reasons.iter().find(|reason| reason.code == "upgrade-paused");
    assert!(
        paused.is_some_and(|reason| reason.text.contains("paused after n3")),
        "{reasons:?}"
    );
    let mut third = with_versions(2, &["3.6.16"]);
    select(&mut third, &selection);
    assert!(wish_of(&third).unwrap().is_some());

    let mut coordinator = with_versions(0, &["3.6.16"]);
    select(&mut coordinator, &to("3.6.16"));
    peer(&mut coordinator, 2).steering.wants_restart = wanting(false).me.steering.wants_restart;
    let granted = |obs: &Observation| plan(obs, &settled()).memory.grant.map(|(grant, _)| grant.node);
    assert_eq!(granted(&coordinator), Some(name(2)));
    pause(&mut coordinator);
    assert_eq!(granted(&coordinator), None);
}
