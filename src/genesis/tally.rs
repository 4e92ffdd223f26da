//! Whether the electors confirm or deny a newer epoch when they are asked again.
//!
//! A node or a store that reports a chosen genesis may lie. A chosen genesis was accepted by a majority, and
//! each of these electors remembers its vote until it learns that epoch or a later one. So a majority
//! confirms it when asked, and no majority denies it.
//!
//! `cluster.nodes` may have changed, on one node after the other. In any case, the epoch after the one that a
//! node follows was accepted by a majority of the electors of the followed epoch. Nodes that were added later
//! had no vote in it, so the two lists are counted separately.

use std::collections::{BTreeMap, BTreeSet};

use crate::model::{ElectorRecord, EnquireReply, Epoch, Genesis, NodeName};

/// The answer of one elector.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ElectorReport {
    /// The newest genesis that it knows as chosen.
    pub chosen: Option<Genesis>,
    /// The values that it has accepted in later epochs.
    pub accepted: Vec<Genesis>,
    /// True if it remembers everything that it has accepted. Only then does it deny an epoch that it does not
    /// name.
    pub complete: bool,
    /// The newest epoch in which a former memory of it may have voted. It denies no epoch up to this one.
    pub may_have_voted: Epoch,
}

impl ElectorReport {
    /// The answer from an elector's own record.
    pub fn of(record: &ElectorRecord) -> Self {
        let accepted = record.votes.values().filter_map(|votes| votes.accepted.as_ref());
        Self {
            chosen: record.chosen.clone(),
            accepted: accepted.map(|(_, genesis)| genesis.clone()).collect(),
            complete: record.eligible,
            may_have_voted: record.may_have_voted,
        }
    }

    /// The answer from a reply to an enquiry. `complete` is what its sender reports about itself.
    pub fn from_reply(reply: EnquireReply, complete: bool) -> Self {
        let accepted = reply.votes.into_values().filter_map(|votes| votes.accepted);
        Self {
            chosen: reply.chosen,
            accepted: accepted.map(|(_, genesis)| genesis).collect(),
            complete,
            may_have_voted: reply.may_have_voted,
        }
    }

    fn has(&self, genesis: &Genesis) -> bool {
        self.chosen
            .iter()
            .chain(&self.accepted)
            .any(|g| g.same_value(genesis))
    }

    /// The newest epoch that this elector knows as chosen. If it knows none, the stored epoch counts: all
    /// electors may have lost their memory, so this elector does not contradict the store.
    fn open(&self, stored: Epoch) -> Epoch {
        self.chosen.as_ref().map_or(stored, |genesis| genesis.epoch)
    }

    fn accepted_epochs(&self) -> impl Iterator<Item = Epoch> {
        self.accepted.iter().map(|genesis| genesis.epoch)
    }

    /// True if this elector has no vote for this epoch, and no former memory of it can have had one.
    fn denies(&self, epoch: Epoch, stored: Epoch) -> bool {
        self.open(stored).max(self.may_have_voted) < epoch
            && self.accepted_epochs().all(|accepted| accepted != epoch)
    }
}

/// The answers of all electors that answer, including this one.
#[derive(Debug, Clone, Default)]
pub struct Tally {
    /// The answers, by elector.
    pub reports: BTreeMap<NodeName, ElectorReport>,
    /// The newest genesis in the shared store.
    pub stored: Option<Genesis>,
    /// Geneses that were reported as chosen before, perhaps by a node that no longer answers.
    pub heard: Vec<Genesis>,
    /// The number of electors in this node's configuration.
    pub electors: usize,
    /// The electors of the epoch that this node follows, as far as the configuration still names them. Empty
    /// if they are unknown.
    pub former: BTreeSet<NodeName>,
}

impl Tally {
    /// The number of electors that is a majority.
    pub fn majority(&self) -> usize {
        self.electors / 2 + 1
    }

    /// Whether these are a majority of the electors of the epoch that this node follows.
    fn are_most_of_former<'a>(&self, names: impl Iterator<Item = &'a NodeName>) -> bool {
        names.filter(|name| self.former.contains(*name)).count() * 2 > self.former.len()
    }

    /// The newest genesis after this epoch that is reported as chosen, and that a majority knows as chosen or
    /// has accepted. A majority of the former electors suffices, because a node that was added later may not
    /// know it. But it takes at least two electors, because a single one may lie.
    pub fn confirmed(&self, after: Epoch) -> Option<&Genesis> {
        let mut newer: Vec<&Genesis> = self.reported().filter(|genesis| genesis.epoch > after).collect();
        newer.sort_by_key(|genesis| std::cmp::Reverse(genesis.epoch));
        newer.into_iter().find(|genesis| {
            let names = || self.sayers(genesis);
            names().count() >= self.majority()
                || (names().count() > 1 && self.are_most_of_former(names()))
                || mutant!(BelievesEpochs)
        })
    }

    /// All geneses that are reported as chosen.
    pub fn reported(&self) -> impl Iterator<Item = &Genesis> {
        let chosen = self.reports.values().filter_map(|report| report.chosen.as_ref());
        chosen.chain(&self.stored).chain(&self.heard)
    }

    /// The genesis that an operator confirms by its token; `None` if it is `chosen`, the one that this
    /// elector already follows.
    ///
    /// # Errors
    /// Why the operator's report does not count. One line for people.
    pub fn operators_word(&self, chosen: Option<&Genesis>, token: &str) -> Result<Option<&Genesis>, String> {
        if chosen.is_some_and(|genesis| genesis.token == token) {
            return Ok(None);
        }
        let open = chosen.map(|genesis| genesis.epoch).unwrap_or_default();
        let Some(genesis) = self.reported().find(|genesis| genesis.token == token) else {
            return Err(format!(
                "no node and no store reports {token} now: start the agent that reported it"
            ));
        };
        if genesis.epoch <= open {
            return Err(format!(
                "epoch {} is not newer than epoch {open}, which this node follows",
                genesis.epoch
            ));
        }
        let ceiling = self.ceiling(genesis.epoch);
        if ceiling.is_some_and(|ceiling| ceiling < genesis.epoch) {
            return Err(format!(
                "a majority of the electors denies epoch {}: it was never opened; `etcd-agent restore` opens a new one",
                genesis.epoch
            ));
        }
        Ok(Some(genesis))
    }

    /// The electors that know this genesis as chosen or have accepted it.
    fn sayers(&self, genesis: &Genesis) -> impl Iterator<Item = &NodeName> {
        let reports = self.reports.iter();
        reports
            .filter(|(_, report)| report.has(genesis))
            .map(|(name, _)| name)
    }

    /// The newest epoch up to `reported` that is not denied; all epochs between the result and `reported` are
    /// denied. `None` if too few electors are able to deny an epoch.
    ///
    /// A majority denies an epoch for which it has no vote, if it includes a majority of the former electors.
    /// All electors together deny an epoch that none of them knows as chosen, even if some have voted for it:
    /// such a round did not end.
    pub fn ceiling(&self, reported: Epoch) -> Option<Epoch> {
        let stored = self.stored.as_ref().map(|genesis| genesis.epoch);
        let stored = stored.unwrap_or_default();
        let complete: Vec<(&NodeName, &ElectorReport)> = self
            .reports
            .iter()
            .filter(|(_, report)| report.complete)
            .collect();
        if complete.len() < self.majority() {
            return None;
        }
        let all_answer = complete.len() == self.electors;
        // `heard` is left out: it holds the reports that are in question.
        let chosen = self.reports.values().filter_map(|report| report.chosen.as_ref());
        let chosen = chosen.chain(&self.stored).map(|genesis| genesis.epoch).max();
        let denied = |epoch: &Epoch| {
            let deny = || {
                complete
                    .iter()
                    .filter(|(_, report)| report.denies(*epoch, stored))
            };
            let former = self.former.is_empty() || self.are_most_of_former(deny().map(|(name, _)| *name));
            deny().count() >= self.majority() && former
                || all_answer && chosen.is_none_or(|chosen| chosen < *epoch)
        };
        let known = complete.iter().map(|(_, report)| report.open(stored));
        let accepted = complete.iter().flat_map(|(_, report)| report.accepted_epochs());
        let all = known.chain(accepted).chain([reported]);
        all.filter(|epoch| *epoch <= reported && !denied(epoch))
            .max()
            .or(Some(Epoch::default()))
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
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
        // Seed 202261 of the liars: a restore took the number after the reported one, and its round did not
        // end.
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
        // Seed 18331 of the simulator: epoch 2 has three votes, and the first elector has lost its memory
        // since.
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

    /// The name, all answers, the stored genesis, the number of electors; whether epoch 2 is confirmed, and
    /// the ceiling for 2.
    type Row<'a> = (
        &'a str,
        Vec<ElectorReport>,
        Option<&'a Genesis>,
        usize,
        bool,
        Option<Epoch>,
    );

    #[test]
    fn f02_what_is_told_is_confirmed_or_denied_only_by_a_majority() {
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
}
