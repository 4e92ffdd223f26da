//! `etcd-agent backup now|list|run|verify|prune`.

use super::backup_run;
use super::client::Client;
use super::exit::{Exit, Failure, Outcome};
use super::out::{self, Output};
use super::progress::Progress;
use super::verify;
use super::wait::{self, Deadline, Timeout};
use crate::model::{BackupFormat, Keep, OperatorRequest, StoredBackup, UnixMs, Verdict, Verified};
use crate::paths::Paths;

/// `--format`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(super) enum Form {
    /// zstd
    Native,
    /// gzip, and what etcd-manager reads
    EtcdManager,
}

impl From<Form> for BackupFormat {
    fn from(form: Form) -> Self {
        match form {
            Form::Native => Self::Native,
            Form::EtcdManager => Self::EtcdManager,
        }
    }
}

/// Backups
#[derive(Debug, clap::Args)]
#[command(args_conflicts_with_subcommands = true, arg_required_else_help = true)]
pub(super) struct BackupArgs {
    #[command(subcommand)]
    verb: Option<BackupVerb>,
    #[command(flatten)]
    now: NowArgs,
}

/// A backup; with an option and no verb it is meant as well.
#[derive(Debug, clap::Args)]
pub(super) struct NowArgs {
    /// In which form; default: backup.format
    #[arg(long = "format", value_name = "FORMAT", value_enum)]
    form: Option<Form>,
    /// No full: store as an increment what was written until now, without waiting for the interval
    #[arg(long, conflicts_with = "form")]
    increment: bool,
    /// Deadline.
    #[command(flatten)]
    timeout: Timeout,
    /// Format.
    #[command(flatten)]
    output: Output,
}

#[derive(Debug, clap::Subcommand)]
pub(super) enum BackupVerb {
    /// Take a full backup, or an increment, now and wait for it
    Now(NowArgs),
    /// List the backups in the store, oldest first
    List(Output),
    /// Take backups on schedule beside an etcd that somebody else manages, without an agent
    Run(backup_run::RunArgs),
    /// Restore backups into a throw-away etcd and compare them with what was recorded when they were taken
    Verify(verify::VerifyArgs),
    /// Remove the backups that [backup.retention] no longer wants
    Prune {
        /// Only say of each backup whether it would go, and why it stays
        #[arg(long)]
        dry_run: bool,
        /// Deadline.
        #[command(flatten)]
        timeout: Timeout,
        /// Format.
        #[command(flatten)]
        output: Output,
    },
}

pub(super) async fn run(paths: &Paths, args: BackupArgs) -> Outcome {
    let client = Client::new(paths);
    match args.verb.unwrap_or(BackupVerb::Now(args.now)) {
        BackupVerb::List(output) => {
            let list: Vec<StoredBackup> = client.get("/v1/backups").await?;
            output.print(&list, |list| render(list, out::now()))?;
        }
        BackupVerb::Now(NowArgs {
            form,
            increment,
            timeout,
            output,
        }) => {
            let request = match form {
                _ if increment => OperatorRequest::Increment,
                Some(form) => OperatorRequest::BackupAs { format: form.into() },
                None => OperatorRequest::Backup,
            };
            ask(&client, &request, timeout, output).await?;
        }
        BackupVerb::Run(args) => return backup_run::run(args).await,
        BackupVerb::Verify(args) => return verify::run(&client, args).await,
        BackupVerb::Prune {
            dry_run: true,
            output,
            ..
        } => {
            let verdicts: Vec<Verdict> = client.get("/v1/backups/retention").await?;
            output.print(&verdicts, |verdicts| render_verdicts(verdicts, out::now()))?;
        }
        BackupVerb::Prune { timeout, output, .. } => {
            ask(&client, &OperatorRequest::Prune, timeout, output).await?;
        }
    }
    Ok(Exit::Ok)
}

/// Asks the agent for something, waits until it is done and prints what came of it.
async fn ask(
    client: &Client,
    request: &OperatorRequest,
    timeout: Timeout,
    output: Output,
) -> Result<(), Failure> {
    let deadline = Deadline::after(timeout.timeout);
    let mut progress = Progress::new();
    let view = wait::submit(client, request).await?;
    let view = wait::done(client, view, &deadline, &mut progress).await?;
    drop(progress);
    output.print(&view, |view| view.message.clone())
}

/// What would go and what would stay, with the reasons.
pub(super) fn render_verdicts(verdicts: &[Verdict], now: UnixMs) -> String {
    if verdicts.is_empty() {
        return "No backups yet.\n".to_owned();
    }
    let rows: Vec<Vec<String>> = verdicts
        .iter()
        .map(|verdict| {
            let backup = &verdict.backup.summary;
            let reasons: Vec<&str> = verdict.keep.iter().map(|keep| Keep::as_str(*keep)).collect();
            vec![
                backup.id.to_string(),
                out::age(now.since(backup.at)),
                out::size(backup.size_bytes),
                if verdict.goes() { "remove" } else { "keep" }.to_owned(),
                reasons.join(", "),
            ]
        })
        .collect();
    let goes = verdicts.iter().filter(|v| v.goes());
    let bytes = goes.clone().map(|v| v.backup.summary.size_bytes).sum();
    format!(
        "{}\n{} of {} backups would go, {}.\n",
        out::table(&["BACKUP", "AGE", "SIZE", "VERDICT", "REASONS"], &rows),
        goes.count(),
        verdicts.len(),
        out::size(bytes)
    )
}

pub(super) fn render(list: &[StoredBackup], now: UnixMs) -> String {
    if list.is_empty() {
        return "No backups yet.\n".to_owned();
    }
    let rows: Vec<Vec<String>> = list
        .iter()
        .map(|stored| {
            let backup = &stored.summary;
            vec![
                backup.id.to_string(),
                out::time(backup.at),
                out::age(now.since(backup.at)),
                backup.revision.to_string(),
                // Nothing after the full is stored: nothing to show.
                Some(stored.covered)
                    .filter(|covered| *covered > backup.revision)
                    .map_or_else(|| "-".to_owned(), |covered| covered.to_string()),
                out::size(backup.size_bytes),
                verified(stored.verified.as_ref(), now),
            ]
        })
        .collect();
    let head = [
        "BACKUP",
        "COMMITTED",
        "AGE",
        "REVISION",
        "COVERS TO",
        "SIZE",
        "VERIFIED",
    ];
    let bad = list.iter().filter_map(|stored| {
        let verified = stored.verified.as_ref().filter(|verified| !verified.is_ok())?;
        let why = verified.problems.join("; ");
        Some(format!("{} is no good: {why}\n", stored.summary.id))
    });
    out::table(&head, &rows) + &bad.collect::<String>()
}

fn verified(verified: Option<&Verified>, now: UnixMs) -> String {
    match verified {
        None => "-".to_owned(),
        Some(verified) if verified.is_ok() => format!("{} ago", out::age(now.since(verified.at))),
        Some(_) => "NO GOOD".to_owned(),
    }
}
