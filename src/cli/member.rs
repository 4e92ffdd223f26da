//! `etcd-agent member remove|add`; `members.rs` has `member list`.

use super::client::Client;
use super::confirm::Yes;
use super::direct::{self, OrderArgs, Silent};
use super::exit::{Failure, Outcome};
use super::health;
use super::out::Output;
use super::progress::Progress;
use super::wait::{self, Deadline, Timeout};
use crate::model::{AdminStatus, DirectiveChange, Directives, MemberList, NodeName};
use crate::paths::Paths;

/// List members, remove one, or allow one again
#[derive(Debug, clap::Subcommand)]
pub(super) enum MemberVerb {
    /// List etcd's members
    List(Output),
    #[command(flatten)]
    Change(MemberChange),
}

/// Changes of the membership.
#[derive(Debug, clap::Subcommand)]
pub(super) enum MemberChange {
    /// Remove the member of a node, which stays out until `member add`
    ///
    /// Waits until it is removed.
    Remove {
        /// The node.
        node: NodeName,
        /// Also when the cluster then stays below its size
        #[arg(long)]
        force: bool,
        /// Without a question.
        #[command(flatten)]
        yes: Yes,
        /// Options of every order.
        #[command(flatten)]
        order: OrderArgs,
        /// Deadline.
        #[command(flatten)]
        timeout: Timeout,
    },
    /// Allow a node to become a member again, when one is missing
    Add {
        /// The node.
        node: NodeName,
        /// Options of every order.
        #[command(flatten)]
        order: OrderArgs,
        /// Deadline.
        #[command(flatten)]
        timeout: Timeout,
    },
}

pub(super) async fn run(paths: &Paths, change: MemberChange) -> Outcome {
    let client = Client::new(paths);
    let seen: AdminStatus = client.get("/v1/status").await?;
    match change {
        MemberChange::Remove {
            node,
            force,
            yes,
            order,
            timeout,
        } => {
            direct::known(&seen, &node)?;
            if !order.dry_run {
                yes.ask(&format!(
                    "The member of {node} is removed, and {node} stays out until `etcd-agent member add {node}`."
                ))?;
            }
            let change = DirectiveChange::Remove { node: node.clone() };
            let view = direct::force(&client, change, order, force).await?;
            if order.dry_run {
                return direct::preview(&view, order);
            }
            let fate = format!("the order stays in force, and `etcd-agent member add {node}` withdraws it");
            wait::or_interrupted(until_out(&client, &view.directives, &node, timeout), &fate).await?;
            direct::report(
                &view,
                &Silent::default(),
                &format!("{node} is not a member"),
                order,
            )
        }
        MemberChange::Add { node, order, timeout } => {
            direct::known(&seen, &node)?;
            let change = DirectiveChange::Add { node: node.clone() };
            let view = direct::order(&client, change, order).await?;
            if order.dry_run {
                return direct::preview(&view, order);
            }
            let silent = direct::taken_over(&client, &view.directives, timeout).await?;
            let said = format!("{node} may be a member: it joins when one is missing");
            direct::report(&view, &silent, &said, order)
        }
    }
}

async fn until_out(
    client: &Client,
    order: &Directives,
    node: &NodeName,
    timeout: Timeout,
) -> Result<(), Failure> {
    let deadline = Deadline::after(timeout.timeout);
    let mut progress = Progress::new();
    loop {
        match wait::status(client).await? {
            Err(text) => progress.say(&text),
            Ok(status) => {
                let mine = &status.node.steering.directives;
                if mine.is_newer_than(order) && !mine.out.contains(node) {
                    return Err(Failure::failed(format!(
                        "the removal of {node} was withdrawn meanwhile, or another order came first"
                    )));
                }
                match listed(&status, node) {
                    Some(false) => return Ok(()),
                    Some(true) => progress.say(&format!("{node} is still a member")),
                    None => progress.say("no leader can be reached"),
                }
            }
        }
        deadline.next("the removal", &progress).await?;
    }
}

/// Whether a node has a member, as the raft leader's agent reports; `None` when that is not known.
pub(super) fn listed(status: &AdminStatus, node: &NodeName) -> Option<bool> {
    let list: &MemberList = health::nodes(status).find_map(|(_, seen)| {
        let seen = seen.known().copied()?;
        let etcd = seen.etcd.known()?;
        seen.members
            .known()
            .filter(|list| etcd.leader == Some(etcd.member_id) && list.linearizable)
    })?;
    let its = health::nodes(status)
        .find(|(name, _)| *name == node)
        .and_then(|(_, seen)| {
            seen.known()
                .and_then(|seen| seen.assignment.as_ref().map(|a| a.member_id))
        });
    let here = |member: &crate::model::Member| member.name == node.as_str() || Some(member.id) == its;
    Some(list.members.iter().any(here))
}
