//! A request arrives at an elector, and its reply at the sender.

use etcd_agent::genesis::{Outcome, Round, on_accept, on_enquire, on_prepare};
use etcd_agent::model::{AcceptReply, Genesis, PrepareReply};

use crate::faults;
use crate::memo::Taking;
use crate::parts::{Process, Reply, Request, add};
use crate::state::State;
use crate::symmetry::name;
use crate::world::{DIGEST, Violation, World};

impl World {
    /// The node that sent a request.
    pub(crate) fn sender(&mut self, request: u32) -> usize {
        let at = request as usize;
        while self.memo.senders.len() <= at {
            let next = u32::try_from(self.memo.senders.len()).expect("a request's number");
            let from = self.node(self.requests.get(next).from());
            self.memo.senders.push(from);
        }
        self.memo.senders[at]
    }

    pub(crate) fn send(&mut self, state: &mut State, request: u32) {
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
    pub(crate) fn deliver(&mut self, mut state: State, request: u32, at: usize) -> Result<State, Violation> {
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
            Request::Enquire(m) => on_enquire(&mut after, &electorate, m)
                .ok()
                .map(|reported| Reply::Enquire(Box::new(reported))),
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
            (Process::Enquiring { replies }, Reply::Enquire(reported)) => {
                let mine = match self.requests.get(request) {
                    Request::Enquire(m) => m.incarnation.clone(),
                    Request::Prepare(_) | Request::Accept(_) => return (process, None),
                };
                if reported
                    .incarnations
                    .get(&self.requests.get(request).from().clone())
                    == Some(&mine)
                {
                    replies.insert(sender, (**reported).clone());
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
}
