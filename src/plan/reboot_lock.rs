//! The reboot lock: hosts reboot one at a time, and only while the cluster is whole (rule 4).
//!
//! A node takes the lock in two steps. Under the coordinator's grant it stores the lock, which holds back
//! every other disruption from then on. Once the agents of all members have recorded it in the raft term of
//! the grant, the lock is confirmed and the host may reboot. A later coordinator is one of these members, so
//! it grants nothing. The lock ends when the node releases it, or by an operator's order, never by time.

use std::time::Duration;

use super::context::{Context, names};
use super::coordinator_view::as_coordinator;
use super::lock_holder::{hold_of, holder, lock_of};
use super::next_start::stays_down;
use super::orders::is_out;
use super::safety::undisturbed;
use super::{grant, restart};
use crate::model::{
    Action, ActionKind, Grant, GrantPurpose, LockOwner, MemberList, Memory, NodeName, NodeStatus,
    OperatorRequest, ReasonCode, RebootHold, RebootLock, SteadyMs,
};

/// How soon a step that waits for other nodes is looked at again.
const LOOK: Duration = Duration::from_millis(500);

/// Takes, confirms or releases the lock on this node.
pub(super) fn follow(cx: &mut Context<'_>) -> Option<Action> {
    let own = &cx.obs.me.steering.reboot_locks.own;
    let request = cx.obs.requests.iter().find_map(Request::of);
    match (&own.hold, request) {
        (None, None) => None,
        (None, Some(request)) => acquire(cx, &request),
        (Some(_), _) if hold_of(cx, &cx.spec.node).is_none() => {
            release(cx, own, "an operator released the reboot lock of this node")
        }
        (Some(hold), request) if hold.confirmed => request.map(|request| {
            let holds = format!("{} holds the reboot lock", cx.spec.node);
            if hold.owner != *request.owner {
                return request.answer(false, format!("{holds} already, for {}", hold.owner));
            }
            match stays_down(&cx.obs.me) {
                Some(why) => request.answer(
                    false,
                    format!("{holds}, and etcd there might not start again: {why}"),
                ),
                None => request.answer(true, holds),
            }
        }),
        (Some(_), None) => release(cx, own, "the request for the reboot lock is no longer open"),
        (Some(hold), Some(request)) => confirm(cx, own, hold, &request),
    }
}

/// An open request for the lock.
struct Request<'a> {
    given: &'a OperatorRequest,
    owner: &'a LockOwner,
    within: Duration,
    asked: SteadyMs,
}

impl<'a> Request<'a> {
    fn of(request: &'a OperatorRequest) -> Option<Self> {
        let OperatorRequest::RebootLock {
            owner,
            within_ms,
            asked,
        } = request
        else {
            return None;
        };
        Some(Self {
            given: request,
            owner,
            within: Duration::from_millis(*within_ms),
            asked: *asked,
        })
    }

    fn answer(&self, done: bool, message: String) -> Action {
        Action::Answer {
            request: self.given.clone(),
            done,
            message,
        }
    }
}

/// Stores the lock once it is granted.
fn acquire(cx: &mut Context<'_>, request: &Request<'_>) -> Option<Action> {
    if is_out(cx, &cx.spec.node) {
        let why = "this node was ordered out, so its host may reboot without the lock";
        return Some(request.answer(false, why.to_owned()));
    }
    let waited = cx.obs.steady.since(request.asked);
    if waited >= request.within {
        let why = why_not(cx);
        return Some(request.answer(false, format!("the reboot lock was not granted: {why}")));
    }
    let may = granted(cx).filter(|_| stays_down(&cx.obs.me).is_none());
    let Some((coordinator, grant)) = may else {
        let why = why_not(cx);
        cx.because(
            ReasonCode::RebootLockWaits,
            format!("waits for the reboot lock: {why}"),
        );
        cx.wake_in(request.within.saturating_sub(waited).min(LOOK));
        return None;
    };
    if !cx.may_try(ActionKind::SetRebootLock, LOOK, Duration::from_secs(5)) {
        return None;
    }
    cx.because(
        ReasonCode::RebootLockAcquired,
        format!("{coordinator} granted the reboot lock to this node"),
    );
    let released = cx.obs.me.steering.directives.released.get(&cx.spec.node);
    let version = lock_of(cx.obs, &cx.spec.node)
        .0
        .max(released.copied().unwrap_or_default());
    Some(Action::SetRebootLock {
        lock: RebootLock {
            version: version.saturating_add(1),
            hold: Some(RebootHold {
                owner: request.owner.clone(),
                since: cx.obs.now,
                grant,
                confirmed: false,
            }),
        },
    })
}

/// Lets the host reboot once the agents of all members have recorded the lock.
fn confirm(
    cx: &mut Context<'_>,
    own: &RebootLock,
    hold: &RebootHold,
    request: &Request<'_>,
) -> Option<Action> {
    let Some((coordinator, _)) = granted(cx).filter(|(_, grant)| *grant == hold.grant) else {
        return release(
            cx,
            own,
            "the grant of the reboot lock ended before all members had recorded it",
        );
    };
    if cx.obs.steady.since(request.asked) >= request.within {
        return release(cx, own, "not all members have recorded the reboot lock in time");
    }
    if let Some(why) = stays_down(&cx.obs.me) {
        cx.because(ReasonCode::RebootLockWaits, not_again(why));
        cx.wake_in(LOOK);
        return None;
    }
    let list = members(cx, &coordinator)?;
    let nodes = list.members.iter().map(|member| cx.spec.node_of(member));
    let recorded = |node: &NodeName| {
        let status = cx.status_of(node);
        *node == cx.spec.node || status.is_some_and(|status| has_recorded(status, own.version, &cx.spec.node))
    };
    let missing: Vec<&NodeName> = nodes.flatten().filter(|node| !recorded(node)).collect();
    if !missing.is_empty() && !mutant!(RebootsUnrecorded) {
        let text = format!(
            "the agent on {} has not recorded the reboot lock yet",
            names(missing)
        );
        cx.because(ReasonCode::RebootLockWaits, text);
        cx.wake_in(LOOK);
        return None;
    }
    if !cx.may_try(ActionKind::ConfirmRebootLock, LOOK, Duration::from_secs(5)) {
        return None;
    }
    cx.because(
        ReasonCode::RebootLockConfirmed,
        "the agents of all members have recorded the reboot lock: this host may reboot",
    );
    Some(Action::ConfirmRebootLock {
        version: own.version,
        coordinator,
    })
}

/// True if this agent has recorded that version of the lock of `holder`.
pub fn has_recorded(status: &NodeStatus, version: u64, holder: &NodeName) -> bool {
    let recorded = status.steering.reboot_locks.others.get(holder);
    recorded.is_some_and(|recorded| recorded.lock.version == version)
}

fn release(cx: &mut Context<'_>, own: &RebootLock, why: &str) -> Option<Action> {
    if !cx.may_try(ActionKind::SetRebootLock, LOOK, Duration::from_secs(5)) {
        return None;
    }
    cx.because(ReasonCode::RebootLockReleased, why);
    Some(Action::SetRebootLock { lock: own.released() })
}

/// The grant of the lock that is valid for this node now, and the node that gave it. A node without a member
/// has no raft term of its own. It follows the only node that leads according to every etcd that it sees.
fn granted(cx: &Context<'_>) -> Option<(NodeName, Grant)> {
    if cx.obs.me.etcd.known().is_some() {
        return restart::leave(cx, GrantPurpose::Reboot);
    }
    let etcds = || cx.known_peers().filter_map(|(_, status)| status.etcd.known());
    let term = etcds().map(|etcd| etcd.term).max()?;
    cx.known_peers().find_map(|(node, status)| {
        let theirs = status.etcd.known()?;
        let leads = theirs.leader == Some(theirs.member_id) && theirs.term == term;
        let grant = status.steering.grant.as_ref()?;
        let mine = grant.node == cx.spec.node && grant.purpose == GrantPurpose::Reboot && grant.term == term;
        (leads && mine).then(|| (node.clone(), grant.clone()))
    })
}

/// The members, as this node's etcd lists them, or, without one, the coordinator's.
fn members<'a>(cx: &Context<'a>, coordinator: &NodeName) -> Option<&'a MemberList> {
    let own = cx.obs.me.members.known();
    own.or_else(|| cx.status_of(coordinator)?.members.known())
}

fn not_again(why: &str) -> String {
    format!("etcd here might not start again: {why}")
}

/// Why this node is not granted the lock, as far as it sees what the coordinator sees.
fn why_not(cx: &Context<'_>) -> String {
    if let Some(why) = stays_down(&cx.obs.me) {
        return not_again(why);
    }
    if let Some((holder, hold)) = holder(cx, None) {
        return format!("{holder} holds it for {}", hold.owner);
    }
    let view = as_coordinator(cx.obs);
    let coordinator = Context::new(&view, &Memory::default());
    let Some(list) = coordinator.coordinated_list() else {
        return "this node sees no coordinator that knows the members".to_owned();
    };
    if let Err(why) = undisturbed(&coordinator, list) {
        return format!("first all members have to be healthy: {why}");
    }
    let wanting = grant::wanting(&coordinator, list);
    if !wanting.is_empty() {
        return format!("etcd on {} is to be restarted first", names(wanting));
    }
    format!(
        "the coordinator, {}, has not granted it yet: `etcd-agent plan` there gives its reasons",
        view.spec.node
    )
}
