//! The version in the assignment: not one that does not open the data.

use super::restarts::settled;
use super::versions_world::{converted, each, runs, seen, select, version, with_versions};
use super::*;
use crate::plan::{binary_trouble, version_objection};

/// What is assigned next.
#[derive(Debug, PartialEq, Eq)]
enum Assigned {
    Nothing,
    Base,
    Version(EtcdVersion),
}

fn assigned(obs: &Observation) -> Assigned {
    match plan(obs, &settled()).action {
        Some(Action::Assign { assignment }) => {
            assignment.etcd_version.map_or(Assigned::Base, Assigned::Version)
        }
        _ => Assigned::Nothing,
    }
}

/// An upgrade from the binary of `etcd.service` was cancelled.
fn cancel(obs: &mut Observation) {
    let back = EtcdSelection {
        cancelled: true,
        ..EtcdSelection::default()
    };
    select(obs, &back);
}

/// etcd has converted the data after this node got leave to go back, and before its restart.
#[test]
fn a_version_that_does_not_open_the_data_stays_assigned_no_longer() {
    let stored = |obs: &mut Observation, text: &str| {
        let Fact::Known(etcd) = &mut obs.me.etcd else {
            panic!()
        };
        etcd.storage_version = Some(version(text));
    };
    let trouble = |obs: &Observation| binary_trouble(&seen(obs), false).map(|trouble| trouble.why);
    let mut obs = with_versions(1, &["3.5.30", "3.6.16"]);
    runs(&mut obs.me, "3.6.16");
    cancel(&mut obs);
    for given in [None, Some(version("3.5.30"))] {
        obs.assignment.as_mut().unwrap().etcd_version = given;
        stored(&mut obs, "3.5.0");
        assert_eq!(trouble(&obs), None, "{given:?}");
        let unread = binary_trouble(&seen(&obs), true).map(|trouble| trouble.reading);
        assert_eq!(unread, given.is_none().then_some(true), "{given:?}");
        assert_eq!(assigned(&obs), Assigned::Nothing, "{given:?}");
        let before = obs.clone();
        stored(&mut obs, "3.6.0");
        let late = obs.me.etcd.known().unwrap();
        assert!(version_objection(&before, late).is_some(), "since the last look");
        let at_once = before.me.etcd.known().unwrap();
        assert_eq!(version_objection(&before, at_once), None);
        let why = trouble(&obs).unwrap();
        assert!(
            why.contains("does not open data that etcd 3.6 has converted"),
            "{why}"
        );
        assert_eq!(assigned(&obs), Assigned::Version(version("3.6.16")), "{given:?}");
        let mut never = obs.clone();
        each(&mut never, |status| status.steering.directives.etcd = None);
        // An assigned version is what starts, whatever was ordered.
        let expected = given.map_or(Assigned::Nothing, |_| Assigned::Version(version("3.6.16")));
        assert_eq!(
            (trouble(&never).is_some(), assigned(&never)),
            (given.is_some(), expected),
            "no upgrade was cancelled"
        );
        let mut lacks = obs.clone();
        lacks.me.etcd_binaries.as_mut().unwrap().versions.clear();
        assert_eq!(
            assigned(&lacks),
            Assigned::Nothing,
            "the release is not there any longer"
        );
        let mut package = lacks.clone();
        package.me.etcd_binaries.as_mut().unwrap().base = Some(version("3.6.16"));
        let expected = given.map_or(Assigned::Nothing, |_| Assigned::Base);
        assert_eq!(assigned(&package), expected, "the package has it");
    }
    obs.assignment.as_mut().unwrap().etcd_version = Some(version("3.6.16"));
    assert_eq!(
        (trouble(&obs), assigned(&obs)),
        (None, Assigned::Nothing),
        "what runs"
    );
}

/// It began with the version that was selected again, and the members that are left have converted their data since.
#[test]
fn a_new_member_that_cannot_begin_with_its_version_takes_that_of_the_members() {
    let mut obs = with_versions(1, &["3.6.16"]);
    converted(&mut obs);
    cancel(&mut obs);
    // One node has taken the former version, and not restarted.
    peer(&mut obs, 0).assignment.as_mut().unwrap().etcd_version = Some(version("3.6.16"));
    take_down(&mut obs.me, ActiveState::Failed);
    obs.assignment.as_mut().unwrap().started = false;
    assert_eq!(assigned(&obs), Assigned::Version(version("3.6.16")));
    obs.me.etcd_binaries.as_mut().unwrap().base = Some(version("3.6.10"));
    assert_eq!(assigned(&obs), Assigned::Nothing, "the package fits");
    obs.me.etcd_binaries.as_mut().unwrap().base = Some(version("3.5.35"));
    obs.me.etcd_binaries.as_mut().unwrap().versions.clear();
    assert_eq!(
        assigned(&obs),
        Assigned::Nothing,
        "the release is not on this host"
    );
}

/// The others have not gone back yet.
#[test]
fn a_member_with_the_former_version_keeps_it_while_it_is_down() {
    let mut obs = with_versions(1, &["3.6.16"]);
    for i in [0, 2] {
        runs(peer(&mut obs, i), "3.6.16");
        peer(&mut obs, i).assignment.as_mut().unwrap().etcd_version = Some(version("3.6.16"));
    }
    cancel(&mut obs);
    let present = obs.me.data.clone();
    take_down(&mut obs.me, ActiveState::Failed);
    obs.me.data = present;
    obs.served = Some(version("3.5.35"));
    for stored in [None, Some(version("3.5.35")), Some(version("3.5.0"))] {
        obs.stored = stored;
        assert_eq!(assigned(&obs), Assigned::Nothing, "{stored:?}");
        // Its agent was started meanwhile, and could not read the version of the binary.
        let mut unread = obs.clone();
        unread.me.etcd_binaries.as_mut().unwrap().base = None;
        assert_eq!(assigned(&unread), Assigned::Nothing, "{stored:?}");
    }
    // The others have converted their data since. One of them may lie.
    obs.stored = Some(version("3.5.0"));
    for (peers, expected) in [
        (&[0][..], Assigned::Nothing),
        (&[0, 2], Assigned::Version(version("3.6.16"))),
    ] {
        let mut late = obs.clone();
        for i in peers {
            let Fact::Known(etcd) = &mut peer(&mut late, *i).etcd else {
                panic!()
            };
            etcd.storage_version = Some(version("3.6.0"));
        }
        assert_eq!(assigned(&late), expected, "{peers:?}");
        late.peers.insert(name(0), Fact::Unreachable("no answer".into()));
        assert_eq!(assigned(&late), Assigned::Nothing, "only one answers");
    }
    // It was restarted with the former version after it had served the newer one, and ended.
    obs.served = Some(version("3.6.16"));
    obs.stored = Some(version("3.6.0"));
    assert_eq!(assigned(&obs), Assigned::Version(version("3.6.16")));
}

/// The agent was reinstalled and does not know the selected version.
#[test]
fn a_member_that_is_taken_up_again_keeps_the_version_that_runs() {
    let table = [
        ("3.6.16", Some("3.5.35"), Assigned::Version(version("3.6.16"))),
        ("3.5.35", Some("3.5.35"), Assigned::Base),
        ("3.6.16", Some("3.6.16"), Assigned::Base),
        ("3.6.1", Some("3.5.35"), Assigned::Base),
        ("3.6.16", None, Assigned::Base),
    ];
    for (running, base, expected) in table {
        let mut obs = with_versions(1, &["3.6.16"]);
        obs.me.incarnation = incarnation(7);
        obs.assignment = None;
        runs(&mut obs.me, running);
        obs.me.etcd_binaries.as_mut().unwrap().base = base.map(version);
        assert_eq!(assigned(&obs), expected, "{running}, {base:?}");
    }
}
