//! `etcd-agent reload`, which `ExecReload=` of `etcd-agent.service` runs.

use std::time::Duration;

use super::client::{CallError, Client};
use super::exit::{Exit, Failure, Outcome};
use super::out;
use super::progress::Progress;
use super::wait::{Deadline, span};
use crate::model::ReloadView;
use crate::paths::Paths;

/// Make the agent reread its configuration
///
/// Waits until the new configuration is in force or refused.
#[derive(Debug, clap::Args)]
pub(super) struct ReloadArgs {
    /// Give up waiting after this long, e.g. 90s or 10m; the work continues
    // Below systemd's own deadline for it, TimeoutStartSec= of the unit.
    #[arg(long, value_name = "TIME", value_parser = span, default_value = "50s")]
    timeout: Duration,
}

pub(super) async fn run(paths: &Paths, args: ReloadArgs) -> Outcome {
    let client = Client::new(paths);
    let number = match client.post::<_, ReloadView>("/v1/reload", &()).await {
        Err(CallError::Answered { status: 404, .. }) => {
            return Err(Failure::failed(
                "the agent that runs is of an older version, which cannot be asked to reload: \
                 `systemctl restart etcd-agent` (etcd keeps running)",
            ));
        }
        asked => asked?.asked,
    };
    let deadline = Deadline::after(args.timeout);
    let mut progress = Progress::new();
    progress.say("the agent reads its configuration");
    loop {
        match client.get::<ReloadView>("/v1/reload").await {
            Ok(view) if view.done >= number => return outcome(view.refused),
            // An agent that was restarted meanwhile has read the new configuration.
            Ok(view) if view.asked < number => return outcome(None),
            Ok(_) => {}
            Err(CallError::Unreachable(text)) => progress.say(&text),
            Err(error) => return Err(error.into()),
        }
        deadline.next("the reload", &progress).await?;
    }
}

fn outcome(refused: Option<String>) -> Outcome {
    match refused {
        None => {
            out::print("the configuration is in force")?;
            Ok(Exit::Ok)
        }
        Some(why) => Err(Failure::new(
            Exit::Usage,
            format!("{why}\nthe configuration was refused: the old one stays in force"),
        )),
    }
}
