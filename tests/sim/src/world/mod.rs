//! The world that the agents live in: hosts with their disks, units and etcds, the network, the store, one client,
//! and the invariants that hold in all of it (design §7).

mod broken;
mod check;
mod cluster;
mod election;
mod host;
mod link;
mod mount;
pub mod raft;
mod store;
mod unit;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use etcd_agent::model::{BackupId, ClusterId, Epoch, Genesis, MemberId, NodeName};

use crate::rng::Rng;

pub use broken::{Broken, Call, How};
pub use cluster::Refused;
pub use host::{AgentState, Host};
pub use link::{Links, Plane};
pub use mount::{Late, Mount};
pub use store::{Store, Weather};
pub use unit::{Asked, Phase};

/// Where the simulated clock begins: 2026-01-01T00:00:00Z, in milliseconds since the Unix epoch.
pub const BEGIN_MS: u64 = 1_767_225_600_000;

/// What is known of one etcd cluster, whoever serves it.
#[derive(Default, Debug, Clone)]
pub struct Truth {
    /// The epoch that it is.
    pub epoch: Epoch,
    /// Writes that a client was told are stored.
    pub acked: Vec<u32>,
    /// True once a majority of voters has lost its disks: then nothing is promised (rule 2).
    pub tainted: bool,
    /// Members whose disk was lost.
    pub lost: BTreeSet<MemberId>,
    /// Members whose disk was set back.
    pub set_back: BTreeSet<MemberId>,
    /// Members whose removal was committed.
    pub removed: BTreeSet<MemberId>,
}

/// A genesis, once somebody has learned it as chosen.
#[derive(Debug, Clone)]
pub struct Chosen {
    /// The value.
    pub genesis: Genesis,
    /// When it was first learned.
    pub at: u64,
}

/// Everything.
pub struct World {
    /// Milliseconds since the beginning.
    pub now: u64,
    /// All chance there is.
    pub rng: Rng,
    /// The hosts, by number.
    pub hosts: Vec<Host>,
    /// Who reaches whom.
    pub links: Links,
    /// The store that all share, where there is one.
    pub store: Option<Store>,
    /// Stores that single hosts are configured with in its place, now or once.
    pub others: BTreeMap<usize, Store>,
    /// What is known of each cluster.
    pub truths: BTreeMap<ClusterId, Truth>,
    /// The geneses that were learned.
    pub chosen: BTreeMap<Epoch, Chosen>,
    /// Who has accepted what, by epoch and token.
    pub accepted: BTreeMap<(Epoch, String), BTreeSet<usize>>,
    /// Backups that an operator has asked to restore.
    pub asked: BTreeSet<BackupId>,
    /// Backups that some agent has fetched and checked, whether it still knows that or not.
    pub ever_fetched: BTreeSet<BackupId>,
    /// How many of the hosts, the last ones, were not in `cluster.nodes` of the others at first.
    pub newcomers: usize,
    /// A smaller size that the store wants, and that no operator has ordered through an agent.
    pub unordered: Option<usize>,
    /// The host that lies now.
    pub liar: Option<usize>,
    /// Whether an agent has ever lied.
    pub lied: bool,
    /// The number of the client's next write.
    pub next_write: u32,
    /// Whether the client writes.
    pub writing: bool,
    /// The first thing that must never be.
    pub violation: Option<String>,
    /// What has happened, when somebody wants to read it.
    pub history: Option<Vec<String>>,
    /// What has happened, by kind and name.
    pub seen: BTreeSet<String>,
}

impl World {
    /// Hosts that have nothing yet.
    pub fn new(seed: u64, names: &[NodeName], store: Option<Store>, record: bool) -> Self {
        Self {
            now: 0,
            rng: Rng::new(seed),
            hosts: names.iter().map(|name| Host::new(name.clone())).collect(),
            links: Links::new(names.len()),
            store,
            others: BTreeMap::new(),
            truths: BTreeMap::new(),
            chosen: BTreeMap::new(),
            accepted: BTreeMap::new(),
            asked: BTreeSet::new(),
            ever_fetched: BTreeSet::new(),
            newcomers: 0,
            unordered: None,
            liar: None,
            lied: false,
            next_write: 0,
            writing: true,
            violation: None,
            history: record.then(Vec::new),
            seen: BTreeSet::new(),
        }
    }

    /// Writes a line of history; `text` is made only when somebody wants to read it.
    pub fn tell(&mut self, text: impl FnOnce(&Self) -> String) {
        if self.history.is_some() {
            let line = format!("{:>9.3}  {}", to_seconds(self.now), text(self));
            if let Some(history) = &mut self.history {
                history.push(line);
            }
        }
    }

    /// Records that something of this kind has happened.
    pub fn saw(&mut self, kind: &str, name: &str) {
        self.seen.insert(format!("{kind} {name}"));
    }

    /// Something happened that must never happen.
    pub fn violate(&mut self, rule: u8, text: impl Into<String>) {
        let text = format!("rule {rule}: {}", text.into());
        self.tell(|_| format!("VIOLATION {text}"));
        if self.violation.is_none() {
            self.violation = Some(text);
        }
    }

    /// The store that a host is configured with.
    pub fn store_of(&self, host: usize) -> Option<&Store> {
        let other = self.others.get(&host).filter(|_| self.hosts[host].differs);
        other.or(self.store.as_ref())
    }

    /// The same, to be changed.
    pub fn store_of_mut(&mut self, host: usize) -> Option<&mut Store> {
        match self.others.get_mut(&host).filter(|_| self.hosts[host].differs) {
            Some(other) => Some(other),
            None => self.store.as_mut(),
        }
    }

    /// All stores that some host is or was configured with.
    pub fn stores(&self) -> impl Iterator<Item = &Store> {
        self.store.iter().chain(self.others.values())
    }

    /// How many nodes a host has in `cluster.nodes`, the first ones.
    pub fn electors(&self, host: usize) -> usize {
        if self.hosts[host].narrow {
            self.first_electors()
        } else {
            self.hosts.len()
        }
    }

    /// How many electors there were before the newcomers were put into `cluster.nodes`.
    pub fn first_electors(&self) -> usize {
        self.hosts.len() - self.newcomers
    }

    /// How many backups were ever committed.
    pub fn committed(&self) -> usize {
        self.stores().map(|store| store.committed).sum()
    }

    /// The host of this name.
    pub fn host_of(&self, name: &NodeName) -> Option<usize> {
        self.hosts.iter().position(|host| host.name == *name)
    }

    /// The host that a peer URL leads to.
    pub fn host_at(&self, url: &str) -> Option<usize> {
        let address = url.strip_prefix("http://")?.rsplit_once(':')?.0;
        let number: usize = address.rsplit('.').next()?.parse().ok()?;
        number.checked_sub(1).filter(|host| *host < self.hosts.len())
    }

    /// The peer URL of a host.
    pub fn peer_url(host: usize) -> String {
        format!("http://{}:2380", address(host))
    }

    /// Where its etcd serves clients.
    pub fn client_url(host: usize) -> String {
        format!("http://{}:2379", address(host))
    }

    /// The epoch that a cluster is.
    pub fn epoch_of(&self, cluster: ClusterId) -> Option<Epoch> {
        self.truths.get(&cluster).map(|truth| truth.epoch)
    }

    /// A tenth of a second of everything that is not an agent.
    pub fn tick(&mut self) {
        self.mount_due();
        self.units();
        self.raft();
        if self.writing {
            self.client();
        }
    }

    /// One write, now and then, through whichever etcd says that it serves.
    fn client(&mut self) {
        if !self.rng.chance(25) {
            return;
        }
        let through = self.rng.index(self.hosts.len());
        if self.hosts[through].server.is_none() {
            return;
        }
        let number = self.next_write;
        self.next_write += 1;
        if let Some(leader) = self.write(through, number) {
            self.tell(|w| format!("write {number} acknowledged by {}", w.hosts[leader].name));
        }
    }

    /// Notes what is known of a cluster at its beginning.
    pub fn note_cluster(&mut self, genesis: &Genesis, base: &[u32]) {
        self.truths.entry(genesis.cluster_id).or_insert_with(|| Truth {
            epoch: genesis.epoch,
            acked: base.to_vec(),
            ..Truth::default()
        });
    }

    /// The newest genesis that anybody has learned.
    pub fn newest(&self) -> Option<&Chosen> {
        self.chosen.values().next_back()
    }

    /// An empty list of writes.
    pub fn no_writes() -> Arc<[u32]> {
        Arc::new([])
    }
}

/// The address of a host.
pub fn address(host: usize) -> String {
    format!("10.0.0.{}", host + 1)
}

fn to_seconds(ms: u64) -> f64 {
    std::time::Duration::from_millis(ms).as_secs_f64()
}
