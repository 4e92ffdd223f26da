//! Leave for a stop of etcd that something other than the agent has asked systemd for.

use super::restarts::{settled, wish};
use super::steering::{Spoil, pause};
use super::*;
use crate::plan::{another_is_down, leave_to_stop};

/// systemd stops etcd on this node, and the gate holds the stop back.
pub(super) fn stops(status: &mut NodeStatus) {
    status.unit = unit(ActiveState::Deactivating);
    status.steering.waits_to_stop = true;
}

fn grant_to(i: usize) -> Grant {
    Grant {
        node: name(i),
        id: 7,
        term: RaftTerm(2),
        purpose: GrantPurpose::Restart,
    }
}

pub(super) fn granted(decision: &Decision) -> Option<&NodeName> {
    decision.memory.grant.as_ref().map(|(grant, _)| &grant.node)
}

#[test]
fn a_stop_waits_for_a_grant_unless_waiting_is_of_no_use() {
    let table: [(&str, Spoil, bool, &str); 11] = [
        ("nothing yet", |_| {}, false, "has not granted it yet"),
        (
            "granted",
            |obs| peer(obs, 0).steering.grant = Some(grant_to(1)),
            true,
            "n1 granted it",
        ),
        (
            "granted, and another member went down since",
            |obs| {
                peer(obs, 0).steering.grant = Some(grant_to(1));
                take_down(peer(obs, 2), ActiveState::Activating);
            },
            false,
            "etcd on n3 is restarted",
        ),
        (
            "granted to another node",
            |obs| peer(obs, 0).steering.grant = Some(grant_to(2)),
            false,
            "has not granted it yet",
        ),
        (
            "another member is restarted",
            |obs| take_down(peer(obs, 2), ActiveState::Activating),
            false,
            "etcd on n3 is restarted",
        ),
        (
            "another one is about to stop",
            |obs| peer(obs, 2).unit = unit(ActiveState::Deactivating),
            false,
            "etcd on n3 is restarted",
        ),
        (
            "another agent is silent",
            |obs| {
                obs.peers.insert(name(2), Fact::Unreachable("timed out".into()));
            },
            false,
            "the agent on n3 does not answer",
        ),
        (
            "another member has failed",
            |obs| take_down(peer(obs, 2), ActiveState::Failed),
            true,
            "does not come back by itself",
        ),
        (
            "no leader",
            |obs| {
                let Fact::Known(etcd) = &mut obs.me.etcd else {
                    return;
                };
                etcd.leader = None;
            },
            true,
            "no raft leader",
        ),
        (
            "etcd does not answer",
            |obs| obs.me.etcd = Fact::Unreachable("timed out".into()),
            true,
            "does not serve",
        ),
        (
            "a learner",
            |obs| {
                let Fact::Known(list) = &mut obs.me.members else {
                    return;
                };
                list.members[1].is_learner = true;
            },
            true,
            "no other member depends on it",
        ),
    ];
    for (what, spoil, go, text) in table {
        let mut obs = healthy(1);
        stops(&mut obs.me);
        spoil(&mut obs);
        let leave = leave_to_stop(&obs, None, true);
        assert_eq!(leave.go, go, "{what}: {leave:?}");
        if leave.text.contains("does not come back") {
            assert!(another_is_down(&obs), "{what}");
            assert!(!leave_to_stop(&obs, None, false).go, "{what}, for a moment");
        }
        assert!(leave.text.contains(text), "{what}: {leave:?}");
    }
    let mut leader = healthy(0);
    stops(&mut leader.me);
    assert!(!leave_to_stop(&leader, None, true).go);
    assert!(
        leave_to_stop(&leader, Some(&grant_to(0)), true).go,
        "its own grant"
    );
}

#[test]
fn an_etcd_that_could_not_start_again_has_no_leave() {
    let no_key = || Some("[etcd.peer_tls]: the key is not there".to_owned());
    let table: [(&str, Spoil); 4] = [
        ("nothing yet", |_| {}),
        ("granted by an older coordinator", |obs| {
            peer(obs, 0).steering.grant = Some(grant_to(1));
        }),
        ("another member has failed", |obs| {
            take_down(peer(obs, 2), ActiveState::Failed);
        }),
        ("the only voter", |obs| {
            let Fact::Known(list) = &mut obs.me.members else {
                return;
            };
            list.members.retain(|member| member.name == "n2");
        }),
    ];
    for (what, spoil) in table {
        let mut obs = healthy(1);
        stops(&mut obs.me);
        spoil(&mut obs);
        obs.me.tls_trouble = no_key();
        let leave = leave_to_stop(&obs, None, true);
        assert!(!leave.go, "{what}: {leave:?}");
        assert_eq!(
            leave.text, "etcd here might not start again: [etcd.peer_tls]: the key is not there",
            "{what}"
        );
    }
    let mut silent = healthy(1);
    silent.me.tls_trouble = no_key();
    silent.me.etcd = Fact::Unreachable("timed out".into());
    assert!(leave_to_stop(&silent, None, true).go, "it does not serve");
}

#[test]
fn rule_4_a_stop_of_an_etcd_that_could_not_start_again_is_not_granted() {
    let mut obs = healthy(0);
    stops(peer(&mut obs, 1));
    peer(&mut obs, 1).tls_trouble = Some("[etcd.peer_tls]: the key is not there".to_owned());
    let decision = plan(&obs, &settled());
    assert_eq!(granted(&decision), None);
    let waits = decision
        .reasons
        .iter()
        .find(|reason| reason.code == ReasonCode::RestartWaits)
        .unwrap();
    assert_eq!(
        waits.text,
        "etcd on n2 is being stopped, which is not granted: it might not start again: [etcd.peer_tls]: the key is not there"
    );
    // It goes down soon, whatever is granted: nothing else that can wait is disturbed.
    wish(peer(&mut obs, 2), Some(3));
    assert_eq!(granted(&plan(&obs, &settled())), None, "a restart waits");
    peer(&mut obs, 2).steering.wants_restart = None;
    peer(&mut obs, 2).steering.wants_reboot_lock = true;
    assert_eq!(granted(&plan(&obs, &settled())), None, "a reboot waits");
    stops(peer(&mut obs, 2));
    assert_eq!(
        granted(&plan(&obs, &settled())),
        Some(&name(2)),
        "what would stop at the same time goes first"
    );
}

#[test]
fn rule_4_stops_by_others_are_granted_one_at_a_time_and_the_leader_moves_first() {
    let mut obs = healthy(0);
    stops(&mut obs.me);
    stops(peer(&mut obs, 1));
    stops(peer(&mut obs, 2));
    pause(&mut obs);
    let first = plan(&obs, &settled());
    assert_eq!(granted(&first), Some(&name(1)), "also in a pause");
    // n2 is about to stop, then down.
    peer(&mut obs, 1).steering.waits_to_stop = false;
    let held = plan(&obs, &first.memory);
    assert_eq!(granted(&held), Some(&name(1)), "one at a time");
    take_down(peer(&mut obs, 1), ActiveState::Activating);
    let held = plan(&obs, &held.memory);
    assert_eq!(granted(&held), Some(&name(1)));
    // It is back.
    let whole = healthy(0);
    obs.peers.insert(name(1), whole.peers[&name(1)].clone());
    let second = plan(&obs, &held.memory);
    assert_eq!(granted(&second), Some(&name(2)));
    obs.peers.insert(name(2), whole.peers[&name(2)].clone());
    let early = plan(&obs, &second.memory);
    assert_eq!(early.action, None, "they do not know of the pause yet");
    let orders = obs.me.steering.directives.clone();
    for i in [1, 2] {
        peer(&mut obs, i).steering.directives = orders.clone();
    }
    let last = plan(&obs, &second.memory);
    assert_eq!(last.action.as_ref().map(Action::name), Some("move-leader"));
}

#[test]
fn a_stop_by_a_person_ends_its_grant() {
    let mut obs = healthy(0);
    stops(peer(&mut obs, 1));
    let first = plan(&obs, &settled());
    assert_eq!(granted(&first), Some(&name(1)));
    let status = peer(&mut obs, 1);
    take_down(status, ActiveState::Inactive);
    status.steering.waits_to_stop = false;
    let Fact::Known(unit) = &mut status.unit else {
        panic!()
    };
    unit.held = true;
    wish(peer(&mut obs, 2), None);
    let next = plan(&obs, &first.memory);
    assert_eq!(
        granted(&next),
        None,
        "and nothing else is granted while it is down"
    );
}
