//! Takes an operator's order for the whole cluster, or reports what would follow from it.

use std::collections::BTreeSet;

use crate::model::{
    DefragWish, DirectiveChange, DirectiveOrder, DirectiveView, Directives, Fact, LeaderAsk, NodeName,
    NodeOrder, NodeStatus, Observation, OperatorRequest, RestartWish, Steering,
};
use crate::plan;
use crate::ports::{PortError, PortResult};

use crate::agent::Agent;
use crate::agent::api::refused::refused;
use crate::agent::api::{fresh, v2_keys};

/// Takes the order; the register is on disk before this returns.
///
/// # Errors
/// Retryable before the first tick; permanent when the order is refused or the register cannot be written.
pub(crate) async fn direct(agent: &Agent, order: &DirectiveOrder) -> PortResult<DirectiveView> {
    let selects_etcd = matches!(
        order.change,
        DirectiveChange::Upgrade { .. }
            | DirectiveChange::Downgrade { .. }
            | DirectiveChange::FollowPackage
            | DirectiveChange::CancelUpgrade
    );
    let mut seen = if selects_etcd {
        // It depends on what is on all nodes' disks, and on whether all members are healthy.
        fresh::observation(agent).await?
    } else {
        fresh::last(agent)?
    };
    let now = agent.ports.clock.now();
    let change = with_lock(&seen, with_pending(&seen, &order.change));
    let known = plan::known_orders(&seen);
    let genesis = seen.me.genesis.clone();
    let after = |mine: &Directives| {
        let base = if known.is_newer_than(mine) { &known } else { mine };
        let base = base.in_epoch(genesis.as_ref());
        base.after(&change, &agent.spec.node, now)
    };
    if let Some(why) =
        plan::objection(&seen, &change, order.force).or_else(|| plan::upgrade_objection(&seen, &change))
    {
        return Err(refused(why));
    }
    if let Some(to) = plan::downgrade_to_validate(&seen, &change) {
        permitted(agent.ports.etcd.validate_downgrade(to).await)?;
    }
    let upgraded_to = match &change {
        DirectiveChange::Upgrade { to, .. } => Some(*to),
        DirectiveChange::FollowPackage => plan::newest_package(&seen),
        _ => None,
    };
    if let Some(to) = upgraded_to {
        v2_keys::allow_upgrade(agent, &seen, to, order.dry_run).await?;
    }
    let steps = plan::steps(&change);
    if order.dry_run {
        let mine = agent.shared.directives();
        let directives = after(&mine).unwrap_or(mine);
        imagine(&mut seen, &directives);
        return Ok(DirectiveView {
            directives,
            changed: false,
            steps,
            decision: Some(plan::preview(&seen)),
        });
    }
    let judged = &seen.me.steering.directives.etcd;
    let mut overtaken = false;
    let (directives, changed) = agent.shared.direct(agent.ports.state.as_ref(), |mine| {
        overtaken = selects_etcd && mine.etcd != *judged;
        after(mine).filter(|_| !overtaken)
    })?;
    if overtaken {
        return Err(refused(
            "another order for the version of etcd was given at the same moment: see `etcd-agent status`",
        ));
    }
    if changed {
        tracing::warn!("an operator ordered: {}", steps.join("; "));
    }
    Ok(DirectiveView {
        directives,
        changed,
        steps,
        decision: None,
    })
}

/// Refuses a downgrade to which etcd itself objects in this answer.
fn permitted(answer: PortResult<()>) -> PortResult<()> {
    answer.map_err(|error| match error {
        PortError::Permanent(why) => refused(format_args!("etcd does not permit it: {why}")),
        error @ (PortError::Retryable(_) | PortError::OutcomeUnknown(_)) => error,
    })
}

/// Reports what would follow from a request.
///
/// # Errors
/// Retryable before the first tick.
pub(crate) fn preview(agent: &Agent, request: &OperatorRequest) -> PortResult<DirectiveView> {
    let mut seen = fresh::last(agent)?;
    let mut request = request.clone();
    agent.fill_in(&mut request);
    let decision = if let OperatorRequest::MoveLeader { to, from, id, .. } = &request {
        seen.me.steering.leader_ask = Some(LeaderAsk {
            id: *id,
            to: to.clone(),
            from: *from,
        });
        plan::preview(&seen)
    } else {
        seen.requests.push(request.clone());
        plan::plan(&seen, &crate::model::Memory::default())
    };
    Ok(DirectiveView {
        directives: agent.shared.directives(),
        changed: false,
        steps: plan::request_steps(&request),
        decision: Some(decision),
    })
}

/// Adds the nodes on which an older order to restart or to defragment was not carried out yet, because a newer
/// order replaces the older one.
fn with_pending(seen: &Observation, change: &DirectiveChange) -> DirectiveChange {
    let ordered = &seen.me.steering.directives;
    let (nodes, old, wish): (_, _, fn(&Steering) -> Option<u64>) = match change {
        DirectiveChange::Restart { nodes } => (nodes, &ordered.restart, |steering| {
            steering.wants_restart.as_ref()?.order
        }),
        DirectiveChange::Defrag { nodes } => (nodes, &ordered.defrag, |steering| {
            steering.defrag.wish.as_ref()?.order
        }),
        _ => return change.clone(),
    };
    let Some(old) = old else { return change.clone() };
    let waits = |node: &&NodeName| {
        let status = if **node == seen.me.node {
            Some(&seen.me)
        } else {
            seen.peers.get(*node).and_then(Fact::known)
        };
        status.is_some_and(|status| wish(&status.steering) == Some(old.id))
    };
    let nodes: BTreeSet<NodeName> = old.nodes.iter().filter(waits).chain(nodes).cloned().collect();
    match change {
        DirectiveChange::Defrag { .. } => DirectiveChange::Defrag { nodes },
        _ => DirectiveChange::Restart { nodes },
    }
}

/// Adds the version of the lock that is to be released, and the next one: the node may be about to confirm it.
fn with_lock(seen: &Observation, change: DirectiveChange) -> DirectiveChange {
    let DirectiveChange::ReleaseRebootLock { node, .. } = change else {
        return change;
    };
    let (version, hold) = plan::lock_of(seen, &node);
    DirectiveChange::ReleaseRebootLock {
        version: if hold.is_some() {
            version.saturating_add(1)
        } else {
            0
        },
        node,
    }
}

/// Changes the observation to what it would be once all nodes have taken over this register.
fn imagine(seen: &mut Observation, directives: &Directives) {
    let mine = seen.me.steering.directives.clone();
    let new = |order: &Option<NodeOrder>, mine: &Option<NodeOrder>, node: &NodeName| {
        let order = order.as_ref().filter(|_| order != mine)?;
        order.nodes.contains(node).then_some(order.id)
    };
    let why = || "an operator ordered it".to_owned();
    let take = |status: &mut NodeStatus| {
        status.steering.directives = directives.clone();
        if status.etcd.known().is_none() {
            return;
        }
        if let Some(id) = new(&directives.restart, &mine.restart, &status.node) {
            status.steering.wants_restart = Some(RestartWish {
                order: Some(id),
                ..RestartWish::new(why())
            });
        }
        if let Some(id) = new(&directives.defrag, &mine.defrag, &status.node) {
            status.steering.defrag.wish = Some(DefragWish {
                why: why(),
                order: Some(id),
                failed: None,
                no_space: false,
                rests: false,
            });
        }
    };
    take(&mut seen.me);
    for peer in seen.peers.values_mut() {
        if let Fact::Known(status) = peer {
            take(status);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn etcds_own_objection_refuses_a_downgrade_and_an_etcd_that_was_not_asked_does_not() {
        assert_eq!(permitted(Ok(())), Ok(()));
        let said = "check the downgrade to 3.5: etcdserver: cluster has a downgrade job in progress";
        assert_eq!(
            permitted(Err(PortError::Permanent(said.to_owned()))),
            Err(PortError::Permanent(format!(
                "refused: etcd does not permit it: {said}"
            )))
        );
        for unknown in [PortError::Retryable, PortError::OutcomeUnknown] {
            let error = unknown("no answer within 1 s".to_owned());
            assert_eq!(permitted(Err(error.clone())), Err(error));
        }
    }
}
