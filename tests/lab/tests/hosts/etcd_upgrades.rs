//! Upgrades of etcd on real hosts: from Debian 12's 3.4.23 through 3.5.16, 3.5.35 and 3.6.16 to 3.7.3, and
//! back to 3.5.35, under writes.

use std::collections::BTreeMap;

use crate::common::{
    SOON, STEADY, agent, all_run, all_written, assert_value, backup_now, backups, deb, etcd_pids, etcdctl_v2,
    order_until_done, others, put, status, verify, versions, wait_reason,
};
use crate::down_times::{now, one_at_a_time};
use crate::killer::{Killers, cursor, wait_decision};
use crate::moves::with_users_no_move_begins;
use crate::version_table::VersionTable;
use etcd_agent_lab::{Host, Lab, Suite, wait_until};

/// Waits until the data of all members has this format, and no downgrade is prepared.
pub(crate) fn wait_converted(lab: &Lab, format: &str) {
    wait_until(&format!("data of the format {format}"), SOON, || {
        let converted = |host: &Host| {
            let etcd = &status(host)?["node"]["etcd"]["value"];
            Ok::<_, anyhow::Error>(etcd["downgrade_to"].is_null() && etcd["storage_version"] == format)
        };
        let all: anyhow::Result<Vec<bool>> = lab.hosts().iter().map(converted).collect();
        Ok(all?.into_iter().all(|converted| converted))
    })
    .unwrap();
}

fn upgrade(host: &Host, args: &[&str]) {
    let args = [&["upgrade", "--timeout", "150s"], args].concat();
    agent(host, &args).ok().unwrap();
}

#[test]
fn s09_etcd_is_upgraded_minor_by_minor_under_load_and_goes_back_while_it_can() {
    let lab = Lab::builder("upgrade").hosts(3).suite(Suite::Bookworm);
    let lab = lab
        .etcd_of_debian()
        .debian_etcds()
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
    all_run(&lab, "3.4.23");
    let mut table = VersionTable::default();
    table.ask(&lab, "3.4.23");
    let load = lab.start_load("u").unwrap();
    load.wait_for(100, SOON).unwrap();
    let backup = a_backup_of_3_4(&lab, n1);
    from_3_4_there_is_no_way_back(&lab, n1);
    table.moved("3.4.23", "3.5.16");
    table.ask(&lab, "3.5.16");
    refused_orders_change_nothing(&lab, n1);
    upgrade(n1, &["--to", "3.5.35"]);
    all_run(&lab, "3.5.35");
    table.moved("3.5.16", "3.5.35");
    table.ask(&lab, "3.5.35");
    a_pause_after_one_node_and_the_way_back(&lab, n1);

    // Each agent is killed meanwhile, and etcd's upgrade goes on. A pause holds it back until the killers run.
    let stored = backups(&lab).len();
    let since = now(&lab);
    agent(n1, &["pause"]).ok().unwrap();
    std::thread::scope(|scope| {
        let order = ["etcd-agent", "upgrade", "--to", "3.6.16", "--timeout", "280s"];
        let upgrading = scope.spawn(move || n1.exec_for(2 * SOON, &order).unwrap().ok().unwrap());
        // The backup that is taken first ends with its agent, and so does the command.
        wait_until("the order to be taken", SOON, || {
            let status = status(n1)?;
            Ok(status["node"]["steering"]["directives"]["etcd"]["version"] == "3.6.16")
        })
        .unwrap();
        let killers = Killers::on(&lab, "killer-of-the-first-upgrade");
        order_until_done(n1, &["resume"]);
        let said = upgrading.join().unwrap();
        assert!(
            said.stdout.contains("etcd 3.6.16 runs on every member"),
            "{}",
            said.stdout
        );
        assert!(said.stderr.contains("the way back"), "{}", said.stderr);
        killers.all_at(&["assign", "apply", "move-leader", "restart-etcd"]);
    });
    one_at_a_time(&lab, &since);
    lab.wait_healthy(3, SOON).unwrap();
    all_run(&lab, "3.6.16");
    table.moved("3.5.35", "3.6.16");
    assert!(backups(&lab).len() > stored, "a backup was taken first");
    for host in lab.hosts() {
        let binary = host
            .sh("readlink /proc/$(systemctl show -P MainPID etcd)/exe")
            .unwrap();
        assert_eq!(binary.ok().unwrap().text(), "/opt/etcd-v3.6.16/etcd");
    }
    load.wait_for(100, SOON).unwrap();
    let written = load.stop().unwrap();
    all_written(&lab, &written);

    let again = agent(n1, &["upgrade", "--to", "3.6.16", "-o", "json"])
        .ok()
        .unwrap();
    let again: serde_json::Value = serde_json::from_str(&again.stdout).unwrap();
    assert_eq!(again["changed"], false);
    let late = agent(n1, &["upgrade", "--cancel"]);
    assert_eq!(late.code, 4, "{}", late.stderr);
    assert!(late.stderr.contains("the upgrade is complete"), "{}", late.stderr);

    // A reboot keeps the version, and so does a member that is replaced.
    // The log of n2 still has entries of 3.5, which the step to 3.7 needs below.
    let leader = lab.raft_leader().unwrap().name();
    let mut others = lab.hosts().iter().filter(|host| host.name() != "n2");
    let host = others.find(|host| host.name() != leader).unwrap();
    host.reboot().unwrap();
    lab.wait_healthy(3, SOON).unwrap();
    all_run(&lab, "3.6.16");
    a_wiped_member_is_replaced(&lab, host, "3.6.16");
    to_3_7_once_no_log_has_entries_of_3_5(&lab, n1, &mut table);
    written.verify_all(&lab).unwrap();
    table.check();

    agent(n1, &["restore", &backup, "--yes"]).ok().unwrap();
    lab.wait_healthy(3, SOON).unwrap();
    assert_value(&lab, n1, "written", "with 3.4");
    all_run(&lab, "3.5.35");
    crate::auth::turn_on(&lab);
    with_users_no_move_begins(&lab, n1, "3.5.35", "3.6.16");
    lab.etcdctl(&[n1], &["auth", "disable"]).unwrap().ok().unwrap();
    etcd_3_6_is_not_started_on_keys_of_the_v2_api(&lab, n1);
    lab.passed();
}

/// It would panic on them, and on the requests of their clients in the log.
fn etcd_3_6_is_not_started_on_keys_of_the_v2_api(lab: &Lab, n1: &Host) {
    for (args, expected) in [
        ("set /app/one 1", "etcd's v2 API holds the key \"/app/one\""),
        ("rm /app/one", "the log of etcd holds requests to its v2 API"),
    ] {
        etcdctl_v2(lab, n1, args).ok().unwrap();
        let refused = agent(n1, &["upgrade", "--to", "3.6.16", "--yes"]);
        assert_eq!(refused.code, 4, "{args}: {}", refused.stderr);
        assert!(refused.stderr.contains(expected), "{args}: {}", refused.stderr);
    }
    let moved = agent(n1, &["move", "--to", "3.6.16", "--dry-run"]).ok().unwrap();
    assert!(
        moved.stdout.contains("from etcd 3.5.35 to 3.6.16"),
        "{}",
        moved.stdout
    );
    a_node_does_not_start_it_on_its_own_log(lab, n1);
}

/// n1 has written a snapshot of raft since the last request of a v2 client, so its disk does not object to the order.
/// The log of n2 still holds that request.
fn a_node_does_not_start_it_on_its_own_log(lab: &Lab, n1: &Host) {
    let before = etcd_pids(lab.hosts());
    lab.configure(|host, config| {
        config.extra = snapshots_after(if host.name() == "n1" { 10 } else { 1_000_000 });
    })
    .unwrap();
    lab.each(|host| host.sh("systemctl reload etcd-agent")?.ok().map(drop))
        .unwrap();
    wait_until("the restarts to end", 2 * SOON, || {
        Ok(etcd_pids(lab.hosts())
            .iter()
            .all(|(node, pid)| *pid != 0 && before.get(node) != Some(pid)))
    })
    .unwrap();
    lab.wait_healthy(3, SOON).unwrap();
    for args in ["set /app/two 2", "rm /app/two"] {
        etcdctl_v2(lab, n1, args).ok().unwrap();
    }
    let order = ["upgrade", "--to", "3.6.16", "--pause-after", "n2"];
    wait_until("n1 to write a snapshot of raft", 2 * SOON, || {
        for _ in 0..12 {
            put(lab, "written", "with 3.5");
        }
        Ok(agent(n1, &[&order[..], &["--dry-run"]].concat()).code == 0)
    })
    .unwrap();
    let pids = etcd_pids(lab.hosts());
    let waits = agent(
        n1,
        &[&order[..], &["--no-backup", "--yes", "--timeout", "15s"]].concat(),
    );
    assert_ne!(waits.code, 0, "{}", waits.stdout);
    let why = wait_reason(lab.host(2).unwrap(), "upgrade-refused");
    assert!(
        why.contains("the log of etcd holds requests to its v2 API"),
        "{why}"
    );
    upgrade(n1, &["--cancel"]);
    assert_eq!(etcd_pids(lab.hosts()), pids, "nothing was restarted");
    all_run(lab, "3.5.35");
}

/// Returns its name. A verification restores it with 3.4.
fn a_backup_of_3_4(lab: &Lab, n1: &Host) -> String {
    put(lab, "written", "with 3.4");
    backup_now(n1);
    let newest = backups(lab).pop().unwrap();
    let backup = newest.rsplit('/').next().unwrap().to_owned();
    let verified = verify(n1, &[&backup]).ok().unwrap();
    assert!(
        verified.stderr.contains("etcd 3.4.23 serves it"),
        "{}",
        verified.stderr
    );
    backup
}

/// It comes back as a learner with the version that the others run, and is promoted.
fn a_wiped_member_is_replaced(lab: &Lab, host: &Host, version: &str) {
    let before = member_id(host).unwrap();
    host.sh("systemctl kill -s KILL etcd; rm -rf /var/lib/etcd/default")
        .unwrap();
    let replaced = || {
        let etcd = &status(host)?["node"]["etcd"]["value"];
        Ok(etcd["is_learner"] == false
            && member_id(host)? != before
            && versions(lab)?[host.name()] == version)
    };
    wait_until("the member to be replaced", 2 * SOON, replaced).unwrap();
    lab.wait_healthy(3, SOON).unwrap();
}

fn member_id(host: &Host) -> anyhow::Result<String> {
    Ok(status(host)?["node"]["etcd"]["value"]["member_id"].to_string())
}

/// 3.5 does not report whether 3.4 still opens its data, so a member stays at 3.5 when the upgrade is
/// cancelled, and the same order goes on with the others.
fn from_3_4_there_is_no_way_back(lab: &Lab, n1: &Host) {
    wait_reason(n1, "etcd-too-old");
    let none = agent(n1, &["upgrade", "--cancel"]);
    assert!(
        none.code == 4 && none.stderr.contains("no upgrade was ordered"),
        "{}",
        none.stderr
    );
    // Not the leader, since an election takes long with these settings.
    let wiped = *others(lab, lab.raft_leader().unwrap()).last().unwrap();
    a_wiped_member_is_replaced(lab, wiped, "3.4.23");
    let order = [
        "upgrade",
        "--to",
        "3.5.16",
        "--pause-after",
        "n2",
        "--timeout",
        "150s",
    ];
    let said = agent(n1, &order).ok().unwrap().stderr;
    assert!(said.contains("does not return to 3.4.23"), "{said}");
    let cancel = agent(n1, &["upgrade", "--cancel", "--timeout", "5s"]);
    assert_ne!(cancel.code, 0, "{}", cancel.stdout);
    let why = wait_reason(lab.host(2).unwrap(), "upgrade-refused");
    assert!(why.contains("etcd here stays at 3.5.16"), "{why}");
    // etcd 3.4.23 panics on what 3.5 asks its members for users. Each node takes a backup, also of n2's member.
    let pids = etcd_pids(lab.hosts());
    for host in lab.hosts() {
        backup_now(host);
    }
    assert_eq!(etcd_pids(lab.hosts()), pids, "an etcd ended");
    upgrade(n1, &["--to", "3.5.16"]);
    all_run(lab, "3.5.16");
    lab.wait_healthy(3, SOON).unwrap();
}

/// Settings with which etcd writes a snapshot of raft after as many changes, and serves the v2 API if it has one. The
/// leader changes only when the agents move it.
fn snapshots_after(changes: u32) -> String {
    format!("{STEADY}snapshot-count = \"{changes}\"\nenable-v2 = \"true\"\n")
}

/// etcd 3.7 would panic on them. They are gone after a snapshot of raft.
fn to_3_7_once_no_log_has_entries_of_3_5(lab: &Lab, n1: &Host, table: &mut VersionTable) {
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
    table.ask(lab, "3.6.16");
    let load = lab.start_load("v").unwrap();
    load.wait_for(100, SOON).unwrap();
    // Each agent dies at each step, and the host of a follower that is not n1 loses its power in the midst of its own.
    let since = now(lab);
    let dies = *others(lab, lab.raft_leader().unwrap()).last().unwrap();
    let cursor = cursor(dies);
    let killers = Killers::on(lab, "killer-of-the-upgrade");
    std::thread::scope(|scope| {
        let order = ["upgrade", "--to", "3.7.3", "--timeout", "150s"];
        let upgrading = scope.spawn(move || order_until_done(n1, &order));
        wait_decision(dies, &cursor, "restart-etcd");
        dies.kill().unwrap();
        dies.boot().unwrap();
        upgrading.join().unwrap();
    });
    killers.all_at(&[
        "take-directives",
        "assign",
        "apply",
        "move-leader",
        "restart-etcd",
    ]);
    one_at_a_time(lab, &since);
    all_run(lab, "3.7.3");
    lab.wait_healthy(3, SOON).unwrap();
    table.moved("3.6.16", "3.7.3");
    table.ask(lab, "3.7.3");
    s10_etcd_is_downgraded_minor_by_minor(lab, n1);
    table.moved("3.7.3", "3.5.35");
    table.moved("3.7.3", "3.6.16");
    table.moved("3.6.16", "3.5.35");
    load.wait_for(100, SOON).unwrap();
    all_written(lab, &load.stop().unwrap());
}

/// Back to 3.5 by etcd's own downgrade, under the writes of `load`. One that is cancelled returns first.
fn s10_etcd_is_downgraded_minor_by_minor(lab: &Lab, n1: &Host) {
    let refused = agent(n1, &["downgrade", "--to", "3.5.30"]);
    assert!(
        refused.code == 4 && refused.stderr.contains("n1 has no etcd 3.5.30"),
        "{}",
        refused.stderr
    );
    // A pause holds the order back until only one follower still has the version. So the others do not follow before
    // the order is cancelled.
    let goes = *others(lab, lab.raft_leader().unwrap()).first().unwrap();
    let stay = others(lab, goes);
    agent(n1, &["pause"]).ok().unwrap();
    std::thread::scope(|scope| {
        let command = || {
            agent(
                n1,
                &["downgrade", "--to", "3.6.16", "--no-backup", "--timeout", "150s"],
            )
        };
        let downgrading = scope.spawn(command);
        wait_until("the order to be taken", SOON, || {
            let status = status(n1)?;
            Ok(status["node"]["steering"]["directives"]["etcd"]["version"] == "3.6.16")
        })
        .unwrap();
        for host in &stay {
            let away = "mv /opt/etcd-v3.6.16/etcd /opt/etcd-v3.6.16/away";
            host.sh(away).unwrap().ok().unwrap();
            let why = wait_reason(host, "upgrade-refused");
            assert!(why.contains("has no etcd 3.6.16"), "{why}");
        }
        agent(n1, &["resume"]).ok().unwrap();
        wait_until("one member to be downgraded", 2 * SOON, || {
            Ok(versions(lab)?[goes.name()] == "3.6.16")
        })
        .unwrap();
        agent(n1, &["downgrade", "--cancel", "--timeout", "150s"])
            .ok()
            .unwrap();
        assert_ne!(downgrading.join().unwrap().code, 0, "it was cancelled");
    });
    for host in stay {
        let back = "mv /opt/etcd-v3.6.16/away /opt/etcd-v3.6.16/etcd";
        host.sh(back).unwrap().ok().unwrap();
    }
    all_run(lab, "3.7.3");
    lab.wait_healthy(3, SOON).unwrap();
    wait_converted(lab, "3.7.0");
    a_downgrade_ends_although_agents_and_a_host_die(lab, n1);
    for host in lab.hosts() {
        let shown = status(host).unwrap();
        assert_eq!(
            shown["node"]["etcd"]["value"]["downgrade_to"],
            serde_json::Value::Null
        );
    }
}

/// From 3.7.3 through 3.6.16 to 3.5.35 by one order. Each agent dies at each step, and a host loses its power once a member
/// runs 3.6.16.
fn a_downgrade_ends_although_agents_and_a_host_die(lab: &Lab, n1: &Host) {
    let order = ["downgrade", "--to", "3.5.35", "--timeout", "150s"];
    let since = now(lab);
    let killers = Killers::on(lab, "killer-of-the-downgrade");
    std::thread::scope(|scope| {
        let downgrading = scope.spawn(|| order_until_done(n1, &order));
        wait_until("one member to be downgraded", 2 * SOON, || {
            Ok(versions(lab)?.values().any(|version| version == "3.6.16"))
        })
        .unwrap();
        // Not the leader's: the member that is elected then may have been downgraded, and no leader has to be moved.
        let dies = *others(lab, lab.raft_leader().unwrap()).last().unwrap();
        dies.kill().unwrap();
        dies.boot().unwrap();
        downgrading.join().unwrap();
    });
    killers.all_at(&["downgrade", "assign", "apply", "move-leader", "restart-etcd"]);
    let times = one_at_a_time(lab, &since);
    // Once for each minor. The host that lost its power may have missed a signal.
    assert!(times.values().sum::<usize>() >= 5, "{times:?}");
    all_run(lab, "3.5.35");
    lab.wait_healthy(3, SOON).unwrap();
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
