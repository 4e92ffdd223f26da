//! Waiting for the one learner, promoting it, or removing it again.

use std::time::Duration;

use super::context::Context;
use super::failure::{self, has_started, reports_loss};
use super::removal::{may_lose, remove};
use super::safety::{Change, healthy_members, keeps_quorum};
use super::{orders, spares};
use crate::model::{
    Action, ActionKind, Genesis, Join, LearnerProgress, Member, MemberList, NodeName, NodeStatus, ReasonCode,
    Removal, UnitState, forgets_promotions,
};

/// How long a node has to start the learner that it was added as.
const START_WITHIN: Duration = Duration::from_mins(2);
/// The longest pause between two reads of the member list, which shows whether a learner has started.
const STARTED_AGAIN: Duration = Duration::from_secs(1);
/// The longest pause between two attempts to promote a learner. etcd refuses while the learner lags.
const PROMOTE_AGAIN: Duration = Duration::from_secs(1);
/// The same while the learner's etcd does not answer. The learner may be receiving a large snapshot, and etcd
/// logs each refusal.
const WHILE_SILENT: Duration = Duration::from_secs(5);
/// How long a learner may make no progress, in addition to the time that a snapshot takes to arrive.
const STUCK_AFTER: Duration = Duration::from_mins(10);
/// The slowest link that is waited for, in bytes per second: a tenth of 100 Mbit/s. While a learner receives
/// a snapshot of the leader's database, its raft index stalls.
const SLOWEST_BYTES: u64 = 1 << 20;

/// Promotes the learner or removes it. Nothing else joins while there is one.
pub(super) fn settle<'a>(cx: &mut Context<'a>, genesis: &Genesis, list: &'a MemberList) -> Option<Action> {
    let learner = list.members.iter().find(|m| m.is_learner)?;
    // A learner of a node that is not configured was reported before, and is not touched.
    let node = cx.spec.node_of(learner)?;
    let status = cx.status_of(node);
    // A learner that has not started yet has no data, and may be about to start. A node whose agent was
    // reinstalled knows nothing of the learner.
    let had_started = |status: &NodeStatus| {
        let assigned = status.assignment.as_ref();
        assigned.map_or(!learner.name.is_empty(), |assigned| {
            has_started(assigned, learner, genesis)
        })
    };
    if status.is_some_and(|status| had_started(status) && reports_loss(learner, genesis, status)) {
        if !may_remove(cx) {
            return None;
        }
        cx.because(
            ReasonCode::ReplaceGone,
            format!("{node} attests that the data of learner {} is gone", learner.id),
        );
        return remove(cx, learner, node, Removal::Gone, None, list);
    }
    if learner.name.is_empty() {
        return await_start(cx, list, learner, node);
    }
    let etcd = status
        .and_then(|s| s.etcd.known())
        .filter(|e| e.member_id == learner.id);
    let stuck = has_stalled(cx, learner, etcd.map_or(0, |e| e.index));
    let Some(etcd) = etcd else {
        if stuck {
            return give_up(cx, list, learner, node);
        }
        if status.is_some_and(|status| runs_without_answer(cx, list, status)) {
            let since = cx.memory.learner.as_ref().map_or(cx.obs.steady, |seen| seen.at);
            let most = after(cx.obs.steady.since(since), WHILE_SILENT);
            return promote(cx, list, learner, node, most);
        }
        cx.because(
            ReasonCode::LearnerStarting,
            format!("learner {} on {node} does not answer yet", learner.id),
        );
        cx.wake_in(Duration::from_millis(500));
        return None;
    };
    if list.voters().count() < cx.spec.size || orders::leaves_nobody(cx, list) {
        if stuck {
            return give_up(cx, list, learner, node);
        }
        return promote(cx, list, learner, node, PROMOTE_AGAIN);
    }
    if etcd.leader.is_none() {
        cx.wake_in(Duration::from_millis(500));
        return None;
    }
    make_room(cx, list, learner, node)
}

/// True if a learner that has its name may be promoted although its etcd answers no client yet. etcd answers
/// once it has applied the entry that publishes its own name. If that entry was part of the snapshot that the
/// learner received, etcd does not notice it and publishes again after 7 s (`publishV3` and `applySnapshot`
/// in `server/etcdserver/server.go`, 3.5 to 3.7). The raft leader knows the learner's progress, and refuses
/// the promotion before the learner has caught up (`mayPromoteMember`). If the learner never answers, the
/// cluster must survive as many failures with its vote as without. That holds for an even number of voters.
fn runs_without_answer(cx: &Context<'_>, list: &MemberList, status: &NodeStatus) -> bool {
    let runs = |unit: &UnitState| unit.active.is_up() && !unit.waits_to_start();
    let voters = list.voters().count();
    voters < cx.spec.size && voters.is_multiple_of(2) && status.unit.known().is_some_and(runs)
}

/// True if a learner may be removed. Learners have no vote, so only `prepare` forbids it: there the operator
/// alone changes members.
fn may_remove(cx: &Context<'_>) -> bool {
    cx.spec.join != Join::Prepare
}

fn await_start(cx: &mut Context<'_>, list: &MemberList, learner: &Member, node: &NodeName) -> Option<Action> {
    let since = cx.memory.unstarted_since.get(&learner.id).copied();
    let waited = since.map_or(Duration::ZERO, |since| cx.obs.steady.since(since));
    if waited < START_WITHIN || !may_remove(cx) {
        cx.because(
            ReasonCode::LearnerUnstarted,
            format!("learner {} waits for {node} to start it", learner.id),
        );
        cx.wake_in(after(waited, STARTED_AGAIN));
        return None;
    }
    cx.because(
        ReasonCode::LearnerAbandoned,
        format!(
            "{node} did not start learner {} within {} s: the learner is removed again",
            learner.id,
            START_WITHIN.as_secs()
        ),
    );
    let action = remove(cx, learner, node, Removal::Unstarted, None, list);
    if action.is_some() {
        spares::failed(cx, node);
    }
    action
}

/// The pause before the next check of something that has taken `waited` so far. It is a fraction of `waited`:
/// short waits are prolonged only a little, and long waits need few checks.
fn after(waited: Duration, most: Duration) -> Duration {
    (waited / 4).max(Duration::from_millis(100)).min(most)
}

/// How long a learner of this cluster may stall.
fn patience(cx: &Context<'_>) -> Duration {
    let size = cx.obs.me.etcd.known().map_or(0, |etcd| etcd.db_size_bytes);
    STUCK_AFTER.saturating_add(Duration::from_secs(size / SLOWEST_BYTES))
}

/// Remembers the learner's progress. True if the learner has stalled for too long.
fn has_stalled(cx: &mut Context<'_>, learner: &Member, index: u64) -> bool {
    let (now, patience) = (cx.obs.steady, patience(cx));
    match &cx.memory.learner {
        Some(seen) if seen.id == learner.id && index <= seen.index => now.since(seen.at) >= patience,
        _ => {
            cx.memory.learner = Some(LearnerProgress {
                id: learner.id,
                index,
                at: now,
            });
            false
        }
    }
}

fn give_up(cx: &mut Context<'_>, list: &MemberList, learner: &Member, node: &NodeName) -> Option<Action> {
    cx.because(
        ReasonCode::LearnerStuck,
        format!(
            "learner {} on {node} has made no progress for {} minutes",
            learner.id,
            patience(cx).as_secs() / 60
        ),
    );
    if !may_remove(cx) {
        return None;
    }
    let action = remove(cx, learner, node, Removal::Stuck, None, list);
    if action.is_some() {
        spares::failed(cx, node);
    }
    action
}

/// Promotes the learner if quorum allows it. `most` is the longest pause between two attempts.
fn promote(
    cx: &mut Context<'_>,
    list: &MemberList,
    learner: &Member,
    node: &NodeName,
    most: Duration,
) -> Option<Action> {
    let healthy = healthy_members(cx, list);
    if !keeps_quorum(&list.voter_ids(), &healthy, Change::Promote(learner.id)) {
        cx.because(
            ReasonCode::TooFewHealthy,
            format!(
                "{node} could get its vote, but only {} of {} members are seen healthy",
                healthy.len(),
                list.members.len()
            ),
        );
        cx.wake_in(Duration::from_secs(1));
        return None;
    }
    cx.because(
        ReasonCode::Promote,
        format!("{node} gets its vote as soon as it has caught up"),
    );
    report_forgetful_etcd(cx);
    cx.may_try(ActionKind::Promote, Duration::from_millis(100), most)
        .then(|| Action::Promote {
            id: learner.id,
            node: node.clone(),
            term: list.term,
        })
}

/// Reports that a member's etcd does not write promotions into its database. etcd 3.6 may not start on such a
/// database.
fn report_forgetful_etcd(cx: &mut Context<'_>) {
    let peers = cx.known_peers().map(|(node, status)| (node, &status.etcd));
    let all = peers.chain([(&cx.spec.node, &cx.obs.me.etcd)]);
    let old = all.filter_map(|(node, etcd)| {
        let version = &etcd.known()?.version;
        forgets_promotions(version).then(|| format!("{node} ({version})"))
    });
    let old: Vec<String> = old.collect();
    if old.is_empty() {
        return;
    }
    let text = format!(
        "etcd 3.5.1 to 3.5.25 may forget in its database that this learner was promoted: {}; before an upgrade to 3.6 run 3.5.26 \
         or newer of 3.5 on all members, and restart etcd on each once more",
        old.join(", ")
    );
    cx.because(ReasonCode::PromotionNotStored, text);
}

/// Removes the failing voter whose place the learner takes. The voter is removed before the promotion, so
/// that the number of voters never grows, and only while the learner runs and has caught up. If no voter
/// fails any more, the learner is removed.
fn make_room<'a>(
    cx: &mut Context<'a>,
    list: &'a MemberList,
    learner: &Member,
    node: &NodeName,
) -> Option<Action> {
    if matches!(cx.spec.join, Join::Replace | Join::Prune)
        && let Some(failing) = failure::failing(cx, list)
    {
        if !may_lose(cx, list, &failing) {
            return None;
        }
        cx.because(
            ReasonCode::ReplaceDead,
            format!(
                "{} is replaced by {node} as soon as {node} has caught up: {}",
                failing.node, failing.why
            ),
        );
        return remove(
            cx,
            failing.member,
            failing.node,
            failing.why,
            Some(learner.id),
            list,
        );
    }
    let healthy = healthy_members(cx, list);
    let all_well = list.voters().all(|voter| healthy.contains(&voter.id));
    if !all_well || !may_remove(cx) {
        cx.because(
            ReasonCode::LearnerWaits,
            format!(
                "learner {} on {node} has no voter to replace: there are {} of {} voters",
                learner.id,
                list.voters().count(),
                cx.spec.size
            ),
        );
        cx.wake_in(Duration::from_secs(1));
        return None;
    }
    cx.because(
        ReasonCode::LearnerSurplus,
        format!(
            "all voters are healthy again: learner {} on {node} is not needed",
            learner.id
        ),
    );
    remove(cx, learner, node, Removal::Surplus, None, list)
}
