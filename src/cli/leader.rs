//! `etcd-agent move-leader`.

use super::client::Client;
use super::direct::{self, OrderArgs};
use super::exit::{Exit, Outcome};
use super::progress::Progress;
use super::wait::{self, Deadline, Timeout};
use crate::model::{AdminStatus, DirectiveView, MemberId, NodeName, OperatorRequest, SteadyMs};
use crate::paths::Paths;

/// Let another member lead, and wait until it does
#[derive(Debug, clap::Args)]
pub(super) struct MoveArgs {
    /// The node of the new leader; default: the healthy follower with the longest log
    node: Option<NodeName>,
    #[command(flatten)]
    order: OrderArgs,
    #[command(flatten)]
    timeout: Timeout,
}

pub(super) async fn run(paths: &Paths, args: MoveArgs) -> Outcome {
    let client = Client::new(paths);
    if let Some(node) = &args.node {
        let seen: AdminStatus = client.get("/v1/status").await?;
        direct::known(&seen, node)?;
    }
    let request = OperatorRequest::MoveLeader {
        to: args.node,
        from: None::<MemberId>,
        id: 0,
        asked: SteadyMs(0),
    };
    if args.order.dry_run {
        let view: DirectiveView = client.post("/v1/preview", &request).await?;
        return direct::preview(&view, args.order);
    }
    let deadline = Deadline::after(args.timeout.timeout);
    let mut progress = Progress::new();
    let view = wait::submit(&client, &request).await?;
    let work = wait::done(&client, view, &deadline, &mut progress);
    let view = wait::or_interrupted(work, "the leader may still move, within 30 s").await?;
    drop(progress);
    args.order.output.print(&view, |view| view.message.clone())?;
    Ok(Exit::Ok)
}
