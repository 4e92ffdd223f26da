//! When a full backup is due, and which node takes it of which member.

use std::time::Duration;

use super::context::Context;
use super::increments::{following_newest, gap};
use super::{hashes, orders};
use crate::model::{
    Action, Backoff, BackupFormat, Calendar, Fact, NodeName, NodeStatus, OperatorRequest, ReasonCode,
    Revision, UnixMs,
};

/// The interval between full backups while nothing changes.
const UNCHANGED: Duration = Duration::from_hours(24);
/// After this many consecutive failures of the coordinator to take a full backup, or to read the store,
/// another node takes the next one.
const FAILURES: u32 = 3;
/// The pauses after a full backup that failed: from the first to the longest, or less where less is asked
/// for.
const RETRY_FROM: Duration = Duration::from_secs(10);
const RETRY_TO: Duration = Duration::from_secs(320);

fn is_backup(request: &OperatorRequest) -> bool {
    matches!(
        request,
        OperatorRequest::Backup | OperatorRequest::BackupAs { .. }
    )
}

/// Answers a request for a backup that cannot be taken here, instead of letting it wait.
fn refuse(cx: &Context<'_>) -> Option<Action> {
    let request = cx.obs.requests.iter().find(|r| is_backup(r))?;
    let message = if cx.spec.backup_interval.is_none() {
        "no store is configured: set store.url".to_owned()
    } else if cx
        .obs
        .me
        .etcd
        .known()
        .is_none_or(|e| e.leader.is_none() || e.is_learner)
    {
        format!(
            "etcd on {} does not serve with quorum: ask a node whose member does",
            cx.spec.node
        )
    } else {
        return None;
    };
    Some(Action::Answer {
        request: request.clone(),
        done: false,
        message,
    })
}

/// Begins a full backup when a person asks for one, or on the coordinator when the interval or the calendar
/// says so.
pub(super) fn due(cx: &mut Context<'_>) -> Option<Action> {
    if let Some(refusal) = refuse(cx) {
        return Some(refusal);
    }
    let interval = cx.spec.backup_interval?;
    let etcd = cx.obs.me.etcd.known()?;
    if etcd.leader.is_none() || etcd.is_learner || cx.obs.backup.running {
        return None;
    }
    let asked = cx.obs.requests.iter().find_map(|request| match request {
        OperatorRequest::BackupAs { format } => Some(*format),
        _ => None,
    });
    if let Some(format) = asked {
        cx.because(ReasonCode::BackupAsked, "a person asked for a full backup");
        return Some(begin_as(cx, format));
    }
    if cx.obs.requests.contains(&OperatorRequest::Backup) {
        cx.because(ReasonCode::BackupAsked, "a person asked for a full backup");
        return Some(begin(cx));
    }
    let stands_in_for = stands_in_for(cx);
    if !(cx.is_coordinator() || stands_in_for.is_some()) || orders::paused(cx).is_some() {
        return None;
    }
    let newest = match &cx.obs.store {
        Fact::Known(store) => store.newest_backup.as_ref().map(|b| b.at),
        Fact::Absent => return None,
        Fact::Unreachable(why) => {
            let text = format!("the store does not answer, so no backup can be taken: {why}");
            cx.because(ReasonCode::StoreUnreachable, text);
            return None;
        }
    };
    if !may_try_again(cx, interval) {
        return None;
    }
    if cx.spec.backup.increment_interval.is_some() && gap(cx) {
        cx.because(
            ReasonCode::BackupGap,
            "the increments of the newest full backup cannot go on: a new one begins a new chain",
        );
        return Some(begin(cx));
    }
    if cx.spec.backup.increment_interval.is_some() && foreign(cx) {
        cx.because(
            ReasonCode::BackupForeign,
            "the newest backup is etcd-manager's, which no increment can follow: a full backup of ours begins a chain",
        );
        return Some(begin(cx));
    }
    if let Some(chain) = following_newest(cx) {
        if chain.auth_changed {
            cx.because(
                ReasonCode::BackupAuth,
                "users or roles have changed since the newest full backup, which no increment contains",
            );
            return Some(begin(cx));
        }
        if chain.increments >= cx.spec.backup.max_increments {
            let count = chain.increments;
            cx.because(
                ReasonCode::BackupIncrements,
                format!("the newest full backup has {count} increments (backup.max_increments)"),
            );
            return Some(begin(cx));
        }
    }
    let calendar = cx.spec.backup.on_calendar.as_ref();
    let early = newest.is_some_and(|at| !due_in(at, cx.obs.now, interval, calendar).is_zero());
    if early {
        return None;
    }
    if let Some(wait) = unchanged(cx) {
        cx.because(
            ReasonCode::BackupUnchanged,
            "nothing has been written since the newest full backup: the next is taken when something is, or after a day",
        );
        cx.wake_in(wait);
        return None;
    }
    if let Some((node, trouble)) = stands_in_for {
        cx.because(
            ReasonCode::BackupStandIn,
            format!("the coordinator, {node}, {trouble}: this node takes the next full backup"),
        );
    }
    let text = match calendar {
        Some(_) => "a time of backup.on_calendar has come since the newest full backup",
        None => "the newest full backup is older than backup.interval",
    };
    cx.because(ReasonCode::BackupDue, text);
    Some(begin(cx))
}

/// The coordinator that this node stands in for, and what fails there: its backups, or its reads of the
/// store. The node that takes the next backup is the first by name with a healthy member and without such
/// failures of its own. Only with a shared store.
fn stands_in_for<'a>(cx: &Context<'a>) -> Option<(&'a NodeName, String)> {
    let coordinator = cx.leading().filter(|node| **node != cx.spec.node)?;
    let failing = trouble(cx.status_of(coordinator)?)?;
    let works = |node: &NodeName| cx.status_of(node).is_none_or(|status| trouble(status).is_none());
    let first = healthy_voters(cx)
        .into_iter()
        .find(|(leads, node)| !leads && works(node))?;
    let turn = *first.1 == cx.spec.node && !mutant!(NobodyStandsIn);
    (cx.spec.store_shared && turn).then_some((coordinator, failing))
}

/// What has failed too often on this node, so that another one takes the full backup.
fn trouble(status: &NodeStatus) -> Option<String> {
    let counts = [
        (status.backup_failures, "take a full backup"),
        (status.store_failures, "read the store"),
    ];
    let (count, what) = counts.into_iter().find(|(count, _)| *count >= FAILURES)?;
    Some(format!("has failed {count} times in a row to {what}"))
}

/// How long the next full backup may wait because it would equal the newest one. `None` if this agent does
/// not follow etcd's changes: users and roles have no revision, so nothing else shows that they are
/// unchanged. etcd-backup-restore skips unchanged full backups, too.
fn unchanged(cx: &Context<'_>) -> Option<Duration> {
    let chain = following_newest(cx)?;
    let newest = cx.obs.store.known()?.newest_backup.as_ref()?;
    let same = cx.obs.me.etcd.known()?.revision == newest.revision;
    let waits = UNCHANGED.saturating_sub(cx.obs.now.since(newest.at));
    (same && chain.increments == 0 && !chain.auth_changed && !waits.is_zero()).then_some(waits)
}

/// Time until the full backup that follows one at `last`: zero when it is due.
pub(super) fn due_in(last: UnixMs, now: UnixMs, interval: Duration, calendar: Option<&Calendar>) -> Duration {
    match calendar {
        None => interval.saturating_sub(now.since(last)),
        Some(calendar) => calendar
            .next_after(last)
            .map_or(Duration::MAX, |next| next.since(now)),
    }
}

/// Begins a full backup of a healthy follower if there is one, preferably of this node's own: the raft leader
/// is busy enough. After a failed attempt it takes this node's own member.
pub(super) fn begin(cx: &Context<'_>) -> Action {
    begin_as(cx, cx.spec.backup.format)
}

fn begin_as(cx: &Context<'_>, format: BackupFormat) -> Action {
    let me = &cx.spec.node;
    let voters = healthy_voters(cx);
    let follows = voters.iter().any(|(leads, node)| !leads && *node == me);
    let first = voters.first().filter(|_| !follows && cx.obs.backup.failures == 0);
    Action::Backup {
        from: first.map_or(me, |(_, node)| node).clone(),
        format,
    }
}

/// The nodes whose members are healthy voters of the newest epoch with data like the majority's, followers first, then
/// by name. The flag is true for the raft leader.
pub(super) fn healthy_voters<'a>(cx: &Context<'a>) -> Vec<(bool, &'a NodeName)> {
    let Some(genesis) = cx.genesis() else {
        return Vec::new();
    };
    let leads = |status: &NodeStatus| {
        let etcd = status.etcd.known()?;
        let healthy = etcd.cluster_id == genesis.cluster_id
            && etcd.leader.is_some()
            && !etcd.is_learner
            && etcd.errors.is_empty()
            && !hashes::is_corrupt(cx, etcd.cluster_id, etcd.member_id);
        healthy.then_some(etcd.leader == Some(etcd.member_id))
    };
    let mut healthy: Vec<(bool, &NodeName)> = cx
        .known_nodes()
        .into_iter()
        .filter_map(|(name, status)| Some((leads(status)?, name)))
        .collect();
    healthy.sort();
    healthy
}

/// False during the pause after a failed backup. The pause grows up to `longest`.
pub(super) fn may_try_again(cx: &mut Context<'_>, longest: Duration) -> bool {
    let job = &cx.obs.backup;
    let pause = Backoff::new(RETRY_FROM, RETRY_TO.min(longest)).after(job.failures);
    !cx.rests(job, pause, ReasonCode::BackupFailed, "the last backup failed")
}

/// True if the newest backup is etcd-manager's, which has no revision and no chain.
fn foreign(cx: &Context<'_>) -> bool {
    let newest = cx.obs.store.known().and_then(|s| s.newest_backup.as_ref());
    newest.is_some_and(|b| b.revision == Revision(0))
}
