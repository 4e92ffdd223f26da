//! The messages and the memory of the genesis protocol: single-decree Paxos per epoch (design §6).

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use super::{Ballot, Epoch, Genesis, Incarnation, NodeName};

/// An elector's memory of one epoch. It is fsynced before each reply.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct EpochVotes {
    /// The highest ballot promised.
    pub promised: Option<Ballot>,
    /// The highest ballot accepted, and its value.
    pub accepted: Option<(Ballot, Genesis)>,
}

/// An elector's persistent memory.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ElectorRecord {
    /// The identity of this memory.
    pub incarnation: Incarnation,
    /// True once every other elector (or the store, or the operator) has reported the newest epoch to it.
    pub eligible: bool,
    /// The newest known incarnation of each other elector. The vote of an older one no longer counts.
    pub incarnations: BTreeMap<NodeName, Incarnation>,
    /// Electors that are reported to have lost their memory, without those whose current memory the newest
    /// genesis names.
    pub superseded: BTreeSet<NodeName>,
    /// Votes by epoch; only the newest epochs are kept.
    pub votes: BTreeMap<Epoch, EpochVotes>,
    /// The newest genesis that is known to be chosen: a majority of the electors has confirmed it to this
    /// elector, or has accepted it in this elector's own round.
    pub chosen: Option<Genesis>,
    /// The newest epoch reported, confirmed or not. It holds back a start of etcd for an older one.
    pub newest_epoch: Epoch,
    /// A newer genesis that was reported as chosen and is not confirmed yet. It closes its epoch for votes
    /// but does not stop etcd. On disk it is called `told`.
    #[serde(default, rename = "told", skip_serializing_if = "Option::is_none")]
    pub reported: Option<Genesis>,
    /// The newest epoch in which a former memory of this elector may have voted, as known from the last enquiry.
    /// This elector denies no epoch up to this one. 0 if there is none after `chosen`.
    #[serde(default, skip_serializing_if = "Epoch::is_zero")]
    pub may_have_voted: Epoch,
}

impl ElectorRecord {
    /// The newest genesis, confirmed or only reported.
    pub fn known(&self) -> Option<&Genesis> {
        let reported = self.reported.as_ref();
        match &self.chosen {
            Some(chosen) => Some(
                reported
                    .filter(|genesis| genesis.epoch > chosen.epoch)
                    .unwrap_or(chosen),
            ),
            None => reported,
        }
    }

    /// The genesis that this node acts on: the confirmed one. A new memory without a confirmed genesis acts
    /// on the reported one.
    pub fn acted_on(&self) -> Option<&Genesis> {
        self.chosen.as_ref().or(self.reported.as_ref())
    }

    /// The newest epoch for which this elector, or a former memory of it, may have accepted a genesis that
    /// this memory has not learned; 0 if there is none. Another node may have learned that the genesis was
    /// chosen.
    pub fn voted(&self) -> Epoch {
        let accepted = self.votes.iter().filter(|(_, votes)| votes.accepted.is_some());
        let accepted = accepted.map(|(epoch, _)| *epoch).max().unwrap_or_default();
        // A memory that may not vote yet has not learned from all electors how far its former memory voted.
        let forgotten = if self.eligible {
            self.may_have_voted
        } else {
            self.newest_epoch.next()
        };
        accepted.max(forgotten)
    }

    /// The epoch that is known to be open; 0 if none is.
    pub fn open_epoch(&self) -> Epoch {
        self.chosen
            .as_ref()
            .map_or(Epoch::default(), |genesis| genesis.epoch)
    }
}

/// Asks an elector for all it knows, and reports the asker's incarnation.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Enquire {
    /// The elector that asks.
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
    /// The elector that answers.
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
    /// Electors that it knows to have lost their memory, without those whose current memory `chosen` names.
    pub superseded: BTreeSet<NodeName>,
    /// The newest epoch in which a former memory of this elector may have voted.
    #[serde(default, skip_serializing_if = "Epoch::is_zero")]
    pub may_have_voted: Epoch,
    /// True if this memory may not vote yet. It does not know how far a former one has voted. Older agents do not
    /// report it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub new_memory: bool,
}

/// The answer to [`Enquire`].
// Not internally tagged: serde cannot read a map with numeric keys (`votes`) in such an enum.
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
    /// The elector will accept nothing below this ballot any more.
    Promise {
        /// The answering elector's incarnation.
        incarnation: Incarnation,
        /// The value that it had accepted.
        accepted: Option<Box<(Ballot, Genesis)>>,
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
    /// The epoch is already open or past. The refusal carries the newest chosen genesis.
    Chosen {
        /// The newest genesis.
        genesis: Box<Genesis>,
    },
    /// The asker's electorate differs.
    Electorate {
        /// The answerer's digest.
        mine: String,
        /// The answerer's electors, by name.
        names: Vec<NodeName>,
    },
    /// This elector's memory is new and not up to date yet.
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
