//! The disk of a host is full (S34), or was mounted read-only (C11), on each etcd, with the store behind a bad
//! network.

use std::time::Duration;

use crate::common::{
    SOON, agent, assert_value, backup_now, backups, etcd_pid, etcd_pids, follower, holds_for, kill_etcd,
    member_ids, others, put, put_megabytes, status, wait_reason, wait_stored, with_bad_store,
};
use etcd_agent_lab::{ETCD_VERSIONS, Host, Lab, Load, PATIENCE, S3Server, wait_until};

/// A cluster whose hosts have a separate, small disk for this directory.
fn formed_on_small_disks(name: &str, dir: &str, etcd: &str, server: S3Server) -> Lab {
    let lab = with_bad_store(name, etcd, server);
    lab.s3().start().unwrap();
    lab.configure(|_, _| ()).unwrap();
    let mount = format!(
        "set -e; owner=$(stat -c uid=%u,gid=%g,mode=%a {dir}); cp -a {dir} /root/was; \
         mount -t tmpfs -o size=600m,$owner small {dir}; cp -a /root/was/. {dir}/; rm -r /root/was"
    );
    lab.each(|host| host.sh(&mount)?.ok().map(drop)).unwrap();
    lab.start_agents().unwrap();
    lab.wait_healthy(3, PATIENCE).unwrap();
    lab
}

/// Fills the file system of a directory. Programs may free some of it meanwhile.
fn fill(host: &Host, dir: &str) {
    let script = format!(
        "dd if=/dev/zero of={dir}/filler bs=64k oflag=append conv=notrunc || true; df --output=avail {dir} | tail -n 1"
    );
    wait_until(&format!("{dir} on {} to be full", host.name()), SOON, || {
        let left = host.sh(&script)?.ok()?;
        anyhow::ensure!(left.text() == "0", "{} KiB are left", left.text());
        Ok(true)
    })
    .unwrap();
}

/// A host whose etcd does not stay up is still a member, and its data stay in place. Long enough for several
/// starts.
fn stays_a_member(lab: &Lab, victim: &Host) {
    let other = *others(lab, victim).first().unwrap();
    let before = member_ids(lab, other).unwrap();
    holds_for("the member and its data stay", Duration::from_secs(15), || {
        let there = victim
            .sh("test -d /var/lib/etcd/default/member && ! ls -d /var/lib/etcd/etcd-agent-archive/*")
            .unwrap();
        let members = member_ids(lab, other).map_or(true, |now| now == before);
        there.success() && members
    });
}

/// The file system was mounted read-only while etcd was down. etcd ends after each start until it can write
/// again.
fn on_a_read_only_file_system(lab: &Lab, victim: &Host, load: &Load) {
    // Only the agent starts a killed etcd.
    let dropin = "/etc/systemd/system/etcd.service.d/50-once.conf";
    victim
        .write_file(dropin, "[Service]\nRestart=no\n", "0644", "root:root")
        .unwrap();
    victim.systemctl(&["daemon-reload"]).unwrap().ok().unwrap();
    agent(victim, &["pause"]).ok().unwrap();
    wait_reason(victim, "paused");
    kill_etcd(victim);
    wait_until("the read-only mount", SOON, || {
        victim.sh("mount -o remount,ro /var/lib/etcd")?.ok()?;
        Ok(true)
    })
    .unwrap();
    agent(victim, &["resume"]).ok().unwrap();
    let text = wait_reason(victim, "disk-read-only");
    assert!(text.contains("read-only file system"), "{text}");
    load.wait_for(100, SOON).unwrap();
    stays_a_member(lab, victim);
    let remount = "mount -o remount,rw /var/lib/etcd";
    victim.sh(remount).unwrap().ok().unwrap();
    lab.wait_healthy(3, SOON).unwrap();
    load.wait_for(100, SOON).unwrap();
}

/// A member that cannot write ends, and ends again after each start. That is not a loss of data: it stays a
/// member, its directory stays in place, and with free space it continues with its identity.
fn etcd_without_room(name: &str, version: &str) {
    let lab = formed_on_small_disks(name, "/var/lib/etcd", version, S3Server::Versitygw);
    let victim = follower(&lab);
    let before = member_ids(&lab, victim).unwrap();
    let others = others(&lab, victim);
    let pids = etcd_pids(others.iter().copied());
    let load = lab.start_load("k").unwrap();
    load.wait_for(100, SOON).unwrap();

    fill(victim, "/var/lib/etcd");
    // More than the space that etcd has preallocated for its log.
    put_megabytes(others[0], 150, "big/$n");
    wait_until("etcd to find no room", SOON, || {
        Ok(victim.journal("etcd")?.contains("no space left on device"))
    })
    .unwrap();
    wait_reason(victim, "no-space");
    load.wait_for(100, SOON).unwrap();
    stays_a_member(&lab, victim);
    assert_eq!(
        victim.unit_property("etcd-agent", "ActiveState").unwrap(),
        "active"
    );

    victim.sh("rm /var/lib/etcd/filler").unwrap().ok().unwrap();
    lab.wait_healthy(3, SOON).unwrap();
    load.wait_for(100, SOON).unwrap();
    on_a_read_only_file_system(&lab, victim, &load);
    load.stop().unwrap().verify_all(&lab).unwrap();
    assert_eq!(
        member_ids(&lab, victim).unwrap(),
        before,
        "the same three members"
    );
    assert_eq!(etcd_pids(others), pids, "the others were not restarted");
    lab.passed();
}

/// An agent that cannot write continues to work: backups need no disk, a restarted agent still knows its
/// state, and a restore is refused before anything is replaced.
fn agent_without_room(name: &str, version: &str, server: S3Server) {
    let lab = formed_on_small_disks(name, "/var/lib/etcd-agent", version, server);
    let leader = lab.raft_leader().unwrap();
    put(&lab, "kept", "by the backup");
    backup_now(leader);
    let (pid, taken) = (etcd_pid(leader), backups(&lab).len());

    fill(leader, "/var/lib/etcd-agent");
    backup_now(leader);
    assert!(backups(&lab).len() > taken);
    put(&lab, "later", "as an increment");
    wait_stored(&lab, leader);
    leader
        .systemctl(&["restart", "etcd-agent"])
        .unwrap()
        .ok()
        .unwrap();
    wait_until("the agent to know its epoch again", SOON, || {
        Ok(status(leader)?["node"]["assignment"]["epoch"] == 1)
    })
    .unwrap();
    let refused = agent(leader, &["restore", "latest", "--yes", "--timeout", "150s"]);
    assert_ne!(refused.code, 0, "{}{}", refused.stdout, refused.stderr);
    assert!(
        refused.stderr.contains("room for") || refused.stderr.contains("No space left"),
        "{}",
        refused.stderr
    );
    assert_eq!(
        status(leader).unwrap()["node"]["newest_epoch"],
        1,
        "nothing was replaced"
    );
    assert_eq!(etcd_pid(leader), pid, "etcd was not restarted");

    leader.sh("rm /var/lib/etcd-agent/filler").unwrap().ok().unwrap();
    agent(leader, &["restore", "latest", "--yes"]).ok().unwrap();
    lab.wait_healthy(3, SOON).unwrap();
    assert_value(&lab, leader, "kept", "by the backup");
    assert_value(&lab, leader, "later", "as an increment");
    lab.passed();
}

#[test]
fn s34_the_oldest_etcd_without_room_is_left_as_it_is_and_comes_back() {
    etcd_without_room("s34-etcd-oldest", ETCD_VERSIONS[0]);
}

#[test]
fn s34_the_middle_etcd_without_room_is_left_as_it_is_and_comes_back() {
    etcd_without_room("s34-etcd-middle", ETCD_VERSIONS[1]);
}

#[test]
fn s34_the_newest_etcd_without_room_is_left_as_it_is_and_comes_back() {
    etcd_without_room("s34-etcd-newest", ETCD_VERSIONS[2]);
}

#[test]
fn s34_an_agent_without_room_with_the_oldest_etcd_backs_up_to_versitygw() {
    agent_without_room("s34-versitygw-oldest", ETCD_VERSIONS[0], S3Server::Versitygw);
}

#[test]
fn s34_an_agent_without_room_with_the_middle_etcd_backs_up_to_versitygw() {
    agent_without_room("s34-versitygw-middle", ETCD_VERSIONS[1], S3Server::Versitygw);
}

#[test]
fn s34_an_agent_without_room_with_the_newest_etcd_backs_up_to_versitygw() {
    agent_without_room("s34-versitygw-newest", ETCD_VERSIONS[2], S3Server::Versitygw);
}

#[test]
fn s34_an_agent_without_room_with_the_oldest_etcd_backs_up_to_minio() {
    agent_without_room("s34-minio-oldest", ETCD_VERSIONS[0], S3Server::Minio);
}

#[test]
fn s34_an_agent_without_room_with_the_middle_etcd_backs_up_to_minio() {
    agent_without_room("s34-minio-middle", ETCD_VERSIONS[1], S3Server::Minio);
}

#[test]
fn s34_an_agent_without_room_with_the_newest_etcd_backs_up_to_minio() {
    agent_without_room("s34-minio-newest", ETCD_VERSIONS[2], S3Server::Minio);
}
