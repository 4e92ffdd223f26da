//! systemd.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use etcd_agent::model::{
    BaseEtcd, DataState, EtcdSpec, EtcdVersion, Fact, InForce, TlsFiles, UnitState, V2Names, member_id_of,
};
use etcd_agent::ports::{
    AgentHandle, DataReport, DataRequest, Inspection, PortError, PortResult, ServiceManager,
};

use super::Seat;
use super::seat::answered;
use crate::world::raft::Dir;
use crate::world::{Call, Phase, VERSIONS, World};

/// The number of directories that the archive keeps.
const ARCHIVED: usize = 3;

pub(super) struct Service(pub(super) Arc<Seat>);

impl Service {
    /// Rule 8: an agent that has etcd started must no longer report its data as lost. etcd answers the agent
    /// seconds later, and meanwhile the coordinator could remove the member.
    fn check_reported(&self) {
        let status = self.0.sim.agent(self.0.host).map(|agent| agent.status());
        let reported = status.map(|status| status.data);
        if let Some(Fact::Known(DataState::Missing | DataState::Unusable { .. })) = reported {
            let mut world = self.0.sim.world();
            let name = &world.hosts[self.0.host].name;
            let text = format!("etcd is started on {name}, whose agent still reports its data as lost");
            world.violate(8, text);
        }
    }

    /// A stop fails: polkit refuses it, the bus restarts, or the job is cancelled.
    fn refuses_stop(&self) -> PortResult<()> {
        let mut world = self.0.sim.world();
        let now = world.now;
        let host = &mut world.hosts[self.0.host];
        if host.stops_fail == 0 {
            return Ok(());
        }
        host.stops_fail -= 1;
        host.failed(now);
        world.tell(|w| format!("{} is not stopped: systemd refuses", w.hosts[self.0.host].name));
        Err(PortError::Permanent(
            "systemd refused to stop etcd.service".to_owned(),
        ))
    }

    /// systemd refuses to turn a stop into a start (job mode `fail`).
    fn stops(&self) -> PortResult<()> {
        match self.0.sim.world().hosts[self.0.host].unit {
            Phase::Stopping(_) | Phase::Leaves(_) => {
                Err(PortError::Retryable("a stop is under way".to_owned()))
            }
            _ => Ok(()),
        }
    }
}

#[async_trait]
impl ServiceManager for Service {
    async fn etcd_unit(&self) -> PortResult<UnitState> {
        self.0.cross().await;
        self.0.breaks(Call::Unit)?;
        Ok(self.0.sim.world().unit_state(self.0.host))
    }

    async fn start_etcd(&self) -> PortResult<()> {
        self.0.cross().await;
        self.stops()?;
        self.check_reported();
        let answer_lost = self.0.breaks(Call::Start)?;
        self.0.sim.world().start_unit(self.0.host);
        self.0.sim.unit_bells[self.0.host].notify_one();
        self.0.cross().await;
        answered(answer_lost)
    }

    async fn restart_etcd(&self) -> PortResult<()> {
        self.0.cross().await;
        self.stops()?;
        let answer_lost = self.0.breaks(Call::Restart)?;
        self.0.sim.world().restart_unit(self.0.host);
        self.0.sim.unit_bells[self.0.host].notify_one();
        self.0.cross().await;
        answered(answer_lost)
    }

    async fn stop_etcd(&self, _deadline: Duration) -> PortResult<()> {
        self.0.cross().await;
        // A start that the gate holds back may proceed before systemd receives the stop. No agent can prevent
        // that.
        let ran = self.0.sim.world().hosts[self.0.host].server.is_some();
        self.0.pause(50).await;
        self.refuses_stop()?;
        let answer_lost = self.0.breaks(Call::Stop)?;
        if ran {
            self.0.sim.world().check_stop(self.0.host);
        }
        self.0.sim.world().stop_unit(self.0.host, true);
        self.0.sim.unit_bells[self.0.host].notify_one();
        self.0.cross().await;
        answered(answer_lost)
    }

    async fn apply(&self, _deadline: Duration) -> PortResult<InForce> {
        self.0.cross().await;
        self.0.pause(20).await;
        let answer_lost = self.0.breaks(Call::Apply)?;
        let in_force = {
            let mut world = self.0.sim.world();
            let host = &mut world.hosts[self.0.host];
            let Some(assignment) = host.assignment.clone() else {
                return Err(PortError::Permanent("nothing is assigned".to_owned()));
            };
            let in_force = InForce {
                generation: assignment.generation,
                settings_digest: format!("{} {:?}", assignment.settings_digest, assignment.etcd_version),
                initial_state: assignment.initial_state,
                conflicts: Vec::new(),
            };
            host.written = Some(assignment);
            host.in_force = Some(in_force.clone());
            in_force
        };
        self.0.cross().await;
        answered(answer_lost)?;
        Ok(in_force)
    }

    async fn in_force(&self) -> Fact<InForce> {
        let world = self.0.sim.world();
        world.hosts[self.0.host]
            .in_force
            .clone()
            .map_or(Fact::Absent, Fact::Known)
    }

    async fn data(&self, request: &DataRequest, _deadline: Duration) -> PortResult<DataReport> {
        self.0.cross().await;
        self.0.pause(20).await;
        let inspects = matches!(request, DataRequest::Inspect(_));
        let outcome = if self.0.sim.world().hosts[self.0.host].inspect_fails {
            let mut world = self.0.sim.world();
            let now = world.now;
            // An agent with a new memory does not know whose etcd runs before it has inspected the data.
            world.hosts[self.0.host].failed(now);
            Err(PortError::Retryable("etcd-agent-data.service failed".to_owned()))
        } else {
            self.0.breaks(match request {
                DataRequest::Inspect(_) => Call::Inspect,
                DataRequest::Stage { .. } => Call::Stage,
                DataRequest::Replace { .. } => Call::Replace,
            })
        };
        if outcome.is_err() && inspects {
            self.0.sim.world().hosts[self.0.host].look_refused = true;
        }
        let answer_lost = outcome?;
        let report = {
            let mut world = self.0.sim.world();
            let error = carry_out(&mut world, self.0.host, request).err();
            let host = &mut world.hosts[self.0.host];
            if host.is_elsewhere() {
                world.saw("check", "data is on a device that is not mounted");
                return Err(PortError::Retryable(
                    "the data directory is empty, and the member's data were on another device".to_owned(),
                ));
            }
            host.note_mount();
            DataReport {
                data: host.inspect(),
                staged: host.staged.as_ref().map(|(epoch, id, _)| (*epoch, id.clone())),
                error,
                etcd_too_old: None,
                last_words: None,
                base: asks_for_base(request).then(|| BaseEtcd {
                    file: host.packaged.to_string(),
                    version: Some(host.packaged),
                }),
                process: None,
                tls: host.tls_findings(request),
                v2_keys: Some(V2Names::default()),
                archive_trouble: None,
                v2_entries: Some(host.dir.as_ref().is_some_and(|dir| dir.v2)),
            }
        };
        self.0.cross().await;
        answered(answer_lost)?;
        Ok(report)
    }

    /// Nobody but etcd asks the gate of a simulated host.
    async fn is_etcds(&self, _pid: u32) -> PortResult<bool> {
        Ok(true)
    }

    fn etcd_versions(&self, _dir: &Path) -> BTreeSet<EtcdVersion> {
        VERSIONS.into()
    }

    async fn base_etcd(&self, _spec: &EtcdSpec) -> Option<String> {
        Some(self.0.sim.world().hosts[self.0.host].packaged.to_string())
    }

    fn tls_stamp(&self, _sets: &[TlsFiles]) -> Option<String> {
        Some(self.0.sim.world().hosts[self.0.host].tls.changes.to_string())
    }

    fn knows_mount(&self) -> bool {
        self.0.sim.world().hosts[self.0.host].held_by.is_some()
    }

    async fn changed(&self) {
        self.0.sim.unit_bells[self.0.host].notified().await;
    }
}

/// As the owner of the data directory, which tells the version of the binary only if it is asked.
fn asks_for_base(request: &DataRequest) -> bool {
    matches!(request, DataRequest::Inspect(Inspection { base: true, .. }))
}

/// The work of the data directory's owner (`src/unit/data`).
fn carry_out(world: &mut World, host: usize, request: &DataRequest) -> Result<(), String> {
    match request {
        DataRequest::Inspect(_) => Ok(()),
        DataRequest::Stage {
            epoch,
            backup,
            initial_cluster,
            token,
            cluster_id,
            member_id,
            ..
        } => {
            let fetched = world.hosts[host].fetched.get(backup).cloned();
            let base = fetched.ok_or_else(|| {
                // The agent may have lost the backup since its request. Then nothing happens.
                if !world.ever_fetched.contains(backup) {
                    world.violate(6, format!("{backup} is restored before it was fetched"));
                }
                format!("{backup} is not fetched")
            })?;
            let voters = initial_cluster
                .values()
                .filter_map(|urls| Some((member_id_of(urls, token), world.host_at(urls.first()?)?)))
                .collect();
            let store = world.store_of(host);
            let quarantined = store.is_some_and(|store| store.quarantined.contains(backup));
            let dir = Dir {
                quarantined,
                ..Dir::founded(*cluster_id, *member_id, &voters, base)
            };
            world.hosts[host].staged = Some((*epoch, backup.clone(), dir));
            Ok(())
        }
        DataRequest::Replace {
            epoch,
            why,
            staged,
            cluster_id,
            member_id,
        } => {
            if let Some((cluster, member)) = world.hosts[host].inspect().whose()
                && (cluster, member) != (*cluster_id, *member_id)
            {
                return Err(format!(
                    "the directory now holds member {member} of cluster {cluster}"
                ));
            }
            let ready = world.hosts[host]
                .staged
                .as_ref()
                .is_some_and(|(e, _, _)| e == epoch);
            if *staged && !ready {
                return Err(format!("no restore is staged for epoch {epoch}"));
            }
            if world.hosts[host].server.is_some() {
                return Err("etcd runs on it".to_owned());
            }
            world.check_replace(host, *epoch, *staged);
            world.tell(|w| {
                format!(
                    "{} archives its data for epoch {epoch}: {why}",
                    w.hosts[host].name
                )
            });
            let h = &mut world.hosts[host];
            if let Some(old) = h.dir.take() {
                h.archive.push(old);
                if h.archive.len() > ARCHIVED {
                    h.archive.remove(0);
                }
            }
            h.broken = false;
            if *staged && let Some((_, _, dir)) = h.staged.take() {
                h.dir = Some(dir);
            }
            Ok(())
        }
    }
}
