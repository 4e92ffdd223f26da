//! Changing the size: a full backup first, then one member at a time.
//!
//! Each node records on disk the size at which it last saw the cluster whole. This record decides whether
//! adding a missing member is a repair or a growth. The planner's memory would lose the size at every reload
//! of the configuration, and a reload is one way to change the size. If no configuration file holds the size,
//! the store does. The last size from the store is recorded too, so that a store that does not answer or was
//! emptied changes nothing.

use std::time::Duration;

use super::context::{Context, names};
use super::removal::{may_lose, remove};
use super::safety::{healthy_members, must_wait, undisturbed};
use super::{backup, failure, lock_holder, orders};
use crate::model::{
    Action, ActionKind, BackupId, BackupSummary, Fact, Join, MOST_VOTERS, Member, MemberList, NodeName,
    ReasonCode, Removal, SizeChange, SizeSource, SpecRecord,
};

/// Whether a change of the size may begin.
pub(super) enum Before {
    /// Now.
    Go,
    /// Only after this action, or, without one, not yet. The reason is recorded.
    Wait(Option<Action>),
}

/// Growth beyond the size that the cluster last had waits for a backup. Replacing a lost member does not.
pub(super) fn before_growth(cx: &mut Context<'_>, list: &MemberList) -> Before {
    let settled = cx.obs.spec_record.settled;
    if settled.is_some_and(|settled| settled == cx.spec.size || list.members.len() < settled) {
        return Before::Go;
    }
    if !agreed(cx) {
        return Before::Wait(None);
    }
    settled.map_or(Before::Go, |settled| after_backup(cx, settled))
}

/// Takes over the size in the store before anything is decided by the size.
pub(super) fn follow(cx: &mut Context<'_>) -> Option<Action> {
    if !matches!(cx.spec.size_source, SizeSource::Store { .. }) {
        return None;
    }
    let nodes = cx.spec.nodes.len();
    let most = MOST_VOTERS.min(nodes);
    let wrong = match &cx.obs.store.known()?.size {
        // A size that the store once had stays in force.
        Fact::Absent => return None,
        Fact::Known(size) if (1..=most).contains(size) => {
            if is_unordered(cx, *size) {
                let text = format!(
                    "the store asks for {size} members, and the size stays {}: nobody has ordered fewer members through \
                     an agent; `etcd-agent spec set size={size}` does",
                    cx.spec.size
                );
                cx.because(ReasonCode::SizeUnconfirmed, text);
                return None;
            }
            let stored = Some(*size);
            let record = SpecRecord {
                stored,
                ..cx.obs.spec_record.clone()
            };
            return write(cx, record);
        }
        Fact::Known(size) => {
            format!("it asks for {size}, expected 1 to {most} with {nodes} nodes in cluster.nodes")
        }
        Fact::Unreachable(why) => why.clone(),
    };
    let text = format!(
        "the spec in the store is not followed, the size stays {}: {wrong}",
        cx.spec.size
    );
    cx.because(ReasonCode::SpecInvalid, text);
    None
}

/// True if no operator has ordered this smaller size. A smaller size stops members, so write access to the
/// store alone does not suffice (rule 10): an operator must have ordered it through an agent, or a majority
/// of the nodes must follow it already. Before the first epoch there is nothing to stop.
fn is_unordered(cx: &Context<'_>, size: usize) -> bool {
    if size >= cx.spec.size || cx.genesis().is_none() || mutant!(BelievesSizes) {
        return false;
    }
    let mut followed = cx.spec.clone();
    followed.size = size;
    let digest = followed.digest();
    let following = cx
        .known_peers()
        .filter(|(_, status)| status.spec_digest == digest)
        .count();
    cx.obs.me.steering.directives.size != Some(size) && following < cx.spec.majority()
}

/// True if the size may be changed: the wanted size is known, and every peer that answers follows the same
/// spec. Agents read the store one after the other. A new coordinator that has not read it yet would undo
/// what the last one did.
fn agreed(cx: &mut Context<'_>) -> bool {
    let SizeSource::Store { said } = cx.spec.size_source else {
        return true;
    };
    if said.is_none() && cx.obs.spec_record.settled.is_none() && cx.obs.store.known().is_none() {
        cx.because(
            ReasonCode::SizeUnknown,
            "the store holds the size and was not read yet: no member is added or removed for the size",
        );
        return false;
    }
    let mine = &cx.obs.me.spec_digest;
    let others: Vec<&NodeName> = cx
        .known_peers()
        .filter(|(_, status)| status.spec_digest != *mine)
        .map(|(node, _)| node)
        .collect();
    if others.is_empty() {
        return true;
    }
    let text = format!(
        "the size is {} here, and the size or the list of nodes differs on {}",
        cx.spec.size,
        names(others)
    );
    cx.because(ReasonCode::SpecDiffers, text);
    false
}

/// Requires one backup before each change of the size, if there is a store. The backup must be newer than the
/// newest one that was known when this size was first wanted. Names are compared, not the clocks of two
/// machines.
fn after_backup(cx: &mut Context<'_>, from: usize) -> Before {
    if cx.spec.backup_interval.is_none() {
        return Before::Go;
    }
    let to = cx.spec.size;
    let Some(change) = cx.obs.spec_record.change.clone().filter(|change| change.to == to) else {
        return Before::Wait(remember(cx));
    };
    if newest_backup(cx) > change.after {
        return Before::Go;
    }
    cx.because(
        ReasonCode::BackupBeforeChange,
        format!("a full backup is taken before the size changes from {from} to {to}"),
    );
    if cx.obs.backup.running || !backup::may_try_again(cx, Duration::from_mins(5)) {
        return Before::Wait(None);
    }
    Before::Wait(Some(backup::begin(cx)))
}

/// The newest backup that this node or a peer that answers knows of.
fn newest_backup(cx: &Context<'_>) -> Option<BackupId> {
    let stored = cx.obs.store.known().and_then(|s| s.newest_backup.as_ref());
    let nodes = cx.known_nodes();
    let reported = nodes.iter().filter_map(|(_, status)| status.last_backup.as_ref());
    BackupSummary::newest(reported.chain(stored), cx.obs.now).map(|backup| backup.id.clone())
}

/// Records the members, the size at which the cluster was last whole, and, for another wanted size, the
/// newest backup at that time.
pub(super) fn remember(cx: &mut Context<'_>) -> Option<Action> {
    let genesis = cx.genesis()?;
    let list = cx
        .obs
        .me
        .members
        .known()
        .filter(|l| l.cluster_id == genesis.cluster_id)?;
    let size = cx.spec.size;
    let whole = list.voters().count() == size && list.members.len() == size;
    let mut record = cx.obs.spec_record.clone();
    // The raft term changes with each leader, independently of the members.
    let same = |known: &MemberList| (known.cluster_id, &known.members) == (list.cluster_id, &list.members);
    if !record.members.as_ref().is_some_and(same) {
        record.members = Some(list.clone());
    }
    if whole {
        record.settled = Some(size);
        record.change = None;
    } else if record.settled == Some(size) {
        record.change = None;
    } else if (record.settled.is_some() || list.voters().count() > size)
        && record.change.as_ref().is_none_or(|c| c.to != size)
    {
        if let Fact::Unreachable(why) = &cx.obs.store {
            let text =
                format!("the size is to change, and the store does not say which backups there are: {why}");
            cx.because(ReasonCode::StoreUnreachable, text);
        } else {
            record.change = Some(SizeChange {
                to: size,
                after: newest_backup(cx),
            });
        }
    }
    write(cx, record)
}

fn write(cx: &mut Context<'_>, record: SpecRecord) -> Option<Action> {
    (record != cx.obs.spec_record
        && cx.may_try(
            ActionKind::RememberSpec,
            Duration::from_secs(1),
            Duration::from_mins(1),
        ))
    .then(|| Action::RememberSpec {
        record: Box::new(record),
    })
}

/// Removes one voter if there are more than wanted: an unhealthy one first, else the one with the highest
/// node name. Never the raft leader, which is this node's own member.
pub(super) fn shrink(cx: &mut Context<'_>, list: &MemberList) -> Option<Action> {
    let (from, to) = (list.voters().count(), cx.spec.size);
    if !matches!(cx.spec.join, Join::Replace | Join::Prune) {
        cx.because(
            ReasonCode::RemovalNotAllowed,
            format!(
                "{from} voters and {to} wanted: cluster.join = \"{}\" never removes one",
                cx.spec.join
            ),
        );
        return None;
    }
    if !agreed(cx) {
        return None;
    }
    let healthy = healthy_members(cx, list);
    let mut candidates: Vec<(bool, &NodeName, &Member)> = list
        .voters()
        .filter_map(|m| Some((healthy.contains(&m.id), cx.spec.node_of(m)?, m)))
        .filter(|(_, node, _)| **node != cx.spec.node)
        .collect();
    candidates.sort_by(|a, b| a.0.cmp(&b.0).then(b.1.cmp(a.1)));
    let (well, node, member) = candidates.first().copied()?;
    if well && orders::under_way(cx) {
        return None;
    }
    if well && let Some((holder, _)) = lock_holder::holder(cx, None) {
        let text = format!("{from} voters and {to} wanted, but not now: {holder} holds the reboot lock");
        cx.because(ReasonCode::NotWhole, text);
        return None;
    }
    if well && let Err(why) = undisturbed(cx, list) {
        cx.because(
            ReasonCode::NotWhole,
            format!("{from} voters and {to} wanted, but not now: {why}"),
        );
        return None;
    }
    let settled = cx.obs.spec_record.settled.unwrap_or(from);
    if settled != to
        && let Before::Wait(action) = after_backup(cx, settled)
    {
        return action;
    }
    let leaving = failure::Failing {
        member,
        node,
        why: Removal::Excess,
    };
    if !may_lose(cx, list, &leaving) || must_wait(cx, list, member, node) {
        return None;
    }
    cx.because(
        ReasonCode::Shrink,
        format!("{node} leaves: {from} voters and {to} wanted"),
    );
    remove(cx, member, node, Removal::Excess, None, list)
}
