//! `etcd-agent backup verify`.

use super::client::Client;
use super::exit::{Exit, Failure, Outcome};
use super::out::{self, Output};
use super::progress::Progress;
use super::wait::{self, Deadline, Timeout};
use super::{backup, restore};
use crate::model::{BackupId, BackupSummary, OperatorRequest, StoredBackup};

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

/// Verifies, and shows those backups as the catalogue has them afterwards. The exit code is 1 when one is no good or
/// could not be verified.
pub(super) async fn run(client: &Client, args: VerifyArgs) -> Outcome {
    let stored: Vec<StoredBackup> = client.get("/v1/backups").await?;
    let chosen: Vec<BackupId> = if args.all {
        stored.into_iter().map(|backup| backup.summary.id).collect()
    } else {
        vec![meant(&stored, &args.backup)?]
    };
    let mut failures = Vec::new();
    for id in &chosen {
        match verify(client, id, args.timeout).await {
            Err(failure) if failure.exit == Exit::Failed => failures.push(failure.text),
            other => other?,
        }
    }
    let mut list: Vec<StoredBackup> = client.get("/v1/backups").await?;
    list.retain(|stored| chosen.contains(&stored.summary.id));
    args.output
        .print(&list, |list| backup::render(list, out::now()))?;
    if failures.is_empty() {
        return Ok(Exit::Ok);
    }
    Err(Failure::failed(failures.join("\n")))
}

/// The backup that is meant: as `latest` the one whose increments lead furthest, which `restore latest` starts from.
pub(super) fn meant(stored: &[StoredBackup], wanted: &str) -> Result<BackupId, Failure> {
    let latest = StoredBackup::latest(stored).filter(|_| wanted == "latest");
    let Some(latest) = latest else {
        let summaries: Vec<BackupSummary> = stored.iter().map(|backup| backup.summary.clone()).collect();
        return Ok(restore::pick(&summaries, wanted)?.id.clone());
    };
    let furthest = stored
        .iter()
        .filter(|backup| backup.epoch.is_some() && backup.epoch == latest.epoch)
        .max_by_key(|backup| (backup.covered, backup.summary.at));
    Ok(furthest.unwrap_or(latest).summary.id.clone())
}

async fn verify(client: &Client, id: &BackupId, timeout: Timeout) -> Result<(), Failure> {
    let deadline = Deadline::after(timeout.timeout);
    let mut progress = Progress::new();
    let request = OperatorRequest::Verify { backup: id.clone() };
    let view = wait::submit(client, &request).await?;
    wait::done(client, view, &deadline, &mut progress).await.map(drop)
}
