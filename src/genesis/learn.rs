//! What an elector records about geneses that are reported as chosen.

use super::incarnations::{settle_losses, settle_own_loss};
use crate::model::{ElectorRecord, Epoch, Genesis};

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

/// Records a genesis that is reported as chosen. Until it is confirmed ([`super::Tally`]), it only closes its
/// epoch for votes and holds back a start of etcd for an older epoch. True if it was new. A genesis that is
/// malformed or too far ahead is ignored.
///
/// # Errors
/// [`Conflict`] if another genesis of the same epoch is known to be chosen.
pub fn note_reported_genesis(record: &mut ElectorRecord, genesis: &Genesis) -> Result<bool, Conflict> {
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
    record.reported = Some(genesis.clone());
    Ok(true)
}

/// Records the number of a reported epoch. True if it was new.
pub fn note_reported_epoch(record: &mut ElectorRecord, epoch: Epoch) -> bool {
    if epoch <= record.newest_epoch || !record.open_epoch().can_believe(epoch) {
        return false;
    }
    record.newest_epoch = epoch;
    true
}

/// Forgets unconfirmed reports of epochs above this one, because the electors deny them.
pub fn forget_above(record: &mut ElectorRecord, ceiling: Epoch) {
    let ceiling = ceiling.max(record.open_epoch());
    record.newest_epoch = record.newest_epoch.min(ceiling);
    record.reported.take_if(|reported| reported.epoch > ceiling);
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
    record
        .reported
        .take_if(|reported| reported.epoch <= genesis.epoch);
    settle_losses(record);
    settle_own_loss(record);
    forget_past(record);
    Ok(true)
}

/// Forgets votes in epochs that are open, because they are no longer needed.
pub(super) fn forget_past(record: &mut ElectorRecord) {
    let open = record.open_epoch();
    record.votes.retain(|epoch, _| *epoch > open);
}
