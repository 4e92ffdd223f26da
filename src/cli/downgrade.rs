//! `etcd-agent downgrade`: an older version of etcd on all nodes, by etcd's own downgrade (3.6 and newer).

use std::collections::BTreeSet;

use serde::Serialize;

use super::client::Client;
use super::direct::{self, OrderArgs};
use super::exit::{Exit, Failure, Outcome};
use super::health;
use super::progress::note;
use super::upgrade::{back_up, cancel, first, in_words, is_pending, members, next_step, running, until_done};
use super::wait::{self, Deadline, Timeout};
use crate::model::{AdminStatus, DirectiveChange, EtcdVersion, NodeName};
use crate::paths::Paths;

/// Downgrade etcd on all nodes, one after the other, the raft leader last, once etcd has converted its data;
/// takes a backup first, and stops at the first trouble
#[derive(Debug, clap::Args)]
pub(super) struct DowngradeArgs {
    /// The version, e.g. 3.5.35; every node has it on disk, as /opt/etcd-v3.5.35/etcd
    #[arg(long, value_name = "VERSION", required_unless_present = "cancel")]
    to: Option<EtcdVersion>,
    /// Take no backup first
    #[arg(long)]
    no_backup: bool,
    /// Go back to the etcd of before, while a member still runs it
    #[arg(long, conflicts_with_all = ["to", "no_backup"])]
    cancel: bool,
    #[command(flatten)]
    order: OrderArgs,
    #[command(flatten)]
    timeout: Timeout,
}

/// The result of a downgrade.
#[derive(Debug, Serialize)]
struct Downgraded {
    /// False if every node ran the version already.
    changed: bool,
    /// The versions of the steps, in order.
    steps: Vec<EtcdVersion>,
    /// What was done.
    message: String,
}

/// What an operator can do if the older version does not do well.
const WAY_BACK: &str = "the way back: `etcd-agent downgrade --cancel` while a member still runs the newer etcd, \
                        `etcd-agent upgrade` later";

pub(super) async fn run(paths: &Paths, args: DowngradeArgs) -> Outcome {
    let client = Client::new(paths);
    let Some(to) = args.to else {
        return cancel(&client, args.order, args.timeout).await;
    };
    // What is on the disks of other nodes may have changed a moment ago.
    let seen: AdminStatus = client.get("/v1/status/fresh").await?;
    let steps = path(&seen, to).map_err(Failure::refused)?;
    let change = |to| DirectiveChange::Downgrade { to };
    if args.order.dry_run {
        let view = direct::order(&client, change(first(&steps, to)), args.order).await?;
        note(&format!("the way to {to}: {}", in_words(&steps)));
        note(WAY_BACK);
        return direct::preview(&view, args.order);
    }
    if steps.is_empty() && !is_pending(&seen, to) {
        let message = format!("every member runs etcd {to} already");
        return report(false, steps, message, args.order);
    }
    note(WAY_BACK);
    let deadline = Deadline::after(args.timeout.timeout);
    // An order that would be refused takes no backup.
    let trial = OrderArgs {
        dry_run: true,
        ..args.order
    };
    direct::order(&client, change(first(&steps, to)), trial).await?;
    if seen.store.is_none() {
        note("no store is configured: no backup is taken first");
    } else if !args.no_backup && !is_pending(&seen, to) {
        back_up(&client, &deadline).await?;
    }
    let all = if steps.is_empty() { vec![to] } else { steps };
    let fate = "the downgrade goes on; `etcd-agent downgrade --cancel` ends it while a member still runs the newer etcd";
    for step in &all {
        let is_first = *step == first(&all, to);
        let view = next_step(&client, change(*step), args.order, is_first).await?;
        let work = until_done(&client, &view.directives, *step, &deadline);
        wait::or_interrupted(work, fate).await?;
    }
    let message = format!("etcd {to} runs on every member, and all are healthy");
    report(true, all, message, args.order)
}

fn report(changed: bool, steps: Vec<EtcdVersion>, message: String, order: OrderArgs) -> Outcome {
    let done = Downgraded {
        changed,
        steps,
        message,
    };
    order.output.print(&done, |done| done.message.clone())?;
    Ok(Exit::Ok)
}

/// The versions through which etcd gets back to `to`, the last one included: minor by minor, each the newest
/// that all nodes have. Empty if every member runs it.
///
/// # Errors
/// What is missing, for people.
pub(super) fn path(status: &AdminStatus, to: EtcdVersion) -> Result<Vec<EtcdVersion>, String> {
    let versions: BTreeSet<EtcdVersion> = members(status).filter_map(|(_, seen)| running(seen)).collect();
    let Some(mut at) = versions.last().copied() else {
        return Err("no etcd runs on any node: there is nothing to downgrade".to_owned());
    };
    if let Some(oldest) = versions.first().filter(|oldest| **oldest < to) {
        return Err(format!(
            "a member runs etcd {oldest}, which is older than {to}; an upgrade is not a downgrade"
        ));
    }
    let disks: Vec<(&NodeName, &BTreeSet<EtcdVersion>)> = health::nodes(status)
        .filter_map(|(node, seen)| Some((node, &seen.known()?.etcd_binaries.as_ref()?.versions)))
        .collect();
    // Nothing is begun that cannot be ended.
    let lacks = disks
        .iter()
        .find(|(_, versions)| at != to && !versions.contains(&to));
    if let Some((node, _)) = lacks {
        return Err(format!(
            "{node} has no etcd {to}: unpack the release there, below etcd.versions_dir"
        ));
    }
    let on_all = |version: &EtcdVersion| disks.iter().all(|(_, versions)| versions.contains(version));
    let have: BTreeSet<EtcdVersion> = disks
        .iter()
        .flat_map(|(_, versions)| versions.iter().copied())
        .filter(on_all)
        .collect();
    let mut steps = Vec::new();
    while at != to {
        let Some(why) = at.downgrade_objection(to) else {
            steps.push(to);
            break;
        };
        let possible = |next: &&EtcdVersion| {
            **next > to && next.series() < at.series() && at.downgrade_objection(**next).is_none()
        };
        let Some(next) = have.iter().rfind(possible) else {
            return Err(format!("{why}; no version on the way is on every node"));
        };
        steps.push(*next);
        at = *next;
    }
    Ok(steps)
}
