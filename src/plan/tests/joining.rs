//! Dead members, join strategies, and members that were never started.

use super::learners::with_learner;
use super::*;

pub(super) const MINUTE: u64 = 60_000;

/// Neither the agent nor the etcd of node `i` is reachable, for n1 and for every other node that answers.
pub(super) fn vanish(obs: &mut Observation, i: usize) {
    obs.peers.insert(name(i), Fact::Unreachable("no route".into()));
    obs.me.silent_agents.insert(name(i));
    obs.me.silent_etcds.insert(name(i));
    for fact in obs.peers.values_mut() {
        if let Fact::Known(status) = fact {
            status.silent_agents.insert(name(i));
            status.silent_etcds.insert(name(i));
        }
    }
}

/// The decision at first, and again after each of these minutes, with the memory kept. Returns the last one.
pub(super) fn over_time(obs: &Observation, minutes: &[u64]) -> (Option<Action>, Vec<String>) {
    let mut decision = decide(obs);
    for pause in minutes {
        let mut later = obs.clone();
        later.now = UnixMs(obs.now.0 + pause * MINUTE);
        later.steady = SteadyMs(later.now.0);
        decision = plan(&later, &decision.memory);
    }
    let codes = decision.reasons.iter().map(|r| r.code.to_string()).collect();
    (decision.action, codes)
}

pub(super) fn said(codes: &[String], code: &str) -> bool {
    codes.iter().any(|c| c == code)
}

/// Member `i` is not in the list any more.
pub(super) fn without(obs: &mut Observation, i: usize) {
    if let Fact::Known(list) = &mut obs.me.members {
        list.members.retain(|m| m.name != name(i).to_string());
    }
}

/// Asking a dead member takes 2 s. That begins before its grace of five minutes ends.
#[test]
fn a_dead_member_is_asked_once_more_until_its_grace_ends() {
    let mut obs = cluster(4, 3, 3);
    vanish(&mut obs, 2);
    let begun = obs.steady;
    let first = plan(&obs, &Memory::default());
    let after = |ms: u64| {
        let mut later = obs.clone();
        later.steady = SteadyMs(begun.0 + ms);
        plan(&later, &first.memory).action
    };
    assert_eq!(after(297_900), None);
    let Some(Action::RemoveMember { not_before, .. }) = after(298_000) else {
        panic!("not asked")
    };
    assert_eq!(not_before, SteadyMs(begun.0 + 300_000), "and not removed before");
}

#[test]
fn s25_a_dead_member_makes_way_for_a_spare_that_is_ready() {
    let mut obs = cluster(4, 3, 3);
    vanish(&mut obs, 2);
    let (early, codes) = over_time(&obs, &[4]);
    assert_eq!(early, None);
    assert!(said(&codes, "grace"));
    let (late, codes) = over_time(&obs, &[3, 5]);
    assert!(said(&codes, "replace-dead"), "{codes:?}");
    assert!(
        matches!(&late, Some(Action::RemoveMember { node, why: Removal::Dead, replaced_by: None, .. }) if *node == name(2)),
        "{late:?}"
    );

    without(&mut obs, 2);
    let (next, _) = over_time(&obs, &[]);
    assert!(
        matches!(&next, Some(Action::AddLearner { node, .. }) if *node == name(3)),
        "{next:?}"
    );
    let mut unstarted = obs.clone();
    with_learner(&mut unstarted, 3, false);
    assert!(matches!(over_time(&unstarted, &[1]), (None, codes) if said(&codes, "learner-unstarted")));
    let spare = with_learner(&mut obs, 3, true);
    assert!(matches!(over_time(&obs, &[]).0, Some(Action::Promote { id, .. }) if id == spare));
}

/// etcd's strict reconfiguration check counts a new member as one that is not connected.
#[test]
fn nobody_is_added_while_etcd_would_not_take_another() {
    type Change = fn(&mut Observation);
    let rows: [(&str, usize, Change, Option<&str>); 6] = [
        ("all of three", 3, |_| {}, Some("add-learner")),
        ("one of three is away", 3, |o| vanish(o, 2), None),
        (
            "one of three has a silent agent only",
            3,
            |o| {
                o.peers.insert(name(2), Fact::Unreachable("no route".into()));
            },
            Some("add-learner"),
        ),
        (
            "one of three reports that its etcd is down",
            3,
            |o| {
                let status = peer(o, 2);
                status.unit = unit(ActiveState::Failed);
                status.etcd = Fact::Absent;
            },
            None,
        ),
        ("one of four is away", 4, |o| vanish(o, 3), Some("add-learner")),
        ("the only one", 1, |_| {}, Some("add-learner")),
    ];
    for (what, voters, change, expected) in rows {
        let mut obs = cluster(6, voters, 5);
        obs.spec_record.settled = None;
        change(&mut obs);
        let (action, codes) = over_time(&obs, &[1]);
        assert_eq!(action.as_ref().map(Action::name), expected, "{what}: {codes:?}");
        if expected.is_none() {
            assert!(said(&codes, "too-few-healthy"), "{what}: {codes:?}");
        }
    }
    // The dead member is removed after the grace, although the cluster is below its size.
    let mut obs = cluster(6, 3, 5);
    vanish(&mut obs, 2);
    assert!(matches!(
        over_time(&obs, &[6]).0,
        Some(Action::RemoveMember {
            why: Removal::Dead,
            ..
        })
    ));
}

#[test]
fn nobody_is_dead_on_less_than_all_evidence_without_a_gap() {
    type Change = fn(&mut Observation);
    let rows: [(&str, Change); 6] = [
        ("one observer reaches its agent", |o| {
            peer(o, 1).silent_agents.clear();
        }),
        ("one observer reaches its etcd", |o| {
            peer(o, 1).silent_etcds.clear();
        }),
        ("its etcd answers this node", |o| o.me.silent_etcds.clear()),
        ("no other observer answers", |o| vanish(o, 1)),
        ("its agent answers, and says that it is held", |o| {
            let spec = o.spec.clone();
            let g = o.me.genesis.clone().unwrap();
            let mut status = node(&spec, 2);
            serving(&spec, &mut status, &g, 2, 3);
            status.etcd = Fact::Absent;
            status.unit = unit(ActiveState::Inactive);
            if let Fact::Known(unit) = &mut status.unit {
                unit.held = true;
            }
            o.peers.insert(name(2), Fact::Known(status));
        }),
        ("this agent does not coordinate", |o| {
            let leader = o.me.genesis.as_ref().unwrap().member_id(&name(1));
            if let Fact::Known(etcd) = &mut o.me.etcd {
                etcd.leader = leader;
            }
        }),
    ];
    for (what, change) in rows {
        let mut obs = cluster(4, 3, 3);
        vanish(&mut obs, 2);
        change(&mut obs);
        let (action, codes) = over_time(&obs, &[3, 6, 60]);
        assert_eq!(action, None, "{what}: {codes:?}");
    }
    // The wait starts again if the member was reachable in between.
    let mut obs = cluster(4, 3, 3);
    let well = obs.clone();
    vanish(&mut obs, 2);
    let mut memory = decide(&obs).memory;
    let mut at = |obs: &Observation, minutes: u64| {
        let mut later = obs.clone();
        later.now = UnixMs(obs.now.0 + minutes * MINUTE);
        later.steady = SteadyMs(later.now.0);
        let decision = plan(&later, &memory);
        memory = decision.memory.clone();
        decision.action
    };
    assert_eq!(at(&obs, 4), None);
    assert_eq!(at(&well, 5), None);
    assert_eq!(at(&obs, 6), None);
    assert_eq!(at(&obs, 10), None);
    assert!(matches!(
        at(&obs, 11),
        Some(Action::RemoveMember {
            why: Removal::Dead,
            ..
        })
    ));
}

#[test]
fn s22_each_join_strategy_with_a_dead_member_and_with_one_too_few() {
    let rows = [
        (
            Join::Prepare,
            None,
            "removal-not-allowed",
            None,
            "waiting-for-entry",
        ),
        (
            Join::Add,
            None,
            "removal-not-allowed",
            Some("add-learner"),
            "add-learner",
        ),
        (
            Join::Replace,
            Some("remove-member"),
            "replace-dead",
            Some("add-learner"),
            "add-learner",
        ),
        (
            Join::Prune,
            Some("remove-member"),
            "prune-dead",
            Some("add-learner"),
            "add-learner",
        ),
    ];
    for (join, dead, dead_code, few, few_code) in rows {
        let mut obs = cluster(4, 3, 3);
        obs.spec.join = join;
        let mut below = obs.clone();
        vanish(&mut obs, 2);
        let (action, codes) = over_time(&obs, &[6]);
        assert_eq!(action.as_ref().map(Action::name), dead, "{join}");
        assert!(said(&codes, dead_code), "{join}: {codes:?}");
        if let Fact::Known(list) = &mut below.me.members {
            list.members.truncate(2);
        }
        below.peers.insert(name(2), Fact::Unreachable("no route".into()));
        let (action, codes) = over_time(&below, &[]);
        assert_eq!(action.as_ref().map(Action::name), few, "{join}");
        assert!(said(&codes, few_code), "{join}: {codes:?}");
    }
}

#[test]
fn s23_prune_removes_all_dead_one_at_a_time_while_quorum_holds() {
    let mut obs = cluster(5, 5, 5);
    obs.spec.join = Join::Prune;
    vanish(&mut obs, 3);
    vanish(&mut obs, 4);
    let (action, _) = over_time(&obs, &[6]);
    assert!(matches!(&action, Some(Action::RemoveMember { node, .. }) if *node == name(3)));
    if let Fact::Known(list) = &mut obs.me.members {
        list.members.retain(|m| m.name != name(3).to_string());
    }
    let (action, _) = over_time(&obs, &[6]);
    assert!(matches!(&action, Some(Action::RemoveMember { node, .. }) if *node == name(4)));
    // With a third member out of reach, the quorum check comes first.
    let mut obs = cluster(5, 5, 5);
    obs.spec.join = Join::Prune;
    for i in 2..5 {
        vanish(&mut obs, i);
    }
    assert!(matches!(over_time(&obs, &[6]), (None, codes) if said(&codes, "too-few-healthy")));
}

#[test]
fn without_a_spare_a_dead_member_stays() {
    let mut obs = cluster(3, 3, 3);
    vanish(&mut obs, 2);
    assert!(matches!(over_time(&obs, &[6]), (None, codes) if said(&codes, "no-spare")));
}

#[test]
fn an_etcd_that_cannot_run_is_replaced_only_by_a_spare_that_is_ready() {
    for (nodes, expected) in [(3, None), (4, Some("remove-member"))] {
        let mut obs = cluster(nodes, 3, 3);
        let status = peer(&mut obs, 2);
        status.unit = unit(ActiveState::Failed);
        status.etcd = Fact::Absent;
        let (action, _) = over_time(&obs, &[6]);
        assert_eq!(action.as_ref().map(Action::name), expected);
    }
}

#[test]
fn s25_a_full_cluster_with_no_dead_member_says_so_to_the_spare() {
    let mut obs = cluster(4, 3, 3);
    assert_eq!(over_time(&obs, &[60]).0, None);
    let coordinator = obs.me.clone();
    obs.me = peer(&mut obs, 3).clone();
    obs.peers.insert(name(0), Fact::Known(coordinator));
    obs.peers.remove(&name(3));
    obs.spec.node = name(3);
    obs.assignment = None;
    let decision = decide(&obs);
    assert_eq!(decision.action, None);
    let spare = decision.reasons.iter().find(|r| r.code == "spare").unwrap();
    assert!(spare.text.contains("3 of 3 members"), "{}", spare.text);
}

/// Rule 3: the only member is removed once a spare has a vote.
#[test]
fn the_only_member_makes_way_for_a_spare_when_it_is_ordered_out() {
    let out = |obs: &mut Observation, i| obs.me.steering.directives.out.insert(name(i));
    let mut alone = cluster(3, 1, 1);
    assert_eq!(action(&alone), None);
    let remove = crate::model::DirectiveChange::Remove { node: name(0) };
    assert_eq!(crate::plan::objection(&alone, &remove, false), None);
    out(&mut alone, 0);
    assert_eq!(action(&alone), Some("add-learner"));

    let mut joining = cluster(3, 1, 1);
    with_learner(&mut joining, 1, true);
    assert_eq!(action(&joining), Some("remove-member"), "nobody needs it");
    assert!(!has(&joining, "removal-deferred"));
    out(&mut joining, 0);
    assert_eq!(action(&joining), Some("promote"));
    assert!(
        has(&joining, "removal-deferred"),
        "n1 stays until n2 has its vote"
    );

    let mut two = cluster(3, 2, 1);
    two.spec_record.settled = Some(1);
    let one_too_many = plan(&two, &super::restarts::settled()).action;
    assert_eq!(one_too_many.as_ref().map(Action::name), Some("remove-member"));
    out(&mut two, 0);
    let mut first = decide(&two);
    assert_eq!(first.action.as_ref().map(Action::name), Some("move-leader"));
    first
        .memory
        .failures
        .insert(ActionKind::MoveLeader, (5, two.steady));
    let meanwhile = plan(&two, &first.memory);
    assert_ne!(
        meanwhile.action.as_ref().map(Action::name),
        Some("remove-member"),
        "the new member is not one too many"
    );

    let mut nobody = cluster(1, 1, 1);
    let refused = crate::plan::objection(&nobody, &remove, true);
    assert!(refused.is_some_and(|why| why.contains("quorum")));
    out(&mut nobody, 0);
    assert!(has(&nobody, "too-few-healthy") && has(&nobody, "below-size"));
}

#[test]
fn a_voter_that_was_never_started_is_removed_after_the_grace() {
    let mut obs = cluster(4, 3, 3);
    let url = obs.spec.peer_url(&name(3)).unwrap();
    obs.spec.size = 5;
    obs.spec_record.settled = Some(5);
    if let Fact::Known(list) = &mut obs.me.members {
        list.members.push(Member {
            id: MemberId(77),
            name: String::new(),
            peer_urls: vec![url],
            client_urls: vec![],
            is_learner: false,
        });
    }
    let (early, codes) = over_time(&obs, &[3]);
    assert_eq!(early, None);
    assert!(said(&codes, "voter-unstarted"), "{codes:?}");
    assert!(!said(&codes, "remove-unstarted-voter"), "{codes:?}");
    let (late, codes) = over_time(&obs, &[6]);
    assert!(matches!(
        late,
        Some(Action::RemoveMember {
            why: Removal::Unstarted,
            ..
        })
    ));
    assert!(said(&codes, "remove-unstarted-voter"), "{codes:?}");
}

#[test]
fn an_entry_made_by_an_operator_is_joined_as_a_voter_only_under_prepare() {
    for (join, joins) in [(Join::Prepare, true), (Join::Replace, false)] {
        let mut obs = cluster(4, 3, 3);
        let url = obs.spec.peer_url(&name(3)).unwrap();
        if let Fact::Known(list) = &mut obs.me.members {
            list.members[2].name = String::new();
            list.members[2].id = MemberId(77);
            list.members[2].peer_urls = vec![url];
        }
        let coordinator = obs.me.clone();
        obs.me = peer(&mut obs, 3).clone();
        obs.peers.insert(name(0), Fact::Known(coordinator));
        obs.peers.remove(&name(3));
        obs.spec.node = name(3);
        obs.spec.join = join;
        obs.assignment = None;
        assert_eq!(action(&obs) == Some("assign"), joins, "{join}");
    }
}

#[test]
fn memory_survives_a_round_trip() {
    let mut obs = cluster(4, 3, 3);
    vanish(&mut obs, 2);
    let memory = decide(&obs).memory;
    assert!(!memory.dead_since.is_empty());
    let text = serde_json::to_string(&memory).unwrap();
    assert_eq!(serde_json::from_str::<Memory>(&text).unwrap(), memory);
    assert_eq!(
        serde_json::from_str::<Memory>(r#"{"unreachable_since":{},"failures":{},"started_at":null,"waiting_since":null,"start_failures":0}"#).unwrap(),
        Memory::default()
    );
}
