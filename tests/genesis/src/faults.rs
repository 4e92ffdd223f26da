//! Electors that are broken on purpose: the checker has to find out.

use etcd_agent::genesis::Word;
use etcd_agent::model::{AcceptReply, ElectorRecord, Epoch, Incarnation};

/// What is broken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    /// Nothing: the production electors.
    None,
    /// A restart forgets what was promised; what was accepted is kept.
    PromisesNotStored,
    /// A new memory votes at once, without having asked anybody.
    NewMemoryVotes,
    /// A new memory denies an epoch that it has not heard of.
    NewMemoryDenies,
    /// A new memory that has asked the others denies an epoch in which its former memory has voted.
    FormerVotesDenied,
    /// A lost memory comes back under its old incarnation, as after a restore from an image.
    OldIncarnationKept,
    /// Acceptances count whichever memory gave them.
    ForgottenVotesCount,
}

/// What is left of a record after the agent's restart, when that is not all of it.
pub(crate) fn restarted(fault: Fault, record: &ElectorRecord) -> Option<ElectorRecord> {
    if fault != Fault::PromisesNotStored {
        return None;
    }
    let mut record = record.clone();
    for votes in record.votes.values_mut() {
        votes.promised = votes.accepted.as_ref().map(|(ballot, _)| ballot.clone());
    }
    Some(record)
}

/// The memory of a node that was installed anew.
pub(crate) fn reinstalled(fault: Fault, old: &Incarnation, new: Incarnation) -> ElectorRecord {
    let incarnation = if fault == Fault::OldIncarnationKept {
        old.clone()
    } else {
        new
    };
    let mut record = etcd_agent::genesis::new_record(incarnation);
    record.eligible = matches!(fault, Fault::NewMemoryVotes | Fault::OldIncarnationKept);
    record
}

/// An acceptance as the round sees it, when `stamped` is the incarnation that the value names.
pub(crate) fn counted(fault: Fault, reply: &AcceptReply, stamped: Option<&Incarnation>) -> AcceptReply {
    match (fault, reply, stamped) {
        (Fault::ForgottenVotesCount, AcceptReply::Accepted { .. }, Some(stamped)) => AcceptReply::Accepted {
            incarnation: stamped.clone(),
        },
        _ => reply.clone(),
    }
}

/// The answer of an elector as others take it.
pub(crate) fn answered(fault: Fault, mut word: Word) -> Word {
    match fault {
        Fault::NewMemoryDenies => word.complete = true,
        Fault::FormerVotesDenied => word.may_have_voted = Epoch::default(),
        _ => {}
    }
    word
}
