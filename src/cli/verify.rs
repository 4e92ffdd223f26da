//! `etcd-agent backup verify`.

use super::backup_table;
use super::client::Client;
use super::exit::{Exit, Failure, Outcome};
use super::out::{self, Output};
use super::progress::Progress;
use super::wait::{self, Deadline, Timeout};
use crate::backup::Point;
use crate::model::{BackupId, BackupSummary, ListedBackup, OperatorRequest, Page};

#[derive(Debug, clap::Args)]
pub(super) struct VerifyArgs {
    /// A backup's name, as `backup list` shows it, or `latest`
    #[arg(default_value = "latest", conflicts_with = "all")]
    backup: String,
    /// Every backup in the store, one after the other
    #[arg(long)]
    all: bool,
    #[command(flatten)]
    timeout: Timeout,
    #[command(flatten)]
    output: Output,
}

/// Verifies backups and prints them with the results. The exit code is 1 when one is invalid or could not be
/// verified, 5 when one took too long. A failure does not stop the verification of the others.
pub(super) async fn run(client: &Client, args: VerifyArgs) -> Outcome {
    let store = client.within(args.timeout.timeout);
    let chosen: Vec<BackupId> = if args.all {
        let listed: Vec<ListedBackup> = store.all("/v1/backups").await?;
        listed.iter().map(ListedBackup::id).cloned().collect()
    } else {
        vec![meant(&store, &args.backup).await?]
    };
    let mut failures: Vec<Failure> = Vec::new();
    for id in &chosen {
        match verify(client, id, args.timeout).await {
            Err(failure) if matches!(failure.exit, Exit::Failed | Exit::TimedOut) => failures.push(failure),
            other => other?,
        }
    }
    let list: Vec<ListedBackup> = if let [one] = chosen.as_slice() {
        let page: Page<ListedBackup> = store.get(&format!("/v1/backups?backup={one}")).await?;
        page.items
    } else {
        let mut list: Vec<ListedBackup> = store.all("/v1/backups").await?;
        list.retain(|listed| chosen.contains(listed.id()));
        list
    };
    args.output.list("backups", &list, |list| {
        backup_table::render(list, out::now(), false)
    })?;
    let Some(first) = failures.first() else {
        return Ok(Exit::Ok);
    };
    // An invalid backup outweighs one that took too long.
    let late = failures.iter().all(|failure| failure.exit == Exit::TimedOut);
    let exit = if late { first.exit } else { Exit::Failed };
    let texts: Vec<&str> = failures.iter().map(|failure| failure.text.as_str()).collect();
    Err(Failure::new(exit, texts.join("\n")))
}

/// The backup that is meant; for `latest` the full backup that `restore latest` starts from.
pub(super) async fn meant(store: &Client, wanted: &str) -> Result<BackupId, Failure> {
    if wanted != "latest" {
        return BackupId::new(wanted).map_err(|error| Failure::new(Exit::Usage, error));
    }
    let latest: BackupSummary = store.get("/v1/backups/point").await?;
    Ok(full_of(&latest.id))
}

/// The full backup that a point starts from; a full backup itself.
pub(super) fn full_of(id: &BackupId) -> BackupId {
    Point::parse(id).backup
}

async fn verify(client: &Client, id: &BackupId, timeout: Timeout) -> Result<(), Failure> {
    let deadline = Deadline::after(timeout.timeout);
    let mut progress = Progress::new();
    let request = OperatorRequest::Verify { backup: id.clone() };
    let view = wait::submit(client, &request).await?;
    wait::done(client, view, &deadline, &mut progress).await.map(drop)
}
