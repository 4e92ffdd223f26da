//! `etcd-agent restart`: etcd on one node or on all, one after the other, by grants of the coordinator.

use std::collections::BTreeSet;

use super::client::Client;
use super::direct::{self, OrderArgs, Silent};
use super::exit::{Failure, Outcome};
use super::health;
use super::progress::Progress;
use super::wait::{self, Deadline, Timeout};
use crate::model::{AdminStatus, DirectiveChange, Directives, NodeName};
use crate::paths::Paths;

/// Restart etcd, each member only while all others are healthy, the raft leader last; waits until all are
/// healthy again
#[derive(Debug, clap::Args)]
pub(super) struct RestartArgs {
    /// The node; default: this node
    #[arg(conflicts_with = "rolling")]
    node: Option<NodeName>,
    /// On every node that has a member, one after the other
    #[arg(long)]
    rolling: bool,
    /// Cancel the remaining part of an ordered restart
    #[arg(long, conflicts_with_all = ["node", "rolling"])]
    cancel: bool,
    #[command(flatten)]
    order: OrderArgs,
    #[command(flatten)]
    timeout: Timeout,
}

pub(super) async fn run(paths: &Paths, args: RestartArgs) -> Outcome {
    let client = Client::new(paths);
    let seen: AdminStatus = client.get("/v1/status").await?;
    if args.cancel {
        let view = direct::order(&client, DirectiveChange::CancelRestart, args.order).await?;
        if args.order.dry_run {
            return direct::preview(&view, args.order);
        }
        let said = if view.changed {
            "withdrawn"
        } else {
            "no restart was ordered"
        };
        return direct::report(&view, &Silent::default(), said, args.order);
    }
    let nodes = meant(&seen, args.node, args.rolling)?;
    let view = direct::order(&client, DirectiveChange::Restart { nodes }, args.order).await?;
    if args.order.dry_run {
        return direct::preview(&view, args.order);
    }
    let work = until_done(&client, &view.directives, args.timeout);
    wait::or_interrupted(
        work,
        "the restart goes on; `etcd-agent restart --cancel` withdraws what is not done yet",
    )
    .await?;
    direct::report(&view, &Silent::default(), "restarted, and healthy", args.order)
}

/// The nodes to restart; each must have a member.
fn meant(seen: &AdminStatus, node: Option<NodeName>, rolling: bool) -> Result<BTreeSet<NodeName>, Failure> {
    let members: BTreeSet<NodeName> = health::nodes(seen)
        .filter(|(_, seen)| seen.known().is_some_and(|seen| seen.etcd.known().is_some()))
        .map(|(node, _)| node.clone())
        .collect();
    if rolling {
        if members.is_empty() {
            return Err(Failure::refused(
                "no etcd runs on any node: there is nothing to restart",
            ));
        }
        return Ok(members);
    }
    let node = node.unwrap_or_else(|| seen.node.node.clone());
    direct::known(seen, &node)?;
    if !members.contains(&node) {
        return Err(Failure::refused(format!(
            "no etcd that answers runs on {node}: there is nothing to restart"
        )));
    }
    Ok([node].into())
}

async fn until_done(client: &Client, order: &Directives, timeout: Timeout) -> Result<(), Failure> {
    let deadline = Deadline::after(timeout.timeout);
    let mut progress = Progress::new();
    loop {
        match wait::status(client).await? {
            Err(text) => progress.say(&text),
            Ok(status) => match restart_progress(&status, order) {
                RestartProgress::Done => return Ok(()),
                RestartProgress::Waits(text) => progress.say(&text),
                RestartProgress::Overruled(text) => return Err(Failure::failed(text)),
            },
        }
        deadline.next("the restart", &progress).await?;
    }
}

/// The progress of a restart.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum RestartProgress {
    /// All are restarted, and healthy.
    Done,
    /// What it waits for.
    Waits(String),
    /// It was replaced by another order, or cancelled.
    Overruled(String),
}

/// The progress of an ordered restart, as this agent sees it.
pub(super) fn restart_progress(status: &AdminStatus, order: &Directives) -> RestartProgress {
    let Some(wanted) = &order.restart else {
        return RestartProgress::Done;
    };
    let mine = &status.node.steering.directives;
    if mine.is_newer_than(order) && mine.restart.as_ref() != Some(wanted) {
        return RestartProgress::Overruled(
            "another order took its place, or it was withdrawn: see `etcd-agent status`".to_owned(),
        );
    }
    let behind = direct::behind(status, order);
    if !behind.is_empty() {
        return RestartProgress::Waits(direct::not_adopted(&behind));
    }
    let serving = health::serving(status);
    let (mut done, mut under_way, mut waiting) = (0, Vec::new(), Vec::new());
    for (node, seen) in health::nodes(status).filter(|(node, _)| wanted.nodes.contains(*node)) {
        let wish = seen.known().and_then(|seen| seen.steering.wants_restart.as_ref());
        if wish.is_some_and(|wish| wish.order == Some(wanted.id)) {
            waiting.push(node.as_str());
        } else if serving.contains_key(node) {
            done += 1;
        } else {
            under_way.push(node.as_str());
        }
    }
    if under_way.is_empty() && waiting.is_empty() {
        return RestartProgress::Done;
    }
    let mut text = format!("{done} of {} restarted", wanted.nodes.len());
    for (what, nodes) in [("not serving", under_way), ("to come", waiting)] {
        if !nodes.is_empty() {
            text = format!("{text}; {what}: {}", nodes.join(", "));
        }
    }
    RestartProgress::Waits(text)
}
