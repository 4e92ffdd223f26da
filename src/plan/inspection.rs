//! When the agent asks the owner of the data directory what is in it.

use std::time::Duration;

use super::context::Context;
use super::{downgrade, orders, version};
use crate::model::{
    Action, ActionKind, ActiveState, DataState, EtcdVersion, Fact, ReasonCode, RestartWish, SteadyMs,
    TlsView, UnitState,
};

/// Data that waits for a person is inspected again after this time.
const LOOK_AGAIN: Duration = Duration::from_secs(15);

/// An etcd that has not answered for this long is identified by its data. Without quorum etcd answers no
/// client.
const SILENT: Duration = Duration::from_secs(5);

/// The settings of an etcd that this agent has started are compared this long after that: in a rolling restart
/// the other members come first.
const SETTLED: Duration = Duration::from_secs(10);

/// A log with entries that a newer etcd does not read is read again after this time.
const LOG_AGAIN: Duration = Duration::from_mins(1);

/// A disk without keys of the v2 API is read again after this time while a step depends on it: a client may write some
/// while etcd serves that API.
const KEYS_AGAIN: Duration = Duration::from_secs(30);

/// A directory that cannot be archived is inspected again after this time.
const ARCHIVE_AGAIN: Duration = Duration::from_mins(5);

/// Certificate files that change all the time are read again after this time, and so is what a stop waits for.
const CHANGED_AGAIN: Duration = Duration::from_secs(1);

/// The reasons that hold until the content of the data directory changes. A person or a mount may change it.
const DATA_HOLDS: [ReasonCode; 6] = [
    ReasonCode::ForeignData,
    ReasonCode::RemovalUnconfirmed,
    ReasonCode::DataInTheWay,
    ReasonCode::DataWithoutEpoch,
    ReasonCode::DataGone,
    ReasonCode::AllDataLost,
];

/// The time from asking for a start until the unit shows it.
const START_QUEUED: Duration = Duration::from_millis(200);

/// The time from asking for a restart until etcd runs again, unless something holds it up. Its stop alone takes up to a
/// second.
const RESTART_TAKES: Duration = Duration::from_secs(2);

/// Inspects the data directory if its content is not known: nothing is decided without that knowledge.
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

/// Asks the owner of the data directory. Reports why the last attempt failed.
pub(super) fn inspect(cx: &mut Context<'_>) -> Option<Action> {
    if let Some(error) = cx.memory.errors.get(&ActionKind::InspectData) {
        let text = format!("what is in the data directory is not known: {error}");
        cx.because(ReasonCode::DataUnknown, text);
    }
    cx.may_try(
        ActionKind::InspectData,
        Duration::from_millis(500),
        Duration::from_secs(30),
    )
    .then(|| {
        cx.memory.looked_at = Some(cx.obs.steady);
        Action::InspectData
    })
}

/// Inspects the data again at intervals while it blocks this node, because the agent gets no notification
/// when a person has changed it. The same applies if data of another cluster keeps the coordinator from
/// adding this node. This is done only while etcd is down: a running etcd owns its data.
pub(super) fn look_again(cx: &mut Context<'_>) -> Option<Action> {
    let down =
        cx.obs.me.unit.known().is_some_and(|unit| {
            !unit.held && !unit.active.is_up() && unit.active != ActiveState::Deactivating
        });
    let says = |codes: &[ReasonCode]| cx.reasons().iter().any(|reason| codes.contains(&reason.code));
    let foreign = cx.genesis().is_some_and(|genesis| {
        let of_another = |cluster| cluster != genesis.cluster_id && !genesis.replaces(cluster);
        matches!(cx.obs.me.data, Fact::Known(DataState::Present { cluster_id, .. }) if of_another(cluster_id))
    });
    let waits = says(&DATA_HOLDS) || foreign && says(&[ReasonCode::Spare, ReasonCode::LostMembership]);
    if !down || mutant!(LooksOnce) || !waits {
        return None;
    }
    let looked_at = *cx.memory.looked_at.get_or_insert(cx.obs.steady);
    if is_early(cx, Some(looked_at), LOOK_AGAIN) {
        return None;
    }
    inspect(cx)
}

/// Makes the owner of the data directory record which device it is on, if no agent has inspected it because
/// the agent was installed while etcd ran.
pub(super) fn note_mount(cx: &mut Context<'_>) -> Option<Action> {
    if !cx.obs.mount_unknown || mutant!(MountForgotten) {
        return None;
    }
    inspect(cx)
}

/// Finds out which version the binary of `etcd.service` has, if the last inspection was of another file.
pub(super) fn ask_base(cx: &mut Context<'_>) -> Option<Action> {
    // Any inspection notes the mount.
    if !cx.obs.base.unknown || mutant!(MountForgotten) {
        return None;
    }
    let again = if stops(cx) { CHANGED_AGAIN } else { LOOK_AGAIN };
    if is_early(cx, cx.memory.looked_at, again) {
        return None;
    }
    inspect(cx)
}

/// True if a stop of etcd here waits for what is read.
fn stops(cx: &Context<'_>) -> bool {
    let steering = &cx.obs.me.steering;
    steering.waits_to_stop || steering.wants_reboot_lock
}

/// Has the settings of the running etcd compared with those that are written, once for each process. An etcd that
/// is to be restarted for new settings differs until then.
pub(super) fn compare_settings(cx: &mut Context<'_>) -> Option<Action> {
    let by_order = |wish: &RestartWish| wish.order.is_some();
    let stays = cx.obs.me.steering.wants_restart.as_ref().is_none_or(by_order);
    if !cx.obs.drift.unread || !stays {
        return None;
    }
    if is_early(cx, cx.memory.looked_at, LOOK_AGAIN) || is_early(cx, cx.memory.started_at, SETTLED) {
        return None;
    }
    inspect(cx)
}

/// Has the certificate files read with which etcd may be started: when they have changed, at intervals while
/// something is wrong with them, and before a restart or another stop. Nobody notices when a person makes a
/// file readable for etcd.
pub(super) fn read_tls_files(cx: &mut Context<'_>) -> Option<Action> {
    let tls = &cx.obs.tls;
    let pause = match tls.found.known() {
        None if tls.unread => CHANGED_AGAIN,
        None => return None,
        Some(found) if found.iter().any(|one| one.trouble.is_some()) => LOOK_AGAIN,
        Some(_) => {
            if cx.obs.me.steering.wants_restart.is_none() && !stops(cx) {
                return None;
            }
            TlsView::LASTS
        }
    };
    let since = if tls.unread {
        cx.memory.looked_at
    } else {
        Some(tls.at)
    };
    if is_early(cx, since, pause) {
        return None;
    }
    inspect(cx)
}

/// True until this time has passed since then.
fn is_early(cx: &mut Context<'_>, since: Option<SteadyMs>, pause: Duration) -> bool {
    let Some(since) = since else { return false };
    let left = pause.saturating_sub(cx.obs.steady.since(since));
    if !left.is_zero() {
        cx.wake_in(left);
    }
    !left.is_zero()
}

/// Finds out whether a newer etcd on this host could start on the log, while an older one serves. An etcd
/// that is to be downgraded is not upgraded next, so its log is not read meanwhile.
pub(super) fn read_log(cx: &mut Context<'_>) -> Option<Action> {
    if downgrade::is_ordered(cx) {
        return None;
    }
    let etcd = cx.obs.me.etcd.known().filter(|etcd| etcd.log_decides())?;
    let running = EtcdVersion::reported(&etcd.version)?;
    let binaries = cx.obs.me.etcd_binaries.as_ref()?;
    let mut versions = binaries.versions.iter().chain(&binaries.base);
    versions.find(|version| version.series() > running.series())?;
    let again = match cx.obs.me.v2_entries {
        Some(false) => return None,
        Some(true) => LOG_AGAIN,
        None if stops(cx) => CHANGED_AGAIN,
        None => LOOK_AGAIN,
    };
    // An etcd that was restarted with other settings may write a snapshot at once.
    let restarted = cx.memory.started_at.filter(|at| Some(*at) > cx.memory.looked_at);
    let (from, again) = match restarted {
        Some(at) => (Some(at), LOOK_AGAIN),
        None => (cx.memory.looked_at, again),
    };
    if is_early(cx, from, again) {
        return None;
    }
    inspect(cx)
}

/// Finds out whether a newer etcd without the v2 API could start on this disk, while this node is to step to it or its
/// next start takes it. During a pause a start comes only after a stop that somebody asks for.
pub(super) fn read_v2_keys(cx: &mut Context<'_>) -> Option<Action> {
    let asked = stops(cx) || cx.obs.me.steering.wants_restart.is_some();
    let rests = orders::paused(cx).is_some() && !asked;
    if rests || !version::needs_disk(cx) {
        return None;
    }
    let v2 = &cx.obs.v2;
    let (since, pause) = match &v2.found {
        // An answer on a former etcd does not count.
        Fact::Absent => (cx.memory.looked_at, CHANGED_AGAIN),
        Fact::Unreachable(_) => (Some(v2.at), LOOK_AGAIN),
        Fact::Known(names) if names.trouble().is_some() || names.has_too_many_learners() => {
            (Some(v2.at), LOG_AGAIN)
        }
        Fact::Known(_) => (Some(v2.at), KEYS_AGAIN),
    };
    if is_early(cx, since, pause) {
        return None;
    }
    inspect(cx)
}

/// Finds out whether a directory that could not be archived can be now.
pub(super) fn look_at_archive(cx: &mut Context<'_>) -> Option<Action> {
    cx.obs.me.archive_trouble.as_ref()?;
    if is_early(cx, cx.memory.looked_at, ARCHIVE_AGAIN) {
        return None;
    }
    inspect(cx)
}

/// Remembers since when etcd has been running without answering.
fn note_silence(cx: &mut Context<'_>) {
    let runs = |unit: &UnitState| unit.active.is_up() && !unit.waits_to_start();
    let silent = cx.obs.me.unit.known().is_some_and(runs) && cx.obs.me.etcd.is_unreachable();
    cx.memory.silent_since = cx.memory.silent_since.or(Some(cx.obs.steady)).filter(|_| silent);
}

/// Finds out whose data a silent etcd has open. In an empty directory etcd takes its ID from its peers, which
/// may still run an older epoch. An agent with a new memory does not know which etcd runs on its node.
pub(super) fn identify(cx: &mut Context<'_>) -> Option<Action> {
    let unknown = cx.obs.runs_on.is_none() && !mutant!(SilentUnknown);
    let since = cx.memory.silent_since.filter(|_| unknown)?;
    let seen = cx.memory.looked_at.filter(|at| *at > since);
    let (from, pause) = seen.map_or((since, SILENT), |at| (at, LOOK_AGAIN));
    if is_early(cx, Some(from), pause) {
        return None;
    }
    inspect(cx)
}

/// Remembers that the unit has shown the requested start. A restart is not recorded: the unit is up before
/// it, too.
fn note_start(cx: &mut Context<'_>) {
    let restart = cx.memory.restarted_at == cx.memory.started_at;
    // While the gate holds the start back, the start is not over and etcd does not run yet.
    let shows = |unit: &UnitState| unit.active.is_up() && !unit.waits_to_start();
    if !restart && cx.obs.me.unit.known().is_some_and(shows) {
        cx.memory.start_shown = true;
    }
}

/// True while a start was just queued: a unit that is still down then has not stopped. Once the unit has
/// shown the start, a unit that is down has ended since. In a restart, an inspection would only delay what this node
/// reports: its gate looks at the data.
pub(super) fn start_queued(cx: &mut Context<'_>) -> bool {
    let Some(at) = cx.memory.started_at.filter(|_| !cx.memory.start_shown) else {
        return false;
    };
    let between = |unit: &UnitState| unit.active == ActiveState::Inactive && !unit.held || unit.is_at_gate();
    let restarts = cx.memory.restarted_at == Some(at)
        && !cx.memory.failures.contains_key(&ActionKind::RestartEtcd)
        && cx.obs.me.unit.known().is_some_and(between);
    let takes = if restarts { RESTART_TAKES } else { START_QUEUED };
    is_early(cx, Some(at), takes)
}
