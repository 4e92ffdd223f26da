//! Carries out one decided action. Chooses nothing; checks the action's fence again right before acting.

mod confirm;
mod genesis;
pub(super) mod membership;
mod removal_check;
mod restart;

use std::time::Duration;

use crate::model::{
    Action, ActiveState, Assignment, BackupId, ClusterId, DataState, Directives, Epoch, Fact, GateState,
    Generation, Genesis, Job, Learn, OperatorRequest, RequestState, StartFence, UnitState,
};
use crate::ports::{DataRequest, PortError, PortResult};

use crate::agent::execute::membership::Going;
use crate::agent::jobs::handover;
use crate::agent::jobs::increments;
use crate::agent::jobs::verify;
use crate::agent::{Agent, jobs};

/// Longest that apply may take: two small files, a daemon-reload, a read-back.
const APPLY: Duration = Duration::from_secs(30);
/// Longest that an inspection or a rename may take.
const DATA: Duration = Duration::from_secs(30);
/// Longest that an inspection may take that reads the data because etcd says that it is damaged.
const READING: Duration = Duration::from_secs(150);
/// etcd's own unit gives it 90 s by default; the loop's watchdog is fed while it waits.
const STOP: Duration = Duration::from_secs(30);

/// Carries out `action`.
///
/// # Errors
/// What a port answered, or that the fence did not hold any more (retryable: observe again).
pub(super) async fn execute(agent: &Agent, action: &Action) -> PortResult<()> {
    match action {
        Action::Enquire { without } => genesis::enquire(agent, without).await,
        Action::Propose { round, genesis, gone } => genesis::propose(agent, *round, genesis, gone).await,
        Action::Confirm { told_by, by_operator } => {
            confirm::confirm(agent, told_by, by_operator.as_deref()).await
        }
        Action::TakeDirectives { directives } => take_directives(agent, directives),
        Action::Assign { assignment } => assign(agent, assignment),
        Action::Apply { generation } => {
            fence_generation(agent, *generation)?;
            let in_force = restart::apply(agent, APPLY).await?;
            for conflict in &in_force.conflicts {
                tracing::error!("{conflict}");
            }
            Ok(())
        }
        Action::InspectData => {
            let failed = agent.shared.etcd_failed();
            let within = if failed { READING } else { DATA };
            let request = DataRequest::Inspect { failed };
            agent.ask_owner(&request, within, |_| Ok(())).await.map(drop)
        }
        Action::FetchBackup { backup } => {
            jobs::fetch(agent, backup);
            Ok(())
        }
        Action::StageRestore { epoch, backup } => {
            let assignment = assignment(agent)?;
            if assignment.epoch != *epoch {
                return Err(stale(format_args!("epoch {epoch} is no longer assigned")));
            }
            jobs::stage(agent, backup, assignment);
            Ok(())
        }
        Action::ReplaceData { epoch, why, staged } => {
            let fence = |unit: &UnitState| {
                if unit.active.is_up() || assignment(agent)?.epoch != *epoch {
                    return Err(stale("etcd runs again, or another epoch is assigned"));
                }
                let missing = agent
                    .shared
                    .with(|inner| matches!(inner.data, Fact::Known(DataState::Missing)));
                if agent.shared.elector().open_epoch() < *epoch && !missing {
                    return Err(stale(format_args!("epoch {epoch} is not confirmed")));
                }
                Ok(())
            };
            let assigned = assignment(agent)?;
            let seen = agent.shared.with(|inner| inner.data.known()?.whose());
            let (cluster_id, member_id) = seen.unwrap_or((assigned.cluster_id, assigned.member_id));
            let request = DataRequest::Replace {
                epoch: *epoch,
                why: why.clone(),
                staged: *staged,
                cluster_id,
                member_id,
            };
            agent.ask_owner(&request, DATA, fence).await.map(drop)
        }
        Action::ClearGate { generation } => {
            fence_generation(agent, *generation)?;
            agent.ports.state.clear_gate(*generation)
        }
        Action::StartEtcd { fence } => {
            fence_start(agent, fence).await?;
            agent.shared.forget_data("etcd was started");
            agent.ports.service.start_etcd().await
        }
        Action::CancelStart { generation } => {
            fence_generation(agent, *generation)?;
            let unit = agent.ports.service.etcd_unit().await?;
            if unit.main_pid != 0 || unit.active != ActiveState::Activating {
                return Err(stale("etcd.service has gone on"));
            }
            agent.ports.service.stop_etcd(STOP).await
        }
        Action::StopEtcd { newest } => {
            fence_stop(agent, *newest).await?;
            agent.ports.service.stop_etcd(STOP).await
        }
        Action::CheckRemoval {
            cluster_id,
            member_id,
            listed,
        } => removal_check::check(agent, *cluster_id, *member_id, *listed).await,
        Action::StopRemoved { generation } => stop_removed(agent, *generation).await,
        Action::RememberSpec { record } => agent.ports.state.save_spec(record),
        Action::RemoveMember {
            id,
            node,
            why,
            replaced_by,
            term,
        } => {
            let going = Going {
                id: *id,
                node,
                why: *why,
                replaced_by: *replaced_by,
                term: *term,
            };
            membership::remove(agent, &going).await
        }
        Action::UpdateMember {
            id,
            node,
            peer_urls,
            term,
        } => membership::update(agent, *id, node, peer_urls, *term).await,
        Action::TakeOut { id, node, term } => restart::take_out(agent, *id, node, *term).await,
        Action::AddLearner {
            node,
            peer_urls,
            term,
        } => membership::add(agent, node, peer_urls, *term).await,
        Action::Promote { id, node, term } => membership::promote(agent, *id, node, *term).await,
        Action::MoveLeader { to, node, term } => restart::move_leader(agent, *to, node, *term).await,
        Action::RestartEtcd {
            fence,
            grant,
            coordinator,
        } => restart::restart(agent, fence, grant, coordinator).await,
        Action::Backup { from, format } => {
            jobs::backup(agent, from, *format);
            Ok(())
        }
        Action::Increments { backup } => {
            increments::increments(agent, backup);
            Ok(())
        }
        Action::Flush => increments::flush(agent).await,
        Action::Prune { after } => {
            increments::prune(agent, after.clone());
            Ok(())
        }
        Action::Verify { backup } => {
            verify::verify(agent, backup);
            Ok(())
        }
        Action::HandOver { request, to } => {
            handover::hand_over(agent, request, to);
            Ok(())
        }
        Action::Answer {
            request,
            done,
            message,
        } => {
            let state = if *done {
                RequestState::Done
            } else {
                RequestState::Failed
            };
            agent.shared.tell(|r| r == request, state, message);
            if matches!(request, OperatorRequest::Restore { .. }) {
                agent.shared.with(|inner| inner.restore = Job::default());
            }
            Ok(())
        }
    }
}

impl Agent {
    /// Asks the data directory's owner, and takes over what it reports; answers the restore that is staged then. `fence` judges
    /// `etcd.service` as it is right before.
    ///
    /// # Errors
    /// What a port answered, that `fence` does not hold, or that the owner could not do it.
    pub(super) async fn ask_owner(
        &self,
        request: &DataRequest,
        within: Duration,
        fence: impl FnOnce(&UnitState) -> PortResult<()>,
    ) -> PortResult<Option<(Epoch, BackupId)>> {
        let unit = self.ports.service.etcd_unit().await?;
        fence(&unit)?;
        let report = self.ports.service.data(request, within).await?;
        self.shared.take_report(&report, &unit, self.ports.clock.steady());
        match report.error {
            None => Ok(report.staged),
            Some(error) => Err(PortError::Retryable(error)),
        }
    }
}

pub(super) fn stale(why: impl std::fmt::Display) -> PortError {
    PortError::Retryable(format!("not done: {why}"))
}

fn assignment(agent: &Agent) -> PortResult<Assignment> {
    agent
        .ports
        .state
        .assignment()?
        .ok_or_else(|| stale("nothing is assigned to this node"))
}

/// What is stopped still is of an epoch that was replaced: by its assignment, else by the cluster ID that it serves. Learned
/// means that a majority of the electors confirmed the newer one when they were asked (`confirm`).
async fn fence_stop(agent: &Agent, newest: Epoch) -> PortResult<()> {
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
    Err(stale(format_args!("etcd runs for cluster {runs} by now")))
}

/// The cluster of the etcd that runs here: what it answers, or else whose data the data directory's owner found beside this very
/// process.
async fn runs_for(agent: &Agent) -> PortResult<ClusterId> {
    let error = match agent.ports.etcd.status().await {
        Ok(status) => return Ok(status.cluster_id),
        Err(error) => error,
    };
    let unit = agent.ports.service.etcd_unit().await?;
    let runs_on = agent.shared.runs_on(&unit);
    runs_on.map(|(cluster_id, _)| cluster_id).ok_or(error)
}

/// The assignment's generation; generation 0 is that of nothing assigned.
fn fence_generation(agent: &Agent, generation: Generation) -> PortResult<()> {
    let assigned = agent.ports.state.assignment()?;
    let now = assigned.map(|assigned| assigned.generation).unwrap_or_default();
    if now == generation {
        return Ok(());
    }
    Err(stale(format_args!(
        "generation {generation} of the assignment was replaced by {now}"
    )))
}

/// What must hold when etcd is started: the assignment, the newest epoch, the settings in force.
pub(super) async fn fence_start(agent: &Agent, fence: &StartFence) -> PortResult<()> {
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

/// Takes over a genesis that is known to be chosen.
pub(super) fn learn(agent: &Agent, genesis: &Genesis) -> PortResult<()> {
    let news = agent.shared.vote(agent.ports.state.as_ref(), |record| {
        crate::genesis::on_learn(record, genesis)
    })?;
    match news {
        Ok(true) => {
            tracing::info!(
                epoch = genesis.epoch.0,
                "epoch {} of {} was chosen: {}, token {}",
                genesis.epoch,
                genesis.cluster,
                genesis.origin,
                genesis.token
            );
            Ok(())
        }
        Ok(false) => Ok(()),
        Err(why) => Err(PortError::Permanent(why.to_string())),
    }
}

/// Takes over a register that is still newer than the own one, or that orders this node out.
fn take_directives(agent: &Agent, wanted: &Directives) -> PortResult<()> {
    let takes_over = |mine: &Directives| wanted.is_newer_than(mine) || wanted.out.contains(&agent.spec.node);
    let next = |mine: &Directives| (takes_over(mine) && wanted != mine).then(|| wanted.clone());
    let (taken, changed) = agent.shared.direct(agent.ports.state.as_ref(), next)?;
    if changed {
        tracing::info!("what operators ordered elsewhere is taken over: {taken}");
    }
    Ok(())
}

fn assign(agent: &Agent, wanted: &Assignment) -> PortResult<()> {
    let current = agent
        .ports
        .state
        .assignment()?
        .map(|a| a.generation)
        .unwrap_or_default();
    if wanted.generation <= current {
        return Err(stale(format_args!(
            "generation {} of the assignment exists",
            wanted.generation
        )));
    }
    agent.ports.state.save_assignment(wanted)?;
    tracing::info!(
        epoch = wanted.epoch.0,
        member_id = %wanted.member_id,
        "assigned member {} of epoch {} (generation {}, initial-cluster-state {})",
        wanted.member_id,
        wanted.epoch,
        wanted.generation,
        wanted.initial_state.as_str()
    );
    save_gate(agent)
}

/// Writes down what the gate may decide on when no agent answers.
pub(super) fn save_gate(agent: &Agent) -> PortResult<()> {
    let Some(assigned) = agent.ports.state.assignment()? else {
        return Ok(());
    };
    let elector = agent.shared.elector();
    let genesis_voters = elector.acted_on().map_or(0, |g| g.members.len());
    let voters = agent.shared.with(|inner| {
        inner
            .status
            .as_ref()
            .and_then(|s| s.members.known())
            .map_or(0, |list| list.voters().count())
    });
    agent.ports.state.save_gate(&GateState {
        started_once: assigned.had_data(),
        epoch: assigned.epoch,
        newest_epoch: if mutant!(GateUnaware) {
            assigned.epoch
        } else {
            elector.newest_epoch
        },
        voted: elector.voted(),
        cluster_id: assigned.cluster_id,
        member_id: assigned.member_id,
        generation: assigned.generation,
        data_dir: assigned.data_dir,
        voters: if voters == 0 { genesis_voters } else { voters },
        electors: agent.spec.nodes.len(),
    })
}

/// Stops an etcd whose member was removed.
async fn stop_removed(agent: &Agent, generation: Generation) -> PortResult<()> {
    fence_generation(agent, generation)?;
    let assigned = assignment(agent)?;
    if !assigned.removed {
        return Err(stale(format_args!(
            "the removal of member {} is not confirmed",
            assigned.member_id
        )));
    }
    agent.ports.service.stop_etcd(STOP).await
}

/// Tells peers a chosen genesis, beside the loop; who misses it reads it in our status.
pub(super) fn spread(agent: &Agent, genesis: &Genesis) {
    for node in agent.spec.nodes.keys().filter(|n| **n != agent.spec.node) {
        let (node, peers, message) = (
            node.clone(),
            agent.ports.peers.clone(),
            Learn {
                genesis: genesis.clone(),
            },
        );
        tokio::spawn(async move {
            if let Err(error) = peers.learn(&node, &message).await {
                tracing::debug!("{node} was not told of epoch {}: {error}", message.genesis.epoch);
            }
        });
    }
}
