//! Nodes that join, wait or are refused: S03, S05, S26.

use std::time::Duration;

use crate::common::{
    SOON, agent, assert_value, clusters_ever, data_there, deb, etcd_pids, holds_for, member_ids, put,
    wait_reason, wait_status,
};
use etcd_agent_lab::{Host, Lab, Store, wait_until};

/// Hosts with the package and the configuration, agents not started.
fn configured(name: &str, hosts: u8, change: impl Fn(&mut etcd_agent_lab::AgentConfig) + Sync) -> Lab {
    let lab = Lab::builder(name).hosts(hosts).package(&deb()).boot().unwrap();
    lab.s3().start().unwrap();
    lab.configure(|_, config| change(config)).unwrap();
    lab
}

fn start(host: &Host) {
    host.systemctl(&["restart", "etcd-agent"]).unwrap().ok().unwrap();
}

/// Switches a host off before its agent was ever started.
fn away(host: &Host) {
    host.systemctl(&["stop", "etcd-agent"]).unwrap().ok().unwrap();
    host.kill().unwrap();
}

/// S03 with a store: two members start, and the third joins later. S05: then n1, which received writes, dies.
#[test]
fn s03_two_of_three_start_with_a_store_and_s05_the_third_takes_over() {
    let lab = configured("s03-store", 3, |_| ());
    let (n1, n2, n3) = (lab.host(1).unwrap(), lab.host(2).unwrap(), lab.host(3).unwrap());
    away(n3);
    start(n1);
    start(n2);
    lab.wait_healthy(2, SOON).unwrap();
    put(&lab, "written", "on two");
    let text = wait_reason(lab.raft_leader().unwrap(), "below-size");
    assert!(text.contains("2 of 3"), "{text}");
    let pids = etcd_pids([n1, n2]);

    n3.boot().unwrap();
    start(n3);
    lab.wait_healthy(3, SOON).unwrap();
    assert_eq!(etcd_pids([n1, n2]), pids, "the first two were not restarted");
    for host in lab.hosts() {
        wait_status(host, 0);
    }

    let load = lab.start_load("k").unwrap();
    load.wait_for(50, SOON).unwrap();
    n1.kill().unwrap();
    assert_value(&lab, n3, "written", "on two");
    load.wait_for(50, SOON).unwrap();
    put(&lab, "without", "n1");
    assert_value(&lab, n3, "without", "n1");
    let written = load.stop().unwrap();
    written.verify_all(&lab).unwrap();
    wait_status(n3, 6);
    n1.boot().unwrap();
    lab.wait_healthy(3, SOON).unwrap();
    assert_value(&lab, n1, "without", "n1");
    assert_eq!(clusters_ever(&lab).len(), 1);
    lab.passed();
}

/// S03 without a store: the nodes wait, and `status` names the missing one; the operator's word lets them
/// continue.
#[test]
fn s03_two_of_three_wait_for_the_operators_word() {
    let lab = configured("s03-word", 3, |config| config.store = Store::None);
    let (n1, n2, n3) = (lab.host(1).unwrap(), lab.host(2).unwrap(), lab.host(3).unwrap());
    away(n3);
    start(n1);
    start(n2);
    for host in [n1, n2] {
        wait_until("it to wait only for n3", SOON, || {
            let text = wait_reason(host, "new-memory");
            anyhow::ensure!(text.contains("an answer from n3 "), "{text}");
            Ok(true)
        })
        .unwrap();
        wait_status(host, 7);
        assert!(agent(host, &["status"]).stdout.contains("n3"));
    }
    holds_for("nothing is formed", Duration::from_secs(10), || {
        clusters_ever(&lab).is_empty()
    });
    agent(
        n1,
        &["bootstrap", "--without", "n3", "--yes", "--timeout", "150s"],
    )
    .ok()
    .unwrap();
    lab.wait_healthy(2, SOON).unwrap();
    put(&lab, "written", "on two");

    n3.boot().unwrap();
    start(n3);
    lab.wait_healthy(3, SOON).unwrap();
    assert_value(&lab, n3, "written", "on two");
    for host in lab.hosts() {
        wait_status(host, 0);
    }
    assert_eq!(clusters_ever(&lab).len(), 1);
    lab.passed();
}

/// A fresh node next to a dead cluster: it learns of the epoch, from the store alone or from the one
/// remaining member, and forms nothing.
#[test]
fn s26_a_fresh_node_beside_a_dead_cluster_forms_nothing() {
    let lab = configured("s26", 4, |config| config.size = 3);
    let (n1, n4) = (lab.host(1).unwrap(), lab.host(4).unwrap());
    let old: Vec<&Host> = lab.hosts().iter().take(3).collect();
    away(n4);
    for host in &old {
        start(host);
    }
    lab.wait_healthy(3, SOON).unwrap();
    put(&lab, "written", "before the end");
    let before = member_ids(&lab, n1).unwrap();
    let load = lab.start_load("k").unwrap();
    load.wait_for(200, SOON).unwrap();
    for host in &old {
        host.kill().unwrap();
    }

    n4.boot().unwrap();
    start(n4);
    let refused = || {
        let text = wait_reason(n4, "spare");
        assert!(text.contains("no coordinator answers"), "{text}");
        wait_status(n4, 7);
        holds_for("n4 forms nothing", Duration::from_secs(5), || {
            n4.unit_property("etcd", "ActiveState").unwrap() == "inactive" && !data_there(n4)
        });
        let forced = agent(n4, &["bootstrap", "--without", "n2", "--yes"]);
        assert_eq!(forced.code, 4, "{}{}", forced.stdout, forced.stderr);
        assert!(
            forced.stderr.contains("there is a cluster already"),
            "{}",
            forced.stderr
        );
    };
    refused();
    n1.boot().unwrap();
    n1.wait_unit("etcd", "activating", SOON).unwrap();
    refused();

    // It was only a power cut: the cluster is the same as before.
    for host in old.iter().skip(1) {
        host.boot().unwrap();
    }
    lab.wait_healthy(3, SOON).unwrap();
    assert_value(&lab, n1, "written", "before the end");
    load.wait_for(200, SOON).unwrap();
    let written = load.stop().unwrap();
    written.verify_all(&lab).unwrap();
    assert_eq!(member_ids(&lab, n1).unwrap(), before);
    assert_eq!(clusters_ever(&lab).len(), 1);
    lab.passed();
}
