//! The cluster grows, shrinks and replaces dead members: S07, S22 to S25.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::common::{
    DATA, SOON, agent, archived, assert_value, backups, clusters_ever, data_there, deb, etcd_environ,
    etcd_pid, etcd_pids, follower, holds_for, kill_etcd, member_ids, others, put, reason_now,
    wait_coordinator_says, wait_reason, wait_status,
};
use etcd_agent_lab::{AgentConfig, Host, Lab, wait_until};

/// The agents wait only this long for a dead member, so that a test need not wait for minutes.
const SHORT_GRACE: &str = "grace = \"8s\"\n";

/// A cluster of `size` members on `hosts` hosts; `membership` is added to the configuration.
fn cluster(name: &str, hosts: u8, size: u8, membership: &str) -> Lab {
    let lab = Lab::builder(name).hosts(hosts).package(&deb()).boot().unwrap();
    lab.s3().start().unwrap();
    configure(&lab, size, membership, "");
    lab.start_agents().unwrap();
    lab.wait_healthy(usize::from(size), SOON).unwrap();
    wait_until("the first backup", SOON, || Ok(!backups(&lab).is_empty())).unwrap();
    lab
}

fn configure(lab: &Lab, size: u8, membership: &str, extra: &str) {
    lab.configure(|_, config: &mut AgentConfig| {
        config.size = size;
        membership.clone_into(&mut config.membership);
        extra.clone_into(&mut config.extra);
    })
    .unwrap();
}

/// Applies the configuration without a restart; starts the agents that do not run.
fn reload<'a>(hosts: impl IntoIterator<Item = &'a Host>) {
    for host in hosts {
        let done = host.systemctl(&["reload-or-restart", "etcd-agent"]).unwrap();
        done.ok().unwrap();
    }
}

/// Writes another size into every host's configuration.
fn resize(lab: &Lab, size: u8, membership: &str) {
    configure(lab, size, membership, "");
    reload(lab.hosts());
}

/// Whether the members are as before. A read that fails on a busy machine proves nothing.
fn unchanged(lab: &Lab, host: &Host, before: &BTreeMap<String, u64>) -> bool {
    member_ids(lab, host).ok().is_none_or(|(_, now)| now == *before)
}

/// The hosts that are not members are shown as spares, without data.
fn rest_is_spare(lab: &Lab) {
    let (_, members) = member_ids(lab, lab.raft_leader().unwrap()).unwrap();
    for host in lab
        .hosts()
        .iter()
        .filter(|host| !members.contains_key(host.name()))
    {
        wait_reason(host, "spare");
        wait_until(
            &format!("the data of {} to be archived", host.name()),
            SOON,
            || Ok(!data_there(host) && host.unit_property("etcd", "ActiveState")? != "active"),
        )
        .unwrap();
    }
}

/// No member is added or removed before a new backup exists.
fn backup_comes_first(lab: &Lab, backups_before: usize, members_before: &BTreeMap<String, u64>) {
    let leader = lab.raft_leader().unwrap();
    wait_until("a backup before the change", SOON, || {
        let (_, members) = member_ids(lab, leader)?;
        // The backups are read after the members: if there is no new one, there was none when the members
        // were read.
        if backups(lab).len() > backups_before {
            return Ok(true);
        }
        assert_eq!(members, *members_before, "changed without a backup");
        Ok(false)
    })
    .unwrap();
}

#[test]
fn s07_resize_up_and_down_keeps_keys() {
    let lab = cluster("s07", 5, 1, "");
    put(&lab, "first", "of one");
    let (id, _) = member_ids(&lab, lab.raft_leader().unwrap()).unwrap();
    let load = lab.start_load("k").unwrap();
    load.wait_for(50, SOON).unwrap();
    for size in [3, 5, 3, 1] {
        let before = backups(&lab).len();
        let (_, members) = member_ids(&lab, lab.raft_leader().unwrap()).unwrap();
        resize(&lab, size, "");
        backup_comes_first(&lab, before, &members);
        let took = lab.wait_healthy(usize::from(size), SOON).unwrap();
        eprintln!("{size} members after {took:?}");
        load.wait_for(50, SOON).unwrap();
        let leader = lab.raft_leader().unwrap();
        assert_value(&lab, leader, "first", "of one");
        let (now, members) = member_ids(&lab, leader).unwrap();
        assert_eq!(now, id, "the same cluster");
        assert_eq!(members.len(), usize::from(size));
        rest_is_spare(&lab);
    }
    load.stop().unwrap().verify_all(&lab).unwrap();
    let leader = lab.raft_leader().unwrap();
    let version = lab
        .etcdctl(&[leader], &["endpoint", "status", "-w", "fields"])
        .unwrap();
    assert!(
        version.stdout.contains(etcd_agent_lab::ETCD_DEFAULT),
        "{}",
        version.stdout
    );
    for host in others(&lab, leader) {
        let kept = archived(host);
        assert!(
            kept.iter().all(|name| name.contains("removed")),
            "{}: {kept:?}",
            host.name()
        );
    }
    assert_eq!(clusters_ever(&lab).len(), 1);
    lab.passed();
}

/// Runs the operator's `etcdctl member` command, repeated until it succeeds. A try that was not answered in time may
/// have succeeded: etcd refuses the next one, and the member list is as wanted.
fn operator(lab: &Lab, hosts: &[&Host], what: &str, args: &[&str], as_wanted: impl Fn(&str) -> bool) {
    let mut unknown = false;
    wait_until(&format!("the operator to {what}"), SOON, || {
        let output = lab.etcdctl(hosts, args)?;
        let refused = ["Peer URLs already exists", "member not found"];
        let refused = refused.iter().any(|text| output.stderr.contains(text));
        if refused && unknown {
            let list = lab.etcdctl(hosts, &["member", "list"])?.ok()?;
            return Ok(as_wanted(&list.stdout));
        }
        unknown |= !refused;
        output.ok().map(|_| true)
    })
    .unwrap();
}

/// Adds an entry for a node that has not started yet.
fn add_by_hand(lab: &Lab, hosts: &[&Host], node: &Host) {
    let url = format!("https://{}:2380", node.name());
    let urls = format!("--peer-urls={url}");
    let args = ["member", "add", node.name(), "--learner", &urls];
    operator(lab, hosts, "make an entry", &args, |list| list.contains(&url));
}

/// The steps of an elastic-etcd user with each of its join strategies: a new cluster of three, a restart, a
/// restart with other settings, a member that lost its data, growth to four by force and to five. A client
/// writes all the time.
fn strategy(join: &str) -> Lab {
    let membership = format!("join = \"{join}\"\n{SHORT_GRACE}");
    let lab = cluster(&format!("s22-{join}"), 5, 3, &membership);
    let (three, spares) = lab.hosts().split_at(3);
    for host in spares {
        host.systemctl(&["stop", "etcd-agent"]).unwrap().ok().unwrap();
    }
    let load = lab.start_load("k").unwrap();
    load.wait_for(50, SOON).unwrap();
    let n1 = lab.host(1).unwrap();
    let (id, members) = member_ids(&lab, n1).unwrap();

    let pids = etcd_pids(three);
    n1.systemctl(&["restart", "etcd"]).unwrap().ok().unwrap();
    lab.wait_healthy(3, SOON).unwrap();
    assert_ne!(etcd_pid(n1), pids["n1"]);
    assert_eq!(member_ids(&lab, n1).unwrap(), (id, members.clone()));

    let other = "[etcd.settings]\nmax-request-bytes = \"2097152\"\n";
    configure(&lab, 3, &membership, other);
    reload(three);
    for host in three {
        wait_until(&format!("the settings in {}'s etcd", host.name()), SOON, || {
            let env = etcd_environ(host);
            let is = |key: &str, value: &str| env.get(key).is_some_and(|found| found == value);
            Ok(is("ETCD_MAX_REQUEST_BYTES", "2097152") && is("ETCD_INITIAL_CLUSTER_STATE", "existing"))
        })
        .unwrap();
    }
    lab.wait_healthy(3, SOON).unwrap();
    assert_eq!(member_ids(&lab, n1).unwrap(), (id, members.clone()));

    wipe_and_rejoin(&lab, join, &members);
    load.wait_for(50, SOON).unwrap();

    configure(&lab, 4, &membership, other);
    let check = agent(n1, &["config", "check"]);
    assert!(
        !check.success() && check.stderr.contains("force"),
        "{}",
        check.stderr
    );
    for (size, force) in [(4, "force = true\n"), (5, "")] {
        configure(&lab, size, &format!("{membership}{force}"), other);
        reload(lab.hosts());
        let size = usize::from(size);
        if join == "prepare" {
            wait_coordinator_says(&lab, "waiting-for-entry");
            let there: Vec<&Host> = lab.hosts().iter().take(size - 1).collect();
            add_by_hand(&lab, &there, lab.host(size).unwrap());
        }
        lab.wait_healthy(size, SOON).unwrap();
    }
    load.wait_for(50, SOON).unwrap();
    load.stop().unwrap().verify_all(&lab).unwrap();
    assert_eq!(member_ids(&lab, n1).unwrap().0, id, "the same cluster");
    assert_eq!(clusters_ever(&lab).len(), 1);
    lab
}

/// A member of three loses its data, and its node becomes a member again with another ID. If the strategy
/// never removes a voter, an operator removes it first.
fn wipe_and_rejoin(lab: &Lab, join: &str, before: &BTreeMap<String, u64>) {
    let leader = lab.raft_leader().unwrap();
    let three = || lab.hosts().iter().take(3);
    let victim = three().find(|host| host.name() != leader.name()).unwrap();
    let rest: Vec<&Host> = three().filter(|host| host.name() != victim.name()).collect();
    let pids = etcd_pids(rest.iter().copied());
    victim.wipe(DATA).unwrap();
    kill_etcd(victim);
    let by_hand = ["prepare", "add"].contains(&join);
    if by_hand {
        wait_coordinator_says(lab, "removal-not-allowed");
        holds_for("nobody is removed", Duration::from_secs(2), || {
            unchanged(lab, leader, before)
        });
        let lost = format!("{:x}", before[victim.name()]);
        let args = ["member", "remove", &lost];
        operator(lab, &rest, "remove the member", &args, |list| {
            !list.contains(&lost)
        });
    }
    if join == "prepare" {
        wait_coordinator_says(lab, "waiting-for-entry");
        add_by_hand(lab, &rest, victim);
    }
    wait_until("the node to be a member again", SOON, || {
        let (_, now) = member_ids(lab, leader)?;
        Ok(now
            .get(victim.name())
            .is_some_and(|id| *id != before[victim.name()]))
    })
    .unwrap();
    lab.wait_healthy(3, SOON).unwrap();
    assert_eq!(etcd_pids(rest), pids, "the others were not restarted");
}

#[test]
fn s22_prepare() {
    strategy("prepare").passed();
}

/// `add` never removes a voter, not even a dead one.
#[test]
fn s22_add() {
    let lab = strategy("add");
    let leader = lab.raft_leader().unwrap();
    let (_, before) = member_ids(&lab, leader).unwrap();
    let dead = follower(&lab);
    dead.kill().unwrap();
    wait_coordinator_says(&lab, "removal-not-allowed");
    holds_for("nobody is removed", Duration::from_secs(2), || {
        unchanged(&lab, leader, &before)
    });
    dead.boot().unwrap();
    lab.wait_healthy(5, SOON).unwrap();
    assert_eq!(member_ids(&lab, leader).unwrap().1, before);
    lab.passed();
}

#[test]
fn s22_replace() {
    strategy("replace").passed();
}

#[test]
fn s22_prune() {
    strategy("prune").passed();
}

/// Two of five are dead. Nobody is removed while no healthy quorum is seen; then both are removed, one after
/// the other. An entry that is added for one of them meanwhile does not count as dead, however long its host
/// is down. Both join again.
#[test]
fn s23_prune_removes_all_dead() {
    let lab = cluster("s23", 5, 5, &format!("join = \"prune\"\n{SHORT_GRACE}"));
    let load = lab.start_load("k").unwrap();
    load.wait_for(50, SOON).unwrap();
    let leader = lab.raft_leader().unwrap();
    let rest = others(&lab, leader);
    let (dead, alive) = rest.split_at(2);
    let pids = etcd_pids(alive.iter().copied());
    let (_, before) = member_ids(&lab, leader).unwrap();

    let unseen = alive[0];
    unseen.systemctl(&["stop", "etcd-agent"]).unwrap().ok().unwrap();
    for host in dead {
        host.kill().unwrap();
    }
    wait_until("the coordinator to see too few", SOON, || {
        let coordinator = lab.raft_leader()?;
        if coordinator.name() == unseen.name() {
            // There was an election: with its agent off, the leader has no coordinator.
            let to = format!("{:x}", before[alive[1].name()]);
            lab.etcdctl(&[coordinator], &["move-leader", &to])?.ok()?;
        }
        Ok(reason_now(coordinator, "too-few-healthy")?.is_some_and(|text| text.contains("2 of 5")))
    })
    .unwrap();
    holds_for("the quorum check comes first", Duration::from_secs(2), || {
        unchanged(&lab, leader, &before)
    });
    unseen.systemctl(&["start", "etcd-agent"]).unwrap().ok().unwrap();
    lab.wait_healthy(3, SOON).unwrap();
    load.wait_for(50, SOON).unwrap();

    let (first, second) = (dead[0], dead[1]);
    add_by_hand(&lab, alive, first);
    let (_, with_entry) = member_ids(&lab, leader).unwrap();
    let entry = with_entry[""];
    wait_coordinator_says(&lab, "learner-unstarted");
    // Longer than the grace.
    holds_for("an entry is not dead", Duration::from_secs(10), || {
        unchanged(&lab, leader, &with_entry)
    });
    first.boot().unwrap();
    lab.wait_healthy(4, SOON).unwrap();
    let (_, now) = member_ids(&lab, leader).unwrap();
    assert_eq!(
        now[first.name()],
        entry,
        "it starts the member that was made for it"
    );
    second.boot().unwrap();
    lab.wait_healthy(5, SOON).unwrap();
    load.wait_for(50, SOON).unwrap();
    load.stop().unwrap().verify_all(&lab).unwrap();
    assert_eq!(
        etcd_pids(alive.iter().copied()),
        pids,
        "the others were not restarted"
    );
    assert_eq!(clusters_ever(&lab).len(), 1);
    lab.passed();
}

/// Two spares are needed at the same moment, and start at the same moment.
#[test]
fn s24_two_nodes_join_at_the_same_moment() {
    let lab = cluster("s24", 3, 1, "");
    let (n2, n3) = (lab.host(2).unwrap(), lab.host(3).unwrap());
    let first = lab.raft_leader().unwrap();
    let pid = etcd_pid(first);
    for host in [n2, n3] {
        host.systemctl(&["stop", "etcd-agent"]).unwrap().ok().unwrap();
    }
    configure(&lab, 3, "", "");
    let load = lab.start_load("k").unwrap();
    load.wait_for(50, SOON).unwrap();
    lab.start_agents().unwrap();
    lab.wait_healthy(3, SOON).unwrap();
    load.wait_for(50, SOON).unwrap();
    load.stop().unwrap().verify_all(&lab).unwrap();
    assert_eq!(etcd_pid(first), pid, "the first was not restarted");
    for host in lab.hosts() {
        wait_status(host, 0);
    }
    lab.passed();
}

/// A full cluster adds nobody while no member is dead. When a member's host dies, the spare takes its place
/// after the grace. The dead host comes back as a spare, and its data is archived.
#[test]
fn s25_full_cluster_refuses_until_a_member_is_dead() {
    let lab = cluster("s25", 4, 3, SHORT_GRACE);
    let (_, before) = member_ids(&lab, lab.raft_leader().unwrap()).unwrap();
    let spare = lab
        .hosts()
        .iter()
        .find(|host| !before.contains_key(host.name()))
        .unwrap();
    wait_reason(spare, "spare");
    let shown = agent(spare, &["plan"]).ok().unwrap().stdout;
    assert!(shown.contains("spare"), "{shown}");
    holds_for("the cluster is full", Duration::from_secs(3), || {
        unchanged(&lab, lab.raft_leader().unwrap(), &before)
    });

    let load = lab.start_load("k").unwrap();
    load.wait_for(50, SOON).unwrap();
    let leader = lab.raft_leader().unwrap();
    let dead: &Host = others(&lab, leader)
        .into_iter()
        .find(|host| before.contains_key(host.name()))
        .unwrap();
    let alive: Vec<&Host> = lab
        .hosts()
        .iter()
        .filter(|host| before.contains_key(host.name()) && host.name() != dead.name())
        .collect();
    let pids = etcd_pids(alive.iter().copied());
    dead.kill().unwrap();
    let took = wait_until("the spare to replace the dead member", SOON, || {
        let (_, now) = member_ids(&lab, leader)?;
        Ok(now.len() == 3 && now.contains_key(spare.name()) && !now.contains_key(dead.name()))
    })
    .unwrap();
    let voting = lab.wait_healthy(3, SOON).unwrap();
    eprintln!("replaced after {took:?}, all voting {voting:?} later");
    load.wait_for(50, SOON).unwrap();

    dead.boot().unwrap();
    wait_reason(dead, "spare");
    wait_until("its data to be archived", SOON, || {
        Ok(!data_there(dead) && archived(dead).iter().any(|name| name.contains("removed")))
    })
    .unwrap();
    load.wait_for(50, SOON).unwrap();
    load.stop().unwrap().verify_all(&lab).unwrap();
    assert_eq!(etcd_pids(alive), pids, "the others were not restarted");
    lab.passed();
}
