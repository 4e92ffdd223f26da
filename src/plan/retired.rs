//! A node whose member was removed from the cluster: its etcd ends, its data goes into the archive, and it is a
//! spare from then on. Its assignment stays on record, as what the next one is numbered after and what the gate
//! holds a start back with.

use std::collections::BTreeMap;
use std::time::Duration;

use super::context::Context;
use crate::model::{Action, Assignment, DataState, Fact, MemberList, NodeName, NodeStatus};

/// Who says that the member of this assignment is not in the cluster any more: the newest list that was read
/// through quorum, by raft term, among those of the peers that answer and can tell (`Assignment::is_told_by`). etcd never
/// uses a member ID twice, so such a list without it is newer than the one that named it.
pub fn removed_by<'a>(
    assignment: &Assignment,
    peers: &'a BTreeMap<NodeName, Fact<NodeStatus>>,
) -> Option<(&'a NodeName, &'a MemberList)> {
    let lists = || {
        peers.iter().filter_map(|(node, fact)| {
            let list = fact.known()?.members.known()?;
            assignment.is_told_by(list).then_some((node, list))
        })
    };
    let newest = lists().map(|(_, list)| list.term).max()?;
    let mut last = lists().filter(|(_, list)| list.term == newest);
    if last
        .clone()
        .any(|(_, list)| list.get(assignment.member_id).is_some())
    {
        return None;
    }
    last.next()
}

/// Leaves the cluster that has removed this node's member.
pub(super) fn leave(cx: &mut Context<'_>, assignment: &Assignment, by: &NodeName) -> Option<Action> {
    let unit = cx.obs.me.unit.known()?;
    let id = assignment.member_id;
    if unit.active.is_up() {
        cx.because("removed", format!("member {id} was removed: its etcd ends"));
        return cx
            .may_try("stop-removed", Duration::from_secs(1), Duration::from_secs(30))
            .then(|| Action::StopRemoved {
                generation: assignment.generation,
                by: by.clone(),
            });
    }
    let why = match &cx.obs.me.data {
        Fact::Known(DataState::Present {
            cluster_id,
            member_id,
        }) if *cluster_id == assignment.cluster_id && *member_id == id => "removed",
        Fact::Known(DataState::Unusable { .. }) => "unusable",
        _ => {
            cx.because("spare", super::assign::spare_text(cx));
            return None;
        }
    };
    cx.because(
        "archive",
        format!("the data of member {id}, which was removed, goes into the archive"),
    );
    cx.may_try(
        "replace-data",
        Duration::from_millis(500),
        Duration::from_secs(30),
    )
    .then(|| Action::ReplaceData {
        epoch: assignment.epoch,
        why: why.to_owned(),
        staged: false,
    })
}
