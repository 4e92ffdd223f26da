//! With authentication on and the store behind a bad network, every node loses its data: S08, S18, S29,
//! S44.

use crate::common::{
    SOON, agent, answered, assert_value, backup_now, backups, increment_now, listed, put, stop_and_wipe_all,
    verify_now, wait_status, wait_stored, with_bad_store,
};
use etcd_agent_lab::{ETCD_VERSIONS, Host, Lab, Output, S3Server, wait_until};
use serde_json::Value;

/// `root`, one user with full access for each certificate, and `alice`, who may read below `k/` with a
/// password.
pub(crate) fn turn_on(lab: &Lab) {
    // A second try may find what the first one has added.
    let done = |args: &[&str]| {
        let output = etcdctl(lab, args);
        let added = output.stderr.contains("already exists");
        assert!(output.success() || added, "{args:?}: {}", output.stderr);
    };
    let mut users = vec!["root", "outside"];
    users.extend(lab.hosts().iter().map(Host::name));
    for user in users {
        done(&["user", "add", user, "--no-password"]);
        done(&["user", "grant-role", user, "root"]);
    }
    for args in [
        ["role", "add", "reader"].as_slice(),
        &[
            "role",
            "grant-permission",
            "reader",
            "read",
            "--prefix=true",
            "k/",
        ],
        &["user", "add", "alice:wonder"],
        &["user", "grant-role", "alice", "reader"],
        &["auth", "enable"],
    ] {
        done(args);
    }
}

fn etcdctl(lab: &Lab, args: &[&str]) -> Output {
    answered(&args.join(" "), || lab.etcdctl(&[lab.host(1)?], args))
}

/// Permissions and the lease are as before.
fn users_and_lease_are_there(lab: &Lab, lease: &str) {
    wait_until("authentication to be on", SOON, || {
        let said = etcdctl(lab, &["auth", "status"]).ok()?;
        anyhow::ensure!(
            said.stdout.contains("Authentication Status: true"),
            "{}",
            said.stdout
        );
        Ok(true)
    })
    .unwrap();
    let alice = "--user=alice:wonder";
    let read = etcdctl(lab, &["get", "k/a", "--print-value-only", alice])
        .ok()
        .unwrap();
    assert_eq!(read.text(), "b");
    let denied = etcdctl(lab, &["put", "k/a", "c", alice]);
    assert!(denied.stderr.contains("permission denied"), "{}", denied.stderr);
    let wrong = etcdctl(lab, &["get", "k/a", "--user=alice:wrong"]);
    assert!(wrong.stderr.contains("authentication failed"), "{}", wrong.stderr);
    let lease = etcdctl(lab, &["lease", "timetolive", lease, "--keys"])
        .ok()
        .unwrap();
    assert!(
        lease.stdout.contains("granted with TTL(7200s)") && lease.stdout.contains("leased"),
        "{}",
        lease.stdout
    );
}

/// The properties that a verification compared.
fn compared(lab: &Lab, host: &Host) -> Vec<String> {
    let said = verify_now(host);
    // A newer backup may exist already.
    let verified = backups(lab)
        .into_iter()
        .rfind(|backup| said.stdout.contains(backup.rsplit('/').next().unwrap()))
        .unwrap();
    let record = lab.s3().read(&format!("{verified}/verify.json")).unwrap();
    let record: Value = serde_json::from_str(&record).unwrap();
    assert_eq!(record["problems"], serde_json::json!([]), "{record}");
    serde_json::from_value(record["compared"].clone()).unwrap()
}

fn all_comes_back(name: &str, server: S3Server, etcd: &str) {
    let lab = with_bad_store(name, etcd, server);
    lab.form().unwrap();
    let n1 = lab.host(1).unwrap();
    put(&lab, "k/a", "b");
    turn_on(&lab);
    let granted = etcdctl(&lab, &["lease", "grant", "7200"]).ok().unwrap();
    let lease = granted.stdout.split_whitespace().nth(1).unwrap();
    let leased = ["put", "leased", "x", &format!("--lease={lease}")];
    etcdctl(&lab, &leased).ok().unwrap();
    users_and_lease_are_there(&lab, lease);
    for host in lab.hosts() {
        wait_status(host, 0);
    }
    // The coordinator may be taking a backup of its own, also because users have changed. There the ordered one comes
    // after that, so it is the newest.
    backup_now(lab.raft_leader().unwrap());
    let load = lab.start_load("load").unwrap();
    load.wait_for(500, SOON).unwrap();
    let written = load.stop().unwrap();
    increment_now(lab.raft_leader().unwrap());
    let before = wait_stored(&lab, n1);
    // The increments of the backup before it may reach as far.
    wait_until("the newest backup to have it all", SOON, || {
        let newest = listed(n1, &["backup", "list"], "backups").pop();
        Ok(newest.and_then(|newest| newest["covered"].as_u64()) >= Some(before))
    })
    .unwrap();
    let all = [
        "sha256",
        "revision",
        "keys",
        "hash",
        "increments",
        "increment-keys",
        "increment-hash",
    ];
    assert_eq!(compared(&lab, n1), all);

    // Writes are acknowledged until the last moment.
    let load = lab.start_load("more").unwrap();
    load.wait_for(100, SOON).unwrap();
    let more = load.stop().unwrap();
    stop_and_wipe_all(&lab);
    agent(n1, &["restore", "latest", "--yes"]).ok().unwrap();
    lab.wait_healthy(3, SOON).unwrap();
    written.verify_all(&lab).unwrap();
    more.verify_all(&lab).unwrap();
    users_and_lease_are_there(&lab, lease);
    for host in lab.hosts() {
        wait_status(host, 0);
    }
    put(&lab, "after", "the restore");
    assert_value(&lab, n1, "after", "the restore");
    assert!(wait_stored(&lab, n1) > before, "revisions continue");
    backup_now(n1);
    assert_eq!(compared(&lab, n1)[..4], all[..4]);
    lab.passed();
}

/// The etcd of [`ETCD_VERSIONS`] and the S3 server of each test: every etcd and every server is in it.
const PAIRS: [(usize, S3Server); 3] = [
    (0, S3Server::Minio),
    (1, S3Server::Versitygw),
    (2, S3Server::Minio),
];

/// Runs the row of the table, or with `make test-matrix` this etcd with every server.
fn all_comes_back_with(row: usize) {
    let (etcd, server) = PAIRS[row];
    let mut servers = vec![server];
    if std::env::var_os("ETCD_AGENT_MATRIX").is_some() {
        servers = vec![S3Server::Minio, S3Server::Versitygw];
    }
    for server in servers {
        all_comes_back(&format!("auth-{etcd}-{server:?}"), server, ETCD_VERSIONS[etcd]);
    }
}

#[test]
fn s08_s18_s29_s44_users_leases_and_writes_come_back_with_the_oldest_etcd() {
    all_comes_back_with(0);
}

#[test]
fn s08_s18_s29_s44_users_leases_and_writes_come_back_with_the_middle_etcd() {
    all_comes_back_with(1);
}

#[test]
fn s08_s18_s29_s44_users_leases_and_writes_come_back_with_the_newest_etcd() {
    all_comes_back_with(2);
}
