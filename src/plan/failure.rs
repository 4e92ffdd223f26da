//! Which members are dead and which cannot run: what several observers see, and for how long (design §8, rules 6 and 8).
//!
//! Evidence is kept in the planner's memory since when it holds without a gap. Losing that memory (the agent is
//! restarted, another node coordinates) restarts the wait, and nothing else.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use super::context::{Context, names};
use crate::model::{
    ActiveState, AssignmentSummary, DataState, EtcdStatus, Fact, Genesis, Member, MemberId, MemberList,
    NodeName, NodeStatus, Origin, ReasonCode, Removal, SteadyMs, member_id_of,
};

/// A voter that may be replaced.
pub(super) struct Failing<'a> {
    pub(super) member: &'a Member,
    pub(super) node: &'a NodeName,
    pub(super) why: Removal,
}

/// Brings the memory of who is out of reach, cannot run or was never started up to date. Only the coordinator
/// keeps one: anybody else starts anew when it becomes the coordinator.
pub(super) fn note(cx: &mut Context<'_>) {
    if !cx.is_coordinator() {
        for since in [
            &mut cx.memory.dead_since,
            &mut cx.memory.broken_since,
            &mut cx.memory.unstarted_since,
        ] {
            since.clear();
        }
        cx.memory.learner = None;
        return;
    }
    // A list that could not be read for a moment says nothing about anybody.
    let Some((genesis, list)) = cx.fenced_list() else {
        return;
    };
    let now = cx.obs.steady;
    let all = |holds: &dyn Fn(&Member) -> bool| -> BTreeSet<MemberId> {
        list.members.iter().filter(|m| holds(m)).map(|m| m.id).collect()
    };
    let dead = all(&|m| out_of_reach(cx, list, m));
    let broken = all(&|m| cannot_run(cx, genesis, m));
    let unstarted = all(&|m| m.name.is_empty());
    keep(&mut cx.memory.dead_since, &dead, now);
    keep(&mut cx.memory.broken_since, &broken, now);
    keep(&mut cx.memory.unstarted_since, &unstarted, now);
}

fn keep(since: &mut BTreeMap<MemberId, SteadyMs>, now_true: &BTreeSet<MemberId>, now: SteadyMs) {
    since.retain(|id, _| now_true.contains(id));
    for id in now_true {
        since.entry(*id).or_insert(now);
    }
}

/// Nobody reaches the member: its agent and its etcd are silent for this agent, and the agents of all other voters
/// that answer say the same, one at least. One observer's word is never enough, whatever it sees.
fn out_of_reach(cx: &Context<'_>, list: &MemberList, member: &Member) -> bool {
    let Some(node) = cx.spec.node_of(member).filter(|node| **node != cx.spec.node) else {
        return false;
    };
    let silent_here =
        cx.obs.peers.get(node).is_some_and(Fact::is_unreachable) && cx.obs.me.silent_etcds.contains(node);
    let mut witnesses = list
        .voters()
        .filter_map(|voter| cx.spec.node_of(voter))
        .filter(|other| *other != node && **other != cx.spec.node)
        .filter_map(|other| cx.status_of(other))
        .peekable();
    silent_here && witnesses.peek().is_some() && witnesses.all(|witness| misses(witness, node))
}

/// True when this agent reaches neither the agent nor the etcd of `node`.
pub fn misses(witness: &NodeStatus, node: &NodeName) -> bool {
    witness.silent_agents.contains(node) && witness.silent_etcds.contains(node)
}

/// The agent answers and its etcd does not run, although it has been a member, or is to be one from the beginning: not held
/// by a person, not waiting for quorum, and not because its data is gone (that is attested and needs no waiting).
fn cannot_run(cx: &Context<'_>, genesis: &Genesis, member: &Member) -> bool {
    let Some(status) = cx.spec.node_of(member).and_then(|node| cx.status_of(node)) else {
        return false;
    };
    // A founder that does not come to its first start is waited for no longer than one that has run: without it the
    // cluster is never whole, and its backup stays for ever.
    let founder = genesis.member_id(&status.node) == Some(member.id) && !mutant!(FounderAwaited);
    let down = status.unit.known().is_some_and(|unit| {
        !unit.held
            && (matches!(unit.active, ActiveState::Inactive | ActiveState::Failed) || unit.waits_to_start())
    });
    let its_own = status.assignment.as_ref().is_some_and(|assigned| {
        let same = assigned.member_id == member.id;
        (same && founder) || has_started(assigned, member, genesis)
    });
    down && its_own
        && status.etcd.known().is_none()
        && status.newest_epoch == genesis.epoch
        && !attests_gone(member, genesis, status)
}

/// True when a node's own agent attests that this member's data is gone: its etcd does not run, its data directory
/// was looked at by its owner and is missing or unusable, and it is not merely a founder that is about to start.
pub(super) fn attests_gone(member: &Member, genesis: &Genesis, status: &NodeStatus) -> bool {
    let down = status
        .unit
        .known()
        .is_some_and(|u| matches!(u.active, ActiveState::Inactive | ActiveState::Failed) && !u.held);
    let gone = is_gone(&status.data, genesis);
    let same_epoch = status.newest_epoch == genesis.epoch;
    // A memory that took no part in the genesis, without this epoch's data: it will never start this member. Copies of a genesis
    // may name different memories, and the node goes by its own.
    let own = status.genesis.as_ref().filter(|own| own.same_value(genesis));
    let forgot = own.unwrap_or(genesis).electorate.get(&status.node) != Some(&status.incarnation);
    let founder = genesis.member_id(&status.node) == Some(member.id);
    let about_this_member = match &status.assignment {
        Some(assigned) if founder && assigned.epoch < genesis.epoch => forgot,
        Some(assigned) => {
            has_started(assigned, member, genesis) || founder && is_stuck(assigned, member, status, genesis)
        }
        None => forgot,
    };
    down && gone && same_epoch && about_this_member
}

/// True for a founder that has not come up, as far as its agent knows, on data that is of no use: it is not started on that. A
/// restore puts other data in its place.
fn is_stuck(assigned: &AssignmentSummary, member: &Member, status: &NodeStatus, genesis: &Genesis) -> bool {
    let restored = matches!(genesis.origin, Origin::Backup(_));
    let unusable = matches!(status.data, Fact::Known(DataState::Unusable { .. }));
    assigned.member_id == member.id && !restored && unusable
}

/// True if the assignment is this member's and the member has run. A founder has its name in the list before its first start. A
/// member that joined later publishes its name when it starts, perhaps while no agent was there to note it.
pub(super) fn has_started(assigned: &AssignmentSummary, member: &Member, genesis: &Genesis) -> bool {
    let founder = |urls: &Vec<String>| member_id_of(urls, &genesis.token) == member.id;
    let joined = || !member.name.is_empty() && !genesis.members.values().any(founder);
    assigned.member_id == member.id && (assigned.started_once || joined())
}

/// True when a data directory, as its owner saw it, cannot be this epoch's any more.
pub fn is_gone(data: &Fact<DataState>, genesis: &Genesis) -> bool {
    match data {
        Fact::Known(DataState::Missing | DataState::Unusable { .. }) => true,
        // A disk that was set back to before a restore.
        Fact::Known(DataState::Present { cluster_id, .. }) => genesis.replaces(*cluster_id),
        Fact::Absent | Fact::Unreachable(_) => mutant!(UnknownIsLost),
    }
}

/// The first voter whose own agent attests that its data is gone.
pub(super) fn gone<'a>(cx: &Context<'a>, genesis: &Genesis, list: &'a MemberList) -> Option<Failing<'a>> {
    list.voters().find_map(|member| {
        let node = cx.spec.node_of(member)?;
        let gone = attests_gone(member, genesis, cx.status_of(node)?) || mutant!(RemovesAnyway);
        gone.then_some(Failing {
            member,
            node,
            why: Removal::Gone,
        })
    })
}

/// The first voter that is dead, or else the first that cannot run, for longer than `cluster.grace`. Says of whom
/// the grace is not over yet.
pub(super) fn failing<'a>(cx: &mut Context<'a>, list: &'a MemberList) -> Option<Failing<'a>> {
    let kinds = [
        (cx.memory.dead_since.clone(), Removal::Dead),
        (cx.memory.broken_since.clone(), Removal::Broken),
    ];
    for (since, why) in kinds {
        for member in list.voters() {
            let (Some(since), Some(node)) = (since.get(&member.id), cx.spec.node_of(member)) else {
                continue;
            };
            let passed = cx.obs.steady.since(*since);
            if passed >= cx.spec.grace {
                return Some(Failing { member, node, why });
            }
            let left = cx.spec.grace.saturating_sub(passed);
            let (code, text) = match why {
                Removal::Dead => (
                    ReasonCode::Grace,
                    format!(
                        "{node} is out of reach for every observer; it counts as dead in {} s",
                        left.as_secs()
                    ),
                ),
                _ => (
                    ReasonCode::EtcdDown,
                    format!(
                        "etcd on {node} does not run; it may be replaced by a spare in {} s",
                        left.as_secs()
                    ),
                ),
            };
            cx.because(code, text);
            cx.wake_in(left.max(Duration::from_millis(10)));
        }
    }
    None
}

/// Says that quorum is lost for good: the data of so many voters is gone, as their own agents attest, that those that are left
/// are no quorum. Nobody coordinates then, and a node that has lost its memory too does not know that it had a member. Who
/// the voters are is what this node's etcd says, or said last; before it has said anything, those of the genesis.
pub(super) fn say_quorum_lost(cx: &mut Context<'_>) {
    if let Some(text) = quorum_lost(cx) {
        cx.halt(ReasonCode::QuorumLost, text);
    }
}

/// What is said where quorum is lost for good.
pub(super) fn quorum_lost(cx: &Context<'_>) -> Option<String> {
    let genesis = cx.genesis()?;
    let of_it = |list: &&MemberList| list.cluster_id == genesis.cluster_id;
    let read = cx.obs.me.members.known().filter(of_it);
    let list = read.or(cx.obs.spec_record.members.as_ref().filter(of_it));
    let list = list.cloned().unwrap_or_else(|| genesis.founders());
    let serves = |etcd: &EtcdStatus| etcd.cluster_id == genesis.cluster_id && etcd.leader.is_some();
    if cx.known_peers().any(|(_, s)| s.etcd.known().is_some_and(serves)) {
        return None;
    }
    let lost: BTreeSet<&NodeName> = list
        .voters()
        .filter_map(|member| Some((member, cx.spec.node_of(member)?)))
        .filter(|(member, node)| {
            cx.status_of(node)
                .is_some_and(|s| attests_gone(member, genesis, s))
        })
        .map(|(_, node)| node)
        .collect();
    let voters = list.voters().count();
    let left = voters - lost.len();
    if left >= list.quorum() {
        return None;
    }
    Some(format!(
        "the data of {} is gone, and {left} of {voters} voters are no quorum, which is {}: nothing goes on alone; `etcd-agent \
         restore latest` opens epoch {} from the newest backup, what was written after it is lost",
        names(lost),
        list.quorum(),
        genesis.epoch.next()
    ))
}
