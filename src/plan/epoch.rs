//! Following the newest epoch: a node runs etcd only for the newest epoch that it knows (rule 1). A source
//! that reports a newer one may lie (rule 10). So a report only holds back a start; etcd is stopped only for
//! an epoch that a majority of the electors confirms.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use super::context::Context;
use super::safety::report_rejected_epochs;
use crate::model::{Action, ActionKind, Epoch, OperatorRequest, ReasonCode};

/// The electors are asked again after this time about an epoch that they denied and that a source still
/// reports.
const ASK_DENIED_AGAIN: Duration = Duration::from_mins(10);
/// The same, if the epoch may have been opened since.
const ASK_OPENED_AGAIN: Duration = Duration::from_secs(5);

/// The name of this node's own record as a source.
const OWN: &str = "this node's memory";

/// Stops an etcd that serves an older epoch than the confirmed one, and asks about a newer one. The stop
/// comes first: otherwise a lying node could prevent it by reporting one epoch after the other, so that this
/// node only asks.
pub(super) fn follow(cx: &mut Context<'_>) -> Option<Action> {
    report_rejected_epochs(cx);
    stop_outdated(cx).or_else(|| confirm(cx))
}

/// Stops an etcd of an older epoch than the newest that is confirmed.
fn stop_outdated(cx: &mut Context<'_>) -> Option<Action> {
    let text = outdated(cx)?;
    cx.because(ReasonCode::EpochOutdated, text);
    let newest = cx.open_epoch();
    let up = cx.obs.me.unit.known().is_some_and(|unit| unit.active.is_up());
    if up
        && cx.may_try(
            ActionKind::StopEtcd,
            Duration::from_secs(1),
            Duration::from_secs(30),
        )
    {
        return Some(Action::StopEtcd { newest });
    }
    None
}

/// The sources that report a later epoch, with that epoch. Reports outside the bounds are left out.
fn sources(cx: &Context<'_>, open: Epoch) -> Vec<(String, Epoch)> {
    let peers = cx
        .known_peers()
        .filter(|(_, status)| status.cluster == cx.spec.cluster)
        .map(|(node, status)| {
            let newer = status.genesis.as_ref().filter(|genesis| genesis.epoch > open);
            let genesis = newer.filter(|genesis| genesis.objection(open).is_none());
            let number = Some(status.newest_epoch).filter(|epoch| open.can_believe(*epoch));
            let reported = genesis.map(|genesis| genesis.epoch).max(number);
            (node.to_string(), reported.unwrap_or_default())
        });
    let store = cx.stored_genesis();
    let store = store.map(|genesis| ("the store".to_owned(), genesis.epoch));
    let pushed = cx.obs.elector.pushed.map(|epoch| ("a message".to_owned(), epoch));
    // The node's own record has no bounds here: nothing else would repair a damaged record.
    let own = (OWN.to_owned(), cx.obs.newest_epoch);
    let all = peers.chain(store).chain(pushed).chain([own]);
    all.filter(|(_, epoch)| *epoch > open).collect()
}

/// How many peers report this epoch or a later one.
fn reporters(cx: &Context<'_>, epoch: Epoch) -> usize {
    cx.known_peers()
        .filter(|(_, status)| status.cluster == cx.spec.cluster && status.newest_epoch >= epoch)
        .count()
}

/// Asks the electors about the epochs that are reported.
fn confirm(cx: &mut Context<'_>) -> Option<Action> {
    let open = cx.open_epoch();
    let mut ask = Vec::new();
    let (mut held, mut denied) = (BTreeSet::new(), BTreeSet::new());
    for (who, epoch) in sources(cx, open) {
        // The node deletes a denied epoch from its own record. Until it has done so, it keeps asking about
        // that record.
        let denied_before = cx.obs.elector.denied.get(&who).filter(|_| who != OWN);
        let before = denied_before.map(|denial| {
            let same = denial.epoch == epoch;
            (same, cx.obs.steady.since(denial.at))
        });
        match before {
            Some((same, passed)) if same || passed < ASK_DENIED_AGAIN => {
                // An operator may have confirmed the epoch since, at two of the nodes that denied it.
                let open_since = cx.obs.elector.accepted.is_some() || reporters(cx, epoch) > 1;
                let settled = same && !open_since;
                let pause = if settled {
                    ASK_DENIED_AGAIN
                } else {
                    ASK_OPENED_AGAIN
                };
                if passed >= pause {
                    ask.push((who.clone(), epoch));
                }
                denied.insert(format!("{who} (epoch {epoch})"));
            }
            _ => {
                held.insert(format!("{who} (epoch {epoch})"));
                ask.push((who, epoch));
            }
        }
    }
    let list = |of: BTreeSet<String>| of.into_iter().collect::<Vec<_>>().join(", ");
    if !denied.is_empty() {
        let text = format!(
            "ignoring a newer epoch than {open}, reported by {}: a majority of the electors denies it",
            list(denied)
        );
        cx.because(ReasonCode::EpochDenied, text);
    }
    if !held.is_empty() {
        let text = format!(
            "a newer epoch than {open} is reported by {}: etcd is not started for an older one until a majority of the electors \
             confirms or denies it; start the agents that do not answer, or, if you know that it was opened, run \
             `etcd-agent epoch confirm N` here",
            list(held)
        );
        cx.because(ReasonCode::EpochHearsay, text);
    }
    let reported_by: BTreeMap<String, Epoch> = ask.into_iter().collect();
    let by_operator = cx.obs.requests.iter().find_map(|request| match request {
        OperatorRequest::ConfirmEpoch { token, .. } => Some(token.clone()),
        _ => None,
    });
    if reported_by.is_empty() && by_operator.is_none() {
        return None;
    }
    cx.may_try(
        ActionKind::Confirm,
        Duration::from_millis(250),
        Duration::from_secs(10),
    )
    .then_some(Action::Confirm {
        reported_by,
        by_operator,
    })
}

/// Why etcd here is of an older epoch, if it is: its assignment says so, or the newest genesis names its
/// cluster as replaced. The genesis counts for any assignment, because a process can outlive the assignment
/// that it was started with.
fn outdated(cx: &Context<'_>) -> Option<String> {
    let newest = cx.open_epoch();
    if let Some(assigned) = cx.obs.assignment.as_ref().filter(|a| a.epoch < newest) {
        return Some(format!(
            "etcd here serves epoch {}, the newest is {newest}",
            assigned.epoch
        ));
    }
    if mutant!(StopForgotten) && cx.obs.assignment.is_some() {
        return None;
    }
    let genesis = cx.genesis().filter(|_| !cx.obs.elector.hearsay)?;
    let (cluster_id, member_id) = cx.obs.runs_as()?;
    genesis.replaces(cluster_id).then(|| {
        format!(
            "etcd here is member {member_id} of cluster {cluster_id}, which epoch {} has replaced",
            genesis.epoch
        )
    })
}
