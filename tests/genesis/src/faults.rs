//! Electors that are broken on purpose. The checker must detect each fault.

use etcd_agent::genesis::ElectorReport;
use etcd_agent::model::{AcceptReply, ElectorRecord, Epoch, Incarnation};

/// The injected fault.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    /// No fault: the production electors.
    None,
    /// A restart forgets promises but keeps acceptances.
    PromisesNotStored,
    /// A new memory votes at once, without asking the other electors first.
    NewMemoryVotes,
    /// A new memory denies an epoch that it does not know.
    NewMemoryDenies,
    /// A new memory that has asked the others denies an epoch in which its former memory voted.
    FormerVotesDenied,
    /// A lost memory comes back with its old incarnation, as after a restore from an image.
    OldIncarnationKept,
    /// Acceptances count even if another memory of the elector gave them.
    ForgottenVotesCount,
}

/// The remaining record after the agent's restart, if the fault loses a part of it.
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

/// The memory of a reinstalled node.
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

/// The acceptance that the round receives. `stamped` is the incarnation that the value names.
pub(crate) fn counted(fault: Fault, reply: &AcceptReply, stamped: Option<&Incarnation>) -> AcceptReply {
    match (fault, reply, stamped) {
        (Fault::ForgottenVotesCount, AcceptReply::Accepted { .. }, Some(stamped)) => AcceptReply::Accepted {
            incarnation: stamped.clone(),
        },
        _ => reply.clone(),
    }
}

/// The answer of an elector in the form in which the others receive it.
pub(crate) fn answered(fault: Fault, mut word: ElectorReport) -> ElectorReport {
    match fault {
        Fault::NewMemoryDenies => word.complete = true,
        Fault::FormerVotesDenied => word.may_have_voted = Epoch::default(),
        _ => {}
    }
    word
}
