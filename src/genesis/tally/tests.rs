//! Tests of the tally: what the electors confirm and what they deny.

use super::*;
use crate::model::{ClusterId, ClusterName, Origin, UnixMs};

fn genesis_of(epoch: u64, random: &str) -> Genesis {
    Genesis {
        epoch: Epoch(epoch),
        cluster: ClusterName::new("prod").unwrap(),
        token: format!("prod-{epoch}-{random}"),
        members: BTreeMap::new(),
        origin: Origin::Empty,
        electorate: BTreeMap::new(),
        cluster_id: ClusterId(epoch),
        created: UnixMs(1),
        former: Vec::new(),
        etcd: None,
    }
}

fn report(chosen: Option<&Genesis>, accepted: &[&Genesis], complete: bool) -> ElectorReport {
    ElectorReport {
        chosen: chosen.cloned(),
        accepted: accepted.iter().copied().cloned().collect(),
        complete,
        may_have_voted: Epoch::default(),
    }
}

fn tally(reports: &[ElectorReport], stored: Option<&Genesis>, electors: usize) -> Tally {
    Tally {
        reports: (1u8..)
            .zip(reports)
            .map(|(i, report)| (NodeName::new(format!("n{i}")).unwrap(), report.clone()))
            .collect(),
        stored: stored.cloned(),
        electors,
        ..Tally::default()
    }
}

#[test]
fn f02_a_vote_on_a_later_epoch_keeps_no_lie_from_being_denied() {
    let (two, later) = (genesis_of(2, "b"), genesis_of(897, "r"));
    // Seed 202261 of the liars: a restore took the number after the reported one, and its round did not end.
    let half = report(Some(&two), &[&later], true);
    let tally = tally(&[report(Some(&two), &[], true), half.clone(), half], None, 3);
    assert_eq!(tally.ceiling(Epoch(896)), Some(Epoch(2)));
    // Seed 101669: a majority has accepted it, and nobody has learned that it was chosen.
    assert_eq!(tally.ceiling(Epoch(897)), Some(Epoch(2)));
    let mut one_away = tally.clone();
    one_away.reports.remove(&NodeName::new("n1").unwrap());
    assert_eq!(
        one_away.ceiling(Epoch(897)),
        Some(Epoch(897)),
        "n1 may have learned it"
    );
    assert_eq!(one_away.ceiling(Epoch(900)), Some(Epoch(897)));
}

#[test]
fn f02_a_new_memory_denies_nothing_that_its_former_one_may_have_voted_for() {
    let (one, two) = (genesis_of(1, "a"), genesis_of(2, "b"));
    let knows = |genesis: &Genesis| report(Some(genesis), &[], true);
    // Seed 18331 of the simulator: epoch 2 has three votes, and the first elector has lost its memory since.
    let mut again = knows(&one);
    again.may_have_voted = Epoch(2);
    let others = [knows(&two), knows(&two), knows(&one), knows(&one)];
    let with = |first: ElectorReport| [&[first], &others[..]].concat();
    let of = |first: ElectorReport| tally(&with(first), Some(&two), 5);
    assert_eq!(of(again.clone()).ceiling(Epoch(2)), Some(Epoch(2)));
    assert_eq!(of(knows(&one)).ceiling(Epoch(2)), Some(Epoch(1)), "three deny");
    assert_eq!(
        of(again).ceiling(Epoch(3)),
        Some(Epoch(2)),
        "it denies a later one"
    );
}

#[test]
fn f02_an_operators_word_counts_where_no_majority_denies() {
    let (one, two, forged) = (genesis_of(1, "a"), genesis_of(2, "b"), genesis_of(2, "f"));
    let knows = |genesis: &Genesis| report(Some(genesis), &[], true);
    let new = report(None, &[], false);
    let of = |reports: &[ElectorReport]| tally(reports, Some(&two), 3);
    // One was away, one has lost its memory: seed 18306 of the simulator.
    let undecided = of(&[knows(&one), knows(&two), new.clone()]);
    assert_eq!(undecided.confirmed(Epoch(1)), None);
    assert_eq!(undecided.operators_word(Some(&one), &two.token), Ok(Some(&two)));
    let refusals = [
        ("denied", of(&[knows(&one), knows(&one), new.clone()]), &two),
        ("reported by nobody", undecided.clone(), &forged),
        ("the former epoch", undecided.clone(), &one),
    ];
    for (what, tally, genesis) in refusals {
        let chosen = if what == "the former epoch" { &two } else { &one };
        assert!(
            tally.operators_word(Some(chosen), &genesis.token).is_err(),
            "{what}"
        );
    }
    assert_eq!(undecided.operators_word(Some(&two), &two.token), Ok(None));
}

/// n1 and n3 have opened epoch 2 while only n2 had n4 and n5 in `cluster.nodes`.
#[test]
fn t05_nodes_that_were_added_deny_nothing_that_the_former_electors_chose() {
    let (one, two) = (genesis_of(1, "a"), genesis_of(2, "b"));
    let knows = |genesis: &Genesis| report(Some(genesis), &[], true);
    let older = |genesis: &Genesis| report(Some(genesis), &[], false);
    let reports = [older(&two), knows(&one), older(&two), knows(&one), knows(&one)];
    let mut tally = tally(&reports, None, 5);
    assert_eq!(tally.ceiling(Epoch(2)), Some(Epoch(1)), "three of five");
    assert_eq!(tally.confirmed(Epoch(1)), None);
    tally.former = ["n1", "n2", "n3"].map(|name| NodeName::new(name).unwrap()).into();
    assert_eq!(tally.ceiling(Epoch(2)), Some(Epoch(2)));
    assert_eq!(tally.confirmed(Epoch(1)), Some(&two));
    // The others deny a lying elector, and it cannot confirm alone.
    tally.reports.insert(NodeName::new("n3").unwrap(), knows(&one));
    assert_eq!(tally.ceiling(Epoch(2)), Some(Epoch(1)));
    assert_eq!(tally.confirmed(Epoch(1)), None);
    tally.former = [NodeName::new("n1").unwrap()].into();
    assert_eq!(tally.confirmed(Epoch(1)), None, "it takes two");
}

/// The name, all answers, the stored genesis, the number of electors; whether epoch 2 is confirmed, and the
/// ceiling for 2.
type Row<'a> = (
    &'a str,
    Vec<ElectorReport>,
    Option<&'a Genesis>,
    usize,
    bool,
    Option<Epoch>,
);

#[test]
fn f02_a_report_is_confirmed_or_denied_only_by_a_majority() {
    let (one, two, forged) = (genesis_of(1, "a"), genesis_of(2, "b"), genesis_of(2, "f"));
    let knows = |genesis: &Genesis| report(Some(genesis), &[], true);
    let took = |genesis: &Genesis| report(Some(&one), &[genesis], true);
    let new = report(None, &[], false);
    let asked = report(None, &[], true);
    let denied = Some(Epoch(1));
    let rows: [Row<'_>; 15] = [
        (
            "a liar",
            vec![knows(&one), knows(&one), knows(&forged)],
            None,
            3,
            false,
            denied,
        ),
        (
            "a liar, and one away",
            vec![knows(&one), knows(&forged)],
            None,
            3,
            false,
            Some(Epoch(2)),
        ),
        (
            "the proposer and own vote",
            vec![took(&two), knows(&two)],
            None,
            3,
            true,
            Some(Epoch(2)),
        ),
        (
            "two learned, a late one",
            vec![knows(&one), knows(&two), knows(&two)],
            None,
            3,
            true,
            Some(Epoch(2)),
        ),
        (
            "the votes of a majority, and one away that may have learned",
            vec![took(&two), took(&two)],
            None,
            3,
            false,
            Some(Epoch(2)),
        ),
        (
            "the votes of a majority, and nobody has learned it",
            vec![took(&two), took(&two), knows(&one)],
            None,
            3,
            false,
            denied,
        ),
        (
            "the same, recorded in the store",
            vec![took(&two), took(&two), knows(&one)],
            Some(&two),
            3,
            true,
            Some(Epoch(2)),
        ),
        (
            "the store alone",
            vec![knows(&one), knows(&one), knows(&one)],
            Some(&forged),
            3,
            false,
            denied,
        ),
        (
            "five, two of them down",
            vec![took(&two), took(&two), knows(&two)],
            None,
            5,
            true,
            Some(Epoch(2)),
        ),
        (
            "five, two down, a liar",
            vec![knows(&one), knows(&one), knows(&forged)],
            None,
            5,
            false,
            Some(Epoch(2)),
        ),
        (
            "reinstalled electors deny nothing",
            vec![knows(&one), new.clone(), new.clone()],
            None,
            3,
            false,
            None,
        ),
        (
            "all have lost their memory, and the store has not",
            vec![asked.clone(), asked.clone(), asked.clone()],
            Some(&two),
            3,
            false,
            Some(Epoch(2)),
        ),
        (
            "before the first epoch a liar is denied",
            vec![asked.clone(), asked.clone(), knows(&forged)],
            None,
            3,
            false,
            Some(Epoch(0)),
        ),
        (
            "one elector and the store",
            vec![knows(&one)],
            Some(&forged),
            1,
            false,
            denied,
        ),
        (
            "two electors cannot decide who lies",
            vec![knows(&one), knows(&forged)],
            None,
            2,
            false,
            Some(Epoch(2)),
        ),
    ];
    for (what, reports, stored, electors, confirmed, ceiling) in rows {
        let tally = tally(&reports, stored, electors);
        assert_eq!(tally.confirmed(Epoch(1)).is_some(), confirmed, "{what}");
        assert_eq!(tally.ceiling(Epoch(2)), ceiling, "{what}");
    }
}

/// Rule 10: a node stops the etcd of a cluster that was replaced. One copy alone does not say so.
#[test]
fn e_what_an_epoch_has_replaced_is_what_most_copies_name() {
    let with = |former: &[u64]| Genesis {
        former: former.iter().copied().map(ClusterId).collect(),
        ..genesis_of(3, "c")
    };
    let (honest, lie) = (with(&[1, 2]), with(&[1, 2, 99]));
    let ids = |ids: &[u64]| ids.iter().copied().map(ClusterId).collect::<BTreeSet<_>>();
    let of = |copies: &[&Genesis], stored: Option<&Genesis>| {
        let reports: Vec<ElectorReport> = copies.iter().map(|copy| report(Some(copy), &[], true)).collect();
        tally(&reports, stored, 3).replaced_by(&honest)
    };
    assert_eq!(of(&[&lie, &honest, &honest], None), ids(&[1, 2]));
    assert_eq!(of(&[&lie, &honest], None), ids(&[1, 2]));
    assert_eq!(
        of(&[&honest], None),
        ids(&[1, 2]),
        "an operator has confirmed the only copy"
    );
    assert_eq!(of(&[&lie], Some(&honest)), ids(&[1, 2]));
    // An elector that has accepted it and does not know that it was chosen has a copy too.
    let accepted = report(None, &[&honest], true);
    let reports = [report(Some(&lie), &[], true), accepted];
    assert_eq!(tally(&reports, None, 3).replaced_by(&honest), ids(&[1, 2]));
    // A copy of another value is none.
    let other = Genesis {
        token: "prod-3-other".to_owned(),
        ..lie.clone()
    };
    assert_eq!(of(&[&honest, &other], None), ids(&[1, 2]));
}
