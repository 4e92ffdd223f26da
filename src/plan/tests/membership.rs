//! The coordinator's changes of the member list.

use super::*;

#[test]
fn s15_a_member_whose_own_agent_attests_the_loss_is_removed() {
    let mut obs = healthy(0);
    lose_data(peer(&mut obs, 2));
    assert_eq!(action(&obs), Some("remove-member"));
}

#[test]
fn rule_8_unreachable_is_no_attestation() {
    let mut obs = healthy(0);
    obs.peers.insert(name(2), Fact::Unreachable("no route".into()));
    assert_eq!(action(&obs), None);
}

#[test]
fn rule_3_nothing_is_removed_without_quorum_of_healthy_voters() {
    let mut obs = healthy(0);
    lose_data(peer(&mut obs, 2));
    obs.peers.insert(name(1), Fact::Unreachable("no route".into()));
    assert_eq!(action(&obs), None);
    assert!(has(&obs, "too-few-healthy"));
}

#[test]
fn after_the_removal_the_node_is_added_as_a_learner() {
    let mut obs = healthy(0);
    lose_data(peer(&mut obs, 2));
    if let Fact::Known(list) = &mut obs.me.members {
        list.members.truncate(2);
    }
    assert_eq!(action(&obs), Some("add-learner"));
}

#[test]
fn a_founder_that_is_restoring_is_not_lost() {
    let mut obs = healthy(0);
    let third = peer(&mut obs, 2);
    lose_data(third);
    third.assignment.as_mut().unwrap().started_once = false;
    assert_eq!(action(&obs), None);
}

/// The founder's agent died before it recorded the first start, and the data was damaged. The founder is not
/// started on damaged data.
#[test]
fn a_founder_that_cannot_start_on_what_is_there_is_removed() {
    let mut obs = healthy(0);
    let third = peer(&mut obs, 2);
    lose_data(third);
    third.assignment.as_mut().unwrap().started_once = false;
    third.data = Fact::Known(DataState::Unusable {
        why: "it has no WAL".into(),
        member: None,
    });
    assert_eq!(action(&obs), Some("remove-member"));
    let Some(genesis) = &mut obs.me.genesis else {
        panic!("no genesis")
    };
    genesis.origin = Origin::Backup(BackupId::new("2026-01-01T00:00:00Z-000001").unwrap());
    assert_eq!(action(&obs), None, "its data is restored");
}

#[test]
fn a_learner_that_lost_its_data_is_removed_too() {
    let mut obs = healthy(0);
    lose_data(peer(&mut obs, 2));
    if let Fact::Known(list) = &mut obs.me.members {
        list.members[2].is_learner = true;
    }
    assert_eq!(action(&obs), Some("remove-member"));
}

/// The member's agent died before it recorded the first start. etcd itself has published the name.
#[test]
fn a_member_that_joined_and_was_never_noted_as_started_is_removed_too() {
    let mut obs = healthy(0);
    let third = peer(&mut obs, 2);
    lose_data(third);
    let assigned = third.assignment.as_mut().unwrap();
    assigned.started_once = false;
    assigned.member_id = MemberId(77);
    if let Fact::Known(list) = &mut obs.me.members {
        list.members[2].id = MemberId(77);
    }
    assert_eq!(action(&obs), Some("remove-member"));
    if let Fact::Known(list) = &mut obs.me.members {
        list.members[2].name = String::new();
    }
    assert_eq!(action(&obs), None, "it has not started yet");
}

#[test]
fn a_learner_that_lost_its_data_before_it_was_named_is_removed_too() {
    let mut obs = healthy(0);
    lose_data(peer(&mut obs, 2));
    if let Fact::Known(list) = &mut obs.me.members {
        list.members[2].is_learner = true;
        list.members[2].name = String::new();
    }
    assert_eq!(action(&obs), Some("remove-member"));
    peer(&mut obs, 2).assignment = None;
    assert_eq!(action(&obs), None, "it was only just added");
}

#[test]
fn a_node_with_data_of_a_replaced_epoch_may_join() {
    let mut obs = healthy(0);
    let old = genesis(&obs.spec, 3, 1, Origin::Empty);
    let new = genesis(&obs.spec, 2, 2, Origin::Empty);
    let spec = obs.spec.clone();
    serving(&spec, &mut obs.me, &new, 0, 2);
    serving(&spec, peer(&mut obs, 1), &new, 1, 2);
    obs.assignment = Some(assignment(&spec, &new, 0));
    obs.newest_epoch = Epoch(2);
    let late = peer(&mut obs, 2);
    serving(&spec, late, &old, 2, 3);
    take_down(late, ActiveState::Inactive);
    late.newest_epoch = Epoch(2);
    late.genesis = Some(new);
    assert_eq!(action(&obs), Some("add-learner"));
    // Data that the node's own agent does not know is not touched.
    peer(&mut obs, 2).assignment = None;
    assert_eq!(action(&obs), None);
}

#[test]
fn c11_a_damaged_member_is_replaced_only_with_a_quorum() {
    let damaged = || {
        Fact::Known(DataState::Unusable {
            why: "etcd ends with \"walpb: crc mismatch\"".into(),
            member: None,
        })
    };
    let mut obs = healthy(0);
    lose_data(peer(&mut obs, 2));
    peer(&mut obs, 2).data = damaged();
    assert_eq!(action(&obs), Some("remove-member"));
    obs.peers.insert(name(1), Fact::Unreachable("no route".into()));
    assert_eq!(action(&obs), None);
    assert!(has(&obs, "too-few-healthy"));

    // The node itself neither starts the member nor moves data before the member is removed.
    let mut obs = healthy(2);
    lose_data(&mut obs.me);
    obs.me.data = damaged();
    assert_eq!(action(&obs), None);
    assert!(has(&obs, "data-gone"));
}
