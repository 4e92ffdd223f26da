//! `etcd-agent downgrade`: an older version of etcd on all nodes, by etcd's own downgrade (3.6 and newer).

use super::client::Client;
use super::confirm::Yes;
use super::direct::OrderArgs;
use super::exit::{Failure, Outcome};
use super::upgrade::{Wanted, cancel, carry_out};
use super::upgrade_target::Target;
use super::version_path::{Way, path};
use super::wait::Timeout;
use crate::model::{AdminStatus, EtcdVersion};
use crate::paths::Paths;

/// Downgrade etcd on all nodes, one after the other
///
/// etcd converts its data first, and the raft leader comes last. A backup is taken first, and the downgrade
/// stops at the first trouble.
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
    yes: Yes,
    #[command(flatten)]
    order: OrderArgs,
    #[command(flatten)]
    timeout: Timeout,
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
    let wanted = Wanted {
        way: Way::Down,
        to: Target::Version(to),
        steps: Target::versions(&path(&seen, to, Way::Down).map_err(Failure::refused)?),
        pause_after: None,
        waits: None,
        no_backup: args.no_backup,
        way_back: WAY_BACK.to_owned(),
        yes: args.yes,
        order: args.order,
        timeout: args.timeout,
    };
    carry_out(&client, &seen, wanted).await
}
