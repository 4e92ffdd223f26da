//! What is done in the store beside full backups, each as a job beside the loop.

use std::time::Duration;

use tokio::time::{Instant, sleep, timeout};

use crate::backup::{self, Blame, Cause, Ended, Progress};
use crate::model::{BackupId, ChainView, OperatorRequest, Origin, RequestState, Revision, Verdict};
use crate::plan;
use crate::ports::PortResult;
use crate::telemetry::{Success, message_ids};

use crate::agent::Agent;
use crate::agent::jobs::{no_store, spawn};

/// What retention says of each backup in the store now, oldest first.
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

/// The backup that the newest epoch may have still to be restored from somewhere.
fn origin_to_keep(agent: &Agent) -> Option<BackupId> {
    let chosen = agent.shared.elector().chosen;
    agent.shared.with(|inner| match &inner.observation {
        // Of an epoch that was opened since nothing is known yet.
        Some(seen) if seen.me.genesis == chosen => plan::needed_origin(seen),
        _ => match chosen?.origin {
            Origin::Backup(backup) => Some(backup),
            Origin::Empty | Origin::Member(_) => None,
        },
    })
}

/// Starts to follow etcd's changes as increments of a full backup.
pub(crate) fn increments(agent: &Agent, id: &BackupId) {
    let Some(interval) = agent.spec.backup.increment_interval else {
        return;
    };
    let (worker, backup) = (agent.clone(), id.clone());
    let newer = agent.shared.newest_full.subscribe();
    let work = async move {
        let store = worker.ports.store.clone().ok_or_else(no_store)?;
        let chain = backup::resume(store.as_ref(), &worker.spec.cluster, &backup).await;
        let chain = chain
            .blame(Cause::Store)
            .map_err(|failed| worker.count_failed("increment", failed))?;
        tracing::info!(
            "etcd's changes after revision {} are stored as increments of {backup}",
            chain.covered
        );
        // Also what another agent has stored and not copied.
        worker.shared.copy_increments.notify_one();
        let following = backup::Following {
            cluster: worker.spec.cluster.clone(),
            node: worker.spec.node.clone(),
            interval,
            stop: worker.shared.stopped.clone(),
            flush_to: worker.shared.flush_to.subscribe(),
            awake: worker.shared.awake.subscribe(),
        };
        let (etcd, clock) = (worker.ports.etcd.as_ref(), worker.ports.clock.as_ref());
        if let Ok(status) = etcd.status().await {
            // What was wanted of a history that a restore has put an end to would be waited for in vain.
            worker.shared.flush_to.send_if_modified(|wanted| {
                let gone = *wanted > status.revision;
                if gone {
                    *wanted = Revision(0);
                }
                gone
            });
        }
        let told = |progress: Progress| {
            let now = clock.now();
            if let Some(last) = progress.last {
                worker.shared.copy_increments.notify_one();
                worker.counters.stored(
                    "increment",
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
                inner.backups.covered = Some((progress.covered, now));
                let told = inner.backups.chain.replace(chain);
                told.is_none_or(|told| told.auth_changed != progress.auth_changed)
                    || progress.increments == worker.spec.backup.max_increments
            });
            if news {
                worker.shared.wake.notify_one();
            }
            tell_flushed(&worker, progress.covered);
        };
        let ended = backup::follow(etcd, store.as_ref(), clock, &following, chain, newer, told).await;
        worker.shared.with(|inner| {
            inner.backups.chain = None;
            inner.backups.flushing = false;
        });
        ended.map_err(|failed| worker.count_failed("increment", failed))
    };
    let id = id.clone();
    spawn(
        agent,
        |inner| &mut inner.backups.increments,
        work,
        move |agent, result| match result {
            Ok(Ended::Gap(why)) => {
                tracing::warn!("the increments of {id} cannot go on, a new full backup is taken: {why}");
                agent.shared.with(|inner| {
                    inner.backups.gap = Some(id);
                    inner.backups.went_back = None;
                });
            }
            Ok(Ended::WentBack(why)) => {
                tracing::error!(
                    message_id = message_ids::HISTORY_WENT_BACK,
                    "etcd was put back to an older state, so the increments of {id} are of another history; a new full backup \
                     begins a new timeline: {why}"
                );
                agent.shared.with(|inner| {
                    inner.backups.gap = Some(id);
                    inner.backups.went_back = Some(why);
                });
            }
            Ok(Ended::Superseded) => tracing::info!("a newer full backup takes over from {id}"),
            Ok(Ended::Stopped) => {}
            Ok(Ended::NotCoordinator) => tracing::info!("another agent stores etcd's changes now"),
            Err(error) => tracing::warn!("etcd's changes are not stored for the moment: {error}"),
        },
    );
}

/// Requests that all changes committed until now are stored at once. The request is answered when they are.
pub(crate) async fn flush(agent: &Agent) -> PortResult<()> {
    // Answered through raft: after this the local revision is not older than any write that was acknowledged before.
    agent.ports.etcd.members(true).await?;
    flush_to(agent, agent.ports.etcd.status().await?.revision);
    // Set after the revision, so progress is compared with this request.
    let covered = agent.shared.with(|inner| {
        inner.backups.flushing = true;
        inner.backups.covered
    });
    if let Some((covered, _)) = covered {
        tell_flushed(agent, covered);
    }
    Ok(())
}

/// Has everything up to this revision stored without waiting for the interval.
fn flush_to(agent: &Agent, revision: Revision) {
    agent.shared.flush_to.send_if_modified(|wanted| {
        let more = *wanted < revision;
        *wanted = revision.max(*wanted);
        more
    });
}

/// How long a stop of etcd waits for its changes to be stored.
const BEFORE_STOP: Duration = Duration::from_secs(3);
/// An etcd that is asked to stop has by then, or systemd kills it (`DefaultTimeoutStopSec=`).
const STOPS: Duration = Duration::from_secs(90);
/// Time between two looks at what is stored.
const LOOK: Duration = Duration::from_millis(20);

/// Has stored what etcd has committed, and what it commits from now on heard of at once: what a client was told before
/// the stop is not lost, even if all data is.
pub(crate) async fn before_stop(agent: &Agent) -> String {
    if agent.ports.store.is_none() || agent.spec.backup.increment_interval.is_none() {
        return "this agent stores no changes of etcd".to_owned();
    }
    agent.shared.awake.send_replace(Instant::now() + STOPS);
    let stored = async {
        let status = agent.ports.etcd.status().await?;
        let follows = || agent.shared.with(|inner| inner.backups.chain.is_some());
        // An agent whose etcd was just elected is about to.
        if status.leader != Some(status.member_id) && !follows() {
            return PortResult::Ok(None);
        }
        let revision = status.revision;
        flush_to(agent, revision);
        let covered = || agent.shared.with(|inner| inner.backups.covered);
        while !follows() || covered().is_none_or(|(covered, _)| covered < revision) {
            sleep(LOOK).await;
        }
        Ok(Some(revision))
    };
    match timeout(BEFORE_STOP, stored).await {
        Ok(Ok(Some(revision))) => format!("everything up to revision {revision} is stored"),
        Ok(Ok(None)) => "another agent stores its changes".to_owned(),
        Ok(Err(error)) => format!("whether all is stored is not known: {error}"),
        Err(_) => format!(
            "what was committed last could not be stored within {} s",
            BEFORE_STOP.as_secs()
        ),
    }
}

/// Answers the request for an increment once everything committed at its time is stored.
fn tell_flushed(agent: &Agent, covered: Revision) {
    let wanted = *agent.shared.flush_to.borrow();
    let done = agent
        .shared
        .with(|inner| covered >= wanted && std::mem::take(&mut inner.backups.flushing));
    if done {
        let asked = |request: &OperatorRequest| *request == OperatorRequest::Increment;
        let text = format!("everything up to revision {covered} is stored");
        agent.shared.set_request_state(asked, RequestState::Done, &text);
    }
}

/// How long the agent waits at its end until the changes that it has received are stored.
const LAST: Duration = Duration::from_secs(5);

/// Returns when the changes received before the loop ended are stored, or at the timeout.
pub(crate) async fn settled(agent: &Agent) {
    let settled = async {
        while agent.shared.with(|inner| inner.backups.increments.running) {
            sleep(LOOK).await;
        }
    };
    if timeout(LAST, settled).await.is_err() {
        tracing::warn!("the last changes of etcd could not be stored before the end");
    }
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
                    agent.shared.set_request_state(asked, RequestState::Done, &text);
                    agent.shared.with(|inner| inner.backups.pruned = after);
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
