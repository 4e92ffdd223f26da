//! Members whose data differs from the others'.

use std::time::Duration;

use super::*;
use crate::model::{Differences, HashCheck, RepairSpec};

const DAY_MS: u64 = 24 * 3_600_000;

/// What a comparison at this time found: the voters of these nodes differ from a majority.
fn check(obs: &Observation, at: UnixMs, corrupt: &[usize]) -> HashCheck {
    let list = obs.me.members.known().unwrap();
    HashCheck {
        cluster_id: list.cluster_id,
        revision: Revision(5),
        at,
        compared: list.members.len(),
        found: Differences {
            corrupt: corrupt.iter().map(|i| list.members[*i].id).collect(),
            unclear: BTreeSet::new(),
        },
    }
}

/// A healthy cluster whose members' data is compared once a day.
fn compared(me: usize) -> Observation {
    let mut obs = healthy(me);
    obs.spec.repair = RepairSpec::default();
    assert_eq!(obs.spec.repair.check_interval, Some(Duration::from_hours(24)));
    obs
}

fn a_day_later() -> Observation {
    let mut obs = compared(0);
    obs.now = UnixMs(2 * DAY_MS);
    obs
}

#[test]
fn the_members_data_is_compared_once_in_each_interval() {
    let due = a_day_later();
    assert_eq!(action(&due), Some("check-hashes"));
    let mut obs = compared(0);
    assert_eq!(action(&obs), None, "the cluster is young");
    obs = due.clone();
    obs.spec.repair.check_interval = None;
    assert_eq!(action(&obs), None, "off");
    obs = due.clone();
    obs.hash_check.running = true;
    assert_eq!(action(&obs), None, "it runs");
    obs = due.clone();
    obs.hash_check = failed_once(obs.steady);
    obs.hash_check.error = Some("no hash of n2 (permission denied)".to_owned());
    assert_eq!(action(&obs), None);
    assert!(has(&obs, "hash-check-failed"));
    let reasons = decide(&obs).reasons;
    assert!(
        reasons
            .iter()
            .any(|reason| reason.text.ends_with("no hash of n2 (permission denied)")),
        "{reasons:?}"
    );
    obs.hash_check.failed_at = Some(SteadyMs(obs.steady.0 - 60_000));
    assert_eq!(action(&obs), Some("check-hashes"), "again after a minute");
    obs = due.clone();
    take_down(peer(&mut obs, 2), ActiveState::Active);
    assert_eq!(action(&obs), None, "a voter cannot be asked");
    obs = due.clone();
    let recent = check(&obs, UnixMs(obs.now.0 - DAY_MS + 1), &[]);
    peer(&mut obs, 1).steering.hash_check = Some(recent);
    assert_eq!(action(&obs), None, "the coordinator of before has compared it");
    let mut follower = compared(1);
    follower.now = due.now;
    assert_eq!(action(&follower), None, "only the coordinator");
}

#[test]
fn a_difference_that_another_node_found_is_confirmed_at_once_but_not_all_the_time() {
    let mut obs = compared(0);
    let now = obs.now;
    let found = check(&obs, UnixMs(now.0 - 1), &[2]);
    peer(&mut obs, 1).steering.hash_check = Some(found);
    assert_eq!(action(&obs), Some("check-hashes"));
    obs.me.steering.hash_check = Some(check(&obs, UnixMs(now.0 - 60_000), &[]));
    assert_eq!(action(&obs), None, "compared a minute ago");
    obs.me.steering.hash_check = Some(check(&obs, UnixMs(now.0 - 11 * 60_000), &[]));
    assert_eq!(action(&obs), Some("check-hashes"));
    let future = check(&obs, UnixMs(now.0 + 60_000), &[2]);
    peer(&mut obs, 1).steering.hash_check = Some(future);
    assert_eq!(action(&obs), None, "a time that has not come");
}

#[test]
fn a_member_that_differs_is_rebuilt_only_where_the_configuration_says_so() {
    let with = |corrupt: &[usize]| {
        let mut obs = healthy(0);
        obs.me.steering.hash_check = Some(check(&obs, obs.now, corrupt));
        obs
    };
    let mut obs = with(&[2]);
    assert_eq!(action(&obs), None);
    assert!(has(&obs, "data-differs"), "it is reported");
    obs.spec.repair.corrupt = true;
    let decided = decide(&obs);
    let id = obs.me.members.known().unwrap().members[2].id;
    assert!(
        matches!(decided.action, Some(Action::RemoveMember { id: removed, why: Removal::Corrupt, .. }) if removed == id),
        "{decided:?}"
    );
    let mut reported = healthy(0);
    reported.spec.repair.corrupt = true;
    reported.me.steering.hash_check = Some(check(&reported, reported.now, &[]));
    peer(&mut reported, 1).steering.hash_check = Some(check(&reported, reported.now, &[2]));
    assert_eq!(action(&reported), None, "another node's word is not enough");
    take_down(peer(&mut obs, 1), ActiveState::Failed);
    assert_ne!(
        action(&obs),
        Some("remove-member"),
        "the others have to be a quorum"
    );

    let mut leads = cluster(5, 5, 5);
    leads.me.steering.hash_check = Some(check(&leads, leads.now, &[0, 2]));
    leads.spec.repair.corrupt = true;
    let decided = decide(&leads);
    assert!(
        matches!(&decided.action, Some(Action::MoveLeader { node, .. }) if *node == name(1)),
        "n2 is the one whose data is right: {decided:?}"
    );
    let mut joins = with(&[2]);
    joins.spec.repair.corrupt = true;
    joins.spec.join = Join::Add;
    assert_eq!(action(&joins), None);
    assert!(has(&joins, "removal-not-allowed"));
}

/// The members with the right data are the only evidence that the other one is wrong, and only they can confirm its
/// removal.
#[test]
fn a_member_that_differs_is_rebuilt_only_while_a_majority_with_the_same_data_is_left() {
    let mut obs = healthy(0);
    obs.spec.repair.corrupt = true;
    obs.me.steering.hash_check = Some(check(&obs, obs.now, &[2]));
    // n2 has lost its data, and its member was removed a moment ago.
    for status in [true, false] {
        let status = if status { &mut obs.me } else { peer(&mut obs, 2) };
        if let Fact::Known(list) = &mut status.members {
            list.members.remove(1);
        }
    }
    lose_data(peer(&mut obs, 1));
    let decided = decide(&obs);
    assert!(
        !matches!(decided.action, Some(Action::RemoveMember { .. })),
        "n2 comes back first: {decided:?}"
    );
}

#[test]
fn no_backup_is_taken_of_a_member_that_differs() {
    let mut obs = healthy(0);
    obs.spec.backup_interval = Some(Duration::from_mins(1));
    obs.store = Fact::Known(store_view(None, None));
    let from = |obs: &Observation| match decide(obs).action {
        Some(Action::Backup { from, .. }) => from,
        other => panic!("{other:?}"),
    };
    assert_eq!(from(&obs), name(1));
    obs.me.steering.hash_check = Some(check(&obs, obs.now, &[1]));
    assert_eq!(from(&obs), name(2));
}
