//! Backups of a living cluster: one is read from a follower, restored next to the cluster or over it, and
//! refused when it is damaged: S17, S28, S31, S43.

use std::fs;
use std::thread;

use crate::common::{
    DATA, SOON, agent, archived, assert_value, backup_now, backups, etcd_pid, etcd_pids, follower, formed,
    formed_of, increment_now, kill_etcd, logged, member_ids, put, status, wait_reason, wait_status,
    wait_stored,
};
use etcd_agent_lab::{ETCD_VERSIONS, Host, Lab, wait_until};

/// The raft leader has enough work, so the coordinator reads the snapshot from a follower.
#[test]
fn s28_a_full_is_read_from_a_follower() {
    let lab = formed("follower", 3);
    let leader = lab.raft_leader().unwrap();
    let follower = follower(&lab);
    put(&lab, "k", "v");
    wait_until("the first backup", SOON, || Ok(!backups(&lab).is_empty())).unwrap();
    wait_status(leader, 0);
    let (_, ids) = member_ids(&lab, leader).unwrap();
    let read_of = |newest: &str| {
        let manifest = lab.s3().read(&format!("{newest}/backup.json")).unwrap();
        let manifest: serde_json::Value = serde_json::from_str(&manifest).unwrap();
        u64::from_str_radix(manifest["member_id"].as_str().unwrap(), 16).unwrap()
    };
    // After a failure an agent reads its own member.
    let failures = || logged(leader, "the backup failed");
    wait_until("a backup without a failure before it", SOON, || {
        let before = failures();
        backup_now(leader);
        Ok(failures() == before)
    })
    .unwrap();
    assert_ne!(read_of(&backups(&lab).pop().unwrap()), ids[leader.name()]);
    backup_now(follower);
    assert_eq!(read_of(&backups(&lab).pop().unwrap()), ids[follower.name()]);
    lab.passed();
}

/// A data directory of a point in time, for inspection: no agent runs, and the cluster is not touched.
#[test]
fn s43_a_data_directory_is_built_beside_a_living_cluster() {
    for version in ETCD_VERSIONS {
        built_beside(version);
    }
}

fn built_beside(version: &str) {
    let lab = formed_of("to", 1, version);
    let n1 = lab.host(1).unwrap();
    put(&lab, "first", "1");
    backup_now(n1);
    put(&lab, "second", "2");
    let revision = wait_stored(&lab, n1);
    let before = etcd_pid(n1);
    n1.systemctl(&["stop", "etcd-agent"]).unwrap().ok().unwrap();

    agent(n1, &["restore", "latest", "--to", "/var/tmp/newest"])
        .ok()
        .unwrap();
    assert_eq!(look(n1, "newest", "second"), "2");
    let earlier = (revision - 1).to_string();
    let args = [
        "restore",
        "latest",
        "--revision",
        &earlier,
        "--to",
        "/var/tmp/earlier",
    ];
    agent(n1, &args).ok().unwrap();
    assert_eq!(look(n1, "earlier", "first"), "1");
    assert_eq!(look(n1, "earlier", "second"), "");

    let again = agent(n1, &["restore", "latest", "--to", "/var/tmp/newest"]);
    assert_eq!(again.code, 2, "{}{}", again.stdout, again.stderr);
    assert!(again.stderr.contains("not empty"), "{}", again.stderr);
    let later = (revision + 9).to_string();
    let args = [
        "restore",
        "latest",
        "--revision",
        &later,
        "--to",
        "/var/tmp/later",
    ];
    assert_eq!(agent(n1, &args).code, 1);
    let wrong = [
        "restore",
        "latest",
        "--to",
        "/var/tmp/wrong",
        "--",
        "--no-such-flag",
    ];
    assert_eq!(agent(n1, &wrong).code, 1);
    let left = n1.sh("ls -A /var/tmp | grep -v systemd-private || true").unwrap();
    let left = left.ok().unwrap().stdout;
    assert_eq!(left, "earlier\nnewest\n", "a failed restore leaves nothing");
    assert_eq!(etcd_pid(n1), before, "etcd was not restarted");
    lab.passed();
}

/// Starts an etcd on a directory below `/var/tmp`, and reads a key from it.
fn look(host: &Host, dir: &str, key: &str) -> String {
    let script = format!(
        "systemd-run --quiet --collect --unit=look etcd --data-dir=/var/tmp/{dir} \
           --listen-client-urls=http://127.0.0.1:12379 --advertise-client-urls=http://127.0.0.1:12379 \
           --listen-peer-urls=http://127.0.0.1:12380\n\
         for try in $(seq 100); do\n\
           etcdctl --endpoints=http://127.0.0.1:12379 endpoint health >/dev/null 2>&1 && break; sleep 0.1\n\
         done\n\
         etcdctl --endpoints=http://127.0.0.1:12379 get --print-value-only {key}\n\
         systemctl stop look"
    );
    host.sh(&script).unwrap().ok().unwrap().stdout.trim().to_owned()
}

/// `archive list` and `archive prune` as root, who works with the rights of etcd's user there.
fn only_what_is_named_leaves_the_archive(host: &Host) {
    let json = |args: &[&str]| -> serde_json::Value {
        let answer = agent(host, args).ok().unwrap();
        serde_json::from_str(&answer.stdout).unwrap()
    };
    let list = json(&["archive", "list", "-o", "json"]);
    let [only] = list["archives"].as_array().unwrap().as_slice() else {
        panic!("{list}");
    };
    let name = only["name"].as_str().unwrap();
    assert_eq!(archived(host), [name]);
    assert!(only["why"].as_str().unwrap().starts_with("older-epoch"), "{only}");
    assert_eq!(only["keep"][0], "newest", "{only}");
    assert!(only["size_bytes"].as_u64().unwrap() > 0, "{only}");

    let by_hand = "/var/lib/etcd/etcd-agent-archive/by-hand";
    host.sh(&format!("mkdir {by_hand}")).unwrap().ok().unwrap();
    let none = json(&["archive", "prune", "-o", "json"]);
    assert_eq!(none["changed"], false, "retention keeps it: {none}");
    for (args, says) in [(&["--force"][..], "--yes"), (&["--yes"][..], "--force")] {
        let refused = agent(host, &[&["archive", "prune", name][..], args].concat());
        assert_eq!(refused.code, 4, "{}{}", refused.stdout, refused.stderr);
        assert!(refused.stderr.contains(says), "{}", refused.stderr);
    }
    assert_eq!(archived(host), [name, "by-hand"]);
    for changed in [true, false] {
        let pruned = json(&["archive", "prune", name, "--yes", "--force", "-o", "json"]);
        assert_eq!(pruned["changed"], changed, "{pruned}");
        assert_eq!(archived(host), ["by-hand"]);
    }
    host.sh(&format!("rmdir {by_hand}")).unwrap().ok().unwrap();
}

/// A restore of a running cluster moves the existing data to the archive.
#[test]
fn s17_restore_over_living_data_archives_it() {
    let lab = formed("s17-alive", 3);
    let n2 = lab.host(2).unwrap();
    put(&lab, "kept", "yes");
    backup_now(n2);
    let newest = backups(&lab).pop().unwrap();
    let id = newest.rsplit('/').next().unwrap();
    put(&lab, "later", "than the backup");
    // Without a confirmation the restore is refused and nothing changes.
    let refused = agent(n2, &["restore", "latest"]);
    assert_eq!(refused.code, 4, "{}{}", refused.stdout, refused.stderr);
    assert_value(&lab, n2, "later", "than the backup");
    refused_where_data_cannot_be_replaced(&lab, id);

    agent(n2, &["restore", id, "--yes"]).ok().unwrap();
    lab.wait_healthy(3, SOON).unwrap();
    assert_value(&lab, n2, "kept", "yes");
    assert_value(&lab, n2, "later", "");
    for host in lab.hosts() {
        let archive = host
            .sh("ls /var/lib/etcd/etcd-agent-archive")
            .unwrap()
            .ok()
            .unwrap();
        assert_eq!(
            archive.stdout.lines().count(),
            1,
            "{}: {}",
            host.name(),
            archive.stdout
        );
        assert!(archive.stdout.contains("older-epoch"), "{}", archive.stdout);
    }
    only_what_is_named_leaves_the_archive(n2);

    // An etcd of the replaced epoch waits for quorum and does not answer, and its agent starts with an empty
    // state. The data identifies its epoch.
    let n3 = lab.host(3).unwrap();
    n3.cut().unwrap();
    kill_etcd(n3);
    wait_reason(n3, "starting");
    n3.systemctl(&["stop", "etcd-agent"]).unwrap().ok().unwrap();
    let waiting = etcd_pid(n3);
    n3.sh("rm -r /var/lib/etcd-agent/state/*").unwrap().ok().unwrap();
    n3.systemctl(&["start", "etcd-agent"]).unwrap().ok().unwrap();
    thread::scope(|scope| {
        let restore = scope.spawn(|| agent(n2, &["restore", id, "--yes"]));
        let opened = |host| Ok(status(host)?["node"]["assignment"]["epoch"] == 3);
        wait_until("the others to open epoch 3", SOON, || opened(n2)).unwrap();
        assert_eq!(etcd_pid(n3), waiting, "n3 does not know of it yet");
        n3.heal().unwrap();
        restore.join().unwrap().ok().unwrap();
    });
    lab.wait_healthy(3, SOON).unwrap();
    assert_value(&lab, n3, "kept", "yes");
    lab.passed();
}

fn snapshot_of(lab: &Lab, backup: &str) -> std::path::PathBuf {
    lab.s3().dir().join(backup).join("etcd.backup.zst")
}

/// On n1 the data directory is a mount point, and on n3 etcd's user cannot write to the directory above it. Nothing is
/// stopped for an order of n2, and later orders are carried out.
fn refused_where_data_cannot_be_replaced(lab: &Lab, id: &str) {
    let (n1, n2, n3) = (lab.host(1).unwrap(), lab.host(2).unwrap(), lab.host(3).unwrap());
    let pids = etcd_pids(lab.hosts());
    let sees = |count: usize| {
        wait_until("n2 to know which data cannot be replaced", SOON, || {
            let peers = status(n2)?["peers"].to_string();
            Ok(peers.matches("archive_trouble").count() == count)
        })
        .unwrap();
    };
    let change = |host: &Host, command: &str| {
        host.sh(command).unwrap().ok().unwrap();
        agent(host, &["reload"]).ok().unwrap();
    };
    change(n1, &format!("mount --bind {DATA} {DATA}"));
    change(
        n3,
        &format!("chown root:root $(dirname {DATA}) && chmod 0755 $(dirname {DATA})"),
    );
    assert!(wait_reason(n1, "cannot-archive").contains("is a mount point"));
    assert!(wait_reason(n3, "cannot-archive").contains("Permission denied"));
    sees(2);
    for host in [n1, n3] {
        let checked = agent(host, &["config", "check"]).ok().unwrap();
        assert!(checked.stderr.contains("cannot"), "{}", checked.stderr);
    }
    let refused = agent(n2, &["restore", id, "--yes", "--timeout", "60s"]);
    assert_ne!(refused.code, 0, "{}{}", refused.stdout, refused.stderr);
    assert!(
        refused.stderr.contains("n1 could not replace its data")
            && refused.stderr.contains("nothing was changed"),
        "{}",
        refused.stderr
    );
    assert_eq!(etcd_pids(lab.hosts()), pids, "no etcd was stopped");
    change(n1, &format!("umount --lazy {DATA}"));
    change(n3, &format!("chown --reference={DATA} $(dirname {DATA})"));
    sees(0);
    lab.wait_healthy(3, SOON).unwrap();
}

fn refused_and_unchanged(lab: &Lab, host: &Host, id: &str, what: &str) {
    let before = member_ids(lab, host).unwrap();
    let pids = etcd_pids(lab.hosts());
    let refused = agent(host, &["restore", id, "--yes", "--timeout", "150s"]);
    assert_ne!(
        refused.code, 0,
        "a restore of a {what} backup: {}{}",
        refused.stdout, refused.stderr
    );
    eprintln!("{what}: exit {}: {}", refused.code, refused.stderr.trim());
    assert_eq!(refused.code, 1, "it was tried and failed: {}", refused.stderr);
    assert_eq!(member_ids(lab, host).unwrap(), before, "{what}: the same members");
    assert_eq!(etcd_pids(lab.hosts()), pids, "{what}: etcd was not restarted");
    let keys = lab.s3().keys().unwrap();
    assert!(
        !keys.contains(&"lab/prod/control/epochs/2".to_owned()),
        "{what}: {keys:?}"
    );
}

#[test]
fn s31_corrupt_and_truncated_backups_are_refused() {
    let lab = formed("s31", 1);
    let n1 = lab.host(1).unwrap();
    wait_until("the first backup", SOON, || Ok(!backups(&lab).is_empty())).unwrap();
    for number in 0..50 {
        put(
            &lab,
            &format!("key{number}"),
            &format!("value {number}").repeat(50),
        );
    }
    backup_now(n1);
    let newest = backups(&lab).pop().unwrap();
    let id = newest.rsplit('/').next().unwrap().to_owned();
    let file = snapshot_of(&lab, &newest);
    let good = fs::read(&file).unwrap();

    let mut flipped = good.clone();
    let middle = flipped.len() / 2;
    for byte in flipped.iter_mut().skip(middle).take(8) {
        *byte ^= 0x5a;
    }
    fs::write(&file, &flipped).unwrap();
    refused_and_unchanged(&lab, n1, &id, "corrupt");

    fs::write(&file, good.get(..good.len() - 100).unwrap()).unwrap();
    refused_and_unchanged(&lab, n1, &id, "truncated");

    fs::write(&file, "").unwrap();
    refused_and_unchanged(&lab, n1, &id, "empty");

    // Only the file was wrong: the restored file is accepted.
    fs::write(&file, &good).unwrap();
    for number in 0..50 {
        put(&lab, &format!("key{number}"), "later");
    }
    increment_now(n1);
    agent(n1, &["restore", &id, "--yes"]).ok().unwrap();
    lab.wait_healthy(1, SOON).unwrap();
    assert_value(&lab, n1, "key7", &"value 7".repeat(50));
    // A write of the new history, whose revisions are smaller.
    put(&lab, "key7", "anew");
    increment_now(n1);
    lab.passed();
}
