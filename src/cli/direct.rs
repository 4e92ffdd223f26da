//! Shared by the commands that give an order to the whole cluster.

use std::fmt::Write;

use super::client::Client;
use super::decision::{decided, why};
use super::exit::{Exit, Failure, Outcome};
use super::health;
use super::out::Output;
use super::progress::{Progress, note};
use super::wait::{self, Deadline, Timeout};
use crate::model::{AdminStatus, DirectiveChange, DirectiveOrder, DirectiveView, Directives, Fact, NodeName};

/// Options of every order.
#[derive(Debug, Clone, Copy, clap::Args)]
pub(super) struct OrderArgs {
    /// Change nothing; show what would happen
    #[arg(long)]
    pub dry_run: bool,
    #[command(flatten)]
    pub output: Output,
}

/// Gives an order to the agent of this host, which distributes it.
pub(super) async fn order(
    client: &Client,
    change: DirectiveChange,
    args: OrderArgs,
) -> Result<DirectiveView, Failure> {
    force(client, change, args, false).await
}

/// Gives an order that may be forced.
pub(super) async fn force(
    client: &Client,
    change: DirectiveChange,
    args: OrderArgs,
    force: bool,
) -> Result<DirectiveView, Failure> {
    let order = DirectiveOrder {
        change,
        dry_run: args.dry_run,
        force,
    };
    Ok(client.post("/v1/directives", &order).await?)
}

/// Refuses a node that the configuration does not have.
pub(super) fn known(status: &AdminStatus, node: &NodeName) -> Result<(), Failure> {
    if *node == status.node.node || status.peers.contains_key(node) {
        return Ok(());
    }
    let mut all: Vec<&str> = status
        .peers
        .keys()
        .chain([&status.node.node])
        .map(NodeName::as_str)
        .collect();
    all.sort_unstable();
    Err(Failure::new(
        Exit::Usage,
        format!(
            "{node} is not a node of this cluster; its nodes are: {}",
            all.join(", ")
        ),
    ))
}

/// Shows what would happen.
pub(super) fn preview(view: &DirectiveView, args: OrderArgs) -> Outcome {
    args.output.print(view, render)?;
    Ok(Exit::Ok)
}

/// The steps in words, and what this agent would decide first. Without an action of its own it waits for
/// others: that is not "nothing to do".
pub(super) fn render(view: &DirectiveView) -> String {
    let mut text = String::from("Nothing was changed. What would follow:\n");
    for (number, step) in (1..).zip(&view.steps) {
        let _ = writeln!(text, "  {number}. {step}");
    }
    if let Some(decision) = &view.decision {
        text.push_str("\nThe first decision of this node's agent:\n");
        if decision.action.is_some() {
            text.push_str(&decided(decision));
        } else {
            text.push_str(
                "No action on this node yet; other nodes, or a later decision, carry the order out.\n",
            );
            text.push_str(&why(decision));
        }
    }
    text
}

/// Reports that an order was given.
pub(super) fn report(view: &DirectiveView, silent: &Silent, said: &str, args: OrderArgs) -> Outcome {
    args.output.print(view, |_| said.to_owned())?;
    for line in &silent.0 {
        note(line);
    }
    Ok(Exit::Ok)
}

/// The nodes that did not answer, one line each.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Silent(pub Vec<String>);

/// How far an order is distributed.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Spread {
    /// All reachable agents have it.
    Everywhere(Silent),
    /// These have not adopted it yet.
    Waits(String),
    /// A newer order from elsewhere replaced it.
    Overruled(String),
}

/// Whether every reachable agent has adopted the order.
pub(super) fn spread(status: &AdminStatus, order: &Directives) -> Spread {
    let mine = &status.node.steering.directives;
    if mine != order && mine.is_newer_than(order) {
        let by = mine.by.as_ref().map_or("somebody", |by| by.as_str());
        return Spread::Overruled(format!(
            "another order was given at {by} at the same moment and holds instead: see `etcd-agent status`, then try again"
        ));
    }
    let behind = behind(status, order);
    if !behind.is_empty() {
        return Spread::Waits(not_adopted(&behind));
    }
    let silent = status.peers.iter().filter_map(|(node, seen)| match seen {
        Fact::Known(_) => None,
        Fact::Absent => Some(format!(
            "{node} has never answered: it gets the order when it answers"
        )),
        Fact::Unreachable(why) => Some(format!(
            "{node} does not answer, it gets the order when it answers again: {why}"
        )),
    });
    Spread::Everywhere(Silent(silent.collect()))
}

/// The reachable agents that have not adopted an order yet.
pub(super) fn behind<'a>(status: &'a AdminStatus, order: &Directives) -> Vec<&'a str> {
    health::nodes(status)
        .filter(|(_, seen)| {
            seen.known()
                .is_some_and(|seen| order.is_newer_than(&seen.steering.directives))
        })
        .map(|(node, _)| node.as_str())
        .collect()
}

/// Names the agents that have not adopted it.
pub(super) fn not_adopted(nodes: &[&str]) -> String {
    format!("not adopted yet by {}", nodes.join(", "))
}

/// Waits until every reachable agent has adopted an order.
pub(super) async fn taken_over(
    client: &Client,
    order: &Directives,
    timeout: Timeout,
) -> Result<Silent, Failure> {
    let deadline = Deadline::after(timeout.timeout);
    let mut progress = Progress::new();
    let work = async {
        loop {
            match wait::status(client).await? {
                Err(text) => progress.say(&text),
                Ok(status) => match spread(&status, order) {
                    Spread::Everywhere(silent) => return Ok(silent),
                    Spread::Waits(text) => progress.say(&text),
                    Spread::Overruled(text) => return Err(Failure::failed(text)),
                },
            }
            deadline.next("the order", &progress).await?;
        }
    };
    wait::or_interrupted(
        work,
        "the order was given, and is still distributed to every agent",
    )
    .await
}
