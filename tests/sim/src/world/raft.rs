//! etcd as far as an agent can observe it: one server process, its data directory, and raft in whole steps.
//!
//! A step of raft (an election, one round of replication) is atomic here. The model covers which entries are
//! on whose disk, who may vote for whom, and the behaviour of a member that has lost its memory, but not each
//! message.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use etcd_agent::model::{ClusterId, EtcdVersion, MemberId};

/// One member according to the log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Info {
    /// The host that its peer URL leads to.
    pub host: usize,
    /// Whether etcd knows its name: that of a founder from the beginning, that of others once they have
    /// started.
    pub named: bool,
    /// Whether it has published its client URLs, which it does when it first starts.
    pub published: bool,
    /// True if it has no vote.
    pub learner: bool,
}

/// A change of the members.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Change {
    /// An initial voter, or a learner.
    Add(MemberId, Info),
    /// A learner becomes a voter.
    Promote(MemberId),
    /// A member is removed.
    Remove(MemberId),
    /// A member publishes its name.
    Publish(MemberId),
}

/// The content of a log entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum What {
    /// A new leader's first entry.
    Nothing,
    /// A client's write, by number.
    Write(u32),
    /// A change of the members.
    Change(Change),
    /// An alarm of the quarantine, with this member ID, is raised or disarmed.
    Quarantine(MemberId, bool),
}

/// One entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Entry {
    /// The term in which it was written.
    pub term: u64,
    /// Its content.
    pub what: What,
}

/// The state that survives on a disk: synced before anything is acknowledged.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Dir {
    /// The cluster.
    pub cluster: ClusterId,
    /// The member.
    pub member: MemberId,
    /// The newest known term.
    pub term: u64,
    /// The member that got its vote in that term.
    pub vote: Option<MemberId>,
    /// The log.
    pub log: Vec<Entry>,
    /// How much of the log is known to be committed.
    pub commit: usize,
    /// The writes of the backup that it was restored from.
    pub base: Arc<[u32]>,
    /// Whether that backup was taken in quarantine.
    pub quarantined: bool,
    /// Whether etcd 3.5 has written to the log since the last snapshot of raft.
    pub v2: bool,
    /// Nonzero if its data differs from what the cluster wrote; equal numbers are equal differences.
    pub differs: u32,
}

/// What is known of all differences.
#[derive(Debug, Clone, Copy, Default)]
pub struct Differing {
    /// How often the data of a member began to differ.
    pub made: u32,
    /// Whether a new member got wrong data from the leader. Then a majority may have the same wrong data.
    pub copied: bool,
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
            quarantined: false,
            v2: false,
            differs: 0,
        }
    }

    /// A directory with an empty log.
    pub fn empty(cluster: ClusterId, member: MemberId) -> Self {
        Self {
            cluster,
            member,
            term: 0,
            vote: None,
            log: Vec::new(),
            commit: 0,
            base: Arc::new([]),
            quarantined: false,
            v2: false,
            differs: 0,
        }
    }

    /// Raft's order of logs: the last entry's term, then the length.
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

/// The members according to a log.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Config {
    /// By ID.
    pub members: BTreeMap<MemberId, Info>,
    /// The members that were permanently removed.
    pub removed: BTreeSet<MemberId>,
    applied: usize,
}

impl Config {
    /// Applies the entries committed since the last call.
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
    /// The member that it follows, or itself.
    pub leader: Option<MemberId>,
    /// When it last received from a leader, or as a leader from a quorum.
    pub last_contact: u64,
    /// How long it waits for a leader before it starts an election.
    pub patience: u64,
    /// The log length of each member, as far as a leader knows it.
    pub matched: BTreeMap<MemberId, usize>,
    /// Since when each host's etcd is connected.
    pub connected: Vec<Option<u64>>,
    /// The earliest time of the facts that allowed its start: the time when the gate was cleared, minus the
    /// maximum age of the agent's facts, or the time when the gate decided alone.
    pub vouched: u64,
    /// True once it has sent READY=1 to systemd. Before that it answers no client.
    pub ready: bool,
    /// When it retries to publish its name, if it did not learn that the name was published.
    pub serves_at: Option<u64>,
    /// The exit code with which it is about to exit.
    pub exit: Option<i32>,
    /// The version of etcd.
    pub version: EtcdVersion,
    /// The authorities in its files when it started.
    pub trusts: u32,
}

impl Server {
    /// A process on this directory.
    pub fn new(dir: &Dir, hosts: usize, now: u64, patience: u64, vouched: u64, version: EtcdVersion) -> Self {
        Self {
            config: Config::of(dir),
            leads: false,
            leader: None,
            last_contact: now,
            patience,
            matched: BTreeMap::new(),
            connected: vec![None; hosts],
            vouched,
            ready: false,
            serves_at: None,
            exit: None,
            version,
            trusts: 0,
        }
    }
}
