//! Questions about operators' orders and about a restart under way. Every concern may ask them.

use super::context::Context;
use crate::model::{Action, MemberList, NodeName, Paused};

/// The order to pause, if there is one: no agent acts by itself.
pub(super) fn paused<'a>(cx: &Context<'a>) -> Option<&'a Paused> {
    cx.obs.me.steering.directives.paused.as_ref()
}

/// Asks a concern that acts without an order, unless there is a pause or a granted restart is not over.
pub(super) fn unless_paused(
    cx: &mut Context<'_>,
    concern: impl FnOnce(&mut Context<'_>) -> Option<Action>,
) -> Option<Action> {
    if paused(cx).is_some() || under_way(cx) {
        return None;
    }
    concern(cx)
}

/// True while a granted restart is not over. There is no other voluntary disruption meanwhile.
pub(super) fn under_way(cx: &Context<'_>) -> bool {
    cx.memory.grant.is_some()
}

/// True for a node that an operator has ordered out: it must not be a member.
pub(super) fn is_out(cx: &Context<'_>, node: &NodeName) -> bool {
    cx.obs.me.steering.directives.out.contains(node)
}

/// True if the only voter was ordered out: another node must have a vote before this one can be removed (rule
/// 3).
pub(super) fn leaves_nobody(cx: &Context<'_>, list: &MemberList) -> bool {
    let mut voters = list.voters();
    match (voters.next(), voters.next()) {
        (Some(only), None) => cx.spec.node_of(only).is_some_and(|node| is_out(cx, node)),
        _ => false,
    }
}

/// How many voters are not ordered out.
pub(super) fn staying(cx: &Context<'_>, list: &MemberList) -> usize {
    list.voters()
        .filter(|voter| !cx.spec.node_of(voter).is_some_and(|node| is_out(cx, node)))
        .count()
}
