//! Whether `etcd.service` may be stopped now, when something other than the agent stops it: a package that is
//! upgraded, needrestart, a person. The stop asks for leave as a restart does, so that members that are
//! restarted everywhere at the same moment go down one at a time (rule 4). The gate bounds the wait.

use super::context::Context;
use super::next_start;
use super::restart::leave;
use crate::model::{
    ActiveState, Fact, Grant, GrantPurpose, Leave, MemberId, MemberList, Memory, NodeName, NodeStatus,
    Observation,
};

/// True if another voter is down and does not come back by itself, as far as can be seen at one moment. A
/// restart by systemd shows the same for a moment.
pub fn another_is_down(observation: &Observation) -> bool {
    let cx = Context::new(observation, &Memory::default());
    let (Some(etcd), Some(list)) = (cx.obs.me.etcd.known(), cx.obs.me.members.known()) else {
        return false;
    };
    let others = other_voters(&cx, list, etcd.member_id);
    others.iter().any(|(_, status)| status.is_some_and(is_down))
}

/// The nodes of the voters but this one, each with its status.
fn other_voters<'a>(
    cx: &'a Context<'_>,
    list: &'a MemberList,
    own: MemberId,
) -> Vec<(&'a NodeName, Option<&'a NodeStatus>)> {
    let others = list.voters().filter(|voter| voter.id != own);
    let nodes = others.filter_map(|voter| cx.spec.node_of(voter));
    nodes.map(|node| (node, cx.status_of(node))).collect()
}

/// Judges whether etcd on this node may stop: not while it could not start again. `given` is the grant that
/// this node has given as coordinator, `down_for_long` is true if [`another_is_down`] has been true for a
/// while.
pub fn leave_to_stop(observation: &Observation, given: Option<&Grant>, down_for_long: bool) -> Leave {
    let memory = Memory {
        grant: given.map(|grant| (grant.clone(), observation.steady)),
        ..Memory::default()
    };
    let cx = Context::new(observation, &memory);
    let (Some(etcd), Some(list)) = (cx.obs.me.etcd.known(), cx.obs.me.members.known()) else {
        return Leave::go("etcd here does not serve");
    };
    if etcd.leader.is_none() {
        return Leave::go("etcd here has no raft leader");
    }
    // A stop that nobody grants goes on when the gate has waited long enough. Until then a person may put the
    // files or the binary right.
    if let Some((_, why)) = next_start::trouble(&cx.obs.me) {
        return Leave::wait(format!("etcd here might not start again: {why}"));
    }
    let voters = || list.voters();
    if voters().count() == 1 || !voters().any(|voter| voter.id == etcd.member_id) {
        return Leave::go("no other member depends on it");
    }
    let others = other_voters(&cx, list, etcd.member_id);
    let not_seen_up: Vec<_> = others
        .iter()
        .filter(|(_, status)| !status.is_some_and(NodeStatus::is_active))
        .collect();
    // A grant may be older than what is seen here: another member may have gone down since. An agent that does not
    // answer says nothing about its etcd.
    let seen_down = not_seen_up.iter().any(|(_, status)| status.is_some());
    if let Some((coordinator, _)) = leave(&cx, GrantPurpose::Restart).filter(|_| !seen_down) {
        return Leave::go(format!("{coordinator} granted it"));
    }
    let stays_down = others
        .iter()
        .find(|(_, status)| down_for_long && status.is_some_and(is_down));
    if let Some((node, _)) = stays_down {
        return Leave::go(format!("etcd on {node} is down and does not come back by itself"));
    }
    Leave::wait(match not_seen_up.first() {
        Some((node, Some(_))) => format!("etcd on {node} is restarted"),
        Some((node, None)) => format!("the agent on {node} does not answer"),
        None => "the coordinator has not granted it yet".to_owned(),
    })
}

/// True for an etcd that a person stopped, or that has failed: to wait for it is of no use if that lasts.
fn is_down(status: &NodeStatus) -> bool {
    match &status.unit {
        Fact::Known(unit) => unit.held || matches!(unit.active, ActiveState::Inactive | ActiveState::Failed),
        Fact::Absent | Fact::Unreachable(_) => false,
    }
}
