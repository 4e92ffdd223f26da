#![allow(clippy::unwrap_used)]

use std::fs;

use super::*;
use crate::unit::apply::UnitView;
use crate::unit::data::tests::World;
use crate::unit::loaded::LoadedUnit;

const PID: u32 = 41;
const RUNTIME: &str = "/run/systemd/system/etcd.service.d/99-test.conf";

/// An etcd with these arguments and variables, next to this environment file.
fn world(args: &[&str], environ: &[&str], written: &str) -> World {
    let world = World::new();
    let dir = world.owner.proc.join(PID.to_string());
    fs::create_dir_all(&dir).unwrap();
    fs::write(dir.join("cmdline"), args.join("\0") + "\0").unwrap();
    fs::write(dir.join("environ"), environ.join("\0") + "\0").unwrap();
    fs::write(&world.owner.env_file, written).unwrap();
    world
}

/// A drop-in sets a variable and a flag, and systemd's own environment another variable.
fn origins() -> Origins {
    let text = "[Service]\nEnvironment=ETCD_HEARTBEAT_INTERVAL=500\nExecStart=\n\
                ExecStart=/usr/bin/etcd --election-timeout 5000\n";
    let mut view = UnitView {
        loaded: LoadedUnit {
            drop_in_paths: vec![RUNTIME.into()],
            environment: vec!["ETCD_HEARTBEAT_INTERVAL=500".into()],
            exec_start: vec![
                ["/usr/bin/etcd", "--election-timeout", "5000"]
                    .map(str::to_owned)
                    .to_vec(),
            ],
            ..LoadedUnit::default()
        },
        ..UnitView::default()
    };
    view.texts.insert(RUNTIME.to_owned(), Ok(Some(text.to_owned())));
    let manager = vec!["PATH=/usr/bin".to_owned(), "ETCD_MAX_WALS=9".to_owned()];
    Origins { view, manager }
}

#[test]
fn an_etcd_with_the_settings_that_are_written_does_not_differ() {
    let written = "# Written by etcd-agent\nETCD_NAME=n1\nETCD_LOG_LEVEL=\"warn\"\nETCD_INITIAL_CLUSTER_STATE=existing\n";
    let mut world = world(
        &["/usr/bin/etcd"],
        &[
            "ETCD_NAME=n1",
            "ETCD_LOG_LEVEL=warn",
            "ETCD_INITIAL_CLUSTER_STATE=new",
            "PATH=/bin",
            "ETCD_X=1",
        ],
        written,
    );
    world.owner.origins = |_| panic!("nothing is to be found out");
    assert_eq!(drift(&world.owner, PID), Fact::Known(Vec::new()));
}

#[test]
fn each_setting_that_differs_is_named_with_what_sets_it() {
    let mut world = world(
        &[
            "/usr/bin/etcd",
            "--election-timeout",
            "5000",
            "--enable-pprof",
            "--",
            "--no-such-flag",
        ],
        &["ETCD_NAME=n1", "ETCD_HEARTBEAT_INTERVAL=500", "ETCD_MAX_WALS=9"],
        "ETCD_NAME=n1\nETCD_HEARTBEAT_INTERVAL=100\nETCD_SNAPSHOT_COUNT=5000\n",
    );
    world.owner.origins = |_| Ok(origins());
    let Fact::Known(lines) = drift(&world.owner, PID) else {
        unreachable!("it can be read")
    };
    insta::assert_snapshot!(lines.join("\n"), @r"
    etcd runs with election-timeout=5000, which is not configured; /run/systemd/system/etcd.service.d/99-test.conf:4 sets it: take it out or configure it, and restart etcd
    etcd runs with enable-pprof=true, which is not configured; nothing sets it any more: restart etcd
    etcd runs with heartbeat-interval=500, configured is 100; /run/systemd/system/etcd.service.d/99-test.conf:2 sets it: take it out or configure it, and restart etcd
    etcd runs with max-wals=9, which is not configured; `systemctl set-environment ETCD_MAX_WALS=...` sets it: take it out or configure it, and restart etcd
    etcd runs without snapshot-count, configured is 5000: restart etcd
    ");
    world.owner.origins = |_| Err("no bus".to_owned());
    let Fact::Known(lines) = drift(&world.owner, PID) else {
        unreachable!("it can be read")
    };
    assert!(lines[0].contains("`systemctl cat etcd`"), "{lines:?}");
}

#[test]
fn settings_that_an_etcd_that_was_taken_over_lacks_are_one_line() {
    let written = [
        "CORS",
        "ELECTION_TIMEOUT",
        "HEARTBEAT_INTERVAL",
        "LOG_LEVEL",
        "MAX_SNAPSHOTS",
        "MAX_TXN_OPS",
        "MAX_WALS",
        "PRE_VOTE",
        "QUOTA_BACKEND_BYTES",
        "SNAPSHOT_COUNT",
    ];
    let written = written.map(|name| format!("ETCD_{name}=1\n")).concat();
    for (written, expected) in [
        (
            "ETCD_CORS=x\nETCD_SNAPSHOT_COUNT=5000\n",
            "etcd runs without 2 settings that are configured (cors, snapshot-count): restart etcd",
        ),
        (
            &written,
            "etcd runs without 10 settings that are configured (cors, election-timeout, heartbeat-interval, log-level, \
             max-snapshots, max-txn-ops, max-wals, pre-vote and 2 more): restart etcd",
        ),
    ] {
        let world = world(&["/usr/bin/etcd"], &[], written);
        assert_eq!(drift(&world.owner, PID), Fact::Known(vec![expected.to_owned()]));
    }
}

#[test]
fn with_a_config_file_etcd_reads_nothing_else() {
    let world = world(
        &["/usr/bin/etcd", "--config-file=/etc/other.yaml"],
        &["ETCD_NAME=n1"],
        "ETCD_NAME=n2\n",
    );
    let Fact::Known(lines) = drift(&world.owner, PID) else {
        unreachable!("it can be read")
    };
    assert_eq!(lines.len(), 1, "{lines:?}");
    assert!(
        lines[0].starts_with("etcd runs with config-file=/etc/other.yaml, and ignores all other settings")
    );
}

#[test]
fn secrets_are_not_shown_and_every_line_is_short() {
    let long = format!("ETCD_CORS={}\u{7}", "x".repeat(9999));
    let environ = [
        "ETCD_DISCOVERY_PASSWORD=hunter2",
        "ETCD_DISCOVERY_PROXY=http://u:hunter2@proxy:1/?key=hunter2",
        "ETCD_AUTH_TOKEN=jwt,hunter2",
        &long,
    ];
    let world = world(&["etcd"], &environ, "ETCD_AUTH_TOKEN=hunter3\n");
    let Fact::Known(lines) = drift(&world.owner, PID) else {
        unreachable!("it can be read")
    };
    assert_eq!(lines.len(), 4);
    for line in &lines {
        assert!(!line.contains("hunter") && line.len() < 400, "{line}");
    }
    assert!(
        lines[0].starts_with("etcd runs with auth-token=***, configured is ***"),
        "{lines:?}"
    );
}

#[test]
fn many_differences_are_counted() {
    let names: Vec<String> = [
        "MAX_WALS",
        "MAX_SNAPSHOTS",
        "CORS",
        "METRICS",
        "LOG_LEVEL",
        "LOGGER",
        "PRE_VOTE",
    ]
    .iter()
    .chain(&["MAX_TXN_OPS", "BCRYPT_COST", "AUTH_TOKEN_TTL"])
    .map(|name| format!("ETCD_{name}=1"))
    .collect();
    let environ: Vec<&str> = names.iter().map(String::as_str).collect();
    let world = world(&["etcd"], &environ, "");
    let Fact::Known(lines) = drift(&world.owner, PID) else {
        unreachable!("it can be read")
    };
    assert_eq!(lines.len(), MAX_LINES + 1);
    assert!(lines[MAX_LINES].contains("2 more settings"), "{lines:?}");
}

#[test]
fn what_cannot_be_read_is_unknown() {
    let gone = world(&["etcd"], &[], "");
    assert!(matches!(drift(&gone.owner, 7), Fact::Unreachable(why) if why.contains("process 7")));
    let ended = world(&[], &[], "");
    assert!(matches!(drift(&ended.owner, PID), Fact::Unreachable(why) if why.contains("has ended")));
    let mut other = world(&["etcd"], &[], "");
    other.owner.uid += 1;
    assert!(matches!(drift(&other.owner, PID), Fact::Unreachable(why) if why.contains("belongs to uid")));
    let unwritten = world(&["etcd"], &[], "");
    fs::remove_file(&unwritten.owner.env_file).unwrap();
    assert!(matches!(drift(&unwritten.owner, PID), Fact::Unreachable(why) if why.contains("etcd.env")));
}
