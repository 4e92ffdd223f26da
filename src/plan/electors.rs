//! The votes that an epoch needs. A new memory regains its own in the background, whatever the epoch: hosts that are
//! replaced one by one would else take the majority of votes with them. An order that lacks votes says whose.

use std::collections::BTreeSet;
use std::time::Duration;

use super::context::{Context, names};
use crate::model::{Action, Epoch, Genesis, NodeName, OperatorRequest, ReasonCode, memories_lost};

/// The pause after the first enquiry in the background that failed.
const FIRST_PAUSE: Duration = Duration::from_millis(500);
/// The longest pause. All that an enquiry needs answered a moment ago, so it costs little.
const LONGEST_PAUSE: Duration = Duration::from_secs(10);

/// Enquires with a new memory once that can bring back the vote: all other electors answer, or the shared store does.
pub(super) fn regain(cx: &mut Context<'_>) -> Option<Action> {
    if cx.obs.elector.eligible || mutant!(MemoriesStayNew) {
        return None;
    }
    let nobody = BTreeSet::new();
    let said = [ReasonCode::NewMemory, ReasonCode::MemoriesLost];
    if !cx.reasons().iter().any(|r| said.contains(&r.code)) {
        say_new_memory(cx, &nobody);
    }
    let store_answers = cx.spec.store_shared && cx.obs.store.known().is_some();
    let all_answer = cx.silent().is_empty() && !too_few_remember(cx);
    if !store_answers && !all_answer {
        return None;
    }
    cx.may_try("enquire", FIRST_PAUSE, LONGEST_PAUSE)
        .then_some(Action::Enquire { without: nobody })
}

/// More electors than can be done without have lost their memory since the newest epoch: asking them is not enough.
fn too_few_remember(cx: &Context<'_>) -> bool {
    let names = cx.spec.nodes.keys().cloned().collect();
    memories_lost(cx.genesis(), &cx.spec.node, &names, &cx.obs.elector.superseded)
}

/// Reports what a new memory waits for before it votes. Returns the electors that have not answered.
pub(super) fn say_new_memory<'a>(cx: &mut Context<'a>, without: &BTreeSet<NodeName>) -> Vec<&'a NodeName> {
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
                "this elector's memory is new: it votes once it has heard from {} (or the shared store, or \
                 `etcd-agent {command} --without NODE` for those gone for good)",
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
                "{who} have lost their memory, and with it perhaps an epoch that they had chosen: this elector takes no part in \
                 opening another one until the shared store tells the newest epoch; an operator who orders `etcd-agent \
                 {command}` here and knows that no {knows} was opened adds `--without NODE`, naming one of them"
            ),
        );
    }
    missing
}

/// The newest genesis, known here or in the store: its electors are asked whether another epoch may be opened.
pub(super) fn replaced<'a>(cx: &Context<'a>) -> Option<&'a Genesis> {
    cx.genesis()
        .into_iter()
        .chain(cx.stored_genesis())
        .max_by_key(|genesis| genesis.epoch)
}

/// The electors that the person who ordered this restore has declared gone for good.
///
/// # Errors
/// What the order has to add: otherwise no elector could be asked whether the cluster still runs. One line.
pub(super) fn gone(cx: &Context<'_>, request: &OperatorRequest) -> Result<BTreeSet<NodeName>, String> {
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
        "epoch {} of {cluster} was opened by {}, and cluster.nodes here does not name {}: nobody can ask there whether that \
         cluster lives on. If they are gone for good, add your word to the command: `{}`, or \
         `--replace-electorate {cluster}` for all of them. If that cluster lives, leave it alone: take another \
         cluster.name or store.url. Nothing was changed",
        genesis.epoch,
        names(former()),
        names(unknown),
        words.join(" ")
    ))
}

/// The newest epoch is of hosts with other names, and nobody here serves it: what a person can do.
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
        "epoch {} of {cluster} belongs to {}, and cluster.nodes here names none of them: nothing is done beside it. If they \
         are gone for good, `etcd-agent restore latest --replace-electorate {cluster}` brings the newest backup back here; \
         if that cluster lives, take another cluster.name or store.url",
        genesis.epoch,
        names(genesis.electorate.keys())
    ))
}

/// Says which votes a new epoch lacks, where it lacks any, and what would help: a majority of the electors here, and of
/// those of the epoch that it replaces.
pub(super) fn say_missing(cx: &mut Context<'_>, gone: &BTreeSet<NodeName>) {
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
    // Mostly both are the same.
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
            format!("cluster.nodes here does not name {node}: if it is gone for good, say `--without {node}`")
        }
        None => format!(
            "{node} does not answer: start its agent, or take it out of cluster.nodes if it is gone for good"
        ),
        Some(status) if status.electorate_digest != cx.obs.me.electorate_digest => {
            format!("{node} has another cluster.nodes: make them the same on all nodes")
        }
        Some(_) => format!(
            "the memory of {node} is new: it votes once it has heard from every other elector or from the shared store"
        ),
    }
}
