//! What operators have ordered for the whole cluster.

use super::context::Context;
use super::grant;
use crate::model::{Action, Paused};

/// Takes over a newer register of orders from a peer of the same cluster.
pub(super) fn take(cx: &mut Context<'_>) -> Option<Action> {
    let mine = &cx.obs.me.steering.directives;
    let newest = cx
        .known_peers()
        .filter(|(node, status)| status.cluster == cx.spec.cluster && cx.spec.nodes.contains_key(*node))
        .map(|(_, status)| &status.steering.directives)
        .filter(|theirs| theirs.is_newer_than(mine) && theirs.defect().is_none())
        .reduce(|one, other| if other.is_newer_than(one) { other } else { one })?;
    Some(Action::TakeDirectives {
        directives: Box::new(newest.clone()),
    })
}

/// The order to do nothing by itself, when there is one.
pub(super) fn paused<'a>(cx: &Context<'a>) -> Option<&'a Paused> {
    cx.obs.me.steering.directives.paused.as_ref()
}

/// Asks a concern that acts by itself, unless that is not wanted: there is a pause, or a granted restart is not over.
pub(super) fn unless_paused(
    cx: &mut Context<'_>,
    concern: impl FnOnce(&mut Context<'_>) -> Option<Action>,
) -> Option<Action> {
    if paused(cx).is_some() || grant::under_way(cx) {
        return None;
    }
    concern(cx)
}

/// Says that nothing is done by itself, and why.
pub(super) fn say_paused(cx: &mut Context<'_>) {
    if let Some(paused) = paused(cx) {
        let text = format!(
            "an operator at {} ordered a pause: nothing is done by itself until `etcd-agent resume`",
            paused.by
        );
        cx.because("paused", text);
    }
}
