//! Restarts: which nodes want one, and which one the coordinator grants.

use proptest::prelude::*;

use super::steering::{Spoil, pause};
use super::stop::codes;
use super::*;

pub(super) fn wish(status: &mut NodeStatus, order: Option<u64>) {
    status.steering.wants_restart = Some(RestartWish {
        order,
        ..RestartWish::new("why".into())
    });
}

/// The memory of a node that has been the coordinator for a long time.
pub(super) fn settled() -> Memory {
    Memory {
        coordinates: Some((RaftTerm(2), SteadyMs(0))),
        ..Memory::default()
    }
}

/// n1 leads; the nodes with these numbers want a restart.
fn wanting(nodes: &[usize]) -> Observation {
    let mut obs = healthy(0);
    for i in nodes {
        match i {
            0 => wish(&mut obs.me, None),
            i => wish(peer(&mut obs, *i), None),
        }
    }
    obs
}

fn granted(decision: &Decision) -> Option<&NodeName> {
    decision.memory.grant.as_ref().map(|(grant, _)| &grant.node)
}

#[test]
fn a_restart_is_granted_to_one_healthy_follower_after_the_other_and_the_leader_comes_last() {
    let give = |obs: &Observation, memory: &Memory| plan(obs, memory);
    let obs = wanting(&[0, 1, 2]);
    let first = give(&obs, &settled());
    assert_eq!(granted(&first), Some(&name(1)), "followers by name");
    assert_eq!(first.action, None);

    let again = give(&obs, &first.memory);
    assert_eq!(again.memory.grant, first.memory.grant, "one at a time");

    let mut restarting = wanting(&[0, 2]);
    peer(&mut restarting, 1).etcd = Fact::Absent;
    let held = give(&restarting, &first.memory);
    assert_eq!(
        held.memory.grant, first.memory.grant,
        "not over before it is healthy"
    );

    let second = give(&wanting(&[0, 2]), &first.memory);
    assert_eq!(granted(&second), Some(&name(2)));
    let last = give(&wanting(&[0]), &second.memory);
    assert_eq!(granted(&last), None);
    let Some(Action::MoveLeader { node, .. }) = &last.action else {
        panic!("the leader does not move: {last:?}")
    };
    assert_ne!(*node, name(0));
}

#[test]
fn the_leader_waits_a_short_time_for_a_member_whose_disk_is_read_before_an_upgrade() {
    let mut obs = wanting(&[0, 1]);
    let held = |obs: &mut Observation, why: Option<&str>| {
        let wish = peer(obs, 1).steering.wants_restart.as_mut().unwrap();
        (wish.held, wish.reading) = (why.map(str::to_owned), why.is_some());
    };
    held(&mut obs, Some("etcd's log is read first"));
    let waits = plan(&obs, &settled());
    assert_eq!((granted(&waits), &waits.action), (None, &None), "{waits:?}");
    let text = "etcd on n1 is to be restarted, and waits for n2: etcd's log is read first";
    assert!(
        waits
            .reasons
            .iter()
            .any(|r| r.code == ReasonCode::RestartWaits && r.text == text)
    );
    let mut read = obs.clone();
    held(&mut read, None);
    assert_eq!(granted(&plan(&read, &waits.memory)), Some(&name(1)));
    let mut stopped = obs.clone();
    stopped.me.steering.waits_to_stop = true;
    assert!(matches!(
        plan(&stopped, &settled()).action,
        Some(Action::MoveLeader { .. })
    ));
    let mut unusable = obs.clone();
    peer(&mut unusable, 1)
        .steering
        .wants_restart
        .as_mut()
        .unwrap()
        .reading = false;
    assert!(matches!(
        plan(&unusable, &settled()).action,
        Some(Action::MoveLeader { .. })
    ));
    // During a pause only orders count.
    let mut ordered = obs.clone();
    ordered.me.steering.wants_restart.as_mut().unwrap().order = Some(1);
    pause(&mut ordered);
    for i in [1, 2] {
        peer(&mut ordered, i).steering.directives = ordered.me.steering.directives.clone();
    }
    assert!(matches!(
        plan(&ordered, &settled()).action,
        Some(Action::MoveLeader { .. })
    ));
    peer(&mut ordered, 1)
        .steering
        .wants_restart
        .as_mut()
        .unwrap()
        .order = Some(1);
    assert_eq!(plan(&ordered, &settled()).action, None);
    // Another node does not hold the leader back for good.
    obs.steady = SteadyMs(obs.steady.0 + 5_000);
    let goes = plan(&obs, &waits.memory);
    assert!(matches!(goes.action, Some(Action::MoveLeader { .. })), "{goes:?}");
    // The next restart waits anew.
    for next in [wanting(&[]), wanting(&[0])] {
        assert_eq!(plan(&next, &goes.memory).memory.leader_waits, None);
    }
}

#[test]
fn no_restart_is_granted_while_anything_is_not_well() {
    let table: [(&str, Spoil); 8] = [
        ("a voter is down", |obs| lose_data(peer(obs, 2))),
        ("a voter's agent is silent", |obs| {
            obs.peers.insert(name(2), Fact::Unreachable("timed out".into()));
        }),
        ("a voter's etcd is silent", |obs| {
            peer(obs, 2).etcd = Fact::Unreachable("timed out".into());
        }),
        ("a voter sees no leader", |obs| {
            let Fact::Known(etcd) = &mut peer(obs, 2).etcd else {
                return;
            };
            etcd.leader = None;
        }),
        ("a learner", |obs| {
            let Fact::Known(list) = &mut obs.me.members else {
                return;
            };
            list.members[2].is_learner = true;
        }),
        ("the list did not go through quorum", |obs| {
            let Fact::Known(list) = &mut obs.me.members else {
                return;
            };
            list.linearizable = false;
        }),
        ("another leads", |obs| {
            let Fact::Known(etcd) = &mut obs.me.etcd else {
                return;
            };
            etcd.leader = Some(MemberId(1));
        }),
        ("a pause", pause),
    ];
    for (what, spoil) in table {
        let mut obs = wanting(&[1]);
        spoil(&mut obs);
        let decision = plan(&obs, &settled());
        assert_eq!(granted(&decision), None, "{what}");
        assert_ne!(
            decision.action.as_ref().map(Action::name),
            Some("move-leader"),
            "{what}"
        );
    }
    let decision = plan(&wanting(&[1]), &Memory::default());
    assert_eq!(granted(&decision), None, "it has only just come to lead");
}

/// n1 leads in term 2 since a moment ago; n2 led in term 1.
fn new_leader() -> (Observation, Memory) {
    let mut obs = wanting(&[1]);
    peer(&mut obs, 1).steering.grants_over = Some(RaftTerm(1));
    let leader = peer(&mut obs, 1).etcd.known().unwrap().member_id;
    let memory = Memory {
        followed: Some((RaftTerm(1), leader)),
        ..Memory::default()
    };
    (obs, memory)
}

type Change = fn(&mut Observation, &mut Memory);

#[test]
fn a_new_leader_grants_at_once_if_the_former_one_says_that_its_grants_are_over() {
    let (obs, memory) = new_leader();
    let decision = plan(&obs, &memory);
    assert_eq!(granted(&decision), Some(&name(1)));
    assert_eq!(decision.memory.grants_over, None, "a grant is under way");
    let idle = plan(&healthy(0), &settled());
    assert_eq!(
        idle.memory.grants_over,
        Some(RaftTerm(2)),
        "it says the same later"
    );

    let table: [(&str, Change); 5] = [
        ("it says so of an older term", |obs, _| {
            peer(obs, 1).steering.grants_over = Some(RaftTerm(0));
        }),
        ("it does not know of the new term yet", |obs, _| {
            let Fact::Known(etcd) = &mut peer(obs, 1).etcd else {
                return;
            };
            etcd.term = RaftTerm(1);
        }),
        ("another node says so", |obs, _| {
            peer(obs, 1).steering.grants_over = None;
            peer(obs, 2).steering.grants_over = Some(RaftTerm(1));
        }),
        ("there was a term in between", |_, memory| {
            memory.followed = memory.followed.map(|(_, leader)| (RaftTerm(0), leader));
        }),
        ("nobody has led before", |_, memory| memory.followed = None),
    ];
    for (what, change) in table {
        let (mut obs, mut memory) = new_leader();
        change(&mut obs, &mut memory);
        assert_eq!(granted(&plan(&obs, &memory)), None, "{what}");
    }
}

#[test]
fn a_node_that_wants_another_restart_after_the_one_that_was_granted_does_not_keep_its_grant() {
    let run = |pid: u32, memory: &Memory, steady: u64| {
        let mut obs = wanting(&[1]);
        obs.steady = SteadyMs(steady);
        if let Fact::Known(unit) = &mut peer(&mut obs, 1).unit {
            unit.main_pid = pid;
        }
        plan(&obs, memory)
    };
    let first = run(7, &settled(), 1_000_000);
    assert_eq!(granted(&first), Some(&name(1)));
    let same = run(7, &first.memory, 1_001_000);
    assert_eq!(same.memory.grant, first.memory.grant, "it was not restarted yet");
    let restarted = run(8, &first.memory, 1_002_000);
    assert_eq!(granted(&restarted), None, "it may have another one");
    let soon = run(8, &restarted.memory, 1_003_000);
    assert_eq!(
        granted(&soon),
        None,
        "not before nobody can act on the former one"
    );
    let again = run(8, &restarted.memory, 1_008_000);
    assert_eq!(granted(&again), Some(&name(1)));
}

/// The member list cannot be read for a moment, so the grant is forgotten, and its node may still act on it.
#[test]
fn a_grant_that_was_forgotten_is_not_over_at_once() {
    let (obs, memory) = new_leader();
    let given = plan(&obs, &memory).memory;
    assert!(given.grant.is_some());
    let mut blind = obs.clone();
    blind.me.members = Fact::Unreachable("timed out".into());
    let forgotten = plan(&blind, &given).memory;
    assert_eq!(forgotten.grant, None);
    assert_eq!(granted(&plan(&obs, &forgotten)), None);
}

#[test]
fn a_grant_that_was_withdrawn_is_not_over_at_once() {
    let (mut obs, mut memory) = new_leader();
    memory.coordinates = Some((RaftTerm(2), SteadyMs(0)));
    memory.grant = Some((
        Grant {
            node: name(1),
            id: 1,
            term: RaftTerm(2),
            purpose: GrantPurpose::Restart,
        },
        SteadyMs(0),
    ));
    obs.steady = SteadyMs(31_000);
    wish(peer(&mut obs, 2), None);
    let withdrawn = plan(&obs, &memory).memory;
    assert_eq!((withdrawn.grant.clone(), withdrawn.grants_over), (None, None));
    obs.steady = SteadyMs(36_000);
    assert_eq!(
        granted(&plan(&obs, &withdrawn)),
        Some(&name(2)),
        "after the cooldown"
    );
}

#[test]
fn a_pause_lets_an_ordered_restart_through() {
    let mut obs = healthy(0);
    wish(peer(&mut obs, 2), Some(4));
    wish(peer(&mut obs, 1), None);
    pause(&mut obs);
    assert_eq!(granted(&plan(&obs, &settled())), Some(&name(2)));
}

#[test]
fn a_restart_waits_for_the_one_that_takes_a_lost_members_place() {
    let give = |obs: &Observation| plan(obs, &settled());
    let mut lost = cluster(3, 2, 3);
    lost.spec_record.settled = Some(3);
    wish(peer(&mut lost, 1), Some(4));
    let waits = give(&lost);
    assert_eq!(granted(&waits), None);
    assert_eq!(waits.action.as_ref().map(Action::name), Some("add-learner"));

    let mut nobody = lost.clone();
    nobody.peers.insert(name(2), Fact::Unreachable("no route".into()));
    assert_eq!(granted(&give(&nobody)), Some(&name(1)), "nobody is ready to join");
    let mut paused = lost.clone();
    pause(&mut paused);
    assert_eq!(granted(&give(&paused)), Some(&name(1)), "nobody joins in a pause");
    lost.spec_record.settled = Some(2);
    assert_eq!(granted(&give(&lost)), Some(&name(1)), "it grows, nobody was lost");
}

/// The same situation, so many seconds later.
fn later(obs: &Observation, by: u64) -> Observation {
    let mut later = obs.clone();
    later.now = obs.now.plus(Duration::from_secs(by));
    later.steady = SteadyMs(later.now.0);
    later
}

#[test]
fn a_grant_that_nothing_comes_of_is_taken_back_and_another_node_has_its_turn() {
    let obs = wanting(&[1, 2]);
    let first = plan(&obs, &settled());
    let back = plan(&later(&obs, 31), &first.memory);
    assert_eq!(granted(&back), None, "a rest first: it may still be acted on");
    let next = plan(&later(&obs, 37), &back.memory);
    assert_eq!(granted(&next), Some(&name(2)));
    assert!(!codes(&next.reasons).contains(&"restart-unused"));
}

#[test]
fn a_node_that_did_not_use_its_grant_gets_the_next_one_a_minute_after_that_was_taken_back() {
    let obs = wanting(&[1]);
    let first = plan(&obs, &settled());
    assert_eq!(granted(&first), Some(&name(1)));
    let back = plan(&later(&obs, 31), &first.memory);
    for (by, again) in [(37, false), (90, false), (91, true)] {
        let decision = plan(&later(&obs, by), &back.memory);
        assert_eq!(granted(&decision).is_some(), again, "after {by} s");
        let unused = codes(&decision.reasons).contains(&"restart-unused");
        assert_eq!(unused, !again, "after {by} s: {:?}", decision.reasons);
    }
}

#[test]
fn a_cluster_of_one_restarts_by_order_alone() {
    let alone = |order| {
        let mut obs = fresh(0, 1, 1);
        let spec = obs.spec.clone();
        let g = genesis(&spec, 1, 1, Origin::Empty);
        serving(&spec, &mut obs.me, &g, 0, 1);
        obs.assignment = Some(assignment(&spec, &g, 0));
        obs.newest_epoch = Epoch(1);
        obs.in_force = in_force();
        obs.gate.cleared = Some(Generation(2));
        wish(&mut obs.me, order);
        obs
    };
    let by_itself = plan(&alone(None), &settled());
    assert_eq!(granted(&by_itself), None);
    assert!(by_itself.reasons.iter().any(|r| r.code == "restart-manual"));
    let ordered = plan(&alone(Some(3)), &settled());
    assert_eq!(granted(&ordered), Some(&name(0)));
    let next = plan(&alone(Some(3)), &ordered.memory);
    assert!(
        matches!(next.action, Some(Action::RestartEtcd { .. })),
        "{next:?}"
    );
}

#[test]
fn only_the_leave_of_who_leads_now_is_acted_on() {
    let given = |term| {
        let mut obs = healthy(1);
        wish(&mut obs.me, None);
        peer(&mut obs, 0).steering.grant = Some(Grant {
            node: name(1),
            id: 7,
            term: RaftTerm(term),
            purpose: GrantPurpose::Restart,
        });
        obs
    };
    let Some(Action::RestartEtcd {
        grant, coordinator, ..
    }) = decide(&given(2)).action
    else {
        panic!("not restarted")
    };
    assert_eq!((grant.id, coordinator), (7, name(0)));
    let table: [(&str, Spoil); 6] = [
        ("nothing to restart for", |obs| {
            obs.me.steering.wants_restart = None;
        }),
        ("for another node", |obs| {
            peer(obs, 0).steering.grant.as_mut().unwrap().node = name(2);
        }),
        ("of an older term", |obs| {
            peer(obs, 0).steering.grant.as_mut().unwrap().term = RaftTerm(1);
        }),
        ("of one that does not lead", |obs| {
            let Fact::Known(etcd) = &mut obs.me.etcd else {
                return;
            };
            etcd.leader = Some(MemberId(1));
        }),
        ("settings not written", |obs| {
            let Fact::Known(f) = &mut obs.in_force else { return };
            f.conflicts = vec!["x".into()];
        }),
        ("a start under way", |obs| {
            let Fact::Known(unit) = &mut obs.me.unit else {
                return;
            };
            unit.active = ActiveState::Activating;
        }),
    ];
    for (what, spoil) in table {
        let mut obs = given(2);
        spoil(&mut obs);
        assert_ne!(action(&obs), Some("restart-etcd"), "{what}");
    }
}

fn seat() -> impl Strategy<Value = (bool, bool, bool, u64, bool)> {
    (
        any::<bool>(),
        prop::bool::weighted(0.8),
        any::<bool>(),
        0u64..3,
        prop::bool::weighted(0.9),
    )
}

proptest! {
    /// Rules 4 and 8: only the leader's node gives a grant, only while every member is healthy, and only one
    /// at a time.
    #[test]
    fn rule_4_a_restart_is_granted_one_at_a_time_by_the_coordinator_of_a_whole_cluster(
        me in 0usize..3,
        seats in prop::collection::vec(seat(), 3),
        held in prop::option::of(0usize..3),
        paused in any::<bool>(),
        seed in any::<u64>(),
    ) {
        let mut obs = healthy(me);
        obs.seed = seed;
        for (i, (wants, up, ordered, term, reached)) in seats.iter().enumerate() {
            let status = if i == me { &mut obs.me } else { peer(&mut obs, i) };
            if *wants { wish(status, ordered.then_some(3)); }
            if !up { lose_data(status); }
            if let Fact::Known(etcd) = &mut status.etcd { etcd.term = RaftTerm(*term); }
            if !reached && i != me { obs.peers.insert(name(i), Fact::Unreachable("x".into())); }
        }
        if paused { pause(&mut obs); }
        let mut memory = settled();
        memory.grant = held.map(|i| (Grant { node: name(i), id: 1, term: RaftTerm(2), purpose: GrantPurpose::Restart }, obs.steady));
        let decision = plan(&obs, &memory);
        let new = decision.memory.grant.clone().filter(|grant| memory.grant.as_ref() != Some(grant));
        if let Some((grant, _)) = new {
            prop_assert_eq!(me, 0, "only n1 leads");
            prop_assert!(seats.iter().enumerate().all(|(i, s)| s.1 && (s.4 || i == me)), "all are healthy");
            let index = (0..3).find(|i| name(*i) == grant.node).unwrap();
            prop_assert!(seats[index].0, "it wants it");
            prop_assert!(!paused || seats[index].2, "a pause lets orders through only");
            prop_assert_ne!(index, 0, "the leader is never restarted while it leads");
        }
    }
}
