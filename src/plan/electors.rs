//! The votes that an epoch needs. An elector with a new memory regains its vote in the background, in any
//! epoch. Otherwise, replacing hosts one by one would remove the majority of votes. If an order lacks votes,
//! its reasons name the electors.

use std::collections::BTreeSet;
use std::time::Duration;

use super::context::{Context, names};
use crate::model::{
    Action, ActionKind, Epoch, Genesis, NodeName, NodeStatus, OperatorRequest, ReasonCode, memories_lost,
};

/// The pause after the first failed enquiry in the background.
const FIRST_PAUSE: Duration = Duration::from_millis(500);
/// The longest pause. Every node that an enquiry needs answered a moment ago, so the enquiry costs little.
const LONGEST_PAUSE: Duration = Duration::from_secs(10);

/// Enquires, with a new memory, as soon as an enquiry can regain the vote: when all other electors or the
/// shared store answer. Enquires again when an enquiry can show that a former memory has voted for nothing that
/// matters: otherwise such a vote would hold orders back until the next epoch.
pub(super) fn regain(cx: &mut Context<'_>) -> Option<Action> {
    if mutant!(MemoriesStayNew) {
        return None;
    }
    if cx.obs.elector.eligible {
        let doubted = cx.obs.elector.may_have_voted > cx.obs.newest_epoch;
        let quiet = |status: &NodeStatus| {
            status.eligible && status.voted.max(status.newest_epoch) <= cx.obs.newest_epoch
        };
        let all_quiet = cx.silent().is_empty() && cx.known_peers().all(|(_, status)| quiet(status));
        return (doubted && all_quiet && cx.may_try(ActionKind::Enquire, FIRST_PAUSE, LONGEST_PAUSE)).then(
            || Action::Enquire {
                without: BTreeSet::new(),
            },
        );
    }
    let nobody = BTreeSet::new();
    let said = [ReasonCode::NewMemory, ReasonCode::MemoriesLost];
    if !cx.reasons().iter().any(|r| said.contains(&r.code)) {
        report_new_memory(cx, &nobody);
    }
    let store_answers = cx.spec.store_shared && cx.obs.store.known().is_some();
    let all_answer = cx.silent().is_empty() && !too_few_remember(cx);
    if !store_answers && !all_answer {
        return None;
    }
    cx.may_try(ActionKind::Enquire, FIRST_PAUSE, LONGEST_PAUSE)
        .then_some(Action::Enquire { without: nobody })
}

/// True if so many electors have lost their memory since the newest epoch that asking them is not enough.
fn too_few_remember(cx: &Context<'_>) -> bool {
    let names = cx.spec.nodes.keys().cloned().collect();
    memories_lost(cx.genesis(), &cx.spec.node, &names, &cx.obs.elector.superseded)
}

/// Reports what a new memory waits for before it votes. Returns the electors that have not answered.
pub(super) fn report_new_memory<'a>(cx: &mut Context<'a>, without: &BTreeSet<NodeName>) -> Vec<&'a NodeName> {
    let spec = cx.spec;
    let known = cx.genesis().is_some() || cx.obs.newest_epoch > Epoch::default();
    let command = if known { "restore BACKUP" } else { "bootstrap" };
    let missing: Vec<&NodeName> = spec
        .nodes
        .keys()
        .filter(|n| **n != spec.node && !cx.obs.elector.enquired.contains(*n) && !without.contains(*n))
        .collect();
    if !missing.is_empty() {
        cx.because(
            ReasonCode::NewMemory,
            format!(
                "this elector's memory is new: it votes once it has an answer from {} (or the shared store, or \
                 `etcd-agent {command} --without NODE` for those permanently lost)",
                names(missing.iter().copied())
            ),
        );
    }
    if missing.is_empty() && without.is_empty() && too_few_remember(cx) {
        let who = names(&cx.obs.elector.superseded);
        let knows = if known { "newer epoch" } else { "epoch" };
        cx.because(
            ReasonCode::MemoriesLost,
            format!(
                "{who} have lost their memory, and with it perhaps an epoch that they had chosen: this elector takes \
                 no part in opening another one until the shared store reports the newest epoch; an operator who \
                 orders `etcd-agent {command}` here and knows that no {knows} was opened adds `--without NODE`, \
                 naming one of them"
            ),
        );
    }
    missing
}

/// The newest genesis, known here or in the store. Its electors are asked whether another epoch may be
/// opened.
pub(super) fn replaced<'a>(cx: &Context<'a>) -> Option<&'a Genesis> {
    cx.genesis()
        .into_iter()
        .chain(cx.stored_genesis())
        .max_by_key(|genesis| genesis.epoch)
}

/// The electors that the person who ordered this restore has declared permanently lost.
///
/// # Errors
/// What the order has to add, in one line: without it, too few electors can be asked whether the cluster
/// still runs.
pub(super) fn declared_lost(
    cx: &Context<'_>,
    request: &OperatorRequest,
) -> Result<BTreeSet<NodeName>, String> {
    let mut gone: BTreeSet<NodeName> = request.without().cloned().collect();
    let OperatorRequest::Restore { replace, .. } = request else {
        return Ok(gone);
    };
    let (spec, cluster) = (cx.spec, &cx.spec.cluster);
    if let Some(other) = replace.as_ref().filter(|name| *name != cluster) {
        return Err(format!(
            "--replace-electorate says {other}, and this is cluster {cluster}: nothing was changed"
        ));
    }
    let Some(genesis) = replaced(cx) else {
        return Ok(gone);
    };
    let former = || genesis.electorate.keys();
    if replace.is_some() {
        gone.extend(former().filter(|node| !spec.nodes.contains_key(*node)).cloned());
    }
    let asked: Vec<&NodeName> = former().filter(|node| !gone.contains(*node)).collect();
    let (named, unknown): (Vec<&NodeName>, Vec<&NodeName>) =
        asked.iter().partition(|node| spec.nodes.contains_key(**node));
    if asked.is_empty() || named.len() > unknown.len() {
        return Ok(gone);
    }
    let words: Vec<String> = unknown.iter().map(|node| format!("--without {node}")).collect();
    Err(format!(
        "epoch {} of {cluster} was opened by {}, and cluster.nodes here does not name {}: they cannot be asked whether \
         that cluster still runs. If they are permanently lost, add your word to the command: `{}`, or \
         `--replace-electorate {cluster}` for all of them. If that cluster still runs, leave it alone: use another \
         cluster.name or store.url. Nothing was changed",
        genesis.epoch,
        names(former()),
        names(unknown),
        words.join(" ")
    ))
}

/// What a person can do if hosts with other names opened the newest epoch and no node here serves it. `None`
/// otherwise.
pub(super) fn of_others(cx: &Context<'_>, genesis: &Genesis) -> Option<String> {
    let served = cx.known_nodes().into_iter().any(|(_, status)| {
        let etcd = status.etcd.known();
        etcd.is_some_and(|etcd| etcd.cluster_id == genesis.cluster_id)
    });
    if served
        || genesis
            .electorate
            .keys()
            .any(|node| cx.spec.nodes.contains_key(node))
    {
        return None;
    }
    let cluster = &cx.spec.cluster;
    Some(format!(
        "epoch {} of {cluster} belongs to {}, and cluster.nodes here names none of them: nothing is done here. If they \
         are permanently lost, `etcd-agent restore latest --replace-electorate {cluster}` restores the newest backup \
         here; if that cluster still runs, use another cluster.name or store.url",
        genesis.epoch,
        names(genesis.electorate.keys())
    ))
}

/// Reports which votes a new epoch lacks, if any, and what would help. It needs a majority of the electors
/// here, and a majority of the electors of the epoch that it replaces.
pub(super) fn report_missing(cx: &mut Context<'_>, gone: &BTreeSet<NodeName>) {
    let here: Vec<&NodeName> = cx.spec.nodes.keys().collect();
    let former: Vec<&NodeName> = replaced(cx)
        .into_iter()
        .flat_map(|genesis| genesis.electorate.keys())
        .filter(|node| !gone.contains(*node))
        .collect();
    let of = replaced(cx).map_or_else(String::new, |genesis| format!(" of epoch {}", genesis.epoch));
    let texts: Vec<String> = [lacking(cx, &here, ""), lacking(cx, &former, &of)]
        .into_iter()
        .flatten()
        .collect();
    // Both texts are usually the same.
    if let Some(text) = texts.first() {
        cx.because(ReasonCode::VotesMissing, text);
    }
}

/// What one electorate lacks, if anything.
fn lacking(cx: &Context<'_>, electorate: &[&NodeName], of: &str) -> Option<String> {
    let (can, cannot): (Vec<&NodeName>, Vec<&NodeName>) =
        electorate.iter().partition(|node| may_vote(cx, node));
    if electorate.is_empty() || can.len() > cannot.len() {
        return None;
    }
    let why: Vec<String> = cannot.into_iter().map(|node| why_not(cx, node)).collect();
    Some(format!(
        "a new epoch needs the votes of {} of {} electors{of}, and {} can vote: {}",
        electorate.len() / 2 + 1,
        electorate.len(),
        names(can),
        why.join("; ")
    ))
}

fn may_vote(cx: &Context<'_>, node: &NodeName) -> bool {
    let digest = &cx.obs.me.electorate_digest;
    cx.status_of(node)
        .is_some_and(|status| status.eligible && status.electorate_digest == *digest)
}

/// Why an elector has no vote now, and what would help.
fn why_not(cx: &Context<'_>, node: &NodeName) -> String {
    match cx.status_of(node) {
        None if !cx.spec.nodes.contains_key(node) => {
            format!(
                "cluster.nodes here does not name {node}: if it is permanently lost, add `--without {node}`"
            )
        }
        None => format!(
            "{node} does not answer: start its agent, or remove it from cluster.nodes if it is permanently lost"
        ),
        Some(status) if status.electorate_digest != cx.obs.me.electorate_digest => {
            format!("{node} has another cluster.nodes: make them the same on all nodes")
        }
        Some(_) => format!(
            "the memory of {node} is new: it votes once every other elector or the shared store has answered it"
        ),
    }
}
