//! What the coordinator does to the member list.

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

#[test]
fn a_learner_that_lost_its_data_is_removed_too() {
    let mut obs = healthy(0);
    lose_data(peer(&mut obs, 2));
    if let Fact::Known(list) = &mut obs.me.members {
        list.members[2].is_learner = true;
    }
    assert_eq!(action(&obs), Some("remove-member"));
}
