//! Requests of clients and agents to an etcd: writes, the member list, changes of the members.

use std::sync::Arc;

use etcd_agent::model::{EtcdStatus, Member, MemberId, MemberList, RaftTerm, Revision};

use super::World;
use super::link::Plane;
use super::raft::{Change, Entry, Info, What};

/// etcd counts a member as connected only after this long (`HealthInterval`).
const HEALTHY_MS: u64 = 5000;

/// Why etcd did not carry out a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Refused {
    /// Nothing runs here.
    Down,
    /// There is no reachable leader, or it has no quorum; nothing was proposed.
    NoLeader,
    /// It has not joined the cluster yet, and answers no client.
    NotReady,
    /// It was proposed and not committed in time.
    Unknown,
    /// etcd's own answer.
    Says(&'static str),
}

impl World {
    /// The host whose etcd currently leads the one here, with a quorum.
    pub fn leader_behind(&mut self, host: usize) -> Result<usize, Refused> {
        let leader = self.leader_named(host)?;
        if self.replicate(leader) {
            Ok(leader)
        } else {
            Err(Refused::NoLeader)
        }
    }

    /// The host whose etcd is the leader according to the one here, if it can be reached.
    fn leader_named(&self, host: usize) -> Result<usize, Refused> {
        let server = self.hosts[host].server.as_ref().ok_or(Refused::Down)?;
        let id = server.leader.ok_or(Refused::NoLeader)?;
        if server.leads {
            return Ok(host);
        }
        (0..self.hosts.len())
            .find(|peer| {
                server.connected[*peer].is_some()
                    && self.hosts[*peer].dir.as_ref().is_some_and(|d| d.member == id)
                    && self.hosts[*peer].server.as_ref().is_some_and(|s| s.leads)
            })
            .ok_or(Refused::NoLeader)
    }

    /// Proposes an entry through the etcd here. Returns the leader.
    pub(super) fn propose(&mut self, host: usize, what: What) -> Result<usize, Refused> {
        let leader = self.leader_named(host)?;
        let h = &mut self.hosts[leader];
        let Some(dir) = &mut h.dir else {
            return Err(Refused::Down);
        };
        let pending = dir.log[dir.commit.min(dir.log.len())..]
            .iter()
            .any(|e| matches!(e.what, What::Change(_)));
        if pending && matches!(what, What::Change(_)) {
            // Raft drops a second change of the members while one is not applied.
            return Err(Refused::Unknown);
        }
        dir.log.push(Entry { term: dir.term, what });
        if self.replicate(leader) {
            Ok(leader)
        } else {
            Err(Refused::Unknown)
        }
    }

    /// A client's write through the etcd here; returns the leader if the write was acknowledged.
    pub fn write(&mut self, host: usize, number: u32) -> Option<usize> {
        if self.hosts[host].server.as_ref().is_none_or(|s| !s.ready) {
            return None;
        }
        let leader = self.leader_named(host).ok()?;
        let dir = self.hosts[leader].dir.as_ref()?;
        if dir.in_quarantine(dir.log.len()) {
            return None;
        }
        let leader = self.propose(host, What::Write(number)).ok()?;
        let cluster = self.hosts[leader].dir.as_ref()?.cluster;
        self.truths.get_mut(&cluster)?.acked.push(number);
        self.check_acknowledged(cluster, number);
        Some(leader)
    }

    /// The status that the etcd here reports.
    pub fn status(&self, host: usize) -> Result<EtcdStatus, Refused> {
        let h = &self.hosts[host];
        let (Some(dir), Some(server)) = (&h.dir, &h.server) else {
            return Err(Refused::Down);
        };
        if !server.ready {
            return Err(Refused::NotReady);
        }
        Ok(EtcdStatus {
            version: server.version.to_string(),
            storage_version: Some(server.version)
                .filter(|version| version.minor >= 6)
                .and_then(|_| self.truths.get(&dir.cluster)?.version),
            downgrade_to: self.truths.get(&dir.cluster).and_then(|truth| truth.downgrade),
            cluster_id: dir.cluster,
            member_id: dir.member,
            leader: server.leader,
            is_learner: server
                .config
                .members
                .get(&dir.member)
                .is_some_and(|info| info.learner),
            term: RaftTerm(dir.term),
            index: dir.log.len() as u64,
            applied: dir.commit as u64,
            db_size_bytes: h.db.size,
            db_in_use_bytes: Some(h.db.in_use),
            revision: Revision(1 + self.stored_writes(host) as u64),
            errors: {
                let full = self
                    .no_space
                    .then(|| format!("memberID:{} alarm:NOSPACE", dir.member));
                full.into_iter().chain(self.quarantine_errors(host)).collect()
            },
        })
    }

    /// The member list of the etcd here, through quorum if `linearizable`.
    pub fn members(&mut self, host: usize, linearizable: bool) -> Result<MemberList, Refused> {
        if linearizable {
            self.leader_behind(host)?;
        }
        let h = &self.hosts[host];
        let (Some(dir), Some(server)) = (&h.dir, &h.server) else {
            return Err(Refused::Down);
        };
        if !server.ready {
            return Err(Refused::NotReady);
        }
        let members = server
            .config
            .members
            .iter()
            .map(|(id, info)| Member {
                id: *id,
                name: if info.named {
                    self.hosts[info.host].name.as_str().to_owned()
                } else {
                    String::new()
                },
                peer_urls: vec![if self.moved.contains(id) {
                    Self::former_peer_url(info.host)
                } else {
                    Self::peer_url(info.host)
                }],
                client_urls: info
                    .published
                    .then(|| Self::client_url(info.host))
                    .into_iter()
                    .collect(),
                is_learner: info.learner,
            })
            .collect();
        Ok(MemberList {
            cluster_id: dir.cluster,
            term: RaftTerm(dir.term),
            linearizable,
            members,
        })
    }

    /// The number of voters that the etcd here has been connected to for `HealthInterval`, itself included,
    /// and of all voters.
    fn connected_voters(&self, host: usize) -> (usize, usize) {
        let Some(server) = &self.hosts[host].server else {
            return (0, 0);
        };
        let long = |peer: usize| {
            peer == host
                || server.connected[peer].is_some_and(|since| self.now.saturating_sub(since) >= HEALTHY_MS)
        };
        let voters: Vec<_> = server.config.voters().collect();
        let active = voters.iter().filter(|(_, info)| long(info.host)).count();
        (active, voters.len())
    }

    /// `MemberAddAsLearner`, with etcd's strict reconfiguration check (`mayAddMember` in etcd's server.go).
    pub fn add_learner(&mut self, host: usize, url: &str) -> Result<MemberId, Refused> {
        let target = self.host_at(url).ok_or(Refused::Says("no such host"))?;
        let server = self.hosts[host].server.as_ref().ok_or(Refused::Down)?;
        let learner = server.config.members.values().any(|info| info.learner);
        let taken = server.config.members.values().any(|info| info.host == target);
        if server.leads && learner {
            self.violate(3, "a second member is added while one is a learner");
        }
        let (active, voters) = self.connected_voters(host);
        // The new member counts as unreachable. A cluster of one may always add a member.
        if voters > 1 && active < voters.div_ceil(2) + 1 {
            return Err(Refused::Says("etcdserver: unhealthy cluster"));
        }
        if taken {
            return Err(Refused::Says("etcdserver: Peer URLs already exists"));
        }
        if learner {
            return Err(Refused::Says("etcdserver: too many learner members in cluster"));
        }
        let id = MemberId(self.rng.number());
        let info = Info {
            host: target,
            named: false,
            published: false,
            learner: true,
        };
        self.tell(|w| {
            format!(
                "{} adds {} as learner {id}",
                w.hosts[host].name, w.hosts[target].name
            )
        });
        self.propose(host, What::Change(Change::Add(id, info)))?;
        Ok(id)
    }

    /// `MemberRemove`, with etcd's strict reconfiguration check (`mayRemoveMember`).
    pub fn remove_member(&mut self, host: usize, id: MemberId) -> Result<(), Refused> {
        let server = self.hosts[host].server.as_ref().ok_or(Refused::Down)?;
        let Some(info) = server.config.members.get(&id).copied() else {
            return Err(Refused::Says("etcdserver: member not found"));
        };
        if !info.learner {
            // This check precedes etcd's own: an agent must not even request a removal that etcd would
            // refuse.
            self.check_removal(host, id);
            let server = self.hosts[host].server.as_ref().ok_or(Refused::Down)?;
            let rest: Vec<_> = server.config.voters().filter(|(other, _)| *other != id).collect();
            let started = rest.iter().filter(|(_, info)| info.named).count();
            if rest.is_empty() || started < rest.len() / 2 + 1 {
                return Err(Refused::Says(
                    "etcdserver: re-configuration failed due to not enough started members",
                ));
            }
            if info.host == host || server.connected[info.host].is_some() {
                let (active, voters) = self.connected_voters(host);
                if active.saturating_sub(1) < 1 + voters.saturating_sub(1) / 2 {
                    return Err(Refused::Says("etcdserver: unhealthy cluster"));
                }
            }
        }
        self.tell(|w| {
            format!(
                "{} removes {id} of {}",
                w.hosts[host].name, w.hosts[info.host].name
            )
        });
        self.propose(host, What::Change(Change::Remove(id)))?;
        Ok(())
    }

    /// `MemberUpdate`: only the address of the member's own host is accepted. No member listens over TLS, whatever a
    /// liar claims. Whether the members reach each other does not depend on it here.
    pub fn update_member(&mut self, host: usize, id: MemberId, url: &str) -> Result<(), Refused> {
        if !url.starts_with("http://") {
            return Err(Refused::Says("the simulated etcd lists no member over TLS"));
        }
        let target = self.host_at(url);
        let server = self.hosts[host].server.as_ref().ok_or(Refused::Down)?;
        let Some(info) = server.config.members.get(&id) else {
            return Err(Refused::Says("etcdserver: member not found"));
        };
        if target != Some(info.host) {
            return Err(Refused::Says("etcdserver: Peer URLs already exists"));
        }
        let learner = info.learner;
        self.leader_named(host)?;
        if learner {
            self.violate(
                3,
                "the address of a learner is updated: etcd lists it as a voter then (etcd#21694)",
            );
        }
        self.moved.remove(&id);
        self.tell(|w| format!("{} updates the address of {id}", w.hosts[host].name));
        Ok(())
    }

    /// Whether the etcd at this client URL answers at all.
    pub fn probe(&self, host: usize, client_url: &str) -> Result<(), Refused> {
        let target = self.host_at(client_url).ok_or(Refused::Down)?;
        if target != host && !self.links.both(Plane::Etcd, host, target) {
            return Err(Refused::NoLeader);
        }
        let there = &self.hosts[target];
        if there.up && there.server.is_some() {
            Ok(())
        } else {
            Err(Refused::Down)
        }
    }

    /// `MemberPromote`: refused while the learner lags.
    pub fn promote(&mut self, host: usize, id: MemberId) -> Result<(), Refused> {
        let leader = self.leader_named(host)?;
        let server = self.hosts[leader].server.as_ref().ok_or(Refused::Down)?;
        let Some(info) = server.config.members.get(&id) else {
            return Err(Refused::Says("etcdserver: member not found"));
        };
        if !info.learner {
            return Err(Refused::Says("etcdserver: can only promote a learner member"));
        }
        let length = self.hosts[leader].dir.as_ref().map_or(0, |d| d.log.len());
        if server.matched.get(&id).copied().unwrap_or(0) * 10 < length * 9 {
            return Err(Refused::Says(
                "etcdserver: can only promote a learner member which is in sync with leader",
            ));
        }
        self.tell(|w| format!("{} promotes {id}", w.hosts[host].name));
        self.propose(host, What::Change(Change::Promote(id)))?;
        Ok(())
    }

    /// The number of committed writes that the etcd here knows.
    fn stored_writes(&self, host: usize) -> usize {
        let Some(dir) = &self.hosts[host].dir else {
            return 0;
        };
        let committed = dir.log.get(..dir.commit).unwrap_or(&dir.log);
        let writes = committed.iter().filter(|e| matches!(e.what, What::Write(_)));
        dir.base.len() + writes.count()
    }

    /// The content of a backup of the etcd here.
    pub fn snapshot(&mut self, host: usize) -> Option<Arc<[u32]>> {
        let dir = self.hosts[host].dir.as_ref()?;
        self.hosts[host].server.as_ref()?;
        let committed = &dir.log[..dir.commit.min(dir.log.len())];
        let logged = committed.iter().filter_map(|e| match e.what {
            What::Write(number) => Some(number),
            _ => None,
        });
        Some(dir.base.iter().copied().chain(logged).collect())
    }
}
