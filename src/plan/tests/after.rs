//! What would follow from a fault.

use super::*;
use crate::plan::after;

fn suppose(obs: &Observation, text: &str) -> HypothesisView {
    after(obs, &text.parse().unwrap())
}

/// The nodes whose loss would cost quorum, and those whose loss would not.
fn further(view: &HypothesisView) -> (Vec<&str>, Vec<&str>) {
    let left = view.left.as_ref().unwrap();
    let names = |tolerated: bool| {
        let faults = left.further_faults.iter().filter(|f| f.tolerated == tolerated);
        faults.map(|fault| fault.node.as_str()).collect()
    };
    (names(false), names(true))
}

fn codes(view: &HypothesisView) -> Vec<&str> {
    let reasons = view.decision.reasons.iter();
    reasons.map(|reason| reason.code.as_str()).collect()
}

#[test]
fn a_reboot_of_one_of_three_leaves_no_further_fault() {
    for me in 0..3 {
        let view = suppose(&healthy(me), "reboot n3");
        assert_eq!(further(&view), (vec!["n1", "n2"], vec![]), "seen by n{}", me + 1);
        assert_eq!(view.coordinator, Some(name(0)));
        assert_eq!(view.decision.action, None);
        assert_eq!(codes(&view), ["grace"], "n3 is not dead yet");
    }
}

/// etcd lists members by ID, and IDs are random.
#[test]
fn nodes_are_named_in_the_order_of_their_names() {
    let mut obs = healthy(0);
    let statuses = std::iter::once(&mut obs.me).chain(obs.peers.values_mut().filter_map(|peer| match peer {
        Fact::Known(status) => Some(status),
        _ => None,
    }));
    for status in statuses {
        if let Fact::Known(list) = &mut status.members {
            list.members.reverse();
        }
    }
    assert_eq!(further(&suppose(&obs, "reboot n1")), (vec!["n2", "n3"], vec![]));
}

#[test]
fn the_others_elect_a_leader_when_its_host_reboots() {
    let mut obs = healthy(0);
    if let Fact::Known(etcd) = &mut peer(&mut obs, 2).etcd {
        etcd.index = 11;
    }
    let view = suppose(&obs, "reboot n1");
    assert_eq!(view.coordinator, Some(name(2)), "the longest log");
    assert!(view.decision.coordinator);
    assert_eq!(further(&view), (vec!["n2", "n3"], vec![]));
    assert_eq!(
        suppose(&healthy(0), "reboot n1").coordinator,
        Some(name(1)),
        "by name"
    );
}

#[test]
fn five_members_tolerate_one_more() {
    let view = suppose(&cluster(5, 5, 5), "reboot n5");
    assert_eq!(further(&view), (vec![], vec!["n1", "n2", "n3", "n4"]));
    let view = suppose(&view.observation, "reboot n4");
    assert_eq!(
        further(&view),
        (vec!["n1", "n2", "n3"], vec![]),
        "assumptions can follow one another"
    );
}

#[test]
fn quorum_that_is_lost_leaves_no_coordinator() {
    let first = suppose(&healthy(0), "stop n3");
    let view = suppose(&first.observation, "reboot n1");
    assert!(!view.left.as_ref().unwrap().has_quorum());
    assert_eq!((view.coordinator, view.decision.action), (None, None));
    let alone = suppose(&cluster(1, 1, 1), "reboot n1");
    assert_eq!(alone.coordinator, None);
    assert_eq!(alone.left.unwrap().healthy, 0);
}

#[test]
fn a_lost_host_is_replaced_and_a_stopped_etcd_is_left_alone() {
    let obs = cluster(4, 3, 3);
    let lost = suppose(&obs, "lose n3");
    let action = lost.decision.action.as_ref().map(Action::name);
    assert_eq!(action, Some("remove-member"), "{:?}", lost.decision);
    assert!(codes(&lost).contains(&"replace-dead"));
    let rebooted = suppose(&obs, "reboot n3");
    assert_eq!(rebooted.decision.action, None, "it comes back");
    let stopped = suppose(&obs, "stop n3");
    assert_eq!(stopped.decision.action, None);
    assert!(codes(&stopped).is_empty(), "an operator stopped it: {stopped:?}");
    let spare = suppose(&obs, "lose n4");
    assert_eq!(spare.left.unwrap().healthy, 3);
    let none = suppose(&healthy(0), "lose n3");
    assert_eq!(
        (none.decision.action.as_ref(), codes(&none)),
        (None, vec!["no-spare"])
    );
}

#[test]
fn an_etcd_that_might_not_start_again_is_shown() {
    let mut obs = healthy(0);
    peer(&mut obs, 2).tls_trouble = Some("[etcd.peer_tls]: the key is not there".into());
    for (fault, shown) in [
        ("reboot n3", true),
        ("stop n3", true),
        ("lose n3", false),
        ("reboot n2", false),
    ] {
        let view = suppose(&obs, fault);
        assert_eq!(codes(&view).contains(&"tls-files-unusable"), shown, "{fault}");
    }
}
