//! Grants to restart etcd. The coordinator gives one to one node at a time, followers first, the leader last
//! and only after another member leads (rule 4). A grant is published in the status and is valid in one raft
//! term. It ends when its node is healthy again and no longer asks for a restart.

use std::time::Duration;

use super::context::{Context, names};
use super::orders::paused;
use super::safety::undisturbed;
use super::{leader, spares};
use crate::model::{Action, Grant, Join, MemberList, NodeName, NodeStatus, ReasonCode};

/// A node that has not used its grant within this time loses it.
const UNUSED: Duration = Duration::from_secs(30);
/// A restart that is not over after this time no longer delays other changes.
const LONGEST: Duration = Duration::from_mins(3);
/// How long nothing is granted while a node may still act on an earlier grant: one that was withdrawn, or one
/// of the previous coordinator. Longer than `agent/execute/restart.rs` takes from its last check to the
/// restart, which is asserted there.
pub const GRANT_COOLDOWN: Duration = Duration::from_secs(5);
/// A node that did not use a grant gets the next one after this time.
const AGAIN: Duration = Duration::from_mins(1);

/// Grants restarts, one node at a time. Moves the leader when only its node is left.
pub(super) fn give(cx: &mut Context<'_>) -> Option<Action> {
    let Some(list) = cx.coordinated_list() else {
        cx.memory.grant = None;
        cx.memory.coordinates = None;
        return None;
    };
    if cx.memory.coordinates.is_none_or(|(term, _)| term != list.term) {
        cx.memory.grant = None;
        cx.memory.coordinates = Some((list.term, cx.obs.steady));
    }
    let statuses = statuses(cx, list);
    let whole = undisturbed(cx, list);
    settle(cx, &statuses, whole.is_ok());
    if let Some((grant, _)) = &cx.memory.grant {
        let text = format!("etcd on {} is being restarted", grant.node);
        cx.because(ReasonCode::Restarting, text);
        cx.wake_in(Duration::from_secs(1));
        return None;
    }
    let wanting = wanting(cx, list);
    if wanting.is_empty() {
        report_left_alone(cx, &statuses);
        return None;
    }
    if let Err(why) = whole {
        let text = format!(
            "etcd on {} is to be restarted, but first all members have to be healthy: {why}",
            names(wanting)
        );
        cx.because(ReasonCode::RestartWaits, text);
        cx.wake_in(Duration::from_secs(1));
        return None;
    }
    if let Some(joiner) = replacement(cx, list) {
        let text = format!(
            "etcd on {} is to be restarted, but first {joiner} takes the place of a lost member",
            names(wanting)
        );
        cx.because(ReasonCode::RestartWaits, text);
        return None;
    }
    let since = cx.memory.coordinates.map(|(_, since)| since);
    let rested = cx.obs.steady.since(since.unwrap_or(cx.obs.steady));
    if rested < GRANT_COOLDOWN && list.members.len() > 1 {
        cx.wake_in(GRANT_COOLDOWN.saturating_sub(rested));
        return None;
    }
    let me = &cx.spec.node;
    let ready: Vec<&NodeName> = wanting
        .iter()
        .copied()
        .filter(|node| *node != me || wanting.len() == 1)
        .filter(|node| {
            cx.memory
                .grant_unused
                .get(*node)
                .is_none_or(|at| cx.obs.steady.since(*at) >= AGAIN)
        })
        .collect();
    let Some(node) = ready.first().copied() else {
        cx.because(
            ReasonCode::RestartUnused,
            format!(
                "{} did not use the grant to restart; another one follows",
                names(wanting)
            ),
        );
        cx.wake_in(Duration::from_secs(5));
        return None;
    };
    if node == me && list.members.len() > 1 {
        cx.because(
            ReasonCode::LeaderLast,
            "etcd here is to be restarted too: another member leads first",
        );
        return leader::away(cx, list);
    }
    cx.because(
        ReasonCode::RestartGranted,
        format!("etcd on {node} is restarted now: all members are healthy"),
    );
    let grant = Grant {
        node: node.clone(),
        id: cx.obs.seed,
        term: list.term,
    };
    cx.memory.grant = Some((grant, cx.obs.steady));
    cx.wake_in(Duration::from_secs(1));
    None
}

/// The nodes whose etcd is to be restarted, by name.
pub(super) fn wanting<'a>(cx: &Context<'a>, list: &MemberList) -> Vec<&'a NodeName> {
    let only_ordered = paused(cx).is_some() || list.members.len() == 1;
    statuses(cx, list)
        .into_iter()
        .filter(|status| {
            let wish = status.steering.wants_restart.as_ref();
            wish.is_some_and(|wish| wish.order.is_some() || !only_ordered)
        })
        .map(|status| &status.node)
        .collect()
}

/// The node that is about to join in place of a lost member. Until it has joined, no other member is
/// restarted.
fn replacement<'a>(cx: &mut Context<'a>, list: &MemberList) -> Option<&'a NodeName> {
    let had = cx.obs.spec_record.settled.unwrap_or(cx.spec.size);
    if list.voters().count() >= had.min(cx.spec.size) || cx.spec.join == Join::Prepare || paused(cx).is_some()
    {
        return None;
    }
    let genesis = cx.genesis()?;
    spares::next(cx, genesis, list)
}

/// The known statuses of the members' nodes, sorted by node name.
fn statuses<'a>(cx: &Context<'a>, list: &MemberList) -> Vec<&'a NodeStatus> {
    let node = |member| cx.spec.node_of(member);
    let mut known: Vec<&NodeStatus> = list
        .members
        .iter()
        .filter_map(|member| cx.status_of(node(member)?))
        .collect();
    known.sort_by_key(|status| &status.node);
    known
}

/// Ends a grant whose restart is over, or that was not used.
fn settle(cx: &mut Context<'_>, statuses: &[&NodeStatus], whole: bool) {
    let Some((grant, at)) = cx.memory.grant.clone() else {
        return;
    };
    let age = cx.obs.steady.since(at);
    let status = statuses.iter().find(|status| status.node == grant.node);
    let wants = status.is_some_and(|status| status.steering.wants_restart.is_some());
    if whole && !wants {
        cx.memory.grant = None;
        cx.memory.grant_unused.remove(&grant.node);
        return;
    }
    let unused = whole && wants && age >= UNUSED;
    if unused || age >= LONGEST {
        cx.memory.grant = None;
        cx.memory.grant_unused.insert(grant.node, cx.obs.steady);
        // The node may still act on the grant, so the cooldown starts again, as after a change of
        // coordinator.
        cx.memory.coordinates = cx.memory.coordinates.map(|(term, _)| (term, cx.obs.steady));
    }
}

/// Reports an etcd that is not restarted automatically, and why.
fn report_left_alone(cx: &mut Context<'_>, statuses: &[&NodeStatus]) {
    let wants = |status: &&NodeStatus| status.steering.wants_restart.is_some();
    if statuses.iter().any(wants) && paused(cx).is_none() {
        cx.because(
            ReasonCode::RestartManual,
            "etcd's settings have changed, and a cluster of one is not restarted by itself: `etcd-agent restart` does it",
        );
    }
}
