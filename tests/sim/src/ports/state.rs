//! The stored memory of an agent: every write is complete or did not happen.

use std::sync::Arc;

use etcd_agent::genesis::new_record;
use etcd_agent::model::{
    Assignment, Directives, ElectorRecord, EtcdRun, GateState, Generation, Incarnation, RebootLocks,
    SpecRecord,
};
use etcd_agent::ports::{NodeState, PortError, PortResult};

use super::Seat;
use crate::world::{Call, Host};

pub(super) struct Disk(pub(super) Arc<Seat>);

impl Disk {
    fn write(&self, change: impl FnOnce(&mut Host)) -> PortResult<()> {
        self.0.cross_now()?;
        self.0.breaks(Call::Remember)?;
        change(&mut self.0.sim.world().hosts[self.0.host]);
        self.0.cross_now()
    }

    fn read<T>(&self, look: impl FnOnce(&Host) -> T) -> T {
        look(&self.0.sim.world().hosts[self.0.host])
    }
}

impl NodeState for Disk {
    fn elector(&self) -> PortResult<ElectorRecord> {
        if let Some(record) = self.read(|host| host.elector.clone()) {
            return Ok(record);
        }
        let (clock, random) = (self.0.sim.clock(self.0.host), self.0.sim.world().rng.number());
        // As on disk: the time comes first, so that a later memory orders after an earlier one.
        let text = format!("{:012x}{random:020x}", clock & 0xffff_ffff_ffff);
        let incarnation = Incarnation::new(text).map_err(|error| PortError::Permanent(error.to_string()))?;
        let record = new_record(incarnation);
        self.save_elector(&record)?;
        Ok(record)
    }

    fn save_elector(&self, record: &ElectorRecord) -> PortResult<()> {
        self.0.cross_now()?;
        self.0.breaks(Call::Remember)?;
        let host = self.0.host;
        let mut world = self.0.sim.world();
        world.check_elector(host, record);
        let now = world.now;
        world.hosts[host].remember(record, now);
        drop(world);
        self.0.cross_now()
    }

    fn assignment(&self) -> PortResult<Option<Assignment>> {
        if self.read(|host| host.unreadable) {
            return Err(PortError::Permanent("assignment.json: garbage".to_owned()));
        }
        Ok(self.read(|host| host.assignment.clone()))
    }

    fn save_assignment(&self, assignment: &Assignment) -> PortResult<()> {
        self.write(|host| host.assignment = Some(assignment.clone()))
    }

    fn gate(&self) -> PortResult<Option<GateState>> {
        Ok(self.read(|host| host.gate.clone()))
    }

    fn save_gate(&self, gate: &GateState) -> PortResult<()> {
        self.write(|host| host.gate = Some(gate.clone()))
    }

    fn clear_gate(&self, generation: Generation) -> PortResult<()> {
        let now = self.0.sim.now();
        self.write(|host| (host.cleared, host.cleared_at) = (Some(generation), now))?;
        self.0.sim.world().check_clear(self.0.host);
        Ok(())
    }

    fn close_gate(&self) -> PortResult<()> {
        self.write(|host| host.cleared = None)
    }

    fn cleared_gate(&self) -> PortResult<Option<Generation>> {
        Ok(self.read(|host| host.cleared))
    }

    fn etcd_run(&self) -> PortResult<EtcdRun> {
        Ok(self.read(|host| host.etcd_run.clone()))
    }

    fn save_etcd_run(&self, run: &EtcdRun) -> PortResult<()> {
        self.write(|host| host.etcd_run = run.clone())
    }

    fn directives(&self) -> PortResult<Directives> {
        Ok(self.read(|host| host.directives.clone()))
    }

    fn save_directives(&self, directives: &Directives) -> PortResult<()> {
        self.0.sim.world().check_orders(self.0.host, directives.version);
        self.0.sim.world().note_released(&directives.released);
        self.write(|host| host.directives = directives.clone())
    }

    fn reboot_locks(&self) -> PortResult<RebootLocks> {
        Ok(self.read(|host| host.reboot_locks.clone()))
    }

    fn save_reboot_locks(&self, locks: &RebootLocks) -> PortResult<()> {
        self.0.sim.world().check_lock(self.0.host, &locks.own);
        self.write(|host| host.reboot_locks = locks.clone())
    }

    fn spec(&self) -> PortResult<SpecRecord> {
        Ok(self.read(|host| host.spec.clone()))
    }

    fn save_spec(&self, record: &SpecRecord) -> PortResult<()> {
        self.0.sim.world().check_size(self.0.host, record.stored);
        self.write(|host| host.spec = record.clone())
    }
}
