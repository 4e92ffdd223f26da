//! A first epoch that was chosen, and that no node remembers as chosen.

use super::context::Context;
use crate::model::{DataState, Fact, Genesis, NodeName, NodeStatus, Origin};

/// The genesis of epoch 1, if the only node that had learned it has lost its memory since. That node's member
/// has data of this genesis, and this elector has accepted the genesis. `None` unless every member has its
/// own data, or has no data and the same memory as in the round: then no member has lost a write that it
/// acknowledged.
pub(super) fn unfinished_round(cx: &Context<'_>) -> Option<Genesis> {
    let genesis = cx.obs.elector.accepted.as_ref()?;
    let has_own = |node: &NodeName, status: &NodeStatus| {
        let own = genesis.member_id(node).map(|member| (genesis.cluster_id, member));
        own.is_some() && status.data.known().and_then(DataState::member) == own
    };
    let is_empty = |status: &NodeStatus| matches!(status.data, Fact::Known(DataState::Missing));
    let never_ran = |node: &NodeName, status: &NodeStatus| {
        is_empty(status) && genesis.electorate.get(node) == Some(&status.incarnation)
    };
    let is_whole = |node: &NodeName| {
        let status = cx.status_of(node);
        status.is_some_and(|status| has_own(node, status) || never_ran(node, status))
    };
    let nodes = cx.known_nodes();
    let unfinished = genesis.origin == Origin::Empty
        && genesis.members.keys().all(is_whole)
        && nodes
            .iter()
            .all(|(node, status)| genesis.members.contains_key(*node) || is_empty(status))
        && nodes.iter().any(|(node, status)| has_own(node, status));
    unfinished.then(|| genesis.clone())
}
