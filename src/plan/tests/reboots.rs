//! The reboot lock: who is granted it, what it holds back, and how a node takes and releases it.

use super::restarts::{settled, wish};
use super::steering::Spoil;
use super::*;
use crate::plan::{lock_of, ok_to_stop};

fn grant_to(i: usize) -> Grant {
    Grant {
        node: name(i),
        id: 7,
        term: RaftTerm(2),
        purpose: GrantPurpose::Reboot,
    }
}

pub(super) fn lock(i: usize, version: u64, confirmed: bool) -> RebootLock {
    RebootLock {
        version,
        hold: Some(RebootHold {
            owner: LockOwner::Operator,
            since: UnixMs(5),
            grant: grant_to(i),
            confirmed,
        }),
    }
}

/// This agent has recorded that lock of node `i`.
fn record(status: &mut NodeStatus, i: usize, lock: RebootLock) {
    let recorded = RecordedLock {
        incarnation: incarnation(i),
        lock,
    };
    status.steering.reboot_locks.others.insert(name(i), recorded);
}

/// As `peer`, for any node.
fn seat(obs: &mut Observation, i: usize) -> &mut NodeStatus {
    if obs.spec.node == name(i) {
        &mut obs.me
    } else {
        peer(obs, i)
    }
}

pub(super) fn asking(nodes: &[usize]) -> Observation {
    let mut obs = healthy(0);
    for i in nodes {
        seat(&mut obs, *i).steering.wants_reboot_lock = true;
    }
    obs
}

fn granted(decision: &Decision) -> Option<(&NodeName, GrantPurpose)> {
    let (grant, _) = decision.memory.grant.as_ref()?;
    Some((&grant.node, grant.purpose))
}

fn order(obs: &mut Observation, change: &DirectiveChange) {
    let directives = &mut obs.me.steering.directives;
    *directives = directives.after(change, &name(1), UnixMs(1)).unwrap();
}

fn silence(obs: &mut Observation, i: usize) {
    obs.peers.insert(name(i), Fact::Unreachable("no route".into()));
}

#[test]
fn rule_4_the_lock_is_granted_to_one_node_of_a_whole_cluster() {
    let both = plan(&asking(&[1, 2]), &settled());
    let first = (&name(1), GrantPurpose::Reboot);
    assert_eq!(granted(&both), Some(first), "by name");
    let again = plan(&asking(&[1, 2]), &both.memory);
    assert_eq!(again.memory.grant, both.memory.grant, "one at a time");
    let leader = plan(&asking(&[0]), &settled());
    assert_eq!(granted(&leader), Some((&name(0), GrantPurpose::Reboot)));
    assert_eq!(leader.action, None, "the leader moves when its host shuts down");

    let table: [(&str, Spoil); 7] = [
        ("a voter is down", |obs| {
            take_down(peer(obs, 1), ActiveState::Inactive);
        }),
        ("a voter's agent is silent", |obs| silence(obs, 1)),
        ("another node takes the lock", |obs| {
            peer(obs, 1).steering.reboot_locks.own = lock(1, 3, false);
        }),
        ("another node holds the lock", |obs| {
            peer(obs, 1).steering.reboot_locks.own = lock(1, 3, true);
        }),
        ("the asking node holds it already", |obs| {
            peer(obs, 2).steering.reboot_locks.own = lock(2, 3, true);
        }),
        ("the asking node was ordered out", |obs| {
            order(obs, &DirectiveChange::Remove { node: name(2) });
        }),
        ("etcd on another node is to be restarted", |obs| {
            wish(peer(obs, 1), None);
        }),
    ];
    for (what, spoil) in table {
        let mut obs = asking(&[2]);
        spoil(&mut obs);
        let decision = plan(&obs, &settled());
        let got = granted(&decision).filter(|(_, purpose)| *purpose == GrantPurpose::Reboot);
        assert_eq!(got, None, "{what}");
    }
    let new = plan(&asking(&[2]), &Memory::default());
    assert_eq!(granted(&new), None, "it has only just come to lead");
}

const NO_KEY: &str = "[etcd.peer_tls]: the key is not there";

#[test]
fn rule_4_the_lock_is_not_granted_to_a_node_whose_etcd_could_not_start_again() {
    let mut obs = asking(&[1]);
    peer(&mut obs, 1).tls_trouble = Some(NO_KEY.into());
    let decision = plan(&obs, &settled());
    assert_eq!(granted(&decision), None);
    let waits = |reason: &&Reason| reason.code == ReasonCode::RebootLockWaits;
    let reason = decision.reasons.iter().find(waits).unwrap();
    assert_eq!(
        reason.text,
        format!("n2 asks for the reboot lock, and etcd there might not start again: {NO_KEY}")
    );
    peer(&mut obs, 2).steering.wants_reboot_lock = true;
    assert_eq!(
        granted(&plan(&obs, &settled())),
        Some((&name(2), GrantPurpose::Reboot)),
        "the others get it"
    );
    let mut own = asking(&[0]);
    own.me.tls_trouble = Some(NO_KEY.into());
    assert_eq!(granted(&plan(&own, &settled())), None, "the coordinator's own");
}

#[test]
fn a_node_whose_etcd_could_not_start_again_takes_no_lock() {
    let shown = |obs: &Observation| {
        let reasons = decide(obs).reasons;
        let mut waits = reasons
            .into_iter()
            .filter(|r| r.code == ReasonCode::RebootLockWaits);
        waits.next().map(|reason| reason.text)
    };
    let mut obs = taking();
    obs.me.tls_trouble = Some(NO_KEY.into());
    assert_eq!(action(&obs), None, "although it is granted");
    assert_eq!(
        shown(&obs),
        Some(format!(
            "waits for the reboot lock: etcd here might not start again: {NO_KEY}"
        ))
    );
    obs.steady = SteadyMs(obs.steady.0 + 40_000);
    let Some(Action::Answer { done, message, .. }) = decide(&obs).action else {
        panic!("not answered")
    };
    assert!(!done && message.contains(NO_KEY), "{message}");

    let mut obs = taken(lock(1, 3, false));
    obs.me.tls_trouble = Some(NO_KEY.into());
    assert_eq!(action(&obs), None, "the host does not reboot");
    assert!(shown(&obs).unwrap().contains(NO_KEY));
    obs.steady = SteadyMs(obs.steady.0 + 40_000);
    assert_eq!(action(&obs), Some("set-reboot-lock"), "it is released in the end");

    // An etcd that is down loses nothing by a reboot of its host.
    let mut down = taking();
    take_down(&mut down.me, ActiveState::Failed);
    down.me.tls_trouble = Some(NO_KEY.into());
    assert!(!shown(&down).unwrap_or_default().contains(NO_KEY));
}

/// A cluster of three with a spare that holds the lock and is silent.
fn silent_holder() -> Observation {
    let mut obs = cluster(4, 3, 3);
    peer(&mut obs, 2).steering.wants_reboot_lock = true;
    record(peer(&mut obs, 1), 3, lock(3, 4, true));
    silence(&mut obs, 3);
    obs
}

#[test]
fn a_lock_outlasts_its_holder_until_an_operator_releases_it() {
    let mut obs = silent_holder();
    let held = plan(&obs, &settled());
    assert_eq!(granted(&held), None);
    let waits = |reason: &Reason| reason.code == "reboot-lock-waits" && reason.text.contains("n4 holds");
    assert!(held.reasons.iter().any(waits), "{:?}", held.reasons);

    let (version, hold) = lock_of(&obs, &name(3));
    assert_eq!((version, hold.is_some()), (4, true));
    let node = name(3);
    order(&mut obs, &DirectiveChange::ReleaseRebootLock { node, version });
    assert_eq!(
        granted(&plan(&obs, &settled())),
        Some((&name(2), GrantPurpose::Reboot))
    );

    let mut later = silent_holder();
    order(
        &mut later,
        &DirectiveChange::ReleaseRebootLock {
            node: name(3),
            version: 3,
        },
    );
    assert_eq!(
        granted(&plan(&later, &settled())),
        None,
        "it has taken the lock again since"
    );

    let mut out = silent_holder();
    order(&mut out, &DirectiveChange::Remove { node: name(3) });
    assert_eq!(
        granted(&plan(&out, &settled())),
        Some((&name(2), GrantPurpose::Reboot))
    );
}

#[test]
fn the_newest_record_of_a_silent_node_counts() {
    let mut obs = silent_holder();
    record(&mut obs.me, 3, lock(3, 4, true).released());
    let newer = plan(&obs, &settled());
    assert_eq!(
        granted(&newer),
        Some((&name(2), GrantPurpose::Reboot)),
        "it was released since"
    );

    let mut lie = silent_holder();
    record(peer(&mut lie, 1), 3, lock(3, u64::MAX, true));
    assert_eq!(lock_of(&lie, &name(3)), (0, None), "no version could follow");
}

#[test]
fn while_the_lock_is_held_nothing_else_is_disturbed() {
    let hold = |obs: &mut Observation| peer(obs, 1).steering.reboot_locks.own = lock(1, 3, true);
    let mut restart = healthy(0);
    wish(peer(&mut restart, 2), Some(4));
    assert!(granted(&plan(&restart, &settled())).is_some());
    hold(&mut restart);
    assert_eq!(granted(&plan(&restart, &settled())), None, "a restart");

    let mut out = healthy(0);
    order(&mut out, &DirectiveChange::Remove { node: name(2) });
    assert_eq!(action(&out), Some("take-out"));
    assert!(!has(&out, "removal-deferred"));
    hold(&mut out);
    assert_eq!(action(&out), None, "a removal by order");
    assert!(has(&out, "removal-deferred"));
    let mut holder = healthy(0);
    order(&mut holder, &DirectiveChange::Remove { node: name(1) });
    hold(&mut holder);
    assert_eq!(action(&holder), Some("take-out"), "the holder itself may go");
    assert!(!has(&holder, "removal-deferred"));

    let verdict = |node: usize| {
        let mut obs = healthy(0);
        hold(&mut obs);
        ok_to_stop(&obs, &name(node))
    };
    assert_eq!(verdict(2).reasons[0].code, "reboot-lock-held");
    assert!(verdict(1).ok, "{:?}", verdict(1).reasons);
}

/// n2 asks for the lock, and n1, which leads, has granted it.
pub(super) fn taking() -> Observation {
    let mut obs = healthy(1);
    obs.requests = vec![OperatorRequest::RebootLock {
        owner: LockOwner::Operator,
        within_ms: 40_000,
        asked: obs.steady,
    }];
    peer(&mut obs, 0).steering.grant = Some(grant_to(1));
    obs
}

pub(super) fn taken(own: RebootLock) -> Observation {
    let mut obs = taking();
    for i in [0, 2] {
        record(peer(&mut obs, i), 1, own.clone());
    }
    obs.me.steering.reboot_locks.own = own;
    obs
}

#[test]
fn a_node_takes_the_lock_then_waits_until_every_member_has_recorded_it() {
    let Some(Action::SetRebootLock { lock: first }) = decide(&taking()).action else {
        panic!("not taken")
    };
    assert_eq!((first.version, first.is_confirmed()), (1, false));
    assert!(!has(&taking(), "reboot-lock-released"));
    let mut again = taking();
    record(peer(&mut again, 2), 1, lock(1, 8, true));
    let Some(Action::SetRebootLock { lock: second }) = decide(&again).action else {
        panic!("not taken")
    };
    assert_eq!(second.version, 9, "after every version that another agent knows");

    assert_eq!(action(&taken(lock(1, 3, false))), Some("confirm-reboot-lock"));
    let table: [(&str, Spoil, Option<&str>); 5] = [
        (
            "a member has recorded nothing",
            |obs| peer(obs, 2).steering.reboot_locks = RebootLocks::default(),
            None,
        ),
        ("a member is silent", |obs| silence(obs, 2), None),
        (
            "a member has recorded an older version",
            |obs| record(peer(obs, 2), 1, lock(1, 2, false)),
            None,
        ),
        (
            "the grant is gone",
            |obs| peer(obs, 0).steering.grant = None,
            Some("set-reboot-lock"),
        ),
        (
            "nobody asks any more",
            |obs| obs.requests.clear(),
            Some("set-reboot-lock"),
        ),
    ];
    for (what, spoil, expected) in table {
        let mut obs = taken(lock(1, 3, false));
        spoil(&mut obs);
        assert_eq!(action(&obs), expected, "{what}");
        assert_eq!(has(&obs, "reboot-lock-released"), expected.is_some(), "{what}");
        if let Some(Action::SetRebootLock { lock }) = decide(&obs).action {
            assert_eq!((lock.version, lock.hold), (4, None), "{what}: it is released");
        }
    }
}

#[test]
fn who_asked_for_the_lock_is_answered() {
    let answer = |obs: &Observation| match decide(obs).action {
        Some(Action::Answer { done, message, .. }) => (done, message),
        other => panic!("{other:?}"),
    };
    let (done, message) = answer(&taken(lock(1, 3, true)));
    assert!(done, "{message}");
    let mut spoiled = taken(lock(1, 3, true));
    spoiled.me.tls_trouble = Some(NO_KEY.into());
    let (done, message) = answer(&spoiled);
    assert!(
        !done && message.contains(NO_KEY),
        "asked again before the reboot: {message}"
    );

    let mut other = taken(lock(1, 3, true));
    if let OperatorRequest::RebootLock { owner, .. } = &mut other.requests[0] {
        *owner = LockOwner::FleetLock {
            id: "zincati".into(),
            group: "default".into(),
        };
    }
    let (done, message) = answer(&other);
    assert!(!done && message.contains("already, for an operator"), "{message}");

    let mut out = taking();
    order(&mut out, &DirectiveChange::Remove { node: name(1) });
    let (done, message) = answer(&out);
    assert!(!done && message.contains("without the lock"), "{message}");

    let late = |spoil: Spoil| {
        let mut obs = healthy(1);
        obs.requests = taking().requests;
        obs.steady = SteadyMs(obs.steady.0 + 40_000);
        spoil(&mut obs);
        answer(&obs)
    };
    let table: [(&str, Spoil); 3] = [
        ("n3 holds it for an operator", |obs| {
            peer(obs, 2).steering.reboot_locks.own = lock(2, 3, true);
        }),
        ("first all members have to be healthy", |obs| {
            take_down(peer(obs, 2), ActiveState::Inactive);
        }),
        ("etcd on n3 is to be restarted first", |obs| {
            wish(peer(obs, 2), Some(4));
        }),
    ];
    for (expected, spoil) in table {
        let (done, message) = late(spoil);
        assert!(!done && message.contains(expected), "{message}");
    }
}

#[test]
fn a_grant_of_the_lock_ends_when_it_is_held_or_given_up_or_not_used() {
    let mut memory = settled();
    memory.grant = Some((grant_to(1), SteadyMs(0)));
    let under = |spoil: Spoil| {
        let mut obs = asking(&[1]);
        obs.steady = SteadyMs(1000);
        let mut memory = memory.clone();
        memory.coordinates = Some((RaftTerm(2), SteadyMs(0)));
        spoil(&mut obs);
        plan(&obs, &memory).memory
    };
    assert!(under(|_| {}).grant.is_some(), "it has not taken the lock yet");
    let taking: Spoil = |obs| peer(obs, 1).steering.reboot_locks.own = lock(1, 3, false);
    assert!(under(taking).grant.is_some(), "not confirmed yet");
    let held: Spoil = |obs| peer(obs, 1).steering.reboot_locks.own = lock(1, 3, true);
    assert_eq!(under(held).grant, None);
    let reboots: Spoil = |obs| {
        record(&mut obs.me, 1, lock(1, 3, true));
        silence(obs, 1);
    };
    assert_eq!(under(reboots).grant, None, "the host reboots already");
    let gave_up: Spoil = |obs| peer(obs, 1).steering.wants_reboot_lock = false;
    assert_eq!(under(gave_up).grant, None);
    let unused: Spoil = |obs| obs.steady = SteadyMs(31_000);
    let after = under(unused);
    assert_eq!(after.grant, None);
    assert!(after.grant_unused.contains_key(&name(1)));
}

#[test]
fn the_lock_of_a_released_node_ends_when_the_node_learns_of_it() {
    let mut obs = healthy(1);
    obs.me.steering.reboot_locks.own = lock(1, 3, true);
    assert_eq!(action(&obs), None, "it stays held without a request");
    assert!(!has(&obs, "reboot-lock-released"));
    let node = name(1);
    order(&mut obs, &DirectiveChange::ReleaseRebootLock { node, version: 3 });
    assert!(has(&obs, "reboot-lock-released"));
    let Some(Action::SetRebootLock { lock }) = decide(&obs).action else {
        panic!("still held")
    };
    assert_eq!((lock.version, lock.hold), (4, None));
}
