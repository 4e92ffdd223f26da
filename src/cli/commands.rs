//! `etcd-agent etcd-manager commands list|delete`: etcd-manager's queue in the store.

use super::client::Client;
use super::confirm::Yes;
use super::exit::{Exit, Outcome};
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
    },
}

pub(super) async fn run(paths: &Paths, verb: CommandsVerb) -> Outcome {
    let client = Client::new(paths);
    match verb {
        CommandsVerb::List(output) => {
            let list: Vec<StoreCommand> = client.get("/v1/commands").await?;
            output.list("commands", &list, |list| render(list, out::now()))?;
        }
        CommandsVerb::Delete { name, yes } => {
            yes.ask(&format!(
                "The command {} is deleted from the store.",
                name.escape_debug()
            ))?;
            let deleted: CommandName = client.post("/v1/commands/delete", &CommandName { name }).await?;
            out::print(&format!("{} is deleted", deleted.name))?;
        }
    }
    Ok(Exit::Ok)
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
