//! What is done in the store beside full backups, each as a job beside the loop.

use crate::backup;
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
