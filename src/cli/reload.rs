//! `etcd-agent reload`, which `ExecReload=` of `etcd-agent.service` runs.

use std::time::Duration;

use serde::Serialize;

use super::client::{CallError, Client};
use super::exit::{Exit, Failure, Outcome};
use super::out::Output;
use super::progress::Progress;
use super::wait::{Deadline, span};
use crate::model::ReloadView;
use crate::paths::Paths;

/// How long to wait for what is in force before a reload.
const BEFORE: Duration = Duration::from_secs(5);

/// Make the agent reread its configuration
///
/// Waits until the new configuration is in force or refused.
#[derive(Debug, clap::Args)]
pub(super) struct ReloadArgs {
    /// Give up waiting after this long, e.g. 90s or 10m; the work continues
    // Below systemd's own deadline for it, TimeoutStartSec= of the unit.
    #[arg(long, value_name = "TIME", value_parser = span, default_value = "50s")]
    timeout: Duration,
    #[command(flatten)]
    output: Output,
}

/// What was done, as JSON.
#[derive(Debug, Serialize)]
pub(super) struct Reloaded {
    /// True if other files are in force than before.
    pub(super) changed: bool,
    pub(super) message: String,
}

pub(super) async fn run(paths: &Paths, args: ReloadArgs) -> Outcome {
    let client = Client::new(paths);
    let deadline = Deadline::after(args.timeout);
    // An error of the agent is reported by the request.
    let before = client.within(BEFORE).get::<ReloadView>("/v1/reload").await;
    let before = before.ok().and_then(|view| view.in_force);
    let rest = client.within(deadline.left());
    let number = match rest.post::<_, ReloadView>("/v1/reload", &()).await {
        Err(CallError::Answered { status: 404, .. }) => {
            return Err(Failure::failed(
                "the agent that runs is of an older version, which cannot be asked to reload: \
                 `systemctl restart etcd-agent` (etcd keeps running)",
            ));
        }
        asked => asked?.asked,
    };
    let mut progress = Progress::new();
    progress.say("the agent reads its configuration");
    loop {
        let rest = client.within(deadline.left());
        match rest.get::<ReloadView>("/v1/reload").await {
            Ok(view) if view.done >= number => return outcome(view, before.as_ref(), args.output),
            // An agent that was restarted meanwhile has read the new configuration.
            Ok(view) if view.asked < number => {
                let view = ReloadView {
                    refused: None,
                    ..view
                };
                return outcome(view, before.as_ref(), args.output);
            }
            Ok(_) => {}
            Err(CallError::Unreachable(text)) => progress.say(&text),
            Err(error) => return Err(error.into()),
        }
        deadline.next("the reload", &progress).await?;
    }
}

/// True if other files are in force than before, or if that is not known.
pub(super) fn changed(view: &ReloadView, before: Option<&String>) -> bool {
    view.in_force.is_none() || view.in_force.as_ref() != before
}

/// Reports a reload. `before` is the digest of the files that were in force before it.
fn outcome(view: ReloadView, before: Option<&String>, output: Output) -> Outcome {
    match view.refused {
        None => {
            let done = Reloaded {
                changed: changed(&view, before),
                message: "the configuration is in force".to_owned(),
            };
            output.print_own(&done, |done| done.message.clone())?;
            Ok(Exit::Ok)
        }
        Some(why) => Err(Failure::new(
            Exit::Usage,
            format!("{why}\nthe configuration was refused: the old one stays in force"),
        )),
    }
}
