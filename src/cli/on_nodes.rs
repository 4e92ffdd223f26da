//! What `etcd-agent restart` and `etcd-agent defrag` share: an order for one node or for all, carried out on one
//! after the other by grants of the coordinator.

use std::collections::BTreeSet;

use super::client::{CallError, Client};
use super::confirm::Yes;
use super::direct::{self, OrderArgs, Silent};
use super::exit::{Failure, Outcome};
use super::health;
use super::progress::Progress;
use super::wait::{self, Deadline, Timeout};
use crate::model::{AdminStatus, DirectiveChange, Directives, NodeName, NodeOrder, Steering};
use crate::paths::Paths;

/// On which nodes.
#[derive(Debug, clap::Args)]
pub(super) struct NodeArgs {
    /// The node; default: this node
    #[arg(conflicts_with = "rolling")]
    node: Option<NodeName>,
    /// On every node that has a member, one after the other
    #[arg(long)]
    rolling: bool,
    /// Cancel the remaining part of an earlier order
    #[arg(long, conflicts_with_all = ["node", "rolling"])]
    cancel: bool,
    #[command(flatten)]
    yes: Yes,
    #[command(flatten)]
    order: OrderArgs,
    #[command(flatten)]
    timeout: Timeout,
}

/// An order that a node has not carried out yet.
pub(super) struct Undone<'a> {
    pub(super) order: u64,
    /// The error of its last attempt.
    pub(super) error: Option<&'a str>,
}

/// What is done on each node.
pub(super) struct Work {
    /// E.g. "restart".
    pub(super) noun: &'static str,
    /// E.g. "restart".
    pub(super) verb: &'static str,
    /// E.g. "restarted".
    pub(super) done: &'static str,
    /// The order for these nodes.
    pub(super) order: fn(BTreeSet<NodeName>) -> DirectiveChange,
    /// The order that withdraws it.
    pub(super) cancel: DirectiveChange,
    /// The order in the register.
    pub(super) ordered: fn(&Directives) -> Option<&NodeOrder>,
    /// The order that a node has not carried out yet.
    pub(super) wish: fn(&Steering) -> Option<Undone<'_>>,
    /// True while a node that has the wish is at work.
    pub(super) is_begun: fn(&Steering) -> bool,
}

pub(super) async fn run(paths: &Paths, args: NodeArgs, work: &Work) -> Outcome {
    let client = Client::new(paths);
    let Work { noun, done, .. } = work;
    if args.cancel {
        let view = direct::order(&client, work.cancel.clone(), args.order).await?;
        if args.order.dry_run {
            return direct::preview(&view, args.order);
        }
        let said = if view.changed {
            "withdrawn".to_owned()
        } else {
            format!("no {noun} was ordered")
        };
        return direct::report(&view, &Silent::default(), &said, args.order);
    }
    let seen = look(&client, args.rolling).await?;
    let nodes = meant(&seen, args.node, args.rolling, work)?;
    if !args.order.dry_run {
        let names: Vec<&str> = nodes.iter().map(NodeName::as_str).collect();
        args.yes.ask(&format!(
            "etcd is {done} on {}, one node at a time.",
            names.join(", ")
        ))?;
    }
    let view = direct::order(&client, (work.order)(nodes), args.order).await?;
    if args.order.dry_run {
        return direct::preview(&view, args.order);
    }
    let waits = until_done(&client, &view.directives, args.timeout, work);
    let fate = format!("the {noun} goes on; the same command with --cancel withdraws what is not done yet");
    wait::or_interrupted(waits, &fate).await?;
    direct::report(
        &view,
        &Silent::default(),
        &format!("{done}, and healthy"),
        args.order,
    )
}

/// The status. For an order for all it comes from a new look, because an etcd may have come up a moment ago; an agent
/// that is too busy to look again answers with its last look.
async fn look(client: &Client, rolling: bool) -> Result<AdminStatus, CallError> {
    if rolling {
        match client.get("/v1/status/fresh").await {
            Err(CallError::Answered { status: 503, .. }) => {}
            answer => return answer,
        }
    }
    client.get("/v1/status").await
}

/// The nodes that are meant; each must have a member. An order for all includes members whose etcd does not answer yet:
/// it waits for them. One that was left out would not be restarted, and nobody would see it.
pub(super) fn meant(
    seen: &AdminStatus,
    node: Option<NodeName>,
    rolling: bool,
    work: &Work,
) -> Result<BTreeSet<NodeName>, Failure> {
    let mut members: BTreeSet<NodeName> = health::nodes(seen)
        .filter(|(_, seen)| seen.known().is_some_and(|seen| seen.etcd.known().is_some()))
        .map(|(node, _)| node.clone())
        .collect();
    if rolling {
        let listed = health::newest_list(seen);
        let is_listed = |node: &NodeName| listed.is_some_and(|list| list.has_node(node));
        let listed = health::nodes(seen)
            .map(|(node, _)| node)
            .filter(|node| is_listed(node));
        members.extend(listed.cloned());
        if members.is_empty() {
            return Err(Failure::refused(format!(
                "no etcd runs on any node: there is nothing to {}",
                work.verb
            )));
        }
        return Ok(members);
    }
    let node = node.unwrap_or_else(|| seen.node.node.clone());
    direct::known(seen, &node)?;
    if !members.contains(&node) {
        return Err(Failure::refused(format!(
            "no etcd that answers runs on {node}: there is nothing to {}",
            work.verb
        )));
    }
    Ok([node].into())
}

async fn until_done(
    client: &Client,
    order: &Directives,
    timeout: Timeout,
    work: &Work,
) -> Result<(), Failure> {
    let deadline = Deadline::after(timeout.timeout);
    let mut progress = Progress::new();
    loop {
        match wait::status(client).await? {
            Err(text) => progress.say(&text),
            Ok(status) => match progress_of(&status, order, work) {
                NodeProgress::Done => return Ok(()),
                NodeProgress::Waits(text) => progress.say(&text),
                NodeProgress::Overruled(text) => return Err(Failure::failed(text)),
            },
        }
        deadline.next(&format!("the {}", work.noun), &progress).await?;
    }
}

/// The progress of an order.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum NodeProgress {
    /// All are done, and healthy.
    Done,
    /// What it waits for.
    Waits(String),
    /// It was replaced by another order, or cancelled.
    Overruled(String),
}

/// The progress of an order, as this agent sees it.
pub(super) fn progress_of(status: &AdminStatus, order: &Directives, work: &Work) -> NodeProgress {
    let Some(wanted) = (work.ordered)(order) else {
        return NodeProgress::Done;
    };
    let mine = &status.node.steering.directives;
    if mine.is_newer_than(order) && (work.ordered)(mine) != Some(wanted) {
        return NodeProgress::Overruled(
            "another order took its place, or it was withdrawn: see `etcd-agent status`".to_owned(),
        );
    }
    let behind = direct::behind(status, order);
    if !behind.is_empty() {
        return NodeProgress::Waits(direct::not_adopted(&behind));
    }
    let serving = health::serving(status);
    let mut done = 0;
    let (mut begun, mut down, mut failed, mut waiting) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    for (node, seen) in health::nodes(status).filter(|(node, _)| wanted.nodes.contains(*node)) {
        let steering = seen.known().map(|seen| &seen.steering);
        let wish = steering
            .and_then(work.wish)
            .filter(|undone| undone.order == wanted.id);
        let name = node.as_str().to_owned();
        match wish {
            Some(_) if steering.is_some_and(work.is_begun) => begun.push(name),
            Some(Undone {
                error: Some(error), ..
            }) => failed.push(format!("{node} ({error})")),
            Some(_) => waiting.push(name),
            None if serving.contains_key(node) => done += 1,
            None => down.push(name),
        }
    }
    if done == wanted.nodes.len() {
        return NodeProgress::Done;
    }
    let mut text = format!("{done} of {} {}", wanted.nodes.len(), work.done);
    let rest = [
        ("under way", begun),
        ("not serving", down),
        ("failed", failed),
        ("to come", waiting),
    ];
    for (what, nodes) in rest.into_iter().filter(|(_, nodes)| !nodes.is_empty()) {
        text = format!("{text}; {what}: {}", nodes.join(", "));
    }
    NodeProgress::Waits(text)
}
