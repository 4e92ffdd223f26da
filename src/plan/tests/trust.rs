//! A single lying node or a writer of the store stops nothing, archives nothing and locks no operator out
//! (rule 10).

use super::*;

fn stored(genesis: Genesis) -> Fact<StoreView> {
    Fact::Known(store_view(Some(genesis), None))
}

/// Whether a reason names `who` as the source of an epoch that is not believed.
fn refuses(obs: &Observation, who: &str) -> bool {
    let decision = decide(obs);
    let mut reasons = decision.reasons.iter();
    reasons.any(|r| r.code == "epoch-refused" && r.text.starts_with(who))
}

#[test]
fn f02_an_epoch_too_far_ahead_is_refused_by_name_and_stops_and_holds_nothing() {
    for far in [1001, 1002, u64::MAX] {
        let mut running = healthy(1);
        peer(&mut running, 2).newest_epoch = Epoch(far);
        assert!(refuses(&running, "n3"), "epoch {far}");
        running.store = stored(genesis(&running.spec, 3, far.max(1002), Origin::Empty));
        assert!(refuses(&running, "the store"), "epoch {far}");
        assert_eq!(action(&running), None, "epoch {far}");
        let mut down = running;
        down.me.unit = unit(ActiveState::Failed);
        down.me.etcd = Fact::Absent;
        assert_eq!(action(&down), Some("start-etcd"), "epoch {far}");
    }
}

#[test]
fn f02_a_malformed_genesis_is_learned_from_nobody() {
    let broken = |obs: &Observation| Genesis {
        cluster_id: ClusterId(1),
        ..genesis(&obs.spec, 3, 2, Origin::Empty)
    };
    let mut obs = healthy(1);
    peer(&mut obs, 2).genesis = Some(broken(&obs));
    assert!(refuses(&obs, "n3"));
    assert_eq!(action(&obs), None);
    let mut obs = healthy(1);
    obs.store = stored(broken(&obs));
    assert!(refuses(&obs, "the store"));
    assert_eq!(action(&obs), None);
}

#[test]
fn f02_one_peers_list_neither_stops_nor_archives_a_member() {
    let mut obs = healthy(2);
    if let Fact::Known(list) = &mut peer(&mut obs, 0).members {
        list.members.truncate(2);
        list.term = RaftTerm(u64::MAX);
    }
    assert_eq!(action(&obs), Some("check-removal"), "etcd itself is asked first");
    let assigned = obs.assignment.clone().unwrap();
    obs.removal = Some(RemovalView {
        cluster_id: assigned.cluster_id,
        member_id: assigned.member_id,
        removed: false,
        at: obs.steady,
    });
    assert_eq!(action(&obs), None);
    assert!(has(&obs, "removal-hearsay"));
    take_down(&mut obs.me, ActiveState::Failed);
    assert_eq!(
        action(&obs),
        Some("start-etcd"),
        "one peer's list does not keep etcd from being started"
    );
}

/// The list also invites this node to join again. For that, the node gives up neither its member nor a
/// founder's place.
#[test]
fn f02_one_peers_invitation_takes_no_place_away() {
    for started in [true, false] {
        let mut obs = healthy(2);
        take_down(&mut obs.me, ActiveState::Failed);
        let assignment = obs.assignment.as_mut().unwrap();
        (assignment.role, assignment.started) = (Role::Founder, started);
        let url = obs.spec.peer_url(&name(2)).unwrap();
        if let Fact::Known(list) = &mut peer(&mut obs, 0).members {
            list.members.truncate(2);
            list.term = RaftTerm(u64::MAX);
            list.members.push(unstarted(MemberId(99), url));
        }
        for i in [0, 1] {
            let Fact::Known(list) = &mut peer(&mut obs, i).members else {
                panic!("a list")
            };
            // No member list shows that it has started.
            list.members
                .iter_mut()
                .filter(|member| !started && member.name == "n3")
                .for_each(|member| member.client_urls.clear());
        }
        assert_eq!(action(&obs), Some("check-removal"), "started: {started}");
    }
}

/// By its peer URL etcd could come back as the member that the node had before, without the writes that this
/// member has acknowledged.
#[test]
fn f02_one_peers_invitation_makes_no_joiner_of_a_node_that_may_have_had_a_member() {
    let invite = |obs: &mut Observation, i: usize, linearizable: bool| {
        let url = obs.spec.peer_url(&name(2)).unwrap();
        let Fact::Known(list) = &mut peer(obs, i).members else {
            panic!("a list")
        };
        list.linearizable = linearizable;
        list.members.retain(|member| member.name != "n3");
        list.members.push(unstarted(MemberId(99), url));
    };
    let joins = |obs: &Observation| matches!(decide(obs).action, Some(Action::Assign { assignment }) if assignment.member_id == MemberId(99));
    let mut obs = healthy(2);
    take_down(&mut obs.me, ActiveState::Inactive);
    obs.me.data = Fact::Known(DataState::Missing);
    obs.me.assignment = None;
    let former = obs.assignment.take();
    obs.me.incarnation = incarnation(7);
    invite(&mut obs, 0, true);
    assert!(
        !joins(&obs) && has(&obs, "invitation-hearsay"),
        "n2 still has its former member"
    );
    let mut silent = obs.clone();
    silent
        .peers
        .insert(name(1), Fact::Unreachable("no route".to_owned()));
    assert!(!joins(&silent), "n2 may still have it");
    invite(&mut obs, 1, false);
    assert!(joins(&obs), "a follower knows of it, too");
    // The node knows that its former member was removed.
    silent.assignment = former.map(|former| Assignment {
        removed: true,
        ..former
    });
    assert!(joins(&silent));

    // The only voter has no second witness.
    let Fact::Known(list) = &mut peer(&mut obs, 0).members else {
        panic!("a list")
    };
    list.members.retain(|member| member.name != "n2");
    let n2 = peer(&mut obs, 1);
    n2.members = Fact::Unreachable("down".to_owned());
    assert!(!joins(&obs), "n2 says that it has a member");
    peer(&mut obs, 1).assignment = None;
    assert!(joins(&obs), "n2 has none");
    obs.peers
        .insert(name(1), Fact::Unreachable("no route".to_owned()));
    assert!(!joins(&obs), "n2 may have one");
    obs.me.steering.directives.out.insert(name(1));
    assert!(joins(&obs), "n2 was ordered out");
}

#[test]
fn f02_a_bare_epoch_of_one_peer_stops_no_etcd() {
    for epoch in [2, 7, 1000] {
        let mut obs = healthy(0);
        peer(&mut obs, 2).newest_epoch = Epoch(epoch);
        assert_eq!(
            action(&obs),
            Some("confirm"),
            "epoch {epoch}: the electors are asked first"
        );
        assert!(has(&obs, "epoch-hearsay"));
    }
}

/// This node cannot record that epoch 2 was reported, and has read the store before epoch 2 was recorded
/// there.
#[test]
fn rule_1_a_store_confirms_no_epoch_while_a_peer_reports_a_newer_one() {
    let mut obs = healthy(0);
    take_down(&mut obs.me, ActiveState::Inactive);
    obs.gate.cleared = None;
    obs.spec.store_shared = true;
    obs.store = stored(obs.me.genesis.clone().unwrap());
    obs.peers.insert(name(1), Fact::Unreachable("silent".to_owned()));
    let tries = BTreeMap::from([(ActionKind::Confirm, (9, obs.steady))]);
    let memory = Memory {
        failures: tries,
        ..Memory::default()
    };
    for (newest, clears) in [(1, true), (2, false)] {
        peer(&mut obs, 2).newest_epoch = Epoch(newest);
        // Only the store could confirm it.
        peer(&mut obs, 2).eligible = false;
        let by_store = match plan(&obs, &memory).action {
            Some(Action::ClearGate { by_store, .. }) => by_store,
            _ => None,
        };
        // The store is read again before the gate is cleared.
        assert_eq!(by_store, clears.then_some(Epoch(1)), "newest: {newest}");
    }
}

/// Each enquiry takes seconds if a host is silent, and a lying node could report one epoch after the other.
#[test]
fn f02_an_etcd_of_a_replaced_epoch_is_stopped_before_the_electors_are_asked_about_another() {
    let mut obs = healthy(0);
    obs.me.genesis = Some(genesis(&obs.spec, 3, 2, Origin::Empty));
    obs.newest_epoch = Epoch(2);
    peer(&mut obs, 2).newest_epoch = Epoch(3);
    assert_eq!(action(&obs), Some("stop-etcd"));
    take_down(&mut obs.me, ActiveState::Inactive);
    assert_eq!(action(&obs), Some("confirm"));
}

#[test]
fn f02_a_genesis_of_one_peer_or_of_the_store_is_not_learned_unasked() {
    let mut obs = healthy(0);
    let backup = BackupId::new("2026-01-01T00:00:00Z-000001").unwrap();
    let forged = genesis(&obs.spec, 3, 2, Origin::Backup(backup));
    peer(&mut obs, 2).genesis = Some(forged.clone());
    assert_eq!(action(&obs), Some("confirm"));

    let mut obs = healthy(0);
    obs.store = stored(forged);
    match decide(&obs).action {
        Some(Action::Confirm { reported_by, .. }) => {
            assert_eq!(reported_by, [("the store".to_owned(), Epoch(2))].into());
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn f02_what_a_majority_has_denied_holds_no_start_back_whatever_the_liar_says_next() {
    let mut obs = healthy(0);
    obs.me.unit = unit(ActiveState::Failed);
    obs.me.etcd = Fact::Absent;
    assert_eq!(action(&obs), Some("start-etcd"));
    peer(&mut obs, 2).newest_epoch = Epoch(7);
    assert_eq!(action(&obs), Some("confirm"));
    obs.elector.denied = [(
        "n3".to_owned(),
        Denial {
            epoch: Epoch(7),
            at: obs.steady,
        },
    )]
    .into();
    assert_eq!(action(&obs), Some("start-etcd"));
    assert!(has(&obs, "epoch-denied") && !has(&obs, "epoch-hearsay"));
    // Another lie of the same node.
    peer(&mut obs, 2).newest_epoch = Epoch(8);
    assert_eq!(action(&obs), Some("start-etcd"));
    // The electors are still asked about it, and about another node that reports it.
    obs.steady = SteadyMs(obs.steady.0 + 5000);
    assert_eq!(action(&obs), Some("confirm"));
    obs.steady = SteadyMs(obs.steady.0 - 5000);
    peer(&mut obs, 1).newest_epoch = Epoch(8);
    assert!(has(&obs, "epoch-hearsay"));
}

/// Two nodes reported an epoch that most electors denied then. An operator may have confirmed it at these
/// nodes since.
#[test]
fn a_denied_epoch_that_two_peers_tell_of_is_asked_about_again_soon() {
    for (tell, expected) in [(vec![1, 2], Some("confirm")), (vec![2], None)] {
        let mut obs = healthy(0);
        for i in tell {
            peer(&mut obs, i).newest_epoch = Epoch(2);
            let denial = Denial {
                epoch: Epoch(2),
                at: obs.steady,
            };
            obs.elector.denied.insert(name(i).to_string(), denial);
        }
        assert_eq!(action(&obs), None);
        obs.steady = SteadyMs(obs.steady.0 + 5000);
        assert_eq!(action(&obs), expected);
        obs.steady = SteadyMs(obs.steady.0 + 600_000);
        assert_eq!(action(&obs), Some("confirm"));
    }
}

#[test]
fn f02_hearsay_that_nobody_confirms_or_denies_holds_a_start_back_and_stops_nothing() {
    let mut obs = healthy(0);
    obs.newest_epoch = Epoch(2);
    let mut memory = Memory::default();
    memory.failures.insert(ActionKind::Confirm, (9, obs.steady));
    let decision = plan(&obs, &memory);
    assert_eq!(decision.action, None, "a running etcd runs on");
    assert!(decision.reasons.iter().any(|r| r.code == "epoch-hearsay"));
    obs.me.unit = unit(ActiveState::Failed);
    obs.me.etcd = Fact::Absent;
    assert_eq!(plan(&obs, &memory).action, None, "a start is held back");
    obs.gate.cleared = None;
    assert_eq!(plan(&obs, &memory).action, None, "the gate is not cleared");
}

#[test]
fn f02_a_new_memory_moves_no_data_away_on_hearsay() {
    let mut obs = healthy(0);
    let newer = genesis(&obs.spec, 3, 2, Origin::Backup(BackupId::new("b").unwrap()));
    obs.me.genesis = Some(newer.clone());
    obs.newest_epoch = Epoch(2);
    obs.me.unit = unit(ActiveState::Inactive);
    obs.me.etcd = Fact::Absent;
    let mut assigned = assignment(&obs.spec, &newer, 0);
    (assigned.started, assigned.restore) = (false, Some(BackupId::new("b").unwrap()));
    obs.assignment = Some(assigned);
    obs.gate.cleared = None;
    obs.staged = Some((Epoch(2), BackupId::new("b").unwrap()));
    let mut memory = Memory::default();
    memory.failures.insert(ActionKind::Confirm, (9, obs.steady));
    let wanted = |obs: &Observation| plan(obs, &memory).action.map(|action| action.name());
    assert_eq!(wanted(&obs), Some("replace-data"));
    obs.elector.hearsay = true;
    assert_eq!(wanted(&obs), None);
}

#[test]
fn f02_one_peer_with_another_genesis_halts_nothing() {
    let mut obs = healthy(0);
    let mut other = genesis(&obs.spec, 3, 1, Origin::Empty);
    other.token = "prod-1-other".into();
    peer(&mut obs, 1).genesis = Some(other.clone());
    assert!(has(&obs, "genesis-differs") && !has(&obs, "two-geneses"));
    obs.store = stored(other);
    assert!(has(&obs, "two-geneses"), "two say so");
}

#[test]
fn f02_a_new_memory_with_another_genesis_from_a_liar_asks_the_electors() {
    let mut obs = healthy(0);
    let mut forged = genesis(&obs.spec, 3, 1, Origin::Empty);
    forged.token = "prod-1-forged".into();
    obs.me.genesis = Some(forged);
    obs.me.etcd = Fact::Absent;
    obs.me.data = Fact::Known(DataState::Missing);
    obs.me.assignment = None;
    obs.assignment = None;
    obs.elector.hearsay = true;
    let action = decide(&obs).action;
    assert!(matches!(action, Some(Action::Confirm { .. })), "{action:?}");
}

#[test]
fn f02_an_operators_word_on_an_epoch_is_taken_to_the_electors() {
    let mut obs = healthy(0);
    let asked = OperatorRequest::ConfirmEpoch {
        epoch: Epoch(2),
        token: "prod-2-other".into(),
    };
    obs.requests.push(asked);
    let wanted = Action::Confirm {
        reported_by: BTreeMap::new(),
        by_operator: Some("prod-2-other".into()),
    };
    assert_eq!(decide(&obs).action, Some(wanted));
}

#[test]
fn f02_a_new_memory_is_no_founder_on_hearsay() {
    let mut obs = healthy(0);
    obs.me.unit = unit(ActiveState::Inactive);
    obs.me.etcd = Fact::Absent;
    obs.me.data = Fact::Known(DataState::Missing);
    obs.assignment = None;
    obs.me.assignment = None;
    // One peer lies: in its copy of the genesis this memory took part.
    for other in 1..3 {
        peer(&mut obs, other).members = Fact::Absent;
    }
    let founder = |obs: &Observation| match decide(obs).action {
        Some(Action::Assign { assignment }) => assignment.role == Role::Founder,
        _ => false,
    };
    assert!(founder(&obs), "one that took part is");
    obs.elector.hearsay = true;
    assert!(!founder(&obs));
}
