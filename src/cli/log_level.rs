//! `etcd-agent log-level`.

use super::client::Client;
use super::exit::{Exit, Outcome};
use super::out::Output;
use crate::model::{LogLevel, LogOrder, LogView};
use crate::paths::Paths;

/// Show or set the log level of the running agent
///
/// A restart of the agent resets it.
#[derive(Debug, clap::Args)]
pub(super) struct LogArgs {
    /// error, warn, info, debug or trace
    level: Option<LogLevel>,
    /// Go back to the level with which the agent started
    #[arg(long, conflicts_with = "level")]
    reset: bool,
    #[command(flatten)]
    output: Output,
}

pub(super) async fn run(paths: &Paths, args: LogArgs) -> Outcome {
    let client = Client::new(paths);
    let view: LogView = if args.reset || args.level.is_some() {
        client
            .post("/v1/log-level", &LogOrder { level: args.level })
            .await?
    } else {
        client.get("/v1/log-level").await?
    };
    args.output.print(&view, |view| format!("{}\n", view.filter))?;
    Ok(Exit::Ok)
}
