//! The quarantine of a move: an alarm in the log, from which on no leader accepts a write. It is in a backup, too.

use etcd_agent::model::QUARANTINE;

use super::raft::{Dir, What};
use super::{Refused, World};

impl Dir {
    /// True if the log up to this length leaves the cluster in quarantine.
    pub fn in_quarantine(&self, length: usize) -> bool {
        let entries = self.log.get(..length.min(self.log.len())).unwrap_or_default();
        let last = entries.iter().rev().find_map(|entry| match entry.what {
            What::Quarantine(on) => Some(on),
            _ => None,
        });
        last.unwrap_or(self.quarantined)
    }
}

impl World {
    /// An agent raises or disarms the alarm of the quarantine through the etcd here.
    pub(crate) fn set_quarantine(&mut self, host: usize, on: bool) -> Result<(), Refused> {
        self.propose(host, What::Quarantine(on)).map(drop)
    }

    /// Whether the etcd here knows that the cluster is in quarantine.
    pub(crate) fn knows_quarantine(&self, host: usize) -> bool {
        let dir = self.hosts[host].dir.as_ref();
        dir.is_some_and(|dir| dir.in_quarantine(dir.commit))
    }

    /// How the etcd here shows it among its errors.
    pub(super) fn quarantine_error(&self, host: usize) -> Option<String> {
        let (member, alarm) = QUARANTINE;
        self.knows_quarantine(host)
            .then(|| format!("memberID:{} alarm:{alarm}", member.0))
    }
}
