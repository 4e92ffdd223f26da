//! Downgrades by etcd's own API (3.6 and newer,
//! <https://etcd.io/docs/v3.6/downgrades/downgrade_3_6/>): while it is enabled, etcd converts its data to the
//! older format. Only then a member takes the older version (`wants_version` in `version.rs`).

use std::time::Duration;

use super::context::Context;
use super::orders::paused;
use super::safety::disturbances;
use crate::model::{Action, ActionKind, EtcdStatus, EtcdVersion, NodeName, NodeStatus, ReasonCode};

/// How often etcd is asked whether its data are converted. It does not announce it, and may take 4 s
/// (`monitorVersionInterval` in etcd's `server.go`).
const LOOK: Duration = Duration::from_millis(200);
/// A conversion that takes longer than this waits for something else: etcd converts nothing while it does not
/// know the version of each member.
const LONG: Duration = Duration::from_secs(10);
/// How often etcd is asked then.
const LOOK_LATER: Duration = Duration::from_secs(1);

/// The older version that is ordered and that the etcd here does not run yet, and the status of that etcd.
fn ordered<'a>(cx: &Context<'a>) -> Option<(EtcdVersion, &'a EtcdStatus)> {
    let selected = cx.selected.as_ref()?;
    let etcd = cx.obs.me.etcd.known()?;
    let running = EtcdVersion::reported(&etcd.version)?;
    let to = selected.version?;
    let down = selected.downgrade && !selected.cancelled && to.series() < running.series();
    down.then_some((to, etcd))
}

/// True if the etcd here is to be downgraded.
pub(super) fn is_ordered(cx: &Context<'_>) -> bool {
    ordered(cx).is_some()
}

/// A node whose etcd has not converted its data yet: it asks for its restart soon.
pub(super) fn still_converts<'a>(cx: &Context<'_>, statuses: &[&'a NodeStatus]) -> Option<&'a NodeName> {
    let (to, _) = ordered(cx)?;
    let status = statuses.iter().find(|status| {
        let etcd = status.etcd.known();
        etcd.is_some_and(|etcd| etcd.has_newer_data(to))
    })?;
    Some(&status.node)
}

/// Looks again soon while the etcd here has not converted its data: until then this node asks for no restart.
pub(super) fn await_conversion(cx: &mut Context<'_>) {
    let awaits = paused(cx).is_none() && ordered(cx).is_some_and(|(to, etcd)| etcd.has_newer_data(to));
    cx.memory.converts_since = cx
        .memory
        .converts_since
        .or(Some(cx.obs.steady))
        .filter(|_| awaits);
    if let Some(since) = cx.memory.converts_since {
        let long = cx.obs.steady.since(since) >= LONG;
        cx.wake_in(if long { LOOK_LATER } else { LOOK });
    }
}

/// Asks etcd to prepare an ordered downgrade, or to end a cancelled one.
pub(super) fn prepare(cx: &mut Context<'_>) -> Option<Action> {
    let list = cx.coordinated_list()?;
    let term = list.term;
    let selected = cx.selected.as_ref()?;
    let etcd = cx.obs.me.etcd.known()?;
    let running = EtcdVersion::reported(&etcd.version)?;
    let to = ordered(cx).map(|(to, _)| to);
    let (to, text) = match (to, etcd.downgrade_to) {
        (Some(to), None)
            if running.downgrade_objection(to).is_none() && disturbances(cx, list).is_empty() =>
        {
            (
                Some(to),
                format!("etcd {running} is to convert its data for the downgrade to {to}"),
            )
        }
        (None, Some(now)) if selected.downgrade && selected.cancelled => (
            None,
            format!(
                "etcd still prepares the downgrade to {}.{}, which was cancelled",
                now.major, now.minor
            ),
        ),
        _ => return None,
    };
    let failed = cx.memory.errors.get(&ActionKind::Downgrade);
    let text = failed.map_or(text.clone(), |error| format!("{text}: {error}"));
    cx.because(ReasonCode::Downgrade, text);
    cx.may_try(
        ActionKind::Downgrade,
        Duration::from_millis(500),
        Duration::from_secs(30),
    )
    .then_some(Action::Downgrade { to, term })
}
