//! Moves between versions of etcd that no rolling upgrade or downgrade joins, under writes: the cluster is put into
//! quarantine, backed up, and continues as a new epoch.

use crate::common::{
    SOON, agent, all_run, answered, archived, assert_value, backups, etcd_pids, etcdctl_v2, revision, status,
};
use crate::killer::{Killers, RESTORE};
use crate::version_table::MOVES;
use etcd_agent_lab::{Host, Lab, Output, wait_for, wait_until};
use serde_json::Value;

fn etcdctl(lab: &Lab, args: &[&str]) -> Output {
    answer(lab, args).ok().unwrap()
}

/// Each of these commands may be repeated.
fn answer(lab: &Lab, args: &[&str]) -> Output {
    answered(&args.join(" "), || lab.etcdctl(&[lab.host(1)?], args))
}

/// All keys with their revisions, versions and leases, all leases, users and roles, as etcd reports them.
fn content(lab: &Lab) -> Vec<Value> {
    let json = |args: &[&str]| -> Value {
        let said = etcdctl(lab, &[args, &["-w", "json"]].concat());
        let mut said: Value = serde_json::from_str(said.text().trim()).unwrap();
        // etcdctl writes the header of `lease list` without a name.
        for field in ["header", "cluster_id", "member_id", "raft_term", "revision"] {
            said.as_object_mut().unwrap().remove(field);
        }
        said
    };
    vec![
        json(&["get", "", "--prefix"]),
        json(&["get", "k/", "--prefix", "--rev", "8"]),
        json(&["lease", "list"]),
        json(&["user", "list"]),
        json(&["user", "get", "alice"]),
        json(&["role", "get", "reader"]),
        json(&["role", "list"]),
    ]
}

/// Some history, a lease, users and roles; authentication is on.
fn fill(lab: &Lab) -> String {
    for number in 0..5 {
        for value in ["a", "b", "c"] {
            etcdctl(lab, &["put", &format!("k/{number}"), value]);
        }
    }
    etcdctl(lab, &["del", "k/3"]);
    let granted = etcdctl(lab, &["lease", "grant", "7200"]).text().to_owned();
    let lease = granted.split_whitespace().nth(1).unwrap().to_owned();
    etcdctl(lab, &["put", "--lease", &lease, "leased", "x"]);
    crate::auth::turn_on(lab);
    lease
}

/// Authentication is on, and the users have their passwords and roles.
fn users_are_checked(lab: &Lab) {
    let by = |user: &str, args: &[&str]| {
        let user = format!("--user={user}");
        answer(lab, &[args, &[user.as_str()]].concat())
    };
    let read = by("alice:wonder", &["get", "k/0", "--print-value-only"]);
    assert_eq!(read.ok().unwrap().text(), "c");
    let denied = by("alice:wonder", &["put", "k/0", "d"]);
    assert!(denied.stderr.contains("permission denied"), "{}", denied.stderr);
    let wrong = by("alice:wrong", &["get", "k/0"]);
    assert!(wrong.stderr.contains("authentication failed"), "{}", wrong.stderr);
}

/// In quarantine etcd 3.4 and 3.5 would let anybody administer users.
pub(crate) fn with_users_no_move_begins(lab: &Lab, n1: &Host, running: &str, to: &str) {
    let (pids, opened) = (etcd_pids(lab.hosts()), epoch(n1));
    for last in ["--yes", "--dry-run"] {
        let refused = agent(n1, &["move", "--to", to, last]);
        assert_eq!(refused.code, 4, "{last}: {}{}", refused.stdout, refused.stderr);
        let expected = format!("authentication is on, and etcd {running} on n");
        assert!(
            refused.stderr.contains(&expected)
                && refused.stderr.contains("`etcdctl auth disable`, move")
                && refused
                    .stderr
                    .contains("without keys of etcd's v2 API, upgrade to 3.6 first"),
            "{last}: {}",
            refused.stderr
        );
    }
    assert_eq!(etcd_pids(lab.hosts()), pids, "nothing was restarted");
    assert_eq!(epoch(n1), opened);
    assert!(!in_quarantine(n1).unwrap());
}

fn in_quarantine(host: &Host) -> anyhow::Result<bool> {
    let errors = status(host)?["node"]["etcd"]["value"]["errors"].to_string();
    Ok(errors.contains("7310577378113058405"))
}

fn epoch(host: &Host) -> u64 {
    status(host).unwrap()["node"]["newest_epoch"].as_u64().unwrap()
}

#[test]
fn s09_a_cluster_moves_between_any_two_versions_with_all_of_its_data() {
    let lab = Lab::builder("moves")
        .hosts(3)
        .etcd("3.7.3")
        .debian_etcds()
        .package(&crate::common::deb())
        .boot()
        .unwrap();
    lab.s3().start().unwrap();
    // etcd 3.7 ignores it, 3.4 serves the v2 API.
    let settings = "[etcd.settings]\nenable-v2 = \"true\"\n";
    lab.configure(|_, config| settings.clone_into(&mut config.extra))
        .unwrap();
    lab.start_agents().unwrap();
    lab.wait_healthy(3, SOON).unwrap();
    let n1 = lab.host(1).unwrap();
    let lease = fill(&lab);
    users_are_checked(&lab);
    refused_orders_change_nothing(&lab, n1);
    a_move_that_is_cancelled_changes_nothing(&lab, n1);

    let load = lab.start_load("m").unwrap();
    load.wait_for(50, SOON).unwrap();
    let before = content(&lab);
    let at = revision(&lab, n1);
    let [(newest, oldest), back] = MOVES;
    assert_eq!(back, (oldest, newest));
    let said = agent(n1, &["move", "--to", oldest, "--yes", "--timeout", "150s"])
        .ok()
        .unwrap();
    assert!(
        said.stdout.contains("accepts writes; all revisions of all keys"),
        "{}",
        said.stdout
    );
    assert!(said.stderr.contains("the way back"), "{}", said.stderr);
    all_run(&lab, oldest);
    load.wait_for(50, SOON).unwrap();
    let written = load.stop().unwrap();
    written.verify_all(&lab).unwrap();
    eprintln!(
        "{} writes, longest gap {:?}",
        written.acknowledged, written.longest_gap
    );
    let now = revision(&lab, n1);
    assert!(
        now > at && now < at + 100_000,
        "the revisions go on: {at}, then {now}"
    );
    let after = content(&lab);
    assert_eq!(after[1..], before[1..], "history, leases, users and roles");
    let ttl = etcdctl(&lab, &["lease", "timetolive", &lease, "--keys"]);
    assert!(
        ttl.text().contains("granted with TTL(7200s)") && ttl.text().contains("leased"),
        "{}",
        ttl.text()
    );
    for host in lab.hosts() {
        wait_until(&format!("one archive on {}", host.name()), SOON, || {
            let archived = archived(host);
            anyhow::ensure!(archived.len() == 1, "{archived:?}");
            Ok(true)
        })
        .unwrap();
    }
    lab.wait_healthy(3, SOON).unwrap();
    let again = agent(n1, &["move", "--to", "3.4.23", "--yes", "-o", "json"])
        .ok()
        .unwrap();
    let again: Value = serde_json::from_str(&again.stdout).unwrap();
    assert_eq!(again["changed"], false);

    users_are_checked(&lab);
    with_users_no_move_begins(&lab, n1, oldest, newest);
    users_are_checked(&lab);
    etcdctl(&lab, &["auth", "disable"]);
    keys_of_the_v2_api_are_not_lost(&lab, n1);
    a_quarantine_that_nospace_has_lifted_opens_no_epoch(&lab, n1);
    the_next_run_finishes_it_after_any_kill(&lab, n1);
    for (key, value) in V2_KEYS {
        assert_value(&lab, n1, key, value);
    }
    let leased = etcdctl(&lab, &["get", "/app/expires", "-w", "json"])
        .text()
        .to_owned();
    assert!(leased.contains("\"lease\""), "{leased}");
    // Users and roles have come along while authentication was off.
    etcdctl(&lab, &["auth", "enable"]);
    users_are_checked(&lab);
    lab.passed();
}

/// The keys of the v2 API that are carried into v3.
const V2_KEYS: [(&str, &str); 4] = [
    ("/app/one", "1"),
    ("/app/expires", "soon"),
    ("/app/_hidden/two", "2"),
    ("/clash", "v2"),
];

/// No backup has them. Without `--include-v2`, and while v3 has another value for one of them, nothing is moved.
fn keys_of_the_v2_api_are_not_lost(lab: &Lab, n1: &Host) {
    let pids = etcd_pids(lab.hosts());
    for (key, value) in V2_KEYS {
        let ttl = if key.ends_with("expires") {
            "--ttl 7200 "
        } else {
            ""
        };
        etcdctl_v2(lab, n1, &format!("set {ttl}{key} {value}"))
            .ok()
            .unwrap();
    }
    etcdctl(lab, &["put", "/clash", "v3"]);
    for (args, expected) in [
        (
            ["--to", "3.7.3", "--yes"].as_slice(),
            "etcd's v2 API holds 4 keys",
        ),
        (&["--to", "3.7.3", "--yes"], "add --include-v2"),
        (
            &["--to", "3.7.3", "--yes", "--include-v2"],
            "\"/clash\" has another value in v3",
        ),
    ] {
        let refused = agent(n1, &[&["move"], args].concat());
        assert_eq!(refused.code, 4, "{args:?}: {}", refused.stderr);
        assert!(refused.stderr.contains(expected), "{args:?}: {}", refused.stderr);
    }
    etcdctl(lab, &["del", "/clash"]);
    let dry = agent(n1, &["move", "--to", "3.7.3", "--include-v2", "--dry-run"])
        .ok()
        .unwrap();
    assert!(dry.stdout.contains("First 4 keys"), "{}", dry.stdout);
    let none = etcdctl(lab, &["get", "/", "--prefix", "--keys-only"]);
    assert_eq!(none.text().trim(), "", "nothing was carried");
    assert_eq!(etcd_pids(lab.hosts()), pids, "nothing was restarted");
    assert!(!in_quarantine(n1).unwrap());
}

/// Each is refused with what was found, and nothing has changed.
fn refused_orders_change_nothing(lab: &Lab, n1: &Host) {
    let pids = etcd_pids(lab.hosts());
    let n2 = lab.host(2).unwrap();
    n2.sh("mv /opt/etcd-v3.4.23 /opt/away").unwrap().ok().unwrap();
    for (args, code, expected) in [
        (
            ["--to", "3.5", "--yes"].as_slice(),
            2,
            "expected a version of etcd",
        ),
        (&["--to", "3.3.27", "--yes"], 4, "expected 3.4 or a newer 3.x"),
        (&["--to", "3.5.40", "--yes"], 4, "n1 has no etcd 3.5.40"),
        (&["--to", "3.5.1", "--yes"], 4, "take 3.5.26 or a later 3.5"),
        (&["--to", "3.4.23", "--yes"], 4, "n2 has no etcd 3.4.23"),
        (&["--to", "3.6.16"], 4, "give --yes"),
    ] {
        let refused = agent(n1, &[&["move"], args].concat());
        assert_eq!(refused.code, code, "{args:?}: {}", refused.stderr);
        assert!(refused.stderr.contains(expected), "{args:?}: {}", refused.stderr);
    }
    n2.sh("mv /opt/away /opt/etcd-v3.4.23").unwrap().ok().unwrap();
    let dry = agent(n1, &["move", "--to", "3.4.23", "--dry-run"]).ok().unwrap();
    assert!(dry.stdout.contains("from etcd 3.7.3 to 3.4.23"), "{}", dry.stdout);
    let none = agent(n1, &["move", "--cancel", "-o", "json"]).ok().unwrap();
    assert!(none.stdout.contains("\"changed\": false"), "{}", none.stdout);
    assert_eq!(etcd_pids(lab.hosts()), pids, "nothing was restarted");
    assert_eq!(epoch(n1), 1);
    assert!(!in_quarantine(n1).unwrap());
}

/// The store does not answer, so that the move stops in quarantine. Reads are served, and writes are not.
fn a_move_that_is_cancelled_changes_nothing(lab: &Lab, n1: &Host) {
    let pids = etcd_pids(lab.hosts());
    let before = content(lab);
    lab.s3().stop().unwrap();
    let failed = agent(n1, &["move", "--to", "3.4.23", "--yes", "--timeout", "60s"]);
    assert_ne!(failed.code, 0, "{}", failed.stdout);
    assert!(in_quarantine(n1).unwrap(), "{}", failed.stderr);
    for args in [
        ["put", "k/9", "no"].as_slice(),
        &["del", "k/1"],
        &["lease", "grant", "5"],
    ] {
        let refused = answer(lab, args);
        assert!(
            refused.stderr.contains("corrupt cluster"),
            "{args:?}: {}",
            refused.stderr
        );
    }
    let shown = agent(n1, &["status"]).stdout;
    assert!(shown.contains("in quarantine for a move"), "{shown}");
    let disarm = agent(n1, &["alarm", "disarm"]);
    assert!(
        disarm.code == 4 && disarm.stderr.contains("move --cancel"),
        "{}",
        disarm.stderr
    );
    let cancelled = agent(n1, &["move", "--cancel"]).ok().unwrap();
    assert!(
        cancelled.stdout.contains("nothing was moved"),
        "{}",
        cancelled.stdout
    );
    assert_eq!(content(lab), before);
    etcdctl(lab, &["put", "k/9", "yes"]);
    lab.s3().start().unwrap();
    assert_eq!(etcd_pids(lab.hosts()), pids, "nothing was restarted");
    assert_eq!(epoch(n1), 1);
    lab.wait_healthy(3, SOON).unwrap();
}

/// In etcd 3.4 and 3.5 the alarm NOSPACE lifts the quarantine, although the alarm of the quarantine stays.
fn a_quarantine_that_nospace_has_lifted_opens_no_epoch(lab: &Lab, n1: &Host) {
    let (pids, opened) = (etcd_pids(lab.hosts()), epoch(n1));
    let command = [
        "move",
        "--to",
        "3.7.3",
        "--yes",
        "--include-v2",
        "--timeout",
        "60s",
    ];
    lab.s3().stop().unwrap();
    assert_ne!(agent(n1, &command).code, 0);
    assert!(in_quarantine(n1).unwrap());
    let nospace = |action: &str| {
        let body = format!(r#"{{"action":"{action}","memberID":"1","alarm":"NOSPACE"}}"#);
        let tls = "--cacert /etc/etcd/tls/ca.crt --cert /etc/etcd/tls/node.crt --key /etc/etcd/tls/node.key";
        let url = "https://localhost:2379/v3/maintenance/alarm";
        n1.sh(&format!("curl -sSf {tls} -d '{body}' {url}"))
            .unwrap()
            .ok()
            .unwrap();
    };
    nospace("ACTIVATE");
    let refused = agent(n1, &["alarm", "disarm", "--force"]);
    assert!(
        refused.code == 4 && refused.stderr.contains("move --cancel"),
        "{}",
        refused.stderr
    );
    nospace("DEACTIVATE");
    etcdctl(lab, &["put", "k/lifted", "acknowledged"]);
    assert!(in_quarantine(n1).unwrap());

    lab.s3().start().unwrap();
    let failed = agent(n1, &command);
    assert_eq!(failed.code, 1, "{}{}", failed.stdout, failed.stderr);
    assert!(
        failed.stderr.contains("accepts writes, although"),
        "{}",
        failed.stderr
    );
    agent(n1, &["move", "--cancel"]).ok().unwrap();
    assert_value(lab, n1, "k/lifted", "acknowledged");
    assert_eq!(etcd_pids(lab.hosts()), pids, "nothing was restarted");
    assert_eq!(epoch(n1), opened);
    lab.wait_healthy(3, SOON).unwrap();
}

/// The order of the last move, without the time to wait for it.
const LAST_MOVE: [&str; 5] = ["move", "--to", "3.7.3", "--yes", "--include-v2"];

/// Gives the order of the last move again while it ends with an error. A command whose order died with its agent waits
/// for its whole timeout, so the first ones are short. One that was too short is followed by a longer one.
fn move_until_done(host: &Host) -> Output {
    const TIMED_OUT: i32 = 5;
    let mut seconds = 20;
    wait_for("the move to be done", 4 * SOON, || {
        let timeout = format!("{seconds}s");
        let said = agent(host, &[&LAST_MOVE[..], &["--timeout", timeout.as_str()]].concat());
        if said.code == TIMED_OUT {
            seconds = (seconds + 10).min(150);
        }
        said.ok().map(Some)
    })
    .unwrap()
}

/// Whether the store has a record of a later epoch.
fn is_recorded_after(lab: &Lab, opened: u64) -> anyhow::Result<bool> {
    let keys = lab.s3().keys()?;
    let names = keys.iter().filter_map(|key| key.split_once("/control/epochs/"));
    let mut epochs = names.filter_map(|(_, name)| name.parse::<u64>().ok());
    Ok(epochs.any(|epoch| epoch > opened))
}

/// The command and its agent are killed in quarantine. Then each agent is killed at each step, and a host loses its
/// power as soon as the epoch is recorded. The same command goes on, also on another node.
fn the_next_run_finishes_it_after_any_kill(lab: &Lab, n1: &Host) {
    let load = lab.start_load("z").unwrap();
    load.wait_for(50, SOON).unwrap();
    let (n2, n3) = (lab.host(2).unwrap(), lab.host(3).unwrap());
    let (opened, stored) = (epoch(n1), backups(lab).len());
    // Without a store the command gets no further than the quarantine, so each later step is still to come.
    lab.s3().stop().unwrap();
    std::thread::scope(|scope| {
        let command = [&LAST_MOVE[..], &["--timeout", "150s"]].concat();
        let moving = scope.spawn(move || agent(n1, &command));
        wait_until("the quarantine", SOON, || in_quarantine(n1)).unwrap();
        n1.sh("pkill -KILL -f '^etcd-agent move' || true; systemctl kill -s KILL etcd-agent")
            .unwrap()
            .ok()
            .unwrap();
        assert_ne!(moving.join().unwrap().code, 0);
    });
    lab.s3().start().unwrap();
    // An agent may still report what it knew of the other before the kill, so each has to see the other.
    for (one, other) in [(n1, n2), (n2, n1)] {
        wait_until("both agents to see each other again", SOON, || {
            let status = status(one)?;
            Ok(status["node"]["etcd"]["fact"] == "known" && status["peers"][other.name()]["fact"] == "known")
        })
        .unwrap();
    }
    wait_until("n2 to see the quarantine", SOON, || in_quarantine(n2)).unwrap();
    assert_eq!(epoch(n2), opened);
    let killers = Killers::on(lab, "killer-of-the-move");
    std::thread::scope(|scope| {
        let moving = scope.spawn(|| move_until_done(n2));
        wait_until("the epoch to be recorded", 4 * SOON, || {
            is_recorded_after(lab, opened)
        })
        .unwrap();
        assert!(
            !moving.is_finished(),
            "the move was done before n3 lost its power"
        );
        n3.kill().unwrap();
        n3.boot().unwrap();
        moving.join().unwrap();
    });
    let said = move_until_done(n3);
    assert!(
        said.stdout.contains("accepts writes") || said.stdout.contains("already"),
        "{}",
        said.stdout
    );
    all_run(lab, "3.7.3");
    lab.wait_healthy(3, SOON).unwrap();
    // No move ends without the steps of a restore.
    killers.all_at(&RESTORE);
    assert!(backups(lab).len() > stored);
    load.wait_for(50, SOON).unwrap();
    let written = load.stop().unwrap();
    written.verify_all(lab).unwrap();
    // The quarantine lasts while orders are given again, so the gap has no bound.
    eprintln!(
        "{} writes, longest gap {:?} with kills",
        written.acknowledged, written.longest_gap
    );
}
