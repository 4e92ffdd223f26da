//! Lost data: quorum, and founders that never started.

use super::increments::NEWEST;
use super::*;

#[test]
fn s17_with_all_data_lost_nothing_goes_on_alone() {
    let mut obs = healthy(0);
    lose_data(&mut obs.me);
    for i in 1..3 {
        lose_data(peer(&mut obs, i));
    }
    assert_eq!(action(&obs), None);
    assert!(has(&obs, "all-data-lost"));
}

fn follow_nobody(status: &mut NodeStatus) {
    if let Fact::Known(etcd) = &mut status.etcd {
        etcd.leader = None;
    }
}

/// In the first case n1 is left of three. In the second n1 founded the cluster alone, n2 joined, and n2's
/// agent lost its memory with the disk: n2 considers itself a spare.
#[test]
fn a_quorum_that_is_lost_for_good_is_said_by_who_is_left() {
    let mut obs = healthy(0);
    follow_nobody(&mut obs.me);
    lose_data(peer(&mut obs, 1));
    follow_nobody(peer(&mut obs, 2));
    assert!(!has(&obs, "quorum-lost"), "n1 and n3 are a quorum");
    lose_data(peer(&mut obs, 2));
    let reasons = decide(&obs).reasons;
    let said = reasons
        .iter()
        .find(|reason| reason.code == "quorum-lost")
        .unwrap();
    assert!(said.halt && said.text.contains("n2 and n3") && said.text.contains("restore latest"));

    let mut obs = cluster(3, 1, 3);
    follow_nobody(&mut obs.me);
    let mut list = obs.me.members.known().unwrap().clone();
    let url = obs.spec.peer_url(&name(1)).unwrap();
    list.members.push(Member {
        id: MemberId(7),
        name: name(1).to_string(),
        peer_urls: vec![url],
        client_urls: vec![],
        is_learner: false,
    });
    lose_data(peer(&mut obs, 1));
    peer(&mut obs, 1).incarnation = incarnation(7);
    assert!(!has(&obs, "quorum-lost"), "n1 is the only member");
    obs.me.members = Fact::Known(list.clone());
    assert!(has(&obs, "quorum-lost"));
    // etcd was restarted: without quorum it answers no client.
    obs.me.etcd = Fact::Unreachable("refused".to_owned());
    obs.me.members = Fact::Unreachable("refused".to_owned());
    obs.me.unit = unit(ActiveState::Activating);
    assert!(!has(&obs, "quorum-lost"), "nobody knows the members");
    obs.spec_record.members = Some(list);
    assert!(has(&obs, "quorum-lost"));
    // Before etcd's first answer the voters are the founders.
    let mut begun = healthy(0);
    begun.me.etcd = Fact::Unreachable("refused".to_owned());
    begun.me.members = Fact::Unreachable("refused".to_owned());
    begun.me.unit = unit(ActiveState::Activating);
    lose_data(peer(&mut begun, 1));
    follow_nobody(peer(&mut begun, 2));
    assert!(!has(&begun, "quorum-lost"), "n3 may come back");
    lose_data(peer(&mut begun, 2));
    assert!(has(&begun, "quorum-lost"));
    // A missing mount is not a loss.
    peer(&mut obs, 1).data = Fact::Unreachable("not mounted".to_owned());
    assert!(!has(&obs, "quorum-lost"));
}

/// n1 restores, and the two other nodes have lost their restored data before n1 served.
#[test]
fn a_restore_is_answered_when_quorum_of_its_epoch_is_lost() {
    let backup = BackupId::new("2026-01-01T00:00:00Z-000001").unwrap();
    let mut obs = healthy(0);
    let g = genesis(&obs.spec, 3, 2, Origin::Backup(backup.clone()));
    let mut wanted = assignment(&obs.spec, &g, 0);
    (wanted.started, wanted.restored, wanted.restore) = (false, true, Some(backup.clone()));
    obs.assignment = Some(wanted);
    obs.me.etcd = Fact::Unreachable("no answer".to_owned());
    obs.me.members = Fact::Unreachable("no answer".to_owned());
    obs.me.unit = unit(ActiveState::Activating);
    obs.me.genesis = Some(g.clone());
    (obs.me.newest_epoch, obs.newest_epoch) = (Epoch(2), Epoch(2));
    for i in 1..3 {
        let spec = obs.spec.clone();
        let status = peer(&mut obs, i);
        serving(&spec, status, &g, i, 3);
        status.genesis = Some(g.clone());
        lose_data(status);
    }
    obs.requests = vec![restore_from(backup, Some(Epoch(1)))];
    let Some(Action::Answer {
        done: false, message, ..
    }) = decide(&obs).action
    else {
        panic!("{:?}", decide(&obs))
    };
    assert!(
        message.contains("n2 and n3") && message.contains("epoch 3"),
        "{message}"
    );
    // One of them may still come up.
    peer(&mut obs, 2).data = Fact::Unreachable("not looked at".to_owned());
    assert!(!matches!(decide(&obs).action, Some(Action::Answer { .. })));
}

/// A restored epoch of three with n4 as a spare, seen by n1, which leads: n3 is a founder and has never
/// started.
fn third_never_started() -> Observation {
    let mut obs = cluster(4, 3, 3);
    let origin = Origin::Backup(BackupId::new(NEWEST).unwrap());
    let new = genesis(&obs.spec, 3, 2, origin);
    let spec = obs.spec.clone();
    serving(&spec, &mut obs.me, &new, 0, 3);
    for i in 1..4 {
        let mut status = node(&spec, i);
        serving(&spec, &mut status, &new, i.min(2), 3);
        if i == 3 {
            status.assignment = None;
        }
        if i >= 2 {
            lose_data(&mut status);
            status.unit = unit(ActiveState::Inactive);
            status.assignment = status.assignment.map(|assigned| AssignmentSummary {
                started_once: false,
                ..assigned
            });
        }
        obs.peers.insert(name(i), Fact::Known(status));
    }
    obs.assignment = Some(assignment(&spec, &new, 0));
    obs.newest_epoch = Epoch(2);
    for i in 0..2 {
        let status = if i == 0 { &mut obs.me } else { peer(&mut obs, i) };
        if let Fact::Known(list) = &mut status.members {
            for (member, at) in list.members.iter_mut().zip(0..2) {
                member.client_urls = vec![format!("https://n{at}:2379")];
            }
        }
    }
    obs
}

#[test]
fn c03_the_origin_is_needed_until_all_founders_have_started_or_are_gone() {
    type Change = fn(&mut Observation);
    fn list(obs: &mut Observation) -> &mut MemberList {
        match &mut obs.me.members {
            Fact::Known(list) => list,
            _ => unreachable!(),
        }
    }
    let rows: [(&str, Change, bool); 7] = [
        ("n3 has not started", |_| {}, true),
        (
            "n3 has started",
            |o| list(o).members[2].client_urls = vec!["https://n3:2379".into()],
            false,
        ),
        ("n3 was removed", |o| drop(list(o).members.remove(2)), false),
        (
            "only a peer's list says so",
            |o| {
                list(o).members[2].client_urls = vec!["https://n3:2379".into()];
                let members = o.me.members.clone();
                peer(o, 1).members = members;
                o.me.members = Fact::Unreachable("x".into());
            },
            false,
        ),
        (
            "nobody has a list",
            |o| {
                o.me.members = Fact::Unreachable("x".into());
                peer(o, 1).members = Fact::Absent;
            },
            true,
        ),
        (
            "the list is of another epoch",
            |o| {
                list(o).members[2].client_urls = vec!["https://n3:2379".into()];
                list(o).cluster_id = ClusterId(5);
            },
            true,
        ),
        (
            "the epoch began empty",
            |o| {
                let genesis = o.me.genesis.take().unwrap();
                o.me.genesis = Some(Genesis {
                    origin: Origin::Empty,
                    ..genesis
                });
            },
            false,
        ),
    ];
    for (what, change, needed) in rows {
        let mut obs = third_never_started();
        change(&mut obs);
        assert_eq!(crate::plan::needed_origin(&obs).is_some(), needed, "{what}");
    }
}

#[test]
fn c03_a_founder_that_does_not_start_is_replaced_like_a_broken_member() {
    let after = |obs: &Observation, secs: u64| {
        let mut memory = plan(obs, &Memory::default()).memory;
        let mut later = obs.clone();
        later.steady = SteadyMs(obs.steady.0 + secs * 1000);
        // The coordinator has led for long.
        memory.coordinates = Some((RaftTerm(2), SteadyMs(0)));
        plan(&later, &memory)
    };
    let obs = third_never_started();
    let waits = after(&obs, 299);
    assert!(
        waits.reasons.iter().any(|r| r.code == "etcd-down"),
        "{:?}",
        waits.reasons
    );
    assert!(!matches!(waits.action, Some(Action::RemoveMember { .. })));
    let Some(Action::RemoveMember { node, why, .. }) = after(&obs, 300).action else {
        panic!("not replaced")
    };
    assert_eq!((node, why), (name(2), Removal::Broken));
    // Rule 3: never below a healthy quorum, and never without a spare that takes the member's place.
    let mut two = obs.clone();
    two.peers.insert(name(1), Fact::Unreachable("no route".into()));
    assert!(!matches!(
        after(&two, 300).action,
        Some(Action::RemoveMember { .. })
    ));
    let mut alone = obs.clone();
    alone.peers.insert(name(3), Fact::Unreachable("no route".into()));
    let decision = after(&alone, 300);
    assert!(
        decision.reasons.iter().any(|r| r.code == "no-spare"),
        "{:?}",
        decision.reasons
    );
    // A member that a person has stopped is waited for.
    let mut held = obs;
    if let Fact::Known(unit) = &mut peer(&mut held, 2).unit {
        unit.held = true;
    }
    assert!(!matches!(
        after(&held, 300).action,
        Some(Action::RemoveMember { .. })
    ));
}

/// Agents start no etcd during a pause, and hosts are down for maintenance. After `resume` members have all of
/// their grace.
#[test]
fn a_pause_is_no_evidence_against_a_member() {
    let broken = third_never_started();
    let mut dead = cluster(4, 3, 3);
    super::joining::vanish(&mut dead, 2);
    for obs in [broken, dead] {
        let mut paused = obs.clone();
        super::steering::pause(&mut paused);
        let mut memory = plan(&paused, &Memory::default()).memory;
        memory.coordinates = Some((RaftTerm(2), SteadyMs(0)));
        paused.steady = SteadyMs(obs.steady.0 + 900_000);
        let memory = plan(&paused, &memory).memory;
        let mut resumed = obs.clone();
        resumed.steady = paused.steady;
        let decision = plan(&resumed, &memory);
        assert!(
            !matches!(decision.action, Some(Action::RemoveMember { .. })),
            "{decision:?}"
        );
        resumed.steady = SteadyMs(resumed.steady.0 + 300_000);
        let decision = plan(&resumed, &decision.memory);
        assert!(
            matches!(decision.action, Some(Action::RemoveMember { .. })),
            "{decision:?}"
        );
    }
}

/// n3 has started, its agent died before it recorded that, and its data is lost since. n3 believes no single peer. n1
/// has n3's client URLs from its own etcd, to which only n3's etcd can have published them.
#[test]
fn s48_a_founder_that_etcd_has_seen_start_is_replaced_without_its_own_word() {
    let gone = |obs: &Observation| {
        let action = decide(obs).action;
        matches!(action, Some(Action::RemoveMember { node, why: Removal::Gone, .. }) if node == name(2))
    };
    let mut obs = third_never_started();
    assert!(!gone(&obs));
    if let Fact::Known(list) = &mut obs.me.members {
        let third = list
            .members
            .iter_mut()
            .find(|member| member.client_urls.is_empty());
        third.unwrap().client_urls = vec!["https://n3:2379".into()];
    }
    assert!(gone(&obs), "{:?}", decide(&obs));
}
