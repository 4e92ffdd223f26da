//! What an agent does to a member, its data or the orders: rules 3, 5, 8 and 10.

use etcd_agent::model::{Assignment, ClusterId, DataState, Epoch, MemberId};

use crate::world::raft::{Dir, Info};
use crate::world::{Plane, World};

/// The maximum age of a report by a voter's agent before a removal, in milliseconds: two answers within 2 s
/// each, and the time that etcd takes to notice that it has no leader.
const ASKED_MS: u64 = 6000;

impl World {
    /// Rule 3: an agent requests the removal of a voter.
    pub(in crate::world) fn check_removal(&mut self, host: usize, id: MemberId) {
        let Some(server) = &self.hosts[host].server else {
            return;
        };
        let rest: Vec<_> = server.config.voters().filter(|(other, _)| *other != id).collect();
        // Each voter's agent was asked right before, so a voter that served, ran and was reachable within
        // `ASKED_MS` may have been reported healthy.
        let recent = |at: u64| self.now.saturating_sub(at) < ASKED_MS;
        let healthy = |info: &Info| {
            let h = &self.hosts[info.host];
            let reached = info.host == host
                || self.links.both(Plane::Agents, host, info.host)
                || recent(self.links.changed);
            let serves = h.server.as_ref().is_some_and(|s| s.ready && s.leader.is_some());
            let served = serves || h.served_at.is_some_and(recent);
            let answered = h.has_agent() || h.agent_at.is_some_and(recent);
            reached && served && answered
        };
        let healthy = rest.iter().filter(|(_, info)| healthy(info)).count();
        if healthy < rest.len() / 2 + 1 {
            let text = format!("removing {id} leaves {healthy} healthy of {} voters", rest.len());
            self.violate(3, text);
        }
    }

    /// Rule 10: an agent stops a running etcd. Its epoch must have been replaced, or its member removed.
    pub fn check_stop(&mut self, host: usize) {
        let h = &self.hosts[host];
        let (Some(dir), Some(_)) = (&h.dir, &h.server) else {
            return;
        };
        let Some(truth) = self.truths.get(&dir.cluster) else {
            return;
        };
        let replaced = self.chosen.range(truth.epoch.next()..).next().is_some();
        // It was started in an empty directory with the settings of an older epoch, and took its ID from its
        // peers. So it is not the member that its agent has assigned.
        let older = |a: &Assignment| a.epoch < truth.epoch && !a.is_of(dir.cluster, dir.member);
        let astray = h.assignment.as_ref().is_some_and(older);
        if !replaced && !astray && !self.is_removed(dir.cluster, dir.member) {
            let text = format!(
                "{} stops member {} of epoch {}, which is the newest",
                h.name, dir.member, truth.epoch
            );
            self.violate(10, text);
        }
    }

    /// True for a removed member, and for one whose addition was undone because disks were lost or went back
    /// behind committed entries. That entry may be the only one which is missing.
    fn is_removed(&self, cluster: ClusterId, member: MemberId) -> bool {
        self.truths.get(&cluster).is_some_and(|truth| {
            let undone = truth.tainted || !truth.set_back.is_empty();
            truth.removed.contains(&member) || undone && !self.is_listed(cluster, member)
        })
    }

    /// Rule 10: an agent saves a register. Its version has to leave room for later orders.
    pub fn check_orders(&mut self, host: usize, version: u64) {
        if version > u64::MAX / 2 {
            let text = format!("{} keeps orders of version {version}", self.hosts[host].name);
            self.violate(10, text);
        }
    }

    /// Rule 10: an agent stores the size that it follows.
    pub fn check_size(&mut self, host: usize, stored: Option<usize>) {
        if let Some(size) = stored
            && self.unordered == stored
        {
            let name = &self.hosts[host].name;
            let text = format!("{name} follows a size of {size}, which nobody has ordered through an agent");
            self.violate(10, text);
        }
    }

    /// Rule 8: an agent has a voter removed because the node there attests that its data is lost. A learner
    /// has no vote yet: it may have started since its agent inspected the data, and is added again. A node that lies
    /// about its own data gives up its own member only.
    pub fn check_gone(&mut self, host: usize, id: MemberId) {
        let cluster = self.hosts[host].dir.as_ref().map(|dir| dir.cluster);
        // The agent may have lost its memory while a device was not mounted: `forget` in `inject.rs`.
        let truth = cluster.and_then(|cluster| self.truths.get(&cluster));
        let lost = truth.is_some_and(|truth| truth.lost.contains(&id));
        let whole = |info: &Info| {
            if self.lied == Some(info.host) {
                return false;
            }
            let h = &self.hosts[info.host];
            let is_its = |dir: &Dir| dir.member == id && Some(dir.cluster) == cluster && !dir.log.is_empty();
            !info.learner && !lost && !h.broken && h.disk().is_some_and(is_its)
        };
        let Some(server) = &self.hosts[host].server else {
            return;
        };
        let there = server.config.members.get(&id).filter(|info| whole(info));
        if let Some(info) = there {
            let name = &self.hosts[info.host].name;
            let text = format!("member {id} is removed because its data is lost, but the data is on {name}");
            self.violate(8, text);
        }
    }

    /// Rule 5: an agent has the data directory replaced for an epoch.
    pub fn check_replace(&mut self, host: usize, epoch: Epoch, staged: bool) {
        let h = &self.hosts[host];
        let DataState::Present {
            cluster_id,
            member_id,
        } = h.inspect()
        else {
            return;
        };
        let Some(truth) = self.truths.get(&cluster_id) else {
            // A person ordered this restore: it may replace data of any cluster.
            if staged {
                return;
            }
            let text = format!(
                "{} moves away the data of cluster {cluster_id}, which is of no epoch",
                h.name
            );
            self.violate(5, text);
            return;
        };
        let older = truth.epoch < epoch && self.chosen.contains_key(&epoch);
        if !older && !self.is_removed(cluster_id, member_id) {
            let text = format!(
                "{} moves away the data of member {member_id} of epoch {} for epoch {epoch}",
                h.name, truth.epoch
            );
            self.violate(5, text);
        }
    }
}
