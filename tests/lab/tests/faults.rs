//! etcd or whole hosts die under load, and nothing that was acknowledged is lost: S11, S12.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod common;

use common::{SOON, etcd_pid, etcd_pids, follower, formed, member_ids, others};
use etcd_agent_lab::{Host, Lab, wait_until};

/// Kills etcd, then the whole host, while a client writes.
fn killed(lab: &Lab, host: &Host) {
    let before = member_ids(lab, host).unwrap();
    let others = others(lab, host);
    let pids = etcd_pids(others.iter().copied());
    let load = lab.start_load("k").unwrap();
    load.wait_for(100, SOON).unwrap();

    let old = etcd_pid(host);
    host.kill_process("etcd", "KILL").unwrap();
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
    assert_eq!(etcd_pids(others), pids, "the others were left alone");
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
