//! Fetches a backup and restores it next to the data directory.

use crate::agent::Agent;
use crate::agent::jobs::{no_store, spawn};
use crate::agent::state::jobs::{Fetched, JobKind};
use crate::backup::highest_epoch;
use crate::model::{Assignment, BackupId};
use crate::ports::{DataRequest, PortError, STAGE_WITHIN};

/// Starts to fetch and check a backup.
pub(crate) fn fetch(agent: &Agent, id: &BackupId) {
    let (worker, id) = (agent.clone(), id.clone());
    let work = async move {
        let store = worker.ports.store.clone().ok_or_else(no_store)?;
        let (backups, cluster) = (&worker.ports.backups, &worker.spec.cluster);
        // The fetch removes the former one's file.
        worker.shared.with(|inner| inner.jobs.forget_fetched());
        Ok(Fetched {
            highest_epoch: highest_epoch(store.as_ref(), cluster).await?,
            file_name: backups.fetch(store.as_ref(), cluster, &id).await?,
            backup: id,
        })
    };
    spawn(agent, JobKind::Restore, work, |agent, result| match result {
        Ok(fetched) => agent.shared.with(|inner| inner.jobs.note_fetched(fetched)),
        Err(error) => tracing::error!("the backup cannot be fetched: {error}"),
    });
}

/// Starts to restore a fetched backup next to the data directory.
pub(crate) fn stage(agent: &Agent, id: &BackupId, assigned: Assignment) {
    let (worker, id) = (agent.clone(), id.clone());
    let work = async move {
        let fetched = worker
            .shared
            .with(|inner| inner.jobs.fetched().cloned())
            .filter(|fetched| fetched.backup == id);
        let fetched = fetched.ok_or_else(|| PortError::Retryable(format!("{id} is not fetched")))?;
        let snapshot_file = fetched.file_name;
        let elector = worker.shared.elector();
        let genesis = elector.known().filter(|genesis| genesis.epoch == assigned.epoch);
        let with = genesis.and_then(|genesis| genesis.etcd);
        if let Some(etcd) = with {
            worker.ports.backups.fit(&snapshot_file, etcd.version).await?;
        }
        let request = DataRequest::Stage {
            epoch: assigned.epoch,
            backup: id,
            snapshot_file,
            name: assigned.node,
            initial_cluster: assigned.initial_cluster,
            token: assigned.token,
            cluster_id: assigned.cluster_id,
            member_id: assigned.member_id,
            continues: with.is_some_and(|etcd| etcd.continues),
        };
        let staged = worker.ask_owner(&request, STAGE_WITHIN, |_| Ok(())).await?;
        let staged = staged.ok_or_else(|| PortError::Retryable("nothing was staged".to_owned()))?;
        // The snapshot may be large, and is not encrypted any more.
        worker.shared.with(|inner| inner.jobs.forget_fetched());
        if let Err(error) = worker.ports.backups.discard().await {
            tracing::warn!("{error}");
        }
        Ok(staged)
    };
    spawn(agent, JobKind::Restore, work, |_, result| match result {
        Ok((epoch, id)) => tracing::info!("restored {id} next to the data directory for epoch {epoch}"),
        Err(error) => tracing::error!("the restore could not be staged: {error}"),
    });
}
