//! The possible next steps of a state.

use std::collections::{BTreeMap, BTreeSet};

use etcd_agent::genesis::{
    ElectorReport, Outcome, Round, absorb, on_accept, on_enquire, on_learn, on_prepare,
};
use etcd_agent::model::{AcceptReply, ElectorRecord, Enquire, EnquireReply, Epoch, Genesis, PrepareReply};

use crate::fast::FastMap;
use crate::faults::{self, Fault};
use crate::parts::{Process, Reply, Request, add, ends_of_phase_1};
use crate::state::{MOST_NODES, State};
use crate::symmetry::{incarnation, name};
use crate::world::{DIGEST, Violation, World, candidate};

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

/// A process, a request, the sender of a reply, and the reply.
type Taking = (u32, u32, usize, u32);

/// A cache of the reaction of each part to another.
#[derive(Debug, Default)]
pub(crate) struct Memo {
    /// By node, record and request: the record afterwards, and the reply unless it is a refusal.
    handled: FastMap<(usize, u32, u32), (u32, Option<u32>)>,
    /// By process, request, sender and reply: the process afterwards, and the genesis if it is chosen now.
    taken: FastMap<Taking, (u32, Option<Genesis>)>,
    /// By process: each possible end of its phase 1, as process and request.
    ends: FastMap<u32, Vec<(u32, u32)>>,
    /// By node, record and process: the record after the answers were processed.
    absorbed: FastMap<(usize, u32, u32), u32>,
    /// By record: its answer to an enquiry, as an index of `reports`.
    pub(crate) word: FastMap<u32, u32>,
    /// The different answers of electors.
    pub(crate) reports: Vec<ElectorReport>,
    /// By the answers of all electors, and an epoch: whether some set of them denies it.
    pub(crate) denied: FastMap<([u32; MOST_NODES], Epoch), bool>,
    /// By record, notes and index of the chosen genesis: the record after it learned that genesis.
    learned: FastMap<(u32, u32, usize), Option<u32>>,
    /// By node, record and notes: the new record and the notes after its memory was lost.
    lost: FastMap<(usize, u32, u32), (u32, u32)>,
    /// By record: the epoch that it may propose, and the lowest round that it may use.
    next_round: FastMap<u32, Option<(Epoch, u64)>>,
    /// By request: its sender.
    senders: Vec<usize>,
    /// A buffer for the requests of one state.
    requests: Vec<u32>,
    /// By set and request: the set with the request added.
    with: FastMap<(u32, u32), u32>,
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

    /// The node that sent a request.
    fn sender(&mut self, request: u32) -> usize {
        let at = request as usize;
        while self.memo.senders.len() <= at {
            let next = u32::try_from(self.memo.senders.len()).expect("a request's number");
            let from = self.node(self.requests.get(next).from());
            self.memo.senders.push(from);
        }
        self.memo.senders[at]
    }

    fn send(&mut self, state: &mut State, request: u32) {
        let key = (state.sent, request);
        if let Some(known) = self.memo.with.get(&key) {
            state.sent = *known;
            return;
        }
        let mut sent = self.sent.get(state.sent).clone();
        sent.insert(request);
        state.sent = self.sent.number(sent);
        self.memo.with.insert(key, state.sent);
    }

    /// An elector handles a request. If the sender still waits, it receives the reply.
    fn deliver(&mut self, mut state: State, request: u32, at: usize) -> Result<State, Violation> {
        let (record, reply) = self.handle(at, state.electors[at], request);
        state.electors[at] = record;
        let Some(reply) = reply else {
            return Ok(state);
        };
        let from = self.sender(request);
        self.take(&mut state, from, request, at, reply)?;
        Ok(state)
    }

    fn handle(&mut self, at: usize, record: u32, request: u32) -> (u32, Option<u32>) {
        if let Some(known) = self.memo.handled.get(&(at, record, request)) {
            return *known;
        }
        let electorate = self.electorate(at);
        let mut after = self.electors.get(record).clone();
        let reply = match self.requests.get(request) {
            Request::Prepare(m) => Some(Reply::Prepare(on_prepare(&mut after, &electorate, m))),
            Request::Accept(m) => Some(Reply::Accept(on_accept(&mut after, &electorate, m))),
            Request::Enquire(m) => on_enquire(&mut after, &electorate, m).ok().map(Reply::Enquire),
        };
        let reply = reply.filter(|reply| {
            !matches!(
                reply,
                Reply::Prepare(PrepareReply::Refused(_)) | Reply::Accept(AcceptReply::Refused(_))
            )
        });
        let done = (
            self.electors.number(after),
            reply.map(|reply| self.replies.number(reply)),
        );
        self.memo.handled.insert((at, record, request), done);
        done
    }

    fn take(
        &mut self,
        state: &mut State,
        node: usize,
        request: u32,
        from: usize,
        reply: u32,
    ) -> Result<(), Violation> {
        let key = (state.processes[node], request, from, reply);
        if !self.memo.taken.contains_key(&key) {
            let done = self.taken(key);
            self.memo.taken.insert(key, done);
        }
        let (process, chosen) = &self.memo.taken[&key];
        state.processes[node] = *process;
        match chosen.clone() {
            Some(genesis) => self.note_chosen(state, genesis),
            None => Ok(()),
        }
    }

    fn taken(&mut self, (process, request, from, reply): Taking) -> (u32, Option<Genesis>) {
        let sender = name(from);
        let mut after = self.processes.get(process).clone();
        let asked = serde_json::to_string(self.requests.get(request)).unwrap();
        let waits_for = |request: Request| serde_json::to_string(&request).unwrap() == asked;
        let reply = self.replies.get(reply).clone();
        match (&mut after, &reply) {
            (
                Process::Preparing {
                    prepare, promises, ..
                },
                Reply::Prepare(_),
            ) if waits_for(Request::Prepare(prepare.clone())) => {
                add(promises, &sender, reply);
            }
            (
                Process::Accepting {
                    accept,
                    previous,
                    acceptances,
                },
                Reply::Accept(given),
            ) if waits_for(Request::Accept(accept.clone())) => {
                let stamped = accept.genesis.electorate.get(&sender);
                let counted = faults::counted(self.bounds.fault, given, stamped);
                add(acceptances, &sender, Reply::Accept(counted));
                // Phase 1 has determined the value. Continue with a round that has this value as its
                // candidate.
                let mut round = Round::new(
                    accept.ballot.clone(),
                    DIGEST.to_owned(),
                    accept.genesis.clone(),
                    previous.clone(),
                );
                for (node, replies) in acceptances.iter() {
                    for reply in replies {
                        if let Reply::Accept(reply) = reply {
                            round.on_accept_reply(node, reply.clone());
                        }
                    }
                }
                if round.accepted() == Outcome::Reached {
                    return (self.idle, Some(round.value()));
                }
            }
            (Process::Enquiring { replies }, Reply::Enquire(told)) => {
                let mine = match self.requests.get(request) {
                    Request::Enquire(m) => m.incarnation.clone(),
                    Request::Prepare(_) | Request::Accept(_) => return (process, None),
                };
                if told.incarnations.get(&self.requests.get(request).from().clone()) == Some(&mine) {
                    replies.insert(sender, told.clone());
                }
            }
            _ => return (process, None),
        }
        (self.processes.number(after), None)
    }

    fn note_chosen(&mut self, state: &mut State, genesis: Genesis) -> Result<(), Violation> {
        let mut notes = self.notes.get(state.notes).clone();
        if let Some(other) = notes
            .chosen
            .iter()
            .find(|g| g.epoch == genesis.epoch && !g.same_value(&genesis))
        {
            return Err(Violation(format!(
                "epoch {} has two geneses: {} and {}",
                genesis.epoch, other.token, genesis.token
            )));
        }
        if !notes.chosen.contains(&genesis) {
            notes.chosen.push(genesis);
            notes.chosen.sort_by_key(|g| serde_json::to_string(g).unwrap());
            state.notes = self.notes.number(notes);
        }
        Ok(())
    }

    fn begin(&mut self, state: State, node: usize, found: &mut Vec<(Step, State)>) -> Result<(), Violation> {
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

    fn go_on(&mut self, state: State, node: usize, found: &mut Vec<(Step, State)>) -> Result<(), Violation> {
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
}

impl World {
    fn lost(&mut self, node: usize, state: State) -> (u32, u32) {
        let mut notes = self.notes.get(state.notes).clone();
        let old = &self.electors.get(state.electors[node]).incarnation;
        let lives = notes.lost.entry(name(node)).or_default();
        *lives += 1;
        let fresh = faults::reinstalled(self.bounds.fault, old, incarnation(node, *lives));
        (self.electors.number(fresh), self.notes.number(notes))
    }
}

/// Output for people.
impl World {
    pub(crate) fn has_chosen(&self, state: State) -> bool {
        !self.notes.get(state.notes).chosen.is_empty()
    }

    pub(crate) fn describe(&self, state: State, step: Step) -> String {
        match step {
            Step::Arrives { request, at } => {
                let what = match self.requests.get(request) {
                    Request::Prepare(m) => format!("prepare {} of epoch {}", m.ballot, m.epoch),
                    Request::Accept(m) => format!("accept {} of {}", m.ballot, m.genesis.token),
                    Request::Enquire(m) => format!("enquiry of {} ({})", m.from, m.incarnation),
                };
                format!("{}: {what} arrives", name(at))
            }
            Step::Begins { node, round } => format!("{}: begins round {round}", name(node)),
            Step::GoesOn { node, .. } => format!("{}: has its promises, goes on", name(node)),
            Step::Asks { node } => format!("{}: asks the others", name(node)),
            Step::Absorbs { node } => format!("{}: takes in the answers", name(node)),
            Step::Learns { node, which } => {
                let token = &self.notes.get(state.notes).chosen[which].token;
                format!("{}: learns {token}", name(node))
            }
            Step::LosesMemory { node } => format!("{}: LOSES ITS MEMORY", name(node)),
            Step::Forgets { node } => format!("{}: forgets at a restart", name(node)),
        }
    }

    pub(crate) fn show(&self, state: State) -> String {
        let json = |thing: Result<String, serde_json::Error>| thing.unwrap();
        (0..self.bounds.nodes)
            .map(|node| {
                format!(
                    "{}: {}\n    {}",
                    name(node),
                    json(serde_json::to_string(self.electors.get(state.electors[node]))),
                    json(serde_json::to_string(self.processes.get(state.processes[node])))
                )
            })
            .collect::<Vec<_>>()
            .join("\n")
    }
}
