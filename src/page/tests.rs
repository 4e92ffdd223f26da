//! The whole page: healthy, degraded, halted, restoring, and with values that were made to break it.

use std::collections::BTreeMap;

use super::{Picture, page};
use crate::http::testing::{FakeAgent, name, node_status};
use crate::model::*;
use crate::ports::AgentHandle;

const NOW: UnixMs = UnixMs(1_772_366_640_000);
const MINUTE: u64 = 60_000;

fn ago(minutes: u64) -> UnixMs {
    UnixMs(NOW.0 - minutes * MINUTE)
}

fn node(number: u64) -> NodeStatus {
    let id = MemberId(0xa0 + number);
    NodeStatus {
        unit: Fact::Known(UnitState {
            active: ActiveState::Active,
            sub: "running".to_owned(),
            result: "success".to_owned(),
            main_pid: 42,
            load: LoadState::Loaded,
            held: false,
            ended_us: 0,
        }),
        data: Fact::Known(DataState::Present {
            cluster_id: ClusterId(0xcafe),
            member_id: id,
        }),
        etcd: Fact::Known(EtcdStatus {
            version: "3.6.16".to_owned(),
            storage_version: None,
            downgrade_to: None,
            cluster_id: ClusterId(0xcafe),
            member_id: id,
            leader: Some(MemberId(0xa1)),
            is_learner: false,
            term: RaftTerm(7),
            index: 90_000 - number,
            applied: 90_000 - number,
            db_size_bytes: 25_165_824,
            db_in_use_bytes: Some(20_971_520),
            revision: Revision(81_240),
            errors: Vec::new(),
        }),
        last_backup: Some(BackupSummary {
            id: BackupId::new("2026-03-01T12:00:00Z-000003").unwrap(),
            at: ago(4),
            revision: Revision(81_237),
            size_bytes: 12_345_678,
        }),
        now: NOW,
        text: String::new(),
        ..node_status(&format!("n{number}"))
    }
}

fn backup(number: u64, minutes: u64, verification: SeenVerification) -> RecentBackup {
    RecentBackup {
        id: BackupId::new(format!("2026-03-01T12:00:00Z-{number:06}")).unwrap(),
        at: ago(minutes),
        size_bytes: Some(12_345_678),
        increments: usize::try_from(number % 3).unwrap(),
        covered: Revision(81_000 + number),
        verification,
        verification_changed: None,
    }
}

fn verified(minutes: u64, problems: &[&str]) -> SeenVerification {
    SeenVerification::Read(Verified {
        at: ago(minutes),
        problems: problems.iter().map(|text| (*text).to_owned()).collect(),
    })
}

fn event(seq: u64, decision: &str, outcome: EventOutcome, reasons: &[&str]) -> Event {
    Event {
        seq,
        at: ago(60 - seq),
        decision: decision.to_owned(),
        reasons: reasons.iter().map(|text| (*text).to_owned()).collect(),
        outcome,
        duration_ms: 1_234,
        times: seq,
    }
}

/// All is well.
fn healthy() -> Picture {
    let mut status = FakeAgent::new("n1").admin_status();
    status.node = node(1);
    status.peers = BTreeMap::from([
        (name("n2"), Fact::Known(node(2))),
        (name("n3"), Fact::Known(node(3))),
    ]);
    status.coordinator = Some(name("n1"));
    status.decision.text =
        "n1 leader of prod, 3/3 healthy, last backup 4m ago (rev 81237), coordinator n1".to_owned();
    status.store = Some("s3://backups/etcd".to_owned());
    let good = Verified {
        at: ago(90),
        problems: Vec::new(),
    };
    status.verified = Some((BackupId::new("2026-03-01T12:00:00Z-000002").unwrap(), good));
    status.vitals.etcd_quota_bytes = Some(2 << 30);
    status.vitals.looked_at = Some(UnixMs(NOW.0 - 2_000));
    Picture {
        status,
        events: vec![
            event(
                1,
                "form-cluster",
                EventOutcome::Done,
                &["founder: n1 is an initial member"],
            ),
            event(
                2,
                "take-full",
                EventOutcome::Begun,
                &["backup-due: the newest full backup is old"],
            ),
        ],
        backups: vec![
            backup(1, 3_000, verified(2_990, &["3 keys are missing"])),
            backup(2, 100, verified(90, &[])),
            backup(3, 4, SeenVerification::None),
        ],
        refresh: None,
    }
}

fn degraded() -> Picture {
    let mut picture = healthy();
    let why = "connect to 10.0.0.2:2378: timed out".to_owned();
    picture.status.peers.insert(name("n2"), Fact::Unreachable(why));
    picture.status.decision.reasons = vec![Reason::new(
        ReasonCode::Grace,
        "n2 is out of reach for 40 s, and counts as dead after 5 min",
    )];
    picture.status.store_error = Some("s3://backups/etcd: 403 AccessDenied".to_owned());
    picture.refresh = Some(10);
    picture
}

fn down(node: &mut NodeStatus) {
    node.etcd = Fact::Unreachable("connection refused".to_owned());
    node.data = Fact::Known(DataState::Missing);
    if let Fact::Known(unit) = &mut node.unit {
        unit.active = ActiveState::Inactive;
    }
}

fn halted() -> Picture {
    let mut picture = healthy();
    down(&mut picture.status.node);
    for peer in picture.status.peers.values_mut() {
        if let Fact::Known(peer) = peer {
            down(peer);
        }
    }
    picture.status.coordinator = None;
    picture.status.decision.text = "halted: all data is lost".to_owned();
    picture.status.decision.reasons = vec![Reason::halt(
        ReasonCode::AllDataLost,
        "every member attests that its data is gone",
    )];
    picture.events.push(event(
        3,
        "halt",
        EventOutcome::Halted,
        &["all-data-lost: every member attests that its data is gone"],
    ));
    picture
}

fn restoring() -> Picture {
    let mut picture = halted();
    picture.status.node.steering.restoring = true;
    picture.status.decision.text = "restoring 2026-03-01T12:00:00Z-000003".to_owned();
    picture.status.decision.reasons = vec![Reason::new(
        ReasonCode::Fetching,
        "2026-03-01T12:00:00Z-000003 is being fetched and checked",
    )];
    picture
}

/// Puts a text into a picture.
type Put = fn(&mut Picture, String);

/// A line for each element, so that a change of the snapshot can be read.
fn lines(html: &str) -> String {
    html.replace("><", ">\n<")
}

#[test]
fn a_healthy_cluster() {
    insta::assert_snapshot!("healthy", lines(&page(&healthy())));
}

#[test]
fn a_degraded_cluster() {
    let html = page(&degraded());
    assert!(
        html.contains("<title>Degraded: prod, seen by n1</title>"),
        "{html}"
    );
    insta::assert_snapshot!("degraded", lines(&html));
}

#[test]
fn a_halted_cluster() {
    let html = page(&halted());
    assert!(html.contains("<title>Down (halted): prod"), "{html}");
    insta::assert_snapshot!("halted", lines(&html));
}

#[test]
fn a_restore() {
    let html = page(&restoring());
    assert!(html.contains("<title>Down (restoring): prod"), "{html}");
    insta::assert_snapshot!("restoring", lines(&html));
}

/// Each state that the judgement knows has a word on the page, and an agent that has just started says so.
#[test]
fn a_start_and_a_pause() {
    let mut picture = healthy();
    picture.status.node.steering.directives.paused = Some(Paused {
        by: name("n2"),
        since: ago(5),
    });
    let html = page(&picture);
    assert!(html.contains("<title>Healthy (paused): prod"), "{html}");
    assert!(html.contains("etcd-agent resume"), "{html}");
    picture.status.starting = true;
    picture.status.store = None;
    picture.events.clear();
    let html = page(&picture);
    assert!(html.contains("<title>Starting (paused): prod"), "{html}");
    assert!(html.contains("No store is configured"), "{html}");
    assert!(html.contains("Nothing was decided in this run"), "{html}");
}

/// HTML, escapes of terminals, newlines and marks that reverse text, in all texts that others can choose.
#[test]
fn what_others_write_is_text_on_the_page() {
    let evil = "<script>alert(1)</script>\"'><img src=x onerror=y>\x1b[2J\r\n\u{202e}\u{0}";
    let shown = "&lt;script&gt;alert(1)&lt;/script&gt;&quot;'&gt;&lt;img src=x onerror=y&gt;\
                 \\u{1b}[2J\\r\\n\\u{202e}\\u{0}";
    let texts: [(&str, Put); 9] = [
        ("a reason", |picture, evil| {
            picture.status.decision.reasons = vec![Reason::halt(ReasonCode::Grace, evil)];
        }),
        ("a code", |picture, evil| {
            picture.status.decision.reasons = vec![Reason::new(ReasonCode::Other(evil), "text")];
        }),
        ("an event", |picture, evil| {
            let error = EventOutcome::Failed { error: evil.clone() };
            picture.events = vec![event(1, &evil, error, &[&evil])];
        }),
        ("a peer", |picture, evil| {
            picture.status.peers.insert(name("n2"), Fact::Unreachable(evil));
        }),
        ("versions", |picture, evil| {
            picture.status.node.agent_version.clone_from(&evil);
            if let Fact::Known(etcd) = &mut picture.status.node.etcd {
                etcd.version = evil;
            }
        }),
        ("an alarm", |picture, evil| {
            if let Fact::Known(etcd) = &mut picture.status.node.etcd {
                etcd.errors = vec![evil];
            }
        }),
        ("the store", |picture, evil| {
            picture.status.store = Some(evil.clone());
            picture.status.store_error = Some(evil);
        }),
        ("a verification", |picture, evil| {
            picture.backups = vec![backup(1, 5, verified(1, &[&evil]))];
        }),
        ("the headline", |picture, evil| {
            picture.status.decision.text = evil;
        }),
    ];
    for (what, put) in texts {
        let mut picture = healthy();
        put(&mut picture, evil.to_owned());
        let html = page(&picture);
        assert!(html.contains(shown), "{what}: {html}");
        assert!(
            !html.contains("<script") && !html.contains("<img"),
            "{what}: {html}"
        );
        assert!(!html.chars().any(|c| c.is_control() || c == '\u{202e}'), "{what}");
    }
}
