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
    let summaries: Vec<BackupSummary> = client.get("/v1/backups").await?;
    let chosen: Vec<BackupId> = if args.all {
        summaries.into_iter().map(|backup| backup.id).collect()
    } else {
        vec![restore::pick(&summaries, &args.backup)?.id.clone()]
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

async fn verify(client: &Client, id: &BackupId, timeout: Timeout) -> Result<(), Failure> {
    let deadline = Deadline::after(timeout.timeout);
    let mut progress = Progress::new();
    let request = OperatorRequest::Verify { backup: id.clone() };
    let view = wait::submit(client, &request).await?;
    wait::done(client, view, &deadline, &mut progress).await.map(drop)
}
