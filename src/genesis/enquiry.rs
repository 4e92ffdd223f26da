//! How an elector answers the enquiry of another one, and what it takes over from the replies to its own.

use std::collections::BTreeSet;

use super::elector::{Electorate, MOST_VOTES, check_electorate, is_beyond};
use super::incarnations::{note_incarnation, settle_losses, settle_own_loss};
use super::learn::{Conflict, forget_past, note_reported_epoch, note_reported_genesis};
use crate::model::{
    ElectorRecord, Enquire, EnquireReply, Epoch, EpochVotes, Incarnation, NodeName, Refusal, memories_lost,
};

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
        new_memory: !record.eligible,
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
        // No later one could take the place of a time that no clock has (rule 10).
        let is_from_a_clock = incarnation.after(incarnation).is_some();
        if *elector != electorate.me && electorate.names.contains(elector) && is_from_a_clock {
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
            two = two.or(note_reported_genesis(record, genesis).err());
        }
        note_reported_epoch(record, reply.newest_epoch);
        if record.eligible {
            continue;
        }
        let lost = reply.superseded.intersection(&electorate.names);
        record.superseded.extend(lost.cloned());
        let open = record.open_epoch();
        for (epoch, theirs) in reply
            .votes
            .iter()
            .filter(|(epoch, votes)| is_vote(open, **epoch, votes))
            // An elector with more took some of them over from others, who answer themselves.
            .take(MOST_VOTES)
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
    let answered = |node: &NodeName| {
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
    let all_answered = electorate.names.iter().all(answered);
    if !record.eligible && (vouched || (memory_survives && all_answered)) {
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
    if record.eligible
        && record.may_have_voted > record.newest_epoch
        && nobody_voted(record, electorate, replies)
    {
        record.may_have_voted = record.newest_epoch;
        settle_own_loss(record);
    }
    forget_past(record);
    two.map_or(Ok(()), Err)
}

/// True if no vote of a former memory of this elector can have chosen an epoch after the newest reported one, or can
/// still do so: all other electors answer, none has accepted a value of a later epoch or has lost a memory that may
/// have, and from now on all of them refuse a value that is stamped with the former memory.
fn nobody_voted(record: &ElectorRecord, electorate: &Electorate, replies: &[EnquireReply]) -> bool {
    let newest = record.newest_epoch;
    let is_clear = |reply: &EnquireReply| {
        let current = record.incarnations.get(&reply.from) == Some(&reply.incarnation);
        let accepted = reply.votes.iter().filter(|(_, votes)| votes.accepted.is_some());
        let voted = accepted.map(|(epoch, _)| *epoch).max().unwrap_or_default();
        current && !reply.new_memory && voted.max(reply.may_have_voted).max(reply.newest_epoch) <= newest
    };
    let answers = |node: &NodeName| replies.iter().any(|reply| reply.from == *node && is_clear(reply));
    let mut others = electorate.names.iter().filter(|node| **node != electorate.me);
    others.all(answers)
}

/// True if an elector can have cast these votes in this epoch. `open` is the newest epoch that is known to be
/// open.
fn is_vote(open: Epoch, epoch: Epoch, votes: &EpochVotes) -> bool {
    let accepted = votes.accepted.as_ref().map(|(_, genesis)| genesis);
    !open.is_far_below(epoch)
        && accepted.is_none_or(|genesis| genesis.epoch == epoch && genesis.defect().is_none())
}
