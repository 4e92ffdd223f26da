//! Keeping this node's etcd what it was assigned to be.

use super::*;

/// What it shows; the situation; what is done, and the reason that is given, if one is.
type Former<'a> = (&'a str, &'a dyn Fn(&mut Observation), Option<&'a str>, &'a str);

#[test]
fn rule_1_a_second_genesis_of_an_epoch_halts_everything() {
    let mut obs = healthy(0);
    let mut other = genesis(&obs.spec, 3, 1, Origin::Empty);
    other.token = "prod-1-other".into();
    peer(&mut obs, 1).genesis = Some(other.clone());
    peer(&mut obs, 2).genesis = Some(other);
    let decision = decide(&obs);
    assert_eq!(decision.action, None);
    assert!(decision.reasons.iter().any(|r| r.halt && r.code == "two-geneses"));
}

#[test]
fn rule_1_etcd_of_an_older_epoch_is_stopped() {
    let mut obs = healthy(1);
    let newer = genesis(&obs.spec, 3, 2, Origin::Empty);
    obs.me.genesis = Some(newer);
    obs.newest_epoch = Epoch(2);
    assert_eq!(action(&obs), Some("stop-etcd"));
}

#[test]
fn s48_a_reinstalled_founder_does_not_come_back_with_no_memory() {
    let mut obs = healthy(2);
    lose_data(&mut obs.me);
    obs.me.assignment = None;
    obs.assignment = None;
    obs.me.incarnation = incarnation(9);
    assert_eq!(action(&obs), None);
    assert!(has(&obs, "lost-membership"));
}

/// Its agent died right after the first start and took no note of it: the others have heard of it.
#[test]
fn s48_a_founder_that_has_started_unseen_is_not_started_as_new_again() {
    let unseen = |published: bool| {
        let mut obs = healthy(0);
        lose_data(&mut obs.me);
        let assignment = obs.assignment.as_mut().unwrap();
        assignment.started = false;
        assignment.initial_state = InitialState::New;
        let id = assignment.member_id;
        let Fact::Known(list) = &mut peer(&mut obs, 1).members else {
            unreachable!()
        };
        if published {
            let own = list.members.iter_mut().find(|member| member.id == id).unwrap();
            own.client_urls = vec!["https://n1:2379".to_owned()];
        }
        obs
    };
    assert_eq!(action(&unseen(false)), Some("start-etcd"));
    let decision = decide(&unseen(true));
    let Some(Action::Assign { assignment, .. }) = decision.action else {
        unreachable!("{:?}", decision.action);
    };
    assert!(assignment.started);
    assert_eq!(assignment.initial_state, InitialState::Existing);
    assert!(
        decision
            .reasons
            .iter()
            .any(|reason| reason.code == "started-once")
    );
}

/// A peer that was cut off before this member was added still shows its old list, which was read through quorum.
#[test]
fn rule_5_a_list_from_before_the_member_was_added_removes_nothing() {
    let stopped = |listed: u64, terms: [u64; 2]| {
        let mut obs = healthy(0);
        take_down(&mut obs.me, ActiveState::Inactive);
        let assignment = obs.assignment.as_mut().unwrap();
        assignment.listed = RaftTerm(listed);
        let id = assignment.member_id;
        for (i, term) in [1, 2].into_iter().zip(terms) {
            let Fact::Known(list) = &mut peer(&mut obs, i).members else {
                unreachable!()
            };
            list.term = RaftTerm(term);
            list.members.retain(|member| member.id != id);
        }
        action(&obs)
    };
    assert_eq!(stopped(0, [2, 2]), Some("check-removal"));
    assert_eq!(stopped(3, [2, 3]), Some("check-removal"));
    assert_eq!(stopped(3, [2, 2]), Some("start-etcd"));
}

/// Data that appears between the invitation and the first start may be the only copy of another cluster's data.
#[test]
fn rule_5_a_joiner_moves_no_data_of_an_unknown_cluster_away() {
    let (former, unknown) = (ClusterId(5), ClusterId(6));
    for (cluster_id, expected) in [(former, Some("replace-data")), (unknown, None)] {
        let mut obs = healthy(2);
        lose_data(&mut obs.me);
        let assigned = obs.assignment.as_mut().unwrap();
        let before = assigned.member_id;
        (assigned.role, assigned.started, assigned.member_id) = (Role::Joiner, false, MemberId(99));
        for i in [0, 1] {
            let status = peer(&mut obs, i);
            status.genesis.as_mut().unwrap().former = vec![former];
            let Fact::Known(list) = &mut status.members else {
                unreachable!()
            };
            list.linearizable = true;
            let me = list.members.iter_mut().find(|member| member.id == before);
            let me = me.unwrap();
            (me.id, me.is_learner) = (MemberId(99), true);
            me.name.clear();
        }
        obs.me.genesis.as_mut().unwrap().former = vec![former];
        obs.me.data = Fact::Known(DataState::Present {
            cluster_id,
            member_id: MemberId(7),
        });
        assert_eq!(action(&obs), expected, "{cluster_id}");
        assert_eq!(has(&obs, "foreign-data"), expected.is_none());
    }
}

/// etcd made data of the former member in an empty directory: it asked a peer that had not heard of the removal. The member that
/// is assigned may have been promoted by then, and nobody invites this node any more.
#[test]
fn rule_5_data_of_a_former_member_makes_way_once_its_removal_is_confirmed() {
    let former = MemberId(7);
    let seen = |removed: bool| {
        move |obs: &mut Observation| {
            obs.removal = Some(RemovalView {
                cluster_id: obs.me.genesis.as_ref().unwrap().cluster_id,
                member_id: former,
                removed,
                at: obs.steady,
            });
        }
    };
    let listed = |obs: &mut Observation| {
        for i in [0, 1] {
            let Fact::Known(list) = &mut peer(obs, i).members else {
                unreachable!()
            };
            let mut member = list.members[0].clone();
            member.id = former;
            list.members.push(member);
        }
    };
    let later = |obs: &mut Observation| obs.assignment.as_mut().unwrap().listed = RaftTerm(3);
    let rows: [Former<'_>; 5] = [
        ("peers list it no more", &|_| (), Some("check-removal"), ""),
        (
            "its removal is certain",
            &seen(true),
            Some("replace-data"),
            "archive",
        ),
        ("nobody confirms it", &seen(false), None, "removal-unconfirmed"),
        ("it is a member", &listed, None, "foreign-data"),
        ("the lists are too old to tell", &later, None, "foreign-data"),
    ];
    for (what, change, expected, code) in rows {
        let mut obs = healthy(2);
        take_down(&mut obs.me, ActiveState::Inactive);
        obs.me.data = Fact::Known(DataState::Present {
            cluster_id: obs.me.genesis.as_ref().unwrap().cluster_id,
            member_id: former,
        });
        change(&mut obs);
        assert_eq!(action(&obs), expected, "{what}");
        assert!(code.is_empty() || has(&obs, code), "{what}: {:?}", decide(&obs));
    }
}

/// The former member was removed and the node added anew while etcd was being started: etcd took the new member's ID.
#[test]
fn a_member_that_etcd_came_up_as_before_it_was_assigned_is_taken_up() {
    for listed in [true, false] {
        let mut obs = healthy(2);
        let assigned = obs.assignment.as_mut().unwrap();
        let own = assigned.member_id;
        (assigned.role, assigned.started, assigned.removed) = (Role::Joiner, false, true);
        assigned.member_id = MemberId(7);
        for i in [0, 1] {
            if let Fact::Known(list) = &mut peer(&mut obs, i).members {
                list.members.retain(|member| listed || member.id != own);
            }
        }
        for up in [true, false] {
            if !up {
                take_down(&mut obs.me, ActiveState::Inactive);
            }
            obs.me.data = Fact::Known(DataState::Present {
                cluster_id: obs.me.genesis.as_ref().unwrap().cluster_id,
                member_id: own,
            });
            let taken_up = match decide(&obs).action {
                Some(Action::Assign { assignment }) => assignment.member_id == own && assignment.started,
                _ => false,
            };
            assert_eq!(taken_up, listed, "up: {up}");
        }
    }
}

/// Nobody tells the agent that a person has moved data away, or has put it back.
#[test]
fn data_that_waits_for_a_person_is_looked_at_again() {
    let foreign = DataState::Present {
        cluster_id: ClusterId(6),
        member_id: MemberId(7),
    };
    let stopped = |data: DataState| {
        let mut obs = healthy(0);
        take_down(&mut obs.me, ActiveState::Inactive);
        obs.me.data = Fact::Known(data);
        obs
    };
    let founder = || {
        let mut obs = stopped(foreign.clone());
        (obs.assignment, obs.me.assignment) = (None, None);
        obs
    };
    let formless = || {
        let mut obs = fresh(0, 3, 3);
        obs.me.data = Fact::Known(foreign.clone());
        obs
    };
    let reinstalled = || {
        let mut obs = founder();
        obs.me.incarnation = Incarnation::new("f".repeat(32)).unwrap();
        obs
    };
    let rows: [(&str, &dyn Fn() -> Observation); 5] = [
        ("lost-membership", &reinstalled),
        ("foreign-data", &|| stopped(foreign.clone())),
        ("data-gone", &|| stopped(DataState::Missing)),
        ("data-in-the-way", &founder),
        ("data-without-epoch", &formless),
    ];
    for (code, seen) in rows {
        let mut obs = seen();
        let mut memory = Memory {
            waiting_since: Some(SteadyMs(0)),
            ..Memory::default()
        };
        let mut looks = 0;
        for _ in 0..120 {
            let decision = plan(&obs, &memory);
            assert!(
                decision.reasons.iter().any(|r| r.code == code),
                "{code}: {decision:?}"
            );
            match &decision.action {
                Some(Action::InspectData) => looks += 1,
                other => assert_eq!(*other, None, "{code}"),
            }
            memory = decision.memory;
            obs.steady = SteadyMs(obs.steady.0 + 1000);
        }
        assert_eq!(looks, 7, "{code}: every 15 s for two minutes");
    }
}

/// An agent that was installed beside a running etcd never had to look at its data.
#[test]
fn c10d_what_the_data_of_a_running_etcd_is_on_is_noted_once() {
    let mut obs = healthy(1);
    assert_eq!(action(&obs), None);
    obs.mount_unknown = true;
    assert_eq!(action(&obs), Some("inspect-data"));
}

/// Without quorum etcd does not say which cluster it is of. In an empty directory it takes its ID from its peers, who may still run
/// an older epoch.
#[test]
fn an_etcd_that_does_not_answer_is_known_by_its_data() {
    let mut obs = healthy(1);
    let own = obs.assignment.as_ref().map(|a| (a.cluster_id, a.member_id));
    obs.me.unit = unit(ActiveState::Activating);
    obs.me.etcd = Fact::Unreachable("no answer".to_owned());
    obs.me.members = Fact::Unreachable("no answer".to_owned());
    let first = decide(&obs);
    assert_eq!(first.action, None);
    obs.steady = SteadyMs(obs.steady.0 + 5000);
    let second = plan(&obs, &first.memory);
    assert_eq!(second.action, Some(Action::InspectData));
    // Data that does not say whose it is yet is looked at again, and not without a pause.
    obs.steady = SteadyMs(obs.steady.0 + 1000);
    let third = plan(&obs, &second.memory);
    assert_eq!(third.action, None);
    obs.steady = SteadyMs(obs.steady.0 + 14_000);
    let fourth = plan(&obs, &third.memory);
    assert_eq!(fourth.action, Some(Action::InspectData));
    let with = |runs_on| {
        let mut obs = obs.clone();
        obs.runs_on = runs_on;
        plan(&obs, &first.memory)
    };
    let said = |decision: &Decision| decision.reasons.iter().any(|r| r.code == "foreign-member");
    assert!(with(own).action.is_none() && !said(&with(own)));
    let other = Some((ClusterId(5), MemberId(5)));
    assert!(with(other).action.is_none() && said(&with(other)));

    let newer = Genesis {
        former: vec![obs.me.genesis.as_ref().unwrap().cluster_id],
        ..genesis(&obs.spec, 3, 2, Origin::Empty)
    };
    let mut astray = obs.clone();
    astray.runs_on = own;
    astray.assignment = Some(assignment(&obs.spec, &newer, 1));
    astray.me.genesis = Some(newer);
    (astray.newest_epoch, astray.me.newest_epoch) = (Epoch(2), Epoch(2));
    let action = plan(&astray, &first.memory).action;
    assert_eq!(action, Some(Action::StopEtcd { newest: Epoch(2) }));
}

/// n4 and n5 were put into `cluster.nodes` since the epoch was opened, on this node first.
#[test]
fn t05_nodes_that_were_added_do_not_confirm_an_epoch_without_its_electors() {
    let mut obs = cluster(5, 3, 3);
    take_down(&mut obs.me, ActiveState::Inactive);
    obs.gate.cleared = None;
    for i in [1, 2] {
        obs.peers.insert(name(i), Fact::Unreachable("silent".into()));
    }
    assert_eq!(action(&obs), Some("clear-gate"), "all five were its electors");
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
fn a_conflicting_setting_keeps_etcd_from_being_started() {
    let mut obs = healthy(1);
    obs.me.unit = unit(ActiveState::Inactive);
    obs.me.etcd = Fact::Absent;
    if let Fact::Known(f) = &mut obs.in_force {
        f.conflicts.push("/etc/default/etcd:3: --config-file".into());
    }
    assert_eq!(action(&obs), None);
    assert!(has(&obs, "settings-overridden"));
}

#[test]
fn a_crashed_member_is_started_again_and_a_held_one_is_not() {
    let mut obs = healthy(1);
    obs.me.unit = unit(ActiveState::Failed);
    obs.me.etcd = Fact::Absent;
    assert_eq!(action(&obs), Some("start-etcd"));
    if let Fact::Known(u) = &mut obs.me.unit {
        u.held = true;
    }
    assert_eq!(action(&obs), None);
    assert!(has(&obs, "stopped-by-operator"));
}

/// Whose stop it is shows when it is over, and etcd has its data open until then.
#[test]
fn an_etcd_that_is_being_stopped_is_left_alone_until_it_is_down() {
    let mut obs = healthy(1);
    obs.me.unit = unit(ActiveState::Deactivating);
    obs.me.etcd = Fact::Absent;
    obs.me.data = Fact::Unreachable("etcd ran since it was last looked at".into());
    assert_eq!(action(&obs), None);
    assert!(has(&obs, "stopping"));
    obs.me.data = healthy(1).me.data;
    assert_eq!(action(&obs), None);
}

#[test]
fn a_member_seen_running_for_the_first_time_is_remembered_as_started() {
    let mut obs = healthy(1);
    if let Some(a) = &mut obs.assignment {
        a.started = false;
        a.initial_state = InitialState::New;
    }
    let Some(Action::Assign { assignment }) = decide(&obs).action else {
        panic!("not remembered")
    };
    assert!(assignment.started);
    assert_eq!(assignment.initial_state, InitialState::Existing);
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
    }
}

#[test]
fn a_reinstalled_agent_takes_its_joined_member_up_again() {
    let mut obs = healthy(2);
    obs.assignment = None;
    obs.me.assignment = None;
    obs.me.incarnation = incarnation(9);
    let joined = MemberId(77);
    if let Fact::Known(DataState::Present { member_id, .. }) = &mut obs.me.data {
        *member_id = joined;
    }
    if let Fact::Known(list) = &mut peer(&mut obs, 0).members {
        list.members[2].id = joined;
    }
    let Some(Action::Assign { assignment }) = decide(&obs).action else {
        panic!("not taken up")
    };
    assert_eq!((assignment.member_id, assignment.started), (joined, true));
}

#[test]
fn the_data_is_looked_at_while_systemd_waits_to_restart_a_crashed_etcd() {
    let mut obs = healthy(1);
    obs.me.etcd = Fact::Absent;
    obs.me.data = Fact::Unreachable("etcd ran since".into());
    if let Fact::Known(u) = &mut obs.me.unit {
        u.active = ActiveState::Activating;
        u.sub = "auto-restart".into();
    }
    assert_eq!(action(&obs), Some("inspect-data"));
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

#[test]
fn a_start_that_was_just_queued_is_no_reason_to_look_at_the_data() {
    let mut obs = healthy(1);
    lose_data(&mut obs.me);
    obs.me.unit = unit(ActiveState::Inactive);
    obs.me.data = Fact::Unreachable("etcd was started".into());
    let started = |ago: u64| Memory {
        started_at: Some(SteadyMs(obs.steady.0 - ago)),
        ..Memory::default()
    };
    let decide = |memory: &Memory| plan(&obs, memory);
    let queued = decide(&started(20));
    assert_eq!(queued.action, None);
    assert!(queued.wake <= Duration::from_millis(180));
    assert_eq!(decide(&started(300)).action, Some(Action::InspectData));
}

#[test]
fn c11_a_start_that_was_shown_and_has_ended_is_looked_at_at_once() {
    let mut obs = healthy(1);
    obs.me.etcd = Fact::Absent;
    obs.me.data = Fact::Unreachable("etcd was started".into());
    let after = |shown: ActiveState, sub: &str, restarted: bool| {
        let mut memory = Memory {
            started_at: Some(SteadyMs(obs.steady.0 - 20)),
            ..Memory::default()
        };
        memory.restarted_at = memory.started_at.filter(|_| restarted);
        let mut obs = obs.clone();
        for state in [shown, ActiveState::Failed] {
            obs.me.unit = unit(state);
            if let Fact::Known(unit) = &mut obs.me.unit {
                unit.sub = sub.to_owned();
            }
            let decision = plan(&obs, &memory);
            if state == ActiveState::Failed {
                return decision.action;
            }
            memory = decision.memory;
        }
        None
    };
    let looks = Some(Action::InspectData);
    assert_eq!(after(ActiveState::Activating, "start", false), looks);
    assert_eq!(after(ActiveState::Failed, "failed", false), None, "not shown yet");
    let at_gate = after(ActiveState::Activating, "start-pre", false);
    assert_eq!(at_gate, None, "the gate holds it");
    let restarts = after(ActiveState::Active, "running", true);
    assert_eq!(restarts, None, "up before its restart");
}

#[test]
fn c11_the_pause_after_starts_that_failed_is_not_for_another_member() {
    let mut obs = healthy(1);
    obs.me.unit = unit(ActiveState::Failed);
    obs.me.etcd = Fact::Absent;
    let me = obs.assignment.as_ref().unwrap().member_id;
    let start = |failed: Option<MemberId>| {
        let memory = Memory {
            started_at: Some(obs.steady),
            started_as: failed,
            start_shown: true,
            start_failures: 3,
            ..Memory::default()
        };
        let decision = plan(&obs, &memory);
        let starts = matches!(decision.action, Some(Action::StartEtcd { .. }));
        (starts, decision.memory)
    };
    assert!(!start(Some(me)).0);
    let (starts, memory) = start(Some(MemberId(me.0 + 1)));
    assert!(starts);
    // The next one of this member waits again.
    assert_eq!((memory.started_as, memory.start_failures), (Some(me), 1));
}

#[test]
fn while_the_leader_is_down_the_next_one_is_looked_for() {
    let wake = |obs: &Observation| decide(obs).wake;
    let mut obs = healthy(1);
    assert!(wake(&obs) >= Duration::from_secs(5));
    obs.peers.insert(name(0), Fact::Unreachable("no route".into()));
    assert!(wake(&obs) <= Duration::from_secs(1));
    let mut obs = healthy(1);
    lose_data(peer(&mut obs, 0));
    assert!(wake(&obs) <= Duration::from_millis(100));
}

#[test]
fn c11_what_keeps_etcd_down_is_named_and_leads_to_nothing() {
    let mut obs = healthy(1);
    obs.me.unit = unit(ActiveState::Failed);
    obs.me.etcd = Fact::Absent;
    let memory = Memory {
        started_at: Some(obs.steady),
        started_as: obs.assignment.as_ref().map(|assignment| assignment.member_id),
        start_failures: 3,
        ..Memory::default()
    };
    let table = [
        (Trouble::NoSpace, 9, Some("no-space")),
        (Trouble::ReadOnly, 9, Some("disk-read-only")),
        (Trouble::NotPermitted, 9, Some("not-permitted")),
        (Trouble::DiskError, 9, Some("disk-error")),
        (Trouble::AddressTaken, 9, Some("address-taken")),
        (Trouble::Certificate, 9, Some("certificate-unusable")),
        (Trouble::Learners, 9, Some("too-many-learners")),
        (Trouble::Log, 1, Some("damage-unproven")),
        (Trouble::Database, 2, Some("damage-unproven")),
        (Trouble::Database, 1, None),
    ];
    for (trouble, starts, code) in table {
        obs.last_words = Some(LastWords {
            trouble,
            text: "its last words".into(),
            starts,
        });
        let decision = plan(&obs, &memory);
        assert_eq!(decision.action, None, "{trouble:?}");
        let named: Vec<&str> = decision
            .reasons
            .iter()
            .filter(|reason| reason.text.contains("its last words"))
            .map(|reason| reason.code.as_str())
            .collect();
        assert_eq!(named, Vec::from_iter(code), "{trouble:?}");
    }
}

/// etcd does not end where it has no room for the raft leader's snapshot: it waits for the next one.
#[test]
fn s34_an_etcd_that_starts_without_room_is_named() {
    let mut obs = healthy(1);
    obs.me.unit = unit(ActiveState::Activating);
    obs.me.etcd = Fact::Unreachable("refused".into());
    assert!(!has(&obs, "no-space"));
    obs.no_room = true;
    assert!(has(&obs, "no-space") && has(&obs, "starting"));
    assert_eq!(action(&obs), None);
}

#[test]
fn c11_why_the_data_is_unknown_is_said() {
    let mut obs = healthy(1);
    obs.me.unit = unit(ActiveState::Failed);
    obs.me.etcd = Fact::Absent;
    obs.me.data = Fact::Unreachable("etcd ran since".into());
    let why = "/var/lib/etcd/default belongs to uid 0";
    let memory = Memory {
        failures: [("inspect-data".to_owned(), (3, obs.steady))].into(),
        errors: [("inspect-data".to_owned(), why.to_owned())].into(),
        ..Memory::default()
    };
    let decision = plan(&obs, &memory);
    assert_eq!(decision.action, None);
    let says = |reason: &Reason| reason.code == "data-unknown" && reason.text.contains(why);
    assert!(decision.reasons.iter().any(says), "{:?}", decision.reasons);
}
