//! Members and nodes with a doubtful identity.

use super::*;

#[test]
fn two_members_of_one_node_stop_all_changes() {
    let mut obs = healthy(0);
    lose_data(peer(&mut obs, 2));
    if let Fact::Known(list) = &mut obs.me.members {
        let mut twin = list.members[1].clone();
        (twin.id, twin.peer_urls) = (MemberId(9), vec!["http://elsewhere:2380".into()]);
        list.members.push(twin);
    }
    let decision = decide(&obs);
    assert_eq!(decision.action, None);
    assert!(
        decision
            .reasons
            .iter()
            .any(|r| r.halt && r.code == "duplicate-member")
    );
}

/// The configuration refuses that already, so no running agent should get here.
#[test]
fn a_node_that_is_not_in_cluster_nodes_does_nothing() {
    let mut obs = healthy(1);
    take_down(&mut obs.me, ActiveState::Inactive);
    assert_eq!(action(&obs), Some("start-etcd"));
    assert!(!has(&obs, "not-an-elector"));
    obs.spec.nodes.remove(&name(1));
    let decision = decide(&obs);
    assert_eq!(decision.action, None);
    let halts = |reason: &Reason| reason.halt && reason.code == "not-an-elector";
    assert!(decision.reasons.iter().any(halts), "{:?}", decision.reasons);
}

#[test]
fn two_agents_with_one_memory_stop_all_changes() {
    let mut obs = healthy(0);
    lose_data(peer(&mut obs, 2));
    peer(&mut obs, 2).incarnation = incarnation(1);
    let decision = decide(&obs);
    assert_eq!(decision.action, None);
    let halt = decision
        .reasons
        .iter()
        .find(|r| r.halt && r.code == "duplicate-node");
    // The agent could not create the directory again: its parent belongs to root.
    let text = &halt.unwrap().text;
    assert!(
        text.contains("delete all files in /var/lib/etcd-agent/state"),
        "{text}"
    );
    // Rule 10: n3 may lie. What a node that was ordered out says halts nothing.
    obs.me.steering.directives.out.insert(name(2));
    assert!(!has(&obs, "duplicate-node"));
}

#[test]
fn a_member_of_no_configured_node_is_named_and_left_alone() {
    let mut obs = healthy(0);
    obs.spec.size = 1;
    obs.spec_record.settled = Some(1);
    if let Fact::Known(list) = &mut obs.me.members {
        list.members.truncate(1);
        list.members.push(Member {
            id: MemberId(9),
            name: "stranger".into(),
            peer_urls: vec!["http://elsewhere:2380".into()],
            client_urls: vec![],
            is_learner: false,
        });
    }
    assert_eq!(action(&obs), None);
    assert!(has(&obs, "unknown-member"));
}

#[test]
fn an_etcd_of_another_cluster_is_named_and_left_alone() {
    let mut obs = healthy(0);
    if let Fact::Known(etcd) = &mut peer(&mut obs, 2).etcd {
        etcd.cluster_id = ClusterId(5);
    }
    assert_eq!(action(&obs), None);
    assert!(has(&obs, "foreign-cluster"));
}

#[test]
fn a_node_that_moved_gets_its_member_updated_when_both_agree_on_the_address() {
    let mut obs = healthy(0);
    if let Fact::Known(list) = &mut obs.me.members {
        list.members[2].peer_urls = vec!["http://10.9.9.9:2380".into()];
    }
    assert_eq!(action(&obs), None, "n3 does not say where it is");
    let url = obs.spec.peer_url(&name(2));
    peer(&mut obs, 2).peer_url.clone_from(&url);
    let Some(Action::UpdateMember { node, peer_urls, .. }) = decide(&obs).action else {
        panic!("{:?}", decide(&obs).action)
    };
    assert_eq!((node, peer_urls), (name(2), url.into_iter().collect()));
    peer(&mut obs, 2).peer_url = Some("http://10.8.8.8:2380".into());
    assert_eq!(action(&obs), None, "n3 is configured with another address");
}

/// etcd#21694: `MemberUpdate` drops the flag that makes a member a learner.
#[test]
fn c12b_a_learner_that_moved_is_not_updated() {
    for learner in [false, true] {
        let mut obs = healthy(0);
        if let Fact::Known(list) = &mut obs.me.members {
            list.members[2].peer_urls = vec!["http://10.9.9.9:2380".into()];
            list.members[2].is_learner = learner;
        }
        let url = obs.spec.peer_url(&name(2));
        peer(&mut obs, 2).peer_url = url;
        assert_eq!(
            action(&obs) == Some("update-member"),
            !learner,
            "{:?}",
            decide(&obs).action
        );
    }
}

#[test]
fn a_status_of_an_older_agent_is_understood_and_one_of_a_newer_too() {
    let obs = healthy(0);
    let mut older = serde_json::to_value(&obs.me).unwrap();
    for field in ["silent_agents", "silent_etcds", "peer_url", "steering"] {
        assert!(older.as_object_mut().unwrap().remove(field).is_some(), "{field}");
    }
    older["something_new"] = serde_json::json!({ "a": 1 });
    let read: NodeStatus = serde_json::from_value(older).unwrap();
    assert_eq!(read, obs.me);
}
