//! Backups, and restoring them.

use super::steering::pause;
use super::*;

#[test]
fn a_healthy_cluster_is_backed_up_by_its_coordinator_only() {
    let view = StoreView {
        genesis: None,
        newest_backup: None,
        size: Fact::Absent,
        went_back: None,
        conditional_writes: true,
        trace: None,
        commands: vec![],
        verify: VerifyView::default(),
    };
    let mut obs = healthy(0);
    obs.store = Fact::Known(view.clone());
    assert_eq!(action(&obs), Some("backup"));
    let mut follower = healthy(1);
    follower.store = Fact::Known(view);
    assert_eq!(action(&follower), None);
}

/// Credentials that have expired on one host, or a route that is gone there, are that host's alone.
#[test]
fn c08_another_node_takes_the_backup_that_fails_on_the_coordinators_host() {
    type Count = fn(&mut NodeStatus) -> &mut u32;
    let rows = [
        ("it has failed but twice", 1, 2, 0, true, false),
        ("it fails", 1, 3, 0, true, true),
        ("it fails, and the first follower takes it", 2, 3, 0, true, false),
        ("it fails, and so does the first follower", 2, 3, 3, true, true),
        ("so does the first follower itself", 1, 3, 3, true, false),
        ("each node has a store of its own", 1, 3, 0, false, false),
    ];
    let counts: [(&str, Count); 2] = [
        ("3 times in a row to take a full backup", |s| {
            &mut s.backup_failures
        }),
        ("3 times in a row to read the store", |s| &mut s.store_failures),
    ];
    for ((what, me, coordinators, followers, shared, takes), (says, count)) in rows
        .into_iter()
        .flat_map(|row| counts.map(|counted| (row, counted)))
    {
        let mut obs = healthy(me);
        obs.spec.store_shared = shared;
        obs.store = Fact::Known(StoreView {
            genesis: obs.me.genesis.clone(),
            newest_backup: None,
            size: Fact::Absent,
            went_back: None,
            conditional_writes: true,
            trace: None,
            commands: vec![],
            verify: VerifyView::default(),
        });
        *count(peer(&mut obs, 0)) = coordinators;
        let follower = if me == 1 { &mut obs.me } else { peer(&mut obs, 1) };
        *count(follower) = followers;
        let decision = decide(&obs);
        let from = name(me);
        let wanted = Action::Backup {
            from,
            format: obs.spec.backup.format,
        };
        assert_eq!(decision.action == Some(wanted), takes, "{what}: {decision:?}");
        let stands_in = decision.reasons.iter().find(|r| r.code == "backup-stand-in");
        assert_eq!(
            stands_in.map(|r| r.text.contains(says)),
            takes.then_some(true),
            "{what}"
        );
    }
}

#[test]
fn commands_in_the_store_are_named_by_the_coordinator_and_never_carried_out() {
    let says = |me: usize, commands: &[&str]| {
        let mut obs = backed_up(me);
        if let Fact::Known(store) = &mut obs.store {
            store.commands = commands.iter().map(|name| (*name).to_owned()).collect();
        }
        let decision = decide(&obs);
        let carried = decision
            .action
            .filter(|action| !matches!(action, Action::Increments { .. }));
        assert_eq!(carried, None);
        let mut reasons = decision.reasons.into_iter();
        reasons
            .find(|reason| reason.code == "command-waiting")
            .map(|reason| reason.text)
    };
    assert_eq!(says(0, &[]), None);
    assert_eq!(says(1, &["a"]), None);
    let text = says(0, &["a\nHALT", "b", "c", "d", "e"]).unwrap();
    assert!(text.contains(r"a\nHALT, b, c and 2 more;"), "{text}");
}

#[test]
fn a_calendar_says_when_a_full_backup_is_due_and_the_interval_does_not() {
    let due = |calendar: Option<&str>, age: Duration| {
        let mut obs = backed_up(0);
        follow(&mut obs, NEWEST, 0, false);
        obs.backups.pruned = Some(BackupId::new(NEWEST).unwrap());
        obs.now = UnixMs(1_800_000_030_000);
        let Fact::Known(store) = &mut obs.store else {
            unreachable!()
        };
        let at = UnixMs(obs.now.0 - u64::try_from(age.as_millis()).unwrap());
        store.newest_backup.as_mut().unwrap().at = at;
        obs.spec.backup.on_calendar = calendar.map(|text| text.parse().unwrap());
        decide(&obs).action.is_some()
    };
    let (second, day) = (Duration::from_secs(1), Duration::from_hours(24));
    for (calendar, age, expected) in [
        (None, day, true),
        (None, second, false),
        (Some("2020-01-01"), day, false),
        (Some("minutely"), second, false),
        (Some("minutely"), 31 * second, true),
    ] {
        assert_eq!(due(calendar, age), expected, "{calendar:?} after {age:?}");
    }
}

#[test]
fn s29_an_increment_on_demand_is_stored_by_who_follows_or_answered() {
    type Change = fn(&mut Observation);
    let asked = |me: usize| {
        let mut obs = backed_up(me);
        follow(&mut obs, NEWEST, 0, false);
        obs.requests = vec![OperatorRequest::Increment];
        obs
    };
    assert_eq!(decide(&asked(0)).action, Some(Action::Flush));
    let mut under_way = asked(0);
    under_way.backups.flushing = true;
    assert_ne!(decide(&under_way).action, Some(Action::Flush));
    let mut soon = asked(0);
    soon.backups.increments.running = false;
    assert_eq!(action(&soon), Some("increments"), "it begins to follow first");
    let refused = |mut obs: Observation, change: Change| {
        change(&mut obs);
        match decide(&obs).action {
            Some(Action::Answer {
                done: false, message, ..
            }) => message,
            other => unreachable!("{other:?}"),
        }
    };
    let handed = decide(&asked(1)).action;
    assert!(
        matches!(&handed, Some(Action::HandOver { to, .. }) if *to == name(0)),
        "{handed:?}"
    );
    let rows: [(usize, Change, &str); 4] = [
        (
            1,
            |o| {
                // The one that leads does not say how it is.
                o.peers.insert(name(0), Fact::Unreachable("cut off".to_owned()));
            },
            "the coordinator does: ask it",
        ),
        (0, |o| o.spec.backup_interval = None, "set store.url"),
        (
            0,
            |o| o.spec.backup.increment_interval = None,
            "set backup.increments = true",
        ),
        (
            0,
            |o| {
                pause(o);
                o.backups.increments.running = false;
            },
            "etcd-agent resume",
        ),
    ];
    for (me, change, expected) in rows {
        let message = refused(asked(me), change);
        assert!(message.contains(expected), "{message}");
    }
}

#[test]
fn a_backup_in_another_form_is_taken_or_answered() {
    let format = BackupFormat::EtcdManager;
    let mut obs = backed_up(1);
    obs.requests = vec![OperatorRequest::BackupAs { format }];
    let from = name(1);
    assert_eq!(decide(&obs).action, Some(Action::Backup { from, format }));
    lose_data(&mut obs.me);
    let request = OperatorRequest::BackupAs { format };
    let to = name(0);
    assert_eq!(decide(&obs).action, Some(Action::HandOver { request, to }));
}

#[test]
fn s17_with_all_data_lost_nothing_goes_on_alone() {
    let mut obs = healthy(0);
    lose_data(&mut obs.me);
    for i in 1..3 {
        lose_data(peer(&mut obs, i));
    }
    assert_eq!(action(&obs), None);
    assert!(has(&obs, "all-data-lost"));
}

fn follow_nobody(status: &mut NodeStatus) {
    if let Fact::Known(etcd) = &mut status.etcd {
        etcd.leader = None;
    }
}

/// n1 is left of three. Or n1 founded the cluster alone, n2 had joined, and n2's agent lost its memory with the disk: n2 takes
/// itself for a spare.
#[test]
fn a_quorum_that_is_lost_for_good_is_said_by_who_is_left() {
    let mut obs = healthy(0);
    follow_nobody(&mut obs.me);
    lose_data(peer(&mut obs, 1));
    follow_nobody(peer(&mut obs, 2));
    assert!(!has(&obs, "quorum-lost"), "n1 and n3 are a quorum");
    lose_data(peer(&mut obs, 2));
    let reasons = decide(&obs).reasons;
    let said = reasons
        .iter()
        .find(|reason| reason.code == "quorum-lost")
        .unwrap();
    assert!(said.halt && said.text.contains("n2 and n3") && said.text.contains("restore latest"));

    let mut obs = cluster(3, 1, 3);
    follow_nobody(&mut obs.me);
    let mut list = obs.me.members.known().unwrap().clone();
    let url = obs.spec.peer_url(&name(1)).unwrap();
    list.members.push(Member {
        id: MemberId(7),
        name: name(1).to_string(),
        peer_urls: vec![url],
        client_urls: vec![],
        is_learner: false,
    });
    lose_data(peer(&mut obs, 1));
    peer(&mut obs, 1).incarnation = incarnation(7);
    assert!(!has(&obs, "quorum-lost"), "n1 is the only member");
    obs.me.members = Fact::Known(list.clone());
    assert!(has(&obs, "quorum-lost"));
    // etcd was started anew: without quorum it answers nobody.
    obs.me.etcd = Fact::Unreachable("refused".to_owned());
    obs.me.members = Fact::Unreachable("refused".to_owned());
    obs.me.unit = unit(ActiveState::Activating);
    assert!(!has(&obs, "quorum-lost"), "nobody knows the members");
    obs.spec_record.members = Some(list);
    assert!(has(&obs, "quorum-lost"));
    // Before etcd has named anybody, the voters are the founders.
    let mut begun = healthy(0);
    begun.me.etcd = Fact::Unreachable("refused".to_owned());
    begun.me.members = Fact::Unreachable("refused".to_owned());
    begun.me.unit = unit(ActiveState::Activating);
    lose_data(peer(&mut begun, 1));
    follow_nobody(peer(&mut begun, 2));
    assert!(!has(&begun, "quorum-lost"), "n3 may come back");
    lose_data(peer(&mut begun, 2));
    assert!(has(&begun, "quorum-lost"));
    // A mount that is missing is no loss.
    peer(&mut obs, 1).data = Fact::Unreachable("not mounted".to_owned());
    assert!(!has(&obs, "quorum-lost"));
}

#[test]
fn a_backup_that_cannot_be_taken_here_is_answered() {
    let mut obs = healthy(1);
    lose_data(&mut obs.me);
    obs.requests = vec![OperatorRequest::Backup];
    let (request, to) = (OperatorRequest::Backup, name(0));
    assert_eq!(decide(&obs).action, Some(Action::HandOver { request, to }));
    // Nobody is seen that could.
    for i in [0, 2] {
        obs.peers.insert(name(i), Fact::Unreachable("cut off".to_owned()));
    }
    assert!(matches!(
        decide(&obs).action,
        Some(Action::Answer { done: false, .. })
    ));
}

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

/// The others have not got the backup, and the record of the epoch would be where they do not look.
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

/// An alarm is kept in the database, so the backup has it too.
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
        done && message.contains("etcdctl alarm disarm") && said,
        "{message}"
    );
}

/// Found by the simulator, seed 13071: two requests opened one epoch after the other, without end.
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

/// Found by the simulator, seeds 3357 and 4708: the order was kept waiting without end, and refused every later one.
#[test]
fn t02_a_restore_is_answered_where_its_member_has_run_and_is_gone() {
    let backup = BackupId::new("2026-01-01T00:00:00Z-000001").unwrap();
    let mut obs = healthy(0);
    let restored = genesis(&obs.spec, 3, 2, Origin::Backup(backup.clone()));
    obs.requests = vec![restore_from(backup, Some(Epoch(1)))];
    obs.me.genesis = Some(restored.clone());
    obs.newest_epoch = Epoch(2);
    obs.me.unit = unit(ActiveState::Inactive);
    obs.me.etcd = Fact::Absent;
    obs.me.data = Fact::Known(DataState::Missing);
    let mut assigned = assignment(&obs.spec, &restored, 0);
    for (started, answered) in [(false, false), (true, true)] {
        assigned.started = started;
        obs.assignment = Some(assigned.clone());
        let done = matches!(decide(&obs).action, Some(Action::Answer { done: true, .. }));
        assert_eq!(done, answered, "it has run: {started}");
    }
}

/// Seen on hosts of a lost site: the order came before the new memory had heard of the last restore, of the same backup.
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
    obs.staged = Some((Epoch(2), backup));
    assert_eq!(action(&obs), Some("replace-data"));
}

/// It may have voted before its agent saw it serve, and would come back without that.
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
        panic!("nobody takes note of it")
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

/// n1 restores, and the two others have lost what was restored there before n1 served.
#[test]
fn a_restore_is_answered_when_quorum_of_its_epoch_is_lost() {
    let backup = BackupId::new("2026-01-01T00:00:00Z-000001").unwrap();
    let mut obs = healthy(0);
    let g = genesis(&obs.spec, 3, 2, Origin::Backup(backup.clone()));
    let mut wanted = assignment(&obs.spec, &g, 0);
    (wanted.started, wanted.restored, wanted.restore) = (false, true, Some(backup.clone()));
    obs.assignment = Some(wanted);
    obs.me.etcd = Fact::Unreachable("no answer".to_owned());
    obs.me.members = Fact::Unreachable("no answer".to_owned());
    obs.me.unit = unit(ActiveState::Activating);
    obs.me.genesis = Some(g.clone());
    (obs.me.newest_epoch, obs.newest_epoch) = (Epoch(2), Epoch(2));
    for i in 1..3 {
        let spec = obs.spec.clone();
        let status = peer(&mut obs, i);
        serving(&spec, status, &g, i, 3);
        status.genesis = Some(g.clone());
        lose_data(status);
    }
    obs.requests = vec![restore_from(backup, Some(Epoch(1)))];
    let Some(Action::Answer {
        done: false, message, ..
    }) = decide(&obs).action
    else {
        panic!("{:?}", decide(&obs))
    };
    assert!(
        message.contains("n2 and n3") && message.contains("epoch 3"),
        "{message}"
    );
    // One of them may still come up.
    peer(&mut obs, 2).data = Fact::Unreachable("not looked at".to_owned());
    assert!(!matches!(decide(&obs).action, Some(Action::Answer { .. })));
}

const NEWEST: &str = "2026-03-01T12:00:00Z-000003";

/// A healthy cluster with a full backup of just now.
fn backed_up(me: usize) -> Observation {
    let mut obs = healthy(me);
    let newest = BackupSummary {
        id: BackupId::new(NEWEST).unwrap(),
        at: obs.now,
        revision: Revision(1),
        size_bytes: 1,
    };
    obs.store = Fact::Known(StoreView {
        genesis: obs.me.genesis.clone(),
        newest_backup: Some(newest),
        size: Fact::Absent,
        went_back: None,
        conditional_writes: true,
        trace: None,
        commands: vec![],
        verify: VerifyView::default(),
    });
    obs
}

#[test]
fn s28_the_coordinator_follows_the_newest_full() {
    type Change = fn(&mut Observation);
    let mut obs = backed_up(0);
    let newest = BackupId::new(NEWEST).unwrap();
    obs.backups.pruned = Some(newest.clone());
    assert_eq!(decide(&obs).action, Some(Action::Increments { backup: newest }));
    let rows: [(&str, Change, Option<&str>); 11] = [
        ("following", |o| o.backups.increments.running = true, None),
        (
            "its chain is long enough",
            |o| follow(o, NEWEST, 10_000, false),
            Some("backup"),
        ),
        (
            "users have changed",
            |o| follow(o, NEWEST, 1, true),
            Some("backup"),
        ),
        (
            "the older chain is long, and users had changed",
            |o| follow(o, "2026-03-01T11:00:00Z-000003", 10_000, true),
            None,
        ),
        (
            "failed just now",
            |o| o.backups.increments.failed_at = Some(o.steady),
            None,
        ),
        ("switched off", |o| o.spec.backup.increment_interval = None, None),
        ("paused", pause, None),
        (
            "c13: the newest is etcd-manager's, which increments cannot follow",
            |o| {
                if let Fact::Known(view) = &mut o.store
                    && let Some(newest) = &mut view.newest_backup
                {
                    newest.revision = Revision(0);
                }
            },
            Some("backup"),
        ),
        (
            "c13: it is, and increments are switched off",
            |o| {
                if let Fact::Known(view) = &mut o.store
                    && let Some(newest) = &mut view.newest_backup
                {
                    newest.revision = Revision(0);
                }
                o.spec.backup.increment_interval = None;
            },
            None,
        ),
        (
            "its chain cannot go on: a new full begins another",
            |o| o.backups.gap = o.backups.pruned.clone(),
            Some("backup"),
        ),
        (
            "an older chain could not go on",
            |o| o.backups.gap = Some(BackupId::new("2026-03-01T11:00:00Z-000003").unwrap()),
            Some("increments"),
        ),
    ];
    for (what, change, expected) in rows {
        let mut other = obs.clone();
        change(&mut other);
        assert_eq!(action(&other), expected, "{what}");
    }
    let mut follower = backed_up(1);
    follower.backups.pruned = obs.backups.pruned;
    assert_eq!(action(&follower), None, "only the coordinator");
}

/// As right after a restore from its store: the interval says nothing about what increments need.
#[test]
fn c13_a_full_of_ours_follows_etcd_managers_at_once() {
    let mut obs = backed_up(0);
    let Fact::Known(view) = &mut obs.store else {
        panic!("there is a store")
    };
    view.newest_backup.as_mut().unwrap().revision = Revision(0);
    assert_eq!(action(&obs), Some("backup"));
    assert!(has(&obs, "backup-foreign"));
    obs.spec.backup.increment_interval = None;
    assert!(!has(&obs, "backup-foreign"));
}

#[test]
fn c04_that_etcd_was_put_back_is_said() {
    let newest = BackupId::new(NEWEST).unwrap();
    let why = "etcd is at revision 3000, and its changes up to 5000 are stored";
    let text = |obs: &Observation| {
        let reasons = decide(obs).reasons;
        let found = reasons
            .into_iter()
            .find(|reason| reason.code == "history-went-back");
        found.map(|reason| reason.text)
    };
    let mut obs = backed_up(0);
    assert_eq!(text(&obs), None);
    obs.backups.gap = Some(newest);
    obs.backups.went_back = Some(why.to_owned());
    assert!(text(&obs).unwrap().contains(why));
    assert_eq!(action(&obs), Some("backup"), "which begins a timeline");
    // Once there is one, it is said by what that says.
    let Fact::Known(view) = &mut obs.store else {
        panic!("there is a store")
    };
    let next = BackupId::new("2026-03-01T12:00:01Z-000004").unwrap();
    view.newest_backup = view
        .newest_backup
        .clone()
        .map(|full| BackupSummary { id: next, ..full });
    assert_eq!(text(&obs), None);
    let Fact::Known(view) = &mut obs.store else {
        panic!("there is a store")
    };
    view.went_back = Some(why.to_owned());
    assert!(text(&obs).unwrap().contains(why));
    assert_eq!(action(&obs), Some("increments"));
}

#[test]
fn s28_a_full_is_read_from_a_follower_where_one_is_healthy() {
    type Change = fn(&mut Observation);
    let rows: [(&str, usize, Change, usize); 6] = [
        ("the leader reads the first follower", 0, |_| {}, 1),
        ("a follower reads its own member", 2, |_| {}, 2),
        (
            "whose agent is silent is not asked",
            0,
            |o| drop(o.peers.insert(name(1), Fact::Unreachable("no route".into()))),
            2,
        ),
        (
            "nor one with an alarm",
            0,
            |o| {
                if let Fact::Known(etcd) = &mut peer(o, 1).etcd {
                    etcd.errors.push("NOSPACE".into());
                }
            },
            2,
        ),
        (
            "after a try that failed: its own",
            0,
            |o| o.backup.failures = 1,
            0,
        ),
        (
            "there is no other",
            0,
            |o| {
                for i in [1, 2] {
                    lose_data(peer(o, i));
                }
            },
            0,
        ),
    ];
    for (what, me, change, from) in rows {
        let mut obs = healthy(me);
        obs.requests.push(OperatorRequest::Backup);
        change(&mut obs);
        let (from, format) = (name(from), BackupFormat::Native);
        let expected = Action::Backup { from, format };
        assert_eq!(decide(&obs).action, Some(expected), "{what}");
    }
}

/// This agent makes the chain of a full backup longer.
fn follow(obs: &mut Observation, backup: &str, increments: usize, auth_changed: bool) {
    obs.backups.increments.running = true;
    obs.backups.chain = Some(ChainView {
        backup: BackupId::new(backup).unwrap(),
        increments,
        auth_changed,
    });
}

#[test]
fn s28_a_full_of_what_has_not_changed_waits_for_a_day() {
    type Change = fn(&mut Observation);
    let minutes = |minutes: u64| {
        let mut obs = backed_up(0);
        follow(&mut obs, NEWEST, 0, false);
        obs.backups.pruned = Some(BackupId::new(NEWEST).unwrap());
        let newest = stored(&mut obs).clone();
        if let Fact::Known(etcd) = &mut obs.me.etcd {
            etcd.revision = newest.revision;
        }
        obs.now = UnixMs(newest.at.0 + minutes * 60_000);
        obs
    };
    assert_eq!(action(&minutes(14)), None, "not due");
    let due = decide(&minutes(16));
    assert_eq!(due.action, None);
    assert!(due.reasons.iter().any(|r| r.code == "backup-unchanged"));
    assert_eq!(action(&minutes(24 * 60)), Some("backup"));
    let rows: [(&str, Change); 5] = [
        ("something was written", |o| {
            if let Fact::Known(etcd) = &mut o.me.etcd {
                etcd.revision.0 += 1;
            }
        }),
        ("an increment was stored", |o| follow(o, NEWEST, 1, false)),
        ("users have changed", |o| follow(o, NEWEST, 0, true)),
        ("nobody follows", |o| o.backups.chain = None),
        ("a person asks", |o| o.requests.push(OperatorRequest::Backup)),
    ];
    for (what, change) in rows {
        let mut obs = minutes(16);
        change(&mut obs);
        assert_eq!(action(&obs), Some("backup"), "{what}");
    }
}

fn stored(obs: &mut Observation) -> &mut BackupSummary {
    let Fact::Known(view) = &mut obs.store else {
        unreachable!()
    };
    view.newest_backup.as_mut().unwrap()
}

#[test]
fn s30_old_backups_go_once_after_each_new_one() {
    type Change = fn(&mut Observation);
    assert_ne!(
        action(&healthy(0)),
        Some("prune"),
        "nothing is known of the store"
    );
    let mut obs = backed_up(0);
    follow(&mut obs, NEWEST, 0, false);
    let after = Some(BackupId::new(NEWEST).unwrap());
    assert_eq!(decide(&obs).action, Some(Action::Prune { after: after.clone() }));
    let rows: [(&str, Change); 8] = [
        ("paused", pause),
        ("the newest has no increments yet", |o| o.backups.chain = None),
        ("an older one is followed still", |o| {
            follow(o, "2026-03-01T11:00:00Z-000003", 5, false);
        }),
        ("done for this one", |o| {
            o.backups.pruned = Some(BackupId::new(NEWEST).unwrap());
        }),
        ("running", |o| o.backups.prune.running = true),
        ("failed just now", |o| o.backups.prune.failed_at = Some(o.steady)),
        ("switched off", |o| o.spec.backup.retention.enabled = false),
        ("the store does not answer", |o| {
            o.store = Fact::Unreachable("x".into());
        }),
    ];
    for (what, change) in rows {
        let mut other = obs.clone();
        change(&mut other);
        assert_eq!(action(&other), None, "{what}");
    }
    // A person may ask on any node, and whatever is switched off.
    obs.spec.backup.retention.enabled = false;
    obs.requests = vec![OperatorRequest::Prune];
    assert_eq!(decide(&obs).action, Some(Action::Prune { after }));
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

/// A restored epoch of three with n4 as a spare, seen by n1, which leads: n3 is a founder and has never started.
fn third_never_started() -> Observation {
    let mut obs = cluster(4, 3, 3);
    let origin = Origin::Backup(BackupId::new(NEWEST).unwrap());
    let new = genesis(&obs.spec, 3, 2, origin);
    let spec = obs.spec.clone();
    serving(&spec, &mut obs.me, &new, 0, 3);
    for i in 1..4 {
        let mut status = node(&spec, i);
        serving(&spec, &mut status, &new, i.min(2), 3);
        if i == 3 {
            status.assignment = None;
        }
        if i >= 2 {
            lose_data(&mut status);
            status.unit = unit(ActiveState::Inactive);
            status.assignment = status.assignment.map(|assigned| AssignmentSummary {
                started_once: false,
                ..assigned
            });
        }
        obs.peers.insert(name(i), Fact::Known(status));
    }
    obs.assignment = Some(assignment(&spec, &new, 0));
    obs.newest_epoch = Epoch(2);
    for i in 0..2 {
        let status = if i == 0 { &mut obs.me } else { peer(&mut obs, i) };
        if let Fact::Known(list) = &mut status.members {
            for (member, at) in list.members.iter_mut().zip(0..2) {
                member.client_urls = vec![format!("https://n{at}:2379")];
            }
        }
    }
    obs
}

#[test]
fn c03_the_origin_is_needed_until_all_founders_have_started_or_are_gone() {
    type Change = fn(&mut Observation);
    fn list(obs: &mut Observation) -> &mut MemberList {
        match &mut obs.me.members {
            Fact::Known(list) => list,
            _ => unreachable!(),
        }
    }
    let rows: [(&str, Change, bool); 7] = [
        ("n3 has not started", |_| {}, true),
        (
            "n3 has started",
            |o| list(o).members[2].client_urls = vec!["https://n3:2379".into()],
            false,
        ),
        ("n3 was removed", |o| drop(list(o).members.remove(2)), false),
        (
            "only a peer's list says so",
            |o| {
                list(o).members[2].client_urls = vec!["https://n3:2379".into()];
                let told = o.me.members.clone();
                peer(o, 1).members = told;
                o.me.members = Fact::Unreachable("x".into());
            },
            false,
        ),
        (
            "nobody has a list",
            |o| {
                o.me.members = Fact::Unreachable("x".into());
                peer(o, 1).members = Fact::Absent;
            },
            true,
        ),
        (
            "the list is of another epoch",
            |o| {
                list(o).members[2].client_urls = vec!["https://n3:2379".into()];
                list(o).cluster_id = ClusterId(5);
            },
            true,
        ),
        (
            "the epoch began empty",
            |o| {
                let genesis = o.me.genesis.take().unwrap();
                o.me.genesis = Some(Genesis {
                    origin: Origin::Empty,
                    ..genesis
                });
            },
            false,
        ),
    ];
    for (what, change, needed) in rows {
        let mut obs = third_never_started();
        change(&mut obs);
        assert_eq!(crate::plan::needed_origin(&obs).is_some(), needed, "{what}");
    }
}

#[test]
fn c03_a_founder_that_does_not_start_is_replaced_like_a_broken_member() {
    let after = |obs: &Observation, secs: u64| {
        let mut memory = plan(obs, &Memory::default()).memory;
        let mut later = obs.clone();
        later.steady = SteadyMs(obs.steady.0 + secs * 1000);
        // It has led for long.
        memory.coordinates = Some((RaftTerm(2), SteadyMs(0)));
        plan(&later, &memory)
    };
    let obs = third_never_started();
    let waits = after(&obs, 299);
    assert!(
        waits.reasons.iter().any(|r| r.code == "etcd-down"),
        "{:?}",
        waits.reasons
    );
    assert!(!matches!(waits.action, Some(Action::RemoveMember { .. })));
    let Some(Action::RemoveMember { node, why, .. }) = after(&obs, 300).action else {
        panic!("not replaced")
    };
    assert_eq!((node, why), (name(2), Removal::Broken));
    // Rule 3: never below a healthy quorum; nor without somebody who takes its place.
    let mut two = obs.clone();
    two.peers.insert(name(1), Fact::Unreachable("no route".into()));
    assert!(!matches!(
        after(&two, 300).action,
        Some(Action::RemoveMember { .. })
    ));
    let mut alone = obs.clone();
    alone.peers.insert(name(3), Fact::Unreachable("no route".into()));
    let decision = after(&alone, 300);
    assert!(
        decision.reasons.iter().any(|r| r.code == "no-spare"),
        "{:?}",
        decision.reasons
    );
    // Stopped by a person: it is waited for.
    let mut held = obs;
    if let Fact::Known(unit) = &mut peer(&mut held, 2).unit {
        unit.held = true;
    }
    assert!(!matches!(
        after(&held, 300).action,
        Some(Action::RemoveMember { .. })
    ));
}

/// n1 was cut off when it was asked. What was written since the earlier restore is not undone unasked.
#[test]
fn a_restore_is_not_answered_by_one_from_the_same_backup_long_before_it() {
    let backup = BackupId::new("2026-01-01T00:00:00Z-000001").unwrap();
    let opened = UnixMs(1_000_000);
    // When it was asked, and whether the epoch of the earlier one is its answer: clocks differ a little.
    let rows = [
        (opened.0 - 5_000, true),
        (opened.0 + 9_000, true),
        (opened.0 + 60_000, false),
    ];
    for (at, expected) in rows {
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
        let mut request = restore_from(backup.clone(), Some(Epoch(1)));
        if let OperatorRequest::Restore { asked, .. } = &mut request {
            *asked = UnixMs(at);
        }
        obs.requests = vec![request];
        match decide(&obs).action {
            Some(Action::Answer { done, message, .. }) => {
                assert_eq!(done, expected, "{message}");
                assert_eq!(message.contains("before this order"), !expected, "{message}");
            }
            other => panic!("{other:?}"),
        }
    }
}
