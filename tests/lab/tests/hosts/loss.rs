//! Data is lost, and comes back from the other members or from a backup: S08, S15, S17, S18, S28, S31, S43.

use std::fs;
use std::thread;
use std::time::Duration;

use crate::common::{
    DATA, SOON, agent, assert_value, backup_now, backups, etcd_pid, etcd_pids, follower, formed, formed_of,
    holds_for, increment_now, kill_etcd, member_ids, others, put, reason_now, status, stop_and_wipe_all,
    wait_reason, wait_status, wait_stored, wipe_all,
};
use etcd_agent_lab::{ETCD_VERSIONS, Host, Lab, Load, wait_until};

#[test]
fn s15_wiped_follower_heals() {
    let lab = formed("s15", 3);
    let victim = follower(&lab);
    let others = others(&lab, victim);
    let pids = etcd_pids(others.iter().copied());
    let (cluster, before) = member_ids(&lab, victim).unwrap();
    let load = lab.start_load("k").unwrap();
    load.wait_for(100, SOON).unwrap();

    victim.wipe(DATA).unwrap();
    kill_etcd(victim);
    let healed = wait_until("the member to be replaced", SOON, || {
        let (_, now) = member_ids(&lab, others.first().unwrap())?;
        Ok(now.len() == 3
            && now
                .get(victim.name())
                .is_some_and(|id| Some(id) != before.get(victim.name())))
    })
    .unwrap();
    let voting = lab.wait_healthy(3, SOON).unwrap();
    eprintln!("listed again after {healed:?}, voting {voting:?} later");
    load.wait_for(100, SOON).unwrap();
    let written = load.stop().unwrap();
    written.verify_all(&lab).unwrap();

    let (same, after) = member_ids(&lab, victim).unwrap();
    assert_eq!(same, cluster, "the same cluster");
    for host in &others {
        assert_eq!(
            after.get(host.name()),
            before.get(host.name()),
            "{} is the same member",
            host.name()
        );
    }
    assert_eq!(etcd_pids(others), pids, "the others were not restarted");
    wait_status(victim, 0);
    lab.passed();
}

/// The other order: systemd starts etcd again while the directory is being removed, at varying times. In
/// every case nothing is lost, and the member is replaced or continues.
#[test]
fn s15_torn_follower_loses_nothing() {
    let lab = formed("s15-torn", 3);
    let victim = follower(&lab);
    let others = others(&lab, victim);
    let pids = etcd_pids(others.iter().copied());
    let load = lab.start_load("k").unwrap();
    load.wait_for(100, SOON).unwrap();

    for pause in ["0", "0.1", "0.13", "0.16", "0.2", "0.3"] {
        let pid = etcd_pid(victim);
        let tear = format!("kill -KILL {pid} || true\nsleep {pause}\nrm -rf {DATA} || rm -rf {DATA} || true");
        victim.sh(&tear).unwrap().ok().unwrap();
        let healed = lab.wait_healthy(3, SOON).unwrap();
        let there = victim
            .disk()
            .join(DATA.trim_start_matches('/'))
            .join("member/wal")
            .exists();
        eprintln!("torn after {pause} s: healthy after {healed:?}, data there: {there}");
        if !there {
            // etcd had opened its files before they were removed: it fails only at its next start.
            kill_etcd(victim);
            let healed = lab.wait_healthy(3, SOON).unwrap();
            eprintln!("killed once more: healthy after {healed:?}");
        }
        load.wait_for(50, SOON).unwrap();
    }
    let written = load.stop().unwrap();
    written.verify_all(&lab).unwrap();
    assert_eq!(etcd_pids(others), pids, "the others were not restarted");
    lab.passed();
}

/// If etcd is allowed to start on an emptied directory, it creates an empty log with the right IDs. That also
/// counts as no data.
#[test]
fn s15_a_log_that_remembers_nothing_is_replaced() {
    let lab = formed("s15-empty", 3);
    let victim = follower(&lab);
    let others = others(&lab, victim);
    let (_, before) = member_ids(&lab, victim).unwrap();
    let load = lab.start_load("k").unwrap();
    load.wait_for(100, SOON).unwrap();
    victim
        .write_file("/run/etcd-agent/gate-override", "", "0644", "root:root")
        .unwrap();
    // The agent would cancel the start.
    victim.systemctl(&["stop", "etcd-agent"]).unwrap();
    victim.wipe(DATA).unwrap();
    kill_etcd(victim);
    let wal = victim
        .disk()
        .join(DATA.trim_start_matches('/'))
        .join("member/wal");
    wait_until("etcd to make a log of its own", SOON, || Ok(wal.exists())).unwrap();
    victim.systemctl(&["start", "etcd-agent"]).unwrap();
    wait_until("the member to be replaced", SOON, || {
        let (_, now) = member_ids(&lab, others.first().unwrap())?;
        let id = now.get(victim.name());
        Ok(now.len() == 3 && id.is_some() && id != before.get(victim.name()))
    })
    .unwrap();
    lab.wait_healthy(3, SOON).unwrap();
    load.stop().unwrap().verify_all(&lab).unwrap();
    let said = victim.journal("etcd-agent").unwrap();
    assert!(said.contains("remembers nothing"), "{said}");
    lab.passed();
}

/// The agent has seen the data, and the data is removed before systemd starts the crashed etcd again: the
/// gate holds the start back, and its request makes the agent inspect the data again.
#[test]
fn s15_data_lost_between_the_agents_look_and_the_gates() {
    let lab = formed("s15-between", 3);
    let victim = follower(&lab);
    let others = others(&lab, victim);
    let (_, before) = member_ids(&lab, victim).unwrap();
    let load = lab.start_load("k").unwrap();
    load.wait_for(100, SOON).unwrap();
    let slow = "/etc/systemd/system/etcd.service.d/50-slow.conf";
    victim
        .write_file(slow, "[Service]\nRestartSec=120\n", "0644", "root:root")
        .unwrap();
    victim.systemctl(&["daemon-reload"]).unwrap();
    kill_etcd(victim);
    wait_until("the agent to have looked", SOON, || {
        Ok(status(victim)?["node"]["data"]["value"]["state"] == "present"
            && status(victim)?["node"]["unit"]["value"]["sub"] == "auto-restart")
    })
    .unwrap();
    victim.wipe(DATA).unwrap();
    // The start that systemd makes after the pause, without waiting for the pause.
    victim
        .systemctl(&["start", "--no-block", "etcd"])
        .unwrap()
        .ok()
        .unwrap();
    wait_until("the member to be replaced", SOON, || {
        let (_, now) = member_ids(&lab, others.first().unwrap())?;
        let id = now.get(victim.name());
        Ok(now.len() == 3 && id.is_some() && id != before.get(victim.name()))
    })
    .unwrap();
    lab.wait_healthy(3, SOON).unwrap();
    load.stop().unwrap().verify_all(&lab).unwrap();
    lab.passed();
}

#[test]
fn s08_s17_all_wiped_refuses_alone_and_restores_all_on_command() {
    let lab = formed("s17", 3);
    let n1 = lab.host(1).unwrap();
    for number in 0..20 {
        put(&lab, &format!("key{number}"), &format!("value{number}"));
    }
    backup_now(n1);
    put(&lab, "last", "before the loss");
    wait_stored(&lab, n1);
    let (cluster, _) = member_ids(&lab, n1).unwrap();

    // With two of three lost, the agent of the remaining member reports that. It still does when it has only
    // its memory: an etcd that is started without quorum does not answer.
    for host in others(&lab, n1) {
        host.kill().unwrap();
        host.wipe(DATA).unwrap();
    }
    lab.each(|host| {
        if host.name() == n1.name() {
            Ok(())
        } else {
            host.boot().map(drop)
        }
    })
    .unwrap();
    let text = wait_reason(n1, "quorum-lost");
    assert!(
        text.contains("n2 and n3") && text.contains("restore latest"),
        "{text}"
    );
    kill_etcd(n1);
    n1.systemctl(&["restart", "etcd-agent"]).unwrap().ok().unwrap();
    wait_until(
        "etcd to wait for quorum, and the agent to report its loss",
        SOON,
        || Ok(reason_now(n1, "starting")?.is_some() && reason_now(n1, "quorum-lost")?.is_some()),
    )
    .unwrap();

    wipe_all(&lab);
    for host in lab.hosts() {
        let text = wait_reason(host, "all-data-lost");
        assert!(text.contains("restore latest"), "{text}");
    }
    // The cluster does not serve.
    wait_status(n1, 7);
    holds_for("no member continues alone", Duration::from_secs(5), || {
        lab.hosts().iter().all(|host| {
            let state = host.unit_property("etcd", "ActiveState").unwrap();
            ["inactive", "failed"].contains(&state.as_str())
                && !host
                    .disk()
                    .join(DATA.trim_start_matches('/'))
                    .join("member")
                    .exists()
        })
    });

    let restored = agent(n1, &["restore", "latest", "--yes"]).ok().unwrap();
    lab.wait_healthy(3, SOON).unwrap();
    for number in 0..20 {
        assert_value(&lab, n1, &format!("key{number}"), &format!("value{number}"));
    }
    assert_value(&lab, n1, "last", "before the loss");
    let (other, _) = member_ids(&lab, n1).unwrap();
    assert_ne!(other, cluster, "another incarnation has another cluster ID");
    for host in lab.hosts() {
        wait_status(host, 0);
        let status = status(host).unwrap();
        assert_eq!(status["node"]["assignment"]["epoch"], 2, "{}", restored.stdout);
    }
    assert!(
        lab.s3()
            .keys()
            .unwrap()
            .contains(&"lab/prod/control/epochs/2".to_owned())
    );
    put(&lab, "after", "the restore");
    assert_value(&lab, lab.host(3).unwrap(), "after", "the restore");
    lab.passed();
}

/// The raft leader has enough work, so the coordinator reads the snapshot from a follower.
#[test]
fn s28_a_full_is_read_from_a_follower() {
    let lab = formed("follower", 3);
    let leader = lab.raft_leader().unwrap();
    let follower = follower(&lab);
    put(&lab, "k", "v");
    let (_, ids) = member_ids(&lab, leader).unwrap();
    let read_of = |newest: &str| {
        let manifest = lab.s3().read(&format!("{newest}/backup.json")).unwrap();
        let manifest: serde_json::Value = serde_json::from_str(&manifest).unwrap();
        u64::from_str_radix(manifest["member_id"].as_str().unwrap(), 16).unwrap()
    };
    backup_now(leader);
    assert_ne!(read_of(&backups(&lab).pop().unwrap()), ids[leader.name()]);
    backup_now(follower);
    assert_eq!(read_of(&backups(&lab).pop().unwrap()), ids[follower.name()]);
    lab.passed();
}

/// Every write that etcd accepted before it was stopped is in the store: losing the data loses nothing.
#[test]
fn s18_stopped_cleanly_and_wiped_nothing_acknowledged_is_lost() {
    let lab = formed("s18", 3);
    let n1 = lab.host(1).unwrap();
    backup_now(n1);
    put(&lab, "first", "x");
    // Some agent stores changes.
    wait_stored(&lab, n1);
    let full = backups(&lab);
    let load = lab.start_load("k").unwrap();
    load.wait_for(500, SOON).unwrap();
    let written = load.stop().unwrap();
    stop_and_wipe_all(&lab);
    assert_eq!(
        backups(&lab),
        full,
        "what is restored is the full and its increments"
    );
    agent(n1, &["restore", "latest", "--yes"]).ok().unwrap();
    lab.wait_healthy(3, SOON).unwrap();
    written.verify_all(&lab).unwrap();
    assert_value(&lab, lab.host(2).unwrap(), "first", "x");
    lab.passed();
}

/// The same while clients write, with the members stopped one after the other: the second one leads for
/// moments only, and its agent has just begun to store. There are more writes than a watch delivers one by
/// one.
#[test]
fn s18_stopped_in_the_midst_of_writes_nothing_acknowledged_before_is_lost() {
    let lab = formed("s18-busy", 3);
    let n1 = lab.host(1).unwrap();
    backup_now(n1);
    let loads: Vec<_> = (0..6)
        .map(|writer| lab.start_load(&format!("k{writer}/")).unwrap())
        .collect();
    for load in &loads {
        load.wait_for(300, SOON).unwrap();
    }
    lab.raft_leader()
        .unwrap()
        .systemctl(&["stop", "etcd"])
        .unwrap()
        .ok()
        .unwrap();
    for load in &loads {
        load.wait_for(20, SOON).unwrap();
    }
    let second = lab.raft_leader().unwrap();
    let acknowledged: Vec<_> = loads.iter().map(Load::acknowledged).collect();
    // Without a second voter no further write is acknowledged.
    second.systemctl(&["stop", "etcd"]).unwrap().ok().unwrap();
    let written: Vec<_> = loads.into_iter().map(|load| load.stop().unwrap()).collect();
    let said = second.journal("etcd").unwrap();
    assert!(said.contains("etcd stops: everything up to revision"), "{said}");
    stop_and_wipe_all(&lab);
    agent(n1, &["restore", "latest", "--yes"]).ok().unwrap();
    lab.wait_healthy(3, SOON).unwrap();
    for (written, before) in written.iter().zip(acknowledged) {
        let missing = written.missing(&lab).unwrap();
        eprintln!(
            "{} of {} are lost, {before} were there before the stop",
            missing.len(),
            written.acknowledged
        );
        let lost = missing.first().copied().unwrap_or(u64::MAX);
        assert!(lost > before, "{lost} was acknowledged before the stop");
    }
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
