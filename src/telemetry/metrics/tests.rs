//! The whole exposition: of an agent that knows everything, and of one that has just started.
//! `packaging/prometheus/check.sh` gives both snapshots to promtool and takes the names of the metrics from them.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;
use std::path::Path;
use std::time::Duration;

use super::*;
use crate::http::testing::{FakeAgent, name, node_status};
use crate::model::*;
use crate::ports::AgentHandle;
use crate::telemetry::{ActionResult, BackupKind, Success};
use crate::testing::kept;

const NOW: UnixMs = UnixMs(1_772_366_640_000);
/// What follows this line in `docs/metrics.md` is made.
const MADE: &str = "<!-- made from the metrics: INSTA_UPDATE=always cargo test --lib metrics -->\n";

fn ago(seconds: u64) -> UnixMs {
    UnixMs(NOW.0 - seconds * 1000)
}

fn etcd() -> EtcdStatus {
    EtcdStatus {
        version: "3.6.16".to_owned(),
        storage_version: None,
        downgrade_to: None,
        cluster_id: ClusterId(0xcafe),
        member_id: MemberId(0xa1),
        leader: Some(MemberId(0xa1)),
        is_learner: false,
        term: RaftTerm(7),
        index: 90_000,
        applied: 90_000,
        db_size_bytes: 25_165_824,
        db_in_use_bytes: Some(20_971_520),
        revision: Revision(81_240),
        errors: vec!["memberID:161 alarm:NOSPACE ".to_owned()],
    }
}

fn member(id: u64, is_learner: bool) -> Member {
    Member {
        id: MemberId(id),
        name: format!("n{}", id - 0xa0),
        peer_urls: Vec::new(),
        client_urls: Vec::new(),
        is_learner,
    }
}

fn failing(failures: u32) -> Job {
    Job {
        failures,
        ..Job::default()
    }
}

/// The coordinator of a cluster in which all that can be known is known, and much is wrong.
fn full() -> AdminStatus {
    let grant = Grant {
        node: name("n1"),
        id: 5,
        term: RaftTerm(7),
        purpose: GrantPurpose::default(),
    };
    let mut steering = Steering::default();
    steering.directives.paused = Some(Paused {
        by: name("n2"),
        since: ago(300),
    });
    steering.reboot_locks.own.hold = Some(RebootHold {
        owner: LockOwner::Operator,
        since: ago(60),
        grant,
        confirmed: true,
    });
    steering.hash_check = Some(HashCheck {
        cluster_id: ClusterId(0xcafe),
        revision: Revision(81_000),
        at: ago(3600),
        compared: 3,
        found: Differences {
            corrupt: BTreeSet::from([MemberId(0xa3)]),
            unclear: BTreeSet::new(),
        },
    });
    let mut status = FakeAgent::new("n1").admin_status();
    status.node = NodeStatus {
        unit: Fact::Known(UnitState {
            active: ActiveState::Active,
            sub: "running".to_owned(),
            result: "success".to_owned(),
            main_pid: 42,
            load: LoadState::Loaded,
            held: true,
            ended_us: 0,
        }),
        etcd: Fact::Known(etcd()),
        members: Fact::Known(MemberList {
            cluster_id: ClusterId(0xcafe),
            term: RaftTerm(7),
            linearizable: true,
            members: vec![member(0xa1, false), member(0xa2, false), member(0xa3, true)],
        }),
        newest_epoch: Epoch(2),
        last_backup: Some(BackupSummary {
            id: BackupId::new("2026-03-01T12:00:00Z-000003").unwrap(),
            at: ago(240),
            revision: Revision(81_237),
            size_bytes: 12_345_678,
        }),
        certificate_not_after: Some(UnixMs(1_800_000_000_000)),
        steering,
        insecure: true,
        now: NOW,
        ..node_status("n1")
    };
    status.peers = BTreeMap::from([
        (name("n2"), Fact::Known(node_status("n2"))),
        (name("n3"), Fact::Unreachable("connection refused".to_owned())),
    ]);
    status.coordinator = Some(name("n1"));
    status.decision.reasons = vec![
        Reason::halt(
            ReasonCode::AllDataLost,
            "every member attests that its data is gone",
        ),
        Reason::new(ReasonCode::Grace, "n3 is out of reach for 40 s"),
        Reason::new(ReasonCode::Grace, "n4 is out of reach for 50 s"),
    ];
    status.backups = BackupView {
        prune: failing(2),
        verify: failing(1),
        increments: Job {
            running: true,
            ..failing(3)
        },
        covered: Some((Revision(81_230), ago(2))),
        ..BackupView::default()
    };
    status.store = Some("s3://backups/etcd".to_owned());
    status.store_error = Some("403 AccessDenied".to_owned());
    status.copy = Some(CopyStatus {
        store: "s3://elsewhere/etcd".to_owned(),
        newest: None,
        covered: Some(Revision(81_200)),
        at: Some(ago(600)),
        failures: 4,
        error: Some("connection refused".to_owned()),
    });
    status.config_error = Some("config.toml:3: unknown field".to_owned());
    let bad = Verified {
        at: ago(7200),
        problems: vec!["3 keys are missing".to_owned()],
    };
    status.verified = Some((BackupId::new("2026-03-01T10:00:00Z-000002").unwrap(), bad));
    status.conflicts = vec![
        "/etc/systemd/system/etcd.service.d/a.conf:2: --name".to_owned(),
        "/etc/default/etcd:7: ETCD_DATA_DIR".to_owned(),
    ];
    status.vitals = Vitals {
        looked_at: Some(UnixMs(NOW.0 - 500)),
        etcd_quota_bytes: Some(2 << 30),
        backup_interval: Some(Duration::from_mins(15)),
        etcd_certificate_not_after: Some(UnixMs(1_790_000_000_000)),
        clocks: BTreeMap::from([(name("n2"), -1_500), (name("n3"), 20)]),
    };
    status
}

/// Some successes and some failures.
fn counted() -> Counters {
    let counters = Counters::default();
    counters.action(ActionKind::StartEtcd, ActionResult::Ok);
    counters.action(ActionKind::StartEtcd, ActionResult::Ok);
    counters.action(ActionKind::StartEtcd, ActionResult::Failed);
    counters.action(ActionKind::Backup, ActionResult::Begun);
    let success = |revision| Success {
        at: UnixMs(NOW.0 - 240_042),
        revision: Revision(revision),
        size_bytes: 12_345_678,
        took: Duration::from_millis(1500),
    };
    counters.stored(BackupKind::Full, success(81_237));
    counters.stored(BackupKind::Increment, success(81_230));
    counters.failed(BackupKind::Full, Cause::Store);
    counters.failed(BackupKind::Full, Cause::Store);
    counters.failed(BackupKind::Increment, Cause::Etcd);
    counters
}

fn used() -> Process {
    Process {
        cpu: Some(Duration::from_millis(3_250)),
        resident_bytes: Some(36 << 20),
        virtual_bytes: Some(1280 << 20),
        open_fds: Some(31),
        max_fds: Some(1024),
        threads: Some(9),
        started_at: Some(ago(86_400)),
    }
}

/// The same on each architecture.
fn exposed(status: &AdminStatus, counters: &Counters, format: Format) -> String {
    let here = format!("arch=\"{}\"", std::env::consts::ARCH);
    exposition(status, counters, &used(), format).replace(&here, "arch=\"x86_64\"")
}

fn everything() -> String {
    exposed(&full(), &counted(), Format::Text)
}

#[test]
fn everything_is_known() {
    insta::assert_snapshot!("full", everything());
}

#[test]
fn the_agent_has_just_started() {
    let status = AdminStatus {
        starting: true,
        peers: BTreeMap::new(),
        ..FakeAgent::new("n1").admin_status()
    };
    let text = exposed(&status, &Counters::default(), Format::Text);
    insta::assert_snapshot!("just_started", text);
}

/// Alert rules can rely on it: what is counted begins at zero, and a pause is 0 or 1.
#[test]
fn counters_and_the_pause_exist_from_the_start() {
    let status = FakeAgent::new("n1").admin_status();
    let text = exposed(&status, &Counters::default(), Format::Text);
    let has = |line: &str| text.lines().any(|found| found == line);
    for kind in ActionKind::ALL {
        for result in ActionResult::of(*kind) {
            let labels = format!("action=\"{kind}\",result=\"{}\"", result.as_str());
            assert!(
                has(&format!("etcd_agent_actions_total{{{labels}}} 0")),
                "{labels}"
            );
        }
    }
    for kind in BackupKind::ALL {
        for cause in Cause::ALL {
            let labels = format!("kind=\"{}\",cause=\"{}\"", kind.as_str(), cause.as_str());
            assert!(
                has(&format!("etcd_agent_backup_failures_total{{{labels}}} 0")),
                "{labels}"
            );
        }
    }
    assert!(has("etcd_agent_paused 0"));
    let text = everything();
    for line in [
        "etcd_agent_paused 1",
        "etcd_agent_conflicts 2",
        "etcd_agent_reason{code=\"all-data-lost\"} 1",
        "etcd_agent_reason{code=\"grace\"} 1",
        "etcd_agent_etcd_alarm{type=\"NOSPACE\"} 1",
        "etcd_agent_etcd_alarm{type=\"CORRUPT\"} 0",
    ] {
        assert!(text.lines().any(|found| found == line), "{line} in {text}");
    }
}

/// The same samples, but the name of a counter and of an info has no suffix where it is declared, and the end is
/// marked.
#[test]
fn openmetrics_has_the_same_samples() {
    let text = everything();
    let openmetrics = exposed(&full(), &counted(), Format::OpenMetrics);
    let samples = |body: &str| -> Vec<String> {
        let lines = body.lines().filter(|line| !line.starts_with('#'));
        lines.map(str::to_owned).collect()
    };
    assert_eq!(samples(&text), samples(&openmetrics));
    for (line, in_openmetrics) in [
        ("# TYPE etcd_agent_actions counter", true),
        ("# TYPE etcd_agent_backup_failures counter", true),
        ("# TYPE process_cpu_seconds counter", true),
        ("# TYPE etcd_agent_build info", true),
        ("# TYPE etcd_agent_actions_total counter", false),
        ("# TYPE etcd_agent_build_info gauge", false),
    ] {
        let has = |body: &str| body.lines().any(|found| found == line);
        assert_eq!(
            (has(&openmetrics), has(&text)),
            (in_openmetrics, !in_openmetrics),
            "{line}"
        );
    }
    assert!(openmetrics.ends_with("\n# EOF\n") && openmetrics.matches("# EOF").count() == 1);
}

/// `docs/metrics.md` has each metric with its type, its labels and its help text.
#[test]
fn each_metric_is_documented() {
    let body = everything();
    let mut table = "\n| metric | type | labels | meaning |\n|---|---|---|---|\n".to_owned();
    let mut help = "";
    for line in body.lines() {
        if let Some(rest) = line.strip_prefix("# HELP ") {
            help = rest.split_once(' ').unwrap().1.trim_end_matches('.');
        } else if let Some(rest) = line.strip_prefix("# TYPE ") {
            let (metric, kind) = rest.split_once(' ').unwrap();
            let of_this = |line: &'_ &str| line.split(['{', ' ']).next() == Some(metric);
            let sample = body.lines().find(of_this).unwrap();
            let labels = sample[metric.len()..]
                .split('"')
                .step_by(2)
                .filter_map(|part| part.strip_suffix('='));
            let labels: Vec<String> = labels
                .map(|label| format!("`{}`", label.trim_start_matches(['{', ','])))
                .collect();
            let _ = writeln!(table, "| `{metric}` | {kind} | {} | {help} |", labels.join(", "));
        }
    }
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/metrics.md");
    let page = std::fs::read_to_string(&path).unwrap();
    let (by_hand, _) = page.split_once(MADE).unwrap();
    kept(&path, &format!("{by_hand}{MADE}{table}"));
}
