//! Repairs by people after the last fault.

use crate::driver::Driver;
use crate::fault::Fault;
use crate::inject::inject;
use crate::world::{AgentState, Phase, Weather};

impl Driver<'_> {
    /// People move away the data of an unknown cluster.
    fn move_foreign_data_away(&self, host: usize) {
        let mut world = self.sim.world();
        let cluster = world.hosts[host].disk().map(|dir| dir.cluster);
        if cluster.is_none_or(|cluster| world.truths.contains_key(&cluster)) {
            return;
        }
        world.hosts[host].dir = None;
        world.hosts[host].late = None;
        world.hosts[host].broken = false;
    }

    /// Hosts that are done with their reboot release the lock.
    pub(crate) fn release_locks(&self) {
        for host in 0..self.schedule.nodes {
            let holds = self.sim.world().hosts[host].reboot_locks.own.hold.is_some();
            if holds {
                inject(&self.sim, &Fault::ReleaseLock(host));
            }
        }
    }

    /// A node has claimed a later memory than its own, so its votes do not count. People make its state anew (ADR 19).
    pub(crate) fn make_anew(&self) {
        let liar = {
            let mut world = self.sim.world();
            let claimed = std::mem::take(&mut world.claimed_memory);
            world.lied.filter(|_| claimed)
        };
        if let Some(host) = liar {
            inject(&self.sim, &Fault::Reinstall(host));
        }
    }

    /// People repair everything that people can repair.
    pub(crate) fn mend(&self) {
        inject(&self.sim, &Fault::Mend);
        self.sim.world().liar = None;
        self.sim.world().broken_version = None;
        if self.schedule.store {
            inject(&self.sim, &Fault::Store(Weather::Fair));
            if let Some(store) = &mut self.sim.world().store {
                store.refuses.clear();
            }
        }
        for host in 0..self.schedule.nodes {
            self.move_foreign_data_away(host);
            inject(&self.sim, &Fault::Widen(host));
            let mut world = self.sim.world();
            let now = world.now;
            let h = &mut world.hosts[host];
            h.dies_in = None;
            h.inspect_fails = false;
            if let Some(late) = &mut h.late {
                late.at = now;
            }
            h.stops_fail = 0;
            h.may_linger_from = now;
            h.broken_calls.clear();
            h.agent_off_until = 0;
            if let Some(at) = &mut h.power_at {
                *at = now;
            }
            if let AgentState::Until(at) = &mut h.agent {
                *at = now;
            }
            if matches!(h.unit, Phase::Masked | Phase::Stopping(_)) {
                h.unit = Phase::Down;
            }
            let held = world.unit_state(host).held;
            drop(world);
            if held {
                inject(&self.sim, &Fault::Start(host));
            }
        }
    }
}
