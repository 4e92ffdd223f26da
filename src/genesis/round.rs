//! One proposer's round: the value that it may propose, and when that value is chosen.

use std::collections::{BTreeMap, BTreeSet};

use crate::model::{
    Accept, AcceptReply, Ballot, Epoch, Genesis, Incarnation, NodeName, Prepare, PrepareReply, Refusal,
};

/// The state of a round.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outcome {
    /// Answers are missing.
    Open,
    /// A majority of every electorate concerned has answered this phase.
    Reached,
    /// Another proposer has a higher ballot.
    Preempted(Ballot),
    /// The epoch is already open, with this genesis.
    Chosen(Box<Genesis>),
    /// Too many refused; one line.
    Refused(String),
}

/// One proposer's round for one epoch.
#[derive(Debug, Clone)]
pub struct Round {
    ballot: Ballot,
    digest: String,
    candidate: Genesis,
    /// Each of these needs a majority: the epoch's own electorate, and that of the epoch which it replaces.
    electorates: Vec<BTreeSet<NodeName>>,
    promised: BTreeMap<NodeName, Incarnation>,
    accepted: BTreeSet<NodeName>,
    highest: Option<(Ballot, Genesis)>,
    refusals: BTreeMap<NodeName, Refusal>,
}

impl Round {
    /// A round for `candidate` under `ballot`. `previous` is the electorate of the epoch that it replaces,
    /// without the electors that are lost on the operator's word.
    pub fn new(
        ballot: Ballot,
        digest: String,
        candidate: Genesis,
        previous: Option<BTreeSet<NodeName>>,
    ) -> Self {
        let mut electorates = vec![candidate.electorate.keys().cloned().collect()];
        electorates.extend(previous);
        Self {
            ballot,
            digest,
            candidate,
            electorates,
            promised: BTreeMap::new(),
            accepted: BTreeSet::new(),
            highest: None,
            refusals: BTreeMap::new(),
        }
    }

    /// The epoch that it opens.
    pub fn epoch(&self) -> Epoch {
        self.candidate.epoch
    }

    /// The phase 1 message.
    pub fn prepare(&self, incarnation: &Incarnation) -> Prepare {
        Prepare {
            epoch: self.candidate.epoch,
            ballot: self.ballot.clone(),
            incarnation: incarnation.clone(),
            electorate_digest: self.digest.clone(),
        }
    }

    /// Processes a phase 1 answer.
    pub fn on_prepare_reply(&mut self, from: &NodeName, reply: PrepareReply) {
        match reply {
            PrepareReply::Promise {
                incarnation,
                accepted,
            } => {
                // If an elector's clock was set back, its new memory sorts before its former one. All
                // electors that know the former one refuse a value that is stamped with the new one.
                let known = self.candidate.electorate.get(from);
                if let Some(known) = known.filter(|known| **known > incarnation).cloned() {
                    let elector = from.clone();
                    let stale = Refusal::StaleIncarnation { elector, known };
                    self.refusals.insert(from.clone(), stale);
                    return;
                }
                self.promised.insert(from.clone(), incarnation);
                // An elector accepts no other value, so one that reports it lies (rule 10).
                let may_be = |value: &Genesis| {
                    value.epoch == self.candidate.epoch
                        && value.cluster == self.candidate.cluster
                        && value.defect().is_none()
                };
                if let Some((ballot, value)) = accepted.map(|accepted| *accepted)
                    && may_be(&value)
                    && self.highest.as_ref().is_none_or(|(b, _)| ballot > *b)
                {
                    self.highest = Some((ballot, value));
                }
            }
            PrepareReply::Refused(refusal) => {
                self.refusals.insert(from.clone(), refusal);
            }
        }
    }

    /// The state of phase 1.
    pub fn prepared(&self) -> Outcome {
        self.judge(&self.promised.keys().cloned().collect())
    }

    /// The only value that may be proposed after phase 1: the one accepted under the highest ballot, or else
    /// the candidate. It is stamped with the incarnations that promised in this round, and with the
    /// candidate's time: the epoch opens now, whenever the value was first proposed.
    pub fn value(&self) -> Genesis {
        let mut value = self
            .highest
            .as_ref()
            .map_or_else(|| self.candidate.clone(), |(_, v)| v.clone());
        value.electorate = self.candidate.electorate.clone();
        value.created = self.candidate.created;
        for (node, incarnation) in &self.promised {
            value.electorate.insert(node.clone(), incarnation.clone());
        }
        value
    }

    /// The phase 2 message.
    pub fn accept(&self) -> Accept {
        Accept {
            ballot: self.ballot.clone(),
            genesis: self.value(),
            electorate_digest: self.digest.clone(),
        }
    }

    /// Processes a phase 2 answer. An acceptance under another incarnation than the stamped one does not
    /// count.
    pub fn on_accept_reply(&mut self, from: &NodeName, reply: AcceptReply) {
        match reply {
            AcceptReply::Accepted { incarnation } => {
                if self.value().electorate.get(from) == Some(&incarnation) {
                    self.accepted.insert(from.clone());
                }
            }
            AcceptReply::Refused(refusal) => {
                self.refusals.insert(from.clone(), refusal);
            }
        }
    }

    /// True if an elector refused because it knows a newer memory of some elector than this round does.
    pub fn names_stale_memory(&self) -> bool {
        let stale = |refusal: &Refusal| matches!(refusal, Refusal::StaleIncarnation { .. });
        self.refusals.values().any(stale)
    }

    /// The state of phase 2: `Reached` means chosen.
    pub fn accepted(&self) -> Outcome {
        self.judge(&self.accepted)
    }

    fn judge(&self, yes: &BTreeSet<NodeName>) -> Outcome {
        if self
            .electorates
            .iter()
            .all(|e| e.intersection(yes).count() > e.len() / 2 || mutant!(MinorityChooses))
        {
            return Outcome::Reached;
        }
        for refusal in self.refusals.values() {
            if let Refusal::Chosen { genesis } = refusal {
                return Outcome::Chosen(genesis.clone());
            }
        }
        let higher = self.refusals.values().filter_map(|r| match r {
            Refusal::HigherBallot { promised } => Some(promised.clone()),
            _ => None,
        });
        if let Some(ballot) = higher.max() {
            return Outcome::Preempted(ballot);
        }
        let hopeless = self
            .electorates
            .iter()
            .any(|e| e.iter().filter(|n| self.refusals.contains_key(*n)).count() * 2 >= e.len());
        if hopeless {
            let why: Vec<String> = self
                .refusals
                .iter()
                .map(|(node, r)| format!("{node}: {}", explain(r)))
                .collect();
            return Outcome::Refused(why.join("; "));
        }
        Outcome::Open
    }
}

/// One line for people.
pub fn explain(refusal: &Refusal) -> String {
    match refusal {
        Refusal::HigherBallot { promised } => format!("has promised ballot {promised}"),
        Refusal::Chosen { genesis } => format!("knows epoch {} already", genesis.epoch),
        Refusal::Electorate { names, .. } => {
            let names: Vec<&str> = names.iter().map(NodeName::as_str).collect();
            format!(
                "has another electorate ({}): make cluster.nodes the same on all nodes",
                names.join(", ")
            )
        }
        Refusal::NotEligible => {
            "its memory is new and not every other elector has answered it yet".to_owned()
        }
        Refusal::StaleIncarnation { elector, .. } => format!("says {elector} has lost its memory since"),
        Refusal::Invalid { why } => why.clone(),
    }
}
