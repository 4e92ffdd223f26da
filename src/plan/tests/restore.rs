//! Restoring a backup as a new epoch.

use super::*;

#[test]
fn rule_6_a_restore_begins_with_fetching_and_proposes_only_what_is_fetched() {
    let backup = BackupId::new("2026-01-01T00:00:00Z-000001").unwrap();
    let mut obs = healthy(0);
    lose_data(&mut obs.me);
    for i in 1..3 {
        lose_data(peer(&mut obs, i));
    }
    obs.requests = vec![restore_from(backup.clone(), Some(Epoch(0)))];
    assert_eq!(action(&obs), Some("fetch-backup"));
    obs.fetched = Some(backup);
    let Some(Action::Propose { genesis, .. }) = decide(&obs).action else {
        panic!("no proposal")
    };
    assert_eq!(genesis.epoch, Epoch(2));
}

/// The nodes and the records of epochs are lost, and the backups are in another store: `latest` means the highest
/// epoch, so the next backups must not rank below these.
#[test]
fn a_restore_without_any_record_opens_an_epoch_above_those_of_the_backups() {
    let backup = BackupId::new("2026-01-01T00:00:00Z-000001").unwrap();
    let opened = |mut obs: Observation, of_backups: u64| {
        obs.requests = vec![restore_from(backup.clone(), Some(Epoch(1)))];
        obs.fetched = Some(backup.clone());
        obs.highest_backup_epoch = Epoch(of_backups);
        let Some(Action::Propose { genesis, .. }) = decide(&obs).action else {
            panic!("no proposal")
        };
        genesis.epoch.0
    };
    for (of_backups, expected) in [(0, 1), (1, 2), (7, 8), (998, 999), (5000, 1)] {
        assert_eq!(
            opened(fresh(0, 3, 3), of_backups),
            expected,
            "the backups are of epoch {of_backups}"
        );
    }
    // An epoch is known. The next one may be open where this node does not see it.
    for of_backups in [0, 1, 2, 7] {
        assert_eq!(
            opened(healthy(0), of_backups),
            2,
            "the backups are of epoch {of_backups}"
        );
    }
}

#[test]
fn a_restore_names_no_node_that_was_ordered_out_while_another_can_be() {
    let backup = BackupId::new("2026-01-01T00:00:00Z-000001").unwrap();
    let names = |out: &[usize]| {
        let mut obs = healthy(0);
        obs.spec.store_shared = true;
        obs.requests = vec![restore_from(backup.clone(), Some(Epoch(1)))];
        obs.fetched = Some(backup.clone());
        obs.me
            .steering
            .directives
            .out
            .extend(out.iter().map(|i| name(*i)));
        let Some(Action::Propose { genesis, .. }) = decide(&obs).action else {
            panic!("no proposal")
        };
        genesis.members.into_keys().collect::<Vec<_>>()
    };
    assert_eq!(names(&[0]), [name(1), name(2)]);
    assert_eq!(names(&[0, 1, 2]).len(), 3);
}

/// The nodes with another store do not have the backup, and they do not read the store that would record the
/// epoch.
#[test]
fn c10c_nothing_is_restored_while_a_node_names_another_store() {
    let backup = BackupId::new("2026-01-01T00:00:00Z-000001").unwrap();
    let mut obs = healthy(0);
    obs.requests = vec![restore_from(backup.clone(), Some(Epoch(1)))];
    obs.fetched = Some(backup);
    peer(&mut obs, 1).store_digest = Some("other".into());
    let Some(Action::Answer { done, message, .. }) = decide(&obs).action else {
        panic!("no answer")
    };
    assert!(!done && message.contains("store.url"), "{message}");
    // Rule 10: a node that lies about its store locks nobody out.
    let mut named = obs.clone();
    if let Some(OperatorRequest::Restore { without, .. }) = named.requests.first_mut() {
        without.insert(name(1));
    }
    assert_eq!(action(&named), Some("propose"));
    let mut ordered_out = obs.clone();
    ordered_out.me.steering.directives.out.insert(name(1));
    assert_ne!(action(&ordered_out), Some("answer"));
    peer(&mut obs, 1).store_digest = None;
    assert_eq!(action(&obs), Some("propose"));
}

/// etcd keeps alarms in the database, so the backup contains them too.
#[test]
fn c10a_a_restored_cluster_that_refuses_writes_says_so() {
    let backup = BackupId::new("2026-01-01T00:00:00Z-000001").unwrap();
    let mut obs = healthy(0);
    let mut restored = genesis(&obs.spec, 3, 1, Origin::Backup(backup.clone()));
    restored.cluster_id = obs.me.genesis.as_ref().unwrap().cluster_id;
    for i in 1..3 {
        peer(&mut obs, i).genesis = Some(restored.clone());
    }
    obs.me.genesis = Some(restored);
    obs.requests = vec![restore_from(backup, Some(Epoch(0)))];
    let answer = |obs: &Observation| {
        let decision = decide(obs);
        let said = decision.reasons.iter().any(|reason| reason.code == "etcd-alarm");
        match decision.action {
            Some(Action::Answer { done, message, .. }) => (done, message, said),
            other => panic!("{other:?}"),
        }
    };
    let (done, message, said) = answer(&obs);
    assert!(done && !message.contains("alarm") && !said, "{message}");
    let Fact::Known(etcd) = &mut obs.me.etcd else {
        panic!("etcd is up")
    };
    etcd.errors = vec!["memberID:8211f1d0f64f3269 alarm:NOSPACE".to_owned()];
    let (done, message, said) = answer(&obs);
    assert!(
        done && message.contains("the agents free it") && said,
        "{message}"
    );
    obs.spec.space.recover = false;
    let (done, message, said) = answer(&obs);
    assert!(
        done && message.contains("etcd-agent alarm disarm") && said,
        "{message}"
    );
}

/// Found by the simulator, seed 13071: two requests opened one epoch after the other endlessly.
#[test]
fn a_restore_ends_where_another_one_has_opened_an_epoch() {
    let backup = |n: u32| BackupId::new(format!("2026-01-01T00:00:00Z-{n:06}")).unwrap();
    let mut obs = healthy(0);
    lose_data(&mut obs.me);
    for i in 1..3 {
        lose_data(peer(&mut obs, i));
    }
    obs.fetched = Some(backup(1));
    let ask = |above| restore_from(backup(1), above);
    obs.me.genesis = Some(genesis(&obs.spec, 3, 3, Origin::Backup(backup(2))));
    obs.newest_epoch = Epoch(3);
    obs.requests = vec![ask(Some(Epoch(1)))];
    assert!(matches!(
        decide(&obs).action,
        Some(Action::Answer { done: false, .. })
    ));
    obs.requests = vec![ask(Some(Epoch(3)))];
    assert_eq!(
        action(&obs),
        Some("propose"),
        "asked again, of the epoch that there is"
    );
}

/// n1 was ordered to restore a backup, epoch 2 was opened from it, and etcd of n1 is down. Also n1's
/// assignment.
fn restored_and_down() -> (Observation, Assignment) {
    let backup = BackupId::new("2026-01-01T00:00:00Z-000001").unwrap();
    let mut obs = healthy(0);
    let restored = genesis(&obs.spec, 3, 2, Origin::Backup(backup.clone()));
    obs.requests = vec![restore_from(backup, Some(Epoch(1)))];
    obs.me.genesis = Some(restored.clone());
    obs.newest_epoch = Epoch(2);
    obs.me.unit = unit(ActiveState::Inactive);
    obs.me.etcd = Fact::Absent;
    let assigned = assignment(&obs.spec, &restored, 0);
    (obs, assigned)
}

/// Found by the simulator, seeds 3357 and 4708: the order waited endlessly, and every later order was refused
/// because of it.
#[test]
fn t02_a_restore_is_answered_where_its_member_has_run_and_is_gone() {
    let (mut obs, mut assigned) = restored_and_down();
    obs.me.data = Fact::Known(DataState::Missing);
    for (started, answered) in [(false, false), (true, true)] {
        assigned.started = started;
        obs.assignment = Some(assigned.clone());
        let done = matches!(decide(&obs).action, Some(Action::Answer { done: true, .. }));
        assert_eq!(done, answered, "it has run: {started}");
    }
}

/// Found by the simulator, long seed 6000466812: the member was removed before its first start, and then the
/// cluster lost its quorum, so that nobody could confirm the removal. etcd ended after each start, and the
/// order waited endlessly.
#[test]
fn a_restore_is_answered_where_etcd_does_not_stay_up() {
    let (mut obs, mut assigned) = restored_and_down();
    assigned.started = false;
    let rows = [
        (4, assigned.member_id, false),
        (5, assigned.member_id, true),
        (5, MemberId(1), false),
    ];
    obs.assignment = Some(assigned);
    for (start_failures, member, answered) in rows {
        let memory = Memory {
            start_failures,
            started_as: Some(member),
            ..Memory::default()
        };
        let action = plan(&obs, &memory).action;
        match &action {
            Some(Action::Answer { done, message, .. }) => {
                assert!(*done && answered, "{message}");
                assert!(message.contains("does not stay up on this node"), "{message}");
            }
            _ => assert!(!answered, "{start_failures} starts of {member}: {action:?}"),
        }
    }
}

/// Seen on hosts of a lost site: the order came before the new memory knew of the last restore, which was of
/// the same backup.
#[test]
fn c14_a_new_memory_takes_no_earlier_restore_for_the_answer() {
    let backup = BackupId::new("2026-01-01T00:00:00Z-000001").unwrap();
    let mut obs = healthy(0);
    let mut restored = genesis(&obs.spec, 3, 1, Origin::Backup(backup.clone()));
    restored.cluster_id = obs.me.genesis.as_ref().unwrap().cluster_id;
    for i in 1..3 {
        peer(&mut obs, i).genesis = Some(restored.clone());
    }
    obs.me.genesis = Some(restored);
    for (above, answered) in [(None, false), (Some(Epoch(1)), false), (Some(Epoch(0)), true)] {
        obs.requests = vec![restore_from(backup.clone(), above)];
        let done = matches!(decide(&obs).action, Some(Action::Answer { done: true, .. }));
        assert_eq!(done, answered, "asked above {above:?}");
    }
}

#[test]
fn rule_5_the_old_data_makes_way_only_for_a_staged_restore() {
    let backup = BackupId::new("2026-01-01T00:00:00Z-000001").unwrap();
    let mut obs = healthy(1);
    let g = genesis(&obs.spec, 3, 2, Origin::Backup(backup.clone()));
    obs.me.unit = unit(ActiveState::Inactive);
    obs.me.etcd = Fact::Absent;
    obs.me.genesis = Some(g.clone());
    obs.newest_epoch = Epoch(2);
    let mut wanted = assignment(&obs.spec, &g, 1);
    wanted.restore = Some(backup.clone());
    wanted.started = false;
    obs.assignment = Some(wanted);
    obs.fetched = Some(backup.clone());
    assert_eq!(action(&obs), Some("stage-restore"));
    assert!(!has(&obs, "restore-failed"));
    let mut failed = obs.clone();
    failed.restore = Job {
        error: Some("no space".into()),
        ..failed_once(obs.steady)
    };
    assert_eq!(action(&failed), Some("stage-restore"), "it is tried again");
    assert!(has(&failed, "restore-failed"));
    obs.staged = Some((Epoch(2), backup));
    assert_eq!(action(&obs), Some("replace-data"));
}

/// The member may have voted before its agent saw it serve. After a second restore it would come back without
/// that vote.
#[test]
fn rule_2_a_member_whose_restored_data_was_in_its_place_is_not_restored_again() {
    let backup = BackupId::new("2026-01-01T00:00:00Z-000001").unwrap();
    let mut obs = healthy(1);
    let g = genesis(&obs.spec, 3, 2, Origin::Backup(backup.clone()));
    take_down(&mut obs.me, ActiveState::Inactive);
    obs.me.genesis = Some(g.clone());
    obs.newest_epoch = Epoch(2);
    let mut wanted = assignment(&obs.spec, &g, 1);
    wanted.restore = Some(backup.clone());
    wanted.started = false;
    obs.me.data = Fact::Known(DataState::Present {
        cluster_id: wanted.cluster_id,
        member_id: wanted.member_id,
    });
    obs.assignment = Some(wanted);
    let Some(Action::Assign { assignment }) = decide(&obs).action else {
        panic!("it is not recorded")
    };
    assert!(assignment.restored && assignment.had_data() && !assignment.started);
    let Fact::Known(in_force) = &mut obs.in_force else {
        panic!("no settings")
    };
    in_force.generation = assignment.generation;
    obs.assignment = Some(*assignment);
    obs.me.data = Fact::Known(DataState::Missing);
    (obs.fetched, obs.staged) = (Some(backup.clone()), Some((Epoch(2), backup)));
    assert!(
        !matches!(action(&obs), Some("stage-restore" | "replace-data")),
        "{:?}",
        action(&obs)
    );
    assert!(has(&obs, "data-gone"));
}

#[test]
fn rule_1_a_start_on_the_data_of_an_older_epoch_is_cancelled() {
    let backup = BackupId::new("2026-01-01T00:00:00Z-000001").unwrap();
    let mut obs = healthy(1);
    let new = genesis(&obs.spec, 3, 2, Origin::Backup(backup.clone()));
    obs.me.unit = unit(ActiveState::Activating);
    if let Fact::Known(unit) = &mut obs.me.unit {
        unit.sub = "start-pre".into();
    }
    obs.me.etcd = Fact::Absent;
    obs.me.genesis = Some(new.clone());
    obs.newest_epoch = Epoch(2);
    let mut wanted = assignment(&obs.spec, &new, 1);
    wanted.restore = Some(backup);
    wanted.started = false;
    obs.assignment = Some(wanted);
    obs.gate.cleared = Some(Generation(1));
    assert_eq!(action(&obs), Some("cancel-start"));
}

/// n1 was cut off when it received the order. Writes since the earlier restore must not be undone without an
/// order.
#[test]
fn a_restore_is_not_answered_by_one_long_before_it() {
    let backup = BackupId::new("2026-01-01T00:00:00Z-000001").unwrap();
    let other = BackupId::new("2026-01-01T00:00:30Z-000002").unwrap();
    let opened = UnixMs(1_000_000);
    // The time of the order, its backup, and what the answer says. Clocks may differ a little.
    let rows = [
        (opened.0 - 5_000, &backup, true, "epoch 2 serves"),
        (opened.0 + 9_000, &backup, true, "epoch 2 serves"),
        (opened.0 + 60_000, &backup, false, "60 s before this order"),
        (opened.0 + 9_000, &other, false, "meanwhile"),
        (opened.0 + 60_000, &other, false, "60 s before this order"),
    ];
    for (at, wanted, expected, says) in rows {
        let mut obs = healthy(0);
        let mut restored = genesis(&obs.spec, 3, 2, Origin::Backup(backup.clone()));
        restored.created = opened;
        obs.newest_epoch = Epoch(2);
        if let Fact::Known(etcd) = &mut obs.me.etcd {
            etcd.cluster_id = restored.cluster_id;
        }
        if let Some(assignment) = &mut obs.assignment {
            assignment.epoch = Epoch(2);
        }
        obs.me.genesis = Some(restored);
        let mut request = restore_from(wanted.clone(), Some(Epoch(1)));
        if let OperatorRequest::Restore { asked, .. } = &mut request {
            *asked = UnixMs(at);
        }
        obs.requests = vec![request];
        match decide(&obs).action {
            Some(Action::Answer { done, message, .. }) => {
                assert_eq!(done, expected, "{message}");
                assert!(message.contains(says), "{says}: {message}");
            }
            other => panic!("{other:?}"),
        }
    }
}
