//! What must never be gone on from without a person.

use super::context::Context;
use crate::model::{Epoch, Fact};

/// True when something is so wrong that nothing may be done; the reason is recorded.
pub(super) fn halted(cx: &mut Context<'_>) -> bool {
    let spec = cx.spec;
    if !spec.nodes.contains_key(&spec.node) {
        cx.halt(
            "not-an-elector",
            format!("this node, {}, is not in cluster.nodes", spec.node),
        );
        return true;
    }
    if two_geneses(cx) {
        return true;
    }
    // A different electorate is refused by each elector itself; here it is only said early and by name.
    let strangers: Vec<String> = cx
        .known_peers()
        .filter(|(_, status)| status.electorate_digest != cx.obs.me.electorate_digest)
        .map(|(node, _)| node.to_string())
        .collect();
    if !strangers.is_empty() {
        cx.because(
            "electorate-differs",
            format!(
                "{} has another cluster.nodes than this node: make them the same",
                strangers.join(", ")
            ),
        );
    }
    false
}

/// Rule 1: two geneses of one epoch must never be; if they ever are, nobody touches anything.
fn two_geneses(cx: &mut Context<'_>) -> bool {
    let Some(mine) = cx.genesis() else { return false };
    let other = cx
        .known_peers()
        .filter_map(|(node, status)| status.genesis.as_ref().map(|g| (node.to_string(), g)))
        .chain(match &cx.obs.store {
            Fact::Known(store) => store.genesis.as_ref().map(|g| ("the store".to_owned(), g)),
            _ => None,
        })
        .find(|(_, theirs)| theirs.epoch == mine.epoch && !theirs.same_value(mine));
    let Some((who, theirs)) = other else { return false };
    cx.halt(
        "two-geneses",
        format!(
            "epoch {} is {} here and {} at {who}: two clusters were formed; stop one of them by hand",
            mine.epoch, mine.token, theirs.token
        ),
    );
    true
}

/// The newest epoch that anybody is known to have heard of.
pub(super) fn newest_epoch(cx: &Context<'_>) -> Epoch {
    let peers = cx
        .known_peers()
        .map(|(_, s)| s.newest_epoch)
        .max()
        .unwrap_or_default();
    let store = match &cx.obs.store {
        Fact::Known(store) => store.genesis.as_ref().map(|g| g.epoch).unwrap_or_default(),
        Fact::Absent | Fact::Unreachable(_) => Epoch::default(),
    };
    cx.obs.newest_epoch.max(peers).max(store)
}
