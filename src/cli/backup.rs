//! `etcd-agent backup now|list|run|verify|prune`; the verbs about single backups are next to it.

use std::time::Duration;

use super::backup_change::{self, ChangeVerb};
use super::backup_run;
use super::backup_show::{self, ShowArgs};
use super::backup_table::{own_only, render, render_verdicts};
use super::client::Client;
use super::confirm::Yes;
use super::exit::{Exit, Failure, Outcome};
use super::out::{self, Format, Output};
use super::progress::Progress;
use super::status_view::Form as ListForm;
use super::verify;
use super::wait::{self, Deadline, ListTimeout, Timeout};
use crate::backup::BackupName;
use crate::model::{BackupFormat, BackupId, ListedBackup, OperatorRequest, PlanView, RequestView, Verdict};
use crate::paths::Paths;

/// How long a list waits for what is to be known of it.
const NOTE: Duration = Duration::from_secs(5);

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

/// `backup now`.
#[derive(Debug, clap::Args)]
pub(super) struct NowArgs {
    /// Format of the backup; default: backup.format
    #[arg(long = "format", value_name = "FORMAT", value_enum)]
    form: Option<Form>,
    /// Store an increment with all changes until now, without waiting for the interval; no full backup
    #[arg(long, conflicts_with = "form")]
    increment: bool,
    /// A note on the backup, one line of at most 500 characters, for `backup list -o wide`
    #[arg(long, value_name = "TEXT", conflicts_with = "increment", value_parser = backup_change::one_line)]
    note: Option<String>,
    /// Deadline.
    #[command(flatten)]
    timeout: Timeout,
    /// Format.
    #[command(flatten)]
    output: Output,
}

/// Take, list, verify and prune backups
#[derive(Debug, clap::Subcommand)]
pub(super) enum BackupVerb {
    /// Take a full backup, or an increment, now and wait for it
    Now(NowArgs),
    /// List the backups in the store, oldest first
    List {
        /// Deadline.
        #[command(flatten)]
        timeout: ListTimeout,
        /// Output format; wide: also why each is kept, and notes
        #[arg(
            short = 'o',
            long = "output",
            value_enum,
            value_name = "FORMAT",
            default_value_t
        )]
        form: ListForm,
    },
    /// Show everything that is known of one backup
    Show(ShowArgs),
    /// Take backups on schedule of an etcd that is not managed by an agent
    Run(backup_run::RunArgs),
    /// Restore backups into a throw-away etcd and compare them with what was recorded when they were taken
    Verify(verify::VerifyArgs),
    /// Delete, keep or annotate backups
    #[command(flatten)]
    Change(ChangeVerb),
    /// Remove the backups that [backup.retention] no longer keeps
    Prune {
        /// Remove nothing; show for each backup whether it would be removed, and why it is kept
        #[arg(long)]
        dry_run: bool,
        /// Without a question.
        #[command(flatten)]
        yes: Yes,
        /// Deadline.
        #[command(flatten)]
        timeout: Timeout,
        /// Format.
        #[command(flatten)]
        output: Output,
    },
}

/// What is to be known of a list of backups. Empty if the agent does not say.
async fn note(client: &Client) -> String {
    let seen = client.within(NOTE).get::<PlanView>("/v1/plan").await;
    seen.map_or_else(|_| String::new(), |view| own_only(&view.observation.spec))
}

#[cfg(test)]
impl BackupVerb {
    /// The outcome of `backup verify` with these arguments.
    pub(super) async fn verified_by(self, client: &Client) -> Outcome {
        match self {
            Self::Verify(args) => verify::run(client, args).await,
            _ => Ok(Exit::Usage),
        }
    }
}

pub(super) async fn run(paths: &Paths, verb: BackupVerb) -> Outcome {
    let client = Client::new(paths);
    match verb {
        BackupVerb::List { timeout, form } => {
            let list: Vec<ListedBackup> = client.within(timeout.timeout).all("/v1/backups").await?;
            let (format, wide) = match form {
                ListForm::Table => (Format::Table, false),
                ListForm::Wide => (Format::Table, true),
                ListForm::Json => (Format::Json, false),
                ListForm::Yaml => (Format::Yaml, false),
            };
            let note = match format {
                Format::Table => note(&client).await,
                _ => String::new(),
            };
            Output { format }.list("backups", &list, |list| render(list, out::now(), wide) + &note)?;
        }
        BackupVerb::Change(verb) => return backup_change::run(&client, verb).await,
        BackupVerb::Now(NowArgs {
            form,
            increment,
            note,
            timeout,
            output,
        }) => {
            let request = match form {
                _ if increment => OperatorRequest::Increment,
                Some(form) => OperatorRequest::BackupAs { format: form.into() },
                None => OperatorRequest::Backup,
            };
            let view = done(&client, &request, timeout).await?;
            if let Some(text) = note {
                let backup = named_in(&view.message)?;
                backup_change::note_on(&client, &backup, text, timeout).await?;
            }
            output.print(&view, |view| view.message.clone())?;
        }
        BackupVerb::Show(args) => return backup_show::run(&client, args).await,
        BackupVerb::Run(args) => return backup_run::run(args).await,
        BackupVerb::Verify(args) => return verify::run(&client, args).await,
        BackupVerb::Prune {
            dry_run: true,
            timeout,
            output,
            ..
        } => {
            let client = client.within(timeout.timeout);
            let verdicts: Vec<Verdict> = client.all("/v1/backups/retention").await?;
            output.list("backups", &verdicts, |verdicts| {
                render_verdicts(verdicts, out::now())
            })?;
        }
        BackupVerb::Prune {
            yes, timeout, output, ..
        } => {
            yes.ask("The backups that [backup.retention] no longer keeps are removed from the store; `--dry-run` lists them.")?;
            let view = done(&client, &OperatorRequest::Prune, timeout).await?;
            output.print(&view, |view| view.message.clone())?;
        }
    }
    Ok(Exit::Ok)
}

/// Submits a request, and waits until it is done.
async fn done(client: &Client, request: &OperatorRequest, timeout: Timeout) -> Result<RequestView, Failure> {
    let deadline = Deadline::after(timeout.timeout);
    let mut progress = Progress::new();
    let view = wait::submit(client, request).await?;
    wait::done(client, view, &deadline, &mut progress).await
}

/// The backup that the answer to a request for one names: `ID (revision N)`, after `NODE: ` if another node has taken
/// it.
pub(super) fn named_in(message: &str) -> Result<BackupId, Failure> {
    let mut words = message.split_whitespace();
    let name = words.find(|word| word.parse::<BackupName>().is_ok());
    name.and_then(|name| BackupId::new(name).ok()).ok_or_else(|| {
        Failure::failed(format!(
            "the agent named no backup that it has taken: {message:?}"
        ))
    })
}
