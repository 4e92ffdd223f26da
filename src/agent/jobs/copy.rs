//! Keeps the second store complete, in the background. A failure here never affects a backup.

use std::sync::Arc;
use std::time::Duration;

use crate::backup;
use crate::model::{Backoff, CopyStatus};
use crate::ports::ObjectStore;

use crate::agent::Agent;
use crate::agent::state::Shared;

/// Delay after a round that failed.
const BACKOFF: Backoff = Backoff::new(Duration::from_secs(5), Duration::from_mins(10));
/// How long increments are collected before they are copied: each round lists both stores.
const GATHER: Duration = Duration::from_mins(1);
/// Timeout of a round. The next round continues where it stopped.
const ROUND: Duration = Duration::from_hours(6);

/// Copies after the start, after each backup of this node, and a minute after its increments were stored,
/// until the future is dropped. Sends no request to either store while there is nothing to copy.
pub(crate) async fn run(agent: Agent, from: Arc<dyn ObjectStore>, to: Arc<dyn ObjectStore>) {
    let mut failures = 0;
    loop {
        let round = backup::copy_missing(from.as_ref(), to.as_ref(), &agent.spec.cluster);
        let error = match tokio::time::timeout(ROUND, round).await {
            Ok(Ok(copied)) => {
                for id in &copied.backups {
                    tracing::info!("backup {id} is copied to {}", to.describe());
                }
                let problem = copied.problem();
                let now = agent.ports.clock.now();
                agent.shared.with(|inner| {
                    if let Some(status) = &mut inner.copy {
                        status.newest = copied.newest;
                        status.covered = copied.covered;
                        if problem.is_none() {
                            *status = CopyStatus {
                                store: status.store.clone(),
                                newest: status.newest.take(),
                                covered: status.covered,
                                at: Some(now),
                                failures: 0,
                                error: None,
                            };
                        }
                    }
                });
                if let Some(problem) = problem {
                    // The rest is tried again later. New backups do not wait for that.
                    problem
                } else {
                    failures = 0;
                    next(&agent.shared).await;
                    continue;
                }
            }
            Ok(Err(error)) => error.to_string(),
            Err(_) => format!("not done within {} h", ROUND.as_secs() / 3600),
        };
        failures += 1;
        tracing::warn!("backups are not copied to {}: {error}", to.describe());
        agent.shared.with(|inner| {
            if let Some(status) = &mut inner.copy {
                status.failures = failures;
                status.error = Some(error);
            }
        });
        tokio::select! {
            () = tokio::time::sleep(BACKOFF.jittered(failures, agent.ports.clock.random())) => {}
            () = agent.shared.copy_wanted.notified() => {}
        }
    }
}

/// Returns when there is something to copy: a backup, or increments that have gathered for a while.
async fn next(shared: &Shared) {
    let increments = async {
        shared.copy_increments.notified().await;
        tokio::time::sleep(GATHER).await;
    };
    tokio::select! {
        () = shared.copy_wanted.notified() => {}
        () = increments => {}
    }
}
