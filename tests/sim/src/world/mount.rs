//! The device that holds the data directory, if it has its own: mounted with the host, or later.

use super::raft::Dir;
use super::{Host, Late, Mount, World};

impl Host {
    /// The device that the data directory is on now.
    pub fn mount(&self) -> Mount {
        if self.late.is_some() || self.stays_bare {
            Mount::Bare
        } else {
            Mount::Own
        }
    }

    /// The data directory, mounted or not.
    pub fn disk(&self) -> Option<&Dir> {
        self.dir.as_ref().or(self.late.as_ref().map(|late| &late.dir))
    }

    /// True if an empty directory is not on the device that the agent remembers for its member's data
    /// (`elsewhere` in `src/unit/data/inspect.rs`).
    pub fn is_elsewhere(&self) -> bool {
        let started = self.gate.as_ref().is_some_and(|gate| gate.started_once);
        let held_by = self.held_by.filter(|_| started && self.dir.is_none());
        held_by.is_some_and(|held_by| held_by != self.mount())
    }

    /// The agent remembers the device of the data directory, after an inspection that showed what is there
    /// (`answer` in `src/unit/data/mod.rs`).
    pub fn note_mount(&mut self) {
        let started = self.gate.as_ref().is_some_and(|gate| gate.started_once);
        let present = self.dir.is_some() && !self.broken;
        if present || !started {
            self.held_by = Some(self.mount());
        }
        self.look_refused = false;
    }
}

impl World {
    /// Unmounts the device of a host's data directory until this time.
    pub fn unmount(&mut self, host: usize, at: u64) {
        let h = &mut self.hosts[host];
        // Data that was made while the device is not mounted is not on it.
        if h.broken || h.late.is_some() || h.stays_bare {
            return;
        }
        let Some(dir) = h.dir.take() else { return };
        h.late = Some(Late { at, dir: dir.clone() });
        // If the agent has not seen the member serve, it takes the empty directory for one that is still to
        // be filled. If it lost its memory and could not inspect the directory since, it does not know the
        // device.
        let blind = h.held_by.is_none() && h.look_refused;
        if blind || h.gate.as_ref().is_none_or(|gate| !gate.started_once) {
            self.note_loss(&dir);
        }
    }

    /// Mounts the devices that are due. Data that was made meanwhile in the empty directory stays, and then
    /// nobody mounts over it.
    pub(super) fn mount_due(&mut self) {
        for host in 0..self.hosts.len() {
            let now = self.now;
            let h = &mut self.hosts[host];
            let Some(late) = h.late.take_if(|late| late.at <= now && h.up) else {
                continue;
            };
            if h.dir.is_some() {
                h.stays_bare = true;
                self.note_loss(&late.dir);
                self.tell(|w| {
                    format!(
                        "{} has other data where a device should be mounted",
                        w.hosts[host].name
                    )
                });
            } else {
                h.dir = Some(late.dir);
                self.tell(|w| format!("{} mounts its data directory", w.hosts[host].name));
            }
        }
    }
}
