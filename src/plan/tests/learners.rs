//! How a learner is started, promoted, or removed.

use super::joining::{MINUTE, over_time, said, vanish, without};
use super::stop::codes;
use super::*;

/// etcd answers no client before it has applied the entry with its own name, at times 7 s after it has caught
/// up.
#[test]
fn c11_a_learner_votes_before_it_answers_where_the_cluster_survives_as_much_without_it() {
    let rows = [(1, false), (2, true), (3, false), (4, true)];
    for (voters, votes) in rows {
        let mut obs = cluster(5, voters, 5);
        let id = with_learner(&mut obs, voters, true);
        let answers = over_time(&obs, &[]).0;
        assert!(
            matches!(answers, Some(Action::Promote { id: it, .. }) if it == id),
            "{voters}"
        );
        let status = peer(&mut obs, voters);
        status.etcd = Fact::Unreachable("no answer".into());
        status.unit = unit(ActiveState::Activating);
        let (action, codes) = over_time(&obs, &[]);
        let promotes = matches!(action, Some(Action::Promote { id: it, .. }) if it == id);
        assert_eq!(
            (promotes, said(&codes, "learner-starting")),
            (votes, !votes),
            "{voters}"
        );
        // With one healthy voter less, the healthy ones are no quorum.
        take_down(&mut obs.me, ActiveState::Failed);
        assert!(
            !matches!(over_time(&obs, &[]).0, Some(Action::Promote { .. })),
            "{voters}"
        );
    }
    let mut obs = cluster(3, 2, 3);
    with_learner(&mut obs, 2, true);
    take_down(peer(&mut obs, 2), ActiveState::Failed);
    assert!(
        said(&over_time(&obs, &[]).1, "learner-starting"),
        "it does not run"
    );
}

/// A learner on node `i` is in the list; it serves when `started`.
pub(super) fn with_learner(obs: &mut Observation, i: usize, started: bool) -> MemberId {
    let id = MemberId(1000 + i as u64);
    let url = obs.spec.peer_url(&name(i)).unwrap();
    let Fact::Known(list) = &mut obs.me.members else {
        panic!("no list")
    };
    list.members.push(Member {
        id,
        name: if started {
            name(i).to_string()
        } else {
            String::new()
        },
        peer_urls: vec![url],
        client_urls: vec![],
        is_learner: true,
    });
    if started {
        let g = obs.me.genesis.clone().unwrap();
        let spec = obs.spec.clone();
        let status = peer(obs, i);
        let stand_in = genesis(&spec, i + 1, 1, Origin::Empty);
        serving(&spec, status, &stand_in, i, 1);
        status.members = Fact::Unreachable("not asked".into());
        status.genesis = Some(g.clone());
        if let Some(a) = &mut status.assignment {
            (a.member_id, a.cluster_id) = (id, g.cluster_id);
        }
        if let Fact::Known(etcd) = &mut status.etcd {
            (etcd.member_id, etcd.cluster_id, etcd.is_learner) = (id, g.cluster_id, true);
        }
    }
    id
}

#[test]
fn a_learner_that_is_there_already_takes_the_place_of_a_dead_member_once_it_has_caught_up() {
    let mut obs = cluster(4, 3, 3);
    vanish(&mut obs, 2);
    let spare = with_learner(&mut obs, 3, true);
    let (action, codes) = over_time(&obs, &[4]);
    assert_eq!(action, None, "{codes:?}");
    assert!(said(&codes, "learner-waits"), "{codes:?}");
    let (action, codes) = over_time(&obs, &[4, 6]);
    assert!(!said(&codes, "learner-waits"), "{codes:?}");
    let Some(Action::RemoveMember {
        node,
        why,
        replaced_by,
        ..
    }) = action
    else {
        panic!("{action:?}")
    };
    assert_eq!((node, why, replaced_by), (name(2), Removal::Dead, Some(spare)));
    without(&mut obs, 2);
    assert!(matches!(over_time(&obs, &[]).0, Some(Action::Promote { id, .. }) if id == spare));
}

/// The coordinator gets no notification that a learner has started, or that one whose etcd is silent has
/// caught up.
#[test]
fn c11_a_learner_is_looked_at_soon_and_the_more_rarely_the_longer_it_takes() {
    let pauses = |obs: &Observation, failures: u32| {
        let first = decide(obs);
        [100, 2_000, 60_000].map(|passed| {
            let mut later = obs.clone();
            later.steady = SteadyMs(obs.steady.0 + passed);
            let mut memory = first.memory.clone();
            if failures > 0 {
                memory
                    .failures
                    .insert(ActionKind::Promote, (failures, later.steady));
            }
            later.seed = 0;
            plan(&later, &memory).wake.as_millis()
        })
    };
    let mut unstarted = cluster(3, 2, 3);
    with_learner(&mut unstarted, 2, false);
    assert_eq!(pauses(&unstarted, 0), [100, 500, 1_000]);

    let mut silent = cluster(3, 2, 3);
    with_learner(&mut silent, 2, true);
    let status = peer(&mut silent, 2);
    status.etcd = Fact::Unreachable("no answer".into());
    status.unit = unit(ActiveState::Activating);
    assert_eq!(pauses(&silent, 9), [100, 500, 5_000]);
}

#[test]
fn a_learner_that_is_not_started_is_taken_out_and_its_node_tried_later() {
    let mut obs = cluster(4, 3, 3);
    if let Fact::Known(list) = &mut obs.me.members {
        list.members.truncate(2);
    }
    obs.peers.insert(name(2), Fact::Unreachable("no route".into()));
    let without = obs.clone();
    with_learner(&mut obs, 3, false);
    let (action, early) = over_time(&obs, &[1]);
    assert_eq!(action, None);
    assert!(!said(&early, "learner-abandoned"), "{early:?}");
    let mut memory = decide(&obs).memory;
    obs.now = UnixMs(obs.now.0 + 3 * MINUTE);
    obs.steady = SteadyMs(obs.now.0);
    let decision = plan(&obs, &memory);
    assert!(matches!(
        decision.action,
        Some(Action::RemoveMember {
            why: Removal::Unstarted,
            ..
        })
    ));
    assert!(codes(&decision.reasons).contains(&"learner-abandoned"));
    memory = decision.memory;
    let mut after = without.clone();
    after.now = UnixMs(obs.now.0 + 1000);
    after.steady = SteadyMs(after.now.0);
    let decision = plan(&after, &memory);
    assert_eq!(decision.action, None);
    assert!(decision.reasons.iter().any(|r| r.code == "join-backoff"));
    after.now = UnixMs(obs.now.0 + 2 * MINUTE);
    after.steady = SteadyMs(after.now.0);
    assert!(matches!(
        plan(&after, &memory).action,
        Some(Action::AddLearner { .. })
    ));
}

#[test]
fn a_learner_that_stands_still_is_taken_out_and_one_that_moves_is_not() {
    let mut obs = cluster(4, 3, 3);
    if let Fact::Known(list) = &mut obs.me.members {
        list.members.truncate(2);
    }
    obs.peers.insert(name(2), Fact::Unreachable("no route".into()));
    with_learner(&mut obs, 3, true);
    assert_eq!(
        over_time(&obs, &[5]).0.as_ref().map(Action::name),
        Some("promote")
    );
    let (action, codes) = over_time(&obs, &[5, 11]);
    assert!(
        matches!(
            action,
            Some(Action::RemoveMember {
                why: Removal::Stuck,
                ..
            })
        ),
        "{codes:?}"
    );
    let memory = decide(&obs).memory;
    obs.now = UnixMs(obs.now.0 + 11 * MINUTE);
    obs.steady = SteadyMs(obs.now.0);
    if let Fact::Known(etcd) = &mut peer(&mut obs, 3).etcd {
        etcd.index += 1;
    }
    assert!(matches!(plan(&obs, &memory).action, Some(Action::Promote { .. })));
}

#[test]
fn a_learner_that_nobody_needs_any_more_is_taken_out() {
    let mut obs = cluster(4, 3, 3);
    with_learner(&mut obs, 3, true);
    let surplus_or_waits =
        |codes: &[String]| ["learner-surplus", "learner-waits"].map(|code| said(codes, code));
    let (action, codes) = over_time(&obs, &[]);
    assert!(matches!(
        action,
        Some(Action::RemoveMember {
            why: Removal::Surplus,
            ..
        })
    ));
    assert_eq!(surplus_or_waits(&codes), [true, false], "{codes:?}");
    obs.spec.join = Join::Prepare;
    let (action, codes) = over_time(&obs, &[]);
    assert_eq!(action, None, "an operator added it");
    assert_eq!(surplus_or_waits(&codes), [false, true], "{codes:?}");
}

/// The raft index stalls while a snapshot arrives: 8 GiB over 100 Mbit/s take longer than ten minutes.
#[test]
fn c07_a_learner_is_given_the_time_that_a_large_snapshot_takes() {
    let gib = 1u64 << 30;
    let rows = [
        ("a small database", 1, 11, true),
        ("a large one, after eleven minutes", 8 * gib, 11, false),
        ("a large one, after two hours", 8 * gib, 120, false),
        ("a large one, after three hours", 8 * gib, 180, true),
    ];
    for (what, size, minutes, gives_up) in rows {
        let mut obs = cluster(4, 2, 3);
        with_learner(&mut obs, 3, true);
        if let Fact::Known(etcd) = &mut obs.me.etcd {
            etcd.db_size_bytes = size;
        }
        let memory = decide(&obs).memory;
        obs.steady = SteadyMs(obs.steady.0 + minutes * 60_000);
        let decision = plan(&obs, &memory);
        let gives = decision.reasons.iter().any(|r| r.code == "learner-stuck");
        assert_eq!(gives, gives_up, "{what}: {decision:?}");
    }
}

#[test]
fn c12_a_promotion_that_an_old_etcd_may_forget_is_named() {
    let rows = [("3.5.16", true), ("3.5.35", false), ("3.6.16", false)];
    for (version, named) in rows {
        let mut obs = cluster(4, 2, 3);
        with_learner(&mut obs, 3, true);
        if let Fact::Known(etcd) = &mut peer(&mut obs, 1).etcd {
            version.clone_into(&mut etcd.version);
        }
        assert!(has(&obs, "promote"), "{version}");
        assert_eq!(has(&obs, "promotion-not-stored"), named, "{version}");
    }
}
