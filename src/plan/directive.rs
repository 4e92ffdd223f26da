//! Operators' orders for the whole cluster.

use std::collections::BTreeSet;

use super::context::Context;
use super::orders::paused;
use crate::model::{Action, Directives, Memory, NodeName, Observation, ReasonCode};

/// Takes over a newer register of orders from a peer of the same cluster. One faulty node must not lock
/// operators out (rule 10), so a register that only one peer has is bounded. If the registers of a majority
/// order this node out, they replace its own register, even if its own is newer, unless a peer has the same
/// one.
pub(super) fn take(cx: &mut Context<'_>) -> Option<Action> {
    Some(Action::TakeDirectives {
        directives: Box::new(newer(cx)?.clone()),
    })
}

/// The register that this node takes over from its peers.
fn newer<'a>(cx: &mut Context<'a>) -> Option<&'a Directives> {
    let reported: Vec<(&NodeName, &Directives)> = cx
        .known_peers()
        .filter(|(node, status)| status.cluster == cx.spec.cluster && cx.spec.nodes.contains_key(*node))
        .map(|(node, status)| (node, &status.steering.directives))
        .collect();
    let mine = &cx.obs.me.steering.directives;
    let same = |theirs: &Directives| reported.iter().filter(|(_, other)| *other == theirs).count();
    let mut newest: Option<&Directives> = None;
    for (node, theirs) in reported.iter().filter(|(_, theirs)| theirs.is_newer_than(mine)) {
        if let Some(why) = objection(cx, node, theirs, same(theirs) > 1) {
            let text =
                format!("operators' orders as {node} reports them ({theirs}) are not taken over: {why}");
            cx.because(ReasonCode::OrdersRefused, text);
        } else if newest.is_none_or(|newest| theirs.is_newer_than(newest)) {
            newest = Some(*theirs);
        }
    }
    let outvoted = || {
        let mut all = reported.iter().map(|(_, theirs)| *theirs);
        all.find(|theirs| theirs.out.contains(&cx.spec.node) && same(theirs) >= cx.spec.majority())
            .filter(|_| same(mine) == 0 && !mutant!(StaysIn))
    };
    newest.or_else(outvoted)
}

/// The register to which an operator's next order is added: the newest that this node knows. An order added
/// to an older register would undo the newer one, or would look like an order that was already carried out.
pub fn known_orders(observation: &Observation) -> Directives {
    let memory = Memory::default();
    let mut cx = Context::new(observation, &memory);
    let mine = &observation.me.steering.directives;
    newer(&mut cx).unwrap_or(mine).clone()
}

/// Why this node takes no orders: it was ordered out, so the others would not follow its register.
pub fn ordered_out(observation: &Observation) -> Option<String> {
    let out = known_orders(observation).out.contains(&observation.spec.node);
    out.then(|| "this node was ordered out: give the order at another one".to_owned())
}

/// Why a peer's register is not accepted. `confirmed` is true if another peer has the same register.
fn objection(cx: &Context<'_>, peer: &NodeName, theirs: &Directives, confirmed: bool) -> Option<String> {
    let mine = &cx.obs.me.steering.directives;
    if mutant!(BelievesOrders) {
        return None;
    }
    if let Some(why) = theirs.defect() {
        return Some(why);
    }
    if mine.out.contains(peer) {
        return Some("that node was ordered out".to_owned());
    }
    if confirmed {
        return None;
    }
    let author = theirs.by.as_ref();
    if author.is_none_or(|author| !cx.spec.nodes.contains_key(author)) {
        return Some("it names no node of cluster.nodes at which it was ordered".to_owned());
    }
    if mine.is_far_below(theirs) {
        return Some(format!("it is too far ahead of version {}", mine.version));
    }
    let left = |out: &BTreeSet<NodeName>| {
        let nodes = cx.spec.nodes.keys();
        nodes.filter(|node| !out.contains(*node)).count()
    };
    let fewer = left(&theirs.out) < left(&mine.out);
    (fewer && left(&theirs.out) < cx.spec.majority()).then(|| {
        "it orders out so many that fewer than a majority of the nodes is left: such an order has to be given at two of \
         the nodes"
            .to_owned()
    })
}

/// Reports a pause.
pub(super) fn report_paused(cx: &mut Context<'_>) {
    if let Some(paused) = paused(cx) {
        let text = format!(
            "an operator at {} ordered a pause: nothing is done by itself until `etcd-agent resume`",
            paused.by
        );
        cx.because(ReasonCode::Paused, text);
    }
}
