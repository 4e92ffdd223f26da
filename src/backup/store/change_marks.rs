//! An operator's change of the marks of one backup.

use crate::model::{BackupId, ClusterName, Writer, wording};
use crate::ports::{ObjectStore, PortError, PortResult};

use super::catalogue::{Part, unverified};
use super::layout::{Layout, MANIFEST, MARKS};
use super::marks::{Attempt, Call, MarkChange, MarksFile, TRIES, read, write};

/// The outcome of changing the marks of a backup.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Marked {
    /// They are changed, or would be in a dry run.
    Changed,
    /// They were so already.
    Same,
    /// There is no such backup; the text says so.
    Gone(String),
    /// Nothing was changed; the text says why.
    Refused(String),
}

/// Changes the marks of one backup, or with `dry_run` only says whether they would change.
///
/// # Errors
/// What the store answered; permanent when it cannot write conditionally; outcome unknown when the answer was
/// lost: the same change again is safe.
pub async fn change_marks(
    store: &dyn ObjectStore,
    cluster: &ClusterName,
    id: &BackupId,
    change: &MarkChange,
    call: &Call,
    dry_run: bool,
) -> PortResult<Marked> {
    let layout = Layout::of(store, cluster);
    let there = unverified(store, cluster, &Part::Only(id.clone())).await?;
    let Some(backup) = there.backups.iter().find(|backup| backup.summary.id == *id) else {
        return Ok(match there.unreadable.first() {
            Some((_, why)) => Marked::Refused(format!("backup {id} cannot be read: {why}")),
            None => Marked::Gone(format!("there is no backup {id}: see `etcd-agent backup list`")),
        });
    };
    if backup.writer != Writer::EtcdAgent {
        return Ok(Marked::Refused(format!(
            "etcd-manager wrote backup {id}: agents never remove it and note nothing on it"
        )));
    }
    for attempt in 1..=TRIES {
        let before = match read(store, &layout, id).await? {
            Ok(before) => before,
            Err(why) => {
                let key = layout.in_backup(id, MARKS);
                return Ok(Marked::Refused(format!(
                    "the marks of backup {id} cannot be read, so it is kept: {why}; if {key} is damaged, delete that object"
                )));
            }
        };
        let claim = before.as_ref().and_then(|marks| marks.removal.as_ref());
        if let Some(claim) = claim.filter(|claim| claim.holds(call.now)) {
            return Ok(Marked::Refused(format!(
                "backup {id} is being removed since {}",
                wording::time(claim.since)
            )));
        }
        let mut after = before.clone().unwrap_or_else(|| MarksFile::new(id));
        // An abandoned claim is no mark.
        after.removal = None;
        let unchanged = after.clone();
        after.change(change);
        if after == unchanged {
            // Another order may have written marks of a backup that was gone already.
            let there = still_there(store, &layout, id).await?;
            return Ok(if there == Marked::Changed {
                Marked::Same
            } else {
                there
            });
        }
        if dry_run {
            return Ok(Marked::Changed);
        }
        match write(store, &layout, before.as_ref(), &after).await? {
            Attempt::Done => return still_there(store, &layout, id).await,
            Attempt::Overtaken => call.pause(attempt).await,
        }
    }
    Err(PortError::Retryable(format!(
        "the marks of backup {id} are not written: other writers keep writing them, {TRIES} times"
    )))
}

/// A removal deletes the commit marker first and the marks last. Marks that are written after its end belong
/// to no backup.
async fn still_there(store: &dyn ObjectStore, layout: &Layout, id: &BackupId) -> PortResult<Marked> {
    if store.get_small(&layout.in_backup(id, MANIFEST)).await?.is_some() {
        return Ok(Marked::Changed);
    }
    if let Err(error) = store.delete(&layout.in_backup(id, MARKS)).await {
        tracing::debug!("the marks of {id}, which was removed just now, stay: {error}");
    }
    Ok(Marked::Gone(format!(
        "backup {id} was removed at the same moment: see `etcd-agent backup list`"
    )))
}
