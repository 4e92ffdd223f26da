//! Forwards a request to the node that can carry it out, so that every verb works on every node.

use super::backup::healthy_voters;
use super::context::Context;
use crate::model::{Action, NodeName, OperatorRequest, ReasonCode};

/// Forwards a request if this node cannot carry it out and another one can. If no other can, the concern of
/// the request reports why.
pub(super) fn over(cx: &mut Context<'_>) -> Option<Action> {
    let requests = cx.obs.requests.iter();
    let (request, to) = requests.clone().find_map(|request| {
        let to = whom(cx, request)?;
        Some((request.clone(), to.clone()))
    })?;
    cx.because(
        ReasonCode::HandedOver,
        format!("{to} carries out what a person asked for here"),
    );
    Some(Action::HandOver { request, to })
}

fn whom<'a>(cx: &Context<'a>, request: &OperatorRequest) -> Option<&'a NodeName> {
    let has_store = cx.spec.backup_interval.is_some();
    let serves = cx
        .obs
        .me
        .etcd
        .known()
        .is_some_and(|etcd| etcd.leader.is_some() && !etcd.is_learner);
    let elsewhere = match request {
        OperatorRequest::Backup | OperatorRequest::BackupAs { .. } => has_store && !serves,
        OperatorRequest::Increment => {
            has_store && cx.spec.backup.increment_interval.is_some() && !cx.is_coordinator()
        }
        OperatorRequest::MoveLeader { .. } => !serves,
        // Any elector can open a restored or a first epoch, or confirm one. The other requests need only the
        // store.
        OperatorRequest::Restore { .. }
        | OperatorRequest::Bootstrap { .. }
        | OperatorRequest::ConfirmEpoch { .. }
        | OperatorRequest::Prune
        | OperatorRequest::RebootLock { .. }
        | OperatorRequest::Verify { .. } => false,
    };
    if !elsewhere || mutant!(HandsNothingOver) {
        return None;
    }
    let voters = healthy_voters(cx);
    let others = voters.iter().filter(|(_, node)| **node != cx.spec.node);
    let mut coordinator = others.filter(|(leads, _)| *leads);
    coordinator.next().map(|(_, node)| *node)
}
