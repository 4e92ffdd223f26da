//! The network is partitioned, loses packets and is slow: S19, S20, S21. While the first cluster is formed
//! there is never a second one: S37.

use std::time::Duration;

use crate::common::{
    DATA, SOON, backup_now, clusters_ever, deb, etcd_pids, follower, formed, holds_for, kill_etcd,
    member_ids, others, wait_reason, wait_status,
};
use etcd_agent_lab::{Host, Lab, Shape, Store, wait_until};

fn prepared(name: &str, store: bool) -> Lab {
    let lab = Lab::builder(name).hosts(3).package(&deb()).boot().unwrap();
    lab.s3().start().unwrap();
    lab.configure(|_, config| {
        if !store {
            config.store = Store::None;
        }
    })
    .unwrap();
    lab
}

/// Heals the network, and asserts that there is one cluster and never was another.
fn heal_to_one_cluster(lab: Lab) {
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

/// With a shared store the two that can reach each other form a cluster, and the third joins them.
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
    wait_until("the other two to serve", SOON, || {
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
    heal_to_one_cluster(lab);
}

#[test]
fn s37_one_node_cut_off_during_bootstrap() {
    one_cut_off("s37-n3", 3);
}

#[test]
fn s37_first_node_cut_off_during_bootstrap() {
    one_cut_off("s37-n1", 1);
}

/// They can reach the store, but not each other: no majority, no cluster.
#[test]
fn s37_all_apart_during_bootstrap() {
    let lab = prepared("s37-apart", true);
    lab.net().partition(&[&["n1"], &["n2"], &["n3"]]).unwrap();
    lab.start_agents().unwrap();
    nothing_formed(&lab);
    heal_to_one_cluster(lab);
}

/// Without a store the first cluster waits for each elector, and names the missing one.
#[test]
fn s37_without_a_store_it_waits_for_the_one_cut_off() {
    let lab = prepared("s37-no-store", false);
    lab.host(3).unwrap().cut().unwrap();
    lab.start_agents().unwrap();
    let n1 = lab.host(1).unwrap();
    wait_until("n1 to wait only for n3", SOON, || {
        let text = wait_reason(n1, "new-memory");
        anyhow::ensure!(text.contains("n3") && text.contains("--without"), "{text}");
        Ok(!text.contains("n2"))
    })
    .unwrap();
    nothing_formed(&lab);
    heal_to_one_cluster(lab);
}

/// The names of hosts, for [`etcd_agent_lab::Net::partition`].
fn names<'a>(hosts: &[&'a Host]) -> Vec<&'a str> {
    hosts.iter().map(|host| host.name()).collect()
}

/// Partitions the hosts in two while a client writes, then heals the network. The side with the majority
/// serves. No agent restarts an etcd or changes a member because of it.
fn partition_under_load(lab: &Lab, one: &[&Host], other: &[&Host], what: &str) {
    let load = lab.start_load(&format!("{what}/")).unwrap();
    load.wait_for(50, SOON).unwrap();
    lab.net().partition(&[&names(one), &names(other)]).unwrap();
    let (few, many) = if one.len() < other.len() {
        (one, other)
    } else {
        (other, one)
    };
    for host in few {
        // Its own etcd has no quorum, and it reports that.
        wait_status(host, 7);
    }
    load.wait_for(100, SOON).unwrap();
    for host in many {
        wait_status(host, 6);
    }
    lab.heal_all().unwrap();
    lab.wait_healthy(lab.hosts().len(), SOON).unwrap();
    for host in lab.hosts() {
        wait_status(host, 0);
    }
    load.wait_for(50, SOON).unwrap();
    let written = load.stop().unwrap();
    written.verify_all(lab).unwrap();
    eprintln!(
        "{what}: {} writes, longest gap {:?}",
        written.acknowledged, written.longest_gap
    );
}

#[test]
fn s19_leader_follower_and_everybody_cut_off() {
    let lab = formed("s19", 3);
    let (n1, n2, n3) = (lab.host(1).unwrap(), lab.host(2).unwrap(), lab.host(3).unwrap());
    let before = member_ids(&lab, n1).unwrap();
    let pids = etcd_pids(lab.hosts());

    let leader = lab.raft_leader().unwrap();
    partition_under_load(&lab, &[leader], &others(&lab, leader), "the leader cut off");
    let follower = follower(&lab);
    partition_under_load(&lab, &[follower], &others(&lab, follower), "a follower cut off");

    // No host can reach another: no write is acknowledged, and no agent acts.
    let load = lab.start_load("all/").unwrap();
    load.wait_for(50, SOON).unwrap();
    lab.net().partition(&[&["n1"], &["n2"], &["n3"]]).unwrap();
    for host in [n1, n2, n3] {
        wait_status(host, 7);
    }
    let stuck = load.acknowledged();
    holds_for("nothing is acknowledged", Duration::from_secs(4), || {
        load.acknowledged() == stuck
    });
    lab.heal_all().unwrap();
    load.wait_for(50, SOON).unwrap();
    lab.wait_healthy(3, SOON).unwrap();
    load.stop().unwrap().verify_all(&lab).unwrap();

    assert_eq!(member_ids(&lab, n1).unwrap(), before, "the same three members");
    assert_eq!(etcd_pids(lab.hosts()), pids, "no etcd was restarted");
    lab.passed();
}

#[test]
fn s19_minority_with_the_leader_cut_off() {
    let lab = formed("s19-five", 5);
    let n1 = lab.host(1).unwrap();
    let before = member_ids(&lab, n1).unwrap();
    let pids = etcd_pids(lab.hosts());
    let leader = lab.raft_leader().unwrap();
    let mut majority = others(&lab, leader);
    let second = majority.pop().unwrap();
    partition_under_load(&lab, &[leader, second], &majority, "two of five cut off");
    assert_eq!(member_ids(&lab, n1).unwrap(), before, "the same five members");
    assert_eq!(etcd_pids(lab.hosts()), pids, "no etcd was restarted");
    lab.passed();
}

/// The timeout in a lossy network: etcd's own raft was seen without a leader for a minute and more, and
/// nothing is changed without one.
const LOSSY: Duration = Duration::from_mins(10);

/// Every twentieth packet between hosts, and to the store and the clients, is lost. A member dies, then loses
/// its data.
#[test]
fn s21_lossy_network() {
    let lab = formed("s21", 3);
    let victim = follower(&lab);
    let others = others(&lab, victim);
    let pids = etcd_pids(others.iter().copied());
    let (cluster, before) = member_ids(&lab, victim).unwrap();
    for host in lab.hosts() {
        let shape = Shape {
            loss_percent: 5,
            ..Shape::default()
        };
        host.shape(shape).unwrap();
    }
    let load = lab.start_load("k").unwrap();
    load.wait_for(100, LOSSY).unwrap();
    victim.wipe(DATA).unwrap();
    kill_etcd(victim);
    wait_until("the member to be replaced", LOSSY, || {
        let (_, now) = member_ids(&lab, others.first().unwrap())?;
        let id = now.get(victim.name());
        Ok(now.len() == 3 && id.is_some() && id != before.get(victim.name()))
    })
    .unwrap();
    lab.wait_healthy(3, LOSSY).unwrap();
    load.wait_for(100, LOSSY).unwrap();
    let written = load.stop().unwrap();
    eprintln!(
        "{} writes over a lossy network, longest gap {:?}",
        written.acknowledged, written.longest_gap
    );
    lab.heal_all().unwrap();
    lab.wait_healthy(3, SOON).unwrap();
    written.verify_all(&lab).unwrap();
    assert_eq!(member_ids(&lab, victim).unwrap().0, cluster, "the same cluster");
    assert_eq!(
        etcd_pids(others),
        pids,
        "the etcd of the others was not restarted"
    );
    lab.passed();
}

/// A tenth of a second from host to host and back. A slow cluster is not dead: it serves, backs up and heals,
/// and no agent touches a member that is only slow.
#[test]
fn s20_slow_network() {
    let lab = formed("s20", 3);
    let victim = follower(&lab);
    let others = others(&lab, victim);
    let (cluster, before) = member_ids(&lab, victim).unwrap();
    let delay = Duration::from_millis(50);
    let slow = lab.slow(delay).unwrap();
    // A request to the store and its answer show that the delay is real.
    let ask = "setpriv --reuid=nobody --regid=nogroup --clear-groups \
               curl -sS -o /dev/null -w '%{time_total}' http://s3:7070/";
    let took: f64 = victim.sh(ask).unwrap().ok().unwrap().text().parse().unwrap();
    assert!(took >= 2.0 * delay.as_secs_f64(), "{took} s");

    let pids = etcd_pids(others.iter().copied());
    let load = lab.start_load("k").unwrap();
    load.wait_for(30, SOON).unwrap();
    for host in lab.hosts() {
        wait_status(host, 0);
    }
    victim.wipe(DATA).unwrap();
    kill_etcd(victim);
    wait_until("the member to be replaced", SOON, || {
        let (_, now) = member_ids(&lab, others.first().unwrap())?;
        let id = now.get(victim.name());
        Ok(now.len() == 3 && id.is_some() && id != before.get(victim.name()))
    })
    .unwrap();
    lab.wait_healthy(3, SOON).unwrap();
    backup_now(victim);
    load.wait_for(30, SOON).unwrap();
    let written = load.stop().unwrap();
    eprintln!(
        "{} writes over a slow network, longest gap {:?}",
        written.acknowledged, written.longest_gap
    );
    for host in lab.hosts() {
        wait_status(host, 0);
    }
    drop(slow);
    lab.wait_healthy(3, SOON).unwrap();
    written.verify_all(&lab).unwrap();
    assert_eq!(member_ids(&lab, victim).unwrap().0, cluster, "the same cluster");
    assert_eq!(
        etcd_pids(others),
        pids,
        "the etcd of the others was not restarted"
    );
    lab.passed();
}

/// The partition changes while the cluster is formed: one node after the other is isolated, or can send and
/// cannot receive.
#[test]
fn s37_the_split_moves_during_bootstrap() {
    let lab = prepared("s37-moves", true);
    lab.net().partition(&[&["n1"], &["n2", "n3"]]).unwrap();
    lab.start_agents().unwrap();
    for round in 0..4 {
        for alone in ["n2", "n3", "n1"] {
            let rest: Vec<&str> = ["n1", "n2", "n3"]
                .into_iter()
                .filter(|name| *name != alone)
                .collect();
            std::thread::sleep(Duration::from_millis(300 + 350 * round));
            lab.heal_all().unwrap();
            if round % 2 == 0 {
                lab.net().partition(&[&[alone], &rest]).unwrap();
            } else {
                for other in rest {
                    lab.net().block(other, alone).unwrap();
                }
            }
            let clusters = clusters_ever(&lab);
            assert!(clusters.len() <= 1, "at most one cluster: {clusters:?}");
        }
    }
    heal_to_one_cluster(lab);
}
