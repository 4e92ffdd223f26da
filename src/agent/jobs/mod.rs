//! What takes long and runs beside the loop: backups, fetching and staging a restore, looking at the store.

pub(super) mod copy;
pub(super) mod handover;
pub(super) mod increments;
pub(super) mod probe;
pub(super) mod store_view;
pub(super) mod verify;

use std::sync::Arc;

use crate::backup::{self, BackupMeta, Blame, Cause, Failed};
use crate::model::{Assignment, BackupFormat, BackupId, Job, NodeName, OperatorRequest, RequestState};
use crate::ports::{DataRequest, Etcd, PortError, PortResult, STAGE_WITHIN};
use crate::telemetry::Success;

use crate::agent::Agent;
use crate::agent::api::size;
use crate::agent::execute::fence::CAUGHT_UP_ENTRIES;
use crate::agent::state::Inner;

/// Runs `work` as the job in `slot`; its end is remembered there and wakes the loop.
pub(super) fn spawn<T: Send + 'static>(
    agent: &Agent,
    slot: fn(&mut Inner) -> &mut Job,
    work: impl Future<Output = PortResult<T>> + Send + 'static,
    done: impl FnOnce(&Agent, Result<T, &PortError>) + Send + 'static,
) {
    agent.shared.with(|inner| slot(inner).running = true);
    let agent = agent.clone();
    tokio::spawn(async move {
        let result = work.await;
        let now = agent.ports.clock.steady();
        agent.shared.with(|inner| {
            let job = slot(inner);
            job.running = false;
            match &result {
                Ok(_) => *job = Job::default(),
                Err(error) => {
                    job.failures = job.failures.saturating_add(1);
                    job.failed_at = Some(now);
                    job.error = Some(error.to_string());
                }
            }
        });
        match result {
            Ok(value) => done(&agent, Ok(value)),
            Err(error) => done(&agent, Err(&error)),
        }
        agent.shared.wake.notify_one();
    });
}

impl Agent {
    /// Counts what failed for `/metrics`.
    pub(super) fn count_failed(&self, kind: &'static str, failed: Failed) -> PortError {
        self.counters.failed(kind, failed.cause.as_str());
        failed.error
    }
}

pub(super) fn no_store() -> PortError {
    PortError::Permanent("no store is configured: set store.url".to_owned())
}

/// The etcd of a node, if it has caught up: a follower that lags would make a backup that is older than it says.
async fn caught_up(agent: &Agent, from: &NodeName) -> PortResult<Arc<dyn Etcd>> {
    let own = agent.ports.etcd.clone();
    let Some(other) = own.of(from) else {
        return Ok(own);
    };
    let (here, there) = (own.status().await?, other.status().await?);
    let same = there.cluster_id == here.cluster_id && there.leader.is_some() && there.leader == here.leader;
    if same && there.applied.saturating_add(CAUGHT_UP_ENTRIES) >= here.applied {
        return Ok(other);
    }
    Err(PortError::Retryable(format!(
        "etcd on {from} has not caught up: it has applied {} of raft's entries, {} has applied {}",
        there.applied, agent.spec.node, here.applied
    )))
}

/// Which requests a backup in this form answers, where `usual` is that of the configuration.
fn is_backup(usual: BackupFormat, format: BackupFormat) -> impl Fn(&OperatorRequest) -> bool + Copy {
    move |request| match request {
        OperatorRequest::Backup => format == usual,
        OperatorRequest::BackupAs { format: asked } => *asked == format,
        _ => false,
    }
}

/// Starts a full backup of a node's member, in this format.
pub(super) fn backup(agent: &Agent, from: &NodeName, format: BackupFormat) {
    let (worker, from) = (agent.clone(), from.clone());
    let is_backup = is_backup(agent.spec.backup.format, format);
    let work = async move {
        let store = worker.ports.store.clone().ok_or_else(no_store)?;
        let elector = worker.shared.elector();
        let chosen = elector.chosen.as_ref();
        let meta = BackupMeta {
            cluster: worker.spec.cluster.clone(),
            // A newer epoch may have been reported; etcd still serves the known one.
            epoch: chosen.map_or(elector.newest_epoch, |genesis| genesis.epoch),
            cluster_id: chosen.map(|genesis| genesis.cluster_id),
            node: worker.spec.node.clone(),
            started_at: worker.ports.clock.now(),
            seq: worker.ports.clock.random(),
        };
        let progress = |read: u64| {
            let text = format!("{} MiB read", read >> 20);
            worker
                .shared
                .set_request_state(is_backup, RequestState::Pending, &text);
        };
        let format = backup::Format::of(format, size::in_force(&worker).size);
        let began = worker.ports.clock.steady();
        let taken = async {
            let etcd = caught_up(&worker, &from).await.blame(Cause::Etcd)?;
            let backups = &worker.ports.backups;
            backups
                .take_full(etcd.as_ref(), store.as_ref(), &meta, format, &progress)
                .await
        };
        let taken = taken
            .await
            .map_err(|failed| worker.count_failed("full", failed))?;
        worker.counters.stored(
            "full",
            Success {
                at: taken.at,
                revision: taken.revision,
                size_bytes: taken.size_bytes,
                took: worker.ports.clock.steady().since(began),
            },
        );
        Ok(taken)
    };
    spawn(
        agent,
        |inner| &mut inner.backup,
        work,
        move |agent, result| match result {
            Ok(summary) => {
                tracing::info!(
                    message_id = crate::telemetry::message_ids::BACKUP_COMMITTED,
                    "backup {} committed: revision {}, {} bytes stored",
                    summary.id,
                    summary.revision,
                    summary.size_bytes
                );
                agent.shared.set_request_state(
                    is_backup,
                    RequestState::Done,
                    &format!("{} (revision {})", summary.id, summary.revision),
                );
                agent.shared.copy_wanted.notify_one();
                agent.shared.note_full(&summary, agent.ports.clock.now());
                agent.shared.with(|inner| {
                    if let Some(view) = inner.store.view_mut() {
                        view.newest_backup = Some(summary.clone());
                    }
                    inner.last_backup = Some(summary);
                    // What its marker says beyond that, e.g. that etcd was put back.
                    inner.store.ask_again();
                });
            }
            Err(error) => {
                tracing::error!(
                    message_id = crate::telemetry::message_ids::BACKUP_FAILED,
                    "the backup failed, nothing was committed: {error}"
                );
                agent
                    .shared
                    .set_request_state(is_backup, RequestState::Failed, &error.to_string());
            }
        },
    );
}

/// Starts to fetch and check a backup.
pub(super) fn fetch(agent: &Agent, id: &BackupId) {
    let (worker, id) = (agent.clone(), id.clone());
    let work = async move {
        let store = worker.ports.store.clone().ok_or_else(no_store)?;
        let (backups, cluster) = (&worker.ports.backups, &worker.spec.cluster);
        let file_name = backups.fetch(store.as_ref(), cluster, &id).await?;
        Ok((id, file_name))
    };
    spawn(
        agent,
        |inner| &mut inner.restore,
        work,
        |agent, result| match result {
            Ok(fetched) => agent.shared.with(|inner| inner.fetched = Some(fetched)),
            Err(error) => tracing::error!("the backup cannot be fetched: {error}"),
        },
    );
}

/// Starts to restore a fetched backup next to the data directory.
pub(super) fn stage(agent: &Agent, id: &BackupId, assigned: Assignment) {
    let (worker, id) = (agent.clone(), id.clone());
    let work = async move {
        let file = worker
            .shared
            .with(|inner| inner.fetched.clone())
            .filter(|(have, _)| *have == id);
        let (_, snapshot_file) = file.ok_or_else(|| PortError::Retryable(format!("{id} is not fetched")))?;
        let request = DataRequest::Stage {
            epoch: assigned.epoch,
            backup: id,
            snapshot_file,
            name: assigned.node,
            initial_cluster: assigned.initial_cluster,
            token: assigned.token,
            cluster_id: assigned.cluster_id,
            member_id: assigned.member_id,
        };
        let staged = worker.ask_owner(&request, STAGE_WITHIN, |_| Ok(())).await?;
        staged.ok_or_else(|| PortError::Retryable("nothing was staged".to_owned()))
    };
    spawn(
        agent,
        |inner| &mut inner.restore,
        work,
        |_, result| match result {
            Ok((epoch, id)) => tracing::info!("{id} is restored beside the data directory for epoch {epoch}"),
            Err(error) => tracing::error!("the restore could not be staged: {error}"),
        },
    );
}
