//! What is done in the store beside full backups, each as a job beside the loop.

use crate::backup::{self, Ended};
use crate::model::{BackupId, OperatorRequest, RequestState, Verdict};
use crate::plan;
use crate::ports::PortResult;
use crate::telemetry::message_ids;

use super::Agent;
use super::jobs::{begin, no_store};

/// What retention says of each backup in the store now, oldest first.
pub(super) async fn verdicts(agent: &Agent) -> PortResult<Vec<Verdict>> {
    let store = agent.ports.store.clone().ok_or_else(no_store)?;
    let catalogue = backup::list(store.as_ref(), &agent.spec.cluster).await?;
    for (id, why) in &catalogue.unreadable {
        tracing::warn!("backup {id} cannot be read and is left alone: {why}");
    }
    let now = agent.ports.clock.now();
    Ok(plan::judge(&catalogue.backups, now, &agent.spec.backup.retention))
}

/// Begins to follow etcd's changes as increments of a full backup.
pub(super) fn increments(agent: &Agent, id: &BackupId) {
    let Some(interval) = agent.spec.backup.increment_interval else {
        return;
    };
    let (worker, backup) = (agent.clone(), id.clone());
    let newer = agent.shared.newest_full.subscribe();
    let work = async move {
        let store = worker.ports.store.clone().ok_or_else(no_store)?;
        let chain = backup::resume(store.as_ref(), &worker.spec.cluster, &backup).await?;
        tracing::info!(
            "etcd's changes after revision {} are stored as increments of {backup}",
            chain.covered
        );
        let following = backup::Following {
            cluster: worker.spec.cluster.clone(),
            node: worker.spec.node.clone(),
            interval,
        };
        let (etcd, clock) = (worker.ports.etcd.as_ref(), worker.ports.clock.as_ref());
        let told = |covered| {
            let now = clock.now();
            worker
                .shared
                .with(|inner| inner.backups.covered = Some((covered, now)));
        };
        tokio::select! {
            ended = backup::follow(etcd, store.as_ref(), clock, &following, chain, newer, told) => ended,
            () = worker.shared.stopped.cancelled() => Ok(Ended::NotCoordinator),
        }
    };
    let id = id.clone();
    begin(
        agent,
        |inner| &mut inner.backups.increments,
        work,
        move |agent, result| match result {
            Ok(Ended::Gap(why)) => {
                tracing::warn!("the increments of {id} cannot go on, a new full backup is taken: {why}");
                agent.shared.with(|inner| inner.backups.gap = Some(id));
            }
            Ok(Ended::Superseded) => tracing::info!("a newer full backup takes over from {id}"),
            Ok(Ended::NotCoordinator) => tracing::info!("another agent stores etcd's changes now"),
            Err(error) => tracing::warn!("etcd's changes are not stored for the moment: {error}"),
        },
    );
}

/// Begins to remove what retention no longer wants.
pub(super) fn prune(agent: &Agent, after: Option<BackupId>) {
    let worker = agent.clone();
    let work = async move {
        let store = worker.ports.store.clone().ok_or_else(no_store)?;
        let goes: Vec<BackupId> = verdicts(&worker)
            .await?
            .into_iter()
            .filter(Verdict::goes)
            .map(|v| v.backup.summary.id)
            .collect();
        let now = worker.ports.clock.now();
        backup::remove(store.as_ref(), &worker.spec.cluster, &goes, now).await
    };
    begin(
        agent,
        |inner| &mut inner.backups.prune,
        work,
        move |agent, result| {
            let asked = |r: &OperatorRequest| *r == OperatorRequest::Prune;
            match result {
                Ok(pruned) => {
                    let text = pruned.text();
                    if pruned != backup::Pruned::default() {
                        let names: Vec<&str> = pruned.removed.iter().map(BackupId::as_str).collect();
                        tracing::info!(
                            message_id = message_ids::BACKUPS_PRUNED,
                            "{text}: {}",
                            names.join(", ")
                        );
                    }
                    agent.shared.tell(asked, RequestState::Done, &text);
                    agent.shared.with(|inner| inner.backups.pruned = after);
                }
                Err(error) => {
                    tracing::warn!("old backups cannot be removed: {error}");
                    agent.shared.tell(asked, RequestState::Failed, &error.to_string());
                }
            }
        },
    );
}
