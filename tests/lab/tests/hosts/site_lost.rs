//! A site is lost: the data and agents' state of all hosts, but not the store (S61). One command on one host
//! brings the cluster back, whatever the names of the new hosts are, and also if hosts were replaced one by
//! one over time.

use std::collections::BTreeMap;
use std::fs;
use std::time::Instant;

use anyhow::Context;

use crate::common::{
    DATA, SOON, agent, assert_value, backup_now, deb, etcd_pids, member_ids, put, status, wait_reason,
    wait_stored,
};
use etcd_agent_lab::{AgentConfig, Host, Lab, wait_until};
use serde_json::Value;

/// All files of a host except its configuration. A new host of the lab does not start etcd by itself.
const EVERYTHING: [&str; 5] = [
    DATA,
    "/var/lib/etcd/etcd-agent-archive",
    "/var/lib/etcd-agent",
    "/etc/systemd/system/etcd.service.d",
    "/etc/systemd/system/multi-user.target.wants/etcd.service",
];

fn is_one_of(host: &Host, names: &[&str]) -> bool {
    names.contains(&host.name())
}

/// Does the same on these hosts concurrently.
fn on(lab: &Lab, names: &[&str], work: impl Fn(&Host) -> anyhow::Result<()> + Sync) {
    lab.each(|host| {
        if is_one_of(host, names) {
            work(host)
        } else {
            Ok(())
        }
    })
    .unwrap();
}

/// These hosts are lost, and new ones take their places with the same names, certificates and configuration.
fn replace_hosts(lab: &Lab, names: &[&str]) {
    on(lab, names, Host::kill);
    on(lab, names, |host| {
        EVERYTHING.iter().try_for_each(|path| host.wipe(path))
    });
    on(lab, names, |host| {
        host.boot()?;
        // The package starts the agent at boot: this waits until it is ready.
        host.systemctl(&["start", "etcd-agent"])?.ok().map(drop)
    });
}

/// A cluster of exactly these nodes.
fn of_nodes(config: &mut AgentConfig, names: &[&str]) {
    let nodes = names.iter().map(|name| ((*name).to_owned(), (*name).to_owned()));
    config.nodes = nodes.collect::<BTreeMap<_, _>>();
    config.size = u8::try_from(names.len()).unwrap();
}

fn start_agents(lab: &Lab, names: &[&str]) {
    on(lab, names, |host| {
        host.systemctl(&["restart", "etcd-agent"])?.ok().map(drop)
    });
}

/// The cluster that serves a read on this host.
fn read_from(lab: &Lab, host: &Host) -> anyhow::Result<u64> {
    let args = ["get", "first", "-w", "json", "--command-timeout=10s"];
    let answer: Value = serde_json::from_str(&lab.etcdctl(&[host], &args)?.ok()?.stdout)?;
    answer["header"]["cluster_id"].as_u64().context("cluster_id")
}

/// Restores on a host; prints how long it took until a read was answered. Until then nothing serves, or the cluster
/// `old`, whose answers do not count.
fn restore(lab: &Lab, host: &Host, args: &[&str], old: Option<u64>, what: &str) {
    let begun = Instant::now();
    std::thread::scope(|scope| {
        let command = scope.spawn(|| {
            let output = agent(host, args);
            eprintln!("{what}: the command ended after {:?}", begun.elapsed());
            output.ok().unwrap();
        });
        wait_until("a served read", SOON, || {
            let mut on = lab.hosts().iter().filter(|host| host.is_on());
            Ok(on.any(|host| read_from(lab, host).is_ok_and(|cluster| Some(cluster) != old)))
        })
        .unwrap();
        eprintln!(
            "{what}: a read was served {:?} after the command",
            begun.elapsed()
        );
        command.join().unwrap();
    });
}

/// Restores on a host while nothing serves.
fn restore_lost(lab: &Lab, host: &Host, args: &[&str], what: &str) {
    restore(lab, host, args, None, what);
}

fn serves(lab: &Lab, host: &Host, keys: &[(&str, &str)], epoch: u64) {
    for (key, value) in keys {
        assert_value(lab, host, key, value);
    }
    assert_eq!(status(host).unwrap()["node"]["assignment"]["epoch"], epoch);
}

/// A command on this host is refused with these words.
fn is_refused(host: &Host, args: &[&str], said: &[&str]) {
    let refused = agent(host, args);
    assert_eq!(refused.code, 1, "{}{}", refused.stdout, refused.stderr);
    for part in said {
        assert!(refused.stderr.contains(part), "{}", refused.stderr);
    }
}

/// First onto hosts with other names, then onto fresh ones with the same names; each time with data that only
/// increments hold.
#[test]
fn c15_s61_a_lost_site_comes_back_on_hosts_with_other_names_and_with_the_same() {
    let lab = Lab::builder("s61").hosts(6).package(&deb()).boot().unwrap();
    lab.s3().start().unwrap();
    let (old, new) = (["n1", "n2", "n3"], ["n4", "n5", "n6"]);
    lab.configure(|host, config| of_nodes(config, if is_one_of(host, &old) { &old } else { &new }))
        .unwrap();
    start_agents(&lab, &old);
    lab.wait_healthy(3, SOON).unwrap();
    let (n1, n4) = (lab.host(1).unwrap(), lab.host(4).unwrap());
    put(&lab, "first", "1");
    backup_now(n1);
    put(&lab, "second", "2");
    wait_stored(&lab, n1);

    // The cluster runs: strangers change neither the cluster nor its store.
    let olds: Vec<&Host> = lab.hosts().iter().filter(|host| is_one_of(host, &old)).collect();
    let (members, pids) = (member_ids(&lab, n1).unwrap(), etcd_pids(olds.iter().copied()));
    let stored = lab.s3().keys().unwrap();
    start_agents(&lab, &new);
    for host in lab.hosts().iter().filter(|host| is_one_of(host, &new)) {
        let text = wait_reason(host, "other-electorate");
        assert!(text.contains("belongs to n1, n2 and n3"), "{text}");
    }
    let without = ["restore", "latest", "--yes", "--timeout", "2m"];
    let missing = [
        "`--without n1 --without n2 --without n3`",
        "`--replace-electorate prod`",
    ];
    is_refused(n4, &without, &missing);
    is_refused(
        n4,
        &["restore", "latest", "--yes", "--replace-electorate", "other"],
        &["says other, and this is cluster prod"],
    );
    let nothing_is_written = || {
        // The running cluster itself may store another increment meanwhile.
        let mut keys = lab.s3().keys().unwrap();
        keys.retain(|key| stored.contains(key) || !key.contains("/increments/"));
        assert_eq!(keys, stored, "strangers have written into the store");
    };
    nothing_is_written();
    assert_eq!(member_ids(&lab, n1).unwrap(), members);
    assert_eq!(etcd_pids(olds), pids);

    on(&lab, &old, Host::kill);
    // Nobody there can say whether the old cluster is lost, so a person still has to.
    is_refused(n4, &without, &missing);
    nothing_is_written();
    let other_names = ["restore", "latest", "--yes", "--replace-electorate", "prod"];
    restore_lost(&lab, n4, &other_names, "other names");
    lab.wait_healthy(3, SOON).unwrap();
    serves(&lab, n4, &[("first", "1"), ("second", "2")], 2);

    backup_now(n4);
    put(&lab, "third", "3");
    wait_stored(&lab, n4);
    replace_hosts(&lab, &new);
    restore_lost(
        &lab,
        lab.host(5).unwrap(),
        &["restore", "latest", "--yes"],
        "the same names",
    );
    lab.wait_healthy(3, SOON).unwrap();
    serves(&lab, n4, &[("first", "1"), ("second", "2"), ("third", "3")], 3);

    // As in a second store, which has no records of epochs.
    backup_now(n4);
    put(&lab, "fourth", "4");
    wait_stored(&lab, n4);
    on(&lab, &new, Host::kill);
    for key in lab.s3().keys().unwrap() {
        if key.contains("/control/epochs/") {
            fs::remove_file(lab.s3().dir().join(key)).unwrap();
        }
    }
    replace_hosts(&lab, &new);
    restore_lost(
        &lab,
        lab.host(6).unwrap(),
        &["restore", "latest", "--yes"],
        "without the records of epochs",
    );
    lab.wait_healthy(3, SOON).unwrap();
    serves(&lab, n4, &[("first", "1"), ("third", "3"), ("fourth", "4")], 4);
    lab.passed();
}

/// Restores a running cluster of five from a host whose own vote is not enough.
fn restore_alive(lab: &Lab, host: &Host, what: &str) {
    let (old, _) = member_ids(lab, host).unwrap();
    restore(lab, host, &["restore", "latest", "--yes"], Some(old), what);
    lab.wait_healthy(5, SOON).unwrap();
}

/// Replaces one host of a cluster of so many members, and waits until its elector has a vote again.
fn replace_host(lab: &Lab, name: &str, members: usize) {
    replace_hosts(lab, &[name]);
    lab.wait_healthy(members, SOON).unwrap();
    wait_until(&format!("the vote of {name}"), SOON, || {
        Ok(status(lab.host_named(name)?)?["node"]["eligible"] == true)
    })
    .unwrap();
}

/// Votes come back with the hosts: one was replaced before the cluster grew, then three of five one after the
/// other.
#[test]
fn c14_s61_a_restore_goes_on_where_electors_were_replaced_one_by_one() {
    let lab = Lab::builder("c14").hosts(5).package(&deb()).boot().unwrap();
    lab.s3().start().unwrap();
    let three = ["n1", "n2", "n3"];
    lab.configure(|_, config| of_nodes(config, &three)).unwrap();
    start_agents(&lab, &three);
    lab.wait_healthy(3, SOON).unwrap();
    put(&lab, "first", "1");
    replace_host(&lab, "n2", 3);
    lab.configure(|_, _| ()).unwrap();
    lab.start_agents().unwrap();
    lab.wait_healthy(5, SOON).unwrap();
    put(&lab, "second", "2");
    let (n2, n4) = (lab.host(2).unwrap(), lab.host(4).unwrap());
    wait_stored(&lab, n4);
    restore_alive(&lab, n4, "one replaced, then grown");
    serves(&lab, n4, &[("first", "1"), ("second", "2")], 2);

    for name in ["n1", "n3", "n5"] {
        replace_host(&lab, name, 5);
    }
    put(&lab, "third", "3");
    wait_stored(&lab, n2);
    restore_alive(&lab, n2, "three of five replaced");
    serves(&lab, n2, &[("first", "1"), ("second", "2"), ("third", "3")], 3);
    lab.passed();
}
