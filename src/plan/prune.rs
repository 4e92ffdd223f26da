//! When old backups are removed.

use std::time::Duration;

use super::context::Context;
use super::increments::following_newest;
use super::orders;
use crate::model::{Action, BackupSummary, OperatorRequest, ReasonCode, Revision};

/// A failed prune is tried again after this time. Trying more often does not help.
const PRUNE_AGAIN: Duration = Duration::from_mins(1);

/// Begins to remove old backups when a person asks for it, or on the coordinator once after each new full
/// backup: never before the new one is committed.
pub(super) fn prune(cx: &mut Context<'_>) -> Option<Action> {
    let asked = cx.obs.requests.contains(&OperatorRequest::Prune);
    if asked && cx.spec.backup_interval.is_none() {
        return Some(Action::Answer {
            request: OperatorRequest::Prune,
            done: false,
            message: "no store is configured: set store.url".to_owned(),
        });
    }
    let job = &cx.obs.backups.prune;
    if job.running {
        return None;
    }
    let newest = cx.obs.store.known().and_then(|s| s.newest_backup.as_ref());
    let after = newest.map(|b| b.id.clone());
    let restoring = cx
        .known_nodes()
        .into_iter()
        .find(|(_, seen)| seen.steering.restoring);
    let restoring =
        restoring.map(|(node, _)| format!("a restore is under way on {node}, perhaps from an old backup"));
    if asked && let Some(restore) = restoring {
        return Some(Action::Answer {
            request: OperatorRequest::Prune,
            done: false,
            message: format!("{restore}: nothing is removed; ask again when that is done"),
        });
    }
    if asked {
        cx.because(ReasonCode::PruneAsked, "a person asked to remove old backups");
        return Some(Action::Prune { after });
    }
    if !cx.spec.backup.retention.enabled || !cx.is_coordinator() || orders::paused(cx).is_some() {
        return None;
    }
    if after.is_none() || cx.obs.backups.pruned == after || takes_over(cx) {
        return None;
    }
    if cx.rests(
        job,
        PRUNE_AGAIN,
        ReasonCode::PruneFailed,
        "old backups could not be removed",
    ) {
        return None;
    }
    if let Some(restore) = restoring {
        cx.because(
            ReasonCode::Restoring,
            format!("{restore}: no old backup is removed meanwhile"),
        );
        return None;
    }
    cx.because(
        ReasonCode::PruneDue,
        "there is a newer backup since old ones were removed last",
    );
    Some(Action::Prune { after })
}

/// True if the newest full backup has no increments yet but will get some. Until then, the increments of
/// older full backups lead to a newer revision.
fn takes_over(cx: &Context<'_>) -> bool {
    let ours = |newest: &BackupSummary| newest.revision > Revision(0);
    cx.spec.backup.increment_interval.is_some()
        && cx.obs.backups.increments.failed_at.is_none()
        && cx
            .obs
            .store
            .known()
            .and_then(|s| s.newest_backup.as_ref())
            .is_some_and(ours)
        && following_newest(cx).is_none()
}
