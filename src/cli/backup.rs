//! `etcd-agent backup now|list`.

use super::client::Client;
use super::exit::{Exit, Outcome};
use super::out::{self, Output};
use super::progress::Progress;
use super::wait::{self, Deadline, Timeout};
use crate::model::{BackupSummary, OperatorRequest, UnixMs};
use crate::paths::Paths;

/// Backups
#[derive(Debug, clap::Subcommand)]
pub(super) enum BackupVerb {
    /// Take a full backup now and wait for it
    Now {
        /// Deadline.
        #[command(flatten)]
        timeout: Timeout,
        /// Format.
        #[command(flatten)]
        output: Output,
    },
    /// List the backups in the store, oldest first
    List(Output),
}

pub(super) async fn run(paths: &Paths, verb: BackupVerb) -> Outcome {
    let client = Client::new(paths);
    match verb {
        BackupVerb::List(output) => {
            let list: Vec<BackupSummary> = client.get("/v1/backups").await?;
            output.print(&list, |list| render(list, out::now()))?;
        }
        BackupVerb::Now { timeout, output } => {
            let deadline = Deadline::after(timeout.timeout);
            let mut progress = Progress::new();
            let view = wait::submit(&client, &OperatorRequest::Backup).await?;
            let view = wait::done(&client, view, &deadline, &mut progress).await?;
            drop(progress);
            output.print(&view, |view| view.message.clone())?;
        }
    }
    Ok(Exit::Ok)
}

pub(super) fn render(list: &[BackupSummary], now: UnixMs) -> String {
    if list.is_empty() {
        return "No backups yet.\n".to_owned();
    }
    let rows: Vec<Vec<String>> = list
        .iter()
        .map(|backup| {
            vec![
                backup.id.to_string(),
                out::time(backup.at),
                out::age(now.since(backup.at)),
                backup.revision.to_string(),
                out::size(backup.size_bytes),
            ]
        })
        .collect();
    out::table(&["BACKUP", "COMMITTED", "AGE", "REVISION", "SIZE"], &rows)
}
