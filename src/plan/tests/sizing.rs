//! The size in the store, and clocks.

use super::*;

/// Five nodes whose size is in the store, with this value.
fn stored(voters: usize, remembered: SpecRecord, says: Fact<usize>) -> Observation {
    let mut obs = cluster(5, voters, 3);
    obs.spec.size_source = SizeSource::Store { said: None };
    obs.spec.store_shared = true;
    obs.spec.backup_interval = None;
    obs.store = Fact::Known(StoreView {
        size: says,
        ..store_view(obs.me.genesis.clone(), None)
    });
    obs.spec_record = remembered;
    follow(&mut obs);
    obs
}

/// Applies the recorded size, here and at every peer, as the next observation does.
fn follow(obs: &mut Observation) {
    let mut configured = obs.spec.clone();
    configured.size = 3;
    obs.spec = configured.in_force(&obs.spec_record);
    let digest = obs.spec.digest();
    obs.me.spec_digest.clone_from(&digest);
    for fact in obs.peers.values_mut() {
        if let Fact::Known(status) = fact {
            status.spec_digest.clone_from(&digest);
        }
    }
}

fn record(stored: Option<usize>, settled: Option<usize>) -> SpecRecord {
    SpecRecord {
        settled,
        change: None,
        stored,
        ..SpecRecord::default()
    }
}

fn written(obs: &Observation) -> Option<usize> {
    match decide(obs).action {
        Some(Action::RememberSpec { record }) => record.stored,
        _ => None,
    }
}

#[test]
fn what_the_store_says_is_written_down_and_followed() {
    let rows = [
        (
            "nothing was ever said",
            record(None, Some(3)),
            Fact::Absent,
            None,
            3,
        ),
        ("five", record(None, Some(3)), Fact::Known(5), Some(5), 3),
        (
            "five, as before",
            record(Some(5), Some(5)),
            Fact::Known(5),
            None,
            5,
        ),
        (
            "fewer, which nobody has ordered",
            record(Some(5), Some(5)),
            Fact::Known(1),
            None,
            5,
        ),
        (
            "an emptied store",
            record(Some(5), Some(5)),
            Fact::Absent,
            None,
            5,
        ),
        (
            "an even one, forced by its author",
            record(None, Some(3)),
            Fact::Known(4),
            Some(4),
            3,
        ),
    ];
    for (what, remembered, says, expected, in_force) in rows {
        let obs = stored(remembered.settled.unwrap(), remembered, says);
        assert_eq!((written(&obs), obs.spec.size), (expected, in_force), "{what}");
        assert!(!has(&obs, "spec-invalid"), "{what}");
    }
}

#[test]
fn a_spec_that_cannot_be_followed_changes_nothing_and_is_said() {
    let wrong = [
        Fact::Known(7),
        Fact::Known(10),
        Fact::Unreachable("garbage".into()),
    ];
    for says in wrong {
        let obs = stored(3, record(Some(3), Some(3)), says.clone());
        assert_eq!(action(&obs), None, "{says:?}");
        assert!(has(&obs, "spec-invalid"), "{says:?}");
        assert_eq!(obs.spec.size, 3);
    }
}

#[test]
fn a_store_that_does_not_answer_changes_nothing() {
    let mut obs = stored(5, record(Some(5), Some(5)), Fact::Known(3));
    obs.store = Fact::Unreachable("timed out".into());
    assert_eq!((action(&obs), obs.spec.size), (None, 5));
    // A node without memory neither shrinks nor grows the cluster before it has read the store.
    for voters in [5, 2] {
        let mut obs = stored(voters, SpecRecord::default(), Fact::Known(5));
        obs.store = Fact::Unreachable("timed out".into());
        assert_eq!(action(&obs), None, "{voters}");
        assert!(has(&obs, "size-unknown"), "{voters}");
    }
}

#[test]
fn a_size_that_only_the_cluster_remembers_is_never_gone_below() {
    // `size = 5` was removed from the file, and the store has no size yet.
    let obs = stored(5, record(None, Some(5)), Fact::Absent);
    assert_eq!((action(&obs), obs.spec.size), (None, 5));
    // A cluster of one that gets more nodes still grows.
    let obs = stored(1, record(None, Some(1)), Fact::Absent);
    assert_eq!(obs.spec.size, 3);
    assert_ne!(action(&obs), None);
}

#[test]
fn the_size_in_the_store_counts_before_the_first_cluster_is_formed() {
    let mut obs = fresh(0, 5, 3);
    obs.spec.size_source = SizeSource::Store { said: None };
    obs.spec.store_shared = true;
    obs.store = Fact::Known(StoreView {
        size: Fact::Known(5),
        ..store_view(None, None)
    });
    assert_eq!(written(&obs), Some(5));
    obs.spec_record.stored = Some(5);
    follow(&mut obs);
    let Some(Action::Propose { genesis, .. }) = decide(&obs).action else {
        panic!("{:?}", decide(&obs))
    };
    assert_eq!(genesis.members.len(), 5);
}

#[test]
fn nothing_is_resized_while_somebody_who_answers_follows_another_size() {
    for (voters, first) in [(3, "add-learner"), (5, "remove-member")] {
        let to = 8 - voters;
        let mut obs = stored(voters, record(Some(to), Some(voters)), Fact::Known(to));
        assert_eq!(action(&obs), Some(first));
        peer(&mut obs, 1).spec_digest = "another".into();
        if let Some(Action::RememberSpec { record }) = decide(&obs).action {
            obs.spec_record = *record;
        }
        assert_eq!(action(&obs), None, "{first}");
        assert!(has(&obs, "spec-differs"), "{first}");
        // A silent node does not delay the change.
        obs.peers.insert(name(1), Fact::Unreachable("no route".into()));
        obs.peers.insert(name(4), Fact::Unreachable("no route".into()));
        assert!(!has(&obs, "spec-differs"), "{first}");
        // If configuration files hold the size, they are changed node by node, so a difference does not delay
        // the change.
        let mut obs = cluster(5, voters, to);
        obs.spec.backup_interval = None;
        peer(&mut obs, 1).spec_digest = "another".into();
        assert_eq!(action(&obs), Some(first));
    }
}

#[test]
fn one_backup_comes_before_a_size_from_the_store_too() {
    let mut obs = stored(3, record(Some(5), Some(3)), Fact::Known(5));
    obs.spec.backup_interval = Some(Duration::from_mins(15));
    obs.spec.backup.retention.enabled = false;
    let Some(Action::RememberSpec { record }) = decide(&obs).action else {
        panic!("{:?}", decide(&obs).action)
    };
    assert_eq!(record.change.as_ref().map(|change| change.to), Some(5));
    assert_eq!(record.stored, Some(5));
    obs.spec_record = *record;
    assert_eq!(action(&obs), Some("backup"));
    assert!(has(&obs, "backup-before-change"));
}

#[test]
fn a_missing_member_is_replaced_whatever_others_follow() {
    let mut obs = stored(3, record(Some(3), Some(3)), Fact::Known(3));
    if let Fact::Known(list) = &mut obs.me.members {
        list.members.truncate(2);
    }
    lose_data(peer(&mut obs, 2));
    peer(&mut obs, 1).spec_digest = "another".into();
    assert_eq!(action(&obs), Some("add-learner"));
}

#[test]
fn clocks_that_differ_are_named_and_decide_nothing() {
    let mut obs = healthy(0);
    obs.clocks = [(name(1), 10_000), (name(2), -10_000)].into();
    let quiet = decide(&obs);
    assert!(!has(&obs, "clock-skew"));
    obs.clocks = [(name(1), 42_900), (name(2), -10_001)].into();
    let decision = decide(&obs);
    let said = decision.reasons.iter().find(|r| r.code == "clock-skew").unwrap();
    assert_eq!(
        said.text,
        "clocks differ: n2 is 42 s ahead of this node, n3 is 10 s behind this node"
    );
    assert_eq!(
        (&decision.action, &decision.text, decision.wake),
        (&quiet.action, &quiet.text, quiet.wake)
    );
    // Clocks that differ do not prevent other actions.
    lose_data(peer(&mut obs, 2));
    assert_eq!(action(&obs), Some("remove-member"));
    assert!(!has(&obs, "clock-skew"));
    // The clock of a peer that does not answer is not compared.
    obs.clocks = [(name(1), 99_000)].into();
    obs.peers.insert(name(1), Fact::Unreachable("no route".into()));
    assert!(!has(&obs, "clock-skew"));
}

#[test]
fn a_node_that_moved_writes_its_settings_anew() {
    let obs = healthy(1);
    assert_eq!(action(&obs), None);
    let move_to = |obs: &mut Observation, i: usize, address: &str| {
        obs.spec.nodes.insert(name(i), address.to_owned());
    };
    let mut elsewhere = obs.clone();
    move_to(&mut elsewhere, 2, "10.9.9.9");
    assert_ne!(action(&elsewhere), Some("assign"), "another node moved");
    let mut moved = obs.clone();
    move_to(&mut moved, 1, "10.9.9.9");
    let Some(Action::Assign { assignment }) = decide(&moved).action else {
        panic!("{:?}", decide(&moved))
    };
    assert!(has(&moved, "settings-changed"));
    let before = obs.assignment.clone().unwrap();
    assert_eq!(assignment.generation, before.generation.next());
    assert_eq!(assignment.member_id, before.member_id);
    assert_eq!(assignment.initial_cluster[&name(1)], ["http://10.9.9.9:2380"]);
    assert_eq!(
        assignment.initial_cluster[&name(0)],
        before.initial_cluster[&name(0)]
    );
    moved.assignment = Some(*assignment);
    assert_eq!(action(&moved), Some("apply"));
    // Before a member's first start its ID is derived from the URLs under which it was added.
    let mut unstarted = before;
    unstarted.started = false;
    moved.assignment = Some(unstarted.clone());
    moved.me.etcd = Fact::Absent;
    let Some(Action::Assign { assignment }) = decide(&moved).action else {
        panic!("{:?}", decide(&moved))
    };
    assert_eq!(assignment.initial_cluster, unstarted.initial_cluster);
}

#[test]
fn f03_a_smaller_size_in_the_store_alone_is_not_followed() {
    let forged = stored(5, record(Some(5), Some(5)), Fact::Known(1));
    assert!(has(&forged, "size-unconfirmed"));
    assert_eq!(written(&forged), None);
    let mut ordered = forged.clone();
    let order = Directives::default().sized(1, &name(3)).unwrap();
    ordered.me.steering.directives = order;
    assert_eq!(written(&ordered), Some(1), "an operator said so to an agent");
    let mut late = forged;
    let mut followed = late.spec.clone();
    followed.size = 1;
    for i in 1..3 {
        peer(&mut late, i).spec_digest = followed.digest();
    }
    assert_eq!(written(&late), None, "two of five follow it");
    peer(&mut late, 3).spec_digest = followed.digest();
    assert_eq!(written(&late), Some(1), "a majority follows it");
}
