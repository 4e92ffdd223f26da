//! Which memory each elector has, and which electors have lost one.

use crate::model::{ElectorRecord, Epoch, Incarnation, NodeName, Refusal};

/// Records an elector's incarnation. An older one than the known one is refused. Incarnations sort by their
/// creation time.
pub(super) fn note_incarnation(
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
pub(super) fn settle_losses(record: &mut ElectorRecord) {
    let Some(genesis) = &record.chosen else { return };
    let (incarnations, lost) = (&record.incarnations, &mut record.superseded);
    lost.retain(|elector| incarnations.get(elector) != genesis.electorate.get(elector));
}

/// Votes that a former memory may have cast no longer count once their epoch is open.
pub(super) fn settle_own_loss(record: &mut ElectorRecord) {
    if record.may_have_voted <= record.open_epoch() {
        record.may_have_voted = Epoch::default();
    }
}
