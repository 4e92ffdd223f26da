//! Defragments this node's etcd, and compacts etcd's history, as background jobs.

use std::time::Duration;

use crate::agent::Agent;
use crate::agent::jobs::spawn;
use crate::agent::state::jobs::JobKind;
use crate::model::{Compaction, DefragEnd, NodeOrder};
use crate::ports::PortError;

/// How often etcd is asked whether its defragmentation has ended.
const POLL: Duration = Duration::from_millis(200);
/// For how long.
const PATIENCE: Duration = Duration::from_mins(15);

/// Starts to defragment this node's etcd. `order` is the order that is carried out with it, if any.
pub(crate) fn defragment(agent: &Agent, order: Option<NodeOrder>) {
    let worker = agent.clone();
    let work = async move {
        let before = worker.ports.etcd.status().await?;
        let compacted = worker.newest_compacted(before.cluster_id);
        let done = worker.ports.etcd.defragment().await;
        if matches!(done, Err(PortError::OutcomeUnknown(_))) {
            until_it_reads(&worker).await;
        }
        done?;
        if let Some(order) = order {
            let state = worker.ports.state.as_ref();
            worker
                .shared
                .update_etcd_run(state, |run| run.clone().defragments(&order))?;
        }
        let size = worker.ports.etcd.status().await?.db_size_bytes;
        let end = DefragEnd { size, compacted };
        worker.shared.with(|inner| inner.jobs.note_defrag(end));
        Ok((before.db_size_bytes, size))
    };
    spawn(agent, JobKind::Defrag, work, |_, result| match result {
        Ok((before, after)) => {
            tracing::info!("etcd is defragmented: its database had {before} bytes and has {after}");
        }
        Err(error) => tracing::warn!("etcd was not defragmented: {error}"),
    });
}

/// Starts to wait for the end of a defragmentation that an earlier run of the agent may have begun: etcd goes on
/// when the agent dies, and also when the agent's memory is lost.
pub(crate) fn await_defrag(agent: &Agent) {
    if mutant!(DefragForgotten) {
        return;
    }
    let worker = agent.clone();
    let work = async move {
        until_it_reads(&worker).await;
        Ok(())
    };
    spawn(agent, JobKind::Defrag, work, |_, _| {});
}

/// Waits until etcd answers a read from its database, or is no longer the same process.
async fn until_it_reads(agent: &Agent) {
    let begun = agent.ports.clock.steady();
    let mut first = None;
    while agent.ports.clock.steady().since(begun) < PATIENCE {
        if let Ok(unit) = agent.ports.service.etcd_unit().await {
            let runs = agent.etcd_process(&unit).known().cloned();
            if runs.is_none() || runs != *first.get_or_insert_with(|| runs.clone()) {
                return;
            }
            if let Ok(()) | Err(PortError::Permanent(_)) = agent.ports.etcd.read().await {
                return;
            }
        }
        tokio::time::sleep(POLL).await;
    }
}

/// Starts to compact etcd's history before this revision.
pub(crate) fn compact(agent: &Agent, compaction: Compaction) {
    let (worker, revision) = (agent.clone(), compaction.revision);
    let work = async move { worker.ports.etcd.compact(revision).await };
    let ended = move |agent: &Agent, result: Result<(), &_>| match result {
        Ok(()) => {
            agent.shared.with(|inner| inner.jobs.note_compaction(compaction));
            tracing::warn!("etcd's history before revision {revision} is compacted");
        }
        Err(error) => tracing::warn!("etcd's history was not compacted: {error}"),
    };
    spawn(agent, JobKind::Compact, work, ended);
}
