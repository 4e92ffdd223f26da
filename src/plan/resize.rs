//! Changing the size: a full backup first, then one member at a time.
//!
//! Whether a missing member is a repair or a growth is read from what each node wrote down: the size at which it
//! last saw the cluster whole. The planner's memory would forget it at every reload of the configuration, which is
//! how the size is changed.

use std::time::Duration;

use super::context::Context;
use super::membership::{may_lose, remove};
use super::safety::{healthy_members, undisturbed};
use super::{backup, dead, grant};
use crate::model::{
    Action, BackupId, Fact, Join, Member, MemberList, NodeName, Removal, SizeChange, SpecRecord,
};

/// Whether a change of the size may begin.
pub(super) enum Before {
    /// Now.
    Go,
    /// Not before this is done, or not yet at all; the reason is recorded.
    Wait(Option<Action>),
}

/// Growing beyond the size that the cluster last had waits for a backup; replacing a lost member does not.
pub(super) fn before_growth(cx: &mut Context<'_>, list: &MemberList) -> Before {
    match cx.obs.spec_record.settled {
        Some(settled) if settled != cx.spec.size && list.members.len() >= settled => {
            after_backup(cx, settled)
        }
        _ => Before::Go,
    }
}

/// One backup before each change of the size, when there is a store: a newer one than was known when this size was
/// first seen to be wanted. Names are compared, not the clocks of two machines.
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
        "backup-before-change",
        format!("a full backup is taken before the size changes from {from} to {to}"),
    );
    if cx.obs.backup.running || !backup::may_try_again(cx, Duration::from_mins(5)) {
        return Before::Wait(None);
    }
    Before::Wait(Some(Action::Backup))
}

/// The newest backup that this node or a peer that answers knows of.
fn newest_backup(cx: &Context<'_>) -> Option<BackupId> {
    let stored = cx.obs.store.known().and_then(|s| s.newest_backup.as_ref());
    cx.known_nodes()
        .into_iter()
        .filter_map(|(_, status)| status.last_backup.as_ref())
        .chain(stored)
        .map(|backup| backup.id.clone())
        .max()
}

/// Writes down at which size the cluster is whole, and from where another size is wanted.
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
            cx.because("store-unreachable", text);
            return None;
        }
        record.change = Some(SizeChange {
            to: size,
            after: newest_backup(cx),
        });
    }
    write(cx, record)
}

fn write(cx: &mut Context<'_>, record: SpecRecord) -> Option<Action> {
    (record != cx.obs.spec_record
        && cx.may_try("remember-spec", Duration::from_secs(1), Duration::from_mins(1)))
    .then(|| Action::RememberSpec {
        record: Box::new(record),
    })
}

/// More voters than wanted: one goes, an unhealthy one first, else the one with the highest node name; never the
/// raft leader, which is this node's own.
pub(super) fn shrink(cx: &mut Context<'_>, list: &MemberList) -> Option<Action> {
    let (from, to) = (list.voters().count(), cx.spec.size);
    if !matches!(cx.spec.join, Join::Replace | Join::Prune) {
        cx.because(
            "removal-not-allowed",
            format!(
                "{from} voters and {to} wanted: cluster.join = \"{}\" never removes one",
                cx.spec.join
            ),
        );
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
    if well && grant::under_way(cx) {
        return None;
    }
    if well && let Err(why) = undisturbed(cx, list) {
        cx.because(
            "not-whole",
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
    let leaving = dead::Failing {
        member,
        node,
        why: Removal::Excess,
    };
    if !may_lose(cx, list, &leaving) {
        return None;
    }
    cx.because("shrink", format!("{node} leaves: {from} voters and {to} wanted"));
    remove(cx, member, node, Removal::Excess, None, list)
}
