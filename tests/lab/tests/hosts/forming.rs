//! Clusters come up, and nothing else does: S01, S02, S04, C10.

use std::collections::BTreeSet;
use std::time::Duration;

use crate::common::{
    DATA, SOON, agent, answered, assert_value, backup_now, backups, deb, etcd_environ, etcd_pid, etcd_pids,
    formed, holds_for, listed, member_ids, put, status, wait_reason, wait_status,
};
use etcd_agent_lab::{Cmd, Host, Lab, Store, Suite, wait_for, wait_until};

fn one_member_survives(suite: Suite) {
    let lab = Lab::builder("s01").suite(suite).boot().unwrap();
    lab.install(&deb()).unwrap();
    lab.form().unwrap();
    let n1 = lab.host(1).unwrap();
    wait_status(n1, 0);
    put(&lab, "before", "the reboot");
    let before = member_ids(&lab, n1).unwrap();

    n1.reboot().unwrap();
    lab.wait_healthy(1, SOON).unwrap();
    assert_value(&lab, n1, "before", "the reboot");
    put(&lab, "between", "two starts");

    n1.kill().unwrap();
    n1.boot().unwrap();
    lab.wait_healthy(1, SOON).unwrap();
    assert_value(&lab, n1, "before", "the reboot");
    assert_value(&lab, n1, "between", "two starts");
    assert_eq!(
        member_ids(&lab, n1).unwrap(),
        before,
        "the same member of the same cluster"
    );
    wait_status(n1, 0);
    assert_eq!(n1.wait_booted().unwrap(), "running", "no unit failed");
    lab.passed();
}

#[test]
fn s01_one_member_survives_a_reboot() {
    one_member_survives(Suite::Trixie);
}

#[test]
fn s01_on_debian_12() {
    one_member_survives(Suite::Bookworm);
}

#[test]
fn s01_init_needs_no_other_input() {
    let lab = Lab::builder("s01-init").plain().boot().unwrap();
    let n1 = lab.host(1).unwrap();
    n1.install_deb(&deb()).unwrap();
    assert_eq!(
        agent(n1, &["status"]).code,
        3,
        "an unconfigured agent cannot be reached"
    );
    // As the package for Fedora leaves it.
    n1.systemctl(&["disable", "--now", "etcd-agent"])
        .unwrap()
        .ok()
        .unwrap();

    let init = agent(n1, &["init"]).ok().unwrap();
    assert_eq!(
        n1.unit_property("etcd-agent", "UnitFileState").unwrap(),
        "enabled"
    );
    assert!(!init.stderr.contains("etcd-agent init"), "{}", init.stderr);
    assert!(
        init.stdout.contains("file:///var/lib/etcd-agent/backups"),
        "{}",
        init.stdout
    );
    wait_status(n1, 0);
    let list = listed(n1, &["backup", "list"], "backups");
    assert_eq!(list.len(), 1, "{list:?}");
    n1.sh("etcdctl put hello world").unwrap().ok().unwrap();

    // A second `init` does no harm, and no reload is under way when it returns.
    let pid = etcd_pid(n1);
    agent(n1, &["init"]).ok().unwrap();
    backup_now(n1);
    assert_eq!(etcd_pid(n1), pid, "etcd was not restarted");
    n1.reboot().unwrap();
    wait_status(n1, 0);
    assert_eq!(
        n1.sh("etcdctl get hello --print-value-only").unwrap().text(),
        "world"
    );
    lab.passed();
}

/// Debian's `etcd-server` starts an etcd when it is installed: `init` keeps it, its data and its process.
#[test]
fn s01_init_takes_over_a_running_cluster_of_one() {
    init_takes_over(Lab::builder("s01-takeover").plain().boot().unwrap());
}

#[test]
fn s01_init_takes_over_debian_12s_etcd_3_4() {
    let lab = Lab::builder("s01-takeover-3-4").plain().suite(Suite::Bookworm);
    init_takes_over(lab.etcd_of_debian().boot().unwrap());
}

fn init_takes_over(lab: Lab) {
    let n1 = lab.host(1).unwrap();
    n1.systemctl(&["enable", "--now", "etcd"]).unwrap().ok().unwrap();
    n1.sh("etcdctl put before agent").unwrap().ok().unwrap();
    let pid = etcd_pid(n1);
    n1.install_deb(&deb()).unwrap();
    agent(n1, &["init"]).ok().unwrap();
    assert_eq!(etcd_pid(n1), pid, "it was not restarted");
    wait_status(n1, 0);
    n1.reboot().unwrap();
    wait_status(n1, 0);
    assert_eq!(
        n1.sh("etcdctl get before --print-value-only").unwrap().text(),
        "agent"
    );
    lab.passed();
}

/// `init` keeps the place of the log. A configuration with another one is refused, until the log is moved by
/// hand.
#[test]
fn s01_init_takes_over_an_etcd_whose_log_is_elsewhere() {
    let lab = Lab::builder("s01-wal-dir").plain().boot().unwrap();
    let n1 = lab.host(1).unwrap();
    let (config, log, moved) = ("/etc/etcd-agent/config.toml", "/disk/etcd", "/disk/moved");
    let disk = "mkdir /disk; mount -t tmpfs disk /disk; chown --reference=/var/lib/etcd /disk";
    n1.sh(disk).unwrap().ok().unwrap();
    let text = format!("ETCD_WAL_DIR={log}\n");
    n1.write_file("/etc/default/etcd", text, "0644", "root:root")
        .unwrap();
    n1.systemctl(&["enable", "--now", "etcd"]).unwrap().ok().unwrap();
    n1.sh("etcdctl put before agent").unwrap().ok().unwrap();
    let pid = etcd_pid(n1);
    n1.install_deb(&deb()).unwrap();
    agent(n1, &["init"]).ok().unwrap();
    assert_eq!(etcd_pid(n1), pid, "it was not restarted");
    wait_status(n1, 0);
    let written = n1.read_file(config).unwrap();
    assert!(
        written.ends_with(&format!("[etcd]\nwal_dir = \"{log}\"\n")),
        "{written}"
    );
    agent(n1, &["init"]).ok().unwrap();
    let serves_from = |log: &str| {
        n1.systemctl(&["restart", "etcd"]).unwrap().ok().unwrap();
        wait_status(n1, 0);
        let key = n1.sh("etcdctl get before --print-value-only").unwrap();
        assert_eq!(key.text(), "agent");
        let environ = etcd_environ(n1);
        assert_eq!(environ.get("ETCD_WAL_DIR").map(String::as_str), Some(log));
        let only = format!("ls {log}/*.wal && ! ls {DATA}/member/wal");
        n1.sh(&only).unwrap().ok().unwrap();
    };
    n1.write_file("/etc/default/etcd", "\n", "0644", "root:root")
        .unwrap();
    serves_from(log);

    let changed = written.replace(log, moved);
    n1.write_file(config, changed, "0644", "root:root").unwrap();
    let pid = etcd_pid(n1);
    let refused = agent(n1, &["config", "check"]);
    assert!(
        !refused.success() && refused.stderr.contains(log),
        "{}",
        refused.stderr
    );
    n1.systemctl(&["reload", "etcd-agent"]).unwrap();
    let applied = n1.systemctl(&["start", "etcd-agent-apply"]).unwrap();
    assert!(!applied.success(), "root's oneshot refuses it too");
    assert_eq!(etcd_pid(n1), pid, "etcd is left alone");

    // As docs/operations.md says.
    n1.systemctl(&["stop", "etcd"]).unwrap().ok().unwrap();
    agent(n1, &["config", "check", "--accept-losses"]).ok().unwrap();
    n1.systemctl(&["reload", "etcd-agent"]).unwrap().ok().unwrap();
    n1.sh(&format!("mv {log} {moved}")).unwrap().ok().unwrap();
    n1.systemctl(&["start", "etcd"]).unwrap().ok().unwrap();
    wait_status(n1, 0);
    serves_from(moved);
    lab.passed();
}

#[test]
fn s02_three_members_come_up() {
    let lab = formed("s02", 3);
    let (_, members) = member_ids(&lab, lab.host(1).unwrap()).unwrap();
    assert_eq!(members.keys().collect::<Vec<_>>(), ["n1", "n2", "n3"]);
    for host in lab.hosts() {
        wait_status(host, 0);
    }
    // All agents name the same coordinator, the one next to the raft leader.
    wait_until("all to name one coordinator", SOON, || {
        let leader = lab.raft_leader()?.name();
        let mut named = BTreeSet::new();
        for host in lab.hosts() {
            named.insert(
                status(host)?["coordinator"]
                    .as_str()
                    .unwrap_or("nobody")
                    .to_owned(),
            );
        }
        anyhow::ensure!(
            named == BTreeSet::from([leader.to_owned()]),
            "leader {leader}, named {named:?}"
        );
        Ok(true)
    })
    .unwrap();
    // One of them takes a first backup, and the epoch is recorded in the store.
    wait_until("the first backup", SOON, || Ok(!backups(&lab).is_empty())).unwrap();
    assert!(
        lab.s3()
            .keys()
            .unwrap()
            .contains(&"lab/prod/control/epochs/1".to_owned())
    );
    // systemd shows the same line.
    for host in lab.hosts() {
        let line = host.unit_property("etcd-agent", "StatusText").unwrap();
        assert!(line.contains("prod"), "{}: {line:?}", host.name());
    }
    hosts_without_ipv6_are_reached(&lab);
    lab.passed();
}

/// The agents listen at `[::]` by default. n1 has no IPv6 at all, as with `ipv6.disable=1` for the kernel, and n2 keeps
/// IPv4 and IPv6 apart.
fn hosts_without_ipv6_are_reached(lab: &Lab) {
    let [n1, n2, n3] = [1, 2, 3].map(|number| lab.host(number).unwrap());
    let drop_in = "[Service]\nRestrictAddressFamilies=\nRestrictAddressFamilies=AF_UNIX AF_INET\n";
    let file = "/etc/systemd/system/etcd-agent.service.d/no-ipv6.conf";
    n1.write_file(file, drop_in, "0644", "root:root").unwrap();
    n1.systemctl(&["daemon-reload"]).unwrap().ok().unwrap();
    let network = format!("--net=/run/netns/{}", lab.net().namespace(n2.name()));
    let apart = [network.as_str(), "sysctl", "-w", "net.ipv6.bindv6only=1"];
    Cmd::new("nsenter").args(apart).ok().unwrap();
    for host in [n1, n2] {
        host.sh("sed -i /^listen/d /etc/etcd-agent/config.toml && systemctl restart etcd-agent")
            .unwrap()
            .ok()
            .unwrap();
    }
    let listens = |host: &Host| host.sh("ss -Hltn 'sport = :2378'").unwrap().ok().unwrap().stdout;
    let (first, second) = (listens(n1), listens(n2));
    assert!(first.contains("0.0.0.0:2378"), "{first}");
    assert!(second.contains("*:2378"), "both families: {second}");
    wait_until("n3 to reach n1 and n2", SOON, || {
        let peers = status(n3)?["peers"].clone();
        let known = |node: &str| peers[node]["fact"] == "known";
        anyhow::ensure!(known("n1") && known("n2"), "{peers}");
        Ok(true)
    })
    .unwrap();
    wait_status(n3, 0);
}

#[test]
fn s04_size_one_second_node_is_spare() {
    let lab = Lab::builder("s04").hosts(2).package(&deb()).boot().unwrap();
    lab.s3().start().unwrap();
    lab.configure(|_, config| config.size = 1).unwrap();
    lab.start_agents().unwrap();
    lab.wait_healthy(1, SOON).unwrap();
    let (n1, n2) = (lab.host(1).unwrap(), lab.host(2).unwrap());
    wait_reason(n2, "spare");
    wait_status(n1, 0);
    wait_status(n2, 0);
    wait_until("n2 to show as spare", SOON, || {
        let shown = agent(n2, &["status"]).stdout;
        let spare = |line: &str| line.starts_with("n2") && line.contains("spare");
        anyhow::ensure!(shown.lines().any(spare), "{shown}");
        Ok(true)
    })
    .unwrap();
    // H09: every verb works on every node.
    for line in [
        &["backup", "now"][..],
        &["backup", "now", "--increment"],
        &["backup", "list"],
    ] {
        let done = answered(&line.join(" "), || Ok(agent(n2, line)));
        assert_eq!(
            done.code, 0,
            "h09: {line:?} on a spare: {}{}",
            done.stdout, done.stderr
        );
    }
    holds_for("n2 forms nothing", Duration::from_secs(4), || {
        n2.unit_property("etcd", "ActiveState").unwrap() == "inactive"
            && !n2
                .disk()
                .join(DATA.trim_start_matches('/'))
                .join("member")
                .exists()
    });
    let (_, members) = member_ids(&lab, n1).unwrap();
    assert_eq!(members.keys().collect::<Vec<_>>(), ["n1"]);
    lab.passed();
}

#[test]
fn c10_a_host_that_names_another_store_is_named_and_is_no_founder() {
    let lab = Lab::builder("c10").hosts(3).package(&deb()).boot().unwrap();
    lab.s3().start().unwrap();
    let n3 = lab.host(3).unwrap();
    let names = |other: bool| {
        let configured = lab.configure(|host, config| {
            if other && host.name() == n3.name() {
                config.store = Store::S3("elsewhere".to_owned());
            }
        });
        configured.unwrap();
    };
    names(true);
    lab.start_agents().unwrap();
    for host in lab.hosts() {
        let text = wait_reason(host, "store-differs");
        assert!(
            text.contains("make store.url and store.shared the same"),
            "{text}"
        );
    }
    // The others wait for it for a while, then form without it.
    let n1 = lab.host(1).unwrap();
    let founders = wait_for("the first cluster to be formed", SOON, || {
        Ok(status(n1)?["node"]["genesis"]["members"].as_object().cloned())
    });
    let founders: Vec<String> = founders.unwrap().into_iter().map(|(name, _)| name).collect();
    assert_eq!(founders, ["n1", "n2"]);
    // `names` writes the certificates again. An etcd that starts meanwhile may read a certificate and another
    // key.
    lab.wait_healthy(2, SOON).unwrap();
    names(false);
    lab.each(|host| host.systemctl(&["reload", "etcd-agent"])?.ok().map(drop))
        .unwrap();
    lab.wait_healthy(3, SOON).unwrap();
    wait_status(n3, 0);

    // Next to a running cluster it is named, and the cluster continues.
    let (pids, members) = (etcd_pids(lab.hosts()), member_ids(&lab, n1).unwrap());
    names(true);
    n3.systemctl(&["reload", "etcd-agent"]).unwrap().ok().unwrap();
    for host in lab.hosts() {
        wait_reason(host, "store-differs");
    }
    assert_eq!(etcd_pids(lab.hosts()), pids, "no etcd was restarted");
    assert_eq!(member_ids(&lab, n1).unwrap(), members);
    lab.passed();
}
