//! Downgrades by etcd's own API (3.6 and newer,
//! <https://etcd.io/docs/v3.6/downgrades/downgrade_3_6/>): while it is enabled, etcd converts its data to the
//! older format. Only then a member takes the older version (`wants_version` in `version.rs`).

use std::time::Duration;

use super::context::Context;
use super::safety::disturbances;
use crate::model::{Action, ActionKind, EtcdVersion, ReasonCode};

/// Asks etcd to prepare an ordered downgrade, or to end a cancelled one.
pub(super) fn prepare(cx: &mut Context<'_>) -> Option<Action> {
    let list = cx.coordinated_list()?;
    let term = list.term;
    let selected = cx.selected.as_ref()?;
    let etcd = cx.obs.me.etcd.known()?;
    let running = EtcdVersion::reported(&etcd.version)?;
    let ordered = selected
        .version
        .filter(|to| selected.downgrade && !selected.cancelled && to.series() < running.series());
    let (to, text) = match (ordered, etcd.downgrade_to) {
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
