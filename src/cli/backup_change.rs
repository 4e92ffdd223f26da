//! `etcd-agent backup delete|keep|annotate`: orders about backups.

use serde::Serialize;

use super::client::Client;
use super::confirm::Yes;
use super::direct::OrderArgs;
use super::exit::{Exit, Failure, Outcome};
use super::out::Output;
use super::verify;
use super::wait::Timeout;
use crate::model::{BackupChange, BackupChangeView, BackupId, BackupOrder, text_objection};

/// `backup delete`.
#[derive(Debug, clap::Args)]
pub(super) struct DeleteArgs {
    /// The backups' names, as `backup list` shows them
    #[arg(required = true, value_name = "BACKUP")]
    backups: Vec<String>,
    #[command(flatten)]
    yes: Yes,
    #[command(flatten)]
    order: OrderArgs,
    #[command(flatten)]
    timeout: Timeout,
}

/// The answers about several backups, as JSON.
#[derive(Debug, Serialize)]
pub(super) struct Deleted {
    /// True if one of them was deleted.
    pub(super) changed: bool,
    pub(super) message: String,
    pub(super) backups: Vec<DeletedOne>,
}

/// The answer about one of them.
#[derive(Debug, Serialize)]
pub(super) struct DeletedOne {
    pub(super) backup: BackupId,
    pub(super) changed: bool,
    /// One line; not if it was refused or has failed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) message: Option<String>,
    /// Why it was refused or has failed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) error: Option<String>,
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

/// The verbs that change backups.
#[derive(Debug, clap::Subcommand)]
pub(super) enum ChangeVerb {
    /// Delete backups, unless they cannot be replaced by others
    Delete(DeleteArgs),
    /// Keep one backup, whatever [backup.retention] says
    Keep(KeepArgs),
    /// Write a note on one backup, for `backup list -o wide`
    Annotate(AnnotateArgs),
}

pub(super) fn one_line(text: &str) -> Result<String, String> {
    text_objection(text).map_or_else(|| Ok(text.to_owned()), Err)
}

pub(super) async fn run(client: &Client, verb: ChangeVerb) -> Outcome {
    let (backup, change, args, timeout) = match verb {
        ChangeVerb::Delete(args) => return delete(client, args).await,
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
    let view = order(client, backup, change, (args, timeout)).await?;
    args.output.print(&view, |view| view.message.clone())?;
    Ok(Exit::Ok)
}

/// Gives an order about one backup.
async fn order(
    client: &Client,
    backup: BackupId,
    change: BackupChange,
    (args, timeout): (OrderArgs, Timeout),
) -> Result<BackupChangeView, Failure> {
    let order = BackupOrder {
        backup,
        change,
        dry_run: args.dry_run,
    };
    let client = client.within(timeout.timeout);
    Ok(client.post("/v1/backups/change", &order).await?)
}

/// Deletes backups one after the other. A refusal or a failure of one does not end the work on the others.
async fn delete(client: &Client, args: DeleteArgs) -> Outcome {
    let names = args.backups.iter().map(BackupId::new);
    let names: Vec<BackupId> = names
        .collect::<Result<_, _>>()
        .map_err(|error| Failure::new(Exit::Usage, error))?;
    if !args.order.dry_run {
        args.yes.ask(&question(&args.backups))?;
    }
    let with = (args.order, args.timeout);
    if let [one] = names.as_slice() {
        let view = order(client, one.clone(), BackupChange::Delete, with).await?;
        args.order.output.print(&view, |view| view.message.clone())?;
        return Ok(Exit::Ok);
    }
    let (mut backups, mut failures) = (Vec::new(), Vec::new());
    for backup in names {
        match order(client, backup.clone(), BackupChange::Delete, with).await {
            Ok(view) => backups.push(DeletedOne {
                backup,
                changed: view.changed,
                message: Some(view.message),
                error: None,
            }),
            Err(failure) => {
                let text = failure.text;
                failures.push(Failure::new(failure.exit, format!("{backup}: {text}")));
                backups.push(DeletedOne {
                    backup,
                    changed: false,
                    message: None,
                    error: Some(text),
                });
            }
        }
    }
    let count = backups.iter().filter(|one| one.changed).count();
    let message = if args.order.dry_run {
        "each is judged alone: once one is deleted, another one may have to stay".to_owned()
    } else {
        format!("{count} of {} backups are deleted", backups.len())
    };
    let deleted = Deleted {
        changed: count > 0,
        message,
        backups,
    };
    args.order.output.print_own(&deleted, |deleted| {
        let lines = deleted.backups.iter().filter_map(|one| one.message.as_deref());
        lines
            .chain([deleted.message.as_str()])
            .collect::<Vec<_>>()
            .join("\n")
    })?;
    gravest(&failures)
}

/// What is asked on a terminal.
fn question(names: &[String]) -> String {
    match names {
        [one] => format!(
            "The backup {one} is deleted from the store, with its increments. `--dry-run` says whether it may be."
        ),
        names => format!(
            "These backups are deleted from the store, with their increments: {}. `--dry-run` says whether they may be.",
            names.join(", ")
        ),
    }
}

/// All failures as one, with the exit code of the gravest: 1 before 5, 3 and 4.
fn gravest(failures: &[Failure]) -> Outcome {
    let order = [Exit::Failed, Exit::TimedOut, Exit::Unreachable];
    let exit = order
        .into_iter()
        .find(|exit| failures.iter().any(|failure| failure.exit == *exit));
    let Some(first) = failures.first() else {
        return Ok(Exit::Ok);
    };
    let texts: Vec<&str> = failures.iter().map(|failure| failure.text.as_str()).collect();
    Err(Failure::new(exit.unwrap_or(first.exit), texts.join("\n")))
}

/// Writes a note on a backup that was just taken.
pub(super) async fn note_on(
    client: &Client,
    backup: &BackupId,
    text: String,
    timeout: Timeout,
) -> Result<(), Failure> {
    let args = OrderArgs {
        dry_run: false,
        output: Output::default(),
    };
    let change = BackupChange::Annotate { text: Some(text) };
    let noted = order(client, backup.clone(), change, (args, timeout)).await;
    noted.map(drop).map_err(|failure| {
        let text = format!("backup {backup} is taken, and has no note: {}", failure.text);
        Failure::new(failure.exit, text)
    })
}
