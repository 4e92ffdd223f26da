//! What else disturbs the cluster now or next. While one thing does, no node may be stopped (rule 4).

use super::context::Context;
use super::orders::is_out;
use super::preview::{decide, settled};
use super::{grant, lock_holder};
use crate::model::{MemberList, NodeName, NodeStatus, Observation, Reason, ReasonCode};

/// Everything under way other than a restart of `node` itself, one reason each. `view` is the coordinator's.
pub(super) fn under_way(
    cx: &Context<'_>,
    view: &Observation,
    list: &MemberList,
    node: &NodeName,
) -> Vec<Reason> {
    let mut reasons = restarts(cx, list, node);
    let may_open = may_be_open(cx);
    let mut because = |code, text| reasons.push(Reason::new(code, text));
    for (other, status) in cx.known_nodes() {
        if status.steering.leader_ask.is_some() {
            let text = format!("an operator requested another raft leader on {other}");
            because(ReasonCode::LeaderAsked, text);
        }
        if status.steering.restoring {
            because(
                ReasonCode::Restoring,
                format!("an operator ordered a restore on {other}"),
            );
        }
        if status.voted > cx.open_epoch() && may_open {
            let text = format!("the elector on {other} may have voted for epoch {}", status.voted);
            because(ReasonCode::EpochOpening, text);
        }
    }
    if cx.obs.newest_epoch > cx.open_epoch() {
        let text = format!("epoch {} is reported, which is newer", cx.obs.newest_epoch);
        because(ReasonCode::EpochOpening, text);
    }
    for out in list.members.iter().filter_map(|member| cx.spec.node_of(member)) {
        if is_out(cx, out) {
            because(
                ReasonCode::OrderedOut,
                format!("{out} was ordered out and is still a member"),
            );
        }
    }
    reasons.extend(next(view));
    reasons
}

/// True if an epoch that this node does not know may be open, or is being opened. A vote alone is no sign of
/// that: it stays after a round that did not end, and a new memory keeps one that its former memory may have
/// cast. If all nodes answer, and the store that records epochs, and none knows a newer one, nobody has
/// learned it. Only another order opens it then.
fn may_be_open(cx: &Context<'_>) -> bool {
    let open = cx.open_epoch();
    let known = cx.known_nodes();
    let knows = |status: &NodeStatus| status.newest_epoch > open || status.steering.restoring;
    let stored = cx.stored_genesis().map(|genesis| genesis.epoch);
    let store_knows = cx.obs.store.known().is_none() || stored.is_some_and(|epoch| epoch > open);
    !cx.silent().is_empty()
        || known.iter().any(|(_, status)| knows(status))
        || cx.spec.store_shared && store_knows
}

/// Restarts and reboots of other nodes that are granted, or that the coordinator may grant at any moment.
fn restarts(cx: &Context<'_>, list: &MemberList, node: &NodeName) -> Vec<Reason> {
    let granted = cx.known_nodes().into_iter().filter_map(|(_, status)| {
        let grant = status.steering.grant.as_ref()?;
        let (code, text) = grant::in_progress(grant);
        (grant.node != *node).then(|| Reason::new(code, text))
    });
    let wanted = grant::wanting(cx, list)
        .into_iter()
        .filter(|other| *other != node);
    let wanted = wanted.map(|other| {
        let text = format!("etcd on {other} is to be restarted");
        Reason::new(ReasonCode::RestartWanted, text)
    });
    let defragmented = grant::wanting_defrag(cx, list)
        .into_iter()
        .filter(|other| *other != node);
    let defragmented = defragmented.map(|other| {
        let text = format!("etcd on {other} is to be defragmented");
        Reason::new(ReasonCode::DefragWaits, text)
    });
    let held = lock_holder::holder(cx, Some(node)).map(|(holder, hold)| {
        let text = format!("{holder} holds the reboot lock for {}", hold.owner);
        Reason::new(ReasonCode::RebootLockHeld, text)
    });
    granted.chain(wanted).chain(defragmented).chain(held).collect()
}

/// What the coordinator does next, and what makes it halt.
fn next(view: &Observation) -> Vec<Reason> {
    let mut decision = decide(Context::new(view, &settled(view)));
    let acts = decision.action.is_some();
    if acts && decision.reasons.is_empty() {
        // The record of a new size, which comes before the backup, is the only action without a reason.
        let text = "the size of the cluster changes next";
        decision
            .reasons
            .push(Reason::new(ReasonCode::BackupBeforeChange, text));
    }
    // The last reason is the one of the action.
    let last = decision.reasons.len().saturating_sub(1);
    let counts = |(index, reason): &(usize, Reason)| {
        let prepares = reason.code == ReasonCode::BackupBeforeChange;
        reason.halt || prepares || acts && *index == last
    };
    let reasons = decision.reasons.into_iter().enumerate();
    reasons.filter(counts).map(|(_, reason)| reason).collect()
}
