//! One elector: its memory and its votes. The caller stores the record before the reply leaves.

use std::collections::{BTreeMap, BTreeSet};

use super::incarnations::note_incarnation;
use crate::model::{
    Accept, AcceptReply, Ballot, ClusterName, ElectorRecord, Epoch, Incarnation, NodeName, Prepare,
    PrepareReply, Refusal,
};

/// The electorate in this node's configuration.
#[derive(Debug, Clone)]
pub struct Electorate {
    /// This node.
    pub me: NodeName,
    /// The cluster whose epochs they open. The digest does not include it, and the digest must not change
    /// while agents of two versions vote together.
    pub cluster: ClusterName,
    /// All electors, this node included.
    pub names: BTreeSet<NodeName>,
    /// Its digest.
    pub digest: String,
}

/// A ballot may be at most this many rounds above the promised one. A ballot that left no room for higher
/// ballots would end all rounds of an epoch.
const ROUNDS: u64 = 1 << 32;

/// An elector votes in each of this many epochs after the open one, and in [`FAR_EPOCHS`] later ones: each epoch needs
/// a person's order, so an elector that is this far behind is rare, and so are rounds that nobody ends. A peer that
/// proposes in ever more epochs does not fill its memory.
const EPOCHS: u64 = 8;
const FAR_EPOCHS: usize = 8;
/// The most epochs in which an elector has votes of its own.
pub(super) const MOST_VOTES: usize = 16;

/// True if this elector can store votes in `epoch`.
fn has_room(record: &ElectorRecord, epoch: Epoch) -> bool {
    let near = Epoch(record.open_epoch().0.saturating_add(EPOCHS));
    let far = record.votes.keys().filter(|voted| **voted > near).count();
    epoch <= near || record.votes.contains_key(&epoch) || far < FAR_EPOCHS
}

/// True for a ballot that is too far above the promised one to be believed.
pub(super) fn is_beyond(ballot: &Ballot, promised: Option<&Ballot>) -> bool {
    ballot.round > promised.map_or(0, |b| b.round).saturating_add(ROUNDS)
}

/// A new memory. It knows nothing yet and may not vote.
pub fn new_record(incarnation: Incarnation) -> ElectorRecord {
    ElectorRecord {
        incarnation,
        eligible: false,
        incarnations: BTreeMap::new(),
        superseded: BTreeSet::new(),
        votes: BTreeMap::new(),
        chosen: None,
        newest_epoch: Epoch::default(),
        reported: None,
        may_have_voted: Epoch::default(),
    }
}

pub(super) fn check_electorate(
    electorate: &Electorate,
    digest: &str,
    from: &NodeName,
) -> Result<(), Refusal> {
    if digest == electorate.digest && electorate.names.contains(from) {
        return Ok(());
    }
    Err(Refusal::Electorate {
        mine: electorate.digest.clone(),
        names: electorate.names.iter().cloned().collect(),
    })
}

fn may_vote(record: &ElectorRecord, epoch: Epoch) -> Result<(), Refusal> {
    if let Some(genesis) = record.known().filter(|g| g.epoch >= epoch) {
        return Err(Refusal::Chosen {
            genesis: Box::new(genesis.clone()),
        });
    }
    if !record.eligible {
        return Err(Refusal::NotEligible);
    }
    let open = record.open_epoch();
    if open.is_far_below(epoch) {
        return Err(Refusal::Invalid {
            why: format!("epoch {epoch} is {}", open.too_far_ahead()),
        });
    }
    if !has_room(record, epoch) {
        return Err(Refusal::Invalid {
            why: format!(
                "epoch {epoch} is one of many after epoch {open} in which rounds have begun and not ended"
            ),
        });
    }
    // No epoch below the newest reported one can be opened.
    if epoch < record.newest_epoch || epoch == Epoch::default() {
        return Err(Refusal::Invalid {
            why: format!(
                "epoch {epoch} is not open: epoch {} is known",
                record.newest_epoch
            ),
        });
    }
    Ok(())
}

/// Phase 1 as an elector.
pub fn on_prepare(record: &mut ElectorRecord, electorate: &Electorate, message: &Prepare) -> PrepareReply {
    let checked = check_electorate(electorate, &message.electorate_digest, &message.ballot.node)
        .and_then(|()| note_incarnation(record, &message.ballot.node, &message.incarnation))
        .and_then(|()| may_vote(record, message.epoch));
    if let Err(refusal) = checked {
        return PrepareReply::Refused(refusal);
    }
    let votes = record.votes.entry(message.epoch).or_default();
    if is_beyond(&message.ballot, votes.promised.as_ref()) {
        return PrepareReply::Refused(no_room(&message.ballot));
    }
    if let Some(promised) = votes.promised.as_ref().filter(|p| **p > message.ballot) {
        return PrepareReply::Refused(Refusal::HigherBallot {
            promised: promised.clone(),
        });
    }
    if !mutant!(PromiseForgotten) {
        votes.promised = Some(message.ballot.clone());
    }
    PrepareReply::Promise {
        incarnation: record.incarnation.clone(),
        accepted: votes.accepted.clone().map(Box::new),
    }
}

/// Phase 2 as an elector.
pub fn on_accept(record: &mut ElectorRecord, electorate: &Electorate, message: &Accept) -> AcceptReply {
    if let Err(refusal) = check_accept(record, electorate, message) {
        return AcceptReply::Refused(refusal);
    }
    let votes = record.votes.entry(message.genesis.epoch).or_default();
    if is_beyond(&message.ballot, votes.promised.as_ref()) {
        return AcceptReply::Refused(no_room(&message.ballot));
    }
    if let Some(promised) = votes.promised.as_ref().filter(|p| **p > message.ballot) {
        return AcceptReply::Refused(Refusal::HigherBallot {
            promised: promised.clone(),
        });
    }
    votes.promised = Some(message.ballot.clone());
    votes.accepted = Some((message.ballot.clone(), message.genesis.clone()));
    AcceptReply::Accepted {
        incarnation: record.incarnation.clone(),
    }
}

fn check_accept(record: &ElectorRecord, electorate: &Electorate, message: &Accept) -> Result<(), Refusal> {
    check_electorate(electorate, &message.electorate_digest, &message.ballot.node)?;
    may_vote(record, message.genesis.epoch)?;
    if let Some(why) = message.genesis.defect() {
        return Err(Refusal::Invalid { why });
    }
    if message.genesis.cluster != electorate.cluster {
        return Err(Refusal::Invalid {
            why: format!(
                "it opens an epoch of cluster {}, this node is of cluster {}",
                message.genesis.cluster, electorate.cluster
            ),
        });
    }
    let stamped = &message.genesis.electorate;
    if !stamped.keys().eq(electorate.names.iter()) {
        return Err(Refusal::Electorate {
            mine: electorate.digest.clone(),
            names: electorate.names.iter().cloned().collect(),
        });
    }
    for (elector, incarnation) in stamped {
        let newer = if *elector == electorate.me {
            Some(&record.incarnation).filter(|mine| *mine != incarnation)
        } else {
            record
                .incarnations
                .get(elector)
                .filter(|known| *known > incarnation)
        };
        if let Some(known) = newer.cloned() {
            let elector = elector.clone();
            return Err(Refusal::StaleIncarnation { elector, known });
        }
    }
    Ok(())
}

fn no_room(ballot: &Ballot) -> Refusal {
    Refusal::Invalid {
        why: format!("ballot {ballot} is too far ahead to leave room for others"),
    }
}
