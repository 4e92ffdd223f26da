//! Keeping this node's etcd as its assignment wants it.

use super::*;

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

/// The founder's agent died right after the first start and did not record it. The other nodes know of the
/// start.
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
    let mut witness_out = unseen(true);
    witness_out.me.steering.directives.out.insert(name(1));
    assert_eq!(
        action(&witness_out),
        Some("assign"),
        "it may be the only honest one"
    );
}

/// Until the gate was cleared for the first time, one node's list is no evidence of a start: it may be a lie, which
/// would take a founder or its restore away. Two lists are: root may have overridden the gate.
#[test]
fn f02_one_peers_list_makes_no_member_believe_in_a_start_that_the_gate_never_allowed() {
    let listed_by = |peers: &[usize]| {
        let mut obs = healthy(0);
        lose_data(&mut obs.me);
        let assignment = obs.assignment.as_mut().unwrap();
        (assignment.started, assignment.first_start) = (false, FirstStart::Held);
        assignment.initial_state = InitialState::New;
        let id = assignment.member_id;
        for i in peers {
            let Fact::Known(list) = &mut peer(&mut obs, *i).members else {
                unreachable!()
            };
            let own = list.members.iter_mut().find(|member| member.id == id).unwrap();
            own.client_urls = vec!["https://n1:2379".to_owned()];
        }
        action(&obs)
    };
    // What the file of this boot says is of a forgotten assignment.
    assert_eq!(listed_by(&[]), Some("clear-gate"));
    assert_eq!(listed_by(&[1]), Some("clear-gate"));
    assert_eq!(listed_by(&[1, 2]), Some("assign"));
}

/// The former member was removed and the node was added again while etcd was being started: etcd took the new
/// member's ID.
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
fn a_host_without_etcds_unit_halts_and_one_whose_unit_is_unknown_waits() {
    let mut obs = healthy(1);
    take_down(&mut obs.me, ActiveState::Inactive);
    assert_eq!(action(&obs), Some("start-etcd"));
    assert!(!has(&obs, "no-etcd-unit"));
    obs.me.unit = Fact::Unreachable("no D-Bus".into());
    assert_eq!(action(&obs), None);
    assert!(has(&obs, "unit-unknown") && !has(&obs, "no-etcd-unit"));
    obs.me.unit = Fact::Absent;
    let decision = decide(&obs);
    assert_eq!(decision.action, None);
    let halts = |reason: &Reason| reason.halt && reason.code == "no-etcd-unit";
    assert!(decision.reasons.iter().any(halts), "{:?}", decision.reasons);
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

/// Only a finished stop shows whether a person ordered it. Until then etcd has its data open.
#[test]
fn an_etcd_that_is_being_stopped_is_left_alone_until_it_is_down() {
    let mut obs = healthy(1);
    obs.me.unit = unit(ActiveState::Deactivating);
    obs.me.etcd = Fact::Absent;
    obs.me.data = Fact::Unreachable("etcd ran since the last inspection".into());
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
fn data_are_looked_at_after_a_restart_that_does_not_end_soon() {
    let look = |state: ActiveState, sub: &str, held: bool, since: u64| {
        let mut obs = healthy(1);
        obs.me.etcd = Fact::Absent;
        obs.me.data = Fact::Unreachable("etcd ran since the last inspection".into());
        obs.me.unit = unit(state);
        if let Fact::Known(unit) = &mut obs.me.unit {
            unit.sub = sub.to_owned();
            unit.held = held;
        }
        let asked = Some(SteadyMs(obs.steady.0 - since));
        let memory = Memory {
            started_at: asked,
            restarted_at: asked,
            ..Memory::default()
        };
        plan(&obs, &memory).action == Some(Action::InspectData)
    };
    let table = [
        (ActiveState::Inactive, "dead", false, 1999, false),
        (ActiveState::Inactive, "dead", false, 2000, true),
        (ActiveState::Inactive, "dead", true, 1000, true),
        (ActiveState::Activating, "start-pre", false, 1999, false),
        (ActiveState::Activating, "start-pre", false, 2000, true),
        (ActiveState::Activating, "auto-restart", false, 1000, true),
        (ActiveState::Failed, "failed", false, 1000, true),
    ];
    for (state, sub, held, since, expected) in table {
        let looks = look(state, sub, held, since);
        assert_eq!(looks, expected, "{state:?} {sub}, {since} ms after the restart");
    }
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
    // The next start of this member waits again.
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

/// etcd does not end if it has no room for the raft leader's snapshot: it waits for the next one.
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

/// Root's oneshot compares the assignment with the configuration, and the gate goes by the assignment.
#[test]
fn the_assignment_follows_the_configured_place_of_the_log() {
    let mut obs = healthy(1);
    obs.spec.etcd.wal_dir = Some("/disk/etcd".into());
    let Some(Action::Assign { assignment }) = decide(&obs).action else {
        unreachable!("{:?}", decide(&obs));
    };
    assert_eq!(assignment.wal_dir, Some("/disk/etcd".into()));
    assert_eq!(assignment.settings_digest, obs.spec.settings_digest());
    assert_eq!((assignment.started, assignment.generation), (true, Generation(3)));
}

#[test]
fn settings_that_are_refused_are_reported_with_the_reason() {
    let mut obs = healthy(1);
    obs.in_force = Fact::Absent;
    let mut memory = Memory::default();
    memory.failures.insert(ActionKind::Apply, (1, obs.steady));
    memory
        .errors
        .insert(ActionKind::Apply, "the log is elsewhere".into());
    let decision = plan(&obs, &memory);
    assert_eq!(decision.action.as_ref().map(Action::name), None);
    let reason = decision
        .reasons
        .iter()
        .find(|reason| reason.code == "not-applied");
    assert_eq!(
        reason.unwrap().text,
        "etcd's settings are not written yet: the log is elsewhere"
    );
}
