//! `etcd-agent etcd-manager commands list|delete`: etcd-manager's queue in the store.

use serde::Serialize;

use super::client::{CallError, Client};
use super::confirm::Yes;
use super::exit::{Exit, Failure, Outcome};
use super::out::{self, Output};
use crate::model::{CommandName, StoreCommand, UnixMs};
use crate::paths::Paths;

/// Show or delete what etcd-manager left in the store
#[derive(Debug, clap::Subcommand)]
pub(super) enum EtcdManagerVerb {
    #[command(subcommand)]
    Commands(CommandsVerb),
}

/// Commands that etcd-manager's tools left in the store; they are shown and never carried out
#[derive(Debug, clap::Subcommand)]
pub(super) enum CommandsVerb {
    /// List the commands in the store, oldest first
    List(Output),
    /// Delete a command from the store
    Delete {
        /// Its name, as `etcd-manager commands list` shows it
        name: String,
        /// Without a question.
        #[command(flatten)]
        yes: Yes,
        /// Format.
        #[command(flatten)]
        output: Output,
    },
}

/// What became of a command, as JSON.
#[derive(Debug, Serialize)]
pub(super) struct Deleted {
    /// False if there was no such command.
    pub(super) changed: bool,
    pub(super) name: String,
    pub(super) message: String,
}

pub(super) async fn run(paths: &Paths, verb: CommandsVerb) -> Outcome {
    let client = Client::new(paths);
    match verb {
        CommandsVerb::List(output) => {
            let list: Vec<StoreCommand> = client.get("/v1/commands").await?;
            output.list("commands", &list, |list| render(list, out::now()))?;
        }
        CommandsVerb::Delete { name, yes, output } => {
            yes.ask(&format!(
                "The command {} is deleted from the store.",
                name.escape_debug()
            ))?;
            let deleted = delete(&client, CommandName { name }).await?;
            output.print_own(&deleted, |deleted| deleted.message.clone())?;
        }
    }
    Ok(Exit::Ok)
}

/// Deletes a command. One that is not there is no error.
pub(super) async fn delete(client: &Client, wanted: CommandName) -> Result<Deleted, Failure> {
    let (changed, message) = match client
        .post::<_, CommandName>("/v1/commands/delete", &wanted)
        .await
    {
        Ok(deleted) => (true, format!("{} is deleted", deleted.name)),
        Err(CallError::Answered { status: 404, text }) if text == wanted.absent() => (false, text),
        Err(error) => return Err(error.into()),
    };
    Ok(Deleted {
        changed,
        name: wanted.name,
        message,
    })
}

pub(super) fn render(list: &[StoreCommand], now: UnixMs) -> String {
    if list.is_empty() {
        return "No commands.\n".to_owned();
    }
    let rows: Vec<Vec<String>> = list
        .iter()
        .map(|command| {
            let age = command
                .at
                .map_or_else(|| "-".to_owned(), |at| out::age(now.since(at)));
            let what = match (&command.restore, &command.problem) {
                (Some(backup), _) => format!("restore {backup}"),
                (None, Some(problem)) => problem.clone(),
                (None, None) => "-".to_owned(),
            };
            // Anyone with write access to the store can have written these.
            vec![
                command.name.escape_debug().to_string(),
                age,
                what.escape_debug().to_string(),
            ]
        })
        .collect();
    out::table(&["COMMAND", "AGE", "ASKS FOR"], &rows)
}
