//! `etcd-agent backup delete|keep|annotate`: orders about one backup.

use super::client::Client;
use super::confirm::Yes;
use super::direct::OrderArgs;
use super::exit::{Exit, Failure, Outcome};
use super::verify;
use super::wait::Timeout;
use crate::model::{BackupChange, BackupChangeView, BackupId, BackupOrder, text_objection};

/// `backup delete`.
#[derive(Debug, clap::Args)]
pub(super) struct DeleteArgs {
    /// A backup's name, as `backup list` shows it
    backup: String,
    #[command(flatten)]
    yes: Yes,
    #[command(flatten)]
    order: OrderArgs,
    #[command(flatten)]
    timeout: Timeout,
}

/// `backup keep`.
#[derive(Debug, clap::Args)]
pub(super) struct KeepArgs {
    /// A backup's name, as `backup list` shows it, or `latest`
    backup: String,
    /// Why it is kept, for `backup list -o wide`
    #[arg(long, value_name = "TEXT", value_parser = one_line)]
    reason: Option<String>,
    /// Leave it to retention again
    #[arg(long, conflicts_with = "reason")]
    undo: bool,
    #[command(flatten)]
    order: OrderArgs,
    #[command(flatten)]
    timeout: Timeout,
}

/// `backup annotate`.
#[derive(Debug, clap::Args)]
pub(super) struct AnnotateArgs {
    /// A backup's name, as `backup list` shows it, or `latest`
    backup: String,
    /// The note, one line of at most 500 characters; replaces an earlier one
    #[arg(required_unless_present = "remove", value_parser = one_line)]
    text: Option<String>,
    /// Remove the note
    #[arg(long, conflicts_with = "text")]
    remove: bool,
    #[command(flatten)]
    order: OrderArgs,
    #[command(flatten)]
    timeout: Timeout,
}

/// The verbs about one backup.
#[derive(Debug, clap::Subcommand)]
pub(super) enum ChangeVerb {
    /// Delete one backup, unless it cannot be replaced by others
    Delete(DeleteArgs),
    /// Keep one backup, whatever [backup.retention] says
    Keep(KeepArgs),
    /// Write a note on one backup, for `backup list -o wide`
    Annotate(AnnotateArgs),
}

fn one_line(text: &str) -> Result<String, String> {
    text_objection(text).map_or_else(|| Ok(text.to_owned()), Err)
}

pub(super) async fn run(client: &Client, verb: ChangeVerb) -> Outcome {
    let (backup, change, args, timeout) = match verb {
        ChangeVerb::Delete(args) => {
            let backup = BackupId::new(&args.backup).map_err(|error| Failure::new(Exit::Usage, error))?;
            if !args.order.dry_run {
                args.yes.ask(&format!(
                    "The backup {backup} is deleted from the store, with its increments. `--dry-run` says whether it may be."
                ))?;
            }
            (backup, BackupChange::Delete, args.order, args.timeout)
        }
        ChangeVerb::Keep(args) => {
            let backup = verify::meant(&client.within(args.timeout.timeout), &args.backup).await?;
            let change = if args.undo {
                BackupChange::Release
            } else {
                BackupChange::Keep { reason: args.reason }
            };
            (backup, change, args.order, args.timeout)
        }
        ChangeVerb::Annotate(args) => {
            let backup = verify::meant(&client.within(args.timeout.timeout), &args.backup).await?;
            let text = args.text.filter(|_| !args.remove);
            (backup, BackupChange::Annotate { text }, args.order, args.timeout)
        }
    };
    let order = BackupOrder {
        backup,
        change,
        dry_run: args.dry_run,
    };
    let client = client.within(timeout.timeout);
    let view: BackupChangeView = client.post("/v1/backups/change", &order).await?;
    args.output.print(&view, |view| view.message.clone())?;
    Ok(Exit::Ok)
}
