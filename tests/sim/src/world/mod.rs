//! The world of the agents: hosts with their disks, units and etcds, the network, the store, one client, and
//! the invariants that hold in all of it (design §7).

mod broken;
mod certificate_files;
mod check;
mod cluster;
mod differs;
mod election;
mod host;
mod link;
mod loss;
mod mount;
mod quarantine;
pub mod raft;
mod space;
mod store;
mod tls_files;
mod unit;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use bytes::Bytes;
use etcd_agent::model::{BackupId, ClusterId, Directives, Epoch, EtcdVersion, Genesis, MemberId, NodeName};

use crate::rng::Rng;

pub use broken::{Broken, Call, How};
pub use check::VERSIONS;
pub use cluster::Refused;
pub use host::{AgentState, Host, Late, Mount, Phase};
pub use link::{Links, Plane};
pub use store::{Store, Weather};
pub use unit::Asked;

/// The start of the simulated clock: 2026-01-01T00:00:00Z, in milliseconds since the Unix epoch.
pub const BEGIN_MS: u64 = 1_767_225_600_000;

/// The facts of one etcd cluster, whichever hosts serve it.
#[derive(Default, Debug, Clone)]
pub struct Truth {
    /// Its epoch.
    pub epoch: Epoch,
    /// Writes that were acknowledged to a client.
    pub acked: Vec<u32>,
    /// True once a majority of voters has lost its disks: then nothing is promised (rule 2).
    pub tainted: bool,
    /// Members whose disk was lost.
    pub lost: BTreeSet<MemberId>,
    /// Members whose disk was set back.
    pub set_back: BTreeSet<MemberId>,
    /// Members whose removal was committed.
    pub removed: BTreeSet<MemberId>,
    /// The cluster's version: the minor that all members have run.
    pub version: Option<EtcdVersion>,
    /// The minor to which the cluster is being downgraded.
    pub downgrade: Option<EtcdVersion>,
}

/// What people do about moves.
#[derive(Debug, Clone, Copy, Default)]
pub struct Moves {
    /// True while a person moves the cluster.
    pub under_way: bool,
    /// The version of the last move.
    pub to: Option<EtcdVersion>,
    /// True if a quarantine was not ended because an elector may have voted for the next epoch.
    pub voted: bool,
}

/// A genesis, once an agent has learned it as chosen.
#[derive(Debug, Clone)]
pub struct Chosen {
    /// The value.
    pub genesis: Genesis,
    /// When it was first learned.
    pub at: u64,
}

/// The whole simulated world.
pub struct World {
    /// Milliseconds since the beginning.
    pub now: u64,
    /// The source of all random choices.
    pub rng: Rng,
    /// The hosts, by number.
    pub hosts: Vec<Host>,
    /// Reachability between the hosts.
    pub links: Links,
    /// The shared store, if there is one.
    pub store: Option<Store>,
    /// Stores that single hosts are or were configured with instead.
    pub others: BTreeMap<usize, Store>,
    /// The facts of each cluster.
    pub truths: BTreeMap<ClusterId, Truth>,
    /// The geneses that were learned.
    pub chosen: BTreeMap<Epoch, Chosen>,
    /// The hosts that have accepted each genesis, by epoch and token.
    pub accepted: BTreeMap<(Epoch, String), BTreeSet<usize>>,
    /// Backups that an operator has asked to restore.
    pub asked: BTreeSet<BackupId>,
    /// Backups that some agent has fetched and checked, whether it still knows that or not.
    pub ever_fetched: BTreeSet<BackupId>,
    /// How many of the last hosts were not in `cluster.nodes` of the others at first.
    pub newcomers: usize,
    /// A smaller size that was written into the store, and that no operator has ordered through an agent.
    pub unordered: Option<usize>,
    /// The reboot locks that people have released for their holders, by node: this version and older ones.
    pub released: BTreeMap<NodeName, u64>,
    /// A version of etcd that starts on no host, until people repair it.
    pub broken_version: Option<EtcdVersion>,
    /// Moves to another version.
    pub moves: Moves,
    /// True while the alarm NOSPACE is raised.
    pub no_space: bool,
    /// Members that are listed with a former address of their host.
    pub moved: BTreeSet<MemberId>,
    /// Members whose data began to differ from the others'.
    pub differing: raft::Differing,
    /// When clients last filled the databases.
    pub filled_at: u64,
    /// The host that lies now.
    pub liar: Option<usize>,
    /// The host that reports a cancelled upgrade which nobody has cancelled.
    pub forger: Option<usize>,
    /// The host whose agent has ever lied.
    pub lied: Option<usize>,
    /// True once a liar has claimed a later memory than its own. Its votes do not count until its state is made anew.
    pub claimed_memory: bool,
    /// What a liar has named as accepted in the round of a restore, by epoch: that backup may be restored instead.
    pub misled: BTreeSet<(Epoch, BackupId)>,
    /// The forged records of epochs that were ever in the store: key and content.
    pub forged: Vec<(String, Bytes)>,
    /// The number of the client's next write.
    pub next_write: u32,
    /// Whether the client writes.
    pub writing: bool,
    /// The first violation of a rule.
    pub violation: Option<String>,
    /// The history of events, if it is recorded.
    pub history: Option<Vec<String>>,
    /// The things that have happened, by kind and name.
    pub seen: BTreeSet<String>,
}

impl World {
    /// A world of hosts without any state.
    pub fn new(seed: u64, names: &[NodeName], store: Option<Store>, record: bool) -> Self {
        Self {
            now: 0,
            rng: Rng::new(seed),
            hosts: names
                .iter()
                .map(|name| Host::new(name.clone(), VERSIONS[0]))
                .collect(),
            links: Links::new(names.len()),
            store,
            others: BTreeMap::new(),
            truths: BTreeMap::new(),
            chosen: BTreeMap::new(),
            accepted: BTreeMap::new(),
            asked: BTreeSet::new(),
            ever_fetched: BTreeSet::new(),
            newcomers: 0,
            released: BTreeMap::new(),
            unordered: None,
            broken_version: None,
            moves: Moves::default(),
            no_space: false,
            moved: BTreeSet::new(),
            differing: raft::Differing::default(),
            filled_at: 0,
            liar: None,
            forger: None,
            lied: None,
            claimed_memory: false,
            misled: BTreeSet::new(),
            forged: Vec::new(),
            next_write: 0,
            writing: true,
            violation: None,
            history: record.then(Vec::new),
            seen: BTreeSet::new(),
        }
    }

    /// Writes a line of history; `text` is made only if the history is recorded.
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

    /// Records the violation of a rule.
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

    /// How many of the first nodes a host has in `cluster.nodes`.
    pub fn electors(&self, host: usize) -> usize {
        if self.hosts[host].narrow {
            self.first_electors()
        } else {
            self.hosts.len()
        }
    }

    /// How many electors there were before the newcomers were added to `cluster.nodes`.
    pub fn first_electors(&self) -> usize {
        self.hosts.len() - self.newcomers
    }

    /// True for a message in which a node that has ever lied reports the end of an order that was handed over to it.
    pub fn is_of_liar(&self, message: &str) -> bool {
        let liar = self.lied.map(|host| self.hosts[host].name.as_str());
        let reporter = message.split_once(": ").map(|(node, _)| node);
        liar.is_some() && reporter == liar
    }

    /// How many writes each etcd cluster has acknowledged.
    pub fn acknowledged(&self) -> BTreeMap<ClusterId, usize> {
        let truths = self.truths.iter();
        truths
            .map(|(cluster, truth)| (*cluster, truth.acked.len()))
            .collect()
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
        let address = url.split_once("://")?.1.rsplit_once(':')?.0;
        let number: usize = address.rsplit('.').next()?.parse().ok()?;
        number.checked_sub(1).filter(|host| *host < self.hosts.len())
    }

    /// The peer URL of a host.
    pub fn peer_url(host: usize) -> String {
        format!("http://{}:2380", address(host))
    }

    /// The peer URL that a host had before it got its address.
    pub fn former_peer_url(host: usize) -> String {
        format!("http://{}.former:2380", address(host))
    }

    /// The client URL of a host.
    pub fn client_url(host: usize) -> String {
        format!("http://{}:2379", address(host))
    }

    /// The epoch of a cluster.
    pub fn epoch_of(&self, cluster: ClusterId) -> Option<Epoch> {
        self.truths.get(&cluster).map(|truth| truth.epoch)
    }

    /// Advances everything except the agents by a tenth of a second.
    pub fn tick(&mut self) {
        self.mount_due();
        self.units();
        self.raft();
        if self.writing {
            self.client();
        }
    }

    /// Sends a write now and then, through a running etcd.
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

    /// Records the facts of a cluster at its beginning.
    pub fn note_cluster(&mut self, genesis: &Genesis, base: &[u32]) {
        self.truths.entry(genesis.cluster_id).or_insert_with(|| Truth {
            epoch: genesis.epoch,
            acked: base.to_vec(),
            ..Truth::default()
        });
    }

    /// The newest register of operators' orders on any disk.
    pub fn register(&self) -> Directives {
        let registers = self.hosts.iter().map(|h| &h.directives);
        let newest = registers.reduce(|one, other| if other.is_newer_than(one) { other } else { one });
        newest.cloned().unwrap_or_default()
    }

    /// The newest genesis that any agent has learned.
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
