//! A proposer begins a round, and goes on to phase 2.

use std::collections::{BTreeMap, BTreeSet};

use etcd_agent::genesis::Round;
use etcd_agent::model::{ElectorRecord, Epoch};

use crate::parts::{Process, Request, ends_of_phase_1};
use crate::state::State;
use crate::steps::Step;
use crate::symmetry::name;
use crate::world::{DIGEST, Violation, World, candidate};

impl World {
    pub(crate) fn begin(
        &mut self,
        state: State,
        node: usize,
        found: &mut Vec<(Step, State)>,
    ) -> Result<(), Violation> {
        if node >= self.bounds.proposers || self.notes.get(state.notes).rounds >= self.bounds.rounds {
            return Ok(());
        }
        let Some((epoch, least)) = self.next_round(state.electors[node]) else {
            return Ok(());
        };
        let most = self.highest_round(state, epoch).max(least - 1) + 1;
        for round in least..=most {
            let next = self.begun(state, node, epoch, round)?;
            found.push((Step::Begins { node, round }, next));
        }
        Ok(())
    }

    /// The next round is higher than the one that the record has promised, as in `agent::observe`.
    fn next_round(&mut self, number: u32) -> Option<(Epoch, u64)> {
        if let Some(known) = self.memo.next_round.get(&number) {
            return *known;
        }
        let record = self.electors.get(number);
        let epoch = record.known().map_or(Epoch(1), |g| g.epoch.next());
        let votes = record.votes.get(&epoch);
        let promised = votes
            .and_then(|votes| votes.promised.as_ref())
            .map_or(0, |b| b.round);
        let next = (record.eligible && epoch.0 <= self.bounds.epochs).then_some((epoch, promised + 1));
        self.memo.next_round.insert(number, next);
        next
    }

    fn highest_round(&self, state: State, epoch: Epoch) -> u64 {
        let rounds = self
            .sent
            .get(state.sent)
            .iter()
            .map(|r| match self.requests.get(*r) {
                Request::Prepare(m) if m.epoch == epoch => m.ballot.round,
                _ => 0,
            });
        rounds.max().unwrap_or(0)
    }

    fn begun(&mut self, mut state: State, node: usize, epoch: Epoch, round: u64) -> Result<State, Violation> {
        let all: Vec<ElectorRecord> = (0..self.bounds.nodes)
            .map(|node| self.electors.get(state.electors[node]).clone())
            .collect();
        let record = &all[node];
        let (ballot, candidate) = candidate(node, record, epoch, round, &all);
        let previous: Option<BTreeSet<_>> = record.known().map(|g| g.electorate.keys().cloned().collect());
        let prepare = Round::new(ballot, DIGEST.to_owned(), candidate.clone(), previous.clone())
            .prepare(&record.incarnation);
        let request = self.requests.number(Request::Prepare(prepare.clone()));
        if self.sent.get(state.sent).contains(&request) {
            return Err(Violation(format!(
                "{} uses ballot {} for two rounds",
                name(node),
                prepare.ballot
            )));
        }
        let mut notes = self.notes.get(state.notes).clone();
        notes.rounds += 1;
        state.notes = self.notes.number(notes);
        state.processes[node] = self.processes.number(Process::Preparing {
            prepare,
            candidate,
            previous,
            promises: BTreeMap::new(),
        });
        self.send(&mut state, request);
        // The proposer's own vote comes first, before the requests to the others.
        self.deliver(state, request, node)
    }

    pub(crate) fn go_on(
        &mut self,
        state: State,
        node: usize,
        found: &mut Vec<(Step, State)>,
    ) -> Result<(), Violation> {
        let process = state.processes[node];
        if !self.memo.ends.contains_key(&process) {
            let ends = self.ends(process);
            self.memo.ends.insert(process, ends);
        }
        for way in 0..self.memo.ends[&process].len() {
            let (process, request) = self.memo.ends[&process][way];
            let mut next = state;
            next.processes[node] = process;
            self.send(&mut next, request);
            let next = self.deliver(next, request, node)?;
            found.push((Step::GoesOn { node, way }, next));
        }
        Ok(())
    }

    fn ends(&mut self, process: u32) -> Vec<(u32, u32)> {
        let Process::Preparing {
            prepare,
            candidate,
            previous,
            promises,
        } = self.processes.get(process).clone()
        else {
            return Vec::new();
        };
        let round = Round::new(
            prepare.ballot.clone(),
            DIGEST.to_owned(),
            candidate,
            previous.clone(),
        );
        ends_of_phase_1(&prepare, &round, &promises)
            .into_iter()
            .map(|accept| {
                let request = self.requests.number(Request::Accept(accept.clone()));
                let process = self.processes.number(Process::Accepting {
                    accept,
                    previous: previous.clone(),
                    acceptances: BTreeMap::new(),
                });
                (process, request)
            })
            .collect()
    }
}
