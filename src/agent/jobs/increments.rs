//! Follows etcd's changes and stores them as increments of a full backup.

use crate::agent::Agent;
use crate::agent::jobs::flush::answer_flush;
use crate::agent::jobs::{no_store, spawn};
use crate::agent::state::jobs::JobKind;
use crate::backup::{self, Cause, CausedBy, Ended, Progress};
use crate::model::{BackupId, ChainView, Revision};
use crate::telemetry::{BackupKind, Success, message_ids};

/// Starts to follow etcd's changes as increments of a full backup.
pub(crate) fn follow(agent: &Agent, id: &BackupId) {
    let Some(interval) = agent.spec.backup.increment_interval else {
        return;
    };
    let (worker, backup) = (agent.clone(), id.clone());
    let newer = agent.shared.newest_full.subscribe();
    let stop = agent.shared.stopped.child_token();
    agent.shared.with(|inner| inner.jobs.follow(stop.clone()));
    let work = async move {
        let store = worker.ports.store.clone().ok_or_else(no_store)?;
        let chain = tokio::select! {
            biased;
            chain = backup::resume(store.as_ref(), &worker.spec.cluster, &backup) => chain,
            () = stop.cancelled() => return Ok(Ended::Stopped),
        };
        let chain = chain
            .caused_by(Cause::Store)
            .map_err(|failed| worker.count_failed(BackupKind::Increment, failed))?;
        tracing::info!(
            "etcd's changes after revision {} are stored as increments of {backup}",
            chain.covered
        );
        // This also copies increments that another agent has stored and not copied.
        worker.shared.copy_increments.notify_one();
        let following = backup::Following {
            cluster: worker.spec.cluster.clone(),
            node: worker.spec.node.clone(),
            interval,
            stop: stop.clone(),
            flush_to: worker.shared.flush_to.subscribe(),
            awake: worker.shared.awake.subscribe(),
        };
        let (etcd, clock) = (worker.ports.etcd.as_ref(), worker.ports.clock.as_ref());
        if let Ok(status) = etcd.status().await {
            // A revision that was wanted of a history that a restore has ended would never be reached.
            worker.shared.flush_to.send_if_modified(|wanted| {
                let gone = *wanted > status.revision;
                if gone {
                    *wanted = Revision(0);
                }
                gone
            });
        }
        let report = |progress: Progress| {
            let now = clock.now();
            if let Some(last) = progress.last {
                worker.shared.copy_increments.notify_one();
                worker.counters.stored(
                    BackupKind::Increment,
                    Success {
                        at: last.at,
                        revision: progress.covered,
                        size_bytes: last.size_bytes,
                        took: last.took,
                    },
                );
            }
            let chain = ChainView {
                backup: backup.clone(),
                increments: progress.increments,
                auth_changed: progress.auth_changed,
            };
            let news = worker.shared.with(|inner| {
                let before = inner.jobs.note_covered(progress.covered, now, chain);
                before.is_none_or(|before| before.auth_changed != progress.auth_changed)
                    || progress.increments == worker.spec.backup.max_increments
            });
            if news {
                worker.shared.wake.notify_one();
            }
            answer_flush(&worker, progress.covered);
        };
        let ended = backup::follow(etcd, store.as_ref(), clock, &following, chain, newer, report).await;
        worker.shared.with(|inner| inner.jobs.leave_chain());
        ended.map_err(|failed| worker.count_failed(BackupKind::Increment, failed))
    };
    let id = id.clone();
    spawn(
        agent,
        JobKind::Increments,
        work,
        move |agent, result| match result {
            Ok(Ended::Gap(why)) => {
                tracing::warn!("the increments of {id} cannot go on, a new full backup is taken: {why}");
                agent.shared.with(|inner| inner.jobs.note_gap(id, None));
            }
            Ok(Ended::WentBack(why)) => {
                tracing::error!(
                    message_id = message_ids::HISTORY_WENT_BACK,
                    "etcd was put back to an older state, so the increments of {id} are of another history; a new full backup \
                     begins a new timeline: {why}"
                );
                agent.shared.with(|inner| inner.jobs.note_gap(id, Some(why)));
            }
            Ok(Ended::Superseded) => tracing::info!("a newer full backup takes over from {id}"),
            Ok(Ended::Stopped) => {}
            Ok(Ended::NotCoordinator) => tracing::info!("another agent stores etcd's changes now"),
            Err(error) => tracing::warn!("etcd's changes are not stored for the moment: {error}"),
        },
    );
}
