//! The first epoch: which node proposes, and what it waits for.

use std::collections::BTreeSet;

use super::*;
use crate::plan::with_other_stores;

#[test]
fn three_fresh_nodes_the_lowest_name_proposes_all_three() {
    let Some(Action::Propose { genesis, .. }) = decide(&fresh(0, 3, 3)).action else {
        panic!("no proposal")
    };
    assert_eq!(genesis.members.len(), 3);
    assert_eq!(genesis.origin, Origin::Empty);
    assert_eq!(action(&fresh(1, 3, 3)), None);
}

#[test]
fn h08_no_cluster_is_formed_on_an_etcd_that_is_too_old() {
    type Change = fn(&mut Observation);
    let old: [(&str, Change); 2] = [
        ("here", |obs| obs.me.etcd_too_old = Some("3.3.27".into())),
        ("on a peer", |obs| {
            peer(obs, 2).etcd_too_old = Some("3.3.27".into());
        }),
    ];
    for (what, change) in old {
        let mut obs = fresh(0, 3, 3);
        change(&mut obs);
        let decision = decide(&obs);
        assert_eq!(decision.action, None, "{what}");
        let reason = decision
            .reasons
            .iter()
            .find(|reason| reason.code == "etcd-too-old");
        let reason = reason.unwrap_or_else(|| panic!("{what}: {:?}", decision.reasons));
        assert!(
            reason.halt && reason.text.contains("3.3.27"),
            "{what}: {reason:?}"
        );
    }
}

#[test]
fn a_cluster_is_formed_on_etcd_3_4_and_its_age_is_shown() {
    for node in [0, 2] {
        let mut obs = fresh(0, 3, 3);
        let old = Some("3.4.23".to_owned());
        match node {
            0 => obs.me.etcd_too_old = old,
            _ => peer(&mut obs, node).etcd_too_old = old,
        }
        let decision = decide(&obs);
        assert!(matches!(decision.action, Some(Action::Propose { .. })), "{node}");
        let mut shown = decision.reasons.iter();
        let reason = shown.find(|reason| reason.code == "etcd-too-old").unwrap();
        assert!(!reason.halt && reason.text.contains("3.4.23"), "{reason:?}");
    }
}

#[test]
fn one_node_alone_forms_a_cluster_of_one() {
    assert_eq!(action(&fresh(0, 1, 1)), Some("propose"));
}

#[test]
fn s04_under_size_one_the_second_node_is_no_member() {
    let Some(Action::Propose { genesis, .. }) = decide(&fresh(0, 2, 1)).action else {
        panic!("no proposal")
    };
    assert_eq!(genesis.members.keys().collect::<Vec<_>>(), vec![&name(0)]);
    let mut spare = fresh(1, 2, 1);
    spare.me.genesis = Some(*genesis.clone());
    spare.newest_epoch = Epoch(1);
    assert!(has(&spare, "spare"));
    assert_eq!(action(&spare), None);
}

#[test]
fn rule_8_a_new_memory_with_a_silent_elector_decides_nothing() {
    let mut obs = fresh(0, 3, 3);
    obs.elector.eligible = false;
    obs.elector.enquired = BTreeSet::from([name(1)]);
    obs.peers.insert(name(2), Fact::Unreachable("no route".into()));
    assert!(!matches!(action(&obs), Some("propose")));
    assert!(has(&obs, "new-memory"));
}

#[test]
fn s03_the_operators_word_at_one_node_counts_at_the_others() {
    type Change = fn(&mut Observation);
    let vouched = || {
        let mut obs = fresh(1, 3, 3);
        obs.elector.eligible = false;
        obs.elector.enquired = BTreeSet::from([name(0)]);
        obs.peers.insert(name(2), Fact::Unreachable("no route".into()));
        peer(&mut obs, 0).steering.vouched_gone = BTreeSet::from([name(2)]);
        obs
    };
    let enquires = Action::Enquire {
        without: BTreeSet::from([name(2)]),
    };
    assert_eq!(decide(&vouched()).action, Some(enquires));

    let table: [(&str, Change); 3] = [
        ("of a node that answers here", |obs| {
            let answers = obs.peers[&name(0)].clone();
            obs.peers.insert(name(2), answers);
        }),
        ("of a peer with another electorate", |obs| {
            peer(obs, 0).electorate_digest = "other".into();
        }),
        ("once there is an epoch", |obs| {
            peer(obs, 0).newest_epoch = Epoch(1);
        }),
    ];
    for (what, change) in table {
        let mut obs = vouched();
        change(&mut obs);
        let word = |action: &Action| matches!(action, Action::Enquire { without } if !without.is_empty());
        assert!(!decide(&obs).action.as_ref().is_some_and(word), "{what}");
    }
}

#[test]
fn s50_no_empty_cluster_despite_data_that_another_still_holds() {
    let mut obs = fresh(0, 3, 3);
    peer(&mut obs, 2).data = Fact::Known(DataState::Present {
        cluster_id: ClusterId(1),
        member_id: MemberId(2),
    });
    assert_eq!(action(&obs), None);
    assert!(has(&obs, "data-without-epoch"));
}

#[test]
fn c10_a_node_that_names_another_store_is_named_and_is_no_founder() {
    let form = |obs: &Observation| match decide(obs).action {
        Some(Action::Propose { genesis, .. }) => genesis.members.into_keys().collect(),
        _ => Vec::new(),
    };
    let mut obs = fresh(0, 3, 3);
    assert_eq!(form(&obs), [name(0), name(1), name(2)]);
    peer(&mut obs, 2).store_digest = Some("other".into());
    assert!(
        has(&obs, "store-differs") && form(&obs).is_empty(),
        "it is waited for"
    );
    // An agent of an older version does not report its store.
    peer(&mut obs, 2).store_digest = None;
    assert!(!has(&obs, "store-differs"));
    assert_eq!(form(&obs), [name(0), name(1), name(2)]);
    // In a running cluster the difference is only reported.
    let mut obs = healthy(0);
    peer(&mut obs, 1).store_digest = Some("other".into());
    assert!(has(&obs, "store-differs"));
}

/// The planner and the enquiry of a new memory apply the same test (`src/agent/execute/genesis.rs`).
#[test]
fn c10_of_other_stores_a_node_that_is_ordered_out_does_not_count() {
    let mut obs = healthy(0);
    let mine = obs.spec.store_digest();
    let (nobody, out) = (BTreeSet::new(), BTreeSet::from([name(1)]));
    peer(&mut obs, 1).store_digest = Some("other".into());
    assert!(with_other_stores(&obs.peers, &mine, &nobody).eq([&name(1)]));
    assert_eq!(with_other_stores(&obs.peers, &mine, &out).next(), None);
    obs.me.steering.directives.out = out.clone();
    assert!(!has(&obs, "store-differs"));
    peer(&mut obs, 2).store_digest = Some("other".into());
    assert!(with_other_stores(&obs.peers, &mine, &out).eq([&name(2)]));
    assert!(has(&obs, "store-differs"), "another one counts");
}

#[test]
fn s39_a_shared_store_that_does_not_answer_holds_the_first_epoch_back() {
    let mut obs = fresh(0, 3, 3);
    obs.spec.store_shared = true;
    obs.store = Fact::Unreachable("timed out".into());
    assert_eq!(action(&obs), None);
    assert!(has(&obs, "store-unreachable"));
}

#[test]
fn a_store_that_ignores_conditions_is_named() {
    let mut obs = fresh(0, 3, 3);
    obs.spec.store_shared = true;
    obs.store = Fact::Known(StoreView {
        conditional_writes: false,
        ..store_view(None, None)
    });
    assert_eq!(action(&obs), None);
    assert!(has(&obs, "store-ignores-conditions"));
}

#[test]
fn s39_no_empty_cluster_with_a_store_that_another_has_written_to() {
    let holding = |trace: &str| {
        let mut obs = fresh(0, 3, 3);
        obs.spec.store_shared = true;
        obs.store = Fact::Known(StoreView {
            size: Fact::Known(3),
            trace: Some(trace.to_owned()),
            ..store_view(None, None)
        });
        obs
    };
    for trace in [
        "main/control/etcd-cluster-created",
        "main/2023-11-14T22:13:20Z-000001/_etcd_backup.meta",
    ] {
        for shared in [true, false] {
            let mut obs = holding(trace);
            obs.spec.store_shared = shared;
            assert_eq!(action(&obs), None, "{trace}");
            let reasons = decide(&obs).reasons;
            let held = reasons.iter().find(|reason| reason.code == "store-without-epoch");
            assert!(
                held.is_some_and(|reason| reason.text.contains(trace)),
                "{reasons:?}"
            );
        }
    }
    // A person who wants an empty cluster anyway orders `--empty`, and a restore is carried out.
    let mut obs = holding("x");
    for empty in [false, true] {
        obs.requests = vec![OperatorRequest::Bootstrap {
            without: BTreeSet::new(),
            empty,
        }];
        assert_eq!(action(&obs), empty.then_some("propose"));
    }
    let backup = BackupId::new("2023-11-14T22:13:20Z-000001").unwrap();
    obs.requests = vec![restore_from(backup, Some(Epoch(0)))];
    assert_eq!(action(&obs), Some("fetch-backup"));
}

#[test]
fn s39_a_store_of_this_node_alone_is_waited_for_only_a_while() {
    let mut obs = fresh(0, 1, 1);
    obs.store = Fact::Unreachable("not looked at yet".into());
    assert_eq!(action(&obs), None);
    assert!(has(&obs, "store-unreachable"));
    let mut memory = decide(&obs).memory;
    memory.waiting_since = Some(SteadyMs(0));
    obs.steady = SteadyMs(60_000);
    let decision = plan(&obs, &memory);
    assert!(matches!(decision.action, Some(Action::Propose { .. })));
}

#[test]
fn a_running_cluster_of_one_is_taken_over_and_a_larger_one_is_not() {
    let mut obs = fresh(0, 1, 1);
    let spec = obs.spec.clone();
    let foreign = genesis(&spec, 1, 9, Origin::Empty);
    let mut running = node(&spec, 0);
    serving(&spec, &mut running, &foreign, 0, 1);
    (obs.me.unit, obs.me.data, obs.me.etcd, obs.me.members) =
        (running.unit, running.data, running.etcd, running.members);
    let Some(Action::Propose { genesis, .. }) = decide(&obs).action else {
        panic!("not taken over")
    };
    assert_eq!(
        (genesis.cluster_id, genesis.origin.clone()),
        (foreign.cluster_id, Origin::Member(name(0)))
    );
    assert_eq!(genesis.defect(), None);
    if let Fact::Known(list) = &mut obs.me.members {
        let mut second = list.members[0].clone();
        second.id = MemberId(5);
        list.members.push(second);
    }
    assert_eq!(action(&obs), None);
    assert!(has(&obs, "data-without-epoch"));
}

/// Five nodes, and the wait for missing electors is over: an empty cluster is formed only if all nodes that
/// answer are known to have no data.
#[test]
fn t01_no_empty_cluster_is_formed_despite_data_or_what_nobody_has_looked_at() {
    let present = || {
        Fact::Known(DataState::Present {
            cluster_id: ClusterId(0xf0),
            member_id: MemberId(0xf1),
        })
    };
    let unseen = || Fact::Unreachable("etcd-agent-data.service failed".into());
    let rows = [
        ("all are empty", None, None, Some("propose"), None),
        (
            "own data unknown",
            Some(unseen()),
            None,
            None,
            Some("data-unknown"),
        ),
        (
            "own data unknown, a peer has data",
            Some(unseen()),
            Some(present()),
            None,
            Some("data-without-epoch"),
        ),
        (
            "a peer has data",
            None,
            Some(present()),
            None,
            Some("data-without-epoch"),
        ),
        (
            "a peer's data unknown",
            None,
            Some(unseen()),
            None,
            Some("data-unknown"),
        ),
    ];
    for (what, own, peers, wanted, code) in rows {
        let mut obs = fresh(0, 5, 3);
        obs.me.data = own.unwrap_or(obs.me.data);
        // A failed inspection is tried again only after a pause.
        let mut memory = Memory {
            waiting_since: Some(SteadyMs(1)),
            ..Memory::default()
        };
        memory.failures.insert(ActionKind::InspectData, (9, obs.steady));
        if let Some(data) = peers {
            peer(&mut obs, 4).data = data;
        }
        let decision = plan(&obs, &memory);
        assert_eq!(
            decision.action.as_ref().map(Action::name),
            wanted,
            "{what}: {decision:?}"
        );
        let says = |code: &str| decision.reasons.iter().any(|r| r.code == code);
        assert!(code.is_none_or(says), "{what}: {decision:?}");
    }
}

/// Seed 6400031981 of the simulator: only n1 had learned epoch 1, started etcd with it, and lost its memory.
/// n3 has accepted the genesis, so its agent finishes the round.
#[test]
fn a_chosen_round_that_nobody_remembers_as_chosen_is_finished_with_its_value() {
    type Change = fn(&mut Observation);
    let seen = || {
        let mut obs = fresh(2, 3, 3);
        let begun = genesis(&obs.spec, 3, 1, Origin::Empty);
        let n1 = peer(&mut obs, 0);
        n1.incarnation = incarnation(8);
        n1.data = Fact::Known(DataState::Present {
            cluster_id: begun.cluster_id,
            member_id: begun.member_id(&name(0)).unwrap(),
        });
        obs.elector.accepted = Some(begun);
        obs
    };
    let act = |obs: &Observation| {
        let memory = Memory {
            waiting_since: Some(SteadyMs(0)),
            ..Memory::default()
        };
        plan(obs, &memory).action
    };
    let obs = seen();
    let Some(Action::Propose { genesis: again, .. }) = act(&obs) else {
        panic!("not proposed again")
    };
    assert!(again.same_value(obs.elector.accepted.as_ref().unwrap()));
    assert_eq!(again.electorate[&name(0)], incarnation(8));
    let rows: [(&str, Change); 8] = [
        ("not accepted here", |obs| obs.elector.accepted = None),
        ("data of another cluster", |obs| {
            obs.elector.accepted.as_mut().unwrap().cluster_id = ClusterId(9);
        }),
        ("data of another member", |obs| {
            let own = peer(obs, 0).data.clone();
            peer(obs, 1).data = own;
        }),
        ("a member may have lost its data with its memory", |obs| {
            peer(obs, 1).incarnation = incarnation(9);
        }),
        ("a member's data cannot be used", |obs| {
            peer(obs, 1).data = Fact::Known(DataState::Unusable {
                why: "no log".into(),
                member: None,
            });
        }),
        ("a member's data is unknown", |obs| {
            peer(obs, 1).data = Fact::Unreachable("no answer".into());
        }),
        ("a member is silent", |obs| {
            obs.peers.insert(name(1), Fact::Unreachable("down".into()));
        }),
        ("a person declared an elector lost", |obs| {
            obs.requests = vec![OperatorRequest::Bootstrap {
                without: BTreeSet::from([name(1)]),
                empty: false,
            }];
        }),
    ];
    for (what, change) in rows {
        let mut obs = seen();
        change(&mut obs);
        assert_eq!(act(&obs), None, "{what}");
        assert!(has(&obs, "data-without-epoch"), "{what}");
    }
}
