//! Raft in whole steps: connections, elections, replication.

use etcd_agent::model::MemberId;

use super::raft::{Change, Entry, What};
use super::{Plane, Refused, World};

/// A leader without a quorum for this long steps down; a follower may start an election after about the same
/// time.
const ELECTION_MS: u64 = 1000;
/// An etcd that did not learn that its name was published retries after this (`ReqTimeout` of etcd's server).
const PUBLISH_AGAIN_MS: u64 = 7000;

impl World {
    /// Advances all etcds by a tenth of a second.
    pub(super) fn raft(&mut self) {
        self.connect();
        for host in 0..self.hosts.len() {
            if self.hosts[host].server.as_ref().is_some_and(|s| s.leads) {
                if self.replicate(host) {
                    let now = self.now;
                    if let Some(server) = &mut self.hosts[host].server {
                        server.last_contact = now;
                    }
                } else {
                    self.step_down_when_alone(host);
                }
            }
        }
        for host in 0..self.hosts.len() {
            self.stand(host);
            self.settle(host);
        }
    }

    /// Updates which etcds are connected, and since when.
    fn connect(&mut self) {
        let hosts = self.hosts.len();
        for a in 0..hosts {
            if self.hosts[a].server.is_none() {
                continue;
            }
            for b in 0..hosts {
                let open = a != b && self.linked(a, b);
                let now = self.now;
                if let Some(server) = &mut self.hosts[a].server {
                    let since = &mut server.connected[b];
                    *since = if open { Some(since.unwrap_or(now)) } else { None };
                }
            }
        }
    }

    /// Whether two etcds are of one cluster and reach each other.
    fn linked(&self, a: usize, b: usize) -> bool {
        let cluster = |h: usize| {
            let host = &self.hosts[h];
            host.server.as_ref().filter(|s| s.exit.is_none())?;
            host.dir.as_ref().map(|dir| dir.cluster)
        };
        let ours = cluster(a);
        ours.is_some() && ours == cluster(b) && self.links.both(Plane::Etcd, a, b)
    }

    /// Whether a host reaches the running etcd of a member.
    fn reach(&mut self, from: usize, id: MemberId, host: usize) -> bool {
        let there = from == host || self.linked(from, host);
        let is_it = self.hosts[host].dir.as_ref().is_some_and(|dir| dir.member == id);
        // Lost messages delay a real raft by a heartbeat; here the whole exchange fails.
        let loss = self.links.loss;
        there && is_it && (from == host || loss == 0 || !self.rng.chance(loss))
    }

    fn step_down_when_alone(&mut self, host: usize) {
        let now = self.now;
        if let Some(server) = &mut self.hosts[host].server
            && now.saturating_sub(server.last_contact) > ELECTION_MS
        {
            server.leads = false;
            server.leader = None;
            self.tell(|w| format!("etcd of {} has lost its quorum", w.hosts[host].name));
        }
    }

    /// A leader sends its log to all members that it reaches. True if a quorum has the log.
    pub(super) fn replicate(&mut self, leader: usize) -> bool {
        let (Some(dir), Some(server)) = (&self.hosts[leader].dir, &self.hosts[leader].server) else {
            return false;
        };
        let (term, own, length) = (dir.term, dir.member, dir.log.len());
        let (base, log) = (dir.base.clone(), dir.log.clone());
        let members: Vec<_> = server
            .config
            .members
            .iter()
            .map(|(id, info)| (*id, *info))
            .collect();
        let quorum = server.config.quorum();
        let mut acks = Vec::new();
        let mut reached = Vec::new();
        for (id, info) in members {
            if id == own {
                acks.extend((!info.learner).then_some(leader));
                continue;
            }
            if !self.reach(leader, id, info.host) {
                continue;
            }
            let matched = self.hosts[leader]
                .server
                .as_ref()
                .and_then(|s| s.matched.get(&id).copied());
            match self.append(info.host, own, term, &log, &base, matched) {
                Appended::Newer(newer) => {
                    self.adopt(leader, newer);
                    return false;
                }
                Appended::Panic => {}
                Appended::Done => {
                    acks.extend((!info.learner).then_some(info.host));
                    reached.push(info.host);
                    if let Some(server) = &mut self.hosts[leader].server {
                        server.matched.insert(id, length);
                    }
                }
            }
        }
        if acks.len() < quorum {
            return false;
        }
        self.check_quorum(leader, &acks, quorum);
        reached.push(leader);
        for host in reached {
            self.commit(host, length);
        }
        true
    }

    /// A follower appends a leader's log.
    fn append(
        &mut self,
        host: usize,
        leader: MemberId,
        term: u64,
        log: &[Entry],
        base: &std::sync::Arc<[u32]>,
        matched: Option<usize>,
    ) -> Appended {
        let now = self.now;
        let h = &mut self.hosts[host];
        let (Some(dir), Some(server)) = (&mut h.dir, &mut h.server) else {
            return Appended::Panic;
        };
        if dir.term > term {
            return Appended::Newer(dir.term);
        }
        if dir.term < term {
            dir.term = term;
            dir.vote = None;
        }
        // `tocommit(..) is out of range`: the leader knows that this member had more (ADR 5).
        if matched.is_some_and(|known| known > dir.log.len()) {
            server.exit = Some(2);
            return Appended::Panic;
        }
        server.leads = false;
        server.leader = Some(leader);
        server.last_contact = now;
        if dir.log.is_empty() {
            dir.base = base.clone();
        }
        let from = matched.unwrap_or(0).min(dir.log.len());
        let same = from
            + log[from.min(log.len())..]
                .iter()
                .zip(&dir.log[from..])
                .take_while(|(a, b)| a == b)
                .count();
        if same < dir.commit.min(dir.log.len()) {
            server.exit = Some(2);
            return Appended::Panic;
        }
        dir.log.truncate(same);
        dir.log.extend_from_slice(&log[same..]);
        Appended::Done
    }

    /// A member that learns of a newer term follows no leader yet.
    fn adopt(&mut self, host: usize, term: u64) {
        let h = &mut self.hosts[host];
        if let (Some(dir), Some(server)) = (&mut h.dir, &mut h.server) {
            dir.term = term;
            dir.vote = None;
            server.leads = false;
            server.leader = None;
        }
    }

    fn commit(&mut self, host: usize, to: usize) {
        let h = &mut self.hosts[host];
        let (Some(dir), Some(server)) = (&mut h.dir, &mut h.server) else {
            return;
        };
        if dir.commit >= to {
            return;
        }
        dir.commit = to.min(dir.log.len());
        server.config.apply(&dir.log, dir.commit);
        if !server.config.removed.is_empty()
            && let Some(truth) = self.truths.get_mut(&dir.cluster)
        {
            truth.removed.extend(&server.config.removed);
        }
        if server.config.removed.contains(&dir.member) {
            server.exit = Some(0);
        }
    }

    /// A member that has received nothing from a leader for long starts an election.
    fn stand(&mut self, host: usize) {
        let now = self.now;
        let h = &self.hosts[host];
        let (Some(dir), Some(server)) = (&h.dir, &h.server) else {
            return;
        };
        if server.leads || server.exit.is_some() || now.saturating_sub(server.last_contact) < server.patience
        {
            return;
        }
        let own = dir.member;
        let last = dir.last();
        let quorum = server.config.quorum();
        let voters: Vec<_> = server.config.voters().collect();
        if !voters.iter().any(|(id, _)| *id == own) {
            if let Some(server) = &mut self.hosts[host].server {
                server.leader = None;
            }
            return;
        }
        let mut term = dir.term;
        let mut granted = Vec::new();
        for (id, info) in voters {
            if !self.reach(host, id, info.host) {
                continue;
            }
            let other = &self.hosts[info.host];
            let (Some(their_dir), Some(theirs)) = (&other.dir, &other.server) else {
                continue;
            };
            // Pre-vote: a voter that has a leader, or a more advanced log, refuses.
            let content =
                id != own && theirs.leader.is_some() && now.saturating_sub(theirs.last_contact) < ELECTION_MS;
            term = term.max(their_dir.term);
            if !content && last >= their_dir.last() {
                granted.push(info.host);
            }
        }
        let patience = self.rng.range(ELECTION_MS, 2 * ELECTION_MS);
        if let Some(server) = &mut self.hosts[host].server {
            server.leader = None;
            server.patience = patience;
            if granted.len() < quorum {
                server.last_contact = now.saturating_sub(patience / 2);
                return;
            }
        }
        term += 1;
        for voter in &granted {
            if let Some(dir) = &mut self.hosts[*voter].dir {
                dir.term = term;
                dir.vote = Some(own);
            }
        }
        self.lead(host, own, term);
    }

    /// A leader hands over to a voter that has its whole log.
    pub fn move_leader(&mut self, host: usize, to: MemberId) -> Result<(), Refused> {
        if !self.hosts[host].server.as_ref().is_some_and(|s| s.leads) {
            return Err(Refused::Says("etcdserver: not leader"));
        }
        self.leader_behind(host)?;
        let (Some(dir), Some(server)) = (&self.hosts[host].dir, &self.hosts[host].server) else {
            return Err(Refused::Down);
        };
        let voters: Vec<_> = server.config.voters().collect();
        let (term, last, quorum) = (dir.term + 1, dir.last(), server.config.quorum());
        let Some((_, target)) = voters.iter().find(|(id, _)| *id == to).copied() else {
            return Err(Refused::Says("etcdserver: bad leader transferee"));
        };
        if self.hosts[target.host]
            .dir
            .as_ref()
            .is_none_or(|d| d.member != to || d.last() < last)
        {
            return Err(Refused::Unknown);
        }
        let mut granted = Vec::new();
        for (id, info) in voters {
            if self.reach(target.host, id, info.host) {
                granted.push(info.host);
            }
        }
        if granted.len() < quorum {
            return Err(Refused::Unknown);
        }
        for voter in &granted {
            let h = &mut self.hosts[*voter];
            if let (Some(dir), Some(server)) = (&mut h.dir, &mut h.server) {
                dir.term = term;
                dir.vote = Some(to);
                server.leads = false;
                server.leader = Some(to);
            }
        }
        self.lead(target.host, to, term);
        Ok(())
    }

    fn lead(&mut self, host: usize, own: MemberId, term: u64) {
        let now = self.now;
        let h = &mut self.hosts[host];
        h.led_at = Some(now);
        if let (Some(dir), Some(server)) = (&mut h.dir, &mut h.server) {
            server.leads = true;
            server.leader = Some(own);
            server.last_contact = now;
            server.matched.clear();
            dir.log.push(Entry {
                term,
                what: What::Nothing,
            });
        }
        self.tell(|w| format!("etcd of {} leads in term {term}", w.hosts[host].name));
        self.check_leader(host);
        self.replicate(host);
    }

    /// A start is complete once the member has published its name through a leader. A removed member learns
    /// of its removal from a peer, and exits.
    fn settle(&mut self, host: usize) {
        let h = &self.hosts[host];
        let (Some(dir), Some(server)) = (&h.dir, &h.server) else {
            return;
        };
        if server.exit.is_some() {
            return;
        }
        let own = dir.member;
        let expelled = (0..self.hosts.len()).any(|peer| {
            peer != host
                && server.connected[peer].is_some()
                && self.hosts[peer]
                    .server
                    .as_ref()
                    .is_some_and(|s| s.config.removed.contains(&own))
        });
        if expelled {
            if let Some(server) = &mut self.hosts[host].server {
                server.exit = Some(0);
            }
            return;
        }
        if server.ready || server.leader.is_none() {
            return;
        }
        if server.serves_at.is_some_and(|at| self.now < at) {
            return;
        }
        let info = server.config.members.get(&own);
        let published = info.is_some_and(|info| info.published);
        // The name of a learner that was part of its snapshot: the learner does not learn of the publication,
        // and retries later.
        let late = info.is_some_and(|info| info.learner) && own.0 % 4 == 0;
        let served = if published {
            self.leader_behind(host).is_ok()
        } else {
            self.propose(host, What::Change(Change::Publish(own))).is_ok()
        };
        if served && !published && late {
            let at = self.now + PUBLISH_AGAIN_MS;
            self.tell(|w| format!("etcd of {} has caught up, and serves later", w.hosts[host].name));
            if let Some(server) = &mut self.hosts[host].server {
                server.serves_at = Some(at);
            }
        } else if served && let Some(server) = &mut self.hosts[host].server {
            server.ready = true;
            self.tell(|w| format!("etcd of {} is ready", w.hosts[host].name));
        }
    }
}

enum Appended {
    Done,
    Newer(u64),
    Panic,
}
