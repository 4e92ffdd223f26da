//! The validated settings, which the rest of the program uses.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use crate::model::{Spec, TlsFiles, UnixMs};

/// The quota of etcd's database.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Quota {
    /// By the memory of the host.
    Auto,
    /// This many bytes.
    Bytes(u64),
}

/// Where backups and control records are kept.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum StoreUrl {
    /// `s3://bucket/prefix`; the prefix has no leading or trailing slash and may be empty.
    S3 {
        /// The bucket.
        bucket: String,
        /// The prefix.
        prefix: String,
    },
    /// `file:///path`.
    Directory(PathBuf),
}

/// `[store]`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoreSettings {
    /// `url`.
    pub url: StoreUrl,
    /// `endpoint`: another S3 server's URL.
    pub endpoint: Option<String>,
    /// `region`; `us-east-1` if an endpoint is set and no region.
    pub region: Option<String>,
    /// `path_style`: bucket in the path, not in the host name.
    pub path_style: bool,
    /// `ca_file`: PEM bundle to trust instead of the system's.
    pub ca_file: Option<PathBuf>,
    /// `credentials_file`: an AWS shared credentials file. `None`: the SDK's default chain.
    pub credentials_file: Option<PathBuf>,
    /// `shared`: all nodes see the same store. Default: true for S3, false for a directory.
    pub shared: bool,
    /// `proxy`, `sse`, `checksums`, `bandwidth`: options that only some S3 servers and networks need.
    pub options: S3Options,
}

impl StoreSettings {
    /// The URL of a store that all nodes see; empty for a store of this node alone. The URL has no endpoint,
    /// because one store may have several endpoints.
    pub fn shared_url(&self) -> String {
        match &self.url {
            _ if !self.shared => String::new(),
            StoreUrl::S3 { bucket, prefix } => format!("s3://{bucket}/{prefix}"),
            StoreUrl::Directory(path) => format!("file://{}", path.display()),
        }
    }
}

/// The options of `[store]` that only some S3 servers and networks need.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct S3Options {
    /// `proxy`.
    pub proxy: Proxy,
    /// `sse` and its keys.
    pub sse: Sse,
    /// `checksums`: send and check a checksum with every object for which S3 has one.
    pub checksums: bool,
    /// `bandwidth`: bytes per second that large uploads may send; `None`: no limit.
    pub bandwidth: Option<u64>,
}

/// The HTTP proxy for the store.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum Proxy {
    /// The proxy of `HTTPS_PROXY`, `HTTP_PROXY`, `ALL_PROXY` and `NO_PROXY`, if they are set.
    #[default]
    Environment,
    /// No proxy, even if the environment names one.
    Off,
    /// The proxy at this URL, over HTTP or HTTPS.
    Url(String),
}

/// How the server encrypts objects.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum Sse {
    /// The bucket's own setting.
    #[default]
    Default,
    /// `AES256`: SSE-S3.
    S3,
    /// `aws:kms`: SSE-KMS.
    Kms {
        /// `sse_kms_key`: the key's ID. `None`: the account's own key.
        key: Option<String>,
    },
    /// `customer`: SSE-C.
    Customer {
        /// `sse_key_file`: 32 bytes, or their base64.
        key_file: PathBuf,
    },
}

/// `[api]`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ApiSettings {
    /// `listen`; `None` for a single node, which has no peers.
    pub listen: Option<SocketAddr>,
    /// `port`: the port at which the peers listen.
    pub port: u16,
    /// `[metrics] listen`: the address for metrics and the status page. `None`: only the peer API and the
    /// admin socket serve metrics, and there is no page.
    pub metrics: Option<SocketAddr>,
    /// `[metrics] tls`: that address speaks mutual TLS with the files of `[api.tls]`.
    pub metrics_tls: bool,
    /// `[reboot_lock] listen`: the loopback address for the FleetLock protocol; `None`: it is not served.
    pub fleet_lock: Option<SocketAddr>,
    /// `[reboot_lock] groups`: the groups of clients that may take the lock. They share it.
    pub lock_groups: Vec<String>,
    /// `insecure`: plain HTTP is allowed explicitly.
    pub insecure: bool,
    /// `[api.tls]`.
    pub tls: Option<TlsFiles>,
}

/// `[archive]`: how long replaced data directories are kept. At least one of each cluster is always kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ArchiveSettings {
    /// `keep`: how many directories older than `min_age` are kept at most.
    pub keep: usize,
    /// `min_age`: younger directories are kept.
    pub min_age: Duration,
    /// `max_age`: older directories are removed.
    pub max_age: Duration,
}

/// Encryption of backups on the host, before they are stored.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Encryption {
    /// `backup.encrypt_to`: age recipients, checked. Empty if backups are not encrypted.
    pub recipients: Vec<String>,
    /// `restore.identity_file`: a file with age identities, for reading encrypted backups.
    pub identity_file: Option<PathBuf>,
    /// `restore.accept_plaintext_before`: unencrypted backups from before this time may be restored even if
    /// `recipients` are set.
    pub accept_plaintext_before: Option<UnixMs>,
}

/// The validated configuration.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Settings {
    /// Cluster, node and etcd.
    pub spec: Spec,
    /// Peer API.
    pub api: ApiSettings,
    /// The store, if there is one.
    pub store: Option<StoreSettings>,
    /// `[store.copy]`: the second store, if there is one.
    pub store_copy: Option<StoreSettings>,
    /// Encryption of backups.
    pub encryption: Encryption,
    /// Archive of replaced data directories.
    pub archive: ArchiveSettings,
}
