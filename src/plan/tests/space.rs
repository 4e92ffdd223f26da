//! Defragmentation and the way back from NOSPACE.

use super::restarts::settled;
use super::steering::Spoil;
use super::*;
use crate::plan::{SpaceSeen, ok_to_stop, wants_defrag};

const GIB: u64 = 1 << 30;

/// The status of an etcd whose database has this size and this much in use, in MiB.
fn etcd_with(size: u64, in_use: u64, alarm: bool) -> EtcdStatus {
    let mut etcd = healthy(0).me.etcd.known().unwrap().clone();
    etcd.db_size_bytes = size << 20;
    etcd.db_in_use_bytes = Some(in_use << 20);
    if alarm {
        etcd.errors = vec!["memberID:1 alarm:NOSPACE".to_owned()];
    }
    etcd
}

#[test]
fn an_etcd_is_defragmented_for_free_space_for_an_order_and_for_no_space() {
    let node = name(0);
    let order = NodeOrder {
        id: 3,
        by: Some(name(1)),
        nodes: [node.clone()].into(),
    };
    let (done, before) = ((3, Some(name(1))), (2, None));
    let job = Job::default();
    let failed = Job {
        failed_at: Some(SteadyMs(0)),
        failures: 1,
        error: Some("no answer".to_owned()),
        ..Job::default()
    };
    let ordinary = SpaceSpec::default();
    let never = SpaceSpec {
        defrag_percent: 0,
        recover: false,
        ..SpaceSpec::default()
    };
    let at_night = SpaceSpec {
        defrag_on_calendar: Some("*-*-* 03:00".parse().unwrap()),
        ..SpaceSpec::default()
    };
    let (half, little, small) = (
        etcd_with(200, 100, false),
        etcd_with(200, 101, false),
        etcd_with(99, 1, false),
    );
    let full = etcd_with(2000, 1900, true);
    let base = SpaceSeen {
        node: &node,
        spec: &ordinary,
        quota: Some(2 * GIB),
        etcd: &little,
        members: Some(3),
        order: None,
        done: None,
        job: &job,
        last: None,
        compacted: Some(Revision(7)),
        steady: SteadyMs(1000),
        now: UnixMs(3 * 3_600_000 + 60_000),
    };
    let others = [name(1)].into();
    let theirs = NodeOrder {
        nodes: others,
        ..order.clone()
    };
    let table = [
        (
            "half of it free",
            SpaceSeen { etcd: &half, ..base },
            Some("100 of the 200 MiB"),
        ),
        ("less than half of it free", base, None),
        ("a small one", SpaceSeen { etcd: &small, ..base }, None),
        (
            "never",
            SpaceSeen {
                etcd: &half,
                spec: &never,
                ..base
            },
            None,
        ),
        (
            "the only member",
            SpaceSeen {
                etcd: &half,
                members: Some(1),
                ..base
            },
            None,
        ),
        (
            "the calendar's hour",
            SpaceSeen {
                etcd: &half,
                spec: &at_night,
                members: Some(1),
                ..base
            },
            Some("free"),
        ),
        (
            "another hour",
            SpaceSeen {
                etcd: &half,
                spec: &at_night,
                now: UnixMs(5 * 3_600_000),
                ..base
            },
            None,
        ),
        (
            "an order",
            SpaceSeen {
                order: Some(&order),
                done: Some(&before),
                ..base
            },
            Some("an operator ordered it"),
        ),
        (
            "an order that is done",
            SpaceSeen {
                order: Some(&order),
                done: Some(&done),
                ..base
            },
            None,
        ),
        (
            "an order for others",
            SpaceSeen {
                order: Some(&theirs),
                ..base
            },
            None,
        ),
        (
            "no space",
            SpaceSeen {
                etcd: &full,
                members: Some(1),
                spec: &at_night,
                ..base
            },
            Some("alarm NOSPACE"),
        ),
        (
            "no space, and it has just not helped",
            SpaceSeen {
                etcd: &full,
                last: Some(DefragEnd {
                    size: 2000 << 20,
                    compacted: Some(Revision(7)),
                }),
                ..base
            },
            None,
        ),
        (
            "no space, and the history is compacted since",
            SpaceSeen {
                etcd: &full,
                last: Some(DefragEnd {
                    size: 2000 << 20,
                    compacted: Some(Revision(6)),
                }),
                ..base
            },
            Some("alarm NOSPACE"),
        ),
        (
            "no space, and the operator does it",
            SpaceSeen {
                etcd: &full,
                spec: &never,
                ..base
            },
            None,
        ),
    ];
    for (what, seen, expected) in table {
        let wish = wants_defrag(&seen);
        assert_eq!(wish.is_some(), expected.is_some(), "{what}: {wish:?}");
        let why = wish.map(|wish| wish.why).unwrap_or_default();
        assert!(why.contains(expected.unwrap_or_default()), "{what}: {why}");
    }
    let seen = |steady| SpaceSeen {
        etcd: &half,
        job: &failed,
        steady,
        ..base
    };
    assert!(
        wants_defrag(&seen(SteadyMs(1000))).unwrap().rests,
        "it has just failed"
    );
    assert!(!wants_defrag(&seen(SteadyMs(3_600_000))).unwrap().rests);
}

fn wish(status: &mut NodeStatus, order: Option<u64>) {
    status.steering.defrag.wish = Some(DefragWish {
        why: "much of it is free".to_owned(),
        order,
        failed: None,
        no_space: false,
        rests: false,
    });
}

/// The compaction of everything that this node's etcd has now.
fn compaction(obs: &Observation) -> Compaction {
    let etcd = obs.me.etcd.known().unwrap();
    Compaction {
        cluster_id: etcd.cluster_id,
        revision: etcd.revision,
    }
}

fn granted(decision: &Decision) -> Option<&NodeName> {
    let (grant, _) = decision.memory.grant.as_ref()?;
    (grant.purpose == GrantPurpose::Defrag).then_some(&grant.node)
}

#[test]
fn rule_4_defragmentations_are_granted_one_at_a_time_and_the_leader_moves_first() {
    let mut obs = healthy(0);
    wish(&mut obs.me, None);
    wish(peer(&mut obs, 1), None);
    wish(peer(&mut obs, 2), None);
    let first = plan(&obs, &settled());
    assert_eq!(granted(&first), Some(&name(1)), "followers first");
    peer(&mut obs, 1).steering.defrag.running = true;
    let under_way = plan(&obs, &first.memory);
    assert_eq!(under_way.memory.grant, first.memory.grant);
    let new = plan(&obs, &settled());
    assert_eq!(granted(&new), None, "a new coordinator waits for it");
    let verdict = ok_to_stop(&obs, &name(2));
    assert!(!verdict.ok, "{verdict:?}");
    peer(&mut obs, 1).steering.defrag.running = false;
    peer(&mut obs, 1).steering.defrag.wish = None;
    let second = plan(&obs, &first.memory);
    assert_eq!(granted(&second), Some(&name(2)));
    peer(&mut obs, 2).steering.defrag.wish = None;
    let last = plan(&obs, &settled());
    assert!(
        matches!(last.action, Some(Action::MoveLeader { .. })),
        "{:?}",
        last.action
    );

    obs.me.steering.directives.version += 1;
    let early = plan(&obs, &settled());
    assert_eq!(early.action, None, "a follower may have to be defragmented first");

    let table: [(&str, Spoil); 5] = [
        ("a voter is down", |obs| {
            take_down(peer(obs, 2), ActiveState::Inactive);
        }),
        ("a backup is taken", |obs| obs.backup.running = true),
        ("the last attempt has just failed", |obs| {
            let wish = peer(obs, 1).steering.defrag.wish.as_mut().unwrap();
            wish.rests = true;
        }),
        ("a pause", |obs| {
            let directives = &mut obs.me.steering.directives;
            *directives = directives
                .after(&DirectiveChange::Pause, &name(1), UnixMs(1))
                .unwrap();
        }),
        ("etcd on another node is to be restarted", |obs| {
            super::restarts::wish(peer(obs, 2), None);
        }),
    ];
    for (what, spoil) in table {
        let mut obs = healthy(0);
        wish(peer(&mut obs, 1), None);
        assert!(granted(&plan(&obs, &settled())).is_some());
        spoil(&mut obs);
        assert_eq!(granted(&plan(&obs, &settled())), None, "{what}");
    }
}

#[test]
fn an_etcd_is_defragmented_only_under_the_grant_of_who_leads() {
    let mut obs = healthy(1);
    wish(&mut obs.me, Some(4));
    assert_eq!(plan(&obs, &Memory::default()).action, None);
    let grant = Grant {
        node: name(1),
        id: 7,
        term: obs.me.etcd.known().unwrap().term,
        purpose: GrantPurpose::Defrag,
    };
    peer(&mut obs, 0).steering.grant = Some(grant.clone());
    let decision = plan(&obs, &Memory::default());
    let expected = Action::Defrag {
        order: None,
        grant,
        coordinator: name(0),
    };
    assert_eq!(decision.action, Some(expected));
    obs.me.steering.defrag.running = true;
    assert_eq!(plan(&obs, &Memory::default()).action, None, "under way");
}

#[test]
fn no_space_is_compacted_defragmented_and_disarmed_in_this_order() {
    let with = |size: u64, in_use: u64| {
        let mut obs = healthy(0);
        for status in [&mut obs.me]
            .into_iter()
            .chain(obs.peers.values_mut().filter_map(|peer| match peer {
                Fact::Known(status) => Some(status),
                _ => None,
            }))
        {
            status.steering.defrag.full = size > 1945;
            if let Fact::Known(etcd) = &mut status.etcd {
                etcd.db_size_bytes = size << 20;
                etcd.db_in_use_bytes = Some(in_use << 20);
                etcd.errors = vec!["memberID:1 alarm:NOSPACE".to_owned()];
            }
        }
        obs
    };
    let kind = |obs: &Observation, memory: &Memory| plan(obs, memory).action.map(|action| action.kind());
    let crowded = with(2000, 1900);
    let first = plan(&crowded, &settled());
    assert!(
        matches!(first.action, Some(Action::Compact { .. })),
        "{:?}",
        first.action
    );
    let mut again = crowded.clone();
    again.me.steering.compacted = Some(compaction(&again));
    let again = plan(&again, &first.memory);
    assert_eq!(again.action, None);
    let says = |reason: &Reason| reason.text.contains("has no space after its defragmentation");
    assert!(again.reasons.iter().any(says), "{:?}", again.reasons);
    let mut waiting = with(2000, 300);
    for i in [1, 2] {
        wish(peer(&mut waiting, i), None);
    }
    wish(&mut waiting.me, None);
    let defragments = plan(&waiting, &settled());
    assert_eq!(defragments.action, None);
    assert_eq!(
        granted(&defragments),
        Some(&name(1)),
        "the members are defragmented"
    );
    assert_eq!(kind(&with(300, 300), &settled()), Some(ActionKind::DisarmNoSpace));
    let mut unknown = with(300, 300);
    unknown
        .peers
        .insert(name(2), Fact::Unreachable("no route".into()));
    assert_eq!(kind(&unknown, &settled()), None, "one may be full");
    let mut earlier = with(300, 300);
    if let Fact::Known(etcd) = &mut peer(&mut earlier, 1).etcd {
        etcd.errors.clear();
    }
    assert_eq!(
        kind(&earlier, &settled()),
        None,
        "what it reports is older than the alarm"
    );
    let mut waits = crowded.clone();
    wish(peer(&mut waits, 1), None);
    peer(&mut waits, 1)
        .steering
        .defrag
        .wish
        .as_mut()
        .unwrap()
        .no_space = true;
    let compacts = plan(&waits, &settled());
    assert!(
        matches!(compacts.action, Some(Action::Compact { .. })),
        "{compacts:?}"
    );
    assert_eq!(granted(&compacts), None, "the compaction comes first");
    waits.compact.running = true;
    assert_eq!(granted(&plan(&waits, &compacts.memory)), None, "it is under way");
    waits.compact.running = false;
    waits.me.steering.compacted = Some(compaction(&waits));
    assert_eq!(granted(&plan(&waits, &compacts.memory)), Some(&name(1)));
    let mut down = with(300, 300);
    peer(&mut down, 1).etcd = Fact::Unreachable("connection refused".into());
    assert_eq!(kind(&down, &settled()), None, "the one that is down may be full");
    let mut by_hand = crowded;
    by_hand.spec.space.recover = false;
    assert_eq!(kind(&by_hand, &settled()), None);
    by_hand.spec.space.recover = true;
    let directives = &mut by_hand.me.steering.directives;
    *directives = directives
        .after(&DirectiveChange::Pause, &name(1), UnixMs(1))
        .unwrap();
    assert_eq!(kind(&by_hand, &settled()), None, "a pause");
}

#[test]
fn rule_2_nospace_stays_in_quarantine() {
    let with = |alarms: &[&str]| {
        let mut obs = healthy(0);
        super::versions_world::each(&mut obs, |status| {
            if let Fact::Known(etcd) = &mut status.etcd {
                etcd.errors = alarms.iter().map(|alarm| (*alarm).to_owned()).collect();
            }
        });
        plan(&obs, &settled())
    };
    let space = "memberID:1 alarm:NOSPACE";
    let disarms = |decision: &Decision| matches!(decision.action, Some(Action::DisarmNoSpace { .. }));
    assert!(disarms(&with(&[space])));
    // Before etcd 3.6 a seal refuses nothing after that, either.
    let seal = crate::model::seal(5).0.0;
    for quarantine in [crate::model::QUARANTINE.0.0, seal] {
        let waits = with(&[space, &format!("memberID:{quarantine} alarm:CORRUPT")]);
        assert!(!disarms(&waits), "{waits:?}");
        let says = |reason: &Reason| reason.text.contains("`etcd-agent move --cancel` first");
        assert!(waits.reasons.iter().any(says), "{:?}", waits.reasons);
    }
    let corrupt = with(&[space, "memberID:5 alarm:CORRUPT"]);
    assert!(disarms(&corrupt), "of a member");
}
