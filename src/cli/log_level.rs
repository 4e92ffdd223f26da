//! `etcd-agent log-level`.

use serde::{Deserialize, Serialize};

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

/// The answer, as JSON.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Level {
    /// False if this filter was in force already, or is only shown.
    pub(super) changed: bool,
    #[serde(flatten)]
    pub(super) view: LogView,
}

pub(super) async fn run(paths: &Paths, args: LogArgs) -> Outcome {
    let client = Client::new(paths);
    let before: LogView = client.get("/v1/log-level").await?;
    let view: LogView = if args.reset || args.level.is_some() {
        client
            .post("/v1/log-level", &LogOrder { level: args.level })
            .await?
    } else {
        before.clone()
    };
    let answer = Level {
        changed: view != before,
        view,
    };
    args.output
        .print(&answer, |answer| format!("{}\n", answer.view.filter))?;
    Ok(Exit::Ok)
}
