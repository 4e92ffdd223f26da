//! Reboots under the reboot lock: rule 4.

use std::collections::BTreeMap;

use etcd_agent::model::{NodeName, RebootLock};

use crate::world::World;

impl World {
    /// Records that people have released locks for their holders.
    pub(crate) fn note_released(&mut self, released: &BTreeMap<NodeName, u64>) {
        for (node, version) in released {
            let known = self.released.entry(node.clone()).or_default();
            *known = (*known).max(*version);
        }
    }

    /// Rule 4: an agent stores its reboot lock. No other host holds it.
    pub(crate) fn check_lock(&mut self, host: usize, own: &RebootLock) {
        if !own.is_confirmed() || self.hosts[host].reboot_locks.own == *own {
            return;
        }
        self.saw("event", "a reboot lock");
        self.check_files(host, "takes the reboot lock");
        let other = (0..self.hosts.len()).find(|other| *other != host && self.may_reboot(*other));
        if let Some(other) = other {
            let (one, other) = (&self.hosts[host].name, &self.hosts[other].name);
            let text = format!("{one} takes the reboot lock while {other} holds it");
            self.violate(4, text);
        }
    }

    /// Rule 4: a host reboots. No etcd of another member is being restarted, and none is until this one is
    /// back.
    pub(crate) fn check_reboot(&mut self, host: usize) {
        self.saw("event", "a reboot under the lock");
        let now = self.now;
        self.hosts[host].disturbed = Some(now);
    }

    /// Whether this host holds the lock, and nobody has released it or removed its node.
    pub(crate) fn may_reboot(&self, host: usize) -> bool {
        let h = &self.hosts[host];
        let released = self.released.get(&h.name).copied().unwrap_or_default();
        let out = self
            .hosts
            .iter()
            .any(|other| other.directives.out.contains(&h.name));
        let own = &h.reboot_locks.own;
        own.is_confirmed() && own.version > released && !out
    }
}
