//! The spec: the wanted state, as the planner sees it after the configuration was merged and checked.

use std::collections::BTreeMap;
use std::fmt::{self, Write as _};
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::{
    BackupSpec, ClusterName, Member, NodeName, RepairSpec, SizeSource, SpaceSpec, SpecRecord, same_endpoint,
};

/// etcd's `DefaultQuotaBytes` (`server/storage/quota.go`).
const DEFAULT_QUOTA_BYTES: u64 = 2 * 1024 * 1024 * 1024;

/// The wanted state of the cluster and of this node.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Spec {
    /// The cluster's name.
    pub cluster: ClusterName,
    /// This node.
    pub node: NodeName,
    /// Wanted number of voters.
    pub size: usize,
    /// The source of the size.
    #[serde(default)]
    pub size_source: SizeSource,
    /// The fixed electorate and each node's address (host name or IP, no port).
    pub nodes: BTreeMap<NodeName, String>,
    /// etcd's settings.
    pub etcd: EtcdSpec,
    /// Time between full backups; `None` when no store is configured.
    pub backup_interval: Option<Duration>,
    /// The other backup settings.
    #[serde(default)]
    pub backup: BackupSpec,
    /// True if all nodes see the same store (S3 by default; a directory only if configured so).
    pub store_shared: bool,
    /// The URL of the store that all nodes see, without secrets; empty if there is none.
    #[serde(default)]
    pub shared_store: String,
    /// How long a member must be unreachable before it counts as dead.
    pub grace: Duration,
    /// When etcd is defragmented, and whether it is freed from NOSPACE.
    #[serde(default)]
    pub space: SpaceSpec,
    /// When the members' data is compared, and what follows if one differs.
    #[serde(default)]
    pub repair: RepairSpec,
    /// The changes that the coordinator may make to the member list without an order.
    #[serde(default)]
    pub join: Join,
}

/// The changes that the coordinator may make to the member list without an order; the names are
/// elastic-etcd's.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Join {
    /// Neither add nor remove. An operator adds the member entry, and its node then joins.
    Prepare,
    /// Add while there are fewer members than wanted; never remove a voter.
    Add,
    /// Also replace a dead member if a spare is ready.
    #[default]
    Replace,
    /// Also remove all dead members, one at a time, before others join.
    Prune,
}

impl Join {
    /// The word of the configuration.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Prepare => "prepare",
            Self::Add => "add",
            Self::Replace => "replace",
            Self::Prune => "prune",
        }
    }
}

impl fmt::Display for Join {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// Certificate files of one TLS end.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TlsFiles {
    /// PEM certificate chain.
    pub cert_file: PathBuf,
    /// PEM private key.
    pub key_file: PathBuf,
    /// PEM bundle of trusted authorities.
    pub ca_file: PathBuf,
}

/// How etcd is to run on this node.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct EtcdSpec {
    /// The data directory, absolute.
    pub data_dir: PathBuf,
    /// The directory of the write-ahead log, absolute; `None`: `member/wal` in the data directory.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub wal_dir: Option<PathBuf>,
    /// Client port.
    pub client_port: u16,
    /// A second port for clients, always in plain HTTP.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub plain_client_port: Option<u16>,
    /// Peer port.
    pub peer_port: u16,
    /// TLS for clients; `None`: plain HTTP.
    pub client_tls: Option<TlsFiles>,
    /// TLS between members; `None`: plain HTTP.
    pub peer_tls: Option<TlsFiles>,
    /// A pinned etcd binary; `None`: the base unit's own `ExecStart=`.
    pub binary: Option<PathBuf>,
    /// The directory with the etcds that an upgrade can select, as `etcd-v3.6.16` or
    /// `etcd-v3.6.16-linux-amd64`.
    #[serde(
        default = "default_versions_dir",
        skip_serializing_if = "is_default_versions_dir"
    )]
    pub versions_dir: PathBuf,
    /// Further etcd flags by flag name without dashes, e.g. `quota-backend-bytes`.
    pub settings: BTreeMap<String, String>,
}

/// `/opt`.
pub fn default_versions_dir() -> PathBuf {
    PathBuf::from("/opt")
}

/// The default is left out, so that the digest of the settings is that of older versions of the agent.
fn is_default_versions_dir(dir: &Path) -> bool {
    dir == default_versions_dir()
}

impl EtcdSpec {
    /// The quota of its database in bytes; `None` if it is switched off.
    pub fn quota(&self) -> Option<u64> {
        match self
            .settings
            .get("quota-backend-bytes")
            .map(|bytes| bytes.parse::<i64>())
        {
            Some(Ok(bytes)) if bytes < 0 => None,
            Some(Ok(bytes)) if bytes > 0 => u64::try_from(bytes).ok(),
            _ => Some(DEFAULT_QUOTA_BYTES),
        }
    }
}

impl Spec {
    /// The peer URL of a node in the electorate, e.g. `https://n1:2380`.
    pub fn peer_url(&self, node: &NodeName) -> Option<String> {
        self.advertised(node, self.etcd.peer_tls.is_some(), self.etcd.peer_port)
    }

    /// The client URL of a node in the electorate, e.g. `https://n1:2379`.
    pub fn client_url(&self, node: &NodeName) -> Option<String> {
        self.advertised(node, self.etcd.client_tls.is_some(), self.etcd.client_port)
    }

    /// The URL on which this node's etcd listens for members: `https://0.0.0.0:2380`, or loopback only.
    pub fn listen_peer_url(&self) -> String {
        self.listened(self.etcd.peer_tls.is_some(), self.etcd.peer_port)
    }

    /// The URLs on which this node's etcd listens for clients: `https://0.0.0.0:2379`, or loopback only, and
    /// the one of the second port.
    pub fn listen_client_urls(&self) -> String {
        let first = self.listened(self.etcd.client_tls.is_some(), self.etcd.client_port);
        match self.etcd.plain_client_port {
            Some(port) => format!("{first},{}", self.listened(false, port)),
            None => first,
        }
    }

    /// The one rule that keeps etcd on loopback: it applies to a single node that has no configured address
    /// (its address is its name) and no TLS. An etcd without authentication must not listen on all addresses
    /// unless a person wrote an address, or `insecure = true`, into the configuration.
    pub fn loopback_only(&self, tls: bool) -> bool {
        let own = self.nodes.get(&self.node).map(String::as_str);
        !tls && self.nodes.len() == 1
            && own.is_some_and(|address| address == self.node.as_str() || is_loopback(address))
    }

    fn advertised(&self, node: &NodeName, tls: bool, port: u16) -> Option<String> {
        self.reached_at(node, tls).map(|address| url(tls, address, port))
    }

    /// The host name or IP where a node's etcd is reached.
    fn reached_at(&self, node: &NodeName, tls: bool) -> Option<&str> {
        let address = self.nodes.get(node)?;
        Some(if self.loopback_only(tls) && !is_loopback(address) {
            LOOPBACK
        } else {
            address
        })
    }

    /// The host name or IP where this node's own etcd serves clients.
    pub fn own_client_host(&self) -> &str {
        self.client_host(&self.node).unwrap_or(LOOPBACK)
    }

    /// The host name or IP where a node's etcd serves clients.
    pub fn client_host(&self, node: &NodeName) -> Option<&str> {
        self.reached_at(node, self.etcd.client_tls.is_some())
    }

    fn listened(&self, tls: bool, port: u16) -> String {
        let own = self.nodes.get(&self.node).map(String::as_str).unwrap_or_default();
        let address = match (self.loopback_only(tls), own.contains(':')) {
            (true, true) => "::1",
            (true, false) => LOOPBACK,
            // Go listens on both families with `::`; 0.0.0.0 works where IPv6 is disabled.
            (false, true) => "::",
            (false, false) => "0.0.0.0",
        };
        url(tls, address, port)
    }

    /// The configured node of a member: by its name, or by its peer URL if it has not started yet or has
    /// another name (a cluster that was taken over).
    pub fn node_of(&self, member: &Member) -> Option<&NodeName> {
        let named = self.nodes.keys().find(|node| member.name == node.as_str());
        named.or_else(|| self.nodes.keys().find(|node| self.is_at(node, &member.peer_urls)))
    }

    /// True if one of these peer URLs is the node's, over TLS or in plain HTTP.
    pub fn is_at(&self, node: &NodeName, peer_urls: &[String]) -> bool {
        self.peer_url(node)
            .is_some_and(|own| peer_urls.iter().any(|url| same_endpoint(url, &own)))
    }

    /// The node's peer URL over TLS or in plain HTTP, whatever is configured.
    pub fn peer_url_over(&self, node: &NodeName, tls: bool) -> Option<String> {
        self.advertised(node, tls, self.etcd.peer_port)
    }

    /// A majority of the electorate.
    pub fn majority(&self) -> usize {
        self.nodes.len() / 2 + 1
    }
}

const LOOPBACK: &str = "127.0.0.1";

/// True for `localhost` and the loopback addresses.
fn is_loopback(address: &str) -> bool {
    address == "localhost"
        || address
            .parse::<std::net::IpAddr>()
            .is_ok_and(|ip| ip.is_loopback())
}

fn url(tls: bool, address: &str, port: u16) -> String {
    let scheme = if tls { "https" } else { "http" };
    if address.contains(':') {
        format!("{scheme}://[{address}]:{port}")
    } else {
        format!("{scheme}://{address}:{port}")
    }
}

impl Spec {
    /// Digest of the electorate: the sorted node names. Genesis messages carry it, and a different one is
    /// refused.
    pub fn electorate_digest(&self) -> String {
        electorate_digest(self.nodes.keys())
    }

    /// Digest of the shared store's URL. Nodes that name different stores record their epochs in different
    /// places.
    pub fn store_digest(&self) -> String {
        digest(self.shared_store.as_bytes())
    }

    /// Digest of the settings that all nodes must agree on: cluster, size and electorate.
    pub fn digest(&self) -> String {
        digest(format!("{}\n{}\n{}", self.cluster, self.size, self.electorate_digest()).as_bytes())
    }

    /// Digest of everything in this node's configuration that ends up in etcd's environment or drop-in:
    /// etcd's own settings, and this node's URLs.
    pub fn settings_digest(&self) -> String {
        let etcd = serde_json::to_string(&self.etcd).unwrap_or_default();
        let urls = [
            self.peer_url(&self.node).unwrap_or_default(),
            self.client_url(&self.node).unwrap_or_default(),
            self.listen_peer_url(),
            self.listen_client_urls(),
        ];
        digest(format!("{etcd}\n{}", urls.join("\n")).as_bytes())
    }

    /// The spec in force on a node with this record. If no configuration file sets the size, the last size in
    /// the store counts. If the store has never had one, the size follows from the number of nodes, but never
    /// falls below the last size of the cluster: a line removed from a file, or an emptied store, removes no
    /// member.
    #[must_use]
    pub fn in_force(&self, record: &SpecRecord) -> Self {
        let mut spec = self.clone();
        if let SizeSource::Store { said } = &mut spec.size_source {
            *said = record.stored;
            spec.size = said.unwrap_or_else(|| spec.size.max(record.settled.unwrap_or(0)));
        }
        spec
    }
}

/// Digest of the electors' names, which must be sorted.
pub fn electorate_digest<'a>(electors: impl Iterator<Item = &'a NodeName>) -> String {
    let names: Vec<&str> = electors.map(NodeName::as_str).collect();
    digest(names.join(",").as_bytes())
}

/// The first 16 hexadecimal digits of a SHA-256.
pub fn digest(bytes: &[u8]) -> String {
    use sha2::{Digest, Sha256};
    let sum = Sha256::digest(bytes);
    hex(sum.get(..8).unwrap_or_default())
}

/// Lower-case hexadecimal.
pub fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}

#[cfg(test)]
mod tests;
