//! What is done with the data directory, and when it is inspected.

use super::*;

/// The description, the situation, the action, and the code of the reason, if there is one.
type Former<'a> = (&'a str, &'a dyn Fn(&mut Observation), Option<&'a str>, &'a str);

/// A peer that was cut off before this member was added still shows its old list, which was read through
/// quorum.
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

/// Data that appears between the invitation and the first start may be the only copy of another cluster's
/// data.
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

/// etcd created data of the former member in an empty directory: it asked a peer that did not know of the
/// removal yet. The assigned member may have been promoted since, so that no list invites this node any more.
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
        (
            "peers do not list it any more",
            &|_| (),
            Some("check-removal"),
            "",
        ),
        (
            "its removal is certain",
            &seen(true),
            Some("replace-data"),
            "archive",
        ),
        ("nobody confirms it", &seen(false), None, "removal-unconfirmed"),
        ("it is a member", &listed, None, "foreign-data"),
        ("the lists are too old to decide", &later, None, "foreign-data"),
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

/// The agent gets no notification when a person moves data away or puts it back.
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

/// An agent that was installed while etcd ran has never inspected etcd's data.
#[test]
fn c10d_what_the_data_of_a_running_etcd_is_on_is_noted_once() {
    let mut obs = healthy(1);
    assert_eq!(action(&obs), None);
    obs.mount_unknown = true;
    assert_eq!(action(&obs), Some("inspect-data"));
}

/// Without quorum etcd does not report which cluster it belongs to. In an empty directory it takes its ID
/// from its peers, which may still run an older epoch.
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
    // Data that does not identify its member yet is inspected again, after a pause.
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
fn c11_why_the_data_is_unknown_is_said() {
    let mut obs = healthy(1);
    obs.me.unit = unit(ActiveState::Failed);
    obs.me.etcd = Fact::Absent;
    obs.me.data = Fact::Unreachable("etcd ran since".into());
    let why = "/var/lib/etcd/default belongs to uid 0";
    let memory = Memory {
        failures: [(ActionKind::InspectData, (3, obs.steady))].into(),
        errors: [(ActionKind::InspectData, why.to_owned())].into(),
        ..Memory::default()
    };
    let decision = plan(&obs, &memory);
    assert_eq!(decision.action, None);
    let says = |reason: &Reason| reason.code == "data-unknown" && reason.text.contains(why);
    assert!(decision.reasons.iter().any(says), "{:?}", decision.reasons);
}
