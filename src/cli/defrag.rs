//! `etcd-agent defrag`: defragments etcd on one node or on all, one after the other, by grants of the
//! coordinator.

use super::exit::Outcome;
use super::on_nodes::{self, NodeArgs, Undone, Work};
use crate::model::DirectiveChange;
use crate::paths::Paths;

/// Defragment etcd on a node, or on all one after the other
///
/// Each member only while all others are healthy, the raft leader last, after another member leads. Waits
/// until all are done.
#[derive(Debug, clap::Args)]
pub(super) struct DefragArgs {
    #[command(flatten)]
    nodes: NodeArgs,
}

const DEFRAG: Work = Work {
    noun: "defragmentation",
    verb: "defragment",
    done: "defragmented",
    order: |nodes| DirectiveChange::Defrag { nodes },
    cancel: DirectiveChange::CancelDefrag,
    ordered: |directives| directives.defrag.as_ref(),
    wish: |steering| {
        let wish = steering.defrag.wish.as_ref()?;
        Some(Undone {
            order: wish.order?,
            error: wish.failed.as_deref(),
        })
    },
    is_begun: |steering| steering.defrag.running,
};

pub(super) async fn run(paths: &Paths, args: DefragArgs) -> Outcome {
    on_nodes::run(paths, args.nodes, &DEFRAG).await
}
