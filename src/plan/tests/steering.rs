//! How the planner follows operators' orders.

use std::collections::BTreeSet;

use super::restarts::{settled, wish};
use super::*;

/// A change of a situation.
pub(super) type Spoil = fn(&mut Observation);

/// The description, the request, the situation, and the answer.
type Asked<'a> = (
    &'a str,
    OperatorRequest,
    &'a dyn Fn(&mut Observation),
    Option<bool>,
);

/// The description, the situation, the action without a pause, and the action during a pause.
type Row<'a> = (
    &'a str,
    &'a dyn Fn() -> Observation,
    Option<&'a str>,
    Option<&'a str>,
);

pub(super) fn pause(obs: &mut Observation) {
    let directives = &mut obs.me.steering.directives;
    *directives = directives
        .after(&DirectiveChange::Pause, &name(1), obs.now)
        .unwrap();
}

#[test]
fn a_pause_holds_back_what_is_autonomous_and_nothing_else() {
    let repair = || {
        let mut obs = healthy(0);
        lose_data(peer(&mut obs, 2));
        obs
    };
    let scheduled = || {
        let mut obs = healthy(0);
        obs.store = Fact::Known(store_view(None, None));
        obs
    };
    let asked = || {
        let mut obs = scheduled();
        obs.requests = vec![OperatorRequest::Backup];
        obs
    };
    let down = || {
        let mut obs = healthy(1);
        obs.me.unit = unit(ActiveState::Failed);
        obs.me.etcd = Fact::Absent;
        obs
    };
    let rebooted = || {
        let mut obs = down();
        obs.gate.cleared = None;
        if let Fact::Known(unit) = &mut obs.me.unit {
            unit.active = ActiveState::Activating;
            unit.sub = "start-pre".into();
        }
        obs
    };
    let outdated = || {
        let mut obs = healthy(1);
        obs.me.genesis = Some(genesis(&obs.spec, 3, 2, Origin::Empty));
        obs.newest_epoch = Epoch(2);
        obs
    };
    let bootstrap = || {
        let mut obs = fresh(0, 3, 3);
        obs.requests = vec![OperatorRequest::Bootstrap {
            without: BTreeSet::new(),
            empty: false,
        }];
        obs
    };
    let table: [Row<'_>; 8] = [
        ("a repair", &repair, Some("remove-member"), None),
        ("a backup that is due", &scheduled, Some("backup"), None),
        (
            "a backup that was asked for",
            &asked,
            Some("backup"),
            Some("backup"),
        ),
        ("a start", &down, Some("start-etcd"), None),
        (
            "the gate of a rebooted host",
            &rebooted,
            Some("clear-gate"),
            Some("clear-gate"),
        ),
        (
            "an outdated epoch",
            &outdated,
            Some("stop-etcd"),
            Some("stop-etcd"),
        ),
        ("the first cluster", &|| fresh(0, 3, 3), Some("propose"), None),
        (
            "the first cluster, asked for",
            &bootstrap,
            Some("propose"),
            Some("propose"),
        ),
    ];
    for (what, observed, without, with) in table {
        let mut obs = observed();
        assert_eq!(action(&obs), without, "{what}");
        assert!(!has(&obs, "paused-start"), "{what}");
        pause(&mut obs);
        assert_eq!(action(&obs), with, "{what}, paused");
        let decision = decide(&obs);
        assert!(has(&obs, "paused"), "{what}");
        assert_eq!(has(&obs, "paused-start"), what == "a start", "{what}");
        assert!(decision.text.ends_with(", PAUSED"), "{what}: {}", decision.text);
    }
}

#[test]
fn a_newer_register_is_taken_over_from_any_peer_of_the_same_cluster() {
    let mut obs = healthy(1);
    let newer = Directives::default()
        .after(&DirectiveChange::Pause, &name(2), UnixMs(1))
        .unwrap();
    peer(&mut obs, 2).steering.directives = newer.clone();
    let Some(Action::TakeDirectives { directives }) = decide(&obs).action else {
        panic!("it was not taken over")
    };
    assert_eq!(*directives, newer);

    let mut same = obs.clone();
    same.me.steering.directives = newer;
    assert_eq!(action(&same), None);

    let mut foreign = obs.clone();
    peer(&mut foreign, 2).cluster = ClusterName::new("other").unwrap();
    assert_eq!(action(&foreign), None);

    let mut endless = obs;
    peer(&mut endless, 2).steering.directives.out = (0..1000)
        .map(|i| NodeName::new(format!("x{i}")).unwrap())
        .collect();
    assert_eq!(action(&endless), None);
}

#[test]
fn a_peer_that_knows_nothing_of_orders_is_understood() {
    let mut old = serde_json::to_value(&healthy(0).me).unwrap();
    old.as_object_mut().unwrap().remove("steering");
    let read: NodeStatus = serde_json::from_value(old).unwrap();
    assert_eq!(read.steering, Steering::default());
}

fn ask(to: Option<usize>, from: Option<MemberId>, asked: SteadyMs) -> OperatorRequest {
    OperatorRequest::MoveLeader {
        to: to.map(name),
        from,
        id: 9,
        asked,
    }
}

#[test]
fn the_leader_moves_when_a_person_asks_anywhere() {
    let leader = |obs: &Observation| obs.me.etcd.known().unwrap().leader;
    let asked = |to: Option<usize>| {
        let mut obs = healthy(0);
        let from = leader(&obs);
        peer(&mut obs, 2).steering.leader_ask = Some(LeaderAsk {
            id: 9,
            to: to.map(name),
            from,
        });
        obs
    };
    for (to, expected) in [(Some(1), name(1)), (None, name(1))] {
        let Some(Action::MoveLeader { node, .. }) = decide(&asked(to)).action else {
            panic!("it does not move")
        };
        assert_eq!(node, expected);
    }
    assert_eq!(action(&asked(Some(0))), None, "it leads already");
    let mut moved = asked(None);
    peer(&mut moved, 2).steering.leader_ask.as_mut().unwrap().from = Some(MemberId(1));
    assert_eq!(action(&moved), None, "it has moved already");
    let mut paused = asked(None);
    pause(&mut paused);
    assert_eq!(
        action(&paused),
        Some("move-leader"),
        "a person's order is carried out during a pause"
    );
}

#[test]
fn who_asked_for_another_leader_is_answered() {
    let obs = healthy(1);
    let from = obs.me.etcd.known().unwrap().leader;
    let down = |obs: &mut Observation| lose_data(peer(obs, 2));
    let late = SteadyMs(obs.steady.0 - 31_000);
    let table: [Asked<'_>; 6] = [
        (
            "it leads already",
            ask(Some(0), from, obs.steady),
            &|_| (),
            Some(true),
        ),
        (
            "another member leads already",
            ask(None, Some(MemberId(5)), obs.steady),
            &|_| (),
            Some(true),
        ),
        ("under way", ask(Some(2), from, obs.steady), &|_| (), None),
        ("too late", ask(Some(2), from, late), &|_| (), Some(false)),
        ("not healthy", ask(Some(2), from, obs.steady), &down, Some(false)),
        (
            "no such member",
            ask(Some(4), from, obs.steady),
            &|_| (),
            Some(false),
        ),
    ];
    for (what, request, change, expected) in table {
        let mut obs = obs.clone();
        obs.requests = vec![request];
        change(&mut obs);
        let answered = match decide(&obs).action {
            Some(Action::Answer { done, .. }) => Some(done),
            _ => None,
        };
        assert_eq!(answered, expected, "{what}");
    }
}

/// The member list that n1, which leads, reports.
fn list_of_n1(obs: &mut Observation) -> &mut Fact<MemberList> {
    let leads = obs.me.node == name(0);
    let status = if leads { &mut obs.me } else { peer(obs, 0) };
    &mut status.members
}

/// A leader that is cut off still considers itself the leader for a while, and its agent waits for a list
/// that does not come.
#[test]
fn who_leads_without_quorum_is_not_where_the_leader_was_to_go() {
    let unread: Spoil = |obs| *list_of_n1(obs) = Fact::Unreachable("no answer in time".into());
    let from_memory: Spoil = |obs| {
        if let Fact::Known(list) = list_of_n1(obs) {
            list.linearizable = false;
        }
    };
    let of_a_later_term: Spoil = |obs| {
        if let Fact::Known(list) = list_of_n1(obs) {
            list.term = RaftTerm(3);
        }
    };
    let rows: [(&str, Spoil, Option<bool>, Option<bool>); 4] = [
        ("with quorum", |_| (), Some(true), Some(true)),
        ("the list does not come", unread, None, Some(false)),
        ("it comes from memory", from_memory, None, Some(false)),
        ("another term began", of_a_later_term, None, Some(false)),
    ];
    for me in [0, 1] {
        for (what, change, at_once, in_the_end) in rows {
            for (waited, expected) in [(0, at_once), (30_000, in_the_end)] {
                let mut obs = healthy(me);
                let leader = obs.me.etcd.known().unwrap().leader;
                obs.requests = vec![ask(Some(0), leader, SteadyMs(obs.steady.0 - waited))];
                change(&mut obs);
                let answered = match decide(&obs).action {
                    Some(Action::Answer { done, .. }) => Some(done),
                    _ => None,
                };
                assert_eq!(answered, expected, "{what}, at n{}, after {waited} ms", me + 1);
            }
        }
    }
}

fn out(obs: &mut Observation, node: usize) {
    obs.me.steering.directives.out.insert(name(node));
}

#[test]
fn a_node_that_is_ordered_out_is_removed_under_rule_3_and_never_while_it_leads() {
    let table: [(&str, usize, Spoil, Option<&str>); 7] = [
        ("a follower", 2, |_| (), Some("take-out")),
        ("the leader", 0, |_| (), Some("move-leader")),
        ("no member", 4, |_| (), None),
        (
            "a dead one",
            2,
            |obs| {
                obs.peers.insert(name(2), Fact::Unreachable("gone".into()));
            },
            Some("take-out"),
        ),
        (
            "too few others",
            2,
            |obs| {
                obs.peers.insert(name(1), Fact::Unreachable("gone".into()));
            },
            None,
        ),
        ("during a pause", 2, pause, Some("take-out")),
        ("during a restart", 2, |obs| wish(peer(obs, 1), None), None),
    ];
    for (what, node, change, expected) in table {
        let mut obs = healthy(0);
        out(&mut obs, node);
        change(&mut obs);
        let decision = plan(&obs, &settled());
        assert_eq!(decision.action.as_ref().map(Action::name), expected, "{what}");
    }
    let mut elsewhere = healthy(1);
    out(&mut elsewhere, 2);
    assert_eq!(action(&elsewhere), None, "only the coordinator");
}

#[test]
fn a_node_that_is_out_is_not_added() {
    let mut obs = healthy(0);
    let Fact::Known(list) = &mut obs.me.members else {
        panic!("no list")
    };
    list.members.retain(|member| member.name != "n3");
    let spec = obs.spec.clone();
    let mut spare = node(&spec, 2);
    spare.newest_epoch = Epoch(1);
    spare.genesis.clone_from(&obs.me.genesis);
    obs.peers.insert(name(2), Fact::Known(spare));
    assert_eq!(action(&obs), Some("add-learner"));
    out(&mut obs, 2);
    assert_eq!(action(&obs), None);
}

#[test]
fn what_is_refused_when_a_member_is_ordered_out() {
    let remove = |i| DirectiveChange::Remove { node: name(i) };
    let three = healthy(0);
    let objects = |obs: &Observation, i, force| crate::plan::objection(obs, &remove(i), force);
    assert!(objects(&three, 2, false).unwrap().contains("--force"));
    assert_eq!(objects(&three, 2, true), None);
    assert!(objects(&three, 7, true).unwrap().contains("cluster.nodes"));
    let mut down = three.clone();
    down.peers.insert(name(1), Fact::Unreachable("gone".into()));
    assert!(
        objects(&down, 2, true).unwrap().contains("quorum"),
        "not even by force"
    );
    assert_eq!(objects(&down, 1, true), None, "the dead one may go");
    let mut with_spare = healthy(0);
    with_spare.spec = spec(0, 4, 3);
    let spare = node(&with_spare.spec, 3);
    with_spare.peers.insert(name(3), Fact::Known(spare));
    assert_eq!(objects(&with_spare, 2, false), None);
    out(&mut with_spare, 3);
    assert!(
        objects(&with_spare, 2, false).is_some(),
        "a spare that is out does not count"
    );
}

#[test]
fn a_dry_run_shows_the_coordinators_first_decision_from_any_node() {
    for me in 0..3 {
        let mut obs = healthy(me);
        out(&mut obs, 2);
        let Fact::Known(list) = healthy(0).me.members else {
            panic!("no list")
        };
        if me != 0 {
            peer(&mut obs, 0).members = Fact::Known(list);
        }
        let decision = crate::plan::preview(&obs);
        let decided = decision.action.as_ref().map(Action::name);
        assert_eq!(decided, Some("take-out"), "asked at n{}", me + 1);
    }
}
