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

use crate::model::{ClusterId, ElectorRecord, EnquireReply, Epoch, Genesis, NodeName};

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
        self.copy(genesis).is_some()
    }

    /// Its copy of this genesis.
    fn copy(&self, genesis: &Genesis) -> Option<&Genesis> {
        let mut copies = self.chosen.iter().chain(&self.accepted);
        copies.find(|copy| copy.same_value(genesis))
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
    pub reported_before: Vec<Genesis>,
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
        chosen.chain(&self.stored).chain(&self.reported_before)
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

    /// The cluster IDs that this genesis has replaced: those that most copies of it name. They are not part of the
    /// value, and a node stops the etcd of a replaced cluster, so one copy of several is not believed (rule 10). A
    /// confirmed genesis has two copies at least; one that an operator confirms may have one.
    pub fn replaced_by(&self, genesis: &Genesis) -> BTreeSet<ClusterId> {
        let copy = |report: &ElectorReport| report.copy(genesis).map(|copy| copy.former.clone());
        let stored = self.stored.iter().filter(|stored| stored.same_value(genesis));
        let stored = stored.map(|stored| stored.former.clone());
        let copies: Vec<Vec<ClusterId>> = self.reports.values().filter_map(copy).chain(stored).collect();
        let mut named: BTreeMap<ClusterId, usize> = BTreeMap::new();
        for id in copies.iter().flatten().collect::<BTreeSet<_>>() {
            named.insert(*id, copies.iter().filter(|former| former.contains(id)).count());
        }
        let most = copies.len() / 2 + 1;
        let believed = named.into_iter().filter(|(_, count)| *count >= most);
        believed.map(|(id, _)| id).collect()
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
        // `reported_before` is left out: it holds the reports that are in question.
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
mod tests;
