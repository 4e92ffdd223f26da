//! The safety rules of design §7, each checked where it could be broken.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use etcd_agent::model::{
    Assignment, ClusterId, DataState, ElectorRecord, Epoch, Genesis, MemberId, NodeName, Origin,
};

use super::raft::{Config, Dir, Info};
use super::{Chosen, Host, Plane, World};

/// The maximum age of the facts by which an agent clears a gate: it notices a peer's silence after the long
/// poll's twelve seconds.
pub(super) const HEARD_OF_MS: u64 = 15_000;

/// An agent's report about its host has arrived everywhere after this time, once the agent runs and links are
/// open.
const HEARD_MS: u64 = 5000;

/// An agent has stopped an etcd of an older epoch after this time. The steps before that have their own
/// deadlines.
const ENDED_MS: u64 = 15_000;

/// An agent has retried a failed step after this time.
const TRIED_AGAIN_MS: u64 = 35_000;

/// The maximum age of a report by a voter's agent before a removal, in milliseconds: two answers within 2 s
/// each, and the time that etcd takes to notice that it has no leader.
const ASKED_MS: u64 = 6000;

impl World {
    /// Rules 1, 6 and 8: an elector's memory was stored.
    pub fn check_elector(&mut self, host: usize, record: &ElectorRecord) {
        for (epoch, votes) in &record.votes {
            if let Some((_, genesis)) = &votes.accepted {
                self.accepted
                    .entry((*epoch, genesis.token.clone()))
                    .or_default()
                    .insert(host);
            }
        }
        let Some(genesis) = &record.chosen else { return };
        if let Some(known) = self.chosen.get(&genesis.epoch) {
            if known.genesis.same_value(genesis) {
                return;
            }
            if !self.is_extinct(&known.genesis) {
                let text = format!(
                    "epoch {} is {} and {}",
                    genesis.epoch, known.genesis.token, genesis.token
                );
                self.violate(1, text);
                return;
            }
            self.tell(|_| format!("no trace of the former epoch {} is left", genesis.epoch));
        }
        self.check_chosen(genesis);
        self.check_empty(genesis);
        let at = self.now;
        self.tell(|w| {
            let members: Vec<&str> = genesis.members.keys().map(NodeName::as_str).collect();
            format!(
                "epoch {} was chosen: {} with {}, learned first by {}",
                genesis.epoch,
                genesis.origin,
                members.join(" "),
                w.hosts[host].name
            )
        });
        self.chosen.insert(
            genesis.epoch,
            Chosen {
                genesis: genesis.clone(),
                at,
            },
        );
        let base = match &genesis.origin {
            Origin::Backup(id) => self.stores().find_map(|s| s.contents.get(id).cloned()),
            _ => None,
        };
        self.note_cluster(genesis, base.as_deref().unwrap_or(&[]));
    }

    /// True if no disk and no store has any trace of this genesis, neither as chosen nor as accepted, nor of
    /// its data. Then nobody can know that it existed, and there is no second cluster.
    fn is_extinct(&self, genesis: &Genesis) -> bool {
        let remembers = |record: &ElectorRecord| {
            let accepted = record
                .votes
                .get(&genesis.epoch)
                .and_then(|votes| votes.accepted.as_ref());
            let told = accepted.map(|(_, value)| value).into_iter().chain(&record.chosen);
            told.into_iter().any(|value| value.same_value(genesis))
        };
        let recorded = (genesis.epoch, genesis.token.clone());
        let stored = self.stores().any(|store| store.recorded.contains(&recorded));
        let kept = self.hosts.iter().any(|host| {
            host.elector.as_ref().is_some_and(remembers)
                || host.disk().is_some_and(|dir| dir.cluster == genesis.cluster_id)
        });
        !stored && !kept
    }

    fn check_chosen(&mut self, genesis: &Genesis) {
        // A lying node may have changed the electorate in this copy.
        let electors = if self.lied {
            self.hosts.len()
        } else {
            genesis.electorate.len()
        };
        let majority = electors / 2 + 1;
        let votes = self
            .accepted
            .get(&(genesis.epoch, genesis.token.clone()))
            .map_or(0, BTreeSet::len);
        let record = (genesis.epoch, genesis.token.clone());
        let recorded = self.stores().any(|store| store.recorded.contains(&record));
        if votes < majority && !recorded {
            let text = format!(
                "epoch {} was learned with {votes} of {electors} votes",
                genesis.epoch
            );
            self.violate(8, text);
        }
        match &genesis.origin {
            Origin::Backup(id) if !self.asked.contains(id) => {
                self.violate(
                    6,
                    format!("epoch {} restores {id}, which nobody asked for", genesis.epoch),
                );
            }
            Origin::Backup(id) if !self.ever_fetched.contains(id) => {
                self.violate(
                    6,
                    format!("epoch {} restores {id}, which nobody has fetched", genesis.epoch),
                );
            }
            Origin::Empty if genesis.epoch != Epoch(1) => {
                self.violate(6, format!("epoch {} begins empty", genesis.epoch));
            }
            _ => {}
        }
        // A number that a liar reported may be skipped: numbers only have to grow. A record in the store uses
        // up its number, learned or not, because its proposer may have died.
        let before = Epoch(genesis.epoch.0.saturating_sub(1));
        let is_before = |record: &(Epoch, String)| record.0 == before;
        let follows = self.chosen.contains_key(&before)
            || self.stores().any(|store| store.recorded.iter().any(is_before));
        let grows = self.lied && self.chosen.keys().all(|epoch| *epoch < genesis.epoch);
        if genesis.epoch > Epoch(1) && !follows && !grows {
            self.violate(1, format!("epoch {} was opened out of turn", genesis.epoch));
        }
        let former = self.chosen.get(&before).map(|chosen| &chosen.genesis.electorate);
        if former.is_some_and(|former| !former.keys().eq(genesis.electorate.keys())) {
            self.saw("event", "an epoch of another electorate");
        }
    }

    /// Rule 1: etcd is about to start; its own agent must not know of a newer epoch.
    pub(super) fn check_start(&mut self, host: usize) {
        let (serves, h) = (self.epoch_here(host), &self.hosts[host]);
        let known = h.elector.as_ref().map(|e| e.newest_epoch);
        if let (Some(serves), Some(known)) = (serves, known)
            && serves < known
        {
            let text = format!("{} starts etcd of epoch {serves} and knows epoch {known}", h.name);
            self.violate(1, text);
        }
    }

    /// Rule 1: the etcd here is not of an older epoch than its own agent has learned, once the agent has had
    /// time to stop it.
    pub(super) fn check_lingering(&mut self, host: usize) {
        let h = &self.hosts[host];
        let serves = h.dir.as_ref().and_then(|dir| self.epoch_of(dir.cluster));
        let learned = h
            .elector
            .as_ref()
            .and_then(|e| e.chosen.as_ref())
            .map(|g| g.epoch);
        let free = h.has_agent() && !h.unreadable;
        if let (Some(serves), Some(learned)) = (serves, learned)
            && serves < learned
            && free
        {
            let passed = |since: u64| self.now.saturating_sub(since);
            let late = passed(h.may_linger_from) > ENDED_MS
                && h.failed_at.is_none_or(|at| passed(at) > TRIED_AGAIN_MS);
            if !late {
                self.saw("check", "an etcd of a replaced epoch is to be stopped");
                return;
            }
            let text = format!(
                "etcd of epoch {serves} still runs on {}, whose agent has learned of epoch {learned}",
                h.name
            );
            self.violate(1, text);
        }
    }

    /// Rule 2: no empty cluster is formed while an agent that can reach all others has data, of whatever
    /// cluster.
    fn check_empty(&mut self, genesis: &Genesis) {
        if genesis.origin != Origin::Empty {
            return;
        }
        // No agent asks a host that is not in `cluster.nodes`.
        let asked = (0..self.hosts.len()).map(|host| self.electors(host)).min();
        let hosts = asked.unwrap_or_default();
        let beside = (0..hosts).find(|host| {
            let h = &self.hosts[*host];
            let reached = |other| other == *host || self.links.both(Plane::Agents, *host, other);
            let long = |since: u64| self.now.saturating_sub(since) > HEARD_MS;
            h.has_agent()
                && h.disk().is_some()
                && (0..hosts).all(reached)
                && long(h.may_linger_from)
                && long(self.links.changed)
        });
        if let Some(host) = beside {
            let name = &self.hosts[host].name;
            let text = format!(
                "epoch {} begins empty although there is data on {name}",
                genesis.epoch
            );
            self.violate(2, text);
        }
    }

    /// Rules 1 and 2: a leader was elected.
    pub(super) fn check_leader(&mut self, host: usize) {
        let Some(dir) = &self.hosts[host].dir else { return };
        let cluster = dir.cluster;
        let Some(truth) = self.truths.get(&cluster).cloned() else {
            self.violate(1, format!("cluster {cluster} is of no epoch that was chosen"));
            return;
        };
        if !truth.tainted {
            let mut has = dir.writes();
            // Both are in order, so each acknowledged write has to be found.
            let missing = truth
                .acked
                .iter()
                .copied()
                .find(|wanted| !has.any(|w| w == *wanted));
            drop(has);
            if let Some(write) = missing {
                let text = format!(
                    "{} leads without the acknowledged write {write}",
                    self.hosts[host].name
                );
                self.violate(2, text);
            }
        }
    }

    /// The first chosen epoch after this one, and when it was first learned.
    fn replaced_by(&self, epoch: Epoch) -> Option<(Epoch, u64)> {
        let newer = self.chosen.range(epoch.next()..).next();
        newer.map(|(epoch, chosen)| (*epoch, chosen.at))
    }

    /// The epoch of the data here, or of the written settings if there is no data.
    fn epoch_here(&self, host: usize) -> Option<Epoch> {
        let h = &self.hosts[host];
        match &h.dir {
            Some(dir) => self.epoch_of(dir.cluster),
            None => h.written.as_ref().map(|a| a.epoch),
        }
    }

    /// Rule 1: these voters store what their leader acknowledges. Single voters of a replaced epoch may have
    /// been started after it was replaced, but the gates must not have let a quorum of them start since.
    pub(super) fn check_quorum(&mut self, leader: usize, acks: &[usize], quorum: usize) {
        let Some(epoch) = self.epoch_here(leader) else {
            return;
        };
        let Some((newer, at)) = self.replaced_by(epoch) else {
            return;
        };
        self.saw("check", "a replaced epoch has a quorum");
        let since = |voter: &&usize| {
            let server = &self.hosts[**voter].server;
            server.as_ref().is_some_and(|server| server.vouched > at)
        };
        if acks.iter().filter(since).count() >= quorum {
            let text = format!("epoch {epoch} was started again after epoch {newer} was chosen");
            self.violate(1, text);
        }
    }

    /// Rule 1: a gate decides alone. An epoch of which its own elector has accepted a genesis may be open.
    pub(super) fn check_alone(&mut self, host: usize) {
        let (serves, h) = (self.epoch_here(host), &self.hosts[host]);
        let voted = h.elector.as_ref().map(ElectorRecord::voted);
        if let (Some(serves), Some(voted)) = (serves, voted)
            && serves < voted
        {
            let text = format!(
                "{} starts etcd of epoch {serves} alone and has accepted a genesis of epoch {voted}",
                h.name
            );
            self.violate(1, text);
        }
    }

    /// Records that a gate holds a start back.
    pub(super) fn note_held(&mut self, host: usize) {
        let replaced = self.epoch_here(host).and_then(|epoch| self.replaced_by(epoch));
        if replaced.is_some() {
            self.saw("check", "a gate holds back a replaced epoch");
        }
    }

    /// Rule 1: an agent clears the gate. A majority of the electors, or the store, must have been able to
    /// report that no newer epoch is open.
    pub fn check_clear(&mut self, host: usize) {
        let Some(serves) = self.hosts[host].assignment.as_ref().map(|a| a.epoch) else {
            return;
        };
        let now = self.now;
        let long = |since: &BTreeMap<Epoch, u64>| {
            let later = since.range(serves.next()..).map(|(_, since)| *since).min();
            later.is_some_and(|since| now.saturating_sub(since) > HEARD_OF_MS)
        };
        if self.replaced_by(serves).is_some() {
            self.saw("check", "a gate is cleared for a replaced epoch");
        }
        let learned = self.hosts.iter().any(|h| long(&h.learned));
        let here: Vec<&Host> = self.hosts.iter().take(self.electors(host)).collect();
        let of_epoch = self.chosen.get(&serves).map(|chosen| &chosen.genesis.electorate);
        let former = here
            .iter()
            .filter(|h| of_epoch.is_none_or(|electorate| electorate.contains_key(&h.name)))
            .copied()
            .collect();
        let few = [here, former].into_iter().find_map(|electors| {
            let unaware = electors.iter().filter(|h| !long(&h.traces)).count();
            (unaware * 2 <= electors.len()).then_some((unaware, electors.len()))
        });
        if let Some((unaware, electors)) = few.filter(|_| learned) {
            let text = format!(
                "{} clears the gate for epoch {serves}, and only {unaware} of {electors} electors know of none after it",
                self.hosts[host].name
            );
            self.violate(1, text);
        }
    }

    /// Rule 3: an agent requests the removal of a voter.
    pub(super) fn check_removal(&mut self, host: usize, id: MemberId) {
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

    /// True for a removed member, and for one whose addition was undone because disks went back behind
    /// acknowledged entries.
    fn is_removed(&self, cluster: ClusterId, member: MemberId) -> bool {
        self.truths.get(&cluster).is_some_and(|truth| {
            truth.removed.contains(&member) || truth.tainted && !self.is_listed(cluster, member)
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
    /// has no vote yet: it may have started since its agent inspected the data, and is added again.
    pub fn check_gone(&mut self, host: usize, id: MemberId) {
        let cluster = self.hosts[host].dir.as_ref().map(|dir| dir.cluster);
        // The agent may have lost its memory while a device was not mounted: `forget` in `fault.rs`.
        let truth = cluster.and_then(|cluster| self.truths.get(&cluster));
        let lost = truth.is_some_and(|truth| truth.lost.contains(&id));
        let whole = |info: &Info| {
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

    /// The content of a backup of the etcd here.
    pub fn snapshot(&mut self, host: usize) -> Option<Arc<[u32]>> {
        let dir = self.hosts[host].dir.as_ref()?;
        self.hosts[host].server.as_ref()?;
        let committed = &dir.log[..dir.commit.min(dir.log.len())];
        let logged = committed.iter().filter_map(|e| match e.what {
            super::raft::What::Write(number) => Some(number),
            _ => None,
        });
        Some(dir.base.iter().copied().chain(logged).collect())
    }
}
