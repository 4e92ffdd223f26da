//! Leave to restart etcd, given by the coordinator: one node at a time, followers first, the leader last and only after
//! another member leads (rule 4). A grant is told in the status, holds in one raft term, and is over when its node is
//! healthy again with nothing left to restart for.

use std::time::Duration;

use super::context::{Context, names};
use super::orders::paused;
use super::safety::undisturbed;
use super::{leader, spares};
use crate::model::{Action, Grant, Join, MemberList, NodeName, NodeStatus, ReasonCode};

/// A node that has made nothing of its grant for this long has lost it.
const UNUSED: Duration = Duration::from_secs(30);
/// A restart that is not over after this long holds nothing else up any more.
const LONGEST: Duration = Duration::from_mins(3);
/// How long nothing is granted after another grant may still be acted on: it was withdrawn, or another node led until
/// now. Longer than `agent/execute/restart.rs` takes from its last look to the restart, which is asserted there.
pub const GRANT_COOLDOWN: Duration = Duration::from_secs(5);
/// A node that made nothing of a grant gets the next one after this long.
const AGAIN: Duration = Duration::from_mins(1);

/// Gives leave to restart, one node at a time; decides a move of the leader when only its node is left.
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
    let only_ordered = paused(cx).is_some() || list.members.len() == 1;
    let wanting: Vec<&NodeName> = statuses
        .iter()
        .filter(|status| {
            let wish = status.steering.wants_restart.as_ref();
            wish.is_some_and(|wish| wish.order.is_some() || !only_ordered)
        })
        .map(|status| &status.node)
        .collect();
    if wanting.is_empty() {
        say_left_alone(cx, &statuses);
        return None;
    }
    if let Err(why) = whole {
        let text = format!(
            "etcd on {} is to be restarted, and first all has to be well: {why}",
            names(wanting)
        );
        cx.because(ReasonCode::RestartWaits, text);
        cx.wake_in(Duration::from_secs(1));
        return None;
    }
    if let Some(joiner) = replacement(cx, list) {
        let text = format!(
            "etcd on {} is to be restarted, and first {joiner} takes the place of a member that is lost",
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
                "{} made nothing of the leave to restart, it is tried again",
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

/// Who is about to join in place of a member that was lost: until then no other is taken away.
fn replacement<'a>(cx: &mut Context<'a>, list: &MemberList) -> Option<&'a NodeName> {
    let had = cx.obs.spec_record.settled.unwrap_or(cx.spec.size);
    if list.voters().count() >= had.min(cx.spec.size) || cx.spec.join == Join::Prepare || paused(cx).is_some()
    {
        return None;
    }
    let genesis = cx.genesis()?;
    spares::next(cx, genesis, list)
}

/// What is known of each member's node, by its name.
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

/// Ends a grant whose restart is over, or that nothing comes of.
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
        // What it may still do with it is waited for, as after a change of coordinator.
        cx.memory.coordinates = cx.memory.coordinates.map(|(term, _)| (term, cx.obs.steady));
    }
}

/// Says what is not restarted by itself, and why.
fn say_left_alone(cx: &mut Context<'_>, statuses: &[&NodeStatus]) {
    let wants = |status: &&NodeStatus| status.steering.wants_restart.is_some();
    if statuses.iter().any(wants) && paused(cx).is_none() {
        cx.because(
            ReasonCode::RestartManual,
            "etcd's settings have changed, and a cluster of one is not restarted by itself: `etcd-agent restart` does it",
        );
    }
}
