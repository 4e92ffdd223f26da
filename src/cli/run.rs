//! `etcd-agent run`: the daemon.

use super::exit::{Exit, Outcome};
use crate::config::Problems;
use crate::paths::Paths;

/// Runs the daemon. [`Exit::Usage`] says that the agent cannot work until a person corrects the configuration:
/// `RestartPreventExitStatus=` of the unit has that code. All else may pass, and systemd tries again.
pub(super) async fn run(paths: &Paths) -> Outcome {
    crate::telemetry::init();
    match Box::pin(crate::agent::run(paths.clone())).await {
        Ok(()) => Ok(Exit::Ok),
        Err(error) => {
            let problems = error.downcast_ref::<Problems>();
            // One line in the journal, with all causes of the error.
            let text = match problems {
                Some(problems) => problems.one_line(),
                None => format!("{error:#}").replace('\n', "; "),
            };
            if problems.is_some_and(|problems| !problems.may_pass()) {
                tracing::error!(
                    "the configuration is refused, and the agent stops; etcd is not touched: {text}; correct it, check it with \
                     `etcd-agent config check`, then run `systemctl start etcd-agent`"
                );
                return Ok(Exit::Usage);
            }
            tracing::error!("the agent ends: {text}");
            Ok(Exit::Failed)
        }
    }
}
