//! When a backup is verified, and by whom.

use std::time::Duration;

use super::backup::healthy_voters;
use super::context::Context;
use super::orders;
use crate::model::{Action, Backoff, BackupId, OperatorRequest, ReasonCode, UnixMs, VerifyView};

/// A failed verification is tried again after this time; the pause grows with each failure.
const VERIFY_AGAIN: Duration = Duration::from_mins(10);

/// Begins a verification when a person asks for one, and otherwise once in each `verify_interval`, on one
/// node. That is a follower if there is a healthy one: the raft leader is busy enough.
pub(super) fn due(cx: &mut Context<'_>) -> Option<Action> {
    let asked = cx.obs.requests.iter().find_map(|request| match request {
        OperatorRequest::Verify { backup } => Some(backup.clone()),
        _ => None,
    });
    if let Some(backup) = asked {
        return verify_asked(cx, backup);
    }
    let interval = cx.spec.backup.verify_interval?;
    let view = cx.obs.store.known()?;
    let newest = view.newest_backup.as_ref()?;
    if let Some((id, last)) = &view.verify.last
        && !last.is_ok()
        && cx.is_coordinator()
    {
        let text = format!("backup {id} is bad: {}", last.problems.join("; "));
        cx.because(ReasonCode::BackupBad, text);
    }
    let busy = cx.obs.backups.verify.running || cx.obs.backup.running || cx.obs.restore.running;
    if busy || orders::paused(cx).is_some() || !is_mine(cx) {
        return None;
    }
    if view.verify.last.as_ref().is_some_and(|(id, _)| *id == newest.id) {
        return None;
    }
    let since = cx.obs.now.since(begin(&view.verify, newest.at, cx.obs.now));
    if since < interval {
        cx.wake_in(interval.saturating_sub(since));
        return None;
    }
    let job = &cx.obs.backups.verify;
    let pause = Backoff::new(VERIFY_AGAIN, interval.max(VERIFY_AGAIN)).after(job.failures);
    if cx.rests(
        job,
        pause,
        ReasonCode::VerifyFailed,
        "no backup could be verified",
    ) {
        return None;
    }
    let backup = newest.id.clone();
    cx.because(
        ReasonCode::VerifyDue,
        "no backup was verified within backup.verify_interval",
    );
    Some(Action::Verify { backup })
}

fn verify_asked(cx: &mut Context<'_>, backup: BackupId) -> Option<Action> {
    if cx.spec.backup_interval.is_none() {
        return Some(Action::Answer {
            request: OperatorRequest::Verify { backup },
            done: false,
            message: "no store is configured: set store.url".to_owned(),
        });
    }
    // One at a time: each takes twice the database's size on the disk.
    if cx.obs.backups.verify.running {
        return None;
    }
    cx.because(
        ReasonCode::VerifyAsked,
        format!("a person asked to verify {backup}"),
    );
    Some(Action::Verify { backup })
}

/// The time from which the interval counts. A first backup is verified one interval after it was taken.
fn begin(view: &VerifyView, newest: UnixMs, now: UnixMs) -> UnixMs {
    let last = view.last.as_ref().map(|(_, last)| last.at);
    // A verification dated after now, by a wrong clock, must not delay the next one.
    last.filter(|at| *at <= now)
        .or(view.oldest_backup)
        .unwrap_or(newest)
}

/// True on the first healthy follower by name, or on the leader if there is no follower. A store that only
/// this node uses is verified by this node.
fn is_mine(cx: &Context<'_>) -> bool {
    let voters = healthy_voters(cx);
    let me = voters.iter().any(|(_, name)| **name == cx.spec.node);
    let first = voters.first().is_some_and(|(_, name)| **name == cx.spec.node);
    me && (first || !cx.spec.store_shared)
}
