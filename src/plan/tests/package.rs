//! The binary of `etcd.service` itself, selected again after a version below `etcd.versions_dir`.

use super::versions_world::{
    base, converted, each, key_of_v2, read_v2, runs, select, to, version, wish_of, with_versions,
};
use super::*;
use crate::plan::{newest_package, upgrade_objection};

/// Operators have returned from this version to the package's etcd, or have cancelled the upgrade to it.
fn package_again(from: &str, cancelled: bool) -> EtcdSelection {
    EtcdSelection {
        before: Some(version(from)),
        cancelled,
        ..EtcdSelection::default()
    }
}

/// All members run this version, which operators have selected.
fn on(selected: &str) -> Observation {
    let mut obs = with_versions(1, &["3.5.30", "3.5.40", "3.6.16"]);
    select(&mut obs, &to(selected));
    each(&mut obs, |status| {
        runs(status, selected);
        status.assignment.as_mut().unwrap().etcd_version = Some(version(selected));
    });
    obs.assignment.as_mut().unwrap().etcd_version = Some(version(selected));
    obs
}

/// A node may be assigned the binary of `etcd.service` again by another way than under the grant to restart with it.
#[test]
fn an_etcd_that_is_no_longer_assigned_is_restarted() {
    for cancelled in [true, false] {
        let mut obs = with_versions(1, &["3.5.40"]);
        runs(&mut obs.me, "3.5.40");
        assert_eq!(wish_of(&obs), Ok(None), "nothing was ordered");
        select(&mut obs, &package_again("3.5.40", cancelled));
        let wish = wish_of(&obs).unwrap();
        let expected = "etcd 3.5.40 runs, and the binary of etcd.service is selected again";
        assert_eq!(wish.as_deref(), Some(expected));
        runs(&mut obs.me, "3.5.35");
        assert_eq!(wish_of(&obs), Ok(None), "it was restarted");
        runs(&mut obs.me, "3.5.40");
        obs.me.etcd_binaries.as_mut().unwrap().base = None;
        assert_eq!(wish_of(&obs), Ok(None), "the version of the binary is not known");
    }
}

#[test]
fn a_node_returns_to_the_package_if_that_is_a_good_step() {
    let table = [
        ("3.5.40", Some("3.5.35"), None),
        ("3.5.30", Some("3.5.35"), None),
        ("3.5.30", Some("3.6.16"), None),
        ("3.5.30", Some("3.7.3"), Some("upgrade one minor at a time")),
        ("3.6.16", Some("3.5.35"), Some("install a package of etcd 3.6")),
        (
            "3.5.40",
            None,
            Some("it is not known which version etcd.service starts"),
        ),
    ];
    for (selected, package, expected) in table {
        let mut obs = on(selected);
        each(&mut obs, |status| {
            status.etcd_binaries.as_mut().unwrap().base = package.map(version);
        });
        let ordered = upgrade_objection(&obs, &DirectiveChange::FollowPackage);
        select(&mut obs, &package_again(selected, false));
        let wish = wish_of(&obs);
        match expected {
            None => {
                assert_eq!(ordered, None, "{selected} {package:?}");
                assert!(wish.unwrap().is_some(), "{selected} {package:?}");
            }
            Some(expected) => {
                let ordered = ordered.unwrap();
                assert!(ordered.contains(expected), "{selected} {package:?}: {ordered}");
                let wish = wish.unwrap_err();
                assert!(wish.contains(expected), "{selected} {package:?}: {wish}");
            }
        }
    }
}

/// The order is refused before any node is restarted.
#[test]
fn the_package_is_followed_only_by_a_whole_cluster_with_one_minor_of_it() {
    let objection = |obs: &Observation| upgrade_objection(obs, &DirectiveChange::FollowPackage);
    let mut obs = on("3.5.40");
    assert_eq!(objection(&obs), None);
    assert_eq!(newest_package(&obs), Some(version("3.5.35")));

    let mut differ = obs.clone();
    peer(&mut differ, 0).etcd_binaries.as_mut().unwrap().base = Some(version("3.6.16"));
    let why = objection(&differ).unwrap();
    assert!(why.contains("install the same minor on all hosts"), "{why}");
    assert_eq!(newest_package(&differ), Some(version("3.6.16")));

    let mut down = obs.clone();
    take_down(peer(&mut down, 2), ActiveState::Failed);
    let why = objection(&down).unwrap();
    assert!(why.contains("n3"), "{why}");

    let mut under_way = obs.clone();
    peer(&mut under_way, 2).assignment.as_mut().unwrap().etcd_version = None;
    let why = objection(&under_way).unwrap();
    assert!(
        why.contains("the upgrade to etcd 3.5.40 is not complete on n3"),
        "{why}"
    );

    let mut keys = obs.clone();
    base(&mut keys, "3.6.16");
    peer(&mut keys, 0).v2_trouble = key_of_v2().trouble();
    assert!(objection(&keys).is_some_and(|why| why.contains("/app/one")));
    select(&mut keys, &package_again("3.5.40", false));
    keys.v2 = read_v2(key_of_v2(), keys.steady);
    assert!(wish_of(&keys).is_err(), "its own disk decides");

    // Nothing was selected, or the package is followed already.
    select(&mut obs, &package_again("3.5.40", false));
    lose_data(peer(&mut obs, 2));
    assert_eq!(objection(&obs), None);
}

#[test]
fn the_way_to_the_package_is_cancelled_only_while_a_member_runs_the_former_version() {
    let cancel = |obs: &Observation| upgrade_objection(obs, &DirectiveChange::CancelUpgrade);
    let mut obs = on("3.5.40");
    select(&mut obs, &package_again("3.5.40", false));
    assert_eq!(cancel(&obs), None);
    for i in [0, 2] {
        runs(peer(&mut obs, i), "3.5.35");
    }
    assert_eq!(cancel(&obs), None, "n2 runs 3.5.40");
    runs(&mut obs.me, "3.5.35");
    assert!(cancel(&obs).is_some_and(|why| why.contains("is complete")));
}

/// etcd has converted its data, or one node says that the package is to be followed: the former etcd does not start on
/// these data, and nobody stops the one that runs (rule 10).
#[test]
fn rule_10_no_node_returns_to_a_package_that_does_not_open_its_data() {
    let mut obs = on("3.6.16");
    converted(&mut obs);
    select(&mut obs, &package_again("3.6.16", false));
    assert!(wish_of(&obs).is_err());
    obs.assignment.as_mut().unwrap().etcd_version = None;
    let why = wish_of(&obs).unwrap_err();
    assert!(why.contains("3.6.16 runs"), "{why}");
}
