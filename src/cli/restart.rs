//! `etcd-agent restart`: etcd on one node or on all, one after the other, by grants of the coordinator.

use super::exit::Outcome;
use super::on_nodes::{self, NodeArgs, Undone, Work};
use crate::model::DirectiveChange;
use crate::paths::Paths;

/// Restart etcd on a node, or on all one after the other
///
/// Each member only while all others are healthy, the raft leader last, after another member leads. Waits
/// until all are healthy again.
#[derive(Debug, clap::Args)]
pub(super) struct RestartArgs {
    #[command(flatten)]
    nodes: NodeArgs,
}

pub(super) const RESTART: Work = Work {
    noun: "restart",
    verb: "restart",
    done: "restarted",
    order: |nodes| DirectiveChange::Restart { nodes },
    cancel: DirectiveChange::CancelRestart,
    ordered: |directives| directives.restart.as_ref(),
    wish: |steering| {
        let order = steering.wants_restart.as_ref()?.order?;
        Some(Undone { order, error: None })
    },
    is_begun: |_| false,
};

pub(super) async fn run(paths: &Paths, args: RestartArgs) -> Outcome {
    on_nodes::run(paths, args.nodes, &RESTART).await
}
