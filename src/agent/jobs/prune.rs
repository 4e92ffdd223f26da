//! Retention: which backups are kept, and the removal of the others.

use crate::agent::Agent;
use crate::agent::jobs::{no_store, spawn};
use crate::agent::state::jobs::JobKind;
use crate::backup::{self, Call, Point, Pruning};
use crate::model::{BackupId, Epoch, Genesis, OperatorRequest, Origin, RequestState, Verdict};
use crate::plan;
use crate::ports::{ObjectStore, PortResult};
use crate::telemetry::message_ids;

/// What is in the store now.
pub(crate) struct Judged {
    /// Retention's verdict on each backup that can be read, oldest first.
    pub(crate) verdicts: Vec<Verdict>,
    /// The others, and why they cannot be read.
    pub(crate) unreadable: Vec<(BackupId, String)>,
}

/// Retention's verdict on each backup that is in the store now.
pub(crate) async fn judged(agent: &Agent) -> PortResult<Judged> {
    let store = agent.ports.store.clone().ok_or_else(no_store)?;
    let catalogue = backup::list(store.as_ref(), &agent.spec.cluster).await?;
    for (id, why) in &catalogue.unreadable {
        tracing::warn!("backup {id} cannot be read and is left alone: {why}");
    }
    let now = agent.ports.clock.now();
    let mut verdicts = plan::judge(&catalogue.backups, now, &agent.spec.backup.retention);
    for origin in origins_to_keep(agent, store.as_ref()).await? {
        plan::keep_origin(&mut verdicts, &origin);
    }
    Ok(Judged {
        verdicts,
        unreadable: catalogue.unreadable,
    })
}

/// The backups that some founder of the newest epoch may have still to be restored from: of the epoch that
/// this node knows, and of a newer one that the store records.
async fn origins_to_keep(agent: &Agent, store: &dyn ObjectStore) -> PortResult<Vec<BackupId>> {
    let chosen = agent.shared.elector().chosen;
    let known = chosen.as_ref().map_or(Epoch(0), |genesis| genesis.epoch);
    let recorded = backup::newest_epoch(store, &agent.spec.cluster).await?;
    let newer = recorded.filter(|genesis| genesis.epoch > known).and_then(origin);
    let own = agent.shared.with(|inner| match inner.last.observation() {
        // If an epoch was opened since the observation, nothing is known about its founders yet.
        Some(seen) if seen.me.genesis == chosen => plan::needed_origin(seen),
        _ => chosen.and_then(origin),
    });
    Ok(own.into_iter().chain(newer).collect())
}

fn origin(genesis: Genesis) -> Option<BackupId> {
    match genesis.origin {
        Origin::Backup(backup) => Some(backup),
        Origin::Empty | Origin::Member(_) => None,
    }
}

/// Why a backup stays that retention did not keep. A run may take hours, and a restore may have begun since it was
/// judged.
async fn needed_since(agent: &Agent, store: &dyn ObjectStore, id: &BackupId) -> PortResult<Option<String>> {
    if let Some(restore) = restoring(agent).into_iter().next() {
        return Ok(Some(restore));
    }
    let origins = origins_to_keep(agent, store).await?;
    let is_origin = origins.iter().any(|origin| Point::parse(origin).backup == *id);
    Ok(is_origin.then(|| "an epoch is restored from it".to_owned()))
}

/// The nodes on which a restore is under way, one line each.
pub(crate) fn restoring(agent: &Agent) -> Vec<String> {
    let asked = |request: &OperatorRequest| matches!(request, OperatorRequest::Restore { .. });
    let here = agent.shared.pending().iter().any(|view| asked(&view.request));
    let peers = agent.ports.peers.last_seen();
    let there = peers
        .iter()
        .filter(|(_, seen)| seen.known().is_some_and(|status| status.steering.restoring));
    Some(&agent.spec.node)
        .filter(|_| here)
        .into_iter()
        .chain(there.map(|(node, _)| node))
        .map(|node| format!("a restore is under way on {node}"))
        .collect()
}

/// The time, and a random number, for a call of the store's functions.
pub(crate) fn call(agent: &Agent) -> Call {
    Call {
        now: agent.ports.clock.now(),
        random: agent.ports.clock.random(),
    }
}

/// Starts to remove the backups that retention no longer keeps.
pub(crate) fn prune(agent: &Agent, after: Option<BackupId>) {
    let begun = agent.shared.begin(|request| *request == OperatorRequest::Prune);
    let worker = agent.clone();
    let work = async move {
        let store = worker.ports.store.clone().ok_or_else(no_store)?;
        let verdicts = judged(&worker).await?.verdicts;
        let goes = verdicts.into_iter().filter(Verdict::goes);
        let mut pruning = Pruning::begin(store.as_ref(), &worker.spec.cluster);
        for id in goes.map(|verdict| verdict.backup.summary.id) {
            match needed_since(&worker, store.as_ref(), &id).await? {
                Some(why) => pruning.keep(&id, why),
                None => pruning.remove(&id, &call(&worker)).await?,
            }
        }
        pruning.finish(worker.ports.clock.now()).await
    };
    spawn(agent, JobKind::Prune, work, move |agent, result| match result {
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
            if !pruned.changed() {
                agent.shared.note_unchanged(&begun);
            }
            agent.shared.set_begun(&begun, RequestState::Done, &text);
            agent.shared.with(|inner| inner.jobs.note_pruned(after));
        }
        Err(error) => {
            tracing::warn!("old backups cannot be removed: {error}");
            agent
                .shared
                .set_begun(&begun, RequestState::Failed, &error.to_string());
        }
    });
}
