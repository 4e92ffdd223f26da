//! When the gate lets etcd start, and which starts are cancelled.

use super::*;

/// n4 and n5 were added to `cluster.nodes` after the epoch was opened, on this node first.
#[test]
fn t05_nodes_that_were_added_do_not_confirm_an_epoch_without_its_electors() {
    let mut obs = cluster(5, 3, 3);
    take_down(&mut obs.me, ActiveState::Inactive);
    obs.gate.cleared = None;
    for i in [1, 2] {
        obs.peers.insert(name(i), Fact::Unreachable("silent".into()));
    }
    assert_eq!(action(&obs), Some("clear-gate"), "all five were its electors");
    let by_electors = Action::ClearGate {
        generation: obs.assignment.as_ref().unwrap().generation,
        by_store: None,
    };
    assert_eq!(decide(&obs).action, Some(by_electors), "no store is needed");
    let genesis = obs.me.genesis.as_mut().unwrap();
    genesis
        .electorate
        .retain(|node, _| *node != name(3) && *node != name(4));
    assert_eq!(
        action(&obs),
        Some("clear-gate"),
        "a copy that its token contradicts"
    );
    let genesis = obs.me.genesis.as_mut().unwrap();
    genesis.token = crate::model::token_of(&genesis.cluster, Epoch(1), 7, genesis.electorate.keys());
    let genesis = obs.me.genesis.clone();
    for fact in obs.peers.values_mut() {
        if let Fact::Known(status) = fact {
            status.genesis.clone_from(&genesis);
        }
    }
    assert!(has(&obs, "epoch-unconfirmed"));
    assert_eq!(action(&obs), None);
    let mut second = node(&obs.spec, 1);
    second.newest_epoch = Epoch(1);
    second.genesis = genesis;
    obs.peers.insert(name(1), Fact::Known(second));
    assert_eq!(action(&obs), Some("clear-gate"));
}

/// The proposer of epoch 2 may have learned that it was chosen, and cannot be asked.
#[test]
fn rule_1_an_elector_that_has_accepted_a_later_epoch_confirms_no_older_one() {
    let starting = |voted: &[usize], silent: &[usize], new_memory: bool| {
        let mut obs = healthy(0);
        take_down(&mut obs.me, ActiveState::Inactive);
        obs.gate.cleared = None;
        for i in voted {
            let status = match i {
                0 => &mut obs.me,
                i => peer(&mut obs, *i),
            };
            if new_memory {
                status.eligible = false;
            } else {
                status.voted = Epoch(2);
            }
        }
        for i in silent {
            obs.peers.insert(name(*i), Fact::Unreachable("silent".into()));
        }
        obs
    };
    let rows: [(&str, &[usize], &[usize], bool); 5] = [
        ("nobody has voted", &[], &[1], true),
        ("the peer that answers has", &[2], &[1], false),
        ("this one has", &[0], &[1], false),
        ("a majority confirms without it", &[2], &[], true),
        ("all answer, and none has learned it", &[0, 2], &[], true),
    ];
    for (what, voted, silent, clears) in rows {
        for new_memory in [false, true] {
            let obs = starting(voted, silent, new_memory);
            assert_eq!(
                action(&obs) == Some("clear-gate"),
                clears,
                "{what}, a new memory: {new_memory}: {:?}",
                decide(&obs)
            );
            assert_eq!(has(&obs, "epoch-unconfirmed"), !clears, "{what}");
        }
    }
}

#[test]
fn a_start_that_the_gate_holds_back_for_want_of_data_is_cancelled() {
    let mut obs = healthy(1);
    lose_data(&mut obs.me);
    if let Fact::Known(u) = &mut obs.me.unit {
        u.active = ActiveState::Activating;
        u.sub = "start-pre".into();
    }
    assert_eq!(action(&obs), Some("cancel-start"));
    assert!(!has(&obs, "start-unassigned"), "a member is assigned");
}

#[test]
fn a_start_on_a_node_to_which_nothing_is_assigned_is_called_off_once_epochs_were_replaced() {
    let mut obs = fresh(2, 3, 3);
    lose_data(&mut obs.me);
    let newest = genesis(&obs.spec.clone(), 2, 2, Origin::Empty);
    obs.newest_epoch = newest.epoch;
    obs.me.newest_epoch = newest.epoch;
    obs.me.genesis = Some(newest);
    for sub in ["start-pre", "auto-restart"] {
        if let Fact::Known(unit) = &mut obs.me.unit {
            unit.active = ActiveState::Activating;
            unit.sub = sub.into();
        }
        let expected = (sub == "start-pre").then_some("cancel-start");
        assert_eq!(action(&obs), expected, "{sub}");
        assert_eq!(has(&obs, "start-unassigned"), expected.is_some(), "{sub}");
    }
}

#[test]
fn an_unconfirmed_epoch_is_not_started() {
    let mut obs = healthy(1);
    obs.me.unit = unit(ActiveState::Inactive);
    obs.me.etcd = Fact::Absent;
    obs.gate.cleared = None;
    for i in [0, 2] {
        obs.peers.insert(name(i), Fact::Unreachable("no route".into()));
    }
    assert_eq!(action(&obs), None);
    assert!(has(&obs, "epoch-unconfirmed"));
}
