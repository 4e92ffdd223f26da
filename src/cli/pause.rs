//! `etcd-agent pause` and `etcd-agent resume`.

use super::client::Client;
use super::direct::{self, Silent};
use super::exit::Outcome;
use super::wait::Timeout;
use crate::model::DirectiveChange;
use crate::paths::Paths;

/// Do nothing by itself on any node, until `resume`; what a person asks for goes on
#[derive(Debug, clap::Args)]
pub(super) struct PauseArgs {
    #[command(flatten)]
    both: Both,
}

/// Act by itself again
#[derive(Debug, clap::Args)]
pub(super) struct ResumeArgs {
    #[command(flatten)]
    both: Both,
}

#[derive(Debug, clap::Args)]
struct Both {
    /// Wait until every agent in reach has taken it over, and say who is silent
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
