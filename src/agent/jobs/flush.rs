//! Stores the last changes of etcd at once: on request, before etcd stops, and before the agent ends.

use std::time::Duration;

use tokio::time::{Instant, sleep, timeout};

use crate::agent::Agent;
use crate::agent::state::jobs::JobKind;
use crate::model::{OperatorRequest, RequestState, Revision};
use crate::ports::PortResult;

/// Requests that all changes committed until now are stored at once. The request is answered when they are.
pub(crate) async fn flush(agent: &Agent) -> PortResult<()> {
    let begun = agent
        .shared
        .begin(|request| *request == OperatorRequest::Increment);
    // This request is answered through raft: after it the local revision is not older than any write
    // acknowledged before.
    agent.ports.etcd.members(true).await?;
    let revision = agent.ports.etcd.status().await?.revision;
    flush_to(agent, revision);
    // Set after the revision, so progress is compared with this request.
    let covered = agent.shared.with(|inner| {
        inner.jobs.begin_flush(begun.clone());
        inner.jobs.covered()
    });
    if let Some(covered) = covered {
        if covered >= revision {
            agent.shared.note_unchanged(&begun);
        }
        answer_flush(agent, covered);
    }
    Ok(())
}

/// Requests that everything up to this revision is stored without waiting for the interval.
fn flush_to(agent: &Agent, revision: Revision) {
    agent.shared.flush_to.send_if_modified(|wanted| {
        let more = *wanted < revision;
        *wanted = revision.max(*wanted);
        more
    });
}

/// How long a stop of etcd waits for its changes to be stored.
const BEFORE_STOP: Duration = Duration::from_secs(3);
/// An etcd that is asked to stop has stopped within this time, or systemd kills it
/// (`DefaultTimeoutStopSec=`).
const STOPS: Duration = Duration::from_secs(90);
/// How often progress is checked.
const LOOK: Duration = Duration::from_millis(20);

/// Waits, for at most `BEFORE_STOP`, until everything that etcd has committed is stored, and lets the agent
/// receive later commits without delay. So no write acknowledged before the stop is lost, even if all data is
/// lost. Returns one line on the result.
pub(crate) async fn before_stop(agent: &Agent) -> String {
    if agent.ports.store.is_none() || agent.spec.backup.increment_interval.is_none() {
        return "this agent stores no changes of etcd".to_owned();
    }
    agent.shared.awake.send_replace(Instant::now() + STOPS);
    let stored = async {
        let status = agent.ports.etcd.status().await?;
        let follows = || agent.shared.with(|inner| inner.jobs.chain().is_some());
        // An agent whose etcd was just elected is about to follow the changes.
        if status.leader != Some(status.member_id) && !follows() {
            return PortResult::Ok(None);
        }
        let revision = status.revision;
        flush_to(agent, revision);
        let covered = || agent.shared.with(|inner| inner.jobs.covered());
        while covered().is_none_or(|covered| covered < revision) {
            sleep(LOOK).await;
        }
        Ok(Some(revision))
    };
    match timeout(BEFORE_STOP, stored).await {
        Ok(Ok(Some(revision))) => format!("everything up to revision {revision} is stored"),
        Ok(Ok(None)) => "another agent stores its changes".to_owned(),
        Ok(Err(error)) => format!("it is not known whether everything is stored: {error}"),
        Err(_) => format!(
            "the last committed changes could not be stored within {} s",
            BEFORE_STOP.as_secs()
        ),
    }
}

/// Answers the request for an increment once everything committed at its time is stored.
pub(crate) fn answer_flush(agent: &Agent, covered: Revision) {
    let done = agent.shared.with(|inner| {
        let wanted = *agent.shared.flush_to.borrow();
        (covered >= wanted).then(|| inner.jobs.end_flush()).flatten()
    });
    if let Some(begun) = done {
        let text = format!("everything up to revision {covered} is stored");
        agent.shared.set_begun(&begun, RequestState::Done, &text);
        // A later order may be waiting.
        agent.shared.wake.notify_one();
    }
}

/// Ends this agent's watch of etcd's changes, because another agent stores them and etcd is about to be
/// restarted: with an open watch etcd takes 7 s to stop (`ReqTimeout` in etcd's `server/config/config.go`).
/// What was received is stored first.
pub(crate) async fn leave_to_coordinator(agent: &Agent) {
    let stop = agent.shared.with(|inner| inner.jobs.stop_increments());
    stop.cancel();
    settled(agent).await;
}

/// How long the agent waits until the changes that it has received are stored.
const LAST: Duration = Duration::from_secs(5);

/// Returns when the changes received before the job was ended are stored, or at the timeout.
pub(crate) async fn settled(agent: &Agent) {
    let settled = async {
        while agent
            .shared
            .with(|inner| inner.jobs.job(JobKind::Increments).running)
        {
            sleep(LOOK).await;
        }
    };
    if timeout(LAST, settled).await.is_err() {
        tracing::warn!("the last changes of etcd could not be stored in time");
    }
}
