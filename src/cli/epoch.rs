//! `etcd-agent epoch confirm`: an operator confirms a newer epoch that the electors can neither confirm nor
//! deny.

use std::collections::BTreeMap;

use super::client::Client;
use super::confirm::{Yes, on_a_terminal};
use super::direct::{self, OrderArgs};
use super::exit::{Exit, Failure, Outcome};
use super::progress::Progress;
use super::wait::{self, Deadline, Timeout};
use crate::model::{DirectiveView, Epoch, Genesis, NodeName, Observation, OperatorRequest, PlanView};
use crate::paths::Paths;

/// Confirm a newer epoch that too few electors are left to confirm
#[derive(Debug, clap::Subcommand)]
pub(super) enum EpochVerb {
    /// Follow a newer epoch that other nodes report, when too few electors are left to confirm it
    Confirm(ConfirmArgs),
}

/// Follow a newer epoch that other nodes report, when too few electors are left to confirm it
#[derive(Debug, clap::Args)]
pub(super) struct ConfirmArgs {
    /// The epoch, which I vouch was opened; `etcd-agent plan` shows it with the reason `epoch-hearsay`
    epoch: u64,
    #[command(flatten)]
    yes: Yes,
    #[command(flatten)]
    order: OrderArgs,
    #[command(flatten)]
    timeout: Timeout,
}

pub(super) async fn run(paths: &Paths, verb: EpochVerb) -> Outcome {
    let EpochVerb::Confirm(args) = verb;
    confirm(paths, args, on_a_terminal()).await
}

async fn confirm(paths: &Paths, args: ConfirmArgs, terminal: bool) -> Outcome {
    args.yes.require(args.order.dry_run, terminal)?;
    let client = Client::new(paths);
    let seen: PlanView = client.get("/v1/plan").await?;
    let (genesis, sources) = meant(&seen.observation, Epoch(args.epoch))?;
    let request = OperatorRequest::ConfirmEpoch {
        epoch: genesis.epoch,
        token: genesis.token.clone(),
    };
    if args.order.dry_run {
        let view: DirectiveView = client.post("/v1/preview", &request).await?;
        return direct::preview(&view, args.order);
    }
    args.yes
        .confirm(&warning(&seen.observation, &genesis, &sources))?;
    let deadline = Deadline::after(args.timeout.timeout);
    let mut progress = Progress::new();
    let view = wait::submit(&client, &request).await?;
    let work = wait::done(&client, view, &deadline, &mut progress);
    let view = wait::or_interrupted(work, "the agent has the order and continues").await?;
    drop(progress);
    args.order.output.print(&view, |view| view.message.clone())?;
    Ok(Exit::Ok)
}

/// The one genesis of this epoch that is reported, and its sources.
pub(super) fn meant(seen: &Observation, epoch: Epoch) -> Result<(Genesis, Vec<String>), Failure> {
    let mut reported: BTreeMap<String, (Genesis, Vec<String>)> = BTreeMap::new();
    let mut tell = |who: &str, genesis: Option<&Genesis>| {
        if let Some(genesis) = genesis.filter(|g| g.epoch == epoch && g.cluster == seen.spec.cluster) {
            let sources = reported.entry(genesis.token.clone());
            sources
                .or_insert_with(|| (genesis.clone(), Vec::new()))
                .1
                .push(who.to_owned());
        }
    };
    for (node, peer) in &seen.peers {
        tell(
            node.as_str(),
            peer.known().and_then(|status| status.genesis.as_ref()),
        );
    }
    tell(
        "the store",
        seen.store.known().and_then(|store| store.genesis.as_ref()),
    );
    tell(seen.spec.node.as_str(), seen.me.genesis.as_ref());
    let different = reported.len();
    let mut reported = reported.into_values();
    match (reported.next(), different) {
        (Some(one), 1) => Ok(one),
        (Some(first), _) => {
            let all = [first].into_iter().chain(reported);
            let all: Vec<String> = all
                .map(|(genesis, sources)| format!("{} (reported by {})", genesis.token, sources.join(", ")))
                .collect();
            Err(Failure::refused(format!(
                "different geneses of epoch {epoch} are reported: {}. Find out which one was opened, and stop the agent that \
                 reports the other, or delete its record `control/epochs/{epoch}` in the store",
                all.join("; ")
            )))
        }
        (None, _) => Err(Failure::refused(format!(
            "no node that answers, and no store, reports epoch {epoch}: `etcd-agent plan` shows what is reported"
        ))),
    }
}

/// Describes what is confirmed, and the consequences.
pub(super) fn warning(seen: &Observation, genesis: &Genesis, sources: &[String]) -> String {
    let members: Vec<&str> = genesis.members.keys().map(NodeName::as_str).collect();
    format!(
        "Epoch {} ({}), from {}, began with {}. It is reported by {}, and too few electors are left to confirm it.\n\
         {} will follow it: an etcd of an older epoch stops, and its data goes into the archive.",
        genesis.epoch,
        genesis.token,
        genesis.origin,
        members.join(", "),
        sources.join(", "),
        seen.spec.node,
    )
}
