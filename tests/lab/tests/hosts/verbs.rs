//! An operator's orders on real hosts: pause and resume, a rolling restart under load, moving the leader,
//! removing a member and adding it again, events, backups on demand, and a spec that the configuration holds.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::common::{
    DATA, SOON, STEADY, agent, all_written, assert_value, backup_now, deb, etcd_pid, etcd_pids, follower,
    formed, holds_for, increment_now, listed, member_ids, others, put, revision, status, wait_status,
};
use crate::reboots::hosts_reboot_one_at_a_time;
use crate::stops::{
    a_node_may_be_stopped_only_while_the_others_are_whole, an_operators_stop_lasts,
    the_leader_moves_before_its_host_shuts_down,
};
use etcd_agent_lab::{Host, Lab, wait_until};

/// Removes the data of one member and kills its etcd.
fn lose_data(host: &Host) {
    let pid = etcd_pid(host);
    host.sh(&format!("rm -rf {DATA}; kill -KILL {pid}"))
        .unwrap()
        .ok()
        .unwrap();
}

/// Whether the members are as wanted, if they can be read now. A read that fails on a busy machine proves
/// nothing.
fn members_are(lab: &Lab, host: &Host, wanted: impl Fn(&BTreeMap<String, u64>) -> bool) -> bool {
    member_ids(lab, host)
        .ok()
        .is_none_or(|(_, members)| wanted(&members))
}

/// Waits until a host's agent reports a pause, in its status and to systemd.
fn wait_paused(host: &Host) {
    wait_until(&format!("{} to be paused", host.name()), SOON, || {
        let status = status(host)?;
        let line = host.systemctl(&["show", "-P", "StatusText", "etcd-agent"])?;
        let ordered = status["node"]["steering"]["directives"]["paused"].is_object();
        Ok(ordered && line.stdout.contains("PAUSED"))
    })
    .unwrap();
}

#[test]
fn a_pause_holds_a_repair_back_and_resume_lets_it_go_on() {
    let lab = formed("pause", 3);
    let n1 = lab.host(1).unwrap();
    let said = agent(n1, &["pause", "--wait", "--timeout", "90s"]).ok().unwrap();
    assert_eq!(said.text(), "paused");
    for host in lab.hosts() {
        wait_paused(host);
    }
    let again = agent(n1, &["pause"]).ok().unwrap();
    assert_eq!(again.text(), "paused already");

    let victim = follower(&lab);
    let before = member_ids(&lab, others(&lab, victim)[0]).unwrap().1;
    lose_data(victim);
    wait_status(n1, 6);
    // Longer than a repair takes without a pause.
    holds_for("the members stay as they are", Duration::from_secs(10), || {
        members_are(&lab, others(&lab, victim)[0], |members| *members == before)
    });
    // A restarted agent still knows of the pause.
    n1.systemctl(&["restart", "etcd-agent"]).unwrap().ok().unwrap();
    wait_paused(n1);

    // A dry run changes nothing.
    let dry = agent(n1, &["resume", "--dry-run"]).ok().unwrap();
    assert!(dry.stdout.contains("Nothing was changed"), "{}", dry.stdout);
    wait_paused(n1);

    agent(n1, &["resume", "--wait", "--timeout", "90s"]).ok().unwrap();
    lab.wait_healthy(3, SOON).unwrap();
    let after = member_ids(&lab, n1).unwrap().1;
    assert_ne!(
        after.get(victim.name()),
        before.get(victim.name()),
        "a new member"
    );
    wait_status(n1, 0);
    lab.passed();
}

#[test]
fn s45_a_rolling_restart_under_load_loses_nothing_and_the_leader_moves_where_it_is_told() {
    let lab = formed("restart", 3);
    let n1 = lab.host(1).unwrap();
    let before = etcd_pids(lab.hosts());
    let dry = agent(n1, &["restart", "--rolling", "--dry-run"]).ok().unwrap();
    assert!(dry.stdout.contains("n1, n2, n3"), "{}", dry.stdout);
    assert_eq!(etcd_pids(lab.hosts()), before, "a dry run restarts nothing");

    let load = lab.start_load("r").unwrap();
    load.wait_for(100, SOON).unwrap();
    agent(n1, &["restart", "--rolling", "--timeout", "150s"])
        .ok()
        .unwrap();
    lab.wait_healthy(3, SOON).unwrap();
    load.wait_for(100, SOON).unwrap();
    let after = etcd_pids(lab.hosts());
    for (node, pid) in &after {
        assert_ne!(before.get(node), Some(pid), "{node} was restarted");
    }

    // The leader moves to the requested node, whichever node receives the order. The restart has settled
    // before.
    let target = follower(&lab);
    let asked = others(&lab, target)[0];
    agent(asked, &["move-leader", target.name(), "--timeout", "90s"])
        .ok()
        .unwrap();
    wait_until("the leader to be there", SOON, || {
        Ok(lab.raft_leader()?.name() == target.name())
    })
    .unwrap();
    agent(asked, &["move-leader", "--timeout", "90s"]).ok().unwrap();
    let nowhere = agent(asked, &["move-leader", "n9"]);
    assert_eq!(nowhere.code, 2, "{}", nowhere.stderr);
    assert_eq!(etcd_pids(lab.hosts()), after, "nothing was restarted for it");

    // Written settings are rolled out in the same way, unless there is a pause.
    agent(n1, &["pause", "--wait", "--timeout", "90s"]).ok().unwrap();
    for host in lab.hosts() {
        let fragment = "[etcd.settings]\nmax-request-bytes = \"2097152\"\n";
        host.write_file(
            "/etc/etcd-agent/config.d/90-test.toml",
            fragment,
            "0644",
            "root:root",
        )
        .unwrap();
        host.systemctl(&["reload", "etcd-agent"]).unwrap().ok().unwrap();
    }
    let wanted = |host: &Host| Ok(status(host)?["node"]["steering"]["wants_restart"].is_object());
    for host in lab.hosts() {
        wait_until("a restart to be wanted", SOON, || wanted(host)).unwrap();
    }
    assert_eq!(etcd_pids(lab.hosts()), after, "no restart in a pause");
    agent(n1, &["resume"]).ok().unwrap();
    wait_until("all to be restarted", 2 * SOON, || {
        let now: BTreeMap<String, u32> = lab
            .hosts()
            .iter()
            .filter_map(|host| Some((host.name().to_owned(), host.main_pid("etcd").ok()??)))
            .collect();
        Ok(now.len() == 3 && now.iter().all(|(node, pid)| after.get(node) != Some(pid)))
    })
    .unwrap();
    lab.wait_healthy(3, SOON).unwrap();
    load.wait_for(100, SOON).unwrap();
    for host in lab.hosts() {
        let size = crate::common::etcd_environ(host)
            .get("ETCD_MAX_REQUEST_BYTES")
            .cloned();
        assert_eq!(size.as_deref(), Some("2097152"), "{}", host.name());
    }
    let written = load.stop().unwrap();
    all_written(&lab, &written);

    // The events show the decisions afterwards.
    let mut restarts = 0;
    for host in lab.hosts() {
        let events = listed(host, &["events", "-n", "512"], "events");
        let done =
            |event: &&serde_json::Value| event["decision"] == "restart-etcd" && event["outcome"] == "done";
        restarts += events.iter().filter(done).count();
    }
    assert!(restarts >= 3, "{restarts} restarts are in the events");
    lab.passed();
}

#[test]
fn a_member_goes_out_and_comes_in_again_on_an_operators_word() {
    let lab = Lab::builder("member").hosts(3).package(&deb()).boot().unwrap();
    lab.s3().start().unwrap();
    lab.configure(|_, config| config.extra = STEADY.to_owned())
        .unwrap();
    lab.start_agents().unwrap();
    lab.wait_healthy(3, SOON).unwrap();
    a_node_may_be_stopped_only_while_the_others_are_whole(&lab);
    an_operators_stop_lasts(&lab);
    the_leader_moves_before_its_host_shuts_down(&lab);
    hosts_reboot_one_at_a_time(&lab);
    let n1 = lab.host(1).unwrap();
    let out = follower(&lab);
    let asked = others(&lab, out)[0];
    let before = member_ids(&lab, asked).unwrap().1;
    // No member is removed before the receiving agent has seen that the others are healthy.
    wait_status(asked, 0);

    let refused = agent(asked, &["member", "remove", out.name()]);
    assert_eq!(refused.code, 4, "{}", refused.stderr);
    assert!(refused.stderr.contains("--force"), "{}", refused.stderr);
    let unknown = agent(asked, &["member", "remove", "n9"]);
    assert_eq!(unknown.code, 2, "{}", unknown.stderr);
    assert_eq!(member_ids(&lab, asked).unwrap().1, before, "nothing was done");

    let remove = ["member", "remove", out.name(), "--force", "--timeout", "150s"];
    agent(asked, &remove).ok().unwrap();
    let members = member_ids(&lab, asked).unwrap().1;
    assert!(
        members.len() == 2 && !members.contains_key(out.name()),
        "{members:?}"
    );
    holds_for("it stays out", Duration::from_secs(8), || {
        members_are(&lab, asked, |members| !members.contains_key(out.name()))
    });
    let left = others(&lab, out);
    agent(left[0], &["member", "add", out.name(), "--timeout", "90s"])
        .ok()
        .unwrap();
    wait_until("three members again", 2 * SOON, || {
        Ok(member_ids(&lab, left[0])?.1.len() == 3)
    })
    .unwrap();
    lab.wait_healthy(3, SOON).unwrap();

    // The configuration holds the size: the refusal names the file, and the same size is no change.
    let same = agent(n1, &["spec", "set", "size=3"]).ok().unwrap();
    assert!(
        same.stdout.contains("3 voters were wanted already"),
        "{}",
        same.stdout
    );
    let refused = agent(n1, &["spec", "set", "size=5"]);
    assert_eq!(refused.code, 4, "{}", refused.stderr);
    assert!(refused.stderr.contains("/etc/etcd-agent/"), "{}", refused.stderr);
    lab.passed();
}

/// An alarm stays until its cause is gone, so that the next write does not raise it again. The log level
/// changes without a restart.
#[test]
fn an_alarm_is_disarmed_once_there_is_space() {
    let lab = Lab::builder("alarm").package(&deb()).boot().unwrap();
    lab.s3().start().unwrap();
    // The operator does what the agent does by default.
    let quota = "[etcd.settings]\nquota-backend-bytes = \"4194304\"\n[space]\nrecover = false\n";
    lab.configure(|_, config| config.extra = quota.to_owned())
        .unwrap();
    lab.start_agents().unwrap();
    lab.wait_healthy(1, SOON).unwrap();
    let n1 = lab.host(1).unwrap();
    let etcdctl = |args: &[&str]| lab.etcdctl(&[n1], args).unwrap();
    assert_eq!(agent(n1, &["alarm", "list"]).ok().unwrap().stdout, "No alarms.\n");

    let debug = agent(n1, &["log-level", "debug"]).ok().unwrap().stdout;
    assert!(debug.contains("etcd_agent=debug"), "{debug}");
    let reset = agent(n1, &["log-level", "--reset"]).ok().unwrap().stdout;
    assert!(reset.contains("etcd_agent=info"), "{reset}");

    let value = "x".repeat(100_000);
    let full = (0..100).find(|key| etcdctl(&["put", &format!("fill/{key}"), &value]).code != 0);
    assert!(full.is_some(), "ten megabytes were written in spite of the quota");
    let raised = listed(n1, &["alarm", "list"], "alarms");
    assert_eq!(
        (&raised[0]["alarm"], &raised[0]["node"]),
        (&"NOSPACE".into(), &"n1".into())
    );
    let refused = agent(n1, &["alarm", "disarm"]);
    assert!(
        refused.code == 4 && refused.stderr.contains("its quota is 4194304"),
        "{}",
        refused.stderr
    );

    etcdctl(&["del", "--prefix", "fill/"]).ok().unwrap();
    etcdctl(&["compact", "--physical", &revision(&lab, n1).to_string()])
        .ok()
        .unwrap();
    etcdctl(&["defrag"]).ok().unwrap();
    agent(n1, &["alarm", "disarm", "NOSPACE"]).ok().unwrap();
    assert_eq!(agent(n1, &["alarm", "list"]).ok().unwrap().stdout, "No alarms.\n");
    let again = agent(n1, &["alarm", "disarm"]).ok().unwrap();
    assert_eq!(again.stdout, "There was no such alarm.\n");
    put(&lab, "after", "the alarm");
    lab.passed();
}

/// Everything written is in the store as soon as a person requests it, whatever the interval is. The request
/// may be made on any node.
#[test]
fn c09g_s29_a_full_and_an_increment_on_demand() {
    let lab = Lab::builder("s29").hosts(3).package(&deb()).boot().unwrap();
    lab.s3().start().unwrap();
    lab.configure(|_, _| ()).unwrap();
    lab.each(|host| {
        let fragment = "[backup]\nincrement_interval = \"1h\"\n";
        host.write_file(
            "/etc/etcd-agent/config.d/60-increments.toml",
            fragment,
            "0644",
            "root:root",
        )
    })
    .unwrap();
    lab.start_agents().unwrap();
    lab.wait_healthy(3, SOON).unwrap();
    let leader = lab.raft_leader().unwrap();
    put(&lab, "before", "the full");
    backup_now(leader);
    // C9 g: an action that runs concurrently with the loop is not reported as done.
    let events = listed(leader, &["events", "-n", "512"], "events");
    let mut of_backups = events.iter().filter(|event| event["decision"] == "backup");
    let begun = |event: &serde_json::Value| event["outcome"] == "begun";
    assert!(of_backups.next().is_some_and(begun), "{events:?}");
    assert!(of_backups.all(begun), "{events:?}");
    put(&lab, "after", "the full");
    let stored = increment_now(leader);
    assert!(
        stored.stdout.contains("everything up to revision"),
        "{}",
        stored.stdout
    );
    let keys = lab.s3().keys().unwrap();
    assert!(keys.iter().any(|key| key.contains("/increments/")), "{keys:?}");
    agent(leader, &["backup", "now", "--increment"]).ok().unwrap();

    // Any node accepts the order and hands it over to the node that can carry it out (H9).
    agent(follower(&lab), &["backup", "now", "--increment"])
        .ok()
        .unwrap();

    lab.each(Host::kill).unwrap();
    for host in lab.hosts() {
        host.wipe(DATA).unwrap();
    }
    lab.each(|host| host.boot().map(drop)).unwrap();
    wait_until("a restore", SOON, || {
        agent(lab.host(1)?, &["restore", "latest", "--yes"]).ok()?;
        Ok(true)
    })
    .unwrap();
    lab.wait_healthy(3, SOON).unwrap();
    assert_value(&lab, leader, "before", "the full");
    assert_value(&lab, leader, "after", "the full");
    lab.passed();
}
