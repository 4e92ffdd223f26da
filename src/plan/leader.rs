//! Moving the raft leader: because a person asks for it, or because a restart or removal of its node is
//! planned.

use std::time::Duration;

use super::context::{Context, names};
use super::{hashes, orders};
use crate::model::{
    Action, ActionKind, LeaderAsk, Member, MemberId, MemberList, NodeName, NodeStatus, OperatorRequest,
    RaftTerm, ReasonCode, SteadyMs,
};

/// A move that has not happened after this time is given up. etcd itself gives up after two election
/// timeouts.
const PATIENCE: Duration = Duration::from_secs(30);

/// How long the leader's etcd waits for one whose node reads its certificate files or its disk. If it went first, the
/// next leader would have to be moved as well.
const READ_WITHIN: Duration = Duration::from_secs(5);

/// Answers a person's request at the node where it was made: done, or not possible.
pub(super) fn answer(cx: &mut Context<'_>) -> Option<Action> {
    let request = cx
        .obs
        .requests
        .iter()
        .find(|r| matches!(r, OperatorRequest::MoveLeader { .. }))?;
    let OperatorRequest::MoveLeader { to, from, asked, .. } = request else {
        return None;
    };
    let (done, message) = judge(cx, to.as_ref(), *from, cx.obs.steady.since(*asked))?;
    Some(Action::Answer {
        request: request.clone(),
        done,
        message,
    })
}

/// The answer: whether the move is done, and one line. `None` while the move is under way.
fn judge(
    cx: &mut Context<'_>,
    to: Option<&NodeName>,
    from: Option<MemberId>,
    waited: Duration,
) -> Option<(bool, String)> {
    let Some(etcd) = cx.obs.me.etcd.known() else {
        let text = format!(
            "etcd on {} does not serve: ask a node whose member does",
            cx.spec.node
        );
        return Some((false, text));
    };
    let leader = etcd.leader;
    let leading = cx.leading();
    let seems = leading.filter(|leading| Some(*leading) == to);
    if let Some(to) = seems
        && has_quorum(cx, to, etcd.term)
    {
        return Some((true, format!("{to} leads")));
    }
    if to.is_none() && leader.is_some() && leader != from {
        let who = leading.map_or_else(|| "another member".to_owned(), ToString::to_string);
        return Some((true, format!("{who} leads")));
    }
    if waited >= PATIENCE {
        let within = PATIENCE.as_secs();
        let text = match seems {
            Some(to) => format!("{to} seems to lead, but has not proved quorum within {within} s"),
            None => format!(
                "the leader has not moved within {within} s: see `etcd-agent plan` on the coordinator"
            ),
        };
        return Some((false, text));
    }
    cx.wake_in(Duration::from_millis(500));
    if seems.is_some() {
        return None;
    }
    let list = cx.obs.me.members.known()?;
    let candidates = candidates(cx, list);
    let fits = |(node, _, _): &(&NodeName, MemberId, u64)| to.is_none_or(|to| to == *node);
    // The leader does not count as a candidate. What matters here is only whether there is any.
    if candidates.iter().any(fits) {
        return None;
    }
    let whom = to.map_or_else(|| "no other voter is".to_owned(), |to| format!("{to} is not"));
    Some((
        false,
        format!("{whom} seen as a healthy voter: nothing was moved"),
    ))
}

/// True if the node leads in this raft term according to its own etcd, and has read the member list through
/// quorum in that term. A leader that is cut off considers itself the leader until its election timeout is
/// over, and other nodes see it as the leader for longer. So the answer waits for a list that was read after
/// the request.
fn has_quorum(cx: &Context<'_>, node: &NodeName, term: RaftTerm) -> bool {
    let Some(status) = cx.status_of(node) else {
        return false;
    };
    let (Some(etcd), Some(list)) = (status.etcd.known(), status.members.known()) else {
        return false;
    };
    let leads = etcd.leader == Some(etcd.member_id) && etcd.term == term;
    leads && list.linearizable && list.term == term
}

/// Moves the leader when a person asked for it, here or at a peer.
pub(super) fn asked(cx: &mut Context<'_>) -> Option<Action> {
    let list = cx.coordinated_list()?;
    let own = cx.obs.me.etcd.known()?.member_id;
    let asks: Vec<LeaderAsk> = cx
        .known_nodes()
        .into_iter()
        .filter_map(|(_, status)| status.steering.leader_ask.clone())
        .filter(|ask| match &ask.to {
            Some(to) => *to != cx.spec.node,
            None => ask.from == Some(own),
        })
        .collect();
    let ask = asks.first()?;
    if orders::under_way(cx) {
        cx.because(
            ReasonCode::LeaderLater,
            "the leader moves once the restart that is under way is over",
        );
        return None;
    }
    let to = pick(cx, list, ask.to.as_ref())?;
    cx.because(ReasonCode::LeaderAsked, "a person asked for another raft leader");
    move_to(cx, list, to)
}

/// What the etcd here, the only one that could be restarted, waits for, and how long it still waits: another one that
/// is to be restarted once files or the disk of its node were read. `None` if it does not wait. `since` is when it
/// began to. It does not wait while something else stops it.
pub(super) fn waits_for_reading(
    cx: &mut Context<'_>,
    statuses: &[&NodeStatus],
    since: Option<SteadyMs>,
) -> Option<(String, Duration)> {
    if cx.obs.me.steering.waits_to_stop {
        return None;
    }
    let only_ordered = orders::paused(cx).is_some();
    let others = statuses.iter().filter(|status| status.node != cx.spec.node);
    let mut reading = others.filter_map(|status| {
        let wish = status.steering.wants_restart.as_ref();
        let wish = wish.filter(|wish| wish.reading && (wish.order.is_some() || !only_ordered))?;
        Some(format!("{}: {}", status.node, wish.held.as_ref()?))
    });
    let awaited = reading.next()?;
    let since = since.unwrap_or(cx.obs.steady);
    cx.memory.leader_waits = Some(since);
    let left = READ_WITHIN.saturating_sub(cx.obs.steady.since(since));
    (!left.is_zero()).then_some((awaited, left))
}

/// Moves the leader away from this node before its etcd is restarted or its member is removed.
pub(super) fn away(cx: &mut Context<'_>, list: &MemberList) -> Option<Action> {
    let to = pick(cx, list, None)?;
    move_to(cx, list, to)
}

fn move_to(cx: &mut Context<'_>, list: &MemberList, (node, to): (NodeName, MemberId)) -> Option<Action> {
    cx.may_try(
        ActionKind::MoveLeader,
        Duration::from_millis(500),
        Duration::from_secs(10),
    )
    .then_some(Action::MoveLeader {
        to,
        node,
        term: list.term,
    })
}

/// The requested follower if it is healthy; without a request, the best one: preferably one whose data does not
/// differ from the majority's and whose etcd is not to be restarted or defragmented itself, then the one with the
/// highest applied index.
fn pick(cx: &mut Context<'_>, list: &MemberList, to: Option<&NodeName>) -> Option<(NodeName, MemberId)> {
    let mut fit = candidates(cx, list);
    fit.retain(|(node, _, _)| to.is_none_or(|to| to == *node));
    let is_next = |node: &NodeName| {
        let status = cx.obs.peers.get(node).and_then(crate::model::Fact::known);
        let steering = status.map(|status| &status.steering);
        steering.is_some_and(|steering| steering.wants_restart.is_some() || steering.defrag.wish.is_some())
    };
    let best = fit
        .into_iter()
        .filter(|(node, _, _)| **node != cx.spec.node && !orders::is_out(cx, node))
        .min_by_key(|(node, id, applied)| {
            let differs = hashes::is_corrupt(cx, list.cluster_id, *id);
            (
                differs,
                is_next(node),
                std::cmp::Reverse(*applied),
                (*node).clone(),
            )
        });
    if best.is_none() {
        let wanted = names(to);
        cx.because(
            ReasonCode::NoCandidate,
            format!("no healthy voter can lead (wanted: {wanted})"),
        );
        cx.wake_in(Duration::from_secs(1));
    }
    best.map(|(node, id, _)| (node.clone(), id))
}

/// Voters whose etcd is up and follows a leader that is not itself: node, member and applied index.
fn candidates<'a>(cx: &Context<'a>, list: &MemberList) -> Vec<(&'a NodeName, MemberId, u64)> {
    let serves = |member: &Member, status: &NodeStatus| {
        let etcd = status.etcd.known().filter(|etcd| {
            etcd.member_id == member.id
                && etcd.cluster_id == list.cluster_id
                && etcd.leader.is_some_and(|leader| leader != member.id)
        });
        etcd.filter(|_| status.is_active()).map(|etcd| etcd.applied)
    };
    cx.known_nodes()
        .into_iter()
        .filter_map(|(node, status)| {
            let member = list
                .voters()
                .find(|member| Some(member.id) == member_of(status))?;
            Some((node, member.id, serves(member, status)?))
        })
        .collect()
}

fn member_of(status: &NodeStatus) -> Option<MemberId> {
    status.etcd.known().map(|etcd| etcd.member_id)
}
