//! Membership, decided by the coordinator: one change at a time, new members as learners, and never below
//! quorum (rules 3, 4 and 8).

use std::time::Duration;

use super::context::Context;
use super::failure::{self, Failing};
use super::removal::{may_lose, may_remove_voters, remove};
use super::safety::{Change, healthy_members, keeps_quorum, takes_another};
use super::{corruption, identity, learner, orders, resize, spares, transport, transport_list};
use crate::model::{Action, ActionKind, Genesis, Join, MemberList, ReasonCode, Removal};

/// The next membership change, if this agent is the coordinator.
pub(super) fn change(cx: &mut Context<'_>) -> Option<Action> {
    if !cx.is_coordinator() {
        return None;
    }
    let (genesis, list) = cx.fenced_list()?;
    if identity::doubtful(cx, genesis, list) {
        return None;
    }
    if let Some(action) = identity::address_changed(cx, genesis, list) {
        return Some(action);
    }
    if let Some(action) = transport_list::list_anew(cx, list, None) {
        return Some(action);
    }
    if let Some(gone) = failure::lost_member(cx, genesis, list)
        && let Some(action) = remove_lost(cx, list, &gone)
    {
        return Some(action);
    }
    if list.members.iter().any(|m| m.is_learner) && !mutant!(TwoLearners) {
        return learner::settle(cx, genesis, list);
    }
    if let Some(action) = remove_unstarted_voter(cx, list) {
        return Some(action);
    }
    if let Some(action) = corruption::replace(cx, list) {
        return Some(action);
    }
    if orders::staying(cx, list) > cx.spec.size {
        return resize::shrink(cx, list);
    }
    replace_failing(cx, genesis, list).or_else(|| add_missing(cx, genesis, list))
}

/// Removes a member at once if its own agent attests that its data is lost. Its node comes back as a learner.
fn remove_lost(cx: &mut Context<'_>, list: &MemberList, gone: &Failing<'_>) -> Option<Action> {
    if !may_remove_voters(cx, gone) || !may_lose(cx, list, gone) {
        return None;
    }
    cx.because(
        ReasonCode::ReplaceGone,
        format!(
            "{} attests that the data of member {} is gone",
            gone.node, gone.member.id
        ),
    );
    remove(cx, gone.member, gone.node, gone.why, None, list)
}

/// Removes a voter that was added by hand and never started. Otherwise it would count against quorum
/// permanently.
fn remove_unstarted_voter(cx: &mut Context<'_>, list: &MemberList) -> Option<Action> {
    let (member, node) = list
        .voters()
        .filter(|m| m.name.is_empty())
        .find_map(|m| Some((m, cx.spec.node_of(m)?)))?;
    let since = cx.memory.unstarted_since.get(&member.id).copied()?;
    let passed = cx.obs.steady.since(since);
    if passed < cx.spec.grace {
        cx.because(
            ReasonCode::VoterUnstarted,
            format!("voter {} waits for {node} to start it", member.id),
        );
        cx.wake_in(
            cx.spec
                .grace
                .saturating_sub(passed)
                .max(Duration::from_millis(10)),
        );
        return None;
    }
    let unstarted = Failing {
        member,
        node,
        why: Removal::Unstarted,
    };
    if !may_remove_voters(cx, &unstarted) || !may_lose(cx, list, &unstarted) {
        return None;
    }
    cx.because(
        ReasonCode::RemoveUnstartedVoter,
        format!("voter {} was added for {node} and never started", member.id),
    );
    remove(cx, member, node, Removal::Unstarted, None, list)
}

/// Removes a failing voter once a spare is ready to take its place. `prune` removes all dead voters, one at a
/// time, without waiting for a spare. The failing voter is removed before the spare joins: etcd would not
/// accept the spare earlier (ADR 12), and the cluster survives as many further failures without a dead voter
/// as with it.
fn replace_failing<'a>(cx: &mut Context<'a>, genesis: &Genesis, list: &'a MemberList) -> Option<Action> {
    let failing = failure::failing(cx, list)?;
    if !may_remove_voters(cx, &failing) || !may_lose(cx, list, &failing) {
        return None;
    }
    let (node, why) = (failing.node, failing.why);
    if cx.spec.join == Join::Prune && why == Removal::Dead {
        cx.because(ReasonCode::PruneDead, format!("{node} is removed: {why}"));
        return remove(cx, failing.member, node, why, None, list);
    }
    // If the cluster lacks members anyway, one is added first, provided that etcd accepts it.
    if list.members.len() < cx.spec.size && takes_another(cx, list) {
        return None;
    }
    let Some(spare) = spares::next(cx, genesis, list) else {
        cx.because(
            ReasonCode::NoSpare,
            format!("{node} stays a member ({why}): no spare is ready to take its place"),
        );
        return None;
    };
    cx.because(
        ReasonCode::ReplaceDead,
        format!("{node} is replaced by {spare}, which is ready to join: {why}"),
    );
    remove(cx, failing.member, node, why, None, list)
}

fn add_missing(cx: &mut Context<'_>, genesis: &Genesis, list: &MemberList) -> Option<Action> {
    let counts = if orders::leaves_nobody(cx, list) {
        "the only member was ordered out".to_owned()
    } else if list.members.len() < cx.spec.size {
        format!("{} of {} members", list.members.len(), cx.spec.size)
    } else {
        return None;
    };
    if cx.spec.join == Join::Prepare {
        cx.because(
            ReasonCode::WaitingForEntry,
            format!(
                "{counts}: cluster.join = \"prepare\" waits for an operator's `etcdctl member add --learner` with the \
                 peer URL of a node"
            ),
        );
        return None;
    }
    let Some(node) = spares::next(cx, genesis, list) else {
        cx.because(
            ReasonCode::BelowSize,
            format!("{counts}, and no node is ready to join"),
        );
        return None;
    };
    let healthy = healthy_members(cx, list);
    if !keeps_quorum(&list.voter_ids(), &healthy, Change::NoVote) {
        cx.because(
            ReasonCode::TooFewHealthy,
            format!(
                "{node} could join, but only {} members are seen healthy",
                healthy.len()
            ),
        );
        return None;
    }
    if !takes_another(cx, list) {
        cx.because(
            ReasonCode::TooFewHealthy,
            format!(
                "{node} could join, but etcd accepts no new member while so many of its {} voters are unreachable",
                list.voters().count()
            ),
        );
        return None;
    }
    let peer_urls = match transport::url_to_add(cx, list, node) {
        Ok(urls) => urls,
        Err(why) => {
            cx.because(ReasonCode::TransportDiffers, why);
            return None;
        }
    };
    if let resize::Before::Wait(action) = resize::before_growth(cx, list) {
        return action;
    }
    cx.because(
        ReasonCode::AddLearner,
        format!("{node} joins as a learner: {counts}"),
    );
    cx.may_try(
        ActionKind::AddLearner,
        Duration::from_millis(100),
        Duration::from_millis(400),
    )
    .then(|| Action::AddLearner {
        node: node.clone(),
        peer_urls,
        term: list.term,
    })
}
