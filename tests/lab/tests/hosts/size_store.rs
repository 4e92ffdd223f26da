//! The size in the store, set for all nodes by one command on any node; and a node that moves to another
//! address.

use std::fs;
use std::time::Duration;

use crate::common::{
    SOON, agent, clusters_ever, deb, etcd_environ, etcd_pids, listed, logged, member_ids, status,
    wait_logged, wait_reason, wait_status,
};
use etcd_agent_lab::{Host, Lab, Load, wait_until};
use serde_json::Value;

/// Five nodes whose configuration has no size.
fn formed(name: &str) -> Lab {
    let lab = Lab::builder(name).hosts(5).package(&deb()).boot().unwrap();
    lab.s3().start().unwrap();
    lab.configure(|_, _| ()).unwrap();
    for host in lab.hosts() {
        let edit = ["sed", "-i", "/^size = /d", "/etc/etcd-agent/config.toml"];
        host.exec(&edit).unwrap().ok().unwrap();
        host.systemctl(&["restart", "etcd-agent"]).unwrap().ok().unwrap();
    }
    lab.wait_healthy(3, SOON).unwrap();
    lab
}

fn backups(host: &Host) -> usize {
    listed(host, &["backup", "list"], "backups").len()
}

fn spec(host: &Host) -> String {
    agent(host, &["spec", "get"]).ok().unwrap().stdout
}

/// F3: somebody writes a smaller size into the bucket. No member is removed for it, and no etcd is stopped.
fn a_smaller_size_in_the_store_alone_is_not_followed(lab: &Lab, load: &Load) {
    let [n1, n5] = [1, 5].map(|number| lab.host(number).unwrap());
    let (members, pids) = (member_ids(lab, n1).unwrap(), etcd_pids(lab.hosts()));
    let keys = lab.s3().keys().unwrap();
    let key = keys
        .iter()
        .find(|key| key.ends_with("/control/etcd-cluster-spec"));
    let (forged, object) = (r#"{"memberCount":1}"#, lab.s3().curl(key.unwrap()));
    let put = format!("printf '%s' '{forged}' >/root/forged.json; {object} -T /root/forged.json");
    n5.sh(&put).unwrap().ok().unwrap();
    assert_eq!(lab.s3().read(key.unwrap()).unwrap(), forged);
    // An agent reads the store when it starts.
    lab.start_agents().unwrap();
    let warning = "the store asks for 1 members, and the size stays 5: nobody has ordered fewer members";
    for host in lab.hosts() {
        let text = wait_reason(host, "size-unconfirmed");
        assert!(text.contains(warning), "{text}");
        let plan = agent(host, &["plan"]).ok().unwrap().stdout;
        assert!(plan.contains("size-unconfirmed"), "{plan}");
    }
    load.wait_for(200, SOON).unwrap();
    // Logged when the reasons change, and with what the coordinator does, but not at each look. An agent that is found
    // late after its restart changes the reasons.
    let lines = || {
        lab.hosts()
            .iter()
            .map(|host| logged(host, warning))
            .sum::<usize>()
    };
    wait_until("few more lines within 10 s", SOON, || {
        let before = lines();
        std::thread::sleep(Duration::from_secs(10));
        let more = lines() - before;
        anyhow::ensure!(more <= 10, "{more} lines more of five agents");
        Ok(true)
    })
    .unwrap();
    for host in lab.hosts() {
        assert_eq!(status(host).unwrap()["size"], 5, "{}", host.name());
        wait_logged(host, warning);
    }
    assert_eq!(member_ids(lab, n1).unwrap(), members);
    assert_eq!(etcd_pids(lab.hosts()), pids);

    let said = agent(n1, &["spec", "set", "size=5"]).ok().unwrap();
    assert!(said.stdout.contains("5 voters are wanted"), "{}", said.stdout);
    assert!(
        lab.s3()
            .read(key.unwrap())
            .unwrap()
            .contains(r#""memberCount":5"#)
    );
}

#[test]
fn f03_s07_the_size_is_changed_in_the_store_by_one_command() {
    let lab = formed("size-store");
    let (n1, n5) = (lab.host(1).unwrap(), lab.host(5).unwrap());
    assert!(
        spec(n5).contains("3 (by default: the store says none)"),
        "{}",
        spec(n5)
    );
    wait_until("a backup", SOON, || Ok(backups(n5) >= 1)).unwrap();
    let before = backups(n5);
    let load = lab.start_load("k").unwrap();
    load.wait_for(50, SOON).unwrap();

    let refused = agent(n5, &["spec", "set", "size=4"]);
    assert_eq!(refused.code, 4, "{}{}", refused.stdout, refused.stderr);
    assert!(refused.stderr.contains("--force overrides"), "{}", refused.stderr);
    let shown = agent(n5, &["spec", "set", "size=5", "--dry-run"]).ok().unwrap();
    assert!(
        shown
            .stdout
            .contains("Nothing was changed. 3 voters are wanted now"),
        "{}",
        shown.stdout
    );
    assert!(spec(n1).contains("3 (by default"), "{}", spec(n1));

    let said = agent(n5, &["spec", "set", "size=5"]).ok().unwrap();
    assert!(
        said.stdout
            .contains("5 voters are wanted (prod/control/etcd-cluster-spec in s3://"),
        "{}",
        said.stdout
    );
    for host in lab.hosts() {
        wait_until("the size", SOON, || {
            Ok(spec(host).contains("5 (control/etcd-cluster-spec in the store)"))
        })
        .unwrap();
    }
    lab.wait_healthy(5, SOON).unwrap();
    assert!(backups(n5) > before, "one backup before the change");
    for host in lab.hosts() {
        wait_status(host, 0);
    }
    // The size that etcd-manager reads is also the size in force.
    agent(n1, &["backup", "now", "--format", "etcd-manager"])
        .ok()
        .unwrap();
    let keys = lab.s3().keys().unwrap();
    let marker = keys.iter().find(|key| key.ends_with("/_etcd_backup.meta"));
    let marker = fs::read(lab.s3().dir().join(marker.unwrap())).unwrap();
    let marker: Value = serde_json::from_slice(&marker).unwrap();
    assert_eq!(marker["clusterSpec"]["memberCount"], 5, "{marker}");
    let again = agent(n1, &["spec", "set", "size=5"]).ok().unwrap();
    assert!(again.stdout.contains("were wanted already"), "{}", again.stdout);
    a_smaller_size_in_the_store_alone_is_not_followed(&lab, &load);

    // While the store does not answer nothing changes, and a change of the size is refused.
    let pids = etcd_pids(lab.hosts());
    lab.s3().stop().unwrap();
    let refused = agent(n1, &["spec", "set", "size=3"]);
    assert_ne!(refused.code, 0, "{}{}", refused.stdout, refused.stderr);
    for host in lab.hosts() {
        host.systemctl(&["restart", "etcd-agent"]).unwrap().ok().unwrap();
    }
    wait_until("all agents", SOON, || {
        Ok(lab.hosts().iter().all(|host| {
            status(host).is_ok_and(|status| status["size"] == 5 && status["store_error"].is_string())
        }))
    })
    .unwrap();
    assert!(
        spec(n1).contains("5 (control/etcd-cluster-spec in the store)"),
        "{}",
        spec(n1)
    );
    lab.wait_healthy(5, SOON).unwrap();
    assert_eq!(etcd_pids(lab.hosts()), pids);
    lab.s3().start().unwrap();

    // Shrinks again, on another node.
    wait_until("the store to be used again", SOON, || {
        let said = agent(n1, &["spec", "set", "size=3"]);
        anyhow::ensure!(said.code == 0, "{}{}", said.stdout, said.stderr);
        Ok(true)
    })
    .unwrap();
    lab.wait_healthy(3, SOON).unwrap();
    for host in lab.hosts() {
        wait_until("the size", SOON, || {
            Ok(spec(host).contains("3 (control/etcd-cluster-spec in the store)"))
        })
        .unwrap();
    }
    let written = load.stop().unwrap();
    written.verify_all(&lab).unwrap();

    // A size in the configuration overrides the one in the store.
    let leader = lab.raft_leader().unwrap();
    let edit = [
        "sed",
        "-i",
        "s/^nodes = /size = 3\\nnodes = /",
        "/etc/etcd-agent/config.toml",
    ];
    leader.exec(&edit).unwrap().ok().unwrap();
    leader.systemctl(&["reload", "etcd-agent"]).unwrap().ok().unwrap();
    let refused = agent(leader, &["spec", "set", "size=5"]);
    assert_eq!(refused.code, 4, "{}{}", refused.stdout, refused.stderr);
    assert!(refused.stderr.contains("config.toml:"), "{}", refused.stderr);
    assert_eq!(clusters_ever(&lab).len(), 1);
    lab.passed();
}

/// The settings of the moved node are written again, its etcd is restarted with permission, and its member is
/// updated.
#[test]
fn a_node_that_moves_is_reached_at_its_new_address() {
    let lab = Lab::builder("moves").hosts(3).package(&deb()).boot().unwrap();
    lab.form().unwrap();
    let n3 = lab.host(3).unwrap();
    let before = member_ids(&lab, n3).unwrap();
    let load = lab.start_load("k").unwrap();
    load.wait_for(50, SOON).unwrap();
    let address = n3.address().to_string();
    lab.configure(|_, config| {
        config.nodes.insert("n3".to_owned(), address.clone());
    })
    .unwrap();
    for host in lab.hosts() {
        host.systemctl(&["reload", "etcd-agent"]).unwrap().ok().unwrap();
    }
    wait_until("etcd on n3 to run under its new address", SOON, || {
        let env = etcd_environ(n3);
        let is = |name: &str, port: u16| {
            env.get(name).map(String::as_str) == Some(format!("https://{address}:{port}").as_str())
        };
        Ok(is("ETCD_ADVERTISE_CLIENT_URLS", 2379) && is("ETCD_INITIAL_ADVERTISE_PEER_URLS", 2380))
    })
    .unwrap();
    wait_until("the member list to have it", SOON, || {
        let listed = lab.etcdctl(&[n3], &["member", "list"])?.ok()?;
        let line = listed.stdout.lines().find(|line| line.contains(", n3, "));
        Ok(line.is_some_and(|line| line.matches(&format!("https://{address}:")).count() == 2))
    })
    .unwrap();
    lab.wait_healthy(3, SOON).unwrap();
    for host in lab.hosts() {
        wait_status(host, 0);
    }
    assert_eq!(member_ids(&lab, n3).unwrap(), before);
    load.stop().unwrap().verify_all(&lab).unwrap();
    assert_eq!(clusters_ever(&lab).len(), 1);
    lab.passed();
}
