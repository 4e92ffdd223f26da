//! Carries out one decided action. It makes no choices of its own, and checks the action's fence again right
//! before acting.

mod assign;
mod confirm;
pub(super) mod fence;
mod genesis;
mod membership;
mod reboot_lock;
mod refusal;
mod removal_check;
mod restart;
mod space;

use std::time::Duration;

use crate::agent::Agent;
use crate::agent::execute::fence::{
    assignment, fence_generation, fence_recorded, fence_start, fence_stop, stale,
};
use crate::agent::execute::membership::MemberRemoval;
use crate::agent::jobs::{corruption, flush, full, handover, increments, prune, restore, verify};
use crate::model::{
    Action, ActiveState, BackupId, DataState, Epoch, EtcdStatus, Fact, Generation, OperatorRequest,
    RequestState, UnitState,
};
use crate::plan;
use crate::ports::{DataRequest, Inspection, PortError, PortResult};

/// Timeout of apply: two small files, a daemon-reload, a read-back.
const APPLY: Duration = Duration::from_secs(30);
/// Timeout of an inspection or a rename.
const DATA: Duration = Duration::from_secs(30);
/// Timeout of an inspection that reads the data because etcd says that it is damaged, or the log for keys of v2.
const READING: Duration = Duration::from_secs(150);
/// Timeout of a stop: the drop-in gives etcd as long.
const STOP: Duration = Duration::from_secs(30);

/// Carries out `action`.
///
/// # Errors
/// The error of a port, or that the fence did not hold any more (retryable: observe again).
pub(super) async fn execute(agent: &Agent, action: &Action) -> PortResult<()> {
    match action {
        Action::Enquire { without } => genesis::enquire(agent, without).await,
        Action::Propose { round, genesis, gone } => genesis::propose(agent, *round, genesis, gone).await,
        Action::Confirm {
            reported_by,
            by_operator,
        } => confirm::confirm(agent, reported_by, by_operator.as_deref()).await,
        Action::TakeDirectives { directives } => assign::take_directives(agent, directives),
        Action::Assign { assignment } => assign::assign(agent, assignment),
        Action::Apply { generation } => {
            fence_generation(agent, *generation)?;
            let in_force = restart::apply(agent, APPLY).await?;
            for conflict in &in_force.conflicts {
                tracing::error!("{conflict}");
            }
            agent.shared.with(|inner| inner.data.forget_drift());
            Ok(())
        }
        Action::InspectData => {
            let failed = agent.shared.etcd_failed();
            let (last, v2_keys) = agent.shared.with(|inner| {
                let seen = inner.last.observation();
                (inner.last.status().cloned(), seen.is_some_and(plan::disk_decides))
            });
            let within = if failed || v2_keys { READING } else { DATA };
            let etcd = last.as_ref().and_then(|last| last.etcd.known());
            let unit = last.as_ref().and_then(|last| last.unit.known());
            let process = unit.map(|unit| unit.main_pid).filter(|pid| *pid != 0);
            let log = etcd.is_some_and(EtcdStatus::log_decides);
            let assigned = agent.ports.state.assignment()?;
            let request = DataRequest::Inspect(Inspection {
                failed,
                log,
                base: true,
                process,
                tls: agent.tls_stamp(assigned.as_ref()).is_some(),
                v2_keys,
            });
            agent.ask_owner(&request, within, |_| Ok(())).await.map(drop)
        }
        Action::FetchBackup { backup } => {
            restore::fetch(agent, backup);
            Ok(())
        }
        Action::StageRestore { epoch, backup } => {
            let assignment = assignment(agent)?;
            if assignment.epoch != *epoch {
                return Err(stale(format_args!("epoch {epoch} is no longer assigned")));
            }
            restore::stage(agent, backup, assignment);
            Ok(())
        }
        Action::ReplaceData { epoch, why, staged } => {
            let fence = |unit: &UnitState| {
                if unit.active.is_up() || assignment(agent)?.epoch != *epoch {
                    return Err(stale("etcd runs again, or another epoch is assigned"));
                }
                let missing = agent
                    .shared
                    .with(|inner| matches!(inner.data.state(), Fact::Known(DataState::Missing)));
                if agent.shared.elector().open_epoch() < *epoch && !missing {
                    return Err(stale(format_args!("epoch {epoch} is not confirmed")));
                }
                Ok(())
            };
            let assigned = assignment(agent)?;
            let seen = agent.shared.with(|inner| inner.data.state().known()?.whose());
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
        Action::ClearGate { generation, by_store } => {
            fence_generation(agent, *generation)?;
            if let Some(epoch) = by_store {
                fence_recorded(agent, *epoch).await?;
            }
            if assign::allow_first_start(agent)? {
                // From now on one node's list is evidence of a start. The next decision judges the lists again.
                return Ok(());
            }
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
                return Err(stale("etcd.service no longer waits to start"));
            }
            stop_etcd(agent).await
        }
        Action::StopEtcd { newest } => {
            fence_stop(agent, *newest).await?;
            stop_etcd(agent).await
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
            not_before,
            term,
        } => {
            let removal = MemberRemoval {
                id: *id,
                node,
                why: *why,
                replaced_by: *replaced_by,
                not_before: *not_before,
                term: *term,
            };
            membership::remove(agent, &removal).await
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
        Action::Downgrade { to, term } => restart::downgrade(agent, *to, *term).await,
        Action::MoveLeader { to, node, term } => restart::move_leader(agent, *to, node, *term).await,
        Action::RestartEtcd {
            fence,
            grant,
            coordinator,
        } => restart::restart(agent, fence, grant, coordinator).await,
        Action::Defrag {
            order,
            grant,
            coordinator,
        } => restart::defragment(agent, order.as_ref(), grant, coordinator).await,
        Action::Compact { revision, term } => space::compact(agent, *revision, *term).await,
        Action::DisarmNoSpace { term } => space::disarm(agent, *term).await,
        Action::CheckHashes { term } => {
            corruption::check_hashes(agent, fence::fenced_list(agent, *term).await?);
            Ok(())
        }
        Action::SetRebootLock { lock } => reboot_lock::set(agent, lock),
        Action::ConfirmRebootLock { version, coordinator } => {
            reboot_lock::confirm(agent, *version, coordinator).await
        }
        Action::Backup { from, format } => {
            full::take(agent, from, *format);
            Ok(())
        }
        Action::Increments { backup } => {
            increments::follow(agent, backup);
            Ok(())
        }
        Action::Flush => flush::flush(agent).await,
        Action::Prune { after } => {
            prune::prune(agent, after.clone());
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
            agent.shared.set_request_state(|r| r == request, state, message);
            if matches!(request, OperatorRequest::Restore { .. }) {
                agent.shared.with(|inner| inner.jobs.forget_restore());
            }
            Ok(())
        }
    }
}

impl Agent {
    /// Sends a request to the data directory's owner, and takes over its report. Returns the restore that is
    /// staged after it. `fence` checks the state of `etcd.service` right before the request.
    ///
    /// # Errors
    /// The error of a port, that `fence` does not hold, or that the owner could not do it.
    pub(super) async fn ask_owner(
        &self,
        request: &DataRequest,
        within: Duration,
        fence: impl FnOnce(&UnitState) -> PortResult<()>,
    ) -> PortResult<Option<(Epoch, BackupId)>> {
        let unit = self.ports.service.etcd_unit().await?;
        fence(&unit)?;
        let stamp = self.tls_stamp(self.ports.state.assignment()?.as_ref());
        let asked = self.ports.clock.steady();
        let report = self.ports.service.data(request, within).await?;
        let now = self.ports.clock.steady();
        self.shared.with(|inner| {
            inner.data.take_report(&report, &unit, now);
            inner.data.take_tls(stamp, &report, now);
            // A client may have written a key of v2 while the disk was read.
            inner.data.take_v2(request, &report, &unit, asked);
        });
        match report.error {
            // Of an inspection: why keys of v2 are not known, which is kept with the answer.
            Some(error) if !matches!(request, DataRequest::Inspect(_)) => Err(PortError::Retryable(error)),
            _ => Ok(report.staged),
        }
    }
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
    stop_etcd(agent).await
}

/// Stops etcd without asking the coordinator for leave.
async fn stop_etcd(agent: &Agent) -> PortResult<()> {
    let pid = agent.shared.with(|inner| {
        let unit = inner.last.status()?.unit.known()?;
        Some(unit.main_pid)
    });
    if let Some(pid) = pid {
        restart::note_own_stop(agent, pid);
    }
    agent.ports.service.stop_etcd(STOP).await
}
