//! The output for people.

use super::fixture::{NOW, backups, decision, name, node, status};
use crate::cli::health::{self, Health};
use crate::cli::member;
use crate::cli::{Exit, backup_table, config, events, members, plan, restore, status as verb, status_view};
use crate::model::*;

#[test]
fn a_healthy_cluster() {
    let status = status();
    assert_eq!(health::judge(&status), Health::Healthy);
    assert_eq!(verb::exit(&status), Exit::Ok);
    insta::assert_snapshot!("status_healthy", status_view::text(&status, false));
}

#[test]
fn a_downgrade_that_etcd_has_enabled_is_shown() {
    let mut status = status();
    assert!(!status_view::text(&status, false).contains("Downgrade"));
    let enable = |status: &mut NodeStatus| {
        let Fact::Known(etcd) = &mut status.etcd else {
            panic!("etcd does not serve")
        };
        etcd.downgrade_to = Some("3.5.0".parse().unwrap());
    };
    enable(&mut status.node);
    let Some(Fact::Known(peer)) = status.peers.get_mut(&NodeName::new("n2").unwrap()) else {
        panic!("n2 does not answer")
    };
    enable(peer);
    let shown = status_view::text(&status, false);
    let expected = "\nDowngrade in etcd:\n  enabled, to 3.5, as etcd on n1, n2 reports: `etcd-agent downgrade --cancel` ends it \
                    while a member still runs the newer etcd\n";
    assert!(shown.contains(expected), "{shown}");
}

#[test]
fn a_cluster_with_much_wrong() {
    let mut status = status();
    status.peers.insert(
        name("n2"),
        Fact::Unreachable("connect to 10.0.0.2:2378: timed out".into()),
    );
    let mut third = node(3);
    third.insecure = true;
    third.data = Fact::Known(DataState::Missing);
    third.etcd = Fact::Unreachable("connection refused".into());
    if let Fact::Known(unit) = &mut third.unit {
        unit.active = ActiveState::Failed;
        unit.result = "exit-code".into();
    }
    status.peers.insert(name("n3"), Fact::Known(third));
    if let Fact::Known(etcd) = &mut status.node.etcd {
        etcd.errors.push("NOSPACE".into());
    }
    status.store_error = Some("s3://backups/etcd: 403 AccessDenied".into());
    status.config_error = Some("/etc/etcd-agent/config.toml:3: cluster.nmae: no such key".into());
    status.api_tls_error =
        Some("cannot use the private key in /etc/etcd-agent/tls/node.key: it does not fit".into());
    status.conflicts =
        vec!["/etc/systemd/system/etcd.service.d/99.conf:2: ExecStart= has --config-file".into()];
    status.decision = Decision {
        reasons: vec![
            Reason::new(
                "member-unreachable",
                "n2 is out of reach for 40s, it counts as dead after 5m",
            ),
            Reason::halt(
                "conflict",
                "etcd is not started while 99.conf overrides its settings",
            ),
        ],
        ..decision("n1 halted: etcd is not started while 99.conf overrides its settings")
    };
    assert_eq!(verb::exit(&status), Exit::Degraded);
    insta::assert_snapshot!("status_degraded", status_view::text(&status, false));
}

#[test]
fn before_there_is_a_cluster() {
    let mut status = status();
    status.store = None;
    let blank = |node: &mut NodeStatus| {
        node.etcd = Fact::Absent;
        node.assignment = None;
        node.members = Fact::Absent;
        node.last_backup = None;
        node.newest_epoch = Epoch(0);
        node.data = Fact::Known(DataState::Missing);
        if let Fact::Known(unit) = &mut node.unit {
            unit.active = ActiveState::Inactive;
            unit.sub = "dead".into();
        }
    };
    blank(&mut status.node);
    let mut second = node(2);
    blank(&mut second);
    status.peers.insert(name("n2"), Fact::Known(second));
    status.peers.insert(
        name("n3"),
        Fact::Unreachable("connect to n3:2378: no route to host".into()),
    );
    status.decision = Decision {
        reasons: vec![Reason::new(
            "waiting-for-electors",
            "n3 has to answer once before a first cluster is formed",
        )],
        ..decision("n1 of prod: waiting for n3")
    };
    assert_eq!(verb::exit(&status), Exit::Down);
    insta::assert_snapshot!("status_waiting", status_view::text(&status, false));
}

#[test]
fn health_row_by_row() {
    type Change = fn(&mut AdminStatus);
    let rows: &[(&str, Change, Exit)] = &[
        (
            "a spare that is up changes nothing",
            |s| {
                let mut spare = node(4);
                spare.etcd = Fact::Absent;
                spare.assignment = None;
                s.peers.insert(name("n4"), Fact::Known(spare));
            },
            Exit::Ok,
        ),
        (
            "a pause was ordered",
            |s| {
                s.node.steering.directives.paused = Some(Paused {
                    since: NOW,
                    by: name("n1"),
                });
            },
            Exit::Ok,
        ),
        ("fewer than wanted", |s| s.size = 5, Exit::Degraded),
        (
            "a dead member is left in the list",
            |s| {
                let extra = Member {
                    id: MemberId(0xdd),
                    name: "n9".into(),
                    peer_urls: vec![],
                    client_urls: vec![],
                    is_learner: false,
                };
                if let Fact::Known(list) = &mut s.node.members {
                    list.members.push(extra);
                }
            },
            Exit::Degraded,
        ),
        (
            "a member of another cluster does not count",
            |s| {
                if let Some(Fact::Known(peer)) = s.peers.get_mut(&name("n2"))
                    && let Fact::Known(etcd) = &mut peer.etcd
                {
                    etcd.cluster_id = ClusterId(1);
                }
            },
            Exit::Degraded,
        ),
        (
            "etcd serves, and systemd does not know that yet",
            |s| {
                if let Some(Fact::Known(peer)) = s.peers.get_mut(&name("n2"))
                    && let Fact::Known(unit) = &mut peer.unit
                {
                    unit.active = ActiveState::Activating;
                }
            },
            Exit::Degraded,
        ),
        (
            "the agent has not looked yet",
            |s| s.starting = true,
            Exit::Starting,
        ),
        (
            "no leader anywhere",
            |s| {
                s.peers.clear();
                if let Fact::Known(etcd) = &mut s.node.etcd {
                    etcd.leader = None;
                }
            },
            Exit::Down,
        ),
        (
            "own etcd down, the others serve",
            |s| s.node.etcd = Fact::Unreachable("x".into()),
            Exit::Degraded,
        ),
        (
            "something would override our settings",
            |s| s.conflicts.push("x".into()),
            Exit::Degraded,
        ),
    ];
    for (what, change, expected) in rows {
        let mut status = status();
        change(&mut status);
        assert_eq!(verb::exit(&status), *expected, "{what}");
    }
}

#[test]
fn what_serves_after_an_epoch() {
    let mut status = status();
    assert_eq!(health::serving_after(&status, Epoch(1)), 0, "that is the old one");
    assert_eq!(health::serving_after(&status, Epoch(0)), 3);
    status.node.newest_epoch = Epoch(2);
    assert_eq!(health::newest_epoch(&status), Epoch(2));
}

fn b02_what_cannot_be_read_is_shown_with_its_reason(mut listed: Vec<ListedBackup>) {
    let ListedBackup::Readable(stored) = &mut listed[1] else {
        panic!("it can be read");
    };
    stored.verify_unreadable = Some("AccessDenied (HTTP 403)".to_owned());
    listed.push(ListedBackup::Unreadable {
        id: BackupId::new("2026-03-02T00:00:00Z-000004").unwrap(),
        unreadable: "backup.json is larger than 1 MiB".to_owned(),
    });
    let text = backup_table::render(&listed, NOW, false);
    let row = text.lines().find(|line| line.contains("2026-03-02")).unwrap();
    assert!(row.ends_with("UNREADABLE  -"), "{text}");
    for why in [
        "2026-03-02T00:00:00Z-000004 cannot be read: backup.json is larger than 1 MiB",
        "the result of the verification of 2026-03-01T12:00:00Z-000003 cannot be read: AccessDenied (HTTP 403)",
    ] {
        assert!(text.contains(why), "{text}");
    }
    // Programs get both kinds in the same list, and cannot confuse them.
    let json = serde_json::to_string(&listed).unwrap();
    assert_eq!(serde_json::from_str::<Vec<ListedBackup>>(&json).unwrap(), listed);
    assert!(serde_json::from_str::<Vec<StoredBackup>>(&json).is_err());
}

#[test]
fn tables_and_plans() {
    let status = status();
    let list = status.node.members.known().unwrap();
    insta::assert_snapshot!("members", members::render(list));
    let mut stored: Vec<StoredBackup> = backups()
        .into_iter()
        .map(|summary| StoredBackup {
            covered: summary.revision,
            summary,
            writer: Writer::EtcdAgent,
            epoch: None,
            timeline: None,
            went_back: None,
            revision_at_most: None,
            verified: None,
            verify_unreadable: None,
            marks: Marks::default(),
        })
        .collect();
    stored[0].covered = Revision(81_237);
    stored[0].verified = Some(Verified {
        at: UnixMs(NOW.0 - 60_000),
        problems: vec![],
    });
    let listed = |stored: &[StoredBackup]| -> Vec<ListedBackup> {
        let boxed = stored.iter().cloned().map(Box::new);
        boxed.map(ListedBackup::Readable).collect()
    };
    insta::assert_snapshot!("backups", backup_table::render(&listed(&stored), NOW, false));
    assert_eq!(backup_table::render(&[], NOW, false), "No backups yet.\n");
    stored[0].verified.as_mut().unwrap().problems = vec!["it is cut off".to_owned()];
    insta::assert_snapshot!("backups_bad", backup_table::render(&listed(&stored), NOW, false));
    stored[0].verified = None;
    let mut marked = stored.clone();
    marked[0].marks.kept = Some(Kept {
        since: NOW,
        node: name("n1"),
        reason: Some("audit".to_owned()),
    });
    marked[0].marks.note = Some(Note {
        at: NOW,
        node: name("n2"),
        text: "before the upgrade".to_owned(),
    });
    marked[1].marks.marks_unreadable = Some("AccessDenied (HTTP 403)".to_owned());
    insta::assert_snapshot!("backups_kept", backup_table::render(&listed(&marked), NOW, false));
    insta::assert_snapshot!("backups_wide", backup_table::render(&listed(&marked), NOW, true));
    b02_what_cannot_be_read_is_shown_with_its_reason(listed(&stored));
    let wanted = Retention {
        hourly: 0,
        daily: 1,
        weekly: 0,
        yearly: 0,
        count: 1,
        recent: std::time::Duration::from_mins(30),
        ..Retention::default()
    };
    let verdicts = crate::plan::judge(&stored, NOW, &wanted);
    insta::assert_snapshot!("retention", backup_table::render_verdicts(&verdicts, NOW));
    let mut view = plan::replay(super::fixture::observation());
    view.decision = Decision {
        action: Some(Action::Promote {
            id: MemberId(0xa2),
            node: name("n2"),
            term: RaftTerm(7),
        }),
        reasons: vec![
            Reason::new("caught-up", "n2 has caught up"),
            Reason::halt("stuck", "n3 needs you"),
        ],
        ..decision("n1 leader of prod, 2/3 healthy")
    };
    insta::assert_snapshot!("plan", plan::render(&view));
    insta::assert_snapshot!("restore_warning", restore::warning(&status, &backups()[0]));
}

#[test]
fn config_show_lines_up() {
    let (root, paths) =
        super::fixture::settings_tree("[node]\nname = \"n1\"\n[store]\nurl = \"file:///b\"\n");
    let entries = crate::config::load(&paths).unwrap().unwrap().entries;
    let text = config::render(&entries).replace(root.path().to_str().unwrap(), "");
    insta::assert_snapshot!("config_show", text);
}

#[test]
fn what_was_decided() {
    let event = |seq, decision: &str, outcome, duration_ms, times| Event {
        seq,
        at: NOW,
        decision: decision.to_owned(),
        reasons: vec!["replace-gone: n3 attests that its data is gone".to_owned()],
        outcome,
        duration_ms,
        times,
    };
    let failed = EventOutcome::Failed {
        error: "etcdserver: unhealthy cluster".to_owned(),
    };
    let list = [
        event(1, "wait", EventOutcome::Waits, 0, 1),
        event(4, "remove-member", failed, 12, 3),
        event(5, "remove-member", EventOutcome::Done, 1840, 1),
    ];
    insta::assert_snapshot!("events", events::table(&list, None));
    assert!(events::table(&[], None).starts_with("Nothing was decided"));
    assert!(events::table(&[], Some(NOW)).starts_with("Nothing was decided since 2026-03-01T12:04:00Z"));
    let all = |lines, since| events::chosen(list.to_vec(), lines, since).len();
    assert_eq!(all(None, None), 3);
    assert_eq!(all(Some(2), Some(NOW)), 2);
    assert_eq!(all(None, Some(UnixMs(NOW.0 + 1))), 0);
}

#[test]
fn whether_a_node_has_a_member_is_the_leaders_word() {
    let seen = status();
    assert_eq!(member::listed(&seen, &name("n2")), Some(true));
    assert_eq!(member::listed(&seen, &name("n9")), Some(false));
    let mut headless = seen;
    if let Fact::Known(etcd) = &mut headless.node.etcd {
        etcd.leader = None;
    }
    assert_eq!(member::listed(&headless, &name("n2")), None);
}
