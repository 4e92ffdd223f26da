//! Which versions of etcd a node takes: not an older one than its data, a binary that was replaced, a log
//! that the next minor can read, and downgrades.

use super::restarts::{settled, wish};
use super::steering::pause;
use super::versions_world::{
    base, converted, each, key_of_v2, read_v2, runs, seen, select, to, upgrade, version, wish_of,
    with_versions,
};
use super::*;
use crate::model::{V2Names, V2View};
use crate::plan::{disk_decides, downgrade_to_validate, upgrade_objection, wants_after_reading};

/// A single node can forge the cancelled upgrade and what it runs. It cannot forge what this node's own etcd
/// reports.
#[test]
fn rule_10_data_that_etcd_has_converted_keep_it_from_going_back() {
    for selected in [None, Some(version("3.5.35"))] {
        let mut obs = with_versions(1, &["3.5.35", "3.6.10", "3.6.16"]);
        converted(&mut obs);
        let forged = EtcdSelection {
            version: selected,
            before: Some(version("3.6.16")),
            cancelled: true,
            ..EtcdSelection::default()
        };
        select(&mut obs, &forged);
        each(&mut obs, |status| {
            status.assignment.as_mut().unwrap().etcd_version = Some(version("3.6.16"));
        });
        obs.assignment.as_mut().unwrap().etcd_version = Some(version("3.6.16"));
        runs(peer(&mut obs, 2), "3.5.35");
        peer(&mut obs, 2).assignment.as_mut().unwrap().etcd_version = selected;
        let why = wish_of(&obs).unwrap_err();
        assert!(
            why.contains("etcd 3.5.35 does not open data that etcd 3.6 has converted"),
            "{why}"
        );
        // The same where the version that is assigned has never served.
        obs.assignment.as_mut().unwrap().etcd_version = Some(version("3.6.10"));
        assert!(wish_of(&obs).is_err());
        obs.assignment.as_mut().unwrap().etcd_version = Some(version("3.6.16"));
        // No operator is locked out: the members stay where they are, and the version can be ordered again.
        each(&mut obs, |status| {
            status.etcd_binaries.as_mut().unwrap().base = None;
        });
        runs(peer(&mut obs, 2), "3.6.16");
        assert_eq!(upgrade_objection(&obs, &upgrade("3.6.16")), None);

        let mut down = obs.clone();
        let present = down.me.data.clone();
        take_down(&mut down.me, ActiveState::Failed);
        down.me.data = present;
        down.stored = Some(version("3.6.0"));
        down.served = Some(version("3.6.10"));
        let action = plan(&down, &Memory::default()).action;
        assert!(!matches!(action, Some(Action::Assign { .. })), "{action:?}");
    }
}

#[test]
fn a_binary_that_was_replaced_needs_a_restart_if_that_is_a_good_step() {
    let mut obs = with_versions(1, &[]);
    base(&mut obs, "3.5.40");
    assert_eq!(wish_of(&obs), Ok(None), "the process was started from it");
    obs.base.replaced = true;
    let wish = wish_of(&obs).unwrap().unwrap();
    assert!(
        wish.contains("etcd 3.5.35 runs, and its binary was replaced by 3.5.40"),
        "{wish}"
    );
    for (good, text) in [
        (true, "3.5.35"),
        (true, "3.5.30"),
        (true, "3.6.16"),
        (false, "3.7.3"),
        (false, "3.4.30"),
    ] {
        base(&mut obs, text);
        assert_eq!(wish_of(&obs).is_ok(), good, "{text}");
    }
    base(&mut obs, "3.5.35");
    assert_eq!(wish_of(&obs), Ok(None), "the same version");
    base(&mut obs, "3.5.40");
    select(&mut obs, &to("3.5.35"));
    obs.assignment.as_mut().unwrap().etcd_version = Some(version("3.5.35"));
    assert_eq!(wish_of(&obs), Ok(None), "another etcd is selected");
}

#[test]
fn a_binary_is_asked_for_its_version_once() {
    let mut obs = with_versions(1, &[]);
    assert_eq!(plan(&obs, &Memory::default()).action, None);
    obs.base.unknown = true;
    let asked = plan(&obs, &Memory::default());
    assert_eq!(asked.action, Some(Action::InspectData));
    assert_eq!(plan(&obs, &asked.memory).action, None, "the answer is on its way");
}

#[test]
fn a_node_says_what_it_wants_while_its_disk_is_read() {
    let mut obs = with_versions(1, &["3.5.40", "3.6.16"]);
    select(&mut obs, &to("3.6.16"));
    let after_reading = |obs: &Observation| {
        let objection = wish_of(obs).err()?;
        Some((wants_after_reading(&seen(obs))?, objection))
    };
    assert_eq!(after_reading(&obs), None, "its disk was read");
    obs.v2 = V2View::default();
    let (why, unread) = after_reading(&obs).unwrap();
    assert_eq!(why, "etcd 3.5.35 runs, and 3.6.16 is selected");
    assert!(unread.contains("etcd's log is read first"), "{unread}");
    obs.v2 = read_v2(key_of_v2(), obs.steady);
    assert_eq!(after_reading(&obs), None, "it never starts on these");
    obs.steady = SteadyMs(obs.steady.0 + 90_000);
    assert!(after_reading(&obs).is_some(), "it is read again");
    obs.v2.found = Fact::Unreachable("it is garbage".to_owned());
    assert_eq!(after_reading(&obs), None);
    obs.v2 = V2View::default();
    select(&mut obs, &to("3.5.40"));
    assert_eq!(after_reading(&obs), None, "the disk does not decide");
    select(&mut obs, &to("3.7.3"));
    assert_eq!(after_reading(&obs), None, "it is refused in any case");
}

#[test]
fn a_log_is_read_where_a_newer_etcd_could_start_on_it() {
    let mut obs = with_versions(1, &["3.6.16", "3.7.3"]);
    let reads = |obs: &Observation, memory: &Memory| plan(obs, memory).action == Some(Action::InspectData);
    assert!(!reads(&obs, &Memory::default()), "3.5 runs");
    converted(&mut obs);
    base(&mut obs, "3.6.16");
    assert!(reads(&obs, &Memory::default()));
    let looked = Memory {
        looked_at: Some(obs.steady),
        ..Memory::default()
    };
    obs.me.v2_entries = Some(true);
    assert!(!reads(&obs, &looked));
    obs.steady = SteadyMs(obs.steady.0 + 60_000);
    assert!(reads(&obs, &looked), "etcd may have written a snapshot");
    obs.me.v2_entries = Some(false);
    assert!(!reads(&obs, &looked));
    let mut none = with_versions(1, &["3.6.16"]);
    converted(&mut none);
    base(&mut none, "3.6.16");
    assert!(!reads(&none, &Memory::default()), "no newer etcd is there");
}

/// A node whose own disk is clean may have taken the order. This one does not start etcd 3.6 on its own.
#[test]
fn a_node_with_keys_of_v2_on_its_disk_takes_no_etcd_without_that_api() {
    let mut obs = with_versions(1, &["3.5.40", "3.6.16"]);
    let mut package = obs.clone();
    package.base.replaced = true;
    base(&mut package, "3.6.16");
    select(&mut obs, &to("3.6.16"));
    let now = obs.steady;
    let unreadable = V2View {
        found: Fact::Unreachable("it is garbage".to_owned()),
        at: now,
    };
    for mut seen in [obs, package] {
        assert!(wish_of(&seen).unwrap().is_some(), "its disk is clean");
        for (v2, expected) in [
            (
                read_v2(key_of_v2(), now),
                "the key \"/app/one\", and etcd 3.6.16 does not start",
            ),
            (V2View::default(), "etcd's log is read first"),
            (unreadable.clone(), "is not known: it is garbage"),
        ] {
            seen.v2 = v2;
            let why = wish_of(&seen).unwrap_err();
            assert!(why.contains(expected), "{why}");
            let reasons = plan(&seen, &Memory::default()).reasons;
            let refused = reasons.iter().find(|reason| reason.code == "upgrade-refused");
            assert!(
                refused.is_some_and(|reason| reason.text.contains(expected)),
                "{reasons:?}"
            );
        }
        // A client may have written since.
        seen.v2 = read_v2(V2Names::default(), now);
        seen.steady = SteadyMs(now.0 + 90_000);
        assert!(wish_of(&seen).unwrap_err().contains("etcd's log is read first"));
        // No other node holds it back: the answers of its peers may be false, or missing (rule 10).
        seen.steady = now;
        peer(&mut seen, 0).v2_trouble = key_of_v2().trouble();
        assert!(wish_of(&seen).unwrap().is_some());
    }
}

/// Nothing is assigned under a grant either.
#[test]
fn rule_4_a_grant_takes_no_node_to_an_etcd_that_does_not_start_on_its_disk() {
    let mut obs = with_versions(1, &["3.6.16"]);
    select(&mut obs, &to("3.6.16"));
    wish(&mut obs.me, None);
    peer(&mut obs, 0).steering.grant = Some(Grant {
        node: name(1),
        id: 7,
        term: RaftTerm(2),
        purpose: GrantPurpose::Restart,
    });
    let assigns = |obs: &Observation| {
        let action = plan(obs, &Memory::default()).action;
        matches!(action, Some(Action::Assign { assignment }) if assignment.etcd_version.is_some())
    };
    assert!(assigns(&obs));
    obs.v2 = read_v2(key_of_v2(), obs.steady);
    assert!(!assigns(&obs));
    obs.v2 = V2View::default();
    assert!(!assigns(&obs));
}

#[test]
fn the_disk_is_read_for_keys_of_v2_only_while_a_step_depends_on_it() {
    let mut obs = with_versions(1, &["3.5.40", "3.6.16"]);
    let begin = obs.steady;
    let reads = |obs: &Observation| {
        let memory = Memory {
            looked_at: Some(begin),
            ..Memory::default()
        };
        let reads = plan(obs, &memory).action == Some(Action::InspectData);
        assert!(!reads || disk_decides(obs));
        reads
    };
    let after = |obs: &Observation, seconds: u64| {
        let mut later = obs.clone();
        later.steady = SteadyMs(begin.0 + seconds * 1000);
        reads(&later)
    };
    obs.v2 = V2View::default();
    assert!(!after(&obs, 600), "3.6 is only unpacked");
    select(&mut obs, &to("3.5.40"));
    assert!(!after(&obs, 600), "it has the API, too");
    let mut package = obs.clone();
    package.me.etcd_binaries.as_mut().unwrap().base = Some(version("3.6.16"));
    package.base.replaced = true;
    assert!(
        after(&package, 600),
        "the next start takes it until a version is assigned"
    );
    let mut assigned = package.clone();
    assigned.assignment.as_mut().unwrap().etcd_version = Some(version("3.5.40"));
    assert!(!after(&assigned, 600), "the assigned version counts");
    select(&mut obs, &to("3.6.16"));
    each(&mut package, |status| status.steering.directives.etcd = None);
    for (mut seen, replaced) in [(obs, false), (package, true)] {
        assert!(!after(&seen, 0), "it was just tried");
        assert!(after(&seen, 1));
        let mut idle = seen.clone();
        pause(&mut idle);
        assert!(!after(&idle, 600), "no step is taken during a pause");
        idle.me.steering.wants_reboot_lock = true;
        assert_eq!(after(&idle, 600), replaced, "the next start may take it");
        for (what, found, again) in [
            ("clean", Fact::Known(V2Names::default()), 30),
            ("keys", Fact::Known(key_of_v2()), 60),
            ("not read", Fact::Unreachable("it is garbage".to_owned()), 15),
        ] {
            seen.v2 = V2View { found, at: begin };
            assert!(!after(&seen, again - 1), "{what}");
            assert!(after(&seen, again), "{what}");
        }
        runs(&mut seen.me, "3.6.16");
        seen.assignment.as_mut().unwrap().etcd_version = seen.me.selected_etcd().and_then(|to| to.version);
        assert!(!disk_decides(&seen), "it runs");
    }
}

fn down_to(text: &str) -> EtcdSelection {
    EtcdSelection {
        downgrade: true,
        before: Some(version("3.6.16")),
        ..to(text)
    }
}

fn prepares(obs: &mut Observation, downgrade: Option<&str>) {
    each(obs, |status| {
        let Fact::Known(etcd) = &mut status.etcd else {
            return;
        };
        etcd.downgrade_to = downgrade.map(version);
        etcd.storage_version = Some(version(downgrade.unwrap_or("3.6.0")));
    });
}

#[test]
fn a_downgrade_is_refused_unless_it_is_a_good_step() {
    let mut obs = with_versions(0, &["3.5.16", "3.5.35", "3.6.16"]);
    converted(&mut obs);
    let refused = |obs: &Observation, text: &str| {
        upgrade_objection(obs, &DirectiveChange::Downgrade { to: version(text) })
    };
    assert_eq!(refused(&obs, "3.5.35"), None);
    for (text, part) in [
        ("3.7.3", "an upgrade is not a downgrade"),
        ("3.5.16", "take 3.5.26"),
        ("3.4.30", "one minor at a time"),
        ("3.6.1", "n1 has no etcd 3.6.1"),
    ] {
        let why = refused(&obs, text).unwrap();
        assert!(why.contains(part), "{text}: {why}");
    }
    lose_data(peer(&mut obs, 1));
    let why = refused(&obs, "3.5.35").unwrap();
    assert!(why.contains("first all members have to be healthy"), "{why}");
}

#[test]
fn etcd_itself_is_asked_before_a_downgrade_is_ordered() {
    let mut obs = with_versions(0, &["3.5.35", "3.6.1", "3.6.16"]);
    converted(&mut obs);
    let asked = |obs: &Observation, text: &str| {
        downgrade_to_validate(obs, &DirectiveChange::Downgrade { to: version(text) })
    };
    assert_eq!(asked(&obs, "3.5.35"), Some(version("3.5.35")));
    assert_eq!(asked(&obs, "3.6.1"), None, "etcd converts nothing for it");
    assert_eq!(downgrade_to_validate(&obs, &upgrade("3.7.3")), None);
    prepares(&mut obs, Some("3.5.0"));
    assert_eq!(
        asked(&obs, "3.5.35"),
        None,
        "etcd would object to its own downgrade"
    );
    assert_eq!(asked(&obs, "3.4.30"), Some(version("3.4.30")), "to another minor");
    obs.me.etcd = Fact::Absent;
    assert_eq!(asked(&obs, "3.5.35"), None, "it has no etcd to ask");
}

/// All members run 3.6.16, and 3.5.35 is ordered.
fn ordered(me: usize) -> Observation {
    let mut obs = with_versions(me, &["3.5.35", "3.6.16"]);
    converted(&mut obs);
    base(&mut obs, "3.6.16");
    select(&mut obs, &down_to("3.5.35"));
    obs
}

/// etcd does not announce that its data are converted.
#[test]
fn a_node_looks_often_while_its_etcd_converts_its_data() {
    let mut obs = ordered(1);
    let wake = |obs: &Observation, memory: &Memory| plan(obs, memory).wake;
    let first = plan(&obs, &settled());
    assert_eq!(first.action, None);
    assert_eq!(first.wake, Duration::from_millis(200));
    obs.steady = SteadyMs(obs.steady.0 + 9_000);
    assert_eq!(wake(&obs, &first.memory), Duration::from_millis(200));
    // A member does not answer etcd, or an operator waits.
    obs.steady = SteadyMs(obs.steady.0 + 1_000);
    assert_eq!(wake(&obs, &first.memory), Duration::from_secs(1));
    let mut idle = obs.clone();
    pause(&mut idle);
    let paused = plan(&idle, &first.memory);
    assert_eq!(paused.wake, Duration::from_secs(5));
    // Another wait begins with frequent looks again.
    assert_eq!(wake(&obs, &paused.memory), Duration::from_millis(200));
    prepares(&mut obs, Some("3.5.0"));
    assert_eq!(wake(&obs, &first.memory), Duration::from_secs(5), "converted");
}

/// The coordinator may see before the other nodes that the data are converted.
#[test]
fn the_leader_does_not_move_before_the_others_have_converted_their_data() {
    let mut obs = ordered(0);
    prepares(&mut obs, Some("3.5.0"));
    wish(&mut obs.me, None);
    let Fact::Known(etcd) = &mut peer(&mut obs, 1).etcd else {
        panic!("n2 serves")
    };
    etcd.storage_version = Some(version("3.6.0"));
    let waits = plan(&obs, &settled());
    assert_eq!(waits.action, None);
    assert!(waits.memory.grant.is_none());
    assert!(waits.wake <= Duration::from_millis(100));
    let text = "but first etcd on n2 converts its data";
    assert!(
        waits.reasons.iter().any(|reason| reason.text.contains(text)),
        "{:?}",
        waits.reasons
    );
    prepares(&mut obs, Some("3.5.0"));
    let last = plan(&obs, &settled()).action;
    assert!(matches!(last, Some(Action::MoveLeader { .. })), "{last:?}");
    wish(peer(&mut obs, 1), None);
    let granted = plan(&obs, &settled()).memory.grant.unwrap().0;
    assert_eq!(granted.node, name(1));
}

#[test]
fn a_log_is_not_read_during_a_downgrade() {
    let mut obs = with_versions(1, &["3.5.35", "3.6.16", "3.7.3"]);
    converted(&mut obs);
    base(&mut obs, "3.6.16");
    select(&mut obs, &down_to("3.5.35"));
    assert_eq!(plan(&obs, &Memory::default()).action, None);
    let back = EtcdSelection {
        version: Some(version("3.6.16")),
        before: Some(version("3.5.35")),
        cancelled: true,
        ..down_to("3.5.35")
    };
    select(&mut obs, &back);
    obs.assignment.as_mut().unwrap().etcd_version = Some(version("3.6.16"));
    assert_eq!(plan(&obs, &Memory::default()).action, Some(Action::InspectData));
}

#[test]
fn etcd_converts_its_data_before_a_node_takes_the_older_version() {
    let decision = plan(&ordered(0), &settled());
    let Some(Action::Downgrade { to: Some(wanted), .. }) = decision.action else {
        panic!("the coordinator does not ask etcd: {decision:?}")
    };
    assert!(
        decision
            .reasons
            .iter()
            .any(|reason| reason.code == ReasonCode::Downgrade)
    );
    assert_eq!(wanted, version("3.5.35"));
    let mut follower = ordered(1);
    assert_eq!(wish_of(&follower), Ok(None), "the data have the format of 3.6");
    prepares(&mut follower, Some("3.5.0"));
    let wish = wish_of(&follower).unwrap().unwrap();
    assert!(
        wish.contains("etcd 3.6.16 runs, and 3.5.35 is selected"),
        "{wish}"
    );
    let mut coordinator = ordered(0);
    prepares(&mut coordinator, Some("3.5.0"));
    let action = plan(&coordinator, &settled()).action;
    assert!(
        !matches!(action, Some(Action::Downgrade { .. })),
        "asked again: {action:?}"
    );

    // Cancelled: etcd has to end it, and a downgraded member returns.
    let back = EtcdSelection {
        version: Some(version("3.6.16")),
        before: Some(version("3.5.35")),
        cancelled: true,
        ..down_to("3.5.35")
    };
    select(&mut coordinator, &back);
    let action = plan(&coordinator, &settled()).action;
    assert!(
        matches!(action, Some(Action::Downgrade { to: None, .. })),
        "{action:?}"
    );
    select(&mut follower, &back);
    runs(&mut follower.me, "3.5.35");
    let wish = wish_of(&follower).unwrap().unwrap();
    assert!(
        wish.contains("etcd 3.5.35 runs, and 3.6.16 is selected"),
        "{wish}"
    );
}

#[test]
fn a_downgrade_by_somebody_else_is_left_alone() {
    let mut obs = with_versions(0, &["3.5.35", "3.6.16"]);
    converted(&mut obs);
    prepares(&mut obs, Some("3.5.0"));
    assert_eq!(plan(&obs, &settled()).action, None);
    select(&mut obs, &to("3.6.16"));
    assert_eq!(plan(&obs, &settled()).action, None);
}
