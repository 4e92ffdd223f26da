//! Situations that need a person, and the rules that each change of the cluster has to follow.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use super::context::{Context, names};
use crate::model::{
    ClusterId, Epoch, Fact, Genesis, Member, MemberId, MemberList, NodeName, NodeStatus, Observation,
    ReasonCode,
};

/// A member that is at most this many raft entries behind has caught up. Statuses are read one after the
/// other, and a busy cluster continues to write meanwhile.
const CAUGHT_UP_ENTRIES: u64 = 5000;

/// True if a member at raft entry `at` has caught up with the entry `newest` of another one.
pub fn has_caught_up(at: u64, newest: u64) -> bool {
    at.saturating_add(CAUGHT_UP_ENTRIES) >= newest
}

/// A change of the member list, as far as quorum depends on it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Change {
    /// A learner is added or removed, or a member's address changes. No vote changes.
    NoVote,
    /// This voter is removed.
    RemoveVoter(MemberId),
    /// This learner gets a vote. It counts as healthy once it serves.
    Promote(MemberId),
}

/// Rule 3: a change is made only while the healthy voters are a quorum, and only if the healthy voters after
/// the change are a quorum of the voters after it. The second condition alone is not enough: without the
/// first, etcd could not commit the change, or would need voters that no agent has seen healthy.
pub fn keeps_quorum(voters: &BTreeSet<MemberId>, healthy: &BTreeSet<MemberId>, change: Change) -> bool {
    let quorate = |voters: usize, healthy: usize| voters > 0 && healthy > voters / 2;
    let seen = healthy.intersection(voters).count();
    let (voters_after, healthy_after) = match change {
        Change::NoVote => (voters.len(), seen),
        Change::RemoveVoter(id) => (
            voters.len() - usize::from(voters.contains(&id)),
            seen - usize::from(voters.contains(&id) && healthy.contains(&id)),
        ),
        Change::Promote(id) if voters.contains(&id) => (voters.len(), seen),
        Change::Promote(id) => (voters.len() + 1, seen + usize::from(healthy.contains(&id))),
    };
    quorate(voters.len(), seen) && quorate(voters_after, healthy_after)
}

/// Whether etcd would accept one more member, even a learner. Its strict reconfiguration check
/// (`mayAddMember` in etcd's `server.go`) requires as many connected voters as a quorum would need with one
/// voter more. With one of three voters unreachable this never holds. A voter whose agent is silent counts as
/// connected until its etcd is seen silent as well: etcd itself makes the final decision.
pub(super) fn takes_another(cx: &Context<'_>, list: &MemberList) -> bool {
    let voters = list.voters().count();
    let connected = list
        .voters()
        .filter(|member| {
            let Some(node) = cx.spec.node_of(member) else {
                return true;
            };
            match cx.status_of(node) {
                Some(status) => is_healthy(member, list.cluster_id, status),
                None => !cx.obs.me.silent_etcds.contains(node),
            }
        })
        .count();
    voters == 1 || connected > voters.div_ceil(2)
}

/// True while a member must not be removed yet; the reason is recorded. This is the case if its removal would
/// leave one member while another node may not have left yet. The list of the last member confirms a removal
/// only while no other node has a member (rule 10, `agent/execute/removal_check.rs`). So two nodes that leave
/// at the same time would wait for each other. A node that an operator has ordered out does not count: the
/// order confirms its removal.
pub(super) fn must_wait(cx: &mut Context<'_>, list: &MemberList, member: &Member, node: &NodeName) -> bool {
    if list.voters().filter(|voter| voter.id != member.id).count() != 1 {
        return false;
    }
    let listed: BTreeSet<&NodeName> = list.members.iter().filter_map(|m| cx.spec.node_of(m)).collect();
    let out = &cx.obs.me.steering.directives.out;
    let mut others = cx.spec.nodes.keys().filter(|other| !listed.contains(other));
    let has_left = |status: &NodeStatus| {
        let assigned = status.assignment.as_ref();
        assigned.is_none_or(|assigned| assigned.cluster_id != list.cluster_id)
    };
    let first = others.find(|other| !out.contains(*other) && !cx.status_of(other).is_some_and(has_left));
    let Some(first) = first else { return false };
    let state = if cx.status_of(first).is_some() {
        "has not left yet"
    } else {
        "does not answer"
    };
    let text = format!(
        "{node} leaves after {first}, which {state}; if {first} is permanently lost: `etcd-agent member remove {first}`"
    );
    cx.because(ReasonCode::RemovalUnfinished, text);
    cx.wake_in(Duration::from_millis(200));
    true
}

/// Members (learners too) that their own agents report as up and serving this cluster.
pub(super) fn healthy_members(cx: &Context<'_>, list: &MemberList) -> BTreeSet<MemberId> {
    list.members
        .iter()
        .filter(|member| {
            cx.spec
                .node_of(member)
                .and_then(|node| cx.status_of(node))
                .is_some_and(|status| is_healthy(member, list.cluster_id, status))
        })
        .map(|member| member.id)
        .collect()
}

/// True when a node's own agent reports this member as up and serving this cluster.
pub fn is_healthy(member: &Member, cluster: ClusterId, status: &NodeStatus) -> bool {
    let serves = status
        .etcd
        .known()
        .is_some_and(|e| e.member_id == member.id && e.cluster_id == cluster && e.leader.is_some());
    status.is_active() && serves
}

/// Rule 4: whether one voluntary disruption (a restart, a leader move, the removal of a healthy member) may
/// begin. It may if the cluster is whole: every voter is healthy and there is no learner.
///
/// # Errors
/// The first member that is not healthy or has no vote, in one line for people.
pub(super) fn undisturbed(cx: &Context<'_>, list: &MemberList) -> Result<(), String> {
    let Some((member, why)) = disturbances(cx, list).into_iter().next() else {
        return Ok(());
    };
    let who = cx.spec.node_of(member);
    let who = who.map_or("an unknown node", NodeName::as_str);
    let what = match why {
        Disturbance::NoVote => "has no vote yet",
        Disturbance::NotHealthy => "is not seen healthy",
        Disturbance::Defragmenting => "is being defragmented",
    };
    Err(format!("member {} on {who} {what}", member.id))
}

/// Why a cluster is not whole.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Disturbance {
    /// The member is a learner.
    NoVote,
    /// The member is not seen healthy.
    NotHealthy,
    /// The member is being defragmented.
    Defragmenting,
}

/// The members for which the cluster is not whole, in the order of the list.
pub(super) fn disturbances<'l>(cx: &Context<'_>, list: &'l MemberList) -> Vec<(&'l Member, Disturbance)> {
    let healthy = healthy_members(cx, list);
    let disturbance = |member: &Member| match member {
        member if member.is_learner => Some(Disturbance::NoVote),
        member if !healthy.contains(&member.id) => Some(Disturbance::NotHealthy),
        member => {
            let status = cx.status_of(cx.spec.node_of(member)?)?;
            status
                .steering
                .defrag
                .running
                .then_some(Disturbance::Defragmenting)
        }
    };
    list.members
        .iter()
        .filter_map(|member| Some((member, disturbance(member)?)))
        .collect()
}

/// True when something is so wrong that nothing may be done; the reason is recorded.
pub(super) fn halted(cx: &mut Context<'_>) -> bool {
    let spec = cx.spec;
    if !spec.nodes.contains_key(&spec.node) {
        cx.halt(
            ReasonCode::NotAnElector,
            format!("this node, {}, is not in cluster.nodes", spec.node),
        );
        return true;
    }
    if two_geneses(cx) {
        return true;
    }
    // Each elector itself refuses a different electorate. Here it is only reported early and by name.
    let strangers: Vec<String> = cx
        .known_peers()
        .filter(|(_, status)| status.electorate_digest != cx.obs.me.electorate_digest)
        .map(|(node, _)| node.to_string())
        .collect();
    if !strangers.is_empty() {
        cx.because(
            ReasonCode::ElectorateDiffers,
            format!(
                "{} has another cluster.nodes than this node: make them the same",
                strangers.join(", ")
            ),
        );
    }
    report_other_stores(cx);
    false
}

/// Reports peers with another store: nodes with different stores record epochs and backups in different
/// places.
fn report_other_stores(cx: &mut Context<'_>) {
    if let Some(text) = other_stores(cx.obs) {
        cx.because(ReasonCode::StoreDiffers, text);
    }
}

/// The peers that answer and have another store than `mine`. Nodes that were ordered `out` do not count: one
/// node's report of its store must not lock operators out (rule 10).
pub fn with_other_stores<'a>(
    peers: &'a BTreeMap<NodeName, Fact<NodeStatus>>,
    mine: &str,
    out: &BTreeSet<NodeName>,
) -> impl Iterator<Item = &'a NodeName> {
    peers
        .iter()
        .filter(move |(node, fact)| {
            !out.contains(*node) && fact.known().is_some_and(|status| !same_store(mine, status))
        })
        .map(|(node, _)| node)
}

/// Which peers have another store than this node, if any: one line for people.
pub fn other_stores(seen: &Observation) -> Option<String> {
    other_stores_without(seen, &BTreeSet::new())
}

/// Like `other_stores`, but the nodes that an order names in `without` do not count either.
pub(super) fn other_stores_without(seen: &Observation, without: &BTreeSet<NodeName>) -> Option<String> {
    let mine = seen.spec.store_digest();
    let out = &seen.me.steering.directives.out;
    let others = with_other_stores(&seen.peers, &mine, out);
    let others: Vec<&NodeName> = others.filter(|node| !without.contains(*node)).collect();
    let store = match seen.spec.shared_store.as_str() {
        "" => "none",
        url => url,
    };
    (!others.is_empty()).then(|| {
        let verb = if others.len() == 1 { "has" } else { "have" };
        format!(
            "{} {verb} another shared store than this node, which has {store}: make store.url and store.shared the same on all nodes",
            names(others)
        )
    })
}

/// True unless that node is known to have another shared store than `mine`, or one of both has none.
pub(super) fn same_store(mine: &str, status: &NodeStatus) -> bool {
    status.store_digest.as_ref().is_none_or(|theirs| theirs == mine)
}

/// Rule 1: one epoch never has two geneses. If it has, the node halts. A single node, or the store alone,
/// that reports another genesis may lie (rule 10): the reason names it, and the node does not halt. A node
/// with a new memory, to which a genesis was only reported, does not halt either: it asks the electors.
fn two_geneses(cx: &mut Context<'_>) -> bool {
    let Some(mine) = cx.genesis().filter(|_| !cx.obs.elector.hearsay) else {
        return false;
    };
    let other = cx
        .known_peers()
        .filter_map(|(node, status)| status.genesis.as_ref().map(|g| (node.to_string(), g)))
        .chain(match &cx.obs.store {
            Fact::Known(store) => store.genesis.as_ref().map(|g| ("the store".to_owned(), g)),
            _ => None,
        })
        .filter(|(_, theirs)| theirs.epoch == mine.epoch && !theirs.same_value(mine));
    let others: Vec<String> = other
        .map(|(who, theirs)| format!("{} at {who}", theirs.token))
        .collect();
    if others.is_empty() {
        return false;
    }
    let text = format!(
        "epoch {} is {} here and {}",
        mine.epoch,
        mine.token,
        others.join(", ")
    );
    if others.len() == 1 {
        let text = format!("{text}: one of them is false or damaged; this node does not act on it");
        cx.because(ReasonCode::GenesisDiffers, text);
        return false;
    }
    cx.halt(
        ReasonCode::TwoGeneses,
        format!("{text}: two clusters were formed; stop one of them by hand"),
    );
    true
}

/// The newest epoch in this node's record or in the store. A new epoch gets a higher number. The node's
/// record includes epochs that peers report and that the electors have not denied. A number recorded in the
/// store cannot be used again, because no other record can be written there.
pub(super) fn newest_epoch(cx: &Context<'_>) -> Epoch {
    let store = cx.stored_genesis().map(|g| g.epoch).unwrap_or_default();
    cx.obs.newest_epoch.max(store)
}

/// Reports the sources of an epoch that is not accepted.
pub(super) fn report_rejected_epochs(cx: &mut Context<'_>) {
    let open = cx.open_epoch();
    let newer = |genesis: &&Genesis| genesis.epoch > open;
    let objection = |genesis: &Genesis| Some(genesis).filter(newer)?.objection(open);
    let mut refused: Vec<(String, Epoch, String)> = Vec::new();
    for (node, status) in cx.known_peers().filter(|(_, s)| s.cluster == cx.spec.cluster) {
        if !open.can_believe(status.newest_epoch) {
            let why = format!("it is {}", open.too_far_ahead());
            refused.push((node.to_string(), status.newest_epoch, why));
        } else if let Some(genesis) = &status.genesis
            && let Some(why) = objection(genesis)
        {
            refused.push((node.to_string(), genesis.epoch, why));
        }
    }
    if let Some(genesis) = cx.obs.store.known().and_then(|store| store.genesis.as_ref())
        && let Some(why) = objection(genesis)
    {
        refused.push(("the store".to_owned(), genesis.epoch, why));
    }
    for (who, epoch, why) in refused {
        cx.because(
            ReasonCode::EpochRefused,
            format!("{who} reports epoch {epoch}, which is not believed: {why}"),
        );
    }
}
