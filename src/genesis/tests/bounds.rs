//! What an elector does not believe: numbers beyond bounds, and malformed values.

use super::*;

/// One elector lies about every number and value that it reports. Its lies end no round and leave room for
/// later epochs and ballots.
#[test]
fn f02_an_elector_takes_no_epoch_beyond_bounds_and_no_malformed_genesis() {
    let mut world = World::new(3);
    let first = world.choose();
    let named = |epoch: u64| {
        let token = format!("c-{epoch}-x");
        Genesis {
            epoch: Epoch(epoch),
            cluster_id: cluster_id_of(&first.members, &token),
            token,
            ..first.clone()
        }
    };
    let broken = Genesis {
        cluster_id: ClusterId(1),
        ..named(2)
    };
    let foreign = Genesis {
        cluster: ClusterName::new("other").unwrap(),
        token: "other-2-x".into(),
        cluster_id: cluster_id_of(&first.members, "other-2-x"),
        ..named(2)
    };
    on_learn(&mut world.electors[0], &first).unwrap();
    let before = world.electors[0].clone();
    for reported in [named(1002), named(u64::MAX), broken.clone()] {
        let learned = on_learn(&mut world.electors[0], &reported);
        assert!(matches!(learned, Err(NotLearned::Invalid { .. })), "{learned:?}");
        assert_eq!(world.electors[0], before);
    }

    let message = Enquire {
        from: name(0),
        incarnation: before.incarnation.clone(),
        electorate_digest: "d".into(),
    };
    let honest = on_enquire(&mut world.electors[1], &world.electorate[1], &message).unwrap();
    let ballot = Ballot {
        round: 9,
        node: name(1),
    };
    let votes = |epoch: u64, genesis: &Genesis| {
        let votes = EpochVotes {
            promised: Some(ballot.clone()),
            accepted: Some((ballot.clone(), genesis.clone())),
        };
        BTreeMap::from([(Epoch(epoch), votes)])
    };
    let lies = [
        ("a number", Epoch(1001), None, BTreeMap::new()),
        ("the last number", Epoch(u64::MAX), None, BTreeMap::new()),
        ("far ahead", Epoch(1), Some(named(1002)), BTreeMap::new()),
        ("malformed", Epoch(1), Some(broken.clone()), BTreeMap::new()),
        ("another cluster's", Epoch(1), Some(foreign), BTreeMap::new()),
        ("votes far ahead", Epoch(1), None, votes(1002, &named(1002))),
        ("a malformed vote", Epoch(1), None, votes(2, &broken)),
        ("a vote for another epoch", Epoch(1), None, votes(2, &named(3))),
    ];
    for (what, newest_epoch, chosen, votes) in lies {
        let reply = EnquireReply {
            newest_epoch,
            chosen,
            votes,
            ..honest.clone()
        };
        let mut record = ElectorRecord {
            eligible: false,
            ..before.clone()
        };
        let nobody = BTreeSet::new();
        absorb(&mut record, &world.electorate[0], &[reply], &nobody, false).unwrap();
        assert_eq!(
            record,
            ElectorRecord {
                eligible: false,
                ..before.clone()
            },
            "{what}"
        );
    }
    let far = Prepare {
        epoch: Epoch(1002),
        ballot,
        incarnation: world.electors[1].incarnation.clone(),
        electorate_digest: "d".into(),
    };
    let answer = on_prepare(&mut world.electors[0], &world.electorate[0], &far);
    assert!(
        matches!(answer, PrepareReply::Refused(Refusal::Invalid { .. })),
        "{answer:?}"
    );
    assert_eq!(world.electors[0], before);
}

/// A peer proposes in ever more epochs, with the largest values that it can send. The elector's memory stays
/// readable, and the elector votes in the next epochs as before.
#[test]
fn h_no_peer_fills_an_electors_memory() {
    let mut world = World::new(3);
    let first = world.choose();
    on_learn(&mut world.electors[0], &first).unwrap();
    let named = |epoch: u64, url: &str| {
        let token = format!("c-{epoch}-x");
        let members: BTreeMap<NodeName, Vec<String>> = first
            .members
            .keys()
            .map(|node| (node.clone(), vec![url.to_owned()]))
            .collect();
        Genesis {
            epoch: Epoch(epoch),
            cluster_id: cluster_id_of(&members, &token),
            token,
            members,
            origin: Origin::Backup(BackupId::new("2026-01-01T00:00:00Z-000001").unwrap()),
            ..first.clone()
        }
    };
    let accept = |genesis: Genesis| Accept {
        ballot: Ballot {
            round: 9,
            node: name(1),
        },
        genesis,
        electorate_digest: "d".into(),
    };
    let electorate = world.electorate[0].clone();
    let long = format!("http://{}:2380", "x".repeat(2_600));
    for epoch in (10..1000).rev() {
        on_accept(&mut world.electors[0], &electorate, &accept(named(epoch, &long)));
    }
    let record = &mut world.electors[0];
    assert_eq!(record.votes.len(), 8, "{:?}", record.votes.keys());
    assert!(serde_json::to_vec_pretty(&*record).unwrap().len() < 8 * 24 * 1024);
    let larger = format!("http://{}:2380", "x".repeat(2_800));
    let answer = on_accept(record, &electorate, &accept(named(2, &larger)));
    assert!(
        matches!(answer, AcceptReply::Refused(Refusal::Invalid { .. })),
        "{answer:?}"
    );
    let escaped = on_accept(record, &electorate, &accept(named(2, "\u{1}")));
    assert!(
        matches!(escaped, AcceptReply::Refused(Refusal::Invalid { .. })),
        "{escaped:?}"
    );
    for epoch in 2..10 {
        let answer = on_accept(record, &electorate, &accept(named(epoch, "http://n1:2380")));
        assert!(
            matches!(answer, AcceptReply::Accepted { .. }),
            "epoch {epoch}: {answer:?}"
        );
    }
}

/// A peer reports memories of nodes that are no electors. They fill nothing, and no majority has forgotten.
#[test]
fn h_a_reply_names_only_electors() {
    let mut world = World::new(3);
    let message = Enquire {
        from: name(0),
        incarnation: world.electors[0].incarnation.clone(),
        electorate_digest: "d".into(),
    };
    let mut replies = Vec::new();
    for i in 1..3 {
        replies.push(on_enquire(&mut world.electors[i], &world.electorate[i].clone(), &message).unwrap());
    }
    replies[0].superseded = (10..20).map(name).collect();
    replies[0].incarnations = (10..20).map(|i| (name(i), incarnation(i))).collect();
    let electorate = world.electorate[0].clone();
    let record = &mut world.electors[0];
    absorb(record, &electorate, &replies, &BTreeSet::new(), false).unwrap();
    assert!(record.eligible);
    assert!(
        record.superseded.is_empty()
            && record
                .incarnations
                .keys()
                .all(|node| electorate.names.contains(node))
    );
}
