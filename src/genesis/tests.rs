//! Schedules with loss, reordering, duplication and amnesia: at most one value is ever chosen per epoch.
#![allow(clippy::unwrap_used)]

use std::collections::{BTreeMap, BTreeSet};

use proptest::prelude::*;

use super::*;
use crate::model::*;

mod bounds;
mod electorate;
mod memory;

fn name(i: usize) -> NodeName {
    NodeName::new(format!("n{}", i + 1)).unwrap()
}

fn incarnation(n: usize) -> Incarnation {
    Incarnation::new(format!("{n:032x}")).unwrap()
}

#[derive(Clone, Debug)]
enum Wire {
    Prepare(usize, usize, Prepare),
    PrepareReply(usize, usize, Ballot, PrepareReply),
    Accept(usize, usize, Accept),
    AcceptReply(usize, usize, Ballot, AcceptReply),
    Enquire(usize, Enquire),
    EnquireReply(usize, EnquireReply),
}

struct World {
    electorate: Vec<Electorate>,
    electors: Vec<ElectorRecord>,
    rounds: Vec<Option<Round>>,
    replies: Vec<BTreeMap<NodeName, EnquireReply>>,
    wire: Vec<Wire>,
    next: usize,
    round: u64,
    chosen: BTreeSet<String>,
}

impl World {
    fn new(n: usize) -> Self {
        let names: BTreeSet<NodeName> = (0..n).map(name).collect();
        Self {
            electorate: (0..n)
                .map(|i| Electorate {
                    me: name(i),
                    cluster: ClusterName::new("c").unwrap(),
                    names: names.clone(),
                    digest: "d".into(),
                })
                .collect(),
            electors: (0..n).map(|i| new_record(incarnation(i + 1))).collect(),
            rounds: vec![None; n],
            replies: vec![BTreeMap::new(); n],
            wire: Vec::new(),
            next: n + 1,
            round: 0,
            chosen: BTreeSet::new(),
        }
    }

    fn n(&self) -> usize {
        self.electors.len()
    }

    fn propose(&mut self, i: usize) {
        if !self.electors[i].eligible {
            return;
        }
        self.round += 1;
        let token = format!("c-1-{}", self.round);
        let members: BTreeMap<NodeName, Vec<String>> = (0..self.n())
            .map(|j| (name(j), vec![format!("http://{}:2380", name(j))]))
            .collect();
        let mut electorate: BTreeMap<NodeName, Incarnation> =
            (0..self.n()).map(|j| (name(j), incarnation(j + 1))).collect();
        electorate.extend(self.electors[i].incarnations.clone());
        electorate.insert(name(i), self.electors[i].incarnation.clone());
        let genesis = Genesis {
            epoch: Epoch(1),
            cluster: ClusterName::new("c").unwrap(),
            cluster_id: cluster_id_of(&members, &token),
            token,
            members,
            origin: Origin::Empty,
            electorate,
            created: UnixMs(0),
            former: Vec::new(),
            etcd: None,
        };
        let round = Round::new(
            Ballot {
                round: self.round,
                node: name(i),
            },
            "d".into(),
            genesis,
            None,
        );
        for j in 0..self.n() {
            self.wire
                .push(Wire::Prepare(i, j, round.prepare(&self.electors[i].incarnation)));
        }
        self.rounds[i] = Some(round);
    }

    fn enquire(&mut self, i: usize) {
        let message = Enquire {
            from: name(i),
            incarnation: self.electors[i].incarnation.clone(),
            electorate_digest: "d".into(),
        };
        for j in (0..self.n()).filter(|j| *j != i) {
            self.wire.push(Wire::Enquire(j, message.clone()));
        }
    }

    fn deliver(&mut self, at: usize, keep: bool) {
        if self.wire.is_empty() {
            return;
        }
        let at = at % self.wire.len();
        let message = if keep {
            self.wire[at].clone()
        } else {
            self.wire.swap_remove(at)
        };
        match message {
            Wire::Enquire(j, m) => {
                if let Ok(reply) = on_enquire(&mut self.electors[j], &self.electorate[j], &m) {
                    let to = (0..self.n()).find(|i| name(*i) == m.from).unwrap();
                    if self.electors[to].incarnation == m.incarnation {
                        self.wire.push(Wire::EnquireReply(to, reply));
                    }
                }
            }
            Wire::EnquireReply(i, reply) => {
                self.replies[i].insert(reply.from.clone(), reply);
                let all: Vec<EnquireReply> = self.replies[i].values().cloned().collect();
                absorb(
                    &mut self.electors[i],
                    &self.electorate[i],
                    &all,
                    &BTreeSet::new(),
                    false,
                )
                .unwrap();
            }
            Wire::Prepare(i, j, m) => {
                let reply = on_prepare(&mut self.electors[j], &self.electorate[j], &m);
                self.wire.push(Wire::PrepareReply(i, j, m.ballot, reply));
            }
            Wire::PrepareReply(i, j, ballot, reply) => {
                let Some(mut round) = self.rounds[i].take() else {
                    return;
                };
                let before = round.prepared();
                if before == Outcome::Open && round.accept().ballot == ballot {
                    round.on_prepare_reply(&name(j), reply);
                    if round.prepared() == Outcome::Reached {
                        for k in 0..self.n() {
                            self.wire.push(Wire::Accept(i, k, round.accept()));
                        }
                    }
                }
                self.rounds[i] = Some(round);
            }
            Wire::Accept(i, j, m) => {
                let reply = on_accept(&mut self.electors[j], &self.electorate[j], &m);
                self.wire.push(Wire::AcceptReply(i, j, m.ballot, reply));
            }
            Wire::AcceptReply(i, j, ballot, reply) => {
                let Some(mut round) = self.rounds[i].take() else {
                    return;
                };
                if round.prepared() == Outcome::Reached && round.accept().ballot == ballot {
                    round.on_accept_reply(&name(j), reply);
                    if round.accepted() == Outcome::Reached {
                        self.chosen.insert(round.value().token);
                    }
                }
                self.rounds[i] = Some(round);
            }
        }
    }

    fn enquire_all(&mut self) {
        for i in 0..self.n() {
            self.enquire(i);
        }
    }

    /// Delivers messages until none is in flight.
    fn deliver_all(&mut self) {
        while !self.wire.is_empty() {
            self.deliver(0, false);
        }
    }

    /// All electors learn of each other, and the proposal of the first is chosen. The remaining messages of
    /// its round stay in flight.
    fn choose(&mut self) -> Genesis {
        self.enquire_all();
        self.deliver_all();
        self.propose(0);
        while self.chosen.is_empty() {
            self.deliver(0, false);
        }
        self.rounds[0].as_ref().unwrap().value()
    }

    /// The disk is lost, which makes a new incarnation without memory. Messages in flight to the old process,
    /// such as answers, are lost with its connections.
    fn reinstall(&mut self, i: usize) {
        self.electors[i] = new_record(incarnation(self.next));
        self.next += 1;
        self.rounds[i] = None;
        self.replies[i].clear();
        self.wire.retain(|w| {
            !matches!(w, Wire::PrepareReply(t, ..) | Wire::AcceptReply(t, ..) | Wire::EnquireReply(t, _) if *t == i)
        });
    }
}

#[derive(Clone, Debug)]
enum Step {
    Propose(usize),
    Enquire(usize),
    Deliver(usize),
    Duplicate(usize),
    Drop(usize),
    Reinstall(usize),
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        2 => (0..5usize).prop_map(Step::Propose),
        3 => (0..5usize).prop_map(Step::Enquire),
        30 => any::<usize>().prop_map(Step::Deliver),
        2 => any::<usize>().prop_map(Step::Duplicate),
        2 => any::<usize>().prop_map(Step::Drop),
        1 => (0..5usize).prop_map(Step::Reinstall),
    ]
}

/// `keeper` never loses its memory. If no elector remembers, only the store or a person can know what was
/// chosen.
fn run(n: usize, keeper: usize, steps: &[Step]) -> World {
    let mut world = World::new(n);
    world.enquire_all();
    for _ in 0..n * n {
        world.deliver(0, false);
    }
    for step in steps {
        match *step {
            Step::Propose(i) => world.propose(i % n),
            Step::Enquire(i) => world.enquire(i % n),
            Step::Deliver(at) => world.deliver(at, false),
            Step::Duplicate(at) => world.deliver(at, true),
            Step::Drop(at) if !world.wire.is_empty() => {
                let at = at % world.wire.len();
                world.wire.swap_remove(at);
            }
            Step::Reinstall(i) if i % n != keeper % n => world.reinstall(i % n),
            Step::Drop(_) | Step::Reinstall(_) => {}
        }
    }
    world
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn rule_1_at_most_one_genesis_is_chosen_among_three(keeper in 0..3usize, steps in prop::collection::vec(step(), 1..250)) {
        prop_assert!(run(3, keeper, &steps).chosen.len() <= 1);
    }

    #[test]
    fn rule_1_at_most_one_genesis_is_chosen_among_five(keeper in 0..5usize, steps in prop::collection::vec(step(), 1..400)) {
        prop_assert!(run(5, keeper, &steps).chosen.len() <= 1);
    }
}

#[test]
fn a_quiet_network_chooses() {
    let mut world = World::new(3);
    world.enquire_all();
    world.deliver_all();
    world.propose(0);
    world.deliver_all();
    assert_eq!(world.chosen.len(), 1);
}
