//! Which node stores the changes after a full backup.

use super::steering::pause;
use super::*;

pub(super) const NEWEST: &str = "2026-03-01T12:00:00Z-000003";

/// A healthy cluster with a full backup of just now.
pub(super) fn backed_up(me: usize) -> Observation {
    let mut obs = healthy(me);
    let newest = BackupSummary {
        id: BackupId::new(NEWEST).unwrap(),
        at: obs.now,
        revision: Revision(1),
        size_bytes: 1,
    };
    obs.store = Fact::Known(store_view(obs.me.genesis.clone(), Some(newest)));
    obs
}

/// This agent extends the chain of a full backup.
pub(super) fn follow(obs: &mut Observation, backup: &str, increments: usize, auth_changed: bool) {
    obs.backups.increments.running = true;
    obs.backups.chain = Some(ChainView {
        backup: BackupId::new(backup).unwrap(),
        increments,
        auth_changed,
    });
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
                // The raft leader's node does not report its status.
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
fn s28_the_coordinator_follows_the_newest_full() {
    type Change = fn(&mut Observation);
    // The action, and the code of its reason.
    type Expected = Option<(&'static str, &'static str)>;
    let mut obs = backed_up(0);
    let newest = BackupId::new(NEWEST).unwrap();
    obs.backups.pruned = Some(newest.clone());
    assert_eq!(decide(&obs).action, Some(Action::Increments { backup: newest }));
    assert!(has(&obs, "increments-due"));
    let rows: [(&str, Change, Expected); 11] = [
        ("following", |o| o.backups.increments.running = true, None),
        (
            "its chain is long enough",
            |o| follow(o, NEWEST, 10_000, false),
            Some(("backup", "backup-increments")),
        ),
        (
            "users have changed",
            |o| follow(o, NEWEST, 1, true),
            Some(("backup", "backup-auth")),
        ),
        (
            "the older chain is long, and users had changed",
            |o| follow(o, "2026-03-01T11:00:00Z-000003", 10_000, true),
            None,
        ),
        (
            "failed just now",
            |o| o.backups.increments = failed_once(o.steady),
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
            Some(("backup", "backup-foreign")),
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
            Some(("backup", "backup-gap")),
        ),
        (
            "an older chain could not go on",
            |o| o.backups.gap = Some(BackupId::new("2026-03-01T11:00:00Z-000003").unwrap()),
            Some(("increments", "increments-due")),
        ),
    ];
    for (what, change, expected) in rows {
        let mut other = obs.clone();
        change(&mut other);
        assert_eq!(action(&other), expected.map(|(action, _)| action), "{what}");
        let codes = [
            "backup-auth",
            "backup-foreign",
            "backup-gap",
            "backup-increments",
            "increments-due",
        ];
        let said: Vec<&str> = codes.into_iter().filter(|code| has(&other, code)).collect();
        assert_eq!(said, Vec::from_iter(expected.map(|(_, code)| code)), "{what}");
    }
    let mut follower = backed_up(1);
    follower.backups.pruned = obs.backups.pruned;
    assert_eq!(action(&follower), None, "only the coordinator");
    assert!(!has(&follower, "increments-due"));
}
