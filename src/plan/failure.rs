//! Which members are dead and which cannot run: what several observers see, and for how long (design §8,
//! rules 6 and 8).
//!
//! The planner's memory records since when each piece of evidence has held without interruption. If that
//! memory is lost (the agent is restarted, or another node becomes the coordinator), only the wait starts
//! again.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use super::context::{Context, names};
use super::orders;
use crate::model::{
    ActiveState, AssignmentSummary, DataState, EtcdStatus, Fact, Genesis, Member, MemberId, MemberList,
    NodeName, NodeStatus, Origin, ReasonCode, Removal, SteadyMs, member_id_of,
};

/// A dead member is asked once more before it is removed, which takes this long (the deadline of a call to an
/// agent or an etcd). That begins before its grace ends, and the removal comes after it.
const LAST_LOOK: Duration = Duration::from_secs(2);

/// A voter that may be replaced.
pub(super) struct Failing<'a> {
    pub(super) member: &'a Member,
    pub(super) node: &'a NodeName,
    pub(super) why: Removal,
}

/// Updates the memory of which members are out of reach, cannot run or were never started. Only the
/// coordinator keeps this memory: another node starts with an empty one when it becomes the coordinator.
/// A pause is no evidence: agents start no etcd meanwhile, and hosts are down for maintenance. After `resume`
/// each member has all of its grace.
pub(super) fn note(cx: &mut Context<'_>) {
    if !cx.is_coordinator() || orders::paused(cx).is_some() {
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
    // A member list that could not be read for a moment is no evidence about any member.
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

/// True if no observer reaches the member: its agent and its etcd do not answer this agent, and the agents of
/// all other voters that answer, at least one, report the same. One observer alone is never enough.
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

/// True if the agent of `witness` reaches neither the agent nor the etcd of `node`.
pub fn misses(witness: &NodeStatus, node: &NodeName) -> bool {
    witness.silent_agents.contains(node) && witness.silent_etcds.contains(node)
}

/// True if the agent answers and its etcd does not run, although it has run as this member or is a founder.
/// This excludes an etcd that a person holds, one that waits for quorum, and one whose data is lost: the loss
/// is attested and needs no waiting.
fn cannot_run(cx: &Context<'_>, genesis: &Genesis, member: &Member) -> bool {
    let Some(status) = cx.spec.node_of(member).and_then(|node| cx.status_of(node)) else {
        return false;
    };
    // A founder without a first start is waited for no longer than a member that has run. Without it the
    // cluster is never whole, and the backup that it is restored from is never pruned.
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
        && !reports_loss(member, genesis, status)
}

/// True when a node's own agent attests that this member's data is lost: its etcd does not run, the owner of
/// the data directory has inspected it and found it missing or unusable, and the member is not merely a
/// founder about to start.
pub(super) fn reports_loss(member: &Member, genesis: &Genesis, status: &NodeStatus) -> bool {
    let down = status
        .unit
        .known()
        .is_some_and(|u| matches!(u.active, ActiveState::Inactive | ActiveState::Failed) && !u.held);
    let gone = is_lost(&status.data, genesis);
    let same_epoch = status.newest_epoch == genesis.epoch;
    // A node whose memory took no part in the genesis, and that has no data of this epoch, will never start
    // this member. Copies of a genesis may name different memories; the node uses its own copy.
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

/// True for a founder with unusable data that has not started yet, as far as its agent knows: it is not
/// started on such data. This does not apply to a restored epoch, whose restore replaces the data.
fn is_stuck(assigned: &AssignmentSummary, member: &Member, status: &NodeStatus, genesis: &Genesis) -> bool {
    let restored = matches!(genesis.origin, Origin::Backup(_));
    let unusable = matches!(status.data, Fact::Known(DataState::Unusable { .. }));
    assigned.member_id == member.id && !restored && unusable
}

/// True if the assignment is this member's and the member has run, perhaps while no agent was there to note it. Each
/// member publishes its client URLs when it starts, and one that joined later its name. A founder has its name in the
/// list before.
pub(super) fn has_started(assigned: &AssignmentSummary, member: &Member, genesis: &Genesis) -> bool {
    let founder = |urls: &Vec<String>| member_id_of(urls, &genesis.token) == member.id;
    let joined = || !member.name.is_empty() && !genesis.members.values().any(founder);
    let published = !member.client_urls.is_empty();
    assigned.member_id == member.id && (assigned.started_once || published || joined())
}

/// True when a data directory, as its owner saw it, cannot hold this epoch's data any more.
pub fn is_lost(data: &Fact<DataState>, genesis: &Genesis) -> bool {
    match data {
        Fact::Known(DataState::Missing | DataState::Unusable { .. }) => true,
        // The disk was rolled back to a state before a restore.
        Fact::Known(DataState::Present { cluster_id, .. }) => genesis.replaces(*cluster_id),
        Fact::Absent | Fact::Unreachable(_) => mutant!(UnknownIsLost),
    }
}

/// The first voter whose own agent attests that its data is lost.
pub(super) fn lost_member<'a>(
    cx: &Context<'a>,
    genesis: &Genesis,
    list: &'a MemberList,
) -> Option<Failing<'a>> {
    list.voters().find_map(|member| {
        let node = cx.spec.node_of(member)?;
        let gone = reports_loss(member, genesis, cx.status_of(node)?) || mutant!(RemovesAnyway);
        gone.then_some(Failing {
            member,
            node,
            why: Removal::Gone,
        })
    })
}

/// The first voter that is dead, or else the first that cannot run, for longer than `cluster.grace`. Reports
/// the voters whose grace is not over yet.
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
            let last_look = if why == Removal::Dead {
                LAST_LOOK
            } else {
                Duration::ZERO
            };
            if passed.saturating_add(last_look) >= cx.spec.grace {
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
            cx.wake_in(left.saturating_sub(last_look).max(Duration::from_millis(10)));
        }
    }
    None
}

/// When the grace of a member that is removed as dead ends; the beginning of time for every other cause.
pub(super) fn grace_ends(cx: &Context<'_>, member: &Member, why: Removal) -> SteadyMs {
    let since = cx
        .memory
        .dead_since
        .get(&member.id)
        .filter(|_| why == Removal::Dead);
    since.map(|since| since.plus(cx.spec.grace)).unwrap_or_default()
}

/// Reports that quorum is permanently lost: so many voters' own agents attest that their data is lost that
/// the remaining voters are no quorum. There is no coordinator then, and a node that has lost its memory too
/// does not know that it had a member. The voters are those that this node's etcd names or named last; before
/// its first answer, those of the genesis.
pub(super) fn report_quorum_lost(cx: &mut Context<'_>) {
    if let Some(text) = quorum_lost(cx) {
        cx.halt(ReasonCode::QuorumLost, text);
    }
}

/// The report that quorum is permanently lost, if it is.
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
                .is_some_and(|s| reports_loss(member, genesis, s))
        })
        .map(|(_, node)| node)
        .collect();
    let voters = list.voters().count();
    let left = voters - lost.len();
    if left >= list.quorum() {
        return None;
    }
    Some(format!(
        "the data of {} is lost, and {left} of {voters} voters are no quorum, which is {}: nothing recovers by itself; \
         `etcd-agent restore latest` opens epoch {} from the newest backup, what was written after it is lost",
        names(lost),
        list.quorum(),
        genesis.epoch.next()
    ))
}
