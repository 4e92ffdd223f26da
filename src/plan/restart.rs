//! Starting etcd, also after a crash, and restarting it under a grant.

use std::time::Duration;

use super::context::Context;
use super::{last_words, orders, transport_list};
use crate::model::{
    Action, ActionKind, Assignment, Backoff, Grant, GrantPurpose, NodeName, ReasonCode, StartFence,
};

/// A start that lasted this long was successful.
const LASTED: Duration = Duration::from_secs(30);
/// The pause between starts that do not last.
const STAY_UP_BACKOFF: Backoff = Backoff::new(Duration::from_secs(1), Duration::from_secs(30));

/// Starts etcd: immediately the first time, then with a growing pause between starts that do not last. The
/// pause does not apply to another member, whose data and settings are new.
pub(super) fn start(cx: &mut Context<'_>, assignment: &Assignment) -> Option<Action> {
    // A report of a newer epoch is enough to hold a start back.
    if !assignment.is_cleared(cx.obs.gate.cleared) || cx.obs.newest_epoch > assignment.epoch {
        return None;
    }
    if assignment.started && orders::paused(cx).is_some() {
        cx.because(
            ReasonCode::PausedStart,
            "etcd.service is down and is not started during a pause: `systemctl start etcd` does, or `etcd-agent resume`",
        );
        return None;
    }
    if !cx.may_try(
        ActionKind::StartEtcd,
        Duration::from_millis(500),
        Duration::from_secs(30),
    ) {
        return None;
    }
    if let Some(at) = cx.memory.started_at {
        let since = cx.obs.steady.since(at);
        if since >= LASTED || cx.memory.started_as != Some(assignment.member_id) {
            cx.memory.start_failures = 0;
        }
        let failures = cx.memory.start_failures;
        let pause = STAY_UP_BACKOFF.after(failures);
        if failures > 0 && since < pause {
            let unit = cx.obs.me.unit.known();
            cx.because(
                ReasonCode::StartBackoff,
                format!(
                    "etcd.service did not stay up ({}); next start in {:.1} s: see `journalctl -u etcd`",
                    unit.map_or("unknown", |u| u.result.as_str()),
                    pause.saturating_sub(since).as_secs_f64()
                ),
            );
            last_words::report(cx);
            cx.wake_in(pause.saturating_sub(since));
            return None;
        }
        cx.memory.start_failures = failures.saturating_add(1);
    }
    cx.memory.started_at = Some(cx.obs.steady);
    cx.memory.started_as = Some(assignment.member_id);
    cx.memory.start_shown = false;
    cx.because(
        ReasonCode::Start,
        format!(
            "etcd is to run as member {} of epoch {}",
            assignment.member_id, assignment.epoch
        ),
    );
    Some(Action::StartEtcd {
        fence: StartFence::of(assignment),
    })
}

/// A queued restart shows in the unit's state within this time.
const RESTART_QUEUED: Duration = Duration::from_secs(5);

/// Restarts etcd on this node if the coordinator has granted it, in the raft term in which the coordinator
/// leads.
pub(super) fn granted(cx: &mut Context<'_>) -> Option<Action> {
    let wish = cx.obs.me.steering.wants_restart.as_ref()?;
    if wish.held.is_some() {
        return None;
    }
    let assignment = cx.obs.assignment.as_ref()?;
    let (coordinator, grant) = leave(cx, GrantPurpose::Restart)?;
    let up = cx.obs.me.is_active();
    let ready = assignment.is_cleared(cx.obs.gate.cleared)
        && cx
            .obs
            .in_force
            .known()
            .is_some_and(|f| f.generation == assignment.generation && f.conflicts.is_empty());
    let queued = cx
        .memory
        .restarted_at
        .is_some_and(|at| cx.obs.steady.since(at) < RESTART_QUEUED)
        && !cx.memory.failures.contains_key(&ActionKind::RestartEtcd);
    if !up || !ready || queued || is_used(cx, &grant, ActionKind::RestartEtcd) {
        return None;
    }
    if !cx.may_try(
        ActionKind::RestartEtcd,
        Duration::from_millis(200),
        Duration::from_secs(5),
    ) {
        return None;
    }
    if transport_list::waits_for_list(cx, assignment) {
        return None;
    }
    cx.because(
        ReasonCode::Restart,
        format!("{} (granted by {coordinator})", wish.why),
    );
    cx.memory.restarted_at = Some(cx.obs.steady);
    cx.memory.started_at = Some(cx.obs.steady);
    cx.memory.started_as = Some(assignment.member_id);
    cx.memory.start_shown = false;
    cx.memory.grant_used = Some(grant.id);
    Some(Action::RestartEtcd {
        fence: StartFence::of(assignment),
        grant,
        coordinator,
    })
}

/// True if this node has acted on the grant. Each is for one restart or one defragmentation: the coordinator may
/// take it for used, and grant the next one, at the moment at which this node wants another.
pub(super) fn is_used(cx: &Context<'_>, grant: &Grant, action: ActionKind) -> bool {
    cx.memory.grant_used == Some(grant.id) && !cx.memory.failures.contains_key(&action)
}

/// The grant for this purpose that is valid for this node now, and the node that gave it.
pub(super) fn leave(cx: &Context<'_>, purpose: GrantPurpose) -> Option<(NodeName, Grant)> {
    let etcd = cx.obs.me.etcd.known()?;
    let me = || cx.spec.node.clone();
    if mutant!(RestartsTogether) && purpose == GrantPurpose::Restart {
        let (node, term) = (me(), etcd.term);
        return Some((
            me(),
            Grant {
                node,
                id: 0,
                term,
                purpose,
            },
        ));
    }
    let mine =
        |grant: &&Grant| grant.node == cx.spec.node && grant.term == etcd.term && grant.purpose == purpose;
    if cx.is_coordinator() {
        let (grant, _) = cx.memory.grant.as_ref()?;
        return Some(grant).filter(mine).map(|grant| (me(), grant.clone()));
    }
    cx.known_peers().find_map(|(node, status)| {
        let theirs = status.etcd.known()?;
        let leads = theirs.leader == Some(theirs.member_id) && etcd.leader == Some(theirs.member_id);
        let grant = status.steering.grant.as_ref().filter(mine)?;
        (leads && theirs.term == grant.term).then(|| (node.clone(), grant.clone()))
    })
}
