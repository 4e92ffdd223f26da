//! Messages of another electorate, and a change of the electorate.

use super::*;

#[test]
fn a_different_electorate_is_refused_by_name() {
    let mut world = World::new(3);
    let message = Enquire {
        from: name(1),
        incarnation: incarnation(2),
        electorate_digest: "other".into(),
    };
    let refused = on_enquire(&mut world.electors[0], &world.electorate[0], &message).unwrap_err();
    assert!(matches!(refused, Refusal::Electorate { names, .. } if names.len() == 3));
}

/// The digest of an electorate does not include the cluster's name.
#[test]
fn f11e_an_epoch_of_another_cluster_is_not_accepted() {
    let mut world = World::new(3);
    world.enquire_all();
    world.deliver_all();
    for electorate in &mut world.electorate {
        electorate.cluster = ClusterName::new("other").unwrap();
    }
    world.propose(0);
    world.deliver_all();
    assert!(world.chosen.is_empty());
}

/// Two of five electors are replaced. Neither phase ends without a majority of the old five and a majority of
/// the new five. The test tries every set of answers.
#[test]
fn a_change_of_the_electorate_needs_both_majorities() {
    let both: Vec<NodeName> = (0..7).map(name).collect();
    let (old, new): (BTreeSet<_>, BTreeSet<_>) = (
        both[..5].iter().cloned().collect(),
        both[2..].iter().cloned().collect(),
    );
    let members: BTreeMap<NodeName, Vec<String>> = [(name(2), vec!["http://n3:2380".to_owned()])].into();
    let candidate = Genesis {
        epoch: Epoch(2),
        cluster: ClusterName::new("c").unwrap(),
        cluster_id: cluster_id_of(&members, "c-2-x"),
        token: "c-2-x".to_owned(),
        members,
        origin: Origin::Empty,
        electorate: new
            .iter()
            .enumerate()
            .map(|(i, node)| (node.clone(), incarnation(i)))
            .collect(),
        created: UnixMs(0),
        former: Vec::new(),
        etcd: None,
    };
    let begin = |previous: Option<BTreeSet<NodeName>>| {
        let ballot = Ballot {
            round: 1,
            node: name(2),
        };
        Round::new(ballot, "d".into(), candidate.clone(), previous)
    };
    let mut reached = 0;
    for answers in 0..1_u32 << 7 {
        let said: BTreeSet<NodeName> = (0..7)
            .filter(|i| answers & (1 << i) != 0)
            .map(|i| both[i].clone())
            .collect();
        let majority = |of: &BTreeSet<NodeName>| of.intersection(&said).count() >= 3;
        let mut round = begin(Some(old.clone()));
        let mut unchanged = begin(None);
        for node in &said {
            let incarnation = candidate
                .electorate
                .get(node)
                .cloned()
                .unwrap_or_else(|| incarnation(9));
            for round in [&mut round, &mut unchanged] {
                round.on_prepare_reply(
                    node,
                    PrepareReply::Promise {
                        incarnation: incarnation.clone(),
                        accepted: None,
                    },
                );
            }
        }
        for node in &said {
            let incarnation = round.value().electorate[node].clone();
            round.on_accept_reply(node, AcceptReply::Accepted { incarnation });
        }
        let wanted = majority(&old) && majority(&new);
        assert_eq!(round.prepared() == Outcome::Reached, wanted, "{said:?}");
        assert_eq!(round.accepted() == Outcome::Reached, wanted, "{said:?}");
        assert_eq!(
            unchanged.prepared() == Outcome::Reached,
            majority(&new),
            "{said:?}"
        );
        reached += usize::from(wanted);
    }
    // If k of n3, n4 and n5 (which are in both lists) answer, at least 3 - k of the two others in each list
    // must answer.
    assert_eq!(reached, 16 + 3 * 9 + 3);
}

/// An elector has accepted the value of a round that ended in the middle. The round that opens the epoch repeats
/// the value, and says itself when that is: an order is answered by its time.
#[test]
fn a_value_that_is_repeated_has_the_time_of_the_round_that_opens_it() {
    let mut world = World::new(3);
    let before = world.choose();
    let now = UnixMs(before.created.0 + 60_000);
    let token = "c-1-later".to_owned();
    let candidate = Genesis {
        cluster_id: cluster_id_of(&before.members, &token),
        token,
        created: now,
        ..before.clone()
    };
    let ballot = |round| Ballot { round, node: name(1) };
    let mut round = Round::new(ballot(9), "d".into(), candidate, None);
    let promise = PrepareReply::Promise {
        incarnation: incarnation(1),
        accepted: Some(Box::new((ballot(4), before.clone()))),
    };
    round.on_prepare_reply(&name(0), promise);
    let value = round.value();
    assert!(value.same_value(&before), "{value:?}");
    assert_eq!(value.created, now);
}

/// One elector lies about the value that it has accepted.
#[test]
fn rule_10_a_round_takes_up_no_value_that_no_elector_accepts() {
    let restored = |epoch: u64, random: &str| {
        let cluster = ClusterName::new("c").unwrap();
        let token = format!("c-{epoch}-{random}");
        let members: BTreeMap<NodeName, Vec<String>> = [(name(0), vec!["http://n1:2380".to_owned()])].into();
        Genesis {
            epoch: Epoch(epoch),
            cluster,
            cluster_id: cluster_id_of(&members, &token),
            token,
            members,
            origin: Origin::Backup(BackupId::new("2026-01-01T00:00:00Z-000001").unwrap()),
            electorate: (0..3).map(|i| (name(i), incarnation(i + 1))).collect(),
            created: UnixMs(0),
            former: Vec::new(),
            etcd: None,
        }
    };
    let candidate = restored(2, "mine");
    let theirs = restored(2, "theirs");
    let table = [
        ("accepted before", theirs.clone(), true),
        (
            "empty",
            Genesis {
                origin: Origin::Empty,
                ..theirs.clone()
            },
            false,
        ),
        ("another epoch", restored(3, "theirs"), false),
        (
            "another cluster",
            Genesis {
                cluster: ClusterName::new("d").unwrap(),
                token: "d-2-theirs".to_owned(),
                cluster_id: cluster_id_of(&theirs.members, "d-2-theirs"),
                ..theirs.clone()
            },
            false,
        ),
        (
            "another cluster ID",
            Genesis {
                cluster_id: candidate.cluster_id,
                ..theirs.clone()
            },
            false,
        ),
    ];
    let ballot = |round| Ballot { round, node: name(1) };
    for (what, value, taken) in table {
        let mut round = Round::new(ballot(9), "d".into(), candidate.clone(), None);
        let promise = PrepareReply::Promise {
            incarnation: incarnation(1),
            accepted: Some(Box::new((ballot(4), value.clone()))),
        };
        round.on_prepare_reply(&name(0), promise);
        let expected = if taken { &value } else { &candidate };
        assert!(round.value().same_value(expected), "{what}: {:?}", round.value());
    }
}
