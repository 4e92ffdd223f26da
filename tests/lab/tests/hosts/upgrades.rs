//! Upgrades of etcd on real hosts: from the distribution's 3.5.16 through 3.5.35 and 3.6.16 to 3.7.3, under
//! writes.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::common::{SOON, agent, backups, deb, etcd_pids, follower, status};
use etcd_agent_lab::{Host, Lab, wait_until};

/// The version of etcd that runs on each node.
fn versions(lab: &Lab) -> anyhow::Result<BTreeMap<String, String>> {
    let version = |host: &Host| {
        let status = status(host)?;
        let version = &status["node"]["etcd"]["value"]["version"];
        Ok((
            host.name().to_owned(),
            version.as_str().unwrap_or_default().to_owned(),
        ))
    };
    lab.hosts().iter().map(version).collect()
}

fn all_run(lab: &Lab, version: &str) {
    wait_until(&format!("all to run etcd {version}"), SOON, || {
        let versions = versions(lab)?;
        anyhow::ensure!(versions.values().all(|found| found == version), "{versions:?}");
        Ok(true)
    })
    .unwrap();
}

fn upgrade(host: &Host, args: &[&str]) {
    let args = [&["upgrade", "--timeout", "150s"], args].concat();
    agent(host, &args).ok().unwrap();
}

#[test]
fn s09_etcd_is_upgraded_minor_by_minor_under_load_and_goes_back_while_it_can() {
    let lab = Lab::builder("upgrade")
        .hosts(3)
        .etcd_of_debian()
        .package(&deb())
        .boot()
        .unwrap();
    lab.s3().start().unwrap();
    // No snapshot of raft, so that entries of 3.5 stay in the logs.
    lab.configure(|_, config| config.extra = snapshots_after(1_000_000))
        .unwrap();
    lab.start_agents().unwrap();
    lab.wait_healthy(3, SOON).unwrap();
    let n1 = lab.host(1).unwrap();
    all_run(&lab, "3.5.16");
    refused_orders_change_nothing(&lab, n1);
    let load = lab.start_load("u").unwrap();
    load.wait_for(100, SOON).unwrap();

    s51_a_package_upgraded_on_all_hosts_at_once_takes_one_member_at_a_time(&lab);
    a_binary_replaced_on_all_hosts_at_once_is_rolled_out(&lab);
    a_pause_after_one_node_and_the_way_back(&lab, n1);

    // Each agent is killed meanwhile, and etcd's upgrade goes on.
    let stored = backups(&lab).len();
    std::thread::scope(|scope| {
        let upgrading = scope.spawn(|| {
            agent(n1, &["upgrade", "--to", "3.6.16", "--timeout", "150s"])
                .ok()
                .unwrap()
        });
        for host in lab.hosts() {
            std::thread::sleep(Duration::from_secs(4));
            host.kill_process("etcd-agent", "KILL").unwrap();
        }
        let said = upgrading.join().unwrap();
        assert!(
            said.stdout.contains("etcd 3.6.16 runs on every member"),
            "{}",
            said.stdout
        );
        assert!(said.stderr.contains("the way back"), "{}", said.stderr);
    });
    lab.wait_healthy(3, SOON).unwrap();
    all_run(&lab, "3.6.16");
    assert!(backups(&lab).len() > stored, "a backup was taken first");
    for host in lab.hosts() {
        let binary = host
            .sh("readlink /proc/$(systemctl show -P MainPID etcd)/exe")
            .unwrap();
        assert_eq!(binary.ok().unwrap().text(), "/opt/etcd-v3.6.16/etcd");
    }
    load.wait_for(100, SOON).unwrap();
    let written = load.stop().unwrap();
    written.verify_all(&lab).unwrap();
    eprintln!(
        "{} writes, longest gap {:?}",
        written.acknowledged, written.longest_gap
    );

    let again = agent(n1, &["upgrade", "--to", "3.6.16", "-o", "json"])
        .ok()
        .unwrap();
    let again: serde_json::Value = serde_json::from_str(&again.stdout).unwrap();
    assert_eq!(again["changed"], false);
    let late = agent(n1, &["upgrade", "--cancel"]);
    assert_eq!(late.code, 4, "{}", late.stderr);
    assert!(late.stderr.contains("the upgrade is complete"), "{}", late.stderr);

    // A reboot keeps the version, and so does a member that is replaced.
    let host = follower(&lab);
    host.reboot().unwrap();
    lab.wait_healthy(3, SOON).unwrap();
    all_run(&lab, "3.6.16");
    host.sh("systemctl kill -s KILL etcd; rm -rf /var/lib/etcd/default")
        .unwrap();
    let replaced =
        || {
            let status = status(host)?;
            Ok(status["node"]["etcd"]["value"]["is_learner"] == false
                && versions(&lab)?[host.name()] == "3.6.16")
        };
    wait_until("the member to be replaced", 2 * SOON, replaced).unwrap();
    lab.wait_healthy(3, SOON).unwrap();
    to_3_7_once_no_log_has_entries_of_3_5(&lab, n1);
    written.verify_all(&lab).unwrap();
    lab.passed();
}

/// Settings with which etcd writes a snapshot of raft after as many changes.
fn snapshots_after(changes: u32) -> String {
    format!("[etcd.settings]\nsnapshot-count = \"{changes}\"\n")
}

/// etcd 3.7 would panic on them. They are gone after a snapshot of raft.
fn to_3_7_once_no_log_has_entries_of_3_5(lab: &Lab, n1: &Host) {
    let logs = |expected: bool| {
        wait_until(&format!("v2_entries={expected}"), 2 * SOON, || {
            let statuses: anyhow::Result<Vec<_>> = lab.hosts().iter().map(status).collect();
            Ok(statuses?
                .iter()
                .any(|status| status["node"]["v2_entries"] == true)
                == expected
                && lab
                    .hosts()
                    .iter()
                    .all(|host| status(host).is_ok_and(|status| status["node"]["v2_entries"].is_boolean())))
        })
        .unwrap();
    };
    logs(true);
    let pids = etcd_pids(lab.hosts());
    let early = agent(n1, &["upgrade", "--to", "3.7.3", "--no-backup"]);
    assert_eq!(early.code, 4, "{}", early.stderr);
    assert!(
        early.stderr.contains("still holds entries of etcd 3.5"),
        "{}",
        early.stderr
    );
    assert_eq!(etcd_pids(lab.hosts()), pids, "nothing was restarted");

    lab.configure(|_, config| config.extra = snapshots_after(100))
        .unwrap();
    lab.each(|host| host.sh("systemctl reload etcd-agent")?.ok().map(drop))
        .unwrap();
    logs(false);
    // A log that the leader has sent as a snapshot has no such entries before its etcd is restarted.
    wait_until("the restarts to end", 2 * SOON, || {
        let order = agent(n1, &["upgrade", "--to", "3.7.3", "--dry-run"]);
        Ok(order.code == 0)
    })
    .unwrap();
    let load = lab.start_load("v").unwrap();
    load.wait_for(100, SOON).unwrap();
    upgrade(n1, &["--to", "3.7.3"]);
    all_run(lab, "3.7.3");
    lab.wait_healthy(3, SOON).unwrap();
    s10_etcd_is_downgraded_minor_by_minor(lab, n1);
    load.wait_for(100, SOON).unwrap();
    let written = load.stop().unwrap();
    written.verify_all(lab).unwrap();
}

/// Back to 3.5 by etcd's own downgrade, under the writes of `load`. One that is cancelled returns first.
fn s10_etcd_is_downgraded_minor_by_minor(lab: &Lab, n1: &Host) {
    let refused = agent(n1, &["downgrade", "--to", "3.5.16"]);
    assert!(
        refused.code == 4 && refused.stderr.contains("n1 has no etcd 3.5.16"),
        "{}",
        refused.stderr
    );
    agent(n1, &["downgrade", "--to", "3.6.16", "--timeout", "150s"])
        .ok()
        .unwrap();
    all_run(lab, "3.6.16");
    lab.wait_healthy(3, SOON).unwrap();
    std::thread::scope(|scope| {
        let command = || {
            agent(
                n1,
                &["downgrade", "--to", "3.5.35", "--no-backup", "--timeout", "150s"],
            )
        };
        let downgrading = scope.spawn(command);
        wait_until("one member to be downgraded", 2 * SOON, || {
            Ok(versions(lab)?.values().any(|version| version == "3.5.35"))
        })
        .unwrap();
        let cancel = agent(n1, &["downgrade", "--cancel", "--timeout", "150s"]);
        cancel.ok().unwrap();
        assert_ne!(downgrading.join().unwrap().code, 0, "it was cancelled");
    });
    all_run(lab, "3.6.16");
    lab.wait_healthy(3, SOON).unwrap();
    wait_until("etcd to convert its data to 3.6 again", SOON, || {
        let stored = |host: &Host| {
            let etcd = &status(host)?["node"]["etcd"]["value"];
            Ok::<_, anyhow::Error>(etcd["storage_version"] == "3.6.0")
        };
        let all: anyhow::Result<Vec<bool>> = lab.hosts().iter().map(stored).collect();
        Ok(all?.into_iter().all(|converted| converted))
    })
    .unwrap();
    agent(n1, &["downgrade", "--to", "3.5.35", "--timeout", "150s"])
        .ok()
        .unwrap();
    all_run(lab, "3.5.35");
    lab.wait_healthy(3, SOON).unwrap();
    for host in lab.hosts() {
        let shown = status(host).unwrap();
        assert_eq!(
            shown["node"]["etcd"]["value"]["downgrade_to"],
            serde_json::Value::Null
        );
    }
}

/// Packs the installed package of etcd again, as a newer one.
const REPACK: &str = r#"set -e
cd /root && rm -rf package && mkdir -p package/DEBIAN
dpkg -L etcd-server | while read -r path; do
    if [ -f "$path" ]; then cp --parents "$path" package; fi
done
for script in conffiles postinst postrm preinst prerm; do
    if [ -f "/var/lib/dpkg/info/etcd-server.$script" ]; then cp "/var/lib/dpkg/info/etcd-server.$script" "package/DEBIAN/$script"; fi
done
dpkg-query -s etcd-server | sed -e '/^Status:/d' -e '/^Conffiles:/,/^[^ ]/{/^Conffiles:/d;/^ /d}'     -e 's/^Version: .*/&+newer/' > package/DEBIAN/control
dpkg-deb -Zgzip -z1 --root-owner-group -b package etcd-server.deb
"#;

/// `apt install` of a newer package in the same second, under writes: at most one member is down at any moment.
fn s51_a_package_upgraded_on_all_hosts_at_once_takes_one_member_at_a_time(lab: &Lab) {
    lab.each(|host| host.sh(REPACK)?.ok().map(drop)).unwrap();
    let before = etcd_pids(lab.hosts());
    let since = format!("@{}", now_us(&lab.hosts()[0]) / 1_000_000);
    let install =
        "DEBIAN_FRONTEND=noninteractive apt-get install --yes --allow-downgrades /root/etcd-server.deb";
    lab.each(|host| host.sh(install)?.ok().map(drop)).unwrap();
    lab.wait_healthy(3, SOON).unwrap();
    let after = etcd_pids(lab.hosts());
    assert!(
        after.iter().all(|(node, pid)| before.get(node) != Some(pid)),
        "{before:?} {after:?}"
    );
    one_at_a_time(lab, &since);
}

/// Another binary on all hosts in the same second, and nobody restarts etcd: the agents do.
fn a_binary_replaced_on_all_hosts_at_once_is_rolled_out(lab: &Lab) {
    let since = format!("@{}", now_us(&lab.hosts()[0]) / 1_000_000);
    let replace = "cp /opt/etcd-v3.5.35/etcd /usr/bin/etcd.new && mv /usr/bin/etcd.new /usr/bin/etcd";
    lab.each(|host| host.sh(replace)?.ok().map(drop)).unwrap();
    all_run(lab, "3.5.35");
    lab.wait_healthy(3, SOON).unwrap();
    one_at_a_time(lab, &since);
}

/// Each etcd went down once since then, and no two of them at one moment.
fn one_at_a_time(lab: &Lab, since: &str) {
    let mut down: Vec<(String, String, &str)> = lab
        .hosts()
        .iter()
        .map(|host| {
            let (from, to) = down_between(host, since);
            (from, to, host.name())
        })
        .collect();
    down.sort_unstable();
    for pair in down.windows(2) {
        let [(_, up, one), (stopped, _, other)] = pair else {
            panic!("two intervals")
        };
        assert!(up <= stopped, "{other} went down before {one} was up: {down:?}");
    }
}

fn now_us(host: &Host) -> u64 {
    let now = host.sh("date +%s%6N").unwrap().ok().unwrap();
    now.text().parse().unwrap()
}

/// When etcd got its SIGTERM, and when it served again, by its own log. The hosts have one clock, and etcd
/// writes all times in one form, so that they can be compared as text.
fn down_between(host: &Host, since: &str) -> (String, String) {
    let journal = host
        .journalctl(&["-u", "etcd", "--since", since, "-o", "cat"])
        .unwrap();
    let lines: Vec<serde_json::Value> = journal
        .lines()
        .filter_map(|line| serde_json::from_str(line).ok())
        .collect();
    let time = |message: &str, after: &str| -> String {
        let said = |line: &&serde_json::Value| {
            let text = line["msg"].as_str().unwrap_or_default();
            text.contains(message) && line["ts"].as_str() > Some(after)
        };
        let found = lines.iter().find(said).and_then(|line| line["ts"].as_str());
        let found = found.unwrap_or_else(|| panic!("no {message:?} on {}:\n{journal}", host.name()));
        found.to_owned()
    };
    let stopped = time("received signal; shutting down", "");
    let served = time("ready to serve client requests", &stopped);
    (stopped, served)
}

/// Each is refused with what was found and what to do, and no etcd is restarted.
fn refused_orders_change_nothing(lab: &Lab, n1: &Host) {
    let before = etcd_pids(lab.hosts());
    for (version, code, expected) in [
        ("3.6", 2, "expected a version of etcd"),
        ("3.5.1", 4, "which is newer than 3.5.1"),
        ("3.6.99", 4, "n1 has no etcd 3.6.99: unpack the release there"),
        ("4.0.0", 4, "n1 has no etcd 4.0.0"),
    ] {
        let refused = agent(n1, &["upgrade", "--to", version]);
        assert_eq!(refused.code, code, "{version}: {}", refused.stderr);
        assert!(refused.stderr.contains(expected), "{version}: {}", refused.stderr);
    }
    // One node lacks it.
    let n2 = lab.host(2).unwrap();
    n2.sh("mv /opt/etcd-v3.5.35 /opt/away").unwrap().ok().unwrap();
    let lacks = agent(n1, &["upgrade", "--to", "3.5.35"]);
    assert!(
        lacks.code == 4 && lacks.stderr.contains("n2 has no etcd 3.5.35"),
        "{lacks:?}"
    );
    n2.sh("mv /opt/away /opt/etcd-v3.5.35").unwrap().ok().unwrap();
    let dry = agent(n1, &["upgrade", "--to", "3.7.3", "--dry-run"])
        .ok()
        .unwrap();
    assert!(
        dry.stderr.contains("3.5.35, then 3.6.16, then 3.7.3"),
        "{}",
        dry.stderr
    );
    let none = agent(n1, &["upgrade", "--cancel"]);
    assert!(
        none.code == 4 && none.stderr.contains("no upgrade was ordered"),
        "{}",
        none.stderr
    );
    assert_eq!(etcd_pids(lab.hosts()), before, "nothing was restarted");
}

fn a_pause_after_one_node_and_the_way_back(lab: &Lab, n1: &Host) {
    upgrade(n1, &["--to", "3.6.16", "--pause-after", "n2"]);
    let expected = [("n1", "3.5.35"), ("n2", "3.6.16"), ("n3", "3.5.35")];
    let expected = expected.map(|(node, version)| (node.to_owned(), version.to_owned()));
    wait_until("only n2 to be upgraded", SOON, || {
        Ok(versions(lab)? == BTreeMap::from(expected.clone()))
    })
    .unwrap();
    let shown = agent(n1, &["status"]).stdout;
    assert!(shown.contains("upgrade-paused"), "{shown}");
    upgrade(n1, &["--cancel"]);
    all_run(lab, "3.5.35");
    lab.wait_healthy(3, SOON).unwrap();
}
