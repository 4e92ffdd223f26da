//! Retention: which backups are kept, and the removal of the others.

use crate::agent::Agent;
use crate::agent::jobs::{no_store, spawn};
use crate::backup;
use crate::model::{BackupId, OperatorRequest, Origin, RequestState, Verdict};
use crate::plan;
use crate::ports::PortResult;
use crate::telemetry::message_ids;

/// Retention's verdict on each backup that is in the store now, oldest first.
pub(crate) async fn verdicts(agent: &Agent) -> PortResult<Vec<Verdict>> {
    let store = agent.ports.store.clone().ok_or_else(no_store)?;
    let catalogue = backup::list(store.as_ref(), &agent.spec.cluster).await?;
    for (id, why) in &catalogue.unreadable {
        tracing::warn!("backup {id} cannot be read and is left alone: {why}");
    }
    let now = agent.ports.clock.now();
    let mut verdicts = plan::judge(&catalogue.backups, now, &agent.spec.backup.retention);
    if let Some(origin) = origin_to_keep(agent) {
        plan::keep_origin(&mut verdicts, &origin);
    }
    Ok(verdicts)
}

/// The backup that some founder of the newest epoch may have still to be restored from.
fn origin_to_keep(agent: &Agent) -> Option<BackupId> {
    let chosen = agent.shared.elector().chosen;
    agent.shared.with(|inner| match &inner.last.observation {
        // If an epoch was opened since the observation, nothing is known about its founders yet.
        Some(seen) if seen.me.genesis == chosen => plan::needed_origin(seen),
        _ => match chosen?.origin {
            Origin::Backup(backup) => Some(backup),
            Origin::Empty | Origin::Member(_) => None,
        },
    })
}

/// Starts to remove the backups that retention no longer keeps.
pub(crate) fn prune(agent: &Agent, after: Option<BackupId>) {
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
    spawn(
        agent,
        |inner| &mut inner.jobs.backups.prune,
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
                    agent.shared.set_request_state(asked, RequestState::Done, &text);
                    agent.shared.with(|inner| inner.jobs.backups.pruned = after);
                }
                Err(error) => {
                    tracing::warn!("old backups cannot be removed: {error}");
                    agent
                        .shared
                        .set_request_state(asked, RequestState::Failed, &error.to_string());
                }
            }
        },
    );
}
