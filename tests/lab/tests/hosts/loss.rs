//! Data is lost, and comes back from the other members or from a backup: S08, S15, S17, S18.

use std::time::Duration;

use crate::common::{
    DATA, SOON, agent, assert_value, backup_now, backups, etcd_pid, etcd_pids, follower, formed, holds_for,
    kill_etcd, member_ids, others, put, reason_now, status, stop_and_wipe_all, verify_now, wait_reason,
    wait_status, wait_stored, wipe_all,
};
use crate::situations::{HOLD, hold_restores};
use crate::status_page::StatusPage;
use etcd_agent_lab::{Host, Lab, Load, wait_for, wait_until};

#[test]
fn s15_wiped_follower_heals() {
    let lab = formed("s15", 3);
    let victim = follower(&lab);
    let others = others(&lab, victim);
    let pids = etcd_pids(others.iter().copied());
    let (cluster, before) = member_ids(&lab, victim).unwrap();
    let load = lab.start_load("k").unwrap();
    load.wait_for(100, SOON).unwrap();

    victim.wipe(DATA).unwrap();
    kill_etcd(victim);
    let healed = wait_until("the member to be replaced", SOON, || {
        let (_, now) = member_ids(&lab, others.first().unwrap())?;
        Ok(now.len() == 3
            && now
                .get(victim.name())
                .is_some_and(|id| Some(id) != before.get(victim.name())))
    })
    .unwrap();
    let voting = lab.wait_healthy(3, SOON).unwrap();
    eprintln!("listed again after {healed:?}, voting {voting:?} later");
    load.wait_for(100, SOON).unwrap();
    let written = load.stop().unwrap();
    written.verify_all(&lab).unwrap();

    let (same, after) = member_ids(&lab, victim).unwrap();
    assert_eq!(same, cluster, "the same cluster");
    for host in &others {
        assert_eq!(
            after.get(host.name()),
            before.get(host.name()),
            "{} is the same member",
            host.name()
        );
    }
    assert_eq!(etcd_pids(others), pids, "the others were not restarted");
    wait_status(victim, 0);
    lab.passed();
}

/// The other order: systemd starts etcd again while the directory is being removed, at varying times. In
/// every case nothing is lost, and the member is replaced or continues.
#[test]
fn s15_torn_follower_loses_nothing() {
    let lab = formed("s15-torn", 3);
    let victim = follower(&lab);
    let others = others(&lab, victim);
    let pids = etcd_pids(others.iter().copied());
    let load = lab.start_load("k").unwrap();
    load.wait_for(100, SOON).unwrap();

    for pause in ["0", "0.1", "0.13", "0.16", "0.2", "0.3"] {
        let pid = etcd_pid(victim);
        let tear = format!("kill -KILL {pid} || true\nsleep {pause}\nrm -rf {DATA} || rm -rf {DATA} || true");
        victim.sh(&tear).unwrap().ok().unwrap();
        let healed = lab.wait_healthy(3, SOON).unwrap();
        let there = victim
            .disk()
            .join(DATA.trim_start_matches('/'))
            .join("member/wal")
            .exists();
        eprintln!("torn after {pause} s: healthy after {healed:?}, data there: {there}");
        if !there {
            // etcd had opened its files before they were removed: it fails only at its next start.
            kill_etcd(victim);
            let healed = lab.wait_healthy(3, SOON).unwrap();
            eprintln!("killed once more: healthy after {healed:?}");
        }
        load.wait_for(50, SOON).unwrap();
    }
    let written = load.stop().unwrap();
    written.verify_all(&lab).unwrap();
    assert_eq!(etcd_pids(others), pids, "the others were not restarted");
    lab.passed();
}

/// If etcd is allowed to start on an emptied directory, it creates an empty log with the right IDs. That also
/// counts as no data.
#[test]
fn s15_a_log_that_remembers_nothing_is_replaced() {
    let lab = formed("s15-empty", 3);
    let victim = follower(&lab);
    let others = others(&lab, victim);
    let (_, before) = member_ids(&lab, victim).unwrap();
    let load = lab.start_load("k").unwrap();
    load.wait_for(100, SOON).unwrap();
    victim
        .write_file("/run/etcd-agent/gate-override", "", "0644", "root:root")
        .unwrap();
    // The agent would cancel the start.
    victim.systemctl(&["stop", "etcd-agent"]).unwrap();
    victim.wipe(DATA).unwrap();
    kill_etcd(victim);
    let wal = victim
        .disk()
        .join(DATA.trim_start_matches('/'))
        .join("member/wal");
    wait_until("etcd to make a log of its own", SOON, || Ok(wal.exists())).unwrap();
    victim.systemctl(&["start", "etcd-agent"]).unwrap();
    wait_until("the member to be replaced", SOON, || {
        let (_, now) = member_ids(&lab, others.first().unwrap())?;
        let id = now.get(victim.name());
        Ok(now.len() == 3 && id.is_some() && id != before.get(victim.name()))
    })
    .unwrap();
    lab.wait_healthy(3, SOON).unwrap();
    load.stop().unwrap().verify_all(&lab).unwrap();
    let said = victim.journal("etcd-agent").unwrap();
    assert!(said.contains("remembers nothing"), "{said}");
    lab.passed();
}

/// The agent has seen the data, and the data is removed before systemd starts the crashed etcd again: the
/// gate holds the start back, and its request makes the agent inspect the data again.
#[test]
fn s15_data_lost_between_the_agents_look_and_the_gates() {
    let lab = formed("s15-between", 3);
    let victim = follower(&lab);
    let others = others(&lab, victim);
    let (_, before) = member_ids(&lab, victim).unwrap();
    let load = lab.start_load("k").unwrap();
    load.wait_for(100, SOON).unwrap();
    let slow = "/etc/systemd/system/etcd.service.d/50-slow.conf";
    victim
        .write_file(slow, "[Service]\nRestartSec=120\n", "0644", "root:root")
        .unwrap();
    victim.systemctl(&["daemon-reload"]).unwrap();
    kill_etcd(victim);
    wait_until("the agent to have looked", SOON, || {
        Ok(status(victim)?["node"]["data"]["value"]["state"] == "present"
            && status(victim)?["node"]["unit"]["value"]["sub"] == "auto-restart")
    })
    .unwrap();
    victim.wipe(DATA).unwrap();
    // The start that systemd makes after the pause, without waiting for the pause.
    victim
        .systemctl(&["start", "--no-block", "etcd"])
        .unwrap()
        .ok()
        .unwrap();
    wait_until("the member to be replaced", SOON, || {
        let (_, now) = member_ids(&lab, others.first().unwrap())?;
        let id = now.get(victim.name());
        Ok(now.len() == 3 && id.is_some() && id != before.get(victim.name()))
    })
    .unwrap();
    lab.wait_healthy(3, SOON).unwrap();
    load.stop().unwrap().verify_all(&lab).unwrap();
    lab.passed();
}

#[test]
fn s08_s17_all_wiped_refuses_alone_and_restores_all_on_command() {
    let lab = formed("s17", 3);
    let n1 = lab.host(1).unwrap();
    for number in 0..20 {
        put(&lab, &format!("key{number}"), &format!("value{number}"));
    }
    backup_now(n1);
    put(&lab, "last", "before the loss");
    wait_stored(&lab, n1);
    let (cluster, _) = member_ids(&lab, n1).unwrap();
    let mut page = page_while_it_serves(&lab, n1);

    // With two of three lost, the agent of the remaining member reports that. It still does when it has only
    // its memory: an etcd that is started without quorum does not answer.
    for host in others(&lab, n1) {
        host.kill().unwrap();
        host.wipe(DATA).unwrap();
    }
    lab.each(|host| {
        if host.name() == n1.name() {
            Ok(())
        } else {
            host.boot().map(drop)
        }
    })
    .unwrap();
    let text = wait_reason(n1, "quorum-lost");
    assert!(
        text.contains("n2 and n3") && text.contains("restore latest"),
        "{text}"
    );
    kill_etcd(n1);
    n1.systemctl(&["restart", "etcd-agent"]).unwrap().ok().unwrap();
    wait_until(
        "etcd to wait for quorum, and the agent to report its loss",
        SOON,
        || Ok(reason_now(n1, "starting")?.is_some() && reason_now(n1, "quorum-lost")?.is_some()),
    )
    .unwrap();

    wipe_all(&lab);
    for host in lab.hosts() {
        let text = wait_reason(host, "all-data-lost");
        assert!(text.contains("restore latest"), "{text}");
    }
    // The cluster does not serve.
    wait_status(n1, 7);
    page.wait("Down (halted", "prod");
    page.shows(&[
        "all-data-lost",
        "etcd-agent restore latest",
        "every member attests",
    ]);
    page.is_readable("halted");
    holds_for("no member continues alone", Duration::from_secs(5), || {
        lab.hosts().iter().all(|host| {
            let state = host.unit_property("etcd", "ActiveState").unwrap();
            ["inactive", "failed"].contains(&state.as_str())
                && !host
                    .disk()
                    .join(DATA.trim_start_matches('/'))
                    .join("member")
                    .exists()
        })
    });

    // The page is looked at before any member serves, however fast the restore is.
    lab.each(hold_restores).unwrap();
    let restored = std::thread::scope(|scope| {
        let order = ["etcd-agent", "restore", "latest", "--yes"];
        let restore = scope.spawn(move || n1.exec_for(2 * SOON, &order).unwrap());
        page.wait("Down (", "restoring");
        page.shows(&["A backup is being restored, as ordered on n1"]);
        page.is_readable("restoring");
        lab.each(|host| host.wipe(HOLD)).unwrap();
        restore.join().unwrap().ok().unwrap()
    });
    lab.wait_healthy(3, SOON).unwrap();
    for number in 0..20 {
        assert_value(&lab, n1, &format!("key{number}"), &format!("value{number}"));
    }
    assert_value(&lab, n1, "last", "before the loss");
    let (other, _) = member_ids(&lab, n1).unwrap();
    assert_ne!(other, cluster, "another incarnation has another cluster ID");
    for host in lab.hosts() {
        wait_status(host, 0);
        let status = status(host).unwrap();
        assert_eq!(status["node"]["assignment"]["epoch"], 2, "{}", restored.stdout);
    }
    assert!(
        lab.s3()
            .keys()
            .unwrap()
            .contains(&"lab/prod/control/epochs/2".to_owned())
    );
    put(&lab, "after", "the restore");
    assert_value(&lab, lab.host(3).unwrap(), "after", "the restore");
    page.wait("Healthy:", "prod");
    lab.passed();
}

/// The status page of a cluster that serves: healthy, and then degraded by a configuration that is refused,
/// with markup in it.
fn page_while_it_serves(lab: &Lab, host: &Host) -> StatusPage {
    const BAD: &str = "/etc/etcd-agent/config.d/60-bad.toml";
    verify_now(host);
    let mut page = StatusPage::of(lab, host);
    page.wait("Healthy:", "prod");
    page.shows(&[
        "n1 (here)",
        "leader",
        "verified and good",
        "a person asked to verify",
    ]);
    page.is_readable("healthy");

    let markup = "<script>alert(1)</script>";
    let bad = format!("\"{markup}\" = 1\n");
    host.write_file(BAD, bad, "0644", "root:root").unwrap();
    let refused = host.systemctl(&["reload", "etcd-agent"]).unwrap();
    assert_ne!(refused.code, 0, "{}", refused.stdout);
    page.wait("Degraded:", "prod");
    page.shows(&["the new configuration was refused", markup]);
    page.is_readable("degraded");
    host.sh(&format!("rm {BAD} && systemctl reload etcd-agent"))
        .unwrap()
        .ok()
        .unwrap();
    page
}

/// Every write that etcd accepted before it was stopped is in the store: losing the data loses nothing.
#[test]
fn s18_stopped_cleanly_and_wiped_nothing_acknowledged_is_lost() {
    let lab = formed("s18", 3);
    let n1 = lab.host(1).unwrap();
    wait_until("the first backup", SOON, || Ok(!backups(&lab).is_empty())).unwrap();
    backup_now(n1);
    put(&lab, "first", "x");
    // Some agent stores changes.
    wait_stored(&lab, n1);
    let full = backups(&lab);
    let load = lab.start_load("k").unwrap();
    load.wait_for(500, SOON).unwrap();
    let written = load.stop().unwrap();
    stop_and_wipe_all(&lab);
    assert_eq!(
        backups(&lab),
        full,
        "what is restored is the full and its increments"
    );
    agent(n1, &["restore", "latest", "--yes"]).ok().unwrap();
    lab.wait_healthy(3, SOON).unwrap();
    written.verify_all(&lab).unwrap();
    assert_value(&lab, lab.host(2).unwrap(), "first", "x");
    lab.passed();
}

/// The same while clients write, with the members stopped one after the other: the second one leads for
/// moments only, and its agent has just begun to store. There are more writes than a watch delivers one by
/// one.
#[test]
fn s18_stopped_in_the_midst_of_writes_nothing_acknowledged_before_is_lost() {
    let lab = formed("s18-busy", 3);
    let n1 = lab.host(1).unwrap();
    backup_now(n1);
    let loads: Vec<_> = (0..6)
        .map(|writer| lab.start_load(&format!("k{writer}/")).unwrap())
        .collect();
    for load in &loads {
        load.wait_for(300, SOON).unwrap();
    }
    // The stop waits 3 s for the agent, which may take longer on a busy machine. Then the members are started and
    // stopped again.
    let stopped = (0..5).find_map(|_| stopped_one_after_the_other(&lab, &loads));
    let acknowledged = stopped.expect("a stop with time for its agent");
    let written: Vec<_> = loads.into_iter().map(|load| load.stop().unwrap()).collect();
    stop_and_wipe_all(&lab);
    agent(n1, &["restore", "latest", "--yes"]).ok().unwrap();
    lab.wait_healthy(3, SOON).unwrap();
    for (written, before) in written.iter().zip(acknowledged) {
        let missing = written.missing(&lab).unwrap();
        eprintln!(
            "{} of {} are lost, {before} were there before the stop",
            missing.len(),
            written.acknowledged
        );
        let lost = missing.first().copied().unwrap_or(u64::MAX);
        assert!(lost > before, "{lost} was acknowledged before the stop");
    }
    lab.passed();
}

/// Stops the leader, and then the member that leads next. Returns how many writes of each load were acknowledged
/// before the second stop. `None` if not all of them were stored in its time: then all members are started again.
fn stopped_one_after_the_other(lab: &Lab, loads: &[Load]) -> Option<Vec<u64>> {
    let systemctl = |host: &Host, verb| host.systemctl(&[verb, "etcd"])?.ok().map(drop);
    systemctl(lab.raft_leader().unwrap(), "stop").unwrap();
    for load in loads {
        load.wait_for(20, SOON).unwrap();
    }
    // Its agent may take longer than the stop waits to begin.
    let second = wait_for("the second to begin to store", SOON, || {
        let leader = lab.raft_leader()?;
        Ok((!status(leader)?["backups"]["chain"].is_null()).then_some(leader))
    })
    .unwrap();
    let acknowledged = loads.iter().map(Load::acknowledged).collect();
    // Without a second voter no further write is acknowledged.
    systemctl(second, "stop").unwrap();
    second.exec(&["journalctl", "--sync"]).unwrap().ok().unwrap();
    let said = second.journal("etcd").unwrap();
    let last = said.lines().rfind(|line| line.contains("etcd stops"));
    if last.is_some_and(|line| line.contains("etcd stops: everything up to revision")) {
        return Some(acknowledged);
    }
    eprintln!("{}: {last:?}", second.name());
    lab.each(|host| systemctl(host, "start")).unwrap();
    lab.wait_healthy(3, SOON).unwrap();
    None
}
