//! `etcd-agent reboot-lock acquire|release`.

use std::time::Duration;

use super::client::Client;
use super::confirm::Yes;
use super::direct::{self, OrderArgs};
use super::exit::{Exit, Failure, Outcome};
use super::health;
use super::out::{self, Output};
use super::progress::Progress;
use super::wait::{self, Deadline, Timeout};
use crate::model::{
    AdminStatus, DirectiveChange, DirectiveView, LockOwner, NodeName, OperatorRequest, ReleaseView,
    RequestView, SteadyMs,
};
use crate::paths::Paths;

/// The CLI waits a little longer than the agent, whose answer gives the reason.
const MARGIN: Duration = Duration::from_secs(10);

/// Take or release the lock that lets hosts reboot one at a time
#[derive(Debug, clap::Subcommand)]
pub(super) enum LockVerb {
    /// Take the lock for this host, once the cluster is whole and no other host holds it
    Acquire(AcquireArgs),
    /// Release the lock of this host, or of a host that does not come back
    Release(ReleaseArgs),
}

#[derive(Debug, clap::Args)]
pub(super) struct AcquireArgs {
    #[command(flatten)]
    order: OrderArgs,
    /// Give up waiting after this long, e.g. 90s or 10m; nothing is held then
    #[arg(long, value_name = "TIME", value_parser = wait::span, default_value = "10m")]
    timeout: Duration,
}

#[derive(Debug, clap::Args)]
pub(super) struct ReleaseArgs {
    /// The node whose lock ends; default: this one
    node: Option<NodeName>,
    #[command(flatten)]
    yes: Yes,
    #[command(flatten)]
    output: Output,
    #[command(flatten)]
    timeout: Timeout,
}

pub(super) async fn run(paths: &Paths, verb: LockVerb) -> Outcome {
    let client = Client::new(paths);
    match verb {
        LockVerb::Acquire(args) => acquire(&client, args).await,
        LockVerb::Release(args) => release(&client, args).await,
    }
}

async fn acquire(client: &Client, args: AcquireArgs) -> Outcome {
    let request = OperatorRequest::RebootLock {
        owner: LockOwner::Operator,
        within_ms: u64::try_from(args.timeout.as_millis()).unwrap_or(u64::MAX),
        asked: SteadyMs(0),
    };
    if args.order.dry_run {
        let view: DirectiveView = client.post("/v1/preview", &request).await?;
        return direct::preview(&view, args.order);
    }
    let deadline = Deadline::after(args.timeout.saturating_add(MARGIN));
    let mut progress = Progress::new();
    let view = wait::submit(client, &request).await?;
    let view = tokio::select! {
        view = wait::done(client, view, &deadline, &mut progress) => view,
        _ = tokio::signal::ctrl_c() => {
            // Otherwise this host would hold a lock that nobody knows of.
            let _: ReleaseView = client.post("/v1/reboot-lock/release", &()).await?;
            Err(Failure::new(Exit::TimedOut, "interrupted: the reboot lock is not held"))
        }
    };
    drop(progress);
    let view: RequestView = view.map_err(|failure| match failure.exit {
        Exit::Failed => Failure::refused(failure.text),
        _ => failure,
    })?;
    args.order
        .output
        .print(&view, |view| format!("{}\n", view.message))?;
    Ok(Exit::Ok)
}

async fn release(client: &Client, args: ReleaseArgs) -> Outcome {
    let seen: AdminStatus = client.get("/v1/status").await?;
    let view = match args.node {
        Some(node) if node != seen.node.node => {
            direct::known(&seen, &node)?;
            args.yes.ask(&format!(
                "The reboot lock of {node} ends. If that host is rebooting, another one may reboot at the same time."
            ))?;
            release_other(client, node, args.timeout).await?
        }
        _ => client.post("/v1/reboot-lock/release", &()).await?,
    };
    args.output.print(&view, |view| {
        if view.changed {
            format!("The reboot lock of {} is released.\n", view.node)
        } else {
            format!("{} does not hold the reboot lock.\n", view.node)
        }
    })?;
    Ok(Exit::Ok)
}

/// Releases the lock of another node by an order, which that node finds when it comes back.
async fn release_other(client: &Client, node: NodeName, timeout: Timeout) -> Result<ReleaseView, Failure> {
    let change = DirectiveChange::ReleaseRebootLock {
        node: node.clone(),
        version: 0,
    };
    let order = OrderArgs {
        dry_run: false,
        output: Output::default(),
    };
    let view = direct::order(client, change, order).await?;
    if view.changed {
        direct::taken_over(client, &view.directives, timeout).await?;
    }
    Ok(ReleaseView {
        node,
        changed: view.changed,
    })
}

/// The nodes that hold the lock, one line each. The hold of a silent node is the one that this node recorded.
pub(super) fn held(status: &AdminStatus) -> Vec<String> {
    let steering = &status.node.steering;
    let holds = health::nodes(status).filter_map(|(node, seen)| {
        let lock = match seen.known() {
            Some(seen) => &seen.steering.reboot_locks.own,
            None => &steering.reboot_locks.others.get(node)?.lock,
        };
        let released = steering.directives.released.get(node).copied();
        let hold = lock
            .hold
            .as_ref()
            .filter(|_| lock.version > released.unwrap_or_default())?;
        let state = if hold.confirmed { "held" } else { "being taken" };
        Some(format!(
            "{state} by {node} for {} since {}",
            hold.owner,
            out::time(hold.since)
        ))
    });
    holds.collect()
}
