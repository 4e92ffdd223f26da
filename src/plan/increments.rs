//! Which node stores the changes after a full backup, and when it stores them on request.

use std::time::Duration;

use super::context::Context;
use super::orders;
use crate::model::{Action, Backoff, ChainView, NodeName, OperatorRequest, ReasonCode, Revision};

/// The pause after increments could not be stored.
const INCREMENTS_BACKOFF: Backoff = Backoff::new(Duration::from_secs(2), Duration::from_secs(64));

/// Stores an increment that a person asked for, if this agent follows etcd's changes. `None` while it is
/// about to follow them.
pub(super) fn flush(cx: &mut Context<'_>) -> Option<Action> {
    if !cx.obs.requests.contains(&OperatorRequest::Increment) {
        return None;
    }
    let refuse = |message: String| {
        Some(Action::Answer {
            request: OperatorRequest::Increment,
            done: false,
            message,
        })
    };
    if cx.spec.backup_interval.is_none() {
        return refuse("no store is configured: set store.url".to_owned());
    }
    if cx.spec.backup.increment_interval.is_none() {
        return refuse("increments are switched off: set backup.increments = true".to_owned());
    }
    if !cx.is_coordinator() {
        return refuse(format!(
            "{} does not store etcd's changes, the coordinator does: ask {}",
            cx.spec.node,
            cx.leading().map_or("it", NodeName::as_str)
        ));
    }
    let follows = cx.obs.backups.increments.running;
    if !follows && orders::paused(cx).is_some() {
        return refuse(
            "the cluster is paused, and etcd's changes are not stored here: `etcd-agent resume`".to_owned(),
        );
    }
    (follows && !cx.obs.backups.flushing).then_some(Action::Flush)
}

/// Begins, on the coordinator, to store what changes after the newest full backup.
pub(super) fn increments(cx: &mut Context<'_>) -> Option<Action> {
    cx.spec.backup.increment_interval?;
    if !cx.is_coordinator() || orders::paused(cx).is_some() {
        return None;
    }
    let job = &cx.obs.backups.increments;
    if job.running || gap(cx) {
        return None;
    }
    // etcd-manager's backups have no revision, and no increments.
    let newest = cx.obs.store.known()?.newest_backup.as_ref()?;
    let backup = Some(newest).filter(|b| b.revision > Revision(0))?.id.clone();
    let pause = INCREMENTS_BACKOFF.after(job.failures);
    if cx.rests(
        job,
        pause,
        ReasonCode::IncrementsFailed,
        "etcd's changes are not stored",
    ) {
        return None;
    }
    cx.because(
        ReasonCode::IncrementsDue,
        "the coordinator stores what changes after the newest full backup",
    );
    Some(Action::Increments { backup })
}

/// True if the increments of the newest full backup were found not to be continuable.
pub(super) fn gap(cx: &Context<'_>) -> bool {
    let newest = cx.obs.store.known().and_then(|s| s.newest_backup.as_ref());
    newest.is_some_and(|b| cx.obs.backups.gap.as_ref() == Some(&b.id))
}

/// The chain that this agent extends, if it follows the newest full backup.
pub(super) fn following_newest<'a>(cx: &Context<'a>) -> Option<&'a ChainView> {
    let newest = cx.obs.store.known()?.newest_backup.as_ref()?;
    let chain = cx.obs.backups.chain.as_ref();
    chain.filter(|chain| chain.backup == newest.id)
}
