//! The possible events in a state, and the violations that must never happen.
//!
//! - A request may be delivered at any time after it was sent, to each node, any number of times or never.
//!   This covers loss, delay, reordering and duplication. Requests of processes that have ended may still
//!   arrive.
//! - A reply may be received at any time while the sender of the request still waits for it, or never.
//! - A process may crash at any time: it may begin something else before it has finished its current work.
//!   Records are stored before each reply, so a crash loses nothing else.
//! - A memory may be lost at any time. The node then has a new record with a new incarnation, and replies to
//!   the old process are lost.
//!
//! Reductions: A refusal ends a round, which may happen at any time anyway, so refusals are not kept. Replies
//! to a round that has ended are dropped. Nodes that never propose are interchangeable.

use std::collections::{BTreeMap, BTreeSet};

use etcd_agent::genesis::{
    Electorate, Outcome, Round, absorb, new_record, on_accept, on_enquire, on_learn, on_prepare,
};
use etcd_agent::model::{
    BackupId, Ballot, ClusterName, ElectorRecord, Enquire, EnquireReply, Epoch, Genesis, NodeName, Origin,
    UnixMs, cluster_id_of,
};

use crate::book::Book;
use crate::fast::{FastMap, hash};
use crate::faults::Fault;
use crate::memo::Memo;
use crate::parts::{Notes, Process, Reply, Request};
use crate::state::{MOST_NODES, State};
use crate::symmetry::{Renaming, incarnation, name, renamings};

/// The start state of a check.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Start {
    /// Every agent has just been installed and has asked no other agent.
    Fresh,
    /// Every elector has received answers from every other elector. No epoch is open.
    Ready,
    /// Epoch 1 was chosen by the votes of `accepted`, and the nodes in `learned` know this.
    Opened {
        /// The nodes that have accepted it.
        accepted: Vec<usize>,
        /// The nodes that have learned it.
        learned: Vec<usize>,
    },
}

/// The bounds of a check.
#[derive(Debug, Clone)]
pub struct Bounds {
    /// The number of electors, 3 or 5.
    pub nodes: usize,
    /// The number of proposers, which are the first electors.
    pub proposers: usize,
    /// The total number of rounds, including those of crashed proposers.
    pub rounds: usize,
    /// The total number of lost memories.
    pub losses: usize,
    /// Whether an agent may process the received answers before all others have answered.
    pub some_answers: bool,
    /// The highest epoch that is proposed.
    pub epochs: u64,
    /// The start state.
    pub start: Start,
    /// The injected fault.
    pub fault: Fault,
    /// The check fails if it finds more states than this.
    pub most_states: usize,
}

/// Two values of one epoch, or another violation of a rule.
#[derive(Debug, Clone)]
pub(crate) struct Violation(pub(crate) String);

pub(crate) const DIGEST: &str = "d";

/// The things behind a state's numbers, and the cache of their reactions to each other.
#[derive(Debug)]
pub(crate) struct World {
    pub(crate) bounds: Bounds,
    renamings: Vec<Renaming>,
    pub(crate) electors: Book<ElectorRecord>,
    pub(crate) processes: Book<Process>,
    pub(crate) requests: Book<Request>,
    pub(crate) replies: Book<Reply>,
    pub(crate) sent: Book<BTreeSet<u32>>,
    sent_renamed: FastMap<(u32, usize), u32>,
    pub(crate) notes: Book<Notes>,
    pub(crate) memo: Memo,
    shapes: FastMap<(u32, u32), u64>,
    /// The number of the idle process.
    pub(crate) idle: u32,
}

impl World {
    pub(crate) fn new(bounds: Bounds) -> Self {
        let mut processes = Book::new();
        Self {
            idle: processes.number(Process::Idle),
            renamings: renamings(bounds.nodes, bounds.proposers, bounds.losses + 1),
            bounds,
            electors: Book::new(),
            processes,
            requests: Book::new(),
            replies: Book::new(),
            sent: Book::new(),
            sent_renamed: FastMap::default(),
            notes: Book::new(),
            memo: Memo::default(),
            shapes: FastMap::default(),
        }
    }

    pub(crate) fn electorate(&self, me: usize) -> Electorate {
        Electorate {
            me: name(me),
            cluster: ClusterName::new("c").unwrap(),
            names: (0..self.bounds.nodes).map(name).collect(),
            digest: DIGEST.to_owned(),
        }
    }

    pub(crate) fn node(&self, who: &NodeName) -> usize {
        (0..self.bounds.nodes).find(|node| name(*node) == *who).unwrap()
    }

    /// The first state.
    pub(crate) fn start(&mut self) -> State {
        let nodes = self.bounds.nodes;
        let mut records: Vec<ElectorRecord> =
            (0..nodes).map(|node| new_record(incarnation(node, 0))).collect();
        let mut notes = Notes::default();
        if self.bounds.start != Start::Fresh {
            self.enquire_of_each_other(&mut records);
        }
        if let Start::Opened { accepted, learned } = self.bounds.start.clone() {
            let genesis = self.open_first(&mut records, &accepted);
            for node in learned {
                assert!(on_learn(&mut records[node], &genesis).unwrap());
            }
            notes.chosen.push(genesis);
        }
        let mut state = State {
            electors: [0; MOST_NODES],
            processes: [self.idle; MOST_NODES],
            sent: self.sent.number(BTreeSet::new()),
            notes: self.notes.number(notes),
        };
        for (node, record) in records.into_iter().enumerate() {
            state.electors[node] = self.electors.number(record);
        }
        state
    }

    fn enquire_of_each_other(&self, records: &mut [ElectorRecord]) {
        for node in 0..self.bounds.nodes {
            let message = Enquire {
                from: name(node),
                incarnation: records[node].incarnation.clone(),
                electorate_digest: DIGEST.to_owned(),
            };
            let replies: Vec<EnquireReply> = (0..self.bounds.nodes)
                .filter(|other| *other != node)
                .map(|other| on_enquire(&mut records[other], &self.electorate(other), &message).unwrap())
                .collect();
            absorb(
                &mut records[node],
                &self.electorate(node),
                &replies,
                &BTreeSet::new(),
                false,
            )
            .unwrap();
            assert!(records[node].eligible);
        }
    }

    /// Node 0 opens epoch 1 with the votes of `voters`.
    fn open_first(&self, records: &mut [ElectorRecord], voters: &[usize]) -> Genesis {
        let (ballot, candidate) = candidate(0, &records[0], Epoch(1), 1, records);
        let mut round = Round::new(ballot, DIGEST.to_owned(), candidate, None);
        let prepare = round.prepare(&records[0].incarnation);
        for node in voters {
            let reply = on_prepare(&mut records[*node], &self.electorate(*node), &prepare);
            round.on_prepare_reply(&name(*node), reply);
        }
        let accept = round.accept();
        for node in voters {
            let reply = on_accept(&mut records[*node], &self.electorate(*node), &accept);
            round.on_accept_reply(&name(*node), reply);
        }
        assert_eq!(round.accepted(), Outcome::Reached);
        round.value()
    }

    /// Maps all states that differ only in the names of nodes that never propose to the same state. This is
    /// the least state among those in which these nodes are sorted by their shapes.
    pub(crate) fn canonical(&mut self, state: State) -> State {
        if self.renamings.is_empty() {
            return state;
        }
        let fixed = self.bounds.proposers;
        let mut shapes = [0; MOST_NODES];
        for (node, shape) in shapes.iter_mut().enumerate().take(self.bounds.nodes).skip(fixed) {
            *shape = self.shape(state.electors[node], state.processes[node]);
        }
        let shapes = &shapes[..self.bounds.nodes];
        let mut least = shapes[fixed..].is_sorted().then_some(state);
        let renamings = std::mem::take(&mut self.renamings);
        for (which, renaming) in renamings.iter().enumerate() {
            let mut moved = [0; MOST_NODES];
            for (from, to) in renaming.to.iter().enumerate() {
                moved[*to] = shapes[from];
            }
            if !moved[fixed..self.bounds.nodes].is_sorted() {
                continue;
            }
            let mut other = state;
            for (from, to) in renaming.to.iter().enumerate() {
                other.electors[*to] = self.electors.rename(state.electors[from], which, renaming);
                other.processes[*to] = self.processes.rename(state.processes[from], which, renaming);
            }
            other.notes = self.notes.rename(state.notes, which, renaming);
            other.sent = self.rename_sent(state.sent, which, renaming);
            least = Some(least.map_or(other, |least| least.min(other)));
        }
        self.renamings = renamings;
        least.expect("some order is the sorted one")
    }

    /// A number that does not change when nodes are renamed.
    fn shape(&mut self, elector: u32, process: u32) -> u64 {
        if let Some(known) = self.shapes.get(&(elector, process)) {
            return *known;
        }
        let record = self.electors.get(elector);
        let life = &record.incarnation.as_str()[..16];
        let votes: Vec<_> = record
            .votes
            .values()
            .map(|votes| {
                let ballot = |b: &Ballot| (b.round, b.node.clone());
                let accepted = votes.accepted.as_ref().map(|(b, g)| (ballot(b), g.token.clone()));
                (votes.promised.as_ref().map(ballot), accepted)
            })
            .collect();
        let received = match self.processes.get(process) {
            Process::Enquiring { replies } => replies.len() + 1,
            _ => 0,
        };
        let chosen = (
            record.chosen.as_ref().map(|g| g.token.clone()),
            record.reported.as_ref().map(|g| g.token.clone()),
        );
        let known = (
            record.eligible,
            record.superseded.len(),
            record.incarnations.len(),
        );
        let shape = hash(&(life, votes, received, chosen, known));
        self.shapes.insert((elector, process), shape);
        shape
    }

    fn rename_sent(&mut self, sent: u32, which: usize, renaming: &Renaming) -> u32 {
        if let Some(known) = self.sent_renamed.get(&(sent, which)) {
            return *known;
        }
        let renamed = self
            .sent
            .get(sent)
            .clone()
            .into_iter()
            .map(|request| self.requests.rename(request, which, renaming))
            .collect();
        let number = self.sent.number(renamed);
        self.sent_renamed.insert((sent, which), number);
        number
    }
}

/// A ballot and a candidate like those of `agent::execute::genesis`. The candidate names the incarnations
/// that the record knows. For the other nodes it names the incarnations that the nodes report.
pub(crate) fn candidate(
    node: usize,
    record: &ElectorRecord,
    epoch: Epoch,
    round: u64,
    all: &[ElectorRecord],
) -> (Ballot, Genesis) {
    let token = format!("c-{epoch}-{}r{round}l{}", name(node), record.incarnation);
    // The members do not matter here. Use only a node that proposes, because the others are interchangeable.
    let members = BTreeMap::from([(name(0), vec!["http://n1:2380".to_owned()])]);
    let mut electorate: BTreeMap<_, _> = all
        .iter()
        .enumerate()
        .map(|(node, record)| (name(node), record.incarnation.clone()))
        .collect();
    electorate.extend(record.incarnations.clone());
    electorate.insert(name(node), record.incarnation.clone());
    let genesis = Genesis {
        epoch,
        cluster: ClusterName::new("c").unwrap(),
        cluster_id: cluster_id_of(&members, &token),
        token,
        members,
        origin: match epoch {
            Epoch(1) => Origin::Empty,
            _ => Origin::Backup(BackupId::new("2026-01-01T00:00:00Z-000001").unwrap()),
        },
        electorate,
        created: UnixMs(0),
        former: Vec::new(),
        etcd: None,
    };
    let ballot = Ballot {
        round,
        node: name(node),
    };
    (ballot, genesis)
}
