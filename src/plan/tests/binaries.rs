//! A running etcd is not stopped while its next start would take a binary that cannot open its data, or that skips a
//! minor.

use super::leave::{granted, stops};
use super::reboots::{asking, lock, taken, taking};
use super::restarts::{settled, wish};
use super::steering::Spoil;
use super::stop::codes;
use super::versions_world::{
    converted, key_of_v2, read_v2, runs, seen, select, to, version, wish_of, with_versions,
};
use super::*;
use crate::model::V2View;
use crate::plan::{BinaryTrouble, after, binary_trouble, leave_to_stop, ok_to_stop};

const SKIPS: &str = "etcd 3.5.35 runs, and its binary was replaced by 3.7.3";

/// A package has replaced the binary of n2 by this version.
fn replaced(by: &str) -> Observation {
    let mut obs = with_versions(1, &["3.5.36"]);
    obs.base.replaced = true;
    base(&mut obs, Some(by));
    obs
}

fn base(obs: &mut Observation, by: Option<&str>) {
    obs.me.etcd_binaries.as_mut().unwrap().base = by.map(version);
}

fn trouble(obs: &Observation) -> Option<BinaryTrouble> {
    binary_trouble(&seen(obs), obs.base.unknown)
}

#[test]
fn a_binary_with_which_etcd_could_not_start_again_is_named_with_what_to_do() {
    // By what the binary was replaced, what else is so, and what is said; `None`: nothing holds a stop back.
    type Row = (&'static str, &'static str, Spoil, Option<&'static str>);
    let table: [Row; 13] = [
        ("the version that runs", "3.5.35", |_| {}, None),
        ("a good step", "3.6.16", |_| {}, None),
        ("another patch", "3.5.30", |_| {}, None),
        ("it skips a minor", "3.7.3", |_| {}, Some("one minor at a time")),
        ("an older format", "3.4.30", |_| {}, Some("does not open data")),
        (
            "before promotions were stored",
            "3.6.16",
            |obs| runs(&mut obs.me, "3.5.16"),
            Some("upgrade to 3.5.26"),
        ),
        (
            "keys of v2",
            "3.6.16",
            |obs| obs.v2 = read_v2(key_of_v2(), obs.steady),
            Some("/app/one"),
        ),
        (
            "the process was started from it",
            "3.7.3",
            |obs| obs.base.replaced = false,
            None,
        ),
        (
            "a selected version is what starts",
            "3.7.3",
            |obs| {
                select(obs, &to("3.5.35"));
                obs.assignment.as_mut().unwrap().etcd_version = Some(version("3.5.35"));
            },
            None,
        ),
        (
            "a selected version that is not assigned yet",
            "3.7.3",
            |obs| select(obs, &to("3.5.36")),
            Some("one minor at a time"),
        ),
        (
            "etcd does not answer",
            "3.7.3",
            |obs| obs.me.etcd = Fact::Unreachable("timed out".into()),
            None,
        ),
        (
            "entries of 3.5 in the log",
            "3.7.3",
            |obs| {
                converted(obs);
                obs.me.v2_entries = Some(true);
            },
            Some("entries of etcd 3.5"),
        ),
        (
            "a log without them",
            "3.7.3",
            |obs| {
                converted(obs);
                obs.me.v2_entries = Some(false);
            },
            None,
        ),
    ];
    for (what, by, spoil, said) in table {
        let mut obs = replaced(by);
        spoil(&mut obs);
        let found = trouble(&obs);
        assert_eq!(found.is_some(), said.is_some(), "{what}: {found:?}");
        if let (Some(found), Some(said)) = (found, said) {
            assert!(!found.reading && found.why.contains(said), "{what}: {found:?}");
            let way_out = "; install the package of etcd 3.";
            assert!(found.why.contains(way_out), "{what}: {found:?}");
            assert!(
                found.why.contains("or select another version"),
                "{what}: {found:?}"
            );
        }
    }
    let mut pinned = replaced("3.7.3");
    pinned.me.etcd_binaries.as_mut().unwrap().pinned = true;
    let said = trouble(&pinned).unwrap().why;
    assert!(said.ends_with("; put etcd 3.5.35 back at its path"), "{said}");
    // The status says the same.
    assert!(wish_of(&pinned).unwrap_err().contains(&said));
}

#[test]
fn what_is_not_read_yet_holds_a_stop_only_for_a_moment() {
    let table: [(&str, Spoil); 3] = [
        ("the binary", |obs| {
            base(obs, None);
            obs.base.unknown = true;
        }),
        ("the disk", |obs| {
            base(obs, Some("3.6.16"));
            obs.v2 = V2View::default();
        }),
        ("the log", |obs| {
            converted(obs);
            obs.me.v2_entries = None;
        }),
    ];
    for (what, spoil) in table {
        let mut obs = replaced("3.7.3");
        spoil(&mut obs);
        let found = trouble(&obs).unwrap();
        assert!(found.reading, "{what}: {found:?}");
        assert!(!found.why.contains("install"), "{what}: {found:?}");
        let held = |seconds| StopWish::Held(Duration::from_secs(seconds));
        for wish in [StopWish::Nobody, StopWish::Waits, held(4)] {
            assert!(found.clone().against(wish).is_some(), "{what}: {wish:?}");
        }
        assert_eq!(found.against(held(5)), None, "{what}");
    }
    let bad = trouble(&replaced("3.7.3")).unwrap();
    let long = StopWish::Held(Duration::from_secs(19));
    assert!(bad.against(long).is_some(), "it is known to be bad");
    let mut no_version = replaced("3.7.3");
    base(&mut no_version, None);
    assert_eq!(trouble(&no_version), None, "it was read, and says no version");
}

#[test]
fn a_binary_and_a_log_are_read_soon_for_a_stop_that_waits() {
    for stop in [stops, |me: &mut NodeStatus| me.steering.wants_reboot_lock = true] {
        for log in [false, true] {
            let mut obs = replaced("3.7.3");
            if log {
                converted(&mut obs);
            } else {
                obs.base.unknown = true;
            }
            let looked = Memory {
                looked_at: Some(obs.steady),
                ..Memory::default()
            };
            obs.steady = SteadyMs(obs.steady.0 + 2_000);
            assert_eq!(plan(&obs, &looked).action, None, "log: {log}");
            stop(&mut obs.me);
            assert_eq!(
                plan(&obs, &looked).action,
                Some(Action::InspectData),
                "log: {log}"
            );
        }
    }
}

#[test]
fn rule_4_no_restart_is_granted_that_would_take_the_binary() {
    let mut obs = healthy(0);
    wish(peer(&mut obs, 1), Some(3));
    assert_eq!(granted(&plan(&obs, &settled())), Some(&name(1)));
    let held = peer(&mut obs, 1).steering.wants_restart.as_mut().unwrap();
    trouble(&replaced("3.7.3")).unwrap().hold(held);
    let decision = plan(&obs, &settled());
    assert_eq!(granted(&decision), None, "although it was ordered");
    let waits = |reason: &&Reason| reason.code == ReasonCode::RestartWaits;
    let said = &decision.reasons.iter().find(waits).unwrap().text;
    assert!(said.contains("n2 is to be restarted, and keeps running") && said.contains(SKIPS));
    // Rule 10: it holds back that node alone.
    wish(peer(&mut obs, 2), None);
    assert_eq!(granted(&plan(&obs, &settled())), Some(&name(2)));

    // The node itself does not act on an older grant either.
    let mut own = replaced("3.7.3");
    let grant = Grant {
        node: name(1),
        id: 7,
        term: RaftTerm(2),
        purpose: GrantPurpose::Restart,
    };
    peer(&mut own, 0).steering.grant = Some(grant);
    wish(&mut own.me, None);
    assert_eq!(
        plan(&own, &Memory::default()).action.as_ref().map(Action::name),
        Some("restart-etcd")
    );
    let held = own.me.steering.wants_restart.as_mut().unwrap();
    trouble(&replaced("3.7.3")).unwrap().hold(held);
    assert_eq!(plan(&own, &Memory::default()).action, None);
}

#[test]
fn nobody_may_stop_an_etcd_whose_binary_could_not_start_again() {
    for me in 0..3 {
        for node in 0..3 {
            let mut obs = healthy(me);
            let status = if me == node {
                &mut obs.me
            } else {
                peer(&mut obs, node)
            };
            status.binary_trouble = Some(SKIPS.into());
            let verdict = ok_to_stop(&obs, &name(node));
            assert_eq!(codes(&verdict.reasons), ["upgrade-refused"], "{verdict:?}");
            let expected = format!("etcd on n{} might not start again: {SKIPS}", node + 1);
            assert_eq!(verdict.reasons[0].text, expected);
            for other in (0..3).filter(|other| *other != node) {
                assert!(ok_to_stop(&obs, &name(other)).ok, "n{} at n{}", other + 1, me + 1);
            }
        }
    }
    let mut down = healthy(0);
    take_down(peer(&mut down, 2), ActiveState::Failed);
    peer(&mut down, 2).binary_trouble = Some(SKIPS.into());
    let verdict = ok_to_stop(&down, &name(2));
    assert!(verdict.ok, "it loses nothing: {verdict:?}");
    assert_eq!(codes(&verdict.notes), ["etcd-down", "upgrade-refused"]);
    let mut obs = healthy(0);
    peer(&mut obs, 2).binary_trouble = Some(SKIPS.into());
    let view = after(&obs, &"reboot n3".parse().unwrap());
    assert!(codes(&view.decision.reasons).contains(&"upgrade-refused"));
}

#[test]
fn a_stop_by_others_has_no_leave_and_no_grant_while_the_binary_is_bad() {
    let mut obs = healthy(1);
    stops(&mut obs.me);
    obs.me.binary_trouble = Some(SKIPS.into());
    take_down(peer(&mut obs, 2), ActiveState::Failed);
    let leave = leave_to_stop(&obs, None, true);
    assert_eq!(
        (leave.go, leave.text),
        (false, format!("etcd here might not start again: {SKIPS}"))
    );
    obs.me.etcd = Fact::Unreachable("timed out".into());
    assert!(leave_to_stop(&obs, None, true).go, "it does not serve");

    let mut coordinator = healthy(0);
    stops(peer(&mut coordinator, 1));
    peer(&mut coordinator, 1).binary_trouble = Some(SKIPS.into());
    assert_eq!(granted(&plan(&coordinator, &settled())), None);
    stops(peer(&mut coordinator, 2));
    assert_eq!(
        granted(&plan(&coordinator, &settled())),
        Some(&name(2)),
        "it holds nobody else back"
    );
}

#[test]
fn a_host_whose_etcd_could_not_start_again_gets_no_reboot_lock() {
    let mut obs = asking(&[1]);
    peer(&mut obs, 1).binary_trouble = Some(SKIPS.into());
    assert_eq!(granted(&plan(&obs, &settled())), None);
    peer(&mut obs, 2).steering.wants_reboot_lock = true;
    assert_eq!(
        granted(&plan(&obs, &settled())),
        Some(&name(2)),
        "the others get it"
    );
    for mut own in [taking(), taken(lock(1, 3, false))] {
        own.me.binary_trouble = Some(SKIPS.into());
        let decision = plan(&own, &Memory::default());
        assert_eq!(decision.action, None, "although it is granted");
        let waits = |reason: &&Reason| reason.code == ReasonCode::RebootLockWaits;
        let said = &decision.reasons.iter().find(waits).unwrap().text;
        assert!(said.contains(SKIPS), "{said}");
    }
    let mut held = taken(lock(1, 3, true));
    held.me.binary_trouble = Some(SKIPS.into());
    let Some(Action::Answer { done, message, .. }) = plan(&held, &Memory::default()).action else {
        panic!("not answered")
    };
    assert!(!done && message.contains(SKIPS), "{message}");
}
