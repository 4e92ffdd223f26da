//! `etcd-agent pause` and `etcd-agent resume`.

use super::client::Client;
use super::direct::{self, Silent};
use super::exit::Outcome;
use super::wait::Timeout;
use crate::model::DirectiveChange;
use crate::paths::Paths;

/// Suspend automatic actions on all nodes until `resume`
///
/// Requests of operators, and what safety needs, are still carried out.
#[derive(Debug, clap::Args)]
pub(super) struct PauseArgs {
    #[command(flatten)]
    both: Both,
}

/// Resume automatic actions
#[derive(Debug, clap::Args)]
pub(super) struct ResumeArgs {
    #[command(flatten)]
    both: Both,
}

#[derive(Debug, clap::Args)]
struct Both {
    /// Wait until every reachable agent has adopted it, and name the silent ones
    #[arg(long)]
    wait: bool,
    #[command(flatten)]
    order: direct::OrderArgs,
    #[command(flatten)]
    timeout: Timeout,
}

pub(super) async fn pause(paths: &Paths, args: PauseArgs) -> Outcome {
    run(paths, args.both, DirectiveChange::Pause, "paused").await
}

pub(super) async fn resume(paths: &Paths, args: ResumeArgs) -> Outcome {
    run(paths, args.both, DirectiveChange::Resume, "resumed").await
}

async fn run(paths: &Paths, args: Both, change: DirectiveChange, word: &str) -> Outcome {
    let client = Client::new(paths);
    let view = direct::order(&client, change, args.order).await?;
    if args.order.dry_run {
        return direct::preview(&view, args.order);
    }
    let silent = if args.wait {
        direct::taken_over(&client, &view.directives, args.timeout).await?
    } else {
        Silent::default()
    };
    let said = if view.changed {
        word.to_owned()
    } else {
        format!("{word} already")
    };
    direct::report(&view, &silent, &said, args.order)
}
