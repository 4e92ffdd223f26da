//! What would follow from a fault that has not happened: the observation after it, what the coordinator would
//! decide, and which further fault would cost quorum.

use std::collections::BTreeMap;

use super::context::Context;
use super::coordinator_view::as_coordinator;
use super::failure;
use super::preview::{decide, settled};
use super::safety::is_healthy;
use super::stop;
use super::voters_left::{healthy_without, is_quorum, voters_left};
use crate::model::{
    ActiveState, Decision, Fact, Fault, Hypothesis, HypothesisView, MemberList, Memory, NodeName, NodeStatus,
    Observation,
};

/// The nodes and what is known of each.
type Nodes = BTreeMap<NodeName, Fact<NodeStatus>>;

/// Assumes a fault and decides on what would be seen then.
pub fn after(observation: &Observation, hypothesis: &Hypothesis) -> HypothesisView {
    let view = as_coordinator(observation);
    let list = view.me.members.known().cloned();
    let mut nodes: Nodes = view.peers.clone();
    nodes.insert(view.me.node.clone(), Fact::Known(view.me.clone()));
    let before = nodes.get(&hypothesis.node).and_then(Fact::known);
    let stays_down = before
        .filter(|_| hypothesis.fault != Fault::Lose)
        .and_then(stop::stays_down);
    suffer(&mut nodes, hypothesis);
    // Counted before the others elect a leader: without a quorum, none of them serves.
    let alive = seen_by(&view, nodes.clone(), None);
    let left = list
        .as_ref()
        .map(|list| voters_left(&Context::new(&alive, &Memory::default()), list, None));
    let coordinator = list.as_ref().and_then(|list| elect(&mut nodes, &view, list));
    let mut seen = seen_by(&view, nodes, coordinator.as_ref());
    let mut decision = decide_after(&mut seen, hypothesis.fault);
    decision.reasons.extend(stays_down);
    HypothesisView {
        after: hypothesis.clone(),
        observation: seen,
        coordinator,
        decision,
        left,
    }
}

/// Changes what the nodes report to what they would report after the fault.
fn suffer(nodes: &mut Nodes, hypothesis: &Hypothesis) {
    let Hypothesis { fault, node } = hypothesis;
    if *fault == Fault::Stop {
        if let Some(Fact::Known(status)) = nodes.get_mut(node) {
            if let Fact::Known(unit) = &mut status.unit {
                unit.active = ActiveState::Inactive;
                "dead".clone_into(&mut unit.sub);
                unit.main_pid = 0;
                unit.held = true;
            }
            status.etcd = Fact::Absent;
            status.members = Fact::Unreachable(format!("assumed: {hypothesis}"));
        }
        return;
    }
    nodes.insert(node.clone(), Fact::Unreachable(format!("assumed: {hypothesis}")));
    for status in nodes.values_mut() {
        if let Fact::Known(status) = status {
            status.silent_agents.insert(node.clone());
            status.silent_etcds.insert(node.clone());
        }
    }
}

/// Lets the voters that are left elect a raft leader, as etcd would: the present one, or else the one with
/// the longest log. Returns its node; `None` if they are no quorum.
fn elect(nodes: &mut Nodes, view: &Observation, list: &MemberList) -> Option<NodeName> {
    let seen = seen_by(view, nodes.clone(), None);
    let cx = Context::new(&seen, &Memory::default());
    let quorum = is_quorum(list, &healthy_without(&cx, list, None));
    let before = view.me.etcd.known().and_then(|etcd| etcd.leader);
    let healthy = list.voters().filter_map(|voter| {
        let node = cx.spec.node_of(voter)?;
        let status = nodes.get(node)?.known()?;
        let etcd = status.etcd.known()?;
        is_healthy(voter, list.cluster_id, status).then(|| (voter.id, node.clone(), etcd.index))
    });
    let best = healthy
        .filter(|_| quorum)
        .max_by_key(|(id, node, index)| (Some(*id) == before, *index, std::cmp::Reverse(node.clone())));
    let leader = best.as_ref().map(|(id, ..)| *id);
    let elected = best.map(|(_, node, _)| node);
    for (node, status) in nodes.iter_mut() {
        let Fact::Known(status) = status else { continue };
        if let Fact::Known(etcd) = &mut status.etcd {
            etcd.leader = leader;
        }
        if elected.as_ref() == Some(node) {
            status.members = Fact::Known(MemberList {
                linearizable: true,
                ..list.clone()
            });
        } else if let Fact::Known(list) = &mut status.members {
            list.linearizable = false;
        }
    }
    elected
}

/// The observation of `coordinator`; without one, that of the node that the view is of.
fn seen_by(view: &Observation, mut nodes: Nodes, coordinator: Option<&NodeName>) -> Observation {
    let mut seen = view.clone();
    let me = coordinator.unwrap_or(&view.spec.node).clone();
    if let Some(Fact::Known(status)) = nodes.remove(&me) {
        seen.me = status;
    } else {
        // Nobody is left who sees anything: this node is down.
        seen.me.etcd = Fact::Absent;
        seen.me.unit = Fact::Unreachable("assumed to be down".to_owned());
        seen.me.members = Fact::Unreachable("assumed to be down".to_owned());
    }
    if me != view.spec.node {
        seen.assignment = None;
    }
    seen.spec.node = me;
    seen.peers = nodes;
    seen
}

/// Decides as the coordinator, right after the fault or, for a node that is lost, after `cluster.grace`.
fn decide_after(seen: &mut Observation, fault: Fault) -> Decision {
    let memory = noted(seen, &settled(seen));
    if fault == Fault::Lose {
        let grace = u64::try_from(seen.spec.grace.as_millis()).unwrap_or(u64::MAX);
        seen.steady.0 = seen.steady.0.saturating_add(grace);
    }
    decide(Context::new(seen, &memory))
}

/// The memory after it was noted which members are out of reach.
fn noted(seen: &Observation, memory: &Memory) -> Memory {
    let mut cx = Context::new(seen, memory);
    failure::note(&mut cx);
    cx.memory
}
