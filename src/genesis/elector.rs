//! One elector: its answers and its memory. The caller stores the record before the reply leaves.

use std::collections::{BTreeMap, BTreeSet};

use crate::model::{
    Accept, AcceptReply, Ballot, ClusterName, ElectorRecord, Enquire, EnquireReply, Epoch, EpochVotes,
    Genesis, Incarnation, NodeName, Prepare, PrepareReply, Refusal, memories_lost,
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

/// Two different geneses of one epoch, which must never occur.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("epoch {epoch} has two geneses: {mine} here, {other} reported; nothing is done until a person acts")]
pub struct Conflict {
    /// The epoch.
    pub epoch: Epoch,
    /// The token known here.
    pub mine: String,
    /// The token that was reported.
    pub other: String,
}

/// Why a genesis that was reported as chosen is not learned.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NotLearned {
    /// Another genesis of the same epoch is known.
    #[error(transparent)]
    Conflict(#[from] Conflict),
    /// No majority that follows the protocol can have chosen it.
    #[error("the genesis of epoch {epoch} is not believed: {why}")]
    Invalid {
        /// The reported epoch.
        epoch: Epoch,
        /// One line.
        why: String,
    },
}

/// A ballot may be at most this many rounds above the promised one. A ballot that left no room for higher
/// ballots would end all rounds of an epoch.
const ROUNDS: u64 = 1 << 32;

/// True for a ballot that is too far above the promised one to be believed.
fn is_beyond(ballot: &Ballot, promised: Option<&Ballot>) -> bool {
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
        told: None,
        may_have_voted: Epoch::default(),
    }
}

fn check_electorate(electorate: &Electorate, digest: &str, from: &NodeName) -> Result<(), Refusal> {
    if digest == electorate.digest && electorate.names.contains(from) {
        return Ok(());
    }
    Err(Refusal::Electorate {
        mine: electorate.digest.clone(),
        names: electorate.names.iter().cloned().collect(),
    })
}

/// Records an elector's incarnation. An older one than the known one is refused. Incarnations sort by their
/// creation time.
fn note_incarnation(
    record: &mut ElectorRecord,
    from: &NodeName,
    incarnation: &Incarnation,
) -> Result<(), Refusal> {
    let known = record.incarnations.get(from).cloned();
    // Two incarnations prove that a memory was lost between them, in whichever order they are
    // received.
    if known.as_ref().is_some_and(|known| known != incarnation) {
        record.superseded.insert(from.clone());
    }
    if let Some(known) = known.filter(|known| known > incarnation) {
        let elector = from.clone();
        return Err(Refusal::StaleIncarnation { elector, known });
    }
    record.incarnations.insert(from.clone(), incarnation.clone());
    settle_losses(record);
    Ok(())
}

/// If the newest genesis names an elector's current memory, that memory is older than every vote after that
/// genesis, so a loss before it no longer counts. Any other loss may be later than the genesis, even if this
/// elector learned the genesis late.
fn settle_losses(record: &mut ElectorRecord) {
    let Some(genesis) = &record.chosen else { return };
    let (incarnations, lost) = (&record.incarnations, &mut record.superseded);
    lost.retain(|elector| incarnations.get(elector) != genesis.electorate.get(elector));
}

/// Answers an enquiry: stores the asker's incarnation and returns all that this elector knows.
///
/// # Errors
/// A [`Refusal`] for a different electorate or an incarnation that was superseded.
pub fn on_enquire(
    record: &mut ElectorRecord,
    electorate: &Electorate,
    message: &Enquire,
) -> Result<EnquireReply, Refusal> {
    check_electorate(electorate, &message.electorate_digest, &message.from)?;
    note_incarnation(record, &message.from, &message.incarnation)?;
    Ok(EnquireReply {
        from: electorate.me.clone(),
        incarnation: record.incarnation.clone(),
        newest_epoch: record.newest_epoch,
        chosen: record.chosen.clone(),
        votes: record.votes.clone(),
        incarnations: record.incarnations.clone(),
        superseded: record.superseded.clone(),
        may_have_voted: record.may_have_voted,
    })
}

/// Gives this elector a later incarnation than the latest one that others know of it. The clock of its host
/// was behind when its memory was created, so electors that know an earlier memory with a later time refuse
/// its votes. True if the incarnation changed.
///
/// The elector then counts as a new memory and enquires again. If it could vote without the electors that
/// refuse, a majority of the others must refuse: a single lying elector could otherwise keep it from voting.
pub fn renew(
    record: &mut ElectorRecord,
    electorate: &Electorate,
    refusals: &[Refusal],
    vouched: bool,
) -> bool {
    let mine = &record.incarnation;
    let later = refusals.iter().filter_map(|refusal| match refusal {
        Refusal::StaleIncarnation { elector, known } if *elector == electorate.me => Some(known),
        _ => None,
    });
    let later: Vec<&Incarnation> = later.filter(|known| *known > mine).collect();
    let others = electorate.names.len().saturating_sub(1);
    if (record.eligible || vouched) && later.len() * 2 <= others {
        return false;
    }
    let Some(renewed) = later.into_iter().max().and_then(|latest| mine.after(latest)) else {
        return false;
    };
    record.incarnation = renewed;
    record.eligible = false;
    true
}

/// Merges the replies of the others. This elector may vote once every other elector has answered or is in
/// `without` (lost on the operator's word), or if `vouched` is set (the shared store has reported the newest
/// epoch).
///
/// # Errors
/// [`Conflict`] if the replies reveal two different geneses of one epoch.
pub fn absorb(
    record: &mut ElectorRecord,
    electorate: &Electorate,
    replies: &[EnquireReply],
    without: &BTreeSet<NodeName>,
    vouched: bool,
) -> Result<(), Conflict> {
    for (elector, incarnation) in replies.iter().flat_map(|reply| &reply.incarnations) {
        if *elector != electorate.me {
            // A refusal only means that this incarnation is older than the one known here.
            let _ = note_incarnation(record, elector, incarnation);
        }
    }
    let mut two = None;
    for reply in replies {
        if note_incarnation(record, &reply.from, &reply.incarnation).is_err() {
            continue;
        }
        if let Some(genesis) = reply.chosen.as_ref().filter(|g| g.cluster == electorate.cluster) {
            // A peer that reports another genesis than the chosen one does not keep this elector from voting.
            two = two.or(hear(record, genesis).err());
        }
        hear_of(record, reply.newest_epoch);
        if record.eligible {
            continue;
        }
        record.superseded.extend(reply.superseded.iter().cloned());
        let open = record.open_epoch();
        for (epoch, theirs) in reply
            .votes
            .iter()
            .filter(|(epoch, votes)| is_vote(open, **epoch, votes))
        {
            let mine = record.votes.entry(*epoch).or_default();
            let ballots = theirs
                .promised
                .iter()
                .chain(theirs.accepted.iter().map(|(ballot, _)| ballot));
            if ballots
                .into_iter()
                .any(|ballot| is_beyond(ballot, mine.promised.as_ref()))
            {
                continue;
            }
            mine.promised = mine.promised.take().max(theirs.promised.clone());
            let newer = match (&mine.accepted, &theirs.accepted) {
                (Some((a, _)), Some((b, _))) => b > a,
                (None, Some(_)) => true,
                (_, None) => false,
            };
            if newer {
                mine.accepted.clone_from(&theirs.accepted);
            }
        }
    }
    let heard = |node: &NodeName| {
        *node == electorate.me || without.contains(node) || replies.iter().any(|reply| reply.from == *node)
    };
    settle_losses(record);
    let lost = memories_lost(
        record.known(),
        &electorate.me,
        &electorate.names,
        &record.superseded,
    );
    let memory_survives = !lost || !without.is_empty();
    let all_heard = electorate.names.iter().all(heard);
    if !record.eligible && (vouched || (memory_survives && all_heard)) {
        record.eligible = true;
        // A former memory may have accepted the value that others report as chosen, or a value that only
        // silent electors know.
        let silent = replies.len() + 1 < electorate.names.len();
        record.may_have_voted = match record.newest_epoch {
            newest if silent => newest.next(),
            newest => newest,
        };
        settle_own_loss(record);
    }
    forget_past(record);
    two.map_or(Ok(()), Err)
}

/// Votes that a former memory may have cast no longer count once their epoch is open.
fn settle_own_loss(record: &mut ElectorRecord) {
    if record.may_have_voted <= record.open_epoch() {
        record.may_have_voted = Epoch::default();
    }
}

/// True if an elector can have cast these votes in this epoch. `open` is the newest epoch that is known to be
/// open.
fn is_vote(open: Epoch, epoch: Epoch, votes: &EpochVotes) -> bool {
    let accepted = votes.accepted.as_ref().map(|(_, genesis)| genesis);
    !open.is_far_below(epoch)
        && accepted.is_none_or(|genesis| genesis.epoch == epoch && genesis.defect().is_none())
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
        accepted: votes.accepted.clone(),
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

/// Records a genesis that is reported as chosen. Until it is confirmed ([`super::Tally`]), it only closes its
/// epoch for votes and holds back a start of etcd for an older epoch. True if it was new. A genesis that is
/// malformed or too far ahead is ignored.
///
/// # Errors
/// [`Conflict`] if another genesis of the same epoch is known to be chosen.
pub fn hear(record: &mut ElectorRecord, genesis: &Genesis) -> Result<bool, Conflict> {
    if genesis.objection(record.open_epoch()).is_some() {
        return Ok(false);
    }
    if let Some(mine) = &record.chosen {
        conflict(mine, genesis)?;
    }
    if record.known().is_some_and(|known| known.epoch >= genesis.epoch) {
        return Ok(false);
    }
    record.newest_epoch = record.newest_epoch.max(genesis.epoch);
    record.told = Some(genesis.clone());
    Ok(true)
}

/// Records the number of a reported epoch. True if it was new.
pub fn hear_of(record: &mut ElectorRecord, epoch: Epoch) -> bool {
    if epoch <= record.newest_epoch || !record.open_epoch().can_hear_of(epoch) {
        return false;
    }
    record.newest_epoch = epoch;
    true
}

/// Forgets unconfirmed reports of epochs above this one, because the electors deny them.
pub fn forget_above(record: &mut ElectorRecord, ceiling: Epoch) {
    let ceiling = ceiling.max(record.open_epoch());
    record.newest_epoch = record.newest_epoch.min(ceiling);
    record.told.take_if(|told| told.epoch > ceiling);
}

fn conflict(mine: &Genesis, other: &Genesis) -> Result<(), Conflict> {
    if mine.epoch != other.epoch || mine.same_value(other) {
        return Ok(());
    }
    Err(Conflict {
        epoch: mine.epoch,
        mine: mine.token.clone(),
        other: other.token.clone(),
    })
}

/// Learns a genesis that is known to be chosen. True if it was new.
///
/// # Errors
/// [`NotLearned`] if another genesis of the same epoch is known, or if no majority can have chosen this one.
pub fn on_learn(record: &mut ElectorRecord, genesis: &Genesis) -> Result<bool, NotLearned> {
    if let Some(mine) = &record.chosen {
        conflict(mine, genesis)?;
        if mine.epoch >= genesis.epoch {
            return Ok(false);
        }
    }
    if let Some(why) = genesis.objection(record.open_epoch()) {
        return Err(NotLearned::Invalid {
            epoch: genesis.epoch,
            why,
        });
    }
    record.newest_epoch = record.newest_epoch.max(genesis.epoch);
    record.chosen = Some(match &record.chosen {
        Some(replaced) => genesis.after(replaced),
        None => genesis.clone(),
    });
    record.told.take_if(|told| told.epoch <= genesis.epoch);
    settle_losses(record);
    settle_own_loss(record);
    forget_past(record);
    Ok(true)
}

/// Forgets votes in epochs that are open, because they are no longer needed.
fn forget_past(record: &mut ElectorRecord) {
    let open = record.open_epoch();
    record.votes.retain(|epoch, _| *epoch > open);
}
