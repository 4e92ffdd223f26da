//! The agent is killed at every step of its work, without effect on etcd: S40.

use crate::common::{
    DATA, SOON, agent, assert_value, backups, clusters_ever, deb, etcd_pids, follower, formed, kill_etcd,
    member_ids, others, put, status, wait_status,
};
use crate::killer::{Killers, RESTORE};
use etcd_agent_lab::{Host, Lab, wait_for, wait_until};

/// The number of etcd starts on a host. A restart of the agent must not increase it.
fn starts(host: &Host) -> usize {
    let journal = host.journal("etcd").unwrap();
    journal
        .lines()
        .filter(|line| line.contains("Starting etcd.service"))
        .count()
}

#[test]
fn s40_agent_killed_at_every_step_of_forming() {
    let lab = Lab::builder("s40-form").hosts(3).package(&deb()).boot().unwrap();
    lab.s3().start().unwrap();
    lab.configure(|_, _| ()).unwrap();
    let killers = Killers::on(&lab, "killer");
    // The test does not wait for the jobs: the killer may act before the agent has sent READY=1 to systemd.
    for host in lab.hosts() {
        host.systemctl(&["restart", "--no-block", "etcd-agent"])
            .unwrap()
            .ok()
            .unwrap();
    }
    lab.wait_healthy(3, SOON).unwrap();
    put(&lab, "written", "at once");
    for host in lab.hosts() {
        wait_status(host, 0);
    }
    // The first backup is a decision like any other. If it is interrupted, another one is taken.
    wait_until("the first backup", SOON, || Ok(!backups(&lab).is_empty())).unwrap();
    let wanted = [
        "inspect-data",
        "enquire",
        "propose",
        "assign",
        "apply",
        "clear-gate",
        "start-etcd",
        "backup",
    ];
    killers.all_at(&wanted);
    assert_eq!(clusters_ever(&lab).len(), 1, "one cluster ever");
    for host in lab.hosts() {
        assert_eq!(starts(host), 1, "{}: etcd was started once", host.name());
        wait_status(host, 0);
    }
    assert_value(&lab, lab.host(3).unwrap(), "written", "at once");
    lab.passed();
}

#[test]
fn s40_agent_killed_at_every_step_of_healing() {
    let lab = formed("s40-heal", 3);
    let victim = follower(&lab);
    let others = others(&lab, victim);
    let pids = etcd_pids(others.iter().copied());
    let (cluster, before) = member_ids(&lab, victim).unwrap();
    let load = lab.start_load("k").unwrap();
    load.wait_for(50, SOON).unwrap();
    let killers = Killers::on(&lab, "killer");
    victim.wipe(DATA).unwrap();
    kill_etcd(victim);
    wait_until("the member to be replaced", SOON, || {
        let (_, now) = member_ids(&lab, others.first().unwrap())?;
        let id = now.get(victim.name());
        Ok(now.len() == 3 && id.is_some() && id != before.get(victim.name()))
    })
    .unwrap();
    lab.wait_healthy(3, SOON).unwrap();
    for host in lab.hosts() {
        wait_status(host, 0);
    }
    let wanted = [
        "inspect-data",
        "remove-member",
        "add-learner",
        "assign",
        "apply",
        "clear-gate",
        "start-etcd",
        "promote",
    ];
    killers.all_at(&wanted);
    load.wait_for(50, SOON).unwrap();
    load.stop().unwrap().verify_all(&lab).unwrap();
    assert_eq!(
        etcd_pids(others),
        pids,
        "the etcd of the others was not restarted"
    );
    assert_eq!(member_ids(&lab, victim).unwrap().0, cluster, "the same cluster");
    lab.passed();
}

#[test]
fn s40_agent_killed_in_backup_and_at_every_step_of_a_restore() {
    let lab = formed("s40-restore", 3);
    let n1 = lab.host(1).unwrap();
    put(&lab, "kept", "by the backup");
    wait_until("the first backup", SOON, || Ok(!backups(&lab).is_empty())).unwrap();
    for host in lab.hosts() {
        wait_status(host, 0);
    }
    let pids = etcd_pids(lab.hosts());
    let load = lab.start_load("k").unwrap();
    load.wait_for(50, SOON).unwrap();
    let killers = Killers::on(&lab, "killer");

    // Killed during a backup: the requesting command gets an error, and the next backup is complete.
    let first = backups(&lab).len();
    let asked = agent(n1, &["backup", "now"]);
    eprintln!("backup now: exit {}: {}", asked.code, asked.stderr.trim());
    wait_for("a backup that is done", SOON, || {
        Ok(agent(n1, &["backup", "now"]).success().then_some(()))
    })
    .unwrap();
    let taken = backups(&lab);
    assert!(taken.len() > first);
    let newest = taken.iter().max().unwrap().rsplit('/').next().unwrap();
    load.wait_for(50, SOON).unwrap();
    load.stop().unwrap().verify_all(&lab).unwrap();
    assert_eq!(etcd_pids(lab.hosts()), pids, "etcd was not restarted");
    put(&lab, "later", "than the backup");

    // A restore that was forgotten before the new epoch was chosen has changed nothing, and is requested
    // again. The command of a forgotten order waits for its whole timeout.
    wait_for("the restore", 3 * SOON, || {
        let node = &status(n1)?["node"];
        if node["assignment"]["epoch"] == 2 {
            return Ok(Some(()));
        }
        // A second request while a restarted agent is still enquiring would be a second restore.
        if node["assignment"]["epoch"] == 1 && node["newest_epoch"] == 1 {
            let asked = agent(n1, &["restore", newest, "--yes", "--timeout", "20s"]);
            eprintln!("restore: exit {}: {}", asked.code, asked.stderr.trim());
        }
        Ok(None)
    })
    .unwrap();
    lab.wait_healthy(3, SOON).unwrap();
    for host in lab.hosts() {
        wait_status(host, 0);
    }
    killers.all_at(&RESTORE);
    assert_value(&lab, n1, "kept", "by the backup");
    assert_value(&lab, n1, "later", "");
    for host in lab.hosts() {
        // The host's agent may have been killed once more, at a first promotion.
        wait_until("the new epoch", SOON, || {
            Ok(status(host)?["node"]["assignment"]["epoch"] == 2)
        })
        .unwrap();
        assert_eq!(
            starts(host),
            2,
            "{}: etcd was started once per epoch",
            host.name()
        );
    }
    lab.passed();
}
