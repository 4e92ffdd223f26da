//! The version of etcd with which an epoch is opened, and the quarantine in which one continues the other.

use super::context::Context;
use super::version::lacks;
use crate::model::{BackupId, EpochEtcd, EtcdStatus, EtcdVersion, ReasonCode};

/// The order that goes on with a move.
const MOVE: &str = "`etcd-agent move --to VERSION`";

/// Says that the cluster is in quarantine.
pub(super) fn report(cx: &mut Context<'_>) {
    if !cx.obs.me.etcd.known().is_some_and(EtcdStatus::in_quarantine) {
        return;
    }
    let moved = cx
        .genesis()
        .and_then(|genesis| genesis.etcd)
        .filter(|etcd| etcd.continues);
    let text = match moved {
        Some(etcd) => format!(
            "etcd refuses writes, because the cluster is in quarantine: it was moved to etcd {0}, and `etcd-agent move \
             --to {0}` compares the data and ends it; a further move goes on with `--to` its version",
            etcd.version
        ),
        None => "etcd refuses writes, because the cluster is in quarantine for a move to another version: `etcd-agent move \
                 --to VERSION` goes on, `etcd-agent move --cancel` ends it"
            .to_owned(),
    };
    cx.because(ReasonCode::Quarantine, text);
}

/// The etcd with which a restored epoch begins. Without an order it is the one with which the epoch before it was
/// opened, as long as operators have not selected another one since.
pub(super) fn etcd_of_epoch(cx: &Context<'_>, ordered: Option<EpochEtcd>) -> Option<EpochEtcd> {
    let opened = cx.genesis().filter(|genesis| genesis.etcd.is_some());
    let kept = || {
        let selected = cx.selected.as_ref().filter(|_| opened.is_some())?;
        Some(EpochEtcd {
            version: selected.version?,
            continues: false,
        })
    };
    ordered.or_else(kept)
}

/// Why a restore with this etcd is not carried out; `None` if it may be. Whether the backup is what the cluster
/// holds is checked right before the epoch is proposed, and the order ends if it is not.
pub(super) fn objection(cx: &Context<'_>, ordered: Option<EpochEtcd>, backup: &BackupId) -> Option<String> {
    let ordered = ordered?;
    let serves = cx.obs.me.etcd.known().filter(|etcd| etcd.leader.is_some());
    let quarantined = serves.is_some_and(EtcdStatus::in_quarantine);
    if ordered.continues && !quarantined && !mutant!(MovesUnfenced) {
        return Some(format!(
            "etcd on {} does not serve in quarantine, so {backup} may lack what was written since: {}",
            cx.spec.node,
            unchanged(cx, MOVE)
        ));
    }
    // etcd's revisions only grow, so another try ends in the same way.
    let outrun = cx.obs.outrun.as_ref().filter(|(id, _)| id == backup);
    let outrun = outrun.filter(|_| ordered.continues).map(|(_, why)| why.clone());
    let text = outrun.or_else(|| lack(cx, ordered.version))?;
    Some(format!("{text}; {}", unchanged(cx, MOVE)))
}

/// What an order that ends here leaves behind. Once this elector has voted for an epoch, a majority may have,
/// and the epoch may open without the order. `order` is what may have to be given again.
pub(super) fn unchanged(cx: &Context<'_>, order: &str) -> String {
    let voted = cx.obs.me.voted;
    if voted <= cx.open_epoch() {
        return "nothing was changed".to_owned();
    }
    format!(
        "epoch {voted} may open all the same, because the elector of this node may have voted for it: see `etcd-agent \
         status`, and give {order} again"
    )
}

/// Why a node could not run this version.
pub(super) fn lack(cx: &Context<'_>, to: EtcdVersion) -> Option<String> {
    let mut nodes = cx.known_nodes().into_iter();
    nodes.find_map(|(node, status)| lacks(cx, node, status, to))
}
