//! Keeping this node's etcd what it was assigned to be.

use std::time::Duration;

use super::context::{Context, names};
use super::data::{self, Data};
use super::failure;
use super::removed::{self, Removal, removed_by};
use super::restart;
use super::words;
use crate::model::{
    Action, ActiveState, Assignment, DataState, Epoch, EtcdStatus, Fact, Generation, Genesis, NodeName,
    NodeStatus, StartFence, UnitState,
};

/// What a person has to see to is looked at again after this long.
const LOOK_AGAIN: Duration = Duration::from_secs(15);

/// An etcd that has not answered for this long is asked by its data which cluster it is of. It answers nobody without quorum.
const SILENT: Duration = Duration::from_secs(5);

/// What is said while nothing goes on because of what is in the data directory here. A person, or a mount, may change it.
const DATA_HOLDS: [&str; 6] = [
    "foreign-data",
    "removal-unconfirmed",
    "data-in-the-way",
    "data-without-epoch",
    "data-gone",
    "all-data-lost",
];

/// From asking for a start to the unit showing it.
const START_QUEUED: Duration = Duration::from_millis(200);

/// What is in the data directory has to be known before anything is decided about it.
pub(super) fn look(cx: &mut Context<'_>) -> Option<Action> {
    note_start(cx);
    note_silence(cx);
    let down = cx.obs.me.unit.known().is_some_and(|unit| {
        unit.waits_to_start() || !(unit.active.is_up() || unit.active == ActiveState::Deactivating)
    });
    if down && start_queued(cx) {
        return None;
    }
    if !down || !cx.obs.me.data.is_unreachable() {
        return None;
    }
    inspect(cx)
}

/// Asks the data directory's owner, and says why that could not be answered the last time.
fn inspect(cx: &mut Context<'_>) -> Option<Action> {
    if let Some(error) = cx.memory.errors.get("inspect-data") {
        let text = format!("what is in the data directory is not known: {error}");
        cx.because("data-unknown", text);
    }
    cx.may_try(
        "inspect-data",
        Duration::from_millis(500),
        Duration::from_secs(30),
    )
    .then(|| {
        cx.memory.looked_at = Some(cx.obs.steady);
        Action::InspectData
    })
}

/// While nothing goes on because of the data here, it is looked at again now and then: nobody tells the agent that a person
/// has seen to it. The same where data of another cluster keeps others from adding this node. Only while etcd is down, because
/// what it has open is its own.
pub(super) fn look_again(cx: &mut Context<'_>) -> Option<Action> {
    let down =
        cx.obs.me.unit.known().is_some_and(|unit| {
            !unit.held && !unit.active.is_up() && unit.active != ActiveState::Deactivating
        });
    let says = |codes: &[&str]| {
        cx.reasons()
            .iter()
            .any(|reason| codes.contains(&reason.code.as_str()))
    };
    let foreign = cx.genesis().is_some_and(|genesis| {
        let of_another = |cluster| cluster != genesis.cluster_id && !genesis.replaces(cluster);
        matches!(cx.obs.me.data, Fact::Known(DataState::Present { cluster_id, .. }) if of_another(cluster_id))
    });
    let waits = says(&DATA_HOLDS) || foreign && says(&["spare", "lost-membership"]);
    if !down || mutant!(LooksOnce) || !waits {
        return None;
    }
    let looked_at = *cx.memory.looked_at.get_or_insert(cx.obs.steady);
    let left = LOOK_AGAIN.saturating_sub(cx.obs.steady.since(looked_at));
    if !left.is_zero() {
        cx.wake_in(left);
        return None;
    }
    inspect(cx)
}

/// Has the data directory's owner note what it is on, where no agent that is remembered has looked at it: this one was installed
/// beside an etcd that runs. Nothing else is asked while etcd runs.
pub(super) fn note_mount(cx: &mut Context<'_>) -> Option<Action> {
    if !cx.obs.mount_unknown || mutant!(MountForgotten) {
        return None;
    }
    inspect(cx)
}

/// Remembers since when etcd has run and not answered.
fn note_silence(cx: &mut Context<'_>) {
    let runs = |unit: &UnitState| unit.active.is_up() && !unit.waits_to_start();
    let silent = cx.obs.me.unit.known().is_some_and(runs) && cx.obs.me.etcd.is_unreachable();
    cx.memory.silent_since = cx.memory.silent_since.or(Some(cx.obs.steady)).filter(|_| silent);
}

/// Looks whose data an etcd has open that does not answer. In an empty directory etcd takes its ID from its peers: from those of
/// an older epoch, where one still runs that. And a new memory does not know what runs beside it.
pub(super) fn identify(cx: &mut Context<'_>) -> Option<Action> {
    let unknown = cx.obs.runs_on.is_none() && !mutant!(SilentUnknown);
    let since = cx.memory.silent_since.filter(|_| unknown)?;
    let seen = cx.memory.looked_at.filter(|at| *at > since);
    let (from, pause) = seen.map_or((since, SILENT), |at| (at, LOOK_AGAIN));
    let left = pause.saturating_sub(cx.obs.steady.since(from));
    if !left.is_zero() {
        cx.wake_in(left);
        return None;
    }
    inspect(cx)
}

/// Remembers that the unit has shown the start that was asked for. Of a restart nothing is remembered: the unit is up before
/// it, too.
fn note_start(cx: &mut Context<'_>) {
    let restart = cx.memory.restarted_at == cx.memory.started_at;
    // While the gate holds it the start is not over, and etcd has said nothing yet.
    let shows = |unit: &UnitState| unit.active.is_up() && !unit.waits_to_start();
    if !restart && cx.obs.me.unit.known().is_some_and(shows) {
        cx.memory.start_shown = true;
    }
}

/// A start that was just queued is not a stop. Once the unit has shown it, a unit that is down has ended since.
fn start_queued(cx: &mut Context<'_>) -> bool {
    let Some(at) = cx.memory.started_at.filter(|_| !cx.memory.start_shown) else {
        return false;
    };
    let left = START_QUEUED.saturating_sub(cx.obs.steady.since(at));
    if !left.is_zero() {
        cx.wake_in(left);
    }
    !left.is_zero()
}

fn waits_at_gate(unit: &UnitState) -> bool {
    unit.active == ActiveState::Activating && unit.sub == "start-pre"
}

/// Keeps this node's etcd what it was assigned to be.
pub(super) fn keep_running(cx: &mut Context<'_>) -> Option<Action> {
    let unit = match &cx.obs.me.unit {
        Fact::Known(unit) => unit,
        Fact::Absent => {
            cx.halt(
                "no-etcd-unit",
                "etcd.service is not installed: install etcd (Debian: etcd-server)",
            );
            return None;
        }
        Fact::Unreachable(why) => {
            let text = format!("systemd does not say how etcd.service is: {why}");
            cx.because("unit-unknown", text);
            cx.wake_in(Duration::from_secs(1));
            return None;
        }
    };
    if unit.active == ActiveState::Deactivating {
        // Whether a person stops it is seen when it is down, and its data is in use until then.
        cx.because("stopping", "etcd.service is being stopped");
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
        return if waits_at_gate(unit) { call_off(cx) } else { None };
    };
    let genesis = cx.genesis().filter(|g| g.epoch == assignment.epoch)?;
    let told = assignment.removed || removed_by(assignment, &cx.obs.peers).is_some();
    if told && unit.load != "masked" {
        match removed::removal(cx, assignment.cluster_id, assignment.member_id, assignment.listed) {
            Removal::Certain => return removed::leave(cx, assignment),
            Removal::First(action) => return Some(action),
            Removal::No => {}
        }
    }
    if unit.held {
        cx.because(
            "held",
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
    if waits_at_gate(unit) {
        cx.obs.me.data.known()?;
        // Whoever asked for this start, etcd must not run on anything but what it was assigned to run on: data of an
        // older epoch, or none where a restore is to be put first, has to be seen to while etcd is down.
        if !matches!(data::prepare(cx, genesis, assignment), Data::Ready) {
            cx.because(
                "start-without-data",
                "the gate holds back a start without this member's data",
            );
            return cx
                .may_try(
                    "cancel-start",
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
        // Cleared while it runs, so that systemd's own restart of a crashed etcd does not wait for anybody. But only where
        // it is what was assigned: what runs on other data would start on them again.
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

/// A start that the gate holds back on a node to which nothing is assigned, nor can be now: nobody else would end it,
/// and until it ends others take etcd here for one that is about to come up.
fn call_off(cx: &mut Context<'_>) -> Option<Action> {
    cx.obs.me.data.known()?;
    cx.genesis().filter(|genesis| genesis.epoch > Epoch(1))?;
    cx.because(
        "start-unassigned",
        "the gate holds back a start, and nothing is assigned to this node",
    );
    let generation = Generation::default();
    cx.may_try(
        "cancel-start",
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
    if written || !cx.may_try("apply", Duration::from_millis(500), Duration::from_secs(30)) {
        return None;
    }
    Some(Action::Apply {
        generation: assignment.generation,
    })
}

/// True when etcd must not be started because its settings are not in force.
fn conflicts(cx: &mut Context<'_>) -> bool {
    let Some(in_force) = cx.obs.in_force.known() else {
        cx.because("not-applied", "etcd's settings are not written yet");
        return true;
    };
    for conflict in in_force.conflicts.clone() {
        cx.halt("settings-overridden", conflict);
    }
    !in_force.conflicts.is_empty()
}

fn watch_start(cx: &mut Context<'_>, assignment: &Assignment, active: ActiveState) {
    if let Some((cluster_id, member_id)) = cx.obs.runs_as()
        && !assignment.is_of(cluster_id, member_id)
    {
        cx.halt(
            "foreign-member",
            format!(
                "etcd runs as member {member_id} of cluster {cluster_id}, expected member {} of cluster {}",
                assignment.member_id, assignment.cluster_id
            ),
        );
        return;
    }
    match &cx.obs.me.etcd {
        Fact::Known(etcd) if etcd.leader.is_none() => {
            cx.because("no-leader", "this member sees no raft leader");
            failure::say_quorum_lost(cx);
            cx.wake_in(Duration::from_millis(200));
        }
        Fact::Known(etcd) => {
            cx.memory.start_failures = 0;
            await_election(cx, etcd);
        }
        Fact::Absent => {
            words::say(cx);
            cx.wake_in(Duration::from_millis(50));
        }
        Fact::Unreachable(why) => {
            let recent = cx
                .memory
                .started_at
                .is_none_or(|at| cx.obs.steady.since(at) < Duration::from_mins(1));
            cx.wake_in(Duration::from_millis(if recent { 50 } else { 1000 }));
            if active == ActiveState::Activating {
                cx.because("starting", "etcd starts and waits for quorum");
                failure::say_quorum_lost(cx);
            } else {
                let text = format!("etcd runs and does not answer: {why}");
                cx.because("etcd-silent", text);
            }
            if cx.obs.no_room {
                cx.because(
                    "no-space",
                    "the disk of etcd's data directory is full: make room on it",
                );
            }
        }
    }
}

/// Raft's next leader is told to nobody: while the last one is down, etcd is asked again until it names another.
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

/// Clears the gate once the epoch is confirmed by a majority of the electorate or by the shared store.
fn clear_gate(cx: &mut Context<'_>, genesis: &Genesis, assignment: &Assignment) -> Option<Action> {
    // To have heard of a newer epoch is enough to hold a start back.
    if cx.obs.gate.cleared == Some(assignment.generation) || cx.obs.newest_epoch > genesis.epoch {
        return None;
    }
    let nodes = cx.known_nodes();
    let knows_none = |s: &NodeStatus| s.newest_epoch <= genesis.epoch;
    // An elector that may have accepted a later epoch does not know whether another node has learned that it was chosen. Once
    // all electors answer, none knows it.
    let all_know_none =
        nodes.len() == cx.spec.nodes.len() && nodes.iter().all(|(_, status)| knows_none(status));
    let may_know = |s: &NodeStatus| {
        !all_know_none && (!s.eligible || s.voted > genesis.epoch) && !mutant!(VotesForgotten)
    };
    let agrees = |s: &NodeStatus| knows_none(s) && !may_know(s);
    let agreeing = nodes.iter().filter(|(_, s)| agrees(s)).count();
    // A node that was put into `cluster.nodes` since had no vote on what the electors of this epoch may have accepted.
    let named = |node: &NodeName| cx.spec.nodes.contains_key(node) && !mutant!(AddedNodesVouch);
    let former = genesis.electors_among(named);
    let of_former = nodes
        .iter()
        .filter(|(n, s)| agrees(s) && former.contains(n))
        .count();
    let lacks_former = !former.is_empty() && of_former * 2 <= former.len();
    let voted: Vec<&NodeName> = nodes
        .iter()
        .filter(|(_, s)| knows_none(s) && may_know(s))
        .map(|(n, _)| *n)
        .collect();
    // The store was perhaps looked at before a newer epoch was recorded, of which peers tell.
    let by_store = cx.spec.store_shared
        && nodes.iter().all(|(_, status)| knows_none(status))
        && cx
            .obs
            .store
            .known()
            .is_some_and(|s| s.genesis.as_ref().is_some_and(|g| g.same_value(genesis)));
    if (agreeing < cx.spec.majority() || lacks_former) && !by_store {
        let before = if lacks_former {
            format!(
                "; of the {} electors of that epoch by {of_former}, which is no majority",
                former.len()
            )
        } else {
            String::new()
        };
        let voted = if voted.is_empty() {
            String::new()
        } else {
            format!(
                "; may have accepted a later epoch, which may be open: {}",
                names(voted)
            )
        };
        cx.because(
            "epoch-unconfirmed",
            format!(
                "epoch {} is confirmed by {agreeing} of {} electors, a majority or the shared store is needed; silent: {}{before}{voted}",
                genesis.epoch,
                cx.spec.nodes.len(),
                names(&cx.silent())
            ),
        );
        cx.wake_in(Duration::from_secs(1));
        return None;
    }
    Some(Action::ClearGate {
        generation: assignment.generation,
    })
}

/// The fence of a start.
pub(super) fn start_fence(assignment: &Assignment) -> StartFence {
    StartFence {
        generation: assignment.generation,
        epoch: assignment.epoch,
    }
}
