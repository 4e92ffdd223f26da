//! What an elector that lost its memory may do, and what others know about it.

use super::*;

/// The refusals of electors that know a later memory of n1.
fn stale(known: &[usize]) -> Vec<Refusal> {
    let refusal = |known: &usize| Refusal::StaleIncarnation {
        elector: name(0),
        known: incarnation(*known),
    };
    known.iter().map(refusal).collect()
}

/// Either the elector's own clock was set back, or one elector lies.
#[test]
fn an_elector_takes_a_later_incarnation_than_others_know_of_it() {
    // Whether it votes, whether the store vouches for it, what the others know, and whether it renews its
    // incarnation.
    let rows: [(bool, bool, &[usize], bool); 7] = [
        (false, false, &[7, 9], true),
        (false, false, &[9], true),
        (false, false, &[3], false),
        (false, true, &[9], false),
        (false, true, &[7, 9], true),
        (true, false, &[9], false),
        (true, false, &[7, 9], true),
    ];
    for (eligible, vouched, known, expected) in rows {
        let world = World::new(3);
        let mut record = new_record(incarnation(5));
        record.eligible = eligible;
        let before = record.clone();
        let renewed = renew(&mut record, &world.electorate[0], &stale(known), vouched);
        assert_eq!(renewed, expected, "{eligible} {vouched} {known:?}");
        if renewed {
            assert!(record.incarnation > incarnation(9), "{}", record.incarnation);
            assert!(!record.eligible, "it enquires again");
        } else {
            assert_eq!(record, before);
        }
    }
    let beyond = Incarnation::new("f".repeat(32)).unwrap();
    assert_eq!(incarnation(5).after(&beyond), None, "no clock gives such a time");
}

#[test]
fn an_elector_without_memory_does_not_vote() {
    let mut world = World::new(3);
    world.electors[0].eligible = true;
    world.propose(0);
    world.deliver_all();
    assert!(world.chosen.is_empty());
}

/// Found by `tests/genesis`. Two of three electors lose their memory at the same time, and so forget that
/// they had chosen epoch 2. The third knows of both losses, although it had not learned of epoch 1.
#[test]
fn rule_1_a_late_elector_remembers_who_forgot() {
    let mut world = World::new(3);
    let first = world.choose();
    for i in 0..2 {
        on_learn(&mut world.electors[i], &first).unwrap();
    }
    // n1 is reinstalled. n2 is reinstalled before it has answered n1.
    world.wire.clear();
    world.reinstall(0);
    let ask = |world: &World, i: usize| Enquire {
        from: name(i),
        incarnation: world.electors[i].incarnation.clone(),
        electorate_digest: "d".into(),
    };
    let message = ask(&world, 0);
    let third = on_enquire(&mut world.electors[2], &world.electorate[2], &message).unwrap();
    world.reinstall(1);
    on_learn(&mut world.electors[0], &first).unwrap();
    let second = on_enquire(&mut world.electors[1], &world.electorate[1], &message).unwrap();
    absorb(
        &mut world.electors[0],
        &world.electorate[0],
        &[third, second],
        &BTreeSet::new(),
        false,
    )
    .unwrap();
    assert!(!world.electors[0].eligible, "{:?}", world.electors[0]);
    // The third still remembers the loss when it learns of epoch 1 afterwards.
    on_learn(&mut world.electors[2], &first).unwrap();
    assert!(world.electors[2].superseded.contains(&name(0)));
}

/// The configuration grew from three nodes to five after n1 and n2 may have opened epoch 2 and forgotten it.
/// Two memories of five are lost, and these are two of the three that had to vote for epoch 2.
#[test]
fn t05_memories_lost_count_against_the_electors_of_the_newest_epoch() {
    let epoch = |n: usize| {
        let members: BTreeMap<NodeName, Vec<String>> = [(name(0), vec!["http://n1:2380".to_owned()])].into();
        let cluster = ClusterName::new("c").unwrap();
        let names: Vec<NodeName> = (0..n).map(name).collect();
        let token = token_of(&cluster, Epoch(1), 7, names.iter());
        Genesis {
            epoch: Epoch(1),
            cluster,
            cluster_id: cluster_id_of(&members, &token),
            token,
            members,
            origin: Origin::Empty,
            electorate: (0..n).map(|i| (name(i), incarnation(i + 1))).collect(),
            created: UnixMs(0),
            former: Vec::new(),
            etcd: None,
        }
    };
    // The number of electors that opened epoch 1, the node that asks, the lost memories, and whether the
    // asker may vote.
    let rows: [(usize, usize, &[usize], bool); 7] = [
        (3, 0, &[0, 1], false),
        (3, 0, &[0], true),
        (3, 2, &[0, 1], false),
        // No elector knows a former memory of n3.
        (3, 2, &[0], true),
        (5, 0, &[0, 1], true),
        (5, 0, &[0, 1, 2], false),
        // A node that was added later had no vote for epoch 2, so its former memory cannot have forgotten
        // one.
        (3, 3, &[0, 3], true),
    ];
    for (electors, me, lost, expected) in rows {
        let mut world = World::new(5);
        let first = epoch(electors);
        for i in (0..5).filter(|i| *i != me) {
            on_learn(&mut world.electors[i], &first).unwrap();
        }
        for i in lost {
            let known = incarnation(i + 1);
            world.electors.iter_mut().for_each(|e| {
                e.incarnations.insert(name(*i), known.clone());
            });
        }
        for i in lost.iter().filter(|i| **i != me) {
            world.reinstall(*i);
        }
        world.reinstall(me);
        world.enquire(me);
        world.deliver_all();
        let asker = &world.electors[me];
        assert_eq!(
            asker.eligible,
            expected,
            "{electors} electors, n{} asks: {asker:?}",
            me + 1
        );
    }
}

/// Its votes are lost, and electors that have learned the epoch keep no votes for it.
#[test]
fn f02_a_new_memory_says_up_to_which_epoch_its_former_one_may_have_voted() {
    let mut world = World::new(3);
    let first = world.choose();
    for other in 1..3 {
        on_learn(&mut world.electors[other], &first).unwrap();
    }
    let anew = new_record(incarnation(9));
    let message = Enquire {
        from: name(0),
        incarnation: anew.incarnation.clone(),
        electorate_digest: "d".into(),
    };
    let replies: Vec<EnquireReply> = (1..3)
        .map(|other| on_enquire(&mut world.electors[other], &world.electorate[other], &message).unwrap())
        .collect();
    let regained = |replies: &[EnquireReply], vouched: bool| {
        let mut record = anew.clone();
        absorb(
            &mut record,
            &world.electorate[0],
            replies,
            &BTreeSet::new(),
            vouched,
        )
        .unwrap();
        record
    };
    assert_eq!(
        regained(&replies[..1], false).may_have_voted,
        Epoch(0),
        "no vote yet"
    );
    let mut all = regained(&replies, false);
    assert_eq!((all.eligible, all.may_have_voted), (true, Epoch(1)));
    let mut vouched = regained(&replies[..1], true);
    assert_eq!(vouched.may_have_voted, Epoch(2), "n3 may know of a round");
    on_learn(&mut all, &first).unwrap();
    assert_eq!(all.may_have_voted, Epoch(0), "it is open now");
    on_learn(&mut vouched, &first).unwrap();
    assert_eq!(vouched.may_have_voted, Epoch(2));

    // It asks again, and that vote counts no more once all others answer that they have voted for nothing.
    let again = |replies: &[EnquireReply]| {
        let mut record = vouched.clone();
        let nobody = BTreeSet::new();
        absorb(&mut record, &world.electorate[0], replies, &nobody, true).unwrap();
        record.may_have_voted
    };
    assert_eq!(again(&replies), Epoch(0));
    assert_eq!(again(&replies[..1]), Epoch(2), "n3 has not answered");
    let with = |change: &dyn Fn(&mut EnquireReply)| {
        let mut replies = replies.clone();
        change(&mut replies[1]);
        again(&replies)
    };
    let ballot = Ballot {
        round: 9,
        node: name(2),
    };
    let second = Genesis {
        epoch: Epoch(2),
        ..first.clone()
    };
    let accepted = EpochVotes {
        promised: Some(ballot.clone()),
        accepted: Some((ballot.clone(), second)),
    };
    let promised = EpochVotes {
        promised: Some(ballot),
        accepted: None,
    };
    assert_eq!(
        with(&|n3| drop(n3.votes.insert(Epoch(2), accepted.clone()))),
        Epoch(2)
    );
    assert_eq!(
        with(&|n3| drop(n3.votes.insert(Epoch(2), promised.clone()))),
        Epoch(0)
    );
    assert_eq!(
        with(&|n3| n3.may_have_voted = Epoch(2)),
        Epoch(2),
        "n3 has lost its memory too"
    );
    let anew = on_enquire(&mut new_record(incarnation(8)), &world.electorate[2], &message).unwrap();
    assert_eq!(
        with(&|n3| *n3 = anew.clone()),
        Epoch(2),
        "n3 has a new memory, which knows nothing yet"
    );
    assert_eq!(
        with(&|n3| n3.incarnation = incarnation(0)),
        Epoch(2),
        "an answer of a former memory"
    );
}

/// The clock of n3 was set back before its agent was reinstalled.
#[test]
fn a_memory_that_orders_before_its_former_one_keeps_nobody_from_choosing() {
    let mut world = World::new(3);
    world.enquire_all();
    world.deliver_all();
    world.propose(0);
    let mut round = world.rounds[0].take().unwrap();
    for (i, memory) in [(2, 0), (1, 2), (0, 1)] {
        assert_eq!(round.prepared(), Outcome::Open);
        let promise = PrepareReply::Promise {
            incarnation: incarnation(memory),
            accepted: None,
        };
        round.on_prepare_reply(&name(i), promise);
    }
    assert_eq!(round.prepared(), Outcome::Reached);
    assert_eq!(round.value().electorate[&name(2)], incarnation(3));
    let reply = on_accept(&mut world.electors[1], &world.electorate[1], &round.accept());
    assert!(matches!(reply, AcceptReply::Accepted { .. }), "{reply:?}");
}

/// One elector lies about the memory of another one.
#[test]
fn f02_no_reply_names_a_memory_of_a_time_that_no_clock_has() {
    let mut world = World::new(3);
    let electorate = world.electorate[0].clone();
    for (memory, believed) in [
        (incarnation(9), true),
        (Incarnation::new("f".repeat(32)).unwrap(), false),
    ] {
        let message = Enquire {
            from: name(0),
            incarnation: world.electors[0].incarnation.clone(),
            electorate_digest: "d".into(),
        };
        let liar = world.electorate[1].clone();
        let mut reply = on_enquire(&mut world.electors[1], &liar, &message).unwrap();
        reply.incarnations.insert(name(2), memory.clone());
        let asker = &mut world.electors[0];
        absorb(asker, &electorate, &[reply], &BTreeSet::new(), false).unwrap();
        assert_eq!(asker.incarnations.get(&name(2)) == Some(&memory), believed);
    }
}
