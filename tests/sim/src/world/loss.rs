//! Disks that are lost or set back, and whether their cluster can recover.

use etcd_agent::model::{ClusterId, Genesis, MemberId};

use super::raft::{Config, Dir};
use super::{Host, Phase, World};

impl World {
    /// A data directory is lost or set back. Records whether a majority of its cluster's voters still has its
    /// own (rule 2).
    pub fn note_loss(&mut self, dir: &Dir) {
        let config = self.newest_config(dir.cluster, dir);
        let Some(truth) = self.truths.get_mut(&dir.cluster) else {
            return;
        };
        truth.lost.insert(dir.member);
        let voters: Vec<MemberId> = config.voters().map(|(id, _)| id).collect();
        let lost = voters.iter().filter(|id| truth.lost.contains(id)).count();
        if lost + config.quorum() > voters.len() {
            truth.tainted = true;
            let cluster = dir.cluster;
            self.tell(|_| format!("a majority of {cluster} has lost its disks"));
        }
    }

    /// A person stops an etcd of which its agent does not know that it was replaced, and moves its data away.
    pub(crate) fn discard_replaced(&mut self, host: usize) {
        let newest = self.newest().map(|chosen| chosen.genesis.epoch);
        let h = &self.hosts[host];
        let epoch = h.dir.as_ref().and_then(|dir| self.epoch_of(dir.cluster));
        if h.assignment.is_some() || epoch.is_none() || epoch >= newest {
            return;
        }
        self.tell(|w| {
            format!(
                "a person stops etcd on {} and moves its data away",
                w.hosts[host].name
            )
        });
        let h = &mut self.hosts[host];
        h.end_server();
        h.unit = Phase::Down;
        h.dir = None;
    }

    /// A data directory is set back to this copy. Nothing is promised if the copy lacks acknowledged writes.
    pub fn note_set_back(&mut self, copy: &Dir) {
        let Some(truth) = self.truths.get_mut(&copy.cluster) else {
            return;
        };
        truth.set_back.insert(copy.member);
        let mut has = copy.writes();
        truth.tainted |= !truth.acked.iter().all(|wanted| has.any(|w| w == *wanted));
    }

    /// A member has lost its disk before its agent saw it serve, and begins again. It has forgotten
    /// acknowledged writes, like a member whose disk was set back (`docs/safety.md`, the first start).
    pub fn note_begun_again(&mut self, host: usize, dir: &Dir) {
        let h = &self.hosts[host];
        let noted = h.gate.as_ref().is_some_and(|gate| gate.started_once);
        if h.begun == Some(dir.member) && !noted {
            self.note_set_back(dir);
        }
    }

    /// True if no quorum of this epoch's voters still has its disk, or, before its first start, the memory
    /// with which it may begin as a founder. Then only a person's restore helps.
    pub fn is_beyond_repair(&self, genesis: &Genesis) -> bool {
        let voters: Vec<(MemberId, usize)> = match self.newest_dir(genesis.cluster_id, None) {
            Some(dir) => Config::of(dir)
                .voters()
                .map(|(id, info)| (id, info.host))
                .collect(),
            None => (0..self.hosts.len())
                .filter_map(|host| Some((genesis.member_id(&self.hosts[host].name)?, host)))
                .collect(),
        };
        let able = voters.iter().filter(|(id, host)| {
            let h = &self.hosts[*host];
            let has_disk = !h.broken
                && h.disk()
                    .is_some_and(|d| (d.cluster, d.member) == (genesis.cluster_id, *id));
            let memory = h.elector.as_ref().map(|e| &e.incarnation);
            let begun = h
                .assignment
                .as_ref()
                .is_some_and(|a| a.member_id == *id && a.started)
                || self
                    .truths
                    .get(&genesis.cluster_id)
                    .is_some_and(|t| t.lost.contains(id));
            // Copies may name different memories, and the node uses its own copy.
            let own = h.elector.as_ref().and_then(|e| e.chosen.as_ref());
            let copy = own.filter(|own| own.same_value(genesis)).unwrap_or(genesis);
            let may_begin = genesis.member_id(&h.name) == Some(*id)
                && copy.electorate.get(&h.name) == memory
                && memory.is_some()
                && !begun;
            has_disk || may_begin
        });
        able.count() < voters.len() / 2 + 1
    }

    /// The data directory with the most advanced log of a cluster.
    fn newest_dir<'a>(&'a self, cluster: ClusterId, also: Option<&'a Dir>) -> Option<&'a Dir> {
        self.hosts
            .iter()
            .filter_map(Host::disk)
            .filter(|dir| dir.cluster == cluster)
            .chain(also)
            .max_by_key(|dir| (dir.commit, dir.last()))
    }

    /// The members according to the most advanced log.
    fn newest_config(&self, cluster: ClusterId, also: &Dir) -> Config {
        self.newest_dir(cluster, Some(also))
            .map(Config::of)
            .unwrap_or_default()
    }
}
