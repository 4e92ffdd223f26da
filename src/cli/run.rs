//! `etcd-agent run`: the daemon.

use super::exit::{Exit, Outcome};
use crate::config::Problems;
use crate::paths::Paths;

pub(super) async fn run(paths: &Paths) -> Outcome {
    crate::telemetry::init();
    match Box::pin(crate::agent::run(paths.clone())).await {
        Ok(()) => Ok(Exit::Ok),
        Err(error) => {
            // One line in the journal, with all causes of the error.
            let text = match error.downcast_ref::<Problems>() {
                Some(problems) => problems.one_line(),
                None => format!("{error:#}").replace('\n', "; "),
            };
            tracing::error!("the agent ends: {text}");
            let exit = if error.is::<Problems>() {
                Exit::Usage
            } else {
                Exit::Failed
            };
            Ok(exit)
        }
    }
}
