//! Validated settings: what the rest of the program sees of the configuration.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use crate::model::{Spec, TlsFiles, UnixMs};

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
    /// `region`; `us-east-1` when an endpoint is set and no region.
    pub region: Option<String>,
    /// `path_style`: bucket in the path, not in the host name.
    pub path_style: bool,
    /// `ca_file`: PEM bundle to trust instead of the system's.
    pub ca_file: Option<PathBuf>,
    /// `credentials_file`: an AWS shared credentials file; the SDK's default chain without.
    pub credentials_file: Option<PathBuf>,
    /// `shared`: all nodes see the same store. Default: true for S3, false for a directory.
    pub shared: bool,
    /// `proxy`, `sse`, `checksums`: what only some S3 servers need.
    pub options: S3Options,
}

impl StoreSettings {
    /// The URL of a store that all nodes see; empty for a store of this node alone. It has no endpoint: one store
    /// may have several.
    pub fn shared_url(&self) -> String {
        match &self.url {
            _ if !self.shared => String::new(),
            StoreUrl::S3 { bucket, prefix } => format!("s3://{bucket}/{prefix}"),
            StoreUrl::Directory(path) => format!("file://{}", path.display()),
        }
    }
}

/// The part of `[store]` that only some S3 servers and networks need.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct S3Options {
    /// `proxy`.
    pub proxy: Proxy,
    /// `sse` and the keys that belong to it.
    pub sse: Sse,
    /// `checksums`: send and check a checksum with everything that S3 has one for.
    pub checksums: bool,
    /// `bandwidth`: bytes per second that large uploads may send; `None`: no limit.
    pub bandwidth: Option<u64>,
}

/// The HTTP proxy for the store.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum Proxy {
    /// That of `HTTPS_PROXY`, `HTTP_PROXY`, `ALL_PROXY` and `NO_PROXY`, if they are set.
    #[default]
    Environment,
    /// No proxy, even if the environment names one.
    Off,
    /// This one, which is reached by HTTP or HTTPS.
    Url(String),
}

/// How the server encrypts what it stores.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum Sse {
    /// As the bucket is set up.
    #[default]
    Default,
    /// `AES256`: SSE-S3.
    S3,
    /// `aws:kms`: SSE-KMS.
    Kms {
        /// `sse_kms_key`: the key's ID; the account's own without.
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
    /// `port`: where the peers listen.
    pub port: u16,
    /// `[metrics] listen`: where metrics can be read over plain HTTP; `None`: only by the peer API and the admin socket.
    pub metrics: Option<SocketAddr>,
    /// `insecure`: plain HTTP, spelled out.
    pub insecure: bool,
    /// `[api.tls]`.
    pub tls: Option<TlsFiles>,
}

/// `[archive]`: how long replaced data directories are kept; never below one of each cluster.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ArchiveSettings {
    /// `keep`: at most this many of those that are older than `min_age`.
    pub keep: usize,
    /// `min_age`: younger ones stay.
    pub min_age: Duration,
    /// `max_age`: older ones go.
    pub max_age: Duration,
}

/// Encryption of backups on the host, before they are stored.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Encryption {
    /// `backup.encrypt_to`: age recipients, checked; none when backups are not encrypted.
    pub recipients: Vec<String>,
    /// `restore.identity_file`: a file with age identities, for reading what was encrypted.
    pub identity_file: Option<PathBuf>,
    /// `restore.accept_plaintext_before`: unencrypted backups from before this time are restored although `recipients` are set.
    pub accept_plaintext_before: Option<UnixMs>,
}

/// The validated configuration.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Settings {
    /// Cluster, node and etcd.
    pub spec: Spec,
    /// Peer API.
    pub api: ApiSettings,
    /// Store, when there is one.
    pub store: Option<StoreSettings>,
    /// `[store.copy]`: the second store, when there is one.
    pub store_copy: Option<StoreSettings>,
    /// Encryption of backups.
    pub encryption: Encryption,
    /// Archive of replaced data directories.
    pub archive: ArchiveSettings,
}
