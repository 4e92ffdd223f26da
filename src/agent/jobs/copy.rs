//! Keeps the second store complete, in the background. A failure here never affects a backup.

use std::sync::Arc;
use std::time::Duration;

use crate::backup;
use crate::model::CopyStatus;
use crate::ports::ObjectStore;

use crate::agent::Agent;
use crate::agent::state::Shared;

/// Delay after a failure. It doubles with each further one, and up to as much is added at random.
const FIRST_PAUSE: Duration = Duration::from_secs(5);
const LONGEST_PAUSE: Duration = Duration::from_mins(10);
/// How long increments are collected before they are copied: each round lists both stores.
const GATHER: Duration = Duration::from_mins(1);
/// Timeout of a round. The next round continues where it stopped.
const ROUND: Duration = Duration::from_hours(6);

/// Copies after the start, after each backup of this node, and a minute after its increments were stored, until the future is
/// dropped. Sends no request to either store while there is nothing new.
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
                    // What is not copied yet is tried again, and what is new does not wait for that.
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
            () = tokio::time::sleep(pause(failures, agent.ports.clock.random())) => {}
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

fn pause(failures: u32, random: u64) -> Duration {
    let base = FIRST_PAUSE
        .saturating_mul(1 << failures.saturating_sub(1).min(10))
        .min(LONGEST_PAUSE);
    base + base.mul_f64(f64::from(u32::try_from(random % 1000).unwrap_or(0)) / 1000.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_grow_to_a_bound_and_differ() {
        assert_eq!(pause(1, 0), FIRST_PAUSE);
        assert_eq!(pause(2, 0), FIRST_PAUSE * 2);
        assert_eq!(pause(u32::MAX, 0), LONGEST_PAUSE);
        assert!(pause(u32::MAX, 999) < LONGEST_PAUSE * 2);
        assert_ne!(pause(3, 1), pause(3, 500));
    }
}
