//! The quarantine of a move: an alarm in the log, from which on no leader accepts a write. It is in a backup, too.

use std::collections::BTreeSet;

use etcd_agent::model::{AlarmKind, MemberId, QUARANTINE};

use super::raft::{Dir, What};
use super::{Refused, World};

impl Dir {
    /// The member IDs of the alarms that the log up to this length leaves raised.
    fn quarantine(&self, length: usize) -> BTreeSet<MemberId> {
        let mut raised: BTreeSet<MemberId> = self.quarantined.then_some(QUARANTINE.0).into_iter().collect();
        for entry in self.log.get(..length.min(self.log.len())).unwrap_or_default() {
            match entry.what {
                What::Quarantine(id, true) => _ = raised.insert(id),
                What::Quarantine(id, false) => _ = raised.remove(&id),
                _ => {}
            }
        }
        raised
    }

    /// True if the log up to this length leaves the cluster in quarantine.
    pub fn in_quarantine(&self, length: usize) -> bool {
        !self.quarantine(length).is_empty()
    }
}

impl World {
    /// An agent raises or disarms an alarm of the quarantine through the etcd here.
    pub(crate) fn set_quarantine(&mut self, host: usize, id: MemberId, on: bool) -> Result<(), Refused> {
        self.propose(host, What::Quarantine(id, on)).map(drop)
    }

    /// Whether the etcd here knows that the cluster is in quarantine.
    pub(crate) fn knows_quarantine(&self, host: usize) -> bool {
        !self.quarantine_alarms(host).is_empty()
    }

    /// The alarms of the quarantine that the etcd here knows.
    pub(super) fn quarantine_alarms(&self, host: usize) -> Vec<(MemberId, AlarmKind)> {
        let dir = self.hosts[host].dir.as_ref();
        let raised = dir.map(|dir| dir.quarantine(dir.commit)).unwrap_or_default();
        raised.into_iter().map(|id| (id, QUARANTINE.1)).collect()
    }

    /// How the etcd here shows them among its errors.
    pub(super) fn quarantine_errors(&self, host: usize) -> impl Iterator<Item = String> {
        let alarms = self.quarantine_alarms(host).into_iter();
        alarms.map(|(id, alarm)| format!("memberID:{} alarm:{alarm}", id.0))
    }
}
