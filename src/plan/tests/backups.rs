//! When full backups are due, which node takes them, and when old ones are removed.

use super::increments::{NEWEST, backed_up, follow};
use super::steering::pause;
use super::*;

#[test]
fn a_healthy_cluster_is_backed_up_by_its_coordinator_only() {
    let view = store_view(None, None);
    let mut obs = healthy(0);
    obs.store = Fact::Known(view.clone());
    assert_eq!(action(&obs), Some("backup"));
    let mut follower = healthy(1);
    follower.store = Fact::Known(view);
    assert_eq!(action(&follower), None);
}

/// Expired credentials or a missing route on one host affect that host alone.
#[test]
fn c08_another_node_takes_the_backup_that_fails_on_the_coordinators_host() {
    type Count = fn(&mut NodeStatus) -> &mut u32;
    let rows = [
        ("it has failed only twice", 1, 2, 0, true, false),
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
        obs.store = Fact::Known(store_view(obs.me.genesis.clone(), None));
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
        let stands_in_for = decision.reasons.iter().find(|r| r.code == "backup-stand-in");
        assert_eq!(
            stands_in_for.map(|r| r.text.contains(says)),
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
fn a_backup_that_cannot_be_taken_here_is_answered() {
    let mut obs = healthy(1);
    lose_data(&mut obs.me);
    obs.requests = vec![OperatorRequest::Backup];
    let (request, to) = (OperatorRequest::Backup, name(0));
    assert_eq!(decide(&obs).action, Some(Action::HandOver { request, to }));
    // No node in reach could take it.
    for i in [0, 2] {
        obs.peers.insert(name(i), Fact::Unreachable("cut off".to_owned()));
    }
    assert!(matches!(
        decide(&obs).action,
        Some(Action::Answer { done: false, .. })
    ));
}

#[test]
fn s28_a_full_is_read_from_a_follower_where_one_is_healthy() {
    type Change = fn(&mut Observation);
    let rows: [(&str, usize, Change, usize); 6] = [
        ("the leader reads the first follower", 0, |_| {}, 1),
        ("a follower reads its own member", 2, |_| {}, 2),
        (
            "a node whose agent is silent is not asked",
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
        ("after a failed attempt: its own", 0, |o| o.backup.failures = 1, 0),
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
    let rows: [(&str, Change); 10] = [
        ("paused", pause),
        ("this node restores", |o| o.me.steering.restoring = true),
        ("another node restores", |o| peer(o, 1).steering.restoring = true),
        ("the newest has no increments yet", |o| o.backups.chain = None),
        ("an older one is still followed", |o| {
            follow(o, "2026-03-01T11:00:00Z-000003", 5, false);
        }),
        ("done for this one", |o| {
            o.backups.pruned = Some(BackupId::new(NEWEST).unwrap());
        }),
        ("running", |o| o.backups.prune.running = true),
        ("failed just now", |o| o.backups.prune = failed_once(o.steady)),
        ("switched off", |o| o.spec.backup.retention.enabled = false),
        ("the store does not answer", |o| {
            o.store = Fact::Unreachable("x".into());
        }),
    ];
    for (what, change) in rows {
        let mut other = obs.clone();
        change(&mut other);
        assert_eq!(action(&other), None, "{what}");
        assert_eq!(has(&other, "prune-failed"), what == "failed just now", "{what}");
    }
    assert!(!has(&obs, "prune-failed") && !has(&obs, "prune-asked"));
    // A person may ask on any node, even if retention is switched off.
    obs.spec.backup.retention.enabled = false;
    obs.requests = vec![OperatorRequest::Prune];
    assert_eq!(decide(&obs).action, Some(Action::Prune { after }));
    assert!(has(&obs, "prune-asked"));
    peer(&mut obs, 1).steering.restoring = true;
    let Some(Action::Answer { done, message, .. }) = decide(&obs).action else {
        panic!("no answer")
    };
    assert!(
        !done && message.contains("a restore is under way on n2"),
        "{message}"
    );
}

/// This is the situation right after a restore from etcd-manager's store. Increments need a full backup of
/// ours, whatever the interval is.
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
    // Once the new timeline has a full backup, its record in the store is the source of the report.
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
