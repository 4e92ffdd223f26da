//! Takes full backups.

use std::sync::Arc;
use std::time::Duration;

use crate::agent::Agent;
use crate::agent::jobs::{no_store, spawn};
use crate::agent::state::jobs::JobKind;
use crate::backup::{self, BackupMeta, Cause, CausedBy};
use crate::model::{Backoff, BackupFormat, NodeName, OperatorRequest, RequestState};
use crate::plan::has_caught_up;
use crate::ports::{Etcd, PortError, PortResult};
use crate::telemetry::{BackupKind, Success};

/// How often a read through quorum is repeated, and the pauses before that: an election may be under way.
const TRIES: u32 = 3;
const ELECTION: Backoff = Backoff::new(Duration::from_millis(500), Duration::from_secs(2));

/// The etcd of a node, if it has caught up. The backup of a lagging follower would hold older data than its
/// time suggests.
async fn caught_up(agent: &Agent, from: &NodeName) -> PortResult<Arc<dyn Etcd>> {
    let own = agent.ports.etcd.clone();
    let Some(other) = own.of(from) else {
        return Ok(own);
    };
    let (here, there) = (own.status().await?, other.status().await?);
    let same = there.cluster_id == here.cluster_id && there.leader.is_some() && there.leader == here.leader;
    if same && has_caught_up(there.applied, here.applied) {
        return Ok(other);
    }
    Err(PortError::Retryable(format!(
        "etcd on {from} has not caught up: it has applied {} of raft's entries, {} has applied {}",
        there.applied, agent.spec.node, here.applied
    )))
}

/// Waits until a member has applied what was acknowledged before the call: it answers this request through raft.
async fn read_through_quorum(agent: &Agent, etcd: &dyn Etcd) -> PortResult<()> {
    let mut failures = 0;
    loop {
        match etcd.members(true).await {
            Ok(_) => return Ok(()),
            Err(error) if matches!(error, PortError::Permanent(_)) || failures == TRIES => return Err(error),
            Err(_) => failures += 1,
        }
        tokio::time::sleep(ELECTION.jittered(failures, agent.ports.clock.random())).await;
    }
}

/// True for the requests that a backup in this format answers. `usual` is the configured format.
fn is_backup(usual: BackupFormat, format: BackupFormat) -> impl Fn(&OperatorRequest) -> bool {
    move |request| match request {
        OperatorRequest::Backup => format == usual,
        OperatorRequest::BackupAs { format: asked } => *asked == format,
        _ => false,
    }
}

/// Starts a full backup of a node's member, in this format.
pub(crate) fn take(agent: &Agent, from: &NodeName, format: BackupFormat) {
    let (worker, from) = (agent.clone(), from.clone());
    let begun = agent.shared.begin(is_backup(agent.spec.backup.format, format));
    let ended = begun.clone();
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
            ordered: !begun.is_empty(),
        };
        let progress = |read: u64| {
            let text = format!("{} MiB read", read >> 20);
            worker.shared.set_begun(&begun, RequestState::Pending, &text);
        };
        let format = backup::Format::of(format, worker.spec_in_force().size);
        let began = worker.ports.clock.steady();
        let taken = async {
            let etcd = caught_up(&worker, &from).await.caused_by(Cause::Etcd)?;
            if !begun.is_empty() {
                read_through_quorum(&worker, etcd.as_ref())
                    .await
                    .caused_by(Cause::Etcd)?;
            }
            let backups = &worker.ports.backups;
            backups
                .take_full(etcd.as_ref(), store.as_ref(), &meta, format, &progress)
                .await
        };
        let taken = taken
            .await
            .map_err(|failed| worker.count_failed(BackupKind::Full, failed))?;
        worker.counters.stored(
            BackupKind::Full,
            Success {
                at: taken.at,
                revision: taken.revision,
                size_bytes: taken.size_bytes,
                took: worker.ports.clock.steady().since(began),
            },
        );
        Ok(taken)
    };
    spawn(agent, JobKind::Full, work, move |agent, result| match result {
        Ok(summary) => {
            tracing::info!(
                message_id = crate::telemetry::message_ids::BACKUP_COMMITTED,
                "backup {} committed: revision {}, {} bytes stored",
                summary.id,
                summary.revision,
                summary.size_bytes
            );
            agent.shared.set_begun(
                &ended,
                RequestState::Done,
                &format!("{} (revision {})", summary.id, summary.revision),
            );
            agent.shared.copy_wanted.notify_one();
            agent.shared.note_full(&summary, agent.ports.clock.now());
            agent.shared.with(|inner| {
                if let Some(view) = inner.store.view_mut() {
                    view.newest_backup = Some(summary.clone());
                }
                inner.jobs.note_full(summary);
                // The backup's marker in the store may say more, e.g. that etcd was put back to an older
                // state.
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
                .set_begun(&ended, RequestState::Failed, &error.to_string());
        }
    });
}
