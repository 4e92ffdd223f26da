//! The possible next steps of a state.

use std::collections::{BTreeMap, BTreeSet};

use etcd_agent::genesis::{absorb, on_learn};
use etcd_agent::model::{Enquire, EnquireReply, Epoch};

use crate::faults::{self, Fault};
use crate::parts::{Process, Request};
use crate::state::State;
use crate::symmetry::{incarnation, name};
use crate::world::{DIGEST, Violation, World};

/// One event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Step {
    /// A request arrives at a node, and the reply is sent.
    Arrives { request: u32, at: usize },
    /// A proposer begins a round and loses its previous progress.
    Begins { node: usize, round: u64 },
    /// A proposer has a majority of promises and begins phase 2, with the `way`th of the possible ends of
    /// phase 1.
    GoesOn { node: usize, way: usize },
    /// An agent begins to ask the others what they know.
    Asks { node: usize },
    /// An agent processes the answers that it has received.
    Absorbs { node: usize },
    /// A node learns a chosen genesis.
    Learns { node: usize, which: usize },
    /// A node's memory is lost.
    LosesMemory { node: usize },
    /// A broken elector forgets something at a restart.
    Forgets { node: usize },
}

impl World {
    /// True if no epoch can get a second value any more: no further round can begin, and no epoch has two
    /// values that are chosen or in progress.
    pub(crate) fn is_settled(&self, state: State) -> bool {
        let notes = self.notes.get(state.notes);
        if notes.rounds < self.bounds.rounds {
            return false;
        }
        let is_chosen = |epoch: Epoch| notes.chosen.iter().find(|g| g.epoch == epoch);
        let mut open = BTreeSet::new();
        for process in &state.processes {
            let epoch = match self.processes.get(*process) {
                Process::Preparing { prepare, .. } => prepare.epoch,
                Process::Accepting { accept, .. } => {
                    let epoch = accept.genesis.epoch;
                    if is_chosen(epoch).is_some_and(|g| g.same_value(&accept.genesis)) {
                        continue;
                    }
                    epoch
                }
                Process::Idle | Process::Enquiring { .. } => continue,
            };
            if is_chosen(epoch).is_some() || !open.insert(epoch) {
                return false;
            }
        }
        true
    }

    pub(crate) fn has_chosen(&self, state: State) -> bool {
        !self.notes.get(state.notes).chosen.is_empty()
    }

    /// Every possible next state.
    pub(crate) fn next(&mut self, state: State, found: &mut Vec<(Step, State)>) -> Result<(), Violation> {
        self.check_denial(&state)?;
        let mut requests = std::mem::take(&mut self.memo.requests);
        requests.clear();
        requests.extend(self.sent.get(state.sent));
        for request in &requests {
            let (request, from) = (*request, self.sender(*request));
            for at in (0..self.bounds.nodes).filter(|at| *at != from) {
                let next = self.deliver(state, request, at)?;
                if next != state {
                    found.push((Step::Arrives { request, at }, next));
                }
            }
        }
        self.memo.requests = requests;
        for node in 0..self.bounds.nodes {
            self.go_on(state, node, found)?;
            self.begin(state, node, found)?;
            self.ask(state, node, found)?;
            self.learn(state, node, found)?;
            self.lose(state, node, found);
        }
        Ok(())
    }

    fn ask(&mut self, state: State, node: usize, found: &mut Vec<(Step, State)>) -> Result<(), Violation> {
        let record = state.electors[node];
        match self.processes.get(state.processes[node]) {
            Process::Enquiring { replies }
                if replies.len() + 1 == self.bounds.nodes
                    || (self.bounds.some_answers && !replies.is_empty()) =>
            {
                let key = (node, record, state.processes[node]);
                let after = if let Some(known) = self.memo.absorbed.get(&key) {
                    *known
                } else {
                    let replies: Vec<EnquireReply> = replies.values().cloned().collect();
                    let mut after = self.electors.get(record).clone();
                    absorb(
                        &mut after,
                        &self.electorate(node),
                        &replies,
                        &BTreeSet::new(),
                        false,
                    )
                    .map_err(|conflict| Violation(conflict.to_string()))?;
                    let after = self.electors.number(after);
                    self.memo.absorbed.insert(key, after);
                    after
                };
                let mut next = state;
                next.electors[node] = after;
                next.processes[node] = self.idle;
                found.push((Step::Absorbs { node }, next));
            }
            Process::Idle if !self.electors.get(record).eligible => {
                let mut next = state;
                let record = self.electors.get(record).clone();
                let request = self.requests.number(Request::Enquire(Enquire {
                    from: name(node),
                    incarnation: record.incarnation,
                    electorate_digest: DIGEST.to_owned(),
                }));
                self.send(&mut next, request);
                next.processes[node] = self.processes.number(Process::Enquiring {
                    replies: BTreeMap::new(),
                });
                found.push((Step::Asks { node }, next));
            }
            _ => {}
        }
        Ok(())
    }

    fn learn(&mut self, state: State, node: usize, found: &mut Vec<(Step, State)>) -> Result<(), Violation> {
        for which in 0..self.notes.get(state.notes).chosen.len() {
            let key = (state.electors[node], state.notes, which);
            let after = if let Some(known) = self.memo.learned.get(&key) {
                *known
            } else {
                let genesis = self.notes.get(state.notes).chosen[which].clone();
                let mut after = self.electors.get(state.electors[node]).clone();
                let news =
                    on_learn(&mut after, &genesis).map_err(|conflict| Violation(conflict.to_string()))?;
                let after = news.then(|| self.electors.number(after));
                self.memo.learned.insert(key, after);
                after
            };
            if let Some(after) = after {
                let mut next = state;
                next.electors[node] = after;
                found.push((Step::Learns { node, which }, next));
            }
        }
        Ok(())
    }

    fn lose(&mut self, state: State, node: usize, found: &mut Vec<(Step, State)>) {
        let key = (node, state.electors[node], state.notes);
        if self.notes.get(state.notes).lost.values().sum::<usize>() < self.bounds.losses {
            if !self.memo.lost.contains_key(&key) {
                let lost = self.lost(node, state);
                self.memo.lost.insert(key, lost);
            }
            let (record, notes) = self.memo.lost[&key];
            let mut next = state;
            next.electors[node] = record;
            next.processes[node] = self.idle;
            next.notes = notes;
            found.push((Step::LosesMemory { node }, next));
        }
        if self.bounds.fault != Fault::PromisesNotStored {
            return;
        }
        let notes = self.notes.get(state.notes).clone();
        let record = self.electors.get(state.electors[node]).clone();
        if let Some(rest) = faults::restarted(self.bounds.fault, &record)
            && notes.forgot == 0
        {
            let mut notes = notes;
            notes.forgot += 1;
            let mut next = state;
            next.electors[node] = self.electors.number(rest);
            next.processes[node] = self.idle;
            next.notes = self.notes.number(notes);
            found.push((Step::Forgets { node }, next));
        }
    }

    fn lost(&mut self, node: usize, state: State) -> (u32, u32) {
        let mut notes = self.notes.get(state.notes).clone();
        let old = &self.electors.get(state.electors[node]).incarnation;
        let lives = notes.lost.entry(name(node)).or_default();
        *lives += 1;
        let fresh = faults::reinstalled(self.bounds.fault, old, incarnation(node, *lives));
        (self.electors.number(fresh), self.notes.number(notes))
    }
}
