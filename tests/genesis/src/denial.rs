//! Checks that an epoch that a majority of the electors denies was never chosen, in each state and for each
//! set of electors that answer.

use etcd_agent::genesis::{ElectorReport, Tally};
use etcd_agent::model::Epoch;

use crate::faults::{Fault, answered};
use crate::state::{MOST_NODES, State};
use crate::symmetry::name;
use crate::world::{Violation, World};

impl World {
    /// Checks that no set of electors denies an epoch that was chosen.
    pub(crate) fn check_denial(&mut self, state: &State) -> Result<(), Violation> {
        if !matches!(
            self.bounds.fault,
            Fault::None | Fault::NewMemoryDenies | Fault::FormerVotesDenied
        ) {
            // The other faults break rule 1, and the check of rule 1 must find them.
            return Ok(());
        }
        let chosen = self.notes.get(state.notes).chosen.iter();
        let chosen: Vec<Epoch> = chosen.map(|genesis| genesis.epoch).collect();
        if chosen.is_empty() {
            return Ok(());
        }
        let mut reports = [0; MOST_NODES];
        for (word, elector) in reports.iter_mut().zip(state.electors).take(self.bounds.nodes) {
            *word = self.word(elector);
        }
        // Sort the answers: it does not matter which elector gives which answer.
        reports[..self.bounds.nodes].sort_unstable();
        for epoch in chosen {
            let key = (reports, epoch);
            let denied = if let Some(known) = self.memo.denied.get(&key) {
                *known
            } else {
                let denied = self.is_denied(&reports, epoch);
                self.memo.denied.insert(key, denied);
                denied
            };
            if denied {
                let text = format!("epoch {epoch} was chosen, and a majority denies it");
                return Err(Violation(text));
            }
        }
        Ok(())
    }

    /// The number of an elector's answer.
    fn word(&mut self, elector: u32) -> u32 {
        if let Some(known) = self.memo.word.get(&elector) {
            return *known;
        }
        let word = answered(self.bounds.fault, ElectorReport::of(self.electors.get(elector)));
        let known = self.memo.reports.iter().position(|other| *other == word);
        let at = known.unwrap_or(self.memo.reports.len());
        if known.is_none() {
            self.memo.reports.push(word);
        }
        let number = u32::try_from(at).expect("few reports");
        self.memo.word.insert(elector, number);
        number
    }

    /// Whether some set of electors denies this chosen epoch. All electors together may deny a chosen epoch
    /// that none of them has learned yet.
    fn is_denied(&self, reports: &[u32; MOST_NODES], epoch: Epoch) -> bool {
        let nodes = self.bounds.nodes;
        (1_u32..1 << nodes).any(|part| {
            let answer = (0..nodes).filter(|node| part & (1 << node) != 0);
            let reports = answer.map(|node| (name(node), self.memo.reports[reports[node] as usize].clone()));
            let tally = Tally {
                reports: reports.collect(),
                electors: nodes,
                ..Tally::default()
            };
            let learned = tally.reported().any(|genesis| genesis.epoch >= epoch);
            (learned || tally.reports.len() < nodes)
                && tally.ceiling(epoch).is_some_and(|ceiling| ceiling < epoch)
        })
    }
}
