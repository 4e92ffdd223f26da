//! Keeps this node's etcd as its assignment wants it.

use std::time::Duration;

use super::context::Context;
use super::data::{self, Data};
use super::gate::clear_gate;
use super::inspection::{inspect, start_queued};
use super::removed::{self, Confirmation, removed_by};
use super::{failure, last_words, restart};
use crate::model::{
    Action, ActionKind, ActiveState, Assignment, Epoch, EtcdStatus, Fact, Generation, LoadState, NodeStatus,
    ReasonCode,
};

/// Keeps this node's etcd as its assignment wants it.
pub(super) fn keep_running(cx: &mut Context<'_>) -> Option<Action> {
    let unit = match &cx.obs.me.unit {
        Fact::Known(unit) => unit,
        Fact::Absent => {
            cx.halt(
                ReasonCode::NoEtcdUnit,
                "etcd.service is not installed: install etcd (Debian: etcd-server, Fedora and SUSE: etcd)",
            );
            return None;
        }
        Fact::Unreachable(why) => {
            let text = format!("systemd does not report the state of etcd.service: {why}");
            cx.because(ReasonCode::UnitUnknown, text);
            cx.wake_in(Duration::from_secs(1));
            return None;
        }
    };
    if unit.active == ActiveState::Deactivating {
        // Only when the unit is down can the agent see whether a person stopped it. Its data is in use until
        // then.
        cx.because(ReasonCode::Stopping, "etcd.service is being stopped");
        cx.wake_in(Duration::from_secs(1));
        return None;
    }
    let up = unit.active.is_up();
    if !up && cx.obs.me.data.is_unreachable() {
        if start_queued(cx) {
            return None;
        }
        return inspect(cx);
    }
    let Some(assignment) = &cx.obs.assignment else {
        return if unit.is_at_gate() { call_off(cx) } else { None };
    };
    let genesis = cx.genesis().filter(|g| g.epoch == assignment.epoch)?;
    let removed = assignment.removed || removed_by(assignment, &cx.obs.peers).is_some();
    if removed && unit.load != LoadState::Masked {
        match removed::removal(cx, assignment.cluster_id, assignment.member_id, assignment.listed) {
            Confirmation::Certain => return removed::leave(cx, assignment),
            Confirmation::First(action) => return Some(action),
            Confirmation::No => {}
        }
    }
    if unit.held {
        cx.because(
            ReasonCode::StoppedByOperator,
            "etcd.service was stopped or masked by a person: `systemctl start etcd` hands it back",
        );
        return None;
    }
    if let Some(action) = write_settings(cx, assignment) {
        return Some(action);
    }
    if conflicts(cx) {
        return None;
    }
    if unit.is_at_gate() {
        cx.obs.me.data.known()?;
        // Whatever asked for this start, etcd must run only on the data that it was assigned. Data of an
        // older epoch, or a missing directory that a restore has to fill first, must be handled while etcd is
        // down.
        if !matches!(data::prepare(cx, genesis, assignment), Data::Ready) {
            cx.because(
                ReasonCode::StartWithoutData,
                "the gate holds back a start without this member's data",
            );
            return cx
                .may_try(
                    ActionKind::CancelStart,
                    Duration::from_millis(500),
                    Duration::from_secs(10),
                )
                .then_some(Action::CancelStart {
                    generation: assignment.generation,
                });
        }
        return clear_gate(cx, genesis, assignment);
    }
    if up {
        watch_start(cx, assignment, unit.active);
        // The gate is cleared while etcd runs, so that systemd's own restart of a crashed etcd waits for no
        // agent. This is done only if etcd runs as the assigned member: an etcd on other data would start on
        // that data again.
        let its_own = |e: &EtcdStatus| assignment.is_of(e.cluster_id, e.member_id);
        if !cx.obs.me.etcd.known().is_some_and(its_own) {
            return None;
        }
        return clear_gate(cx, genesis, assignment);
    }
    match data::prepare(cx, genesis, assignment) {
        Data::Wait => return None,
        Data::Ready => {}
        Data::First(action) => return Some(action),
    }
    clear_gate(cx, genesis, assignment).or_else(|| restart::start(cx, assignment))
}

/// Cancels a start that the gate holds back on a node to which nothing is assigned and nothing can be
/// assigned now. Nothing else would end that start, and until it ends other nodes assume that etcd here is
/// about to come up.
fn call_off(cx: &mut Context<'_>) -> Option<Action> {
    cx.obs.me.data.known()?;
    cx.genesis().filter(|genesis| genesis.epoch > Epoch(1))?;
    cx.because(
        ReasonCode::StartUnassigned,
        "the gate holds back a start, and nothing is assigned to this node",
    );
    let generation = Generation::default();
    cx.may_try(
        ActionKind::CancelStart,
        Duration::from_millis(500),
        Duration::from_secs(10),
    )
    .then_some(Action::CancelStart { generation })
}

fn write_settings(cx: &mut Context<'_>, assignment: &Assignment) -> Option<Action> {
    let written = cx
        .obs
        .in_force
        .known()
        .is_some_and(|f| f.generation == assignment.generation);
    if written
        || !cx.may_try(
            ActionKind::Apply,
            Duration::from_millis(500),
            Duration::from_secs(30),
        )
    {
        return None;
    }
    Some(Action::Apply {
        generation: assignment.generation,
    })
}

/// True when etcd must not be started because its settings are not in force.
fn conflicts(cx: &mut Context<'_>) -> bool {
    let Some(in_force) = cx.obs.in_force.known() else {
        let error = cx.memory.errors.get(&ActionKind::Apply);
        let error = error.map_or_else(String::new, |error| format!(": {error}"));
        let text = format!("etcd's settings are not written yet{error}");
        cx.because(ReasonCode::NotApplied, text);
        return true;
    };
    for conflict in in_force.conflicts.clone() {
        cx.halt(ReasonCode::SettingsOverridden, conflict);
    }
    !in_force.conflicts.is_empty()
}

fn watch_start(cx: &mut Context<'_>, assignment: &Assignment, active: ActiveState) {
    if let Some((cluster_id, member_id)) = cx.obs.runs_as()
        && !assignment.is_of(cluster_id, member_id)
    {
        cx.halt(
            ReasonCode::ForeignMember,
            format!(
                "etcd runs as member {member_id} of cluster {cluster_id}, expected member {} of cluster {}",
                assignment.member_id, assignment.cluster_id
            ),
        );
        return;
    }
    match &cx.obs.me.etcd {
        Fact::Known(etcd) if etcd.leader.is_none() => {
            cx.because(ReasonCode::NoLeader, "this member sees no raft leader");
            failure::report_quorum_lost(cx);
            cx.wake_in(Duration::from_millis(200));
        }
        Fact::Known(etcd) => {
            cx.memory.start_failures = 0;
            await_election(cx, etcd);
        }
        Fact::Absent => {
            last_words::report(cx);
            cx.wake_in(Duration::from_millis(50));
        }
        Fact::Unreachable(why) => {
            let recent = cx
                .memory
                .started_at
                .is_none_or(|at| cx.obs.steady.since(at) < Duration::from_mins(1));
            cx.wake_in(Duration::from_millis(if recent { 50 } else { 1000 }));
            if active == ActiveState::Activating {
                cx.because(ReasonCode::Starting, "etcd starts and waits for quorum");
                failure::report_quorum_lost(cx);
            } else {
                let text = format!("etcd runs and does not answer: {why}");
                cx.because(ReasonCode::EtcdSilent, text);
            }
            if cx.obs.no_room {
                let log = cx.spec.etcd.wal_dir.as_ref().map_or("", |_| " or of its log");
                let text = format!("the disk of etcd's data directory{log} is full: make room on it");
                cx.because(ReasonCode::NoSpace, text);
            }
        }
    }
}

/// etcd does not announce a new raft leader. So while the last leader is down, etcd is polled until it names
/// another one.
fn await_election(cx: &mut Context<'_>, etcd: &EtcdStatus) {
    let Some(leader) = etcd.leader.filter(|leader| *leader != etcd.member_id) else {
        return;
    };
    let serves = |s: &NodeStatus| s.etcd.known().is_some_and(|e| e.member_id == leader);
    if cx.known_peers().any(|(_, s)| serves(s)) {
        return;
    }
    let is_its = |s: &NodeStatus| s.assignment.as_ref().is_some_and(|a| a.member_id == leader);
    let down = cx.known_peers().any(|(_, s)| is_its(s) && s.etcd.is_absent());
    cx.wake_in(if down {
        Duration::from_millis(100)
    } else {
        Duration::from_secs(1)
    });
}
