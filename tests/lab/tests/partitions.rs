//! The network splits while the first cluster is formed, and there is never a second one: S37.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod common;

use std::time::Duration;

use common::{SOON, clusters_ever, deb, holds_for, wait_reason, wait_status};
use etcd_agent_lab::{Lab, Store};

fn prepared(name: &str, store: bool) -> Lab {
    let lab = Lab::builder(name).hosts(3).boot().unwrap();
    lab.s3().start().unwrap();
    lab.install(&deb()).unwrap();
    lab.configure(|_, config| {
        if !store {
            config.store = Store::None;
        }
    })
    .unwrap();
    lab
}

/// However it was split, one cluster comes of it.
fn whole_again(lab: Lab) {
    lab.heal_all().unwrap();
    lab.wait_healthy(3, SOON).unwrap();
    let clusters = clusters_ever(&lab);
    assert_eq!(clusters.len(), 1, "at most one cluster ever: {clusters:?}");
    for host in lab.hosts() {
        wait_status(host, 0);
    }
    lab.passed();
}

fn nothing_formed(lab: &Lab) {
    holds_for("nothing is formed", Duration::from_secs(12), || {
        clusters_ever(lab).is_empty()
    });
}

/// With a shared store the two that hear each other go on, and the third joins them.
fn one_cut_off(name: &str, number: usize) {
    let lab = prepared(name, true);
    let alone = lab.host(number).unwrap();
    alone.cut().unwrap();
    lab.start_agents().unwrap();
    let on: Vec<_> = lab
        .hosts()
        .iter()
        .filter(|host| host.name() != alone.name())
        .collect();
    etcd_agent_lab::wait_until("the other two to serve", SOON, || {
        Ok(lab
            .etcdctl(&on, &["endpoint", "health", "--command-timeout=3s"])?
            .success())
    })
    .unwrap();
    assert!(
        !alone
            .disk()
            .join("var/lib/etcd-agent/state/assignment.json")
            .exists(),
        "{} alone was assigned something",
        alone.name()
    );
    assert_eq!(alone.unit_property("etcd", "ActiveState").unwrap(), "inactive");
    whole_again(lab);
}

#[test]
fn s37_one_node_cut_off_during_bootstrap() {
    one_cut_off("s37-n3", 3);
}

#[test]
fn s37_first_node_cut_off_during_bootstrap() {
    one_cut_off("s37-n1", 1);
}

/// They hear the store, but not each other: no majority, no cluster.
#[test]
fn s37_all_apart_during_bootstrap() {
    let lab = prepared("s37-apart", true);
    lab.net().partition(&[&["n1"], &["n2"], &["n3"]]).unwrap();
    lab.start_agents().unwrap();
    nothing_formed(&lab);
    whole_again(lab);
}

/// Without a store the first cluster waits for each elector, and says for whom.
#[test]
fn s37_without_a_store_it_waits_for_the_one_cut_off() {
    let lab = prepared("s37-no-store", false);
    lab.host(3).unwrap().cut().unwrap();
    lab.start_agents().unwrap();
    let text = wait_reason(lab.host(1).unwrap(), "new-memory");
    nothing_formed(&lab);
    let text = if text.contains("n2") {
        wait_reason(lab.host(1).unwrap(), "new-memory")
    } else {
        text
    };
    assert!(text.contains("n3") && text.contains("--without"), "{text}");
    whole_again(lab);
}
