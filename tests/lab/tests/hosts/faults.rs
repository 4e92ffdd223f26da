//! etcd or whole hosts die or lose power, and no acknowledged write is lost: S06, S11 to S14, S16, C10.

use std::time::Duration;

use crate::common::{
    DATA, SOON, agent, archived, assert_value, backup_now, backups, clusters_ever, data_there, deb, etcd_pid,
    etcd_pids, follower, formed, holds_for, kill_etcd, member_ids, others, put, status, wait_reason,
    wait_status,
};
use etcd_agent_lab::{Host, Lab, wait_until};

/// Kills etcd, then the whole host, while a client writes.
fn killed(lab: &Lab, host: &Host) {
    let before = member_ids(lab, host).unwrap();
    let others = others(lab, host);
    let pids = etcd_pids(others.iter().copied());
    let load = lab.start_load("k").unwrap();
    load.wait_for(100, SOON).unwrap();

    let old = kill_etcd(host);
    wait_until("etcd to be back", SOON, || {
        Ok(host.main_pid("etcd")?.is_some_and(|pid| pid != old))
    })
    .unwrap();
    lab.wait_healthy(3, SOON).unwrap();
    load.wait_for(100, SOON).unwrap();

    host.kill().unwrap();
    load.wait_for(100, SOON).unwrap();
    host.boot().unwrap();
    lab.wait_healthy(3, SOON).unwrap();
    load.wait_for(100, SOON).unwrap();

    let written = load.stop().unwrap();
    written.verify_all(lab).unwrap();
    eprintln!(
        "{} writes, longest gap {:?}",
        written.acknowledged, written.longest_gap
    );
    assert_eq!(member_ids(lab, host).unwrap(), before, "the same three members");
    assert_eq!(etcd_pids(others), pids, "the others were not restarted");
}

#[test]
fn s11_leader_killed() {
    let lab = formed("s11", 3);
    killed(&lab, lab.raft_leader().unwrap());
    lab.passed();
}

#[test]
fn s12_follower_killed() {
    let lab = formed("s12", 3);
    killed(&lab, follower(&lab));
    lab.passed();
}

/// A person stops all members at once, and etcd takes its time. No agent cancels a running stop with a start,
/// and none starts an etcd that a person has stopped.
#[test]
fn a_persons_stop_is_neither_cancelled_nor_undone() {
    let lab = formed("stopped", 3);
    lab.each(|host| {
        host.write_file(
            "/etc/systemd/system/etcd.service.d/zz-slow.conf",
            "[Service]\nExecStop=/bin/sleep 2\n",
            "644",
            "root:root",
        )?;
        host.systemctl(&["daemon-reload"])?.ok().map(drop)
    })
    .unwrap();
    lab.each(|host| host.systemctl(&["stop", "etcd"])?.ok().map(drop))
        .unwrap();
    for host in lab.hosts() {
        wait_reason(host, "stopped-by-operator");
        assert_eq!(host.main_pid("etcd").unwrap(), None, "{}", host.name());
    }
    lab.each(|host| host.systemctl(&["start", "etcd"])?.ok().map(drop))
        .unwrap();
    lab.wait_healthy(3, SOON).unwrap();
    lab.passed();
}

/// All three are shut down in order and two come back: the earlier writes are there, and new writes succeed.
#[test]
fn s06_all_stopped_two_started() {
    let lab = formed("s06", 3);
    let (n1, n2, n3) = (lab.host(1).unwrap(), lab.host(2).unwrap(), lab.host(3).unwrap());
    put(&lab, "before", "the stop");
    let before = member_ids(&lab, n1).unwrap();
    let load = lab.start_load("k").unwrap();
    load.wait_for(200, SOON).unwrap();
    lab.each(|host| host.power_off().map(drop)).unwrap();
    n1.boot().unwrap();
    n2.boot().unwrap();
    assert_value(&lab, n1, "before", "the stop");
    assert_value(&lab, n2, "before", "the stop");
    put(&lab, "during", "n3 is off");
    load.wait_for(200, SOON).unwrap();
    // It is degraded, and names the missing node.
    wait_status(n1, 6);
    assert!(agent(n1, &["status"]).stdout.contains("n3"));

    n3.boot().unwrap();
    lab.wait_healthy(3, SOON).unwrap();
    assert_value(&lab, n3, "during", "n3 is off");
    let written = load.stop().unwrap();
    written.verify_all(&lab).unwrap();
    assert_eq!(member_ids(&lab, n1).unwrap(), before, "the same three members");
    lab.passed();
}

/// The leader and a follower lose power while a client writes: the third neither continues alone nor gives
/// up.
#[test]
fn s13_majority_killed() {
    let lab = formed("s13", 3);
    let leader = lab.raft_leader().unwrap();
    let (second, third) = match others(&lab, leader).as_slice() {
        [second, third] => (*second, *third),
        _ => unreachable!(),
    };
    let before = member_ids(&lab, third).unwrap();
    let pid = etcd_pids([third]);
    let load = lab.start_load("k").unwrap();
    load.wait_for(200, SOON).unwrap();
    leader.kill().unwrap();
    second.kill().unwrap();
    wait_status(third, 7);
    let stuck = load.acknowledged();
    holds_for(
        "nothing is acknowledged without quorum",
        Duration::from_secs(5),
        || load.acknowledged() == stuck,
    );
    second.boot().unwrap();
    load.wait_for(200, SOON).unwrap();
    leader.boot().unwrap();
    lab.wait_healthy(3, SOON).unwrap();
    load.stop().unwrap().verify_all(&lab).unwrap();
    assert_eq!(member_ids(&lab, third).unwrap(), before, "the same three members");
    assert_eq!(etcd_pids([third]), pid, "the third was not restarted");
    lab.passed();
}

/// Every host loses power at once, during writes. They start from their data directories, including the log:
/// each acknowledged write is there, in the same epoch with the same members.
#[test]
fn s14_all_killed() {
    let lab = formed("s14", 3);
    let n1 = lab.host(1).unwrap();
    let before = member_ids(&lab, n1).unwrap();
    let load = lab.start_load("k").unwrap();
    for _ in 0..2 {
        load.wait_for(200, SOON).unwrap();
        lab.each(Host::kill).unwrap();
        lab.each(|host| host.boot().map(drop)).unwrap();
    }
    load.wait_for(200, SOON).unwrap();
    lab.wait_healthy(3, SOON).unwrap();
    let written = load.stop().unwrap();
    written.verify_all(&lab).unwrap();
    eprintln!("{} writes over two power losses", written.acknowledged);
    assert_eq!(member_ids(&lab, n1).unwrap(), before, "the same three members");
    for host in lab.hosts() {
        assert_eq!(status(host).unwrap()["node"]["assignment"]["epoch"], 1);
        assert!(archived(host).is_empty(), "{}: nothing was archived", host.name());
    }
    assert_eq!(clusters_ever(&lab).len(), 1);
    lab.passed();
}

/// Two of three come back without their data. The third has its data, but no quorum: it does not continue
/// alone, the two are not created again, and the last copy is not changed. A restore on command brings all
/// three back.
#[test]
fn s16_majority_wiped() {
    let lab = formed("s16", 3);
    let (n1, n2, n3) = (lab.host(1).unwrap(), lab.host(2).unwrap(), lab.host(3).unwrap());
    put(&lab, "kept", "by the backup");
    backup_now(n3);
    let newest = backups(&lab).pop().unwrap();
    let newest = newest.rsplit('/').next().unwrap();
    put(&lab, "later", "than the backup");
    let (cluster, _) = member_ids(&lab, n3).unwrap();
    lab.each(Host::kill).unwrap();
    for host in [n1, n2] {
        host.wipe(DATA).unwrap();
    }
    lab.each(|host| host.boot().map(drop)).unwrap();

    for host in [n1, n2] {
        let text = wait_reason(host, "data-gone");
        assert!(text.contains("no member with quorum is in reach"), "{text}");
    }
    n3.wait_unit("etcd", "activating", SOON).unwrap();
    for host in lab.hosts() {
        wait_status(host, 7);
    }
    holds_for("no member continues alone", Duration::from_secs(6), || {
        let down = |host: &Host| {
            let state = host.unit_property("etcd", "ActiveState").unwrap();
            ["inactive", "failed"].contains(&state.as_str()) && !data_there(host)
        };
        down(n1) && down(n2) && data_there(n3) && archived(n3).is_empty()
    });
    assert_eq!(clusters_ever(&lab).len(), 1, "no second cluster");

    // By its name: an increment may have what was written later.
    agent(n1, &["restore", newest, "--yes"]).ok().unwrap();
    lab.wait_healthy(3, SOON).unwrap();
    for host in lab.hosts() {
        wait_status(host, 0);
        assert_eq!(status(host).unwrap()["node"]["assignment"]["epoch"], 2);
    }
    assert_value(&lab, n3, "kept", "by the backup");
    assert_value(&lab, n3, "later", "");
    assert_ne!(member_ids(&lab, n1).unwrap().0, cluster, "another incarnation");
    let kept = archived(n3);
    assert!(
        kept.len() == 1 && kept.iter().all(|name| name.contains("older-epoch")),
        "the last copy is in the archive: {kept:?}"
    );
    lab.passed();
}

/// earlyoom, or a person's `kill`, ends etcd by SIGTERM, which systemd counts as a clean exit.
#[test]
fn c10b_an_etcd_that_is_sent_sigterm_is_started_again() {
    let lab = formed("c10b", 1);
    let n1 = lab.host(1).unwrap();
    put(&lab, "before", "the signal");
    let (before, old) = (member_ids(&lab, n1).unwrap(), etcd_pid(n1));
    let killed = n1.exec(&["kill", "-s", "TERM", &old.to_string()]).unwrap();
    killed.ok().unwrap();
    wait_until("another etcd", SOON, || {
        Ok(n1.main_pid("etcd")?.is_some_and(|new| new != old))
    })
    .unwrap();
    lab.wait_healthy(1, SOON).unwrap();
    assert_value(&lab, n1, "before", "the signal");
    assert_eq!(member_ids(&lab, n1).unwrap(), before, "the same member");
    lab.passed();
}

/// A mount made by hand, or by cloud-init, is not in `/etc/fstab`. Without it the data directory looks as if
/// the data was lost.
#[test]
fn c10d_data_on_a_mount_that_is_not_there_is_not_lost() {
    const MOUNT: &str = "mount --bind /mnt/disk /var/lib/etcd";
    let lab = Lab::builder("c10d").hosts(3).package(&deb()).boot().unwrap();
    let n3 = lab.host(3).unwrap();
    let script = "mkdir /mnt/disk; mount -t tmpfs disk /mnt/disk; cp -a /var/lib/etcd/. /mnt/disk/
        chown --reference=/var/lib/etcd /mnt/disk; chmod --reference=/var/lib/etcd /mnt/disk";
    n3.sh(&format!("{script}\n{MOUNT}")).unwrap().ok().unwrap();
    lab.form().unwrap();
    put(&lab, "kept", "on the disk");
    let before = member_ids(&lab, n3).unwrap();
    let n1 = lab.host(1).unwrap();

    agent(n3, &["pause"]).ok().unwrap();
    wait_reason(n3, "paused");
    // systemd starts a killed etcd again at once, so the disk is gone before that.
    n3.sh("umount --lazy /var/lib/etcd").unwrap().ok().unwrap();
    kill_etcd(n3);
    assert!(!data_there(n3), "the mount point is empty");
    agent(n3, &["resume"]).ok().unwrap();
    let text = wait_reason(n3, "data-unknown");
    assert!(text.contains("/mnt/disk") || text.contains("tmpfs"), "{text}");
    holds_for("it is a member", Duration::from_secs(15), || {
        member_ids(&lab, n1).unwrap() == before
    });

    n3.sh(MOUNT).unwrap().ok().unwrap();
    lab.wait_healthy(3, SOON).unwrap();
    assert_eq!(member_ids(&lab, n3).unwrap(), before, "the same member");
    assert_value(&lab, n3, "kept", "on the disk");
    lab.passed();
}
