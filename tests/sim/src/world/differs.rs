//! Members whose data differs from what the cluster wrote, and how etcd's `HashKV` shows it.

use etcd_agent::model::{ClusterId, Fingerprint, KvHash, MemberId, Revision};

use super::{Refused, World};

impl World {
    /// The data of the member here begins to differ from the others'.
    pub(crate) fn make_differ(&mut self, host: usize) {
        self.differing.made += 1;
        let number = self.differing.made;
        if let Some(dir) = &mut self.hosts[host].dir {
            dir.differs = number;
        }
    }

    /// What a new member of this cluster gets with the data of the leader.
    pub(super) fn leaders_difference(&mut self, cluster: ClusterId) -> u32 {
        let leads = self.hosts.iter().find_map(|h| {
            let (dir, server) = (h.dir.as_ref()?, h.server.as_ref()?);
            (dir.cluster == cluster && server.leader == Some(dir.member)).then_some(dir.differs)
        });
        let differs = leads.unwrap_or(0);
        self.differing.copied |= differs > 0;
        differs
    }

    /// `HashKV` of the member here.
    pub(crate) fn fingerprint(&self, host: usize, revision: Revision) -> Result<Fingerprint, Refused> {
        if self.status(host)?.revision < revision {
            return Err(Refused::NotReady);
        }
        let differs = self.hosts[host].dir.as_ref().map_or(0, |dir| dir.differs);
        let hash = KvHash {
            hash: u32::try_from(revision.0).unwrap_or(0).wrapping_mul(31) ^ differs,
            compact_revision: Revision(0),
        };
        Ok(Fingerprint {
            revision,
            keys: None,
            hash: Some(hash),
        })
    }

    /// Rule 5: an agent removes a member because its data differs.
    pub(crate) fn check_differs(&mut self, host: usize, id: MemberId) {
        let Some(server) = &self.hosts[host].server else {
            return;
        };
        let host = server.config.members.get(&id).map(|info| info.host);
        let dir = host.and_then(|host| self.hosts[host].dir.as_ref());
        let is_right = dir.is_some_and(|dir| dir.member == id && dir.differs == 0);
        if host.is_some() && host == self.lied {
            // A node that lies about its own data gives up its own member only.
            return;
        }
        if is_right && !self.differing.copied {
            let text = format!("member {id} is removed because its data differs, but its data is right");
            self.violate(5, text);
        } else {
            self.saw("event", "a member that differs is removed");
        }
    }
}
