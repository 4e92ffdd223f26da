//! Checks that an epoch that a majority of the electors denies was never chosen, in each state and for each set of electors that answer.

use etcd_agent::genesis::{Tally, Word};
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
        let mut words = [0; MOST_NODES];
        for (word, elector) in words.iter_mut().zip(state.electors).take(self.bounds.nodes) {
            *word = self.word(elector);
        }
        // Sort the answers: it does not matter which elector gives which answer.
        words[..self.bounds.nodes].sort_unstable();
        for epoch in chosen {
            let key = (words, epoch);
            let denied = if let Some(known) = self.memo.denied.get(&key) {
                *known
            } else {
                let denied = self.is_denied(&words, epoch);
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
        let word = answered(self.bounds.fault, Word::of(self.electors.get(elector)));
        let known = self.memo.words.iter().position(|other| *other == word);
        let at = known.unwrap_or(self.memo.words.len());
        if known.is_none() {
            self.memo.words.push(word);
        }
        let number = u32::try_from(at).expect("few words");
        self.memo.word.insert(elector, number);
        number
    }

    /// Whether some set of electors denies this chosen epoch. All electors together may deny a chosen epoch that none of them has learned yet.
    fn is_denied(&self, words: &[u32; MOST_NODES], epoch: Epoch) -> bool {
        let nodes = self.bounds.nodes;
        (1_u32..1 << nodes).any(|part| {
            let answer = (0..nodes).filter(|node| part & (1 << node) != 0);
            let words = answer.map(|node| (name(node), self.memo.words[words[node] as usize].clone()));
            let tally = Tally {
                words: words.collect(),
                electors: nodes,
                ..Tally::default()
            };
            let learned = tally.told().any(|genesis| genesis.epoch >= epoch);
            (learned || tally.words.len() < nodes)
                && tally.ceiling(epoch).is_some_and(|ceiling| ceiling < epoch)
        })
    }
}
