//! Whether a node may be stopped now, as drains and package hooks ask it. Called by a test that has three
//! hosts.

use std::time::Duration;

use crate::common::{SOON, agent, others, status, wait_reason};
use crate::down_times::now;
use etcd_agent_lab::{Host, Lab, Output, wait_for, wait_until};
use serde_json::Value;

/// The longest shutdown of a host: logind waits for the agent for 5 s at most (`InhibitDelayMaxSec=`), and the rest is a
/// busy machine. A stop of etcd that waited for leave would take 20 s more than that.
const PROMPT: Duration = Duration::from_secs(24);

/// Each answer is from fresh looks: right after a member or a host is gone, no answer is a yes.
pub(crate) fn a_node_may_be_stopped_only_while_the_others_are_whole(lab: &Lab) {
    let [n1, n2] = [1, 2].map(|number| lab.host(number).unwrap());
    ok_to_stop(n2, &["n1"]);
    let json = ok_to_stop(n2, &["n1", "-o", "json"]);
    let json: Value = serde_json::from_str(&json.stdout).unwrap();
    assert_eq!((&json["ok"], &json["left"]["healthy"]), (&true.into(), &2.into()));
    wait_until("n2 to plan for the loss of n1", SOON, || {
        let after = agent(n2, &["plan", "--after", "reboot n1"]).ok()?;
        let further = "The further loss of n2 or n3 would cost quorum.";
        anyhow::ensure!(after.stdout.contains(further), "{}", after.stdout);
        Ok(true)
    })
    .unwrap();
    let unknown = agent(n2, &["ok-to-stop", "n9"]);
    assert_eq!(unknown.code, 2, "{}", unknown.stderr);

    n2.systemctl(&["stop", "etcd"]).unwrap().ok().unwrap();
    refuses(n1, "n3", "on n2");
    // Nothing is left to lose on n2 itself.
    ok_to_stop(n1, &["n2"]);
    n2.systemctl(&["start", "etcd"]).unwrap().ok().unwrap();
    lab.wait_healthy(3, SOON).unwrap();
    ok_to_stop(n1, &["n3"]);

    n2.cut().unwrap();
    refuses(n1, "n3", "on n2");
    refuses(n2, "n1", "on n1");
    lab.heal_all().unwrap();
    lab.wait_healthy(3, SOON).unwrap();
    ok_to_stop(n1, &["n3"]);
}

/// An operator stops a disabled etcd, for example to move its data. systemd unloads such a unit and forgets the stop
/// as soon as nothing refers to the unit, at the latest while the agent is restarted.
pub(crate) fn an_operators_stop_lasts(lab: &Lab) {
    let n2 = lab.host(2).unwrap();
    n2.systemctl(&["disable", "--now", "etcd"]).unwrap().ok().unwrap();
    for _ in 0..2 {
        wait_reason(n2, "stopped-by-operator");
        n2.systemctl(&["restart", "etcd-agent"]).unwrap().ok().unwrap();
        wait_reason(n2, "stopped-by-operator");
        let state = n2.unit_property("etcd", "ActiveState").unwrap();
        assert_eq!(state, "inactive", "the agent has started it");
    }
    let journal = n2.journalctl(&["-u", "etcd-agent"]).unwrap();
    assert!(!journal.contains("systemd may unload"), "{journal}");
    n2.systemctl(&["enable", "--now", "etcd"]).unwrap().ok().unwrap();
    lab.wait_healthy(3, SOON).unwrap();
    ok_to_stop(lab.host(1).unwrap(), &["n3"]);
}

/// The raft leader has moved before its host stops etcd, and the shutdown does not wait longer than that: also not if no
/// other member can lead.
pub(crate) fn the_leader_moves_before_its_host_shuts_down(lab: &Lab) {
    let leader = lab.raft_leader().unwrap();
    let locks = leader
        .exec(&["systemd-inhibit", "--list", "--no-legend"])
        .unwrap();
    let locks = locks.ok().unwrap().stdout;
    assert!(locks.contains("Move the raft leader to another host"), "{locks}");
    let [agents, etcds] = shuts_down_promptly(lab, leader);
    assert!(
        agents.contains("another member leads: the host may shut down"),
        "{agents}"
    );
    let follows = "skipped leadership transfer; local server is not leader";
    assert!(etcds.contains(follows), "etcd stopped as the leader:\n{etcds}");
    leader.boot().unwrap();
    lab.wait_healthy(3, SOON).unwrap();

    let leader = lab.raft_leader().unwrap();
    wait_until("the agent to know that its etcd leads", SOON, || {
        let etcd = &status(leader)?["node"]["etcd"]["value"];
        Ok(!etcd["leader"].is_null() && etcd["leader"] == etcd["member_id"])
    })
    .unwrap();
    let followers = others(lab, leader);
    for follower in &followers {
        // Not by a stop, which waits for its turn.
        follower
            .sh("systemctl kill -s KILL etcd; systemctl stop --no-block etcd")
            .unwrap()
            .ok()
            .unwrap();
    }
    shuts_down_promptly(lab, leader);
    leader.boot().unwrap();
    for follower in followers {
        follower.systemctl(&["start", "etcd"]).unwrap().ok().unwrap();
    }
    lab.wait_healthy(3, SOON).unwrap();
}

/// Shuts a host down. Returns what its agent and its etcd have logged meanwhile.
fn shuts_down_promptly(lab: &Lab, host: &Host) -> [String; 2] {
    let since = now(lab);
    let took = host.power_off().unwrap();
    eprintln!("{} has shut down in {took:?}", host.name());
    let journal = |unit: &str| host.journalctl(&["-u", unit, "--since", &since]).unwrap();
    let [agents, etcds] = ["etcd-agent", "etcd"].map(journal);
    assert!(took < PROMPT, "{took:?}:\n{agents}\n{etcds}");
    // As a stop does that may be held back.
    for waits in ["waits for leave", "without leave"] {
        assert!(!etcds.contains(waits), "{etcds}");
    }
    [agents, etcds]
}

/// Waits until `ok-to-stop` says yes. After a fault was repaired, agents and etcd reach each other a moment later.
pub(crate) fn ok_to_stop(host: &Host, args: &[&str]) -> Output {
    wait_for(&format!("a yes at {} to {args:?}", host.name()), SOON, || {
        agent(host, &[&["ok-to-stop"], args].concat()).ok().map(Some)
    })
    .unwrap()
}

/// Waits until the answer is no with this cause, which is not known during an election. It is never a yes.
pub(crate) fn refuses(host: &Host, node: &str, cause: &str) {
    wait_until(&format!("{node} to be refused at {}", host.name()), SOON, || {
        let answer = agent(host, &["ok-to-stop", node]);
        assert_eq!(answer.code, 4, "{}{}", answer.stdout, answer.stderr);
        anyhow::ensure!(answer.stdout.contains(cause), "{}", answer.stdout);
        Ok(true)
    })
    .unwrap();
}
