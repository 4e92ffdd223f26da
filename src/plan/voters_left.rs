//! The arithmetic of quorum after a fault: how many voters stay healthy, and which further fault is
//! tolerated.

use std::collections::BTreeSet;

use super::context::Context;
use super::safety::{Change, healthy_members, keeps_quorum};
use crate::model::{FurtherFault, MemberId, MemberList, NodeName, VotersLeft};

/// The voters while `without` is down; `None` if no further node is assumed to be down.
pub(super) fn voters_left(cx: &Context<'_>, list: &MemberList, without: Option<&NodeName>) -> VotersLeft {
    let healthy = healthy_without(cx, list, without);
    let further = list.voters().filter(|voter| healthy.contains(&voter.id));
    let mut further_faults: Vec<FurtherFault> = further
        .filter_map(|voter| {
            let mut rest = healthy.clone();
            rest.remove(&voter.id);
            Some(FurtherFault {
                node: cx.spec.node_of(voter)?.clone(),
                tolerated: is_quorum(list, &rest),
            })
        })
        .collect();
    further_faults.sort_by(|one, other| one.node.cmp(&other.node));
    VotersLeft {
        voters: list.voters().count(),
        healthy: healthy.len(),
        quorum: list.quorum(),
        further_faults,
    }
}

/// The healthy voters while `without` is down.
pub(super) fn healthy_without(
    cx: &Context<'_>,
    list: &MemberList,
    without: Option<&NodeName>,
) -> BTreeSet<MemberId> {
    let healthy = healthy_members(cx, list);
    list.voters()
        .filter(|voter| healthy.contains(&voter.id))
        .filter(|voter| without.is_none() || cx.spec.node_of(voter) != without)
        .map(|voter| voter.id)
        .collect()
}

/// Whether these healthy voters are a quorum. A stopped member keeps its vote.
pub(super) fn is_quorum(list: &MemberList, healthy: &BTreeSet<MemberId>) -> bool {
    keeps_quorum(&list.voter_ids(), healthy, Change::NoVote)
}
