//! etcd as far as an agent can tell: one server process, its data directory, and raft in whole steps.
//!
//! A step of raft (an election, one round of replication) is atomic here: what is modelled is who has which entry
//! on its disk, who may vote for whom, and what a member does that has lost its memory, not each message.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use etcd_agent::model::{ClusterId, MemberId};

/// One member as the log has it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Info {
    /// The host that its peer URL leads to.
    pub host: usize,
    /// Whether etcd knows its name: of a founder from the beginning, of others once they have started.
    pub named: bool,
    /// Whether it has published its client URLs, which it does when it first starts.
    pub published: bool,
    /// True without a vote.
    pub learner: bool,
}

/// A change of the members.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Change {
    /// An initial voter, or a learner.
    Add(MemberId, Info),
    /// A learner becomes a voter.
    Promote(MemberId),
    /// A member goes.
    Remove(MemberId),
    /// A member tells its name.
    Publish(MemberId),
}

/// What an entry of the log says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum What {
    /// A new leader's first entry.
    Nothing,
    /// A client's write, by number.
    Write(u32),
    /// A change of the members.
    Change(Change),
}

/// One entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Entry {
    /// The term that it was written in.
    pub term: u64,
    /// What it says.
    pub what: What,
}

/// What survives on a disk: synced before anybody is told.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Dir {
    /// The cluster.
    pub cluster: ClusterId,
    /// The member.
    pub member: MemberId,
    /// The newest term heard of.
    pub term: u64,
    /// Whom it has given its vote in that term.
    pub vote: Option<MemberId>,
    /// The log.
    pub log: Vec<Entry>,
    /// How much of it is known to be committed.
    pub commit: usize,
    /// The writes of the backup that it was restored from.
    pub base: Arc<[u32]>,
}

impl Dir {
    /// A directory with these initial voters.
    pub fn founded(
        cluster: ClusterId,
        member: MemberId,
        voters: &BTreeMap<MemberId, usize>,
        base: Arc<[u32]>,
    ) -> Self {
        let log: Vec<Entry> = voters
            .iter()
            .map(|(id, host)| Entry {
                term: 1,
                what: What::Change(Change::Add(
                    *id,
                    Info {
                        host: *host,
                        named: true,
                        published: false,
                        learner: false,
                    },
                )),
            })
            .collect();
        Self {
            cluster,
            member,
            term: 1,
            vote: None,
            commit: log.len(),
            log,
            base,
        }
    }

    /// A directory that remembers nothing.
    pub fn empty(cluster: ClusterId, member: MemberId) -> Self {
        Self {
            cluster,
            member,
            term: 0,
            vote: None,
            log: Vec::new(),
            commit: 0,
            base: Arc::new([]),
        }
    }

    /// Raft's measure of who is ahead: the last entry's term, then the length.
    pub fn last(&self) -> (u64, usize) {
        (self.log.last().map_or(0, |e| e.term), self.log.len())
    }

    /// Every write in it, restored or logged, in order.
    pub fn writes(&self) -> impl Iterator<Item = u32> {
        self.base
            .iter()
            .copied()
            .chain(self.log.iter().filter_map(|e| match e.what {
                What::Write(number) => Some(number),
                _ => None,
            }))
    }
}

/// The members that follow from a log.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Config {
    /// By ID.
    pub members: BTreeMap<MemberId, Info>,
    /// Those that are gone for good.
    pub removed: BTreeSet<MemberId>,
    applied: usize,
}

impl Config {
    /// Takes in what was committed since the last call.
    pub fn apply(&mut self, log: &[Entry], commit: usize) {
        while self.applied < commit.min(log.len()) {
            if let What::Change(change) = log[self.applied].what {
                match change {
                    Change::Add(id, info) => {
                        self.members.insert(id, info);
                    }
                    Change::Promote(id) => {
                        if let Some(info) = self.members.get_mut(&id) {
                            info.learner = false;
                        }
                    }
                    Change::Publish(id) => {
                        if let Some(info) = self.members.get_mut(&id) {
                            (info.named, info.published) = (true, true);
                        }
                    }
                    Change::Remove(id) => {
                        self.members.remove(&id);
                        self.removed.insert(id);
                    }
                }
            }
            self.applied += 1;
        }
    }

    /// The members of a whole log.
    pub fn of(dir: &Dir) -> Self {
        let mut config = Self::default();
        config.apply(&dir.log, dir.commit);
        config
    }

    /// The voters.
    pub fn voters(&self) -> impl Iterator<Item = (MemberId, Info)> {
        self.members
            .iter()
            .filter(|(_, info)| !info.learner)
            .map(|(id, info)| (*id, *info))
    }

    /// `n/2 + 1` of the voters.
    pub fn quorum(&self) -> usize {
        self.voters().count() / 2 + 1
    }
}

/// A running etcd. All times are milliseconds of the simulation.
#[derive(Debug, Clone)]
pub struct Server {
    /// Its members as applied.
    pub config: Config,
    /// True while it leads.
    pub leads: bool,
    /// Whom it follows, or itself.
    pub leader: Option<MemberId>,
    /// When it last heard a leader, or as a leader a quorum.
    pub heard: u64,
    /// How long it waits for a leader before it stands itself.
    pub patience: u64,
    /// What a leader knows that each member has.
    pub matched: BTreeMap<MemberId, usize>,
    /// Since when each host's etcd is connected.
    pub connected: Vec<Option<u64>>,
    /// Since when nothing that was newer could speak for its start: the gate was cleared then, less the age of what the agent
    /// may have judged by, or the gate decided alone.
    pub vouched: u64,
    /// True once systemd was told. Before, no client is answered.
    pub ready: bool,
    /// When it tries again to publish its name, where it did not learn that it was published.
    pub serves_at: Option<u64>,
    /// The exit code that it is about to leave with.
    pub exit: Option<i32>,
}

impl Server {
    /// A process on this directory.
    pub fn new(dir: &Dir, hosts: usize, now: u64, patience: u64, vouched: u64) -> Self {
        Self {
            config: Config::of(dir),
            leads: false,
            leader: None,
            heard: now,
            patience,
            matched: BTreeMap::new(),
            connected: vec![None; hosts],
            vouched,
            ready: false,
            serves_at: None,
            exit: None,
        }
    }
}
