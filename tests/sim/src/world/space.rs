//! The database of each member: its size, its free pages, defragmentation and NOSPACE.

use etcd_agent::model::{AlarmKind, MemberId};

use super::{Refused, World};

/// etcd's default quota, in bytes.
const QUOTA: u64 = 2 << 30;
/// The pages in use of an ordinary database, in bytes.
const LITTLE: u64 = 20 << 20;
/// How long a defragmentation takes, in milliseconds.
const DEFRAG_MS: u64 = 2000;

/// Agents know that a database is full after this time, in milliseconds.
const SEEN_MS: u64 = 10_000;

/// The database of one host's member.
#[derive(Debug, Clone)]
pub struct Database {
    /// The size of its file, in bytes.
    pub size: u64,
    /// The pages in use, in bytes.
    pub in_use: u64,
    /// When its defragmentation ends.
    pub defrag_until: Option<u64>,
}

impl Default for Database {
    fn default() -> Self {
        Self {
            size: 4096,
            in_use: 4096,
            defrag_until: None,
        }
    }
}

impl World {
    /// Most of the file of this host's database becomes free.
    pub(crate) fn fragment(&mut self, host: usize) {
        let db = &mut self.hosts[host].db;
        db.size = db.size.max(10 * LITTLE);
        db.in_use = LITTLE;
    }

    /// Clients fill the databases of all hosts up to the quota. Without its history, little of them is in use.
    pub(crate) fn fill_up(&mut self) {
        for h in &mut self.hosts {
            h.db.size = QUOTA;
            h.db.in_use = QUOTA;
        }
        self.no_space = true;
        self.filled_at = self.now;
    }

    /// The etcd here begins to defragment its database. The answer comes later.
    pub(crate) fn begin_defrag(&mut self, host: usize) -> Result<(), Refused> {
        if self.hosts[host].server.as_ref().is_none_or(|s| !s.ready) {
            return Err(Refused::Down);
        }
        self.check_alone_down(host);
        self.tell(|w| format!("{} defragments etcd", w.hosts[host].name));
        self.saw("event", "a defragmentation");
        let until = self.now + DEFRAG_MS;
        self.hosts[host].db.defrag_until = Some(until);
        Ok(())
    }

    /// Ends the defragmentations that are over.
    pub(super) fn end_defrags(&mut self) {
        for h in &mut self.hosts {
            if h.server.is_none() {
                h.db.defrag_until = None;
            }
            if h.db.defrag_until.is_some_and(|at| at <= self.now) {
                h.db.defrag_until = None;
                h.db.size = h.db.in_use;
            }
        }
    }

    /// The etcd here compacts the history of all members.
    pub(crate) fn compact(&mut self, host: usize) -> Result<(), Refused> {
        self.leader_behind(host)?;
        for h in &mut self.hosts {
            h.db.in_use = LITTLE;
        }
        Ok(())
    }

    /// The raised alarms.
    pub(crate) fn alarms(&mut self, host: usize) -> Result<Vec<(MemberId, AlarmKind)>, Refused> {
        // The request goes through raft, so the member here knows everything committed before it.
        let leader = self.leader_behind(host)?;
        let commit = |host: usize| self.hosts[host].dir.as_ref().map(|dir| dir.commit);
        if commit(host) < commit(leader) {
            return Err(Refused::NotReady);
        }
        let h = &self.hosts[host];
        let dir = h
            .dir
            .as_ref()
            .filter(|_| h.server.is_some())
            .ok_or(Refused::Down)?;
        let full = self.no_space.then_some((dir.member, AlarmKind::NoSpace));
        let quarantine = self.quarantine_alarms(host);
        Ok(full.into_iter().chain(quarantine).collect())
    }

    /// An agent disarms NOSPACE. It comes back with the next write while a database is full.
    pub(crate) fn disarm(&mut self, host: usize) -> Result<(), Refused> {
        self.leader_behind(host)?;
        self.saw("event", "NOSPACE is disarmed");
        let mut serving = self.hosts.iter().filter(|h| h.server.is_some());
        let full = serving.find(|h| h.db.size >= QUOTA).map(|h| h.name.clone());
        self.no_space = full.is_some();
        if let Some(name) = full.filter(|_| self.now - self.filled_at > SEEN_MS) {
            self.violate(
                0,
                format!("NOSPACE is disarmed while the database of {name} is full"),
            );
        }
        Ok(())
    }
}
