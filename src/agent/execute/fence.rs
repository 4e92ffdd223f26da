//! The fences: the conditions of a decision are checked again right before acting.

use std::time::Duration;

use tokio::time::timeout;

use crate::agent::Agent;
use crate::agent::execute::refusal;
use crate::backup::newest_epoch;
use crate::model::{
    AlarmKind, Assignment, BackupId, ClusterId, Epoch, Generation, Genesis, MemberList,
    NOSPACE_LIFTS_QUARANTINE, QUARANTINE, RaftTerm, StartFence, seal,
};
use crate::ports::{PortError, PortResult};

/// The longest that the loop waits for the store before it decides again.
pub(crate) const ASK_STORE: Duration = Duration::from_secs(30);

pub(crate) fn stale(why: impl std::fmt::Display) -> PortError {
    PortError::Retryable(format!("not done: {why}"))
}

pub(crate) fn assignment(agent: &Agent) -> PortResult<Assignment> {
    agent
        .ports
        .state
        .assignment()?
        .ok_or_else(|| stale("nothing is assigned to this node"))
}

/// Checks that the etcd to be stopped is still of a replaced epoch: by its assignment, else by the cluster ID
/// that it serves. `newest` must be learned, which means that a majority of the electors confirmed it when
/// they were asked (`confirm`).
pub(crate) async fn fence_stop(agent: &Agent, newest: Epoch) -> PortResult<()> {
    if agent.shared.elector().open_epoch() < newest {
        return Err(stale(format_args!("epoch {newest} is not confirmed")));
    }
    let assigned = agent.ports.state.assignment()?;
    if assigned.is_some_and(|assigned| assigned.epoch < newest) {
        return Ok(());
    }
    let runs = runs_for(agent).await?;
    let chosen = agent.shared.elector().chosen;
    if chosen.is_some_and(|genesis| genesis.replaces(runs)) {
        return Ok(());
    }
    Err(stale(format_args!("etcd runs for cluster {runs} now")))
}

/// The cluster of the etcd that runs here: from its own answer, or else from the data that was found while
/// this process ran.
async fn runs_for(agent: &Agent) -> PortResult<ClusterId> {
    let error = match agent.ports.etcd.status().await {
        Ok(status) => return Ok(status.cluster_id),
        Err(error) => error,
    };
    let unit = agent.ports.service.etcd_unit().await?;
    let runs_on = agent.shared.with(|inner| inner.data.runs_on(&unit));
    runs_on.map(|(cluster_id, _)| cluster_id).ok_or(error)
}

/// Checks the assignment's generation. Generation 0 means that nothing is assigned.
pub(crate) fn fence_generation(agent: &Agent, generation: Generation) -> PortResult<()> {
    let assigned = agent.ports.state.assignment()?;
    let now = assigned.map(|assigned| assigned.generation).unwrap_or_default();
    if now == generation {
        return Ok(());
    }
    Err(stale(format_args!(
        "generation {generation} of the assignment was replaced by {now}"
    )))
}

/// The newest epoch that the store records now.
///
/// # Errors
/// Of the store; retryable if there is none or it does not answer within this time.
pub(crate) async fn recorded(agent: &Agent, within: Duration) -> PortResult<Option<Genesis>> {
    let no_store = || stale("there is no store to confirm the epoch");
    let store = agent.ports.store.as_ref().ok_or_else(no_store)?;
    let newest = newest_epoch(store.as_ref(), &agent.spec.cluster);
    timeout(within, newest).await.unwrap_or_else(|_| {
        Err(PortError::Retryable(format!(
            "the store did not report within {} s which epoch is the newest",
            within.as_secs()
        )))
    })
}

/// Checks that `epoch` is the newest one that the shared store records now. An epoch is recorded before it is
/// open (ADR 3).
pub(crate) async fn fence_recorded(agent: &Agent, epoch: Epoch) -> PortResult<()> {
    if mutant!(StoreNotAskedAgain) {
        return Ok(());
    }
    let problem = match recorded(agent, ASK_STORE).await {
        Ok(Some(genesis)) if genesis.epoch == epoch => return Ok(()),
        Ok(Some(genesis)) => stale(format_args!("the store records epoch {} now", genesis.epoch)),
        Ok(None) => stale("the store records no epoch any more"),
        Err(error) => error,
    };
    // The planner decides again on a new answer of the store.
    agent.shared.with(|inner| inner.store.ask_again());
    Err(problem)
}

/// Checks the conditions of a start of etcd: the assignment, the newest epoch, the settings in force.
pub(crate) async fn fence_start(agent: &Agent, fence: &StartFence) -> PortResult<()> {
    fence_generation(agent, fence.generation)?;
    if agent.shared.elector().newest_epoch > fence.epoch {
        return Err(stale(format_args!(
            "epoch {} is no longer the newest",
            fence.epoch
        )));
    }
    let in_force = agent.ports.service.in_force().await;
    let good = in_force
        .known()
        .is_some_and(|f| f.generation == fence.generation && f.conflicts.is_empty());
    if !good {
        return Err(stale(
            "etcd.service's settings have changed since they were written",
        ));
    }
    Ok(())
}

/// A linearizable member list under the same term, from the raft leader on this node. Raft is the fence.
pub(crate) async fn fenced_list(agent: &Agent, term: RaftTerm) -> PortResult<MemberList> {
    let status = agent.ports.etcd.status().await?;
    if status.term != term || status.leader != Some(status.member_id) {
        return Err(stale(format_args!(
            "the raft term was {term} and is {}, or another member leads",
            status.term
        )));
    }
    let list = agent.ports.etcd.members(true).await?;
    if list.term != term {
        return Err(stale(format_args!(
            "the raft term was {term} and is {}",
            list.term
        )));
    }
    Ok(list)
}

/// Checks that the cluster holds exactly what this backup holds, and seals its quarantine: the epoch that is opened
/// from the backup may continue this one. The seal of an earlier attempt is disarmed. Without an error the new one
/// stays, also if the attempt fails later, because the epoch may be chosen all the same.
pub(crate) async fn fence_quarantine(agent: &Agent, backup: &BackupId) -> PortResult<()> {
    if mutant!(MovesUnfenced) {
        return Ok(());
    }
    let etcd = &agent.ports.etcd;
    let raised = etcd.alarms().await?;
    if !raised.contains(&QUARANTINE) {
        return Err(stale("the cluster is not in quarantine any more"));
    }
    let (member, alarm) = seal(agent.ports.clock.random());
    etcd.raise(member, alarm).await?;
    let checked = holds_all(agent, backup).await;
    let over = match checked {
        Ok(()) => agent.shared.with(|inner| inner.genesis.seal_with(member)),
        Err(_) => Some(member),
    };
    if let Some(over) = over {
        etcd.disarm(over, alarm).await?;
    }
    checked
}

/// Checks that the backup holds everything that etcd has acknowledged. This member knows all of it once it
/// has read the alarms through raft, and with them a seal nothing more is acknowledged, unless NOSPACE has
/// lifted the quarantine.
async fn holds_all(agent: &Agent, backup: &BackupId) -> PortResult<()> {
    let etcd = &agent.ports.etcd;
    // The order ends with it, and another try takes another backup.
    let outrun = |why: String| {
        agent
            .shared
            .with(|inner| inner.genesis.note_outrun(backup.clone(), why.clone()));
        PortError::Permanent(why)
    };
    let alarms = etcd.alarms().await?;
    if !alarms.contains(&QUARANTINE) {
        return Err(stale("the cluster is not in quarantine any more"));
    }
    if alarms.iter().any(|(_, alarm)| *alarm == AlarmKind::NoSpace) {
        return Err(outrun(NOSPACE_LIFTS_QUARANTINE.to_owned()));
    }
    let status = etcd.status().await?;
    let store = agent
        .ports
        .store
        .as_ref()
        .ok_or_else(|| stale("there is no store"))?;
    let (backups, cluster) = (&agent.ports.backups, &agent.spec.cluster);
    let held = timeout(ASK_STORE, backups.content(store.as_ref(), cluster, backup));
    let held = held.await.map_err(|_| stale("the store does not answer"))??;
    if (held.cluster_id, held.revision) != (status.cluster_id, status.revision) {
        return Err(outrun(format!(
            "{backup} holds revision {} of cluster {}, and etcd is at revision {} of cluster {}: take another backup",
            held.revision, held.cluster_id, status.revision, status.cluster_id
        )));
    }
    if let Some(why) = refusal::objection(agent, held.revision).await? {
        return Err(outrun(why));
    }
    // Users and roles change in quarantine, too.
    if let Some(then) = held.auth_revision
        && etcd.auth_revision().await? != then
    {
        return Err(outrun(format!(
            "users or roles have changed since {backup} was taken: take another backup"
        )));
    }
    Ok(())
}
