//! The messages and the memory of the genesis protocol: single-decree Paxos per epoch (design §6).

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use super::{Ballot, Epoch, Genesis, Incarnation, NodeName};

/// What an elector remembers of one epoch. Fsynced before each reply.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct EpochVotes {
    /// The highest ballot promised.
    pub promised: Option<Ballot>,
    /// The highest ballot accepted, and its value.
    pub accepted: Option<(Ballot, Genesis)>,
}

/// What an elector remembers for good.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ElectorRecord {
    /// The identity of this memory.
    pub incarnation: Incarnation,
    /// True once every other elector (or the store, or the operator) has told it the newest epoch.
    pub eligible: bool,
    /// The newest known incarnation of each other elector. The vote of an older one no longer counts.
    pub incarnations: BTreeMap<NodeName, Incarnation>,
    /// Electors heard to have lost their memory, but for those whose memory of now the newest genesis names.
    pub superseded: BTreeSet<NodeName>,
    /// Votes by epoch; only the newest epochs are kept.
    pub votes: BTreeMap<Epoch, EpochVotes>,
    /// The newest genesis that is known to be chosen: a majority of the electors has confirmed it to this one, or has
    /// accepted it in this one's own round.
    pub chosen: Option<Genesis>,
    /// The newest epoch reported, confirmed or not. It holds back a start of etcd for an older one.
    pub newest_epoch: Epoch,
    /// A newer genesis that was reported as chosen and is not confirmed yet. It closes its epoch for votes, and stops no
    /// etcd.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub told: Option<Genesis>,
    /// The newest epoch in which a former memory of this elector may have voted, as far as this one knew when it became
    /// eligible. It denies no epoch up to here. 0 when there is none after `chosen`.
    #[serde(default, skip_serializing_if = "Epoch::is_zero")]
    pub may_have_voted: Epoch,
}

impl ElectorRecord {
    /// The newest genesis, confirmed or only reported.
    pub fn known(&self) -> Option<&Genesis> {
        let told = self.told.as_ref();
        match &self.chosen {
            Some(chosen) => Some(told.filter(|told| told.epoch > chosen.epoch).unwrap_or(chosen)),
            None => told,
        }
    }

    /// The genesis that this node acts by: the confirmed one, or in a new memory without one the reported one.
    pub fn acted_on(&self) -> Option<&Genesis> {
        self.chosen.as_ref().or(self.told.as_ref())
    }

    /// The newest epoch for which this elector, or a former memory of it, may have accepted a genesis that this memory has not
    /// learned; 0 when there is none. Another node may have learned that it was chosen.
    pub fn voted(&self) -> Epoch {
        let accepted = self.votes.iter().filter(|(_, votes)| votes.accepted.is_some());
        let accepted = accepted.map(|(epoch, _)| *epoch).max().unwrap_or_default();
        // A memory that may not vote yet has not heard from all how far its former one has come.
        let forgotten = if self.eligible {
            self.may_have_voted
        } else {
            self.newest_epoch.next()
        };
        accepted.max(forgotten)
    }

    /// The epoch that is known to be open; 0 when none is.
    pub fn open_epoch(&self) -> Epoch {
        self.chosen
            .as_ref()
            .map_or(Epoch::default(), |genesis| genesis.epoch)
    }
}

/// Asks an elector for all it knows, and tells it the asker's incarnation.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Enquire {
    /// Who asks.
    pub from: NodeName,
    /// The asker's incarnation; the answerer stores it before it answers.
    pub incarnation: Incarnation,
    /// Digest of the asker's electorate.
    pub electorate_digest: String,
}

/// All that an elector knows.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct EnquireReply {
    /// Who answers.
    pub from: NodeName,
    /// Its incarnation.
    pub incarnation: Incarnation,
    /// The newest epoch reported to it.
    pub newest_epoch: Epoch,
    /// The newest genesis it has learned.
    pub chosen: Option<Genesis>,
    /// Its votes in epochs after `chosen`.
    pub votes: BTreeMap<Epoch, EpochVotes>,
    /// The newest incarnation of each other elector that it knows.
    pub incarnations: BTreeMap<NodeName, Incarnation>,
    /// Electors that it knows to have lost their memory, but for those whose memory of now `chosen` names.
    pub superseded: BTreeSet<NodeName>,
    /// The newest epoch in which a former memory of it may have voted.
    #[serde(default, skip_serializing_if = "Epoch::is_zero")]
    pub may_have_voted: Epoch,
}

/// What an elector answers to [`Enquire`].
// Without a tag inside: serde cannot read a map whose keys are numbers there (`votes`).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum EnquireAnswer {
    /// All that it knows.
    Reply(Box<EnquireReply>),
    /// Refused.
    Refused(Refusal),
}

/// Phase 1a.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Prepare {
    /// The epoch to be opened.
    pub epoch: Epoch,
    /// The ballot.
    pub ballot: Ballot,
    /// The proposer's incarnation.
    pub incarnation: Incarnation,
    /// Digest of the proposer's electorate.
    pub electorate_digest: String,
}

/// Phase 1b.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "reply")]
pub enum PrepareReply {
    /// Nothing below this ballot will be accepted any more.
    Promise {
        /// The answering elector's incarnation.
        incarnation: Incarnation,
        /// What it had accepted.
        accepted: Option<(Ballot, Genesis)>,
    },
    /// Refused.
    Refused(Refusal),
}

/// Phase 2a.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Accept {
    /// The ballot.
    pub ballot: Ballot,
    /// The value.
    pub genesis: Genesis,
    /// Digest of the proposer's electorate.
    pub electorate_digest: String,
}

/// Phase 2b.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "reply")]
pub enum AcceptReply {
    /// Accepted and fsynced.
    Accepted {
        /// The answering elector's incarnation.
        incarnation: Incarnation,
    },
    /// Refused.
    Refused(Refusal),
}

/// A genesis that a majority has accepted.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Learn {
    /// The chosen value.
    pub genesis: Genesis,
}

/// Why an elector refused.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "refusal")]
pub enum Refusal {
    /// A higher ballot was promised.
    HigherBallot {
        /// That ballot.
        promised: Ballot,
    },
    /// The epoch is already open or past: here is the newest chosen genesis.
    Chosen {
        /// The newest genesis.
        genesis: Box<Genesis>,
    },
    /// The asker's electorate is not the same.
    Electorate {
        /// Digest the answerer has.
        mine: String,
        /// The answerer's electors, by name.
        names: Vec<NodeName>,
    },
    /// This elector's memory is new and was not brought up to date yet.
    NotEligible,
    /// The value names an incarnation of an elector that has since lost its memory.
    StaleIncarnation {
        /// Which elector.
        elector: NodeName,
        /// The latest incarnation of that elector that the answerer knows.
        known: Incarnation,
    },
    /// The epoch is not the next one, or the value is malformed.
    Invalid {
        /// One line.
        why: String,
    },
}
