//! `etcd-agent restore` and `etcd-agent bootstrap`: an operator opens a new epoch.

use std::collections::BTreeSet;
use std::path::PathBuf;

use super::bootstrapped::{self, Opened};
use super::client::Client;
use super::confirm::{Yes, on_a_terminal};
use super::direct::OrderArgs;
use super::exit::{Exit, Failure, Outcome};
use super::moment::moment;
use super::progress::{Progress, note};
use super::wait::{self, Deadline, Timeout};
use super::{direct, health, out, restore_to};
use crate::model::{
    AdminStatus, BackupId, BackupSummary, ClusterName, DirectiveView, EpochEtcd, EtcdVersion, NodeName,
    OperatorRequest, RestoreTarget, Revision, UnixMs, wording,
};
use crate::paths::Paths;

/// Restore a backup as a new epoch on all nodes
///
/// Replaced data goes into the archive.
#[derive(Debug, clap::Args)]
pub(super) struct RestoreArgs {
    /// A backup's name, as `backup list` shows it, or `latest`
    backup: String,
    /// The state at this revision, from the full backup before it and its increments
    #[arg(long, value_name = "N", conflicts_with = "time")]
    revision: Option<u64>,
    /// The state at this time: 2026-03-01T12:00:00Z, "2026-03-01 12:00", 10:00, yesterday, -1h or "1h ago"
    #[arg(long, value_name = "TIME", value_parser = moment, allow_hyphen_values = true)]
    time: Option<UnixMs>,
    /// Only build a data directory at this path, which must not exist yet; needs no agent and changes no
    /// cluster
    #[arg(long, value_name = "DIR", conflicts_with_all = ["yes", "without", "replace_electorate", "dry_run", "timeout"])]
    to: Option<PathBuf>,
    /// With --to: further arguments of `etcdutl snapshot restore`, e.g.
    /// `-- --name n1 --bump-revision 1000000000 --mark-compacted`
    #[arg(last = true, requires = "to", value_name = "ETCDUTL ARGS")]
    more: Vec<String>,
    #[command(flatten)]
    yes: Yes,
    /// I vouch that this node is permanently lost and will not come back with its old memory; may be given
    /// again
    #[arg(long, value_name = "NODE")]
    without: Vec<NodeName>,
    /// I vouch that all who opened the newest epoch and are not in cluster.nodes here are permanently lost:
    /// the cluster's name
    #[arg(long, value_name = "CLUSTER")]
    replace_electorate: Option<ClusterName>,
    /// Open the epoch with this version of etcd, below `etcd.versions_dir` on every node; the data of a newer one is
    /// made to fit
    #[arg(long, value_name = "VERSION", conflicts_with = "to")]
    etcd_version: Option<EtcdVersion>,
    #[command(flatten)]
    order: OrderArgs,
    #[command(flatten)]
    timeout: Timeout,
}

/// Form the first cluster without nodes that do not answer
#[derive(Debug, clap::Args)]
pub(super) struct BootstrapArgs {
    /// I vouch that this node is permanently lost and will not come back with its old memory; may be given
    /// again
    #[arg(long, value_name = "NODE")]
    without: Vec<NodeName>,
    /// Form an empty cluster even if the store has backups
    #[arg(long)]
    empty: bool,
    #[command(flatten)]
    yes: Yes,
    #[command(flatten)]
    order: OrderArgs,
    #[command(flatten)]
    timeout: Timeout,
}

impl RestoreArgs {
    /// The revision or the time, if one is asked for.
    fn wanted(&self) -> Option<RestoreTarget> {
        let revision = || {
            self.revision
                .map(|revision| RestoreTarget::Revision(Revision(revision)))
        };
        self.time.map(RestoreTarget::Time).or_else(revision)
    }
}

pub(super) async fn restore(paths: &Paths, args: RestoreArgs) -> Outcome {
    restore_at(paths, args, on_a_terminal()).await
}

/// As [`restore`]. Without a terminal it requires `--yes`, whatever this node sees of the cluster: a node
/// that is cut off from the others sees no member that serves.
pub(super) async fn restore_at(paths: &Paths, args: RestoreArgs, terminal: bool) -> Outcome {
    if let Some(dir) = &args.to {
        let target = restore_to::Target {
            backup: &args.backup,
            wanted: args.wanted(),
            dir,
            more: &args.more,
            output: args.order.output,
        };
        return restore_to::run(paths, &target).await;
    }
    args.yes.require(args.order.dry_run, terminal)?;
    let client = Client::new(paths);
    let seen: AdminStatus = client.get("/v1/status").await?;
    if seen.starting && !args.order.dry_run {
        return Err(Failure::refused(
            "the agent has just started and has not observed the cluster yet: ask again in a moment",
        ));
    }
    let backup = &chosen(&client.within(args.timeout.timeout), &args).await?;
    let without = known_nodes(&seen, &args.without)?;
    let request = OperatorRequest::Restore {
        backup: backup.id.clone(),
        without,
        replace: args.replace_electorate.clone(),
        etcd: args.etcd_version.map(|version| EpochEtcd {
            version,
            continues: false,
        }),
        above: None,
        asked: UnixMs::default(),
    };
    if let Some(at) = args.time {
        note(&format!("the state at {}", wording::time(at)));
    }
    if args.order.dry_run {
        return preview(&client, &request, args.order).await;
    }
    args.yes.confirm(&warning(&seen, backup))?;
    open_epoch(&client, &seen, &request, args.timeout, args.order).await
}

pub(super) async fn bootstrap(paths: &Paths, args: BootstrapArgs) -> Outcome {
    bootstrap_at(paths, args, on_a_terminal()).await
}

/// As [`bootstrap`]. An operator's word needs `--yes` without a terminal; a plain bootstrap vouches for
/// nothing.
pub(super) async fn bootstrap_at(paths: &Paths, args: BootstrapArgs, terminal: bool) -> Outcome {
    let word = vouched(&args);
    if word.is_some() {
        args.yes.require(args.order.dry_run, terminal)?;
    }
    let client = Client::new(paths);
    let seen: AdminStatus = client.get("/v1/status").await?;
    let epoch = health::newest_epoch(&seen);
    if bootstrapped::is_formed(&seen, &args.without) {
        return bootstrapped::report(&seen, &Opened::of(&seen, false), args.order.output);
    }
    if epoch.0 > 0 {
        return Err(Failure::refused(format!(
            "there is a cluster already (epoch {epoch}): `etcd-agent status` shows its state, `etcd-agent restore` \
             opens a new epoch from a backup"
        )));
    }
    let without = known_nodes(&seen, &args.without)?;
    let request = OperatorRequest::Bootstrap {
        without,
        empty: args.empty,
    };
    if args.order.dry_run {
        return preview(&client, &request, args.order).await;
    }
    if let Some(word) = word {
        args.yes.confirm(&word)?;
    }
    open_epoch(&client, &seen, &request, args.timeout, args.order).await
}

/// What an operator vouches for, if it is anything.
fn vouched(args: &BootstrapArgs) -> Option<String> {
    let names: Vec<&str> = args.without.iter().map(NodeName::as_str).collect();
    let gone = format!(
        "You vouch that {} will never come back with the old memory. If that is wrong, two clusters can form.",
        names.join(", ")
    );
    let empty = "An empty cluster is formed, whatever backups the store has.".to_owned();
    match (names.is_empty(), args.empty) {
        (true, false) => None,
        (false, false) => Some(gone),
        (true, true) => Some(empty),
        (false, true) => Some(format!("{gone}\n{empty}")),
    }
}

/// Shows what would happen.
async fn preview(client: &Client, request: &OperatorRequest, order: OrderArgs) -> Outcome {
    let view: DirectiveView = client.post("/v1/preview", request).await?;
    direct::preview(&view, order)
}

/// Submits a request to open an epoch, waits until the epoch serves, and reports it.
async fn open_epoch(
    client: &Client,
    seen: &AdminStatus,
    request: &OperatorRequest,
    timeout: Timeout,
    order: OrderArgs,
) -> Outcome {
    let deadline = Deadline::after(timeout.timeout);
    let mut progress = Progress::new();
    let before = health::newest_epoch(seen);
    // `without` may name electors of the replaced epoch that are not in `cluster.nodes`.
    let gone = request
        .without()
        .filter(|node| seen.peers.contains_key(*node))
        .count();
    let members = seen.size.min((seen.peers.len() + 1).saturating_sub(gone)).max(1);
    let view = wait::submit(client, request).await?;
    let after = wait::epoch_after(client, view, before, members, &deadline, &mut progress).await?;
    drop(progress);
    let mut opened = Opened::of(&after, true);
    if let OperatorRequest::Restore { backup, .. } = request {
        opened.backup = Some(backup.clone());
    }
    bootstrapped::report(&after, &opened, order.output)
}

/// The backup to restore, or a point that its increments lead to. For `latest` it is the newest point, for a
/// named backup the state when it was taken, unless a revision or a time is given.
async fn chosen(client: &Client, args: &RestoreArgs) -> Result<BackupSummary, Failure> {
    let mut query = Vec::new();
    if let Some(revision) = args.revision {
        query.push(format!("revision={revision}"));
    }
    if let Some(time) = args.time {
        query.push(format!("time_ms={}", time.0));
    }
    if args.backup != "latest" {
        let id = BackupId::new(args.backup.as_str()).map_err(|error| Failure::new(Exit::Usage, error))?;
        if query.is_empty() {
            query.push("full=true".to_owned());
        }
        query.push(format!("backup={id}"));
    }
    Ok(client
        .get(&format!("/v1/backups/point?{}", query.join("&")))
        .await?)
}

/// Refuses to vouch for a node that does not exist, or that answers.
pub(super) fn known_nodes(status: &AdminStatus, names: &[NodeName]) -> Result<BTreeSet<NodeName>, Failure> {
    for name in names {
        if *name == status.node.node {
            return Err(Failure::refused(format!(
                "{name} is this node, which is not gone"
            )));
        }
        let newest = status.node.genesis.as_ref();
        let former = newest.is_some_and(|genesis| genesis.electorate.contains_key(name));
        let Some(peer) = status.peers.get(name) else {
            if former {
                continue;
            }
            let known: Vec<&str> = status.peers.keys().map(NodeName::as_str).collect();
            return Err(Failure::new(
                Exit::Usage,
                format!(
                    "{name} is not a peer of this node, nor has it opened the newest epoch; its peers are: {}",
                    known.join(", ")
                ),
            ));
        };
        if peer.known().is_some() {
            return Err(Failure::refused(format!(
                "{name} answers: it is not gone, leave it out of --without"
            )));
        }
    }
    Ok(names.iter().cloned().collect())
}

/// The consequences of a restore, and whether the cluster serves now.
pub(super) fn warning(status: &AdminStatus, backup: &BackupSummary) -> String {
    let age = out::age(status.node.now.since(backup.at));
    let what = format!("backup {} ({age} old, revision {})", backup.id, backup.revision);
    let newest = health::serving(status).values().map(|etcd| etcd.revision).max();
    match newest {
        Some(revision) => format!(
            "The cluster is alive at revision {revision}. Restoring {what} puts it back: {} later revisions go into the \
             archive with the old data, and clients will not see them.",
            revision.0.saturating_sub(backup.revision.0)
        ),
        None => format!(
            "{} {what} will be restored as a new epoch; old data goes into the archive.",
            nobody(status)
        ),
    }
}

/// No member is seen to serve; a node that does not answer may serve nevertheless.
fn nobody(status: &AdminStatus) -> String {
    let silent = status.peers.iter().filter(|(_, seen)| seen.known().is_none());
    let silent: Vec<&str> = silent.map(|(node, _)| node.as_str()).collect();
    if silent.is_empty() {
        return "No member serves now.".to_owned();
    }
    format!(
        "No member is seen to serve, but {} may: no answer comes from there.",
        silent.join(", ")
    )
}
