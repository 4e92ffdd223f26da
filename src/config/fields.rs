//! Declares every field of the configuration once. Checking, reading, `config show` and the tests of the
//! documentation use this table.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use super::field::{AnyField, Defaulted, Optional, Table, duration_json};
use super::field_types::{
    address, backup_format, binary, bytes, calendar, cluster_name, count, duration, endpoint, flag,
    increments, interval, join, keep, listen, lock_groups, moment, node_name, path, percent, port, proxy,
    quota, recipients, setting, size, sse, store_url, unit_dir, word,
};
use super::flags;
use super::settings::{Proxy, Quota, StoreUrl};
use crate::model::{
    BackupFormat, BackupSpec, Calendar, ClusterName, Join, LockOwner, NodeName, Retention, SizeSource,
    UnixMs, default_versions_dir,
};

macro_rules! fields {
    ($($(#[$doc:meta])* $name:ident: $type:ty = $field:expr;)*) => {
        $($(#[$doc])* pub(super) const $name: $type = $field;)*

        /// Every field, in the order of `config show`.
        pub(super) const FIELDS: &[&dyn AnyField] = &[$(&$name),*];
    };
}

fields! {
    /// The name of this node and of its etcd member. Default: the host name.
    NODE_NAME: Optional<NodeName> = Optional::new("node.name", node_name)
        .in_force(|settings| Some(settings.spec.node.to_string().into()));

    /// The cluster's name. Default: "default".
    CLUSTER_NAME: Optional<ClusterName> = Optional::new("cluster.name", cluster_name)
        .in_force(|settings| Some(settings.spec.cluster.to_string().into()));
    /// The wanted number of members. Default: the size in the store, or one that follows from the number of
    /// nodes.
    CLUSTER_SIZE: Optional<usize> = Optional::new("cluster.size", size).in_force(|settings| {
        // If the store holds the size, `spec get` shows it.
        let in_store = matches!(settings.spec.size_source, SizeSource::Store { .. });
        (!in_store).then(|| settings.spec.size.into())
    });
    /// Allow an even size, and 9.
    CLUSTER_FORCE: Defaulted<bool> = Defaulted::new("cluster.force", flag, || false).shown_if(|_| false);
    /// All nodes by name, each with its address. Default: this node alone.
    CLUSTER_NODES: Table<NodeName, String> = Table::new("cluster.nodes", "node name = \"address\"", |key, value| {
        let name = NodeName::new(key).map_err(|error| error.to_string())?;
        Ok((name, address(value)?))
    })
    .in_force(|settings| {
        let nodes = settings.spec.nodes.iter();
        nodes.map(|(name, address)| (name.to_string(), address.clone().into())).collect()
    });
    /// How long a member must be unreachable before it counts as dead.
    CLUSTER_GRACE: Defaulted<Duration> = Defaulted::new("cluster.grace", duration, || Duration::from_mins(5));
    /// What the coordinator may do to the member list by itself.
    CLUSTER_JOIN: Defaulted<Join> = Defaulted::new("cluster.join", join, Join::default);

    /// The address of the peer API. Default: port 2378 if there are other nodes.
    API_LISTEN: Optional<SocketAddr> = Optional::new("api.listen", listen)
        .in_force(|settings| settings.api.listen.map(|address| address.to_string().into()));
    /// Accept ports without TLS that other hosts can reach.
    API_INSECURE: Defaulted<bool> = Defaulted::new("api.insecure", flag, || false);
    /// The agent's certificate chain.
    API_TLS_CERT_FILE: Optional<PathBuf> = Optional::new("api.tls.cert_file", path);
    /// Its private key.
    API_TLS_KEY_FILE: Optional<PathBuf> = Optional::new("api.tls.key_file", path);
    /// The authorities that sign agents.
    API_TLS_CA_FILE: Optional<PathBuf> = Optional::new("api.tls.ca_file", path);

    /// The address for metrics and the status page. Default: the loopback interface, on a single node.
    METRICS_LISTEN: Optional<SocketAddr> = Optional::new("metrics.listen", listen)
        .in_force(|settings| settings.api.metrics.map(|address| address.to_string().into()));
    /// Whether that address speaks mutual TLS, with the files of `api.tls`.
    METRICS_TLS: Defaulted<bool> = Defaulted::new("metrics.tls", flag, || false);

    /// The loopback address for the FleetLock protocol over plain HTTP. Default: none.
    REBOOT_LOCK_LISTEN: Optional<SocketAddr> = Optional::new("reboot_lock.listen", listen)
        .in_force(|settings| settings.api.fleet_lock.map(|address| address.to_string().into()));
    /// The groups of its clients. They share the one lock; a client of another group is refused.
    REBOOT_LOCK_GROUPS: Defaulted<Vec<String>> =
        Defaulted::new("reboot_lock.groups", lock_groups, || vec![LockOwner::DEFAULT_GROUP.to_owned()])
            .shown_if(|settings| settings.api.fleet_lock.is_some());

    /// etcd's data directory.
    ETCD_DATA_DIR: Optional<PathBuf> = Optional::new("etcd.data_dir", path)
        .in_force(|settings| Some(settings.spec.etcd.data_dir.display().to_string().into()));
    /// The directory of etcd's write-ahead log. Default: `member/wal` in the data directory.
    ETCD_WAL_DIR: Optional<PathBuf> = Optional::new("etcd.wal_dir", unit_dir);
    /// The port that clients connect to.
    ETCD_CLIENT_PORT: Defaulted<u16> = Defaulted::new("etcd.client_port", port, || 2379);
    /// A second port for clients, in plain HTTP whatever `etcd.client_tls` says, while clients move to TLS or
    /// back.
    ETCD_PLAIN_CLIENT_PORT: Optional<u16> = Optional::new("etcd.plain_client_port", port);
    /// The port that members connect to.
    ETCD_PEER_PORT: Defaulted<u16> = Defaulted::new("etcd.peer_port", port, || 2380);
    /// A pinned etcd binary. Default: the binary of `etcd.service`.
    ETCD_BINARY: Optional<PathBuf> = Optional::new("etcd.binary", binary);
    /// The directory with the etcds that `etcd-agent upgrade` can select: `etcd-v3.6.16/etcd` or
    /// `etcd-v3.6.16-linux-amd64/etcd` below it. It and everything on the way to it belong to root.
    ETCD_VERSIONS_DIR: Defaulted<PathBuf> = Defaulted::new("etcd.versions_dir", binary, default_versions_dir);
    /// etcd's certificate chain for clients.
    ETCD_CLIENT_TLS_CERT_FILE: Optional<PathBuf> = Optional::new("etcd.client_tls.cert_file", path);
    /// Its private key.
    ETCD_CLIENT_TLS_KEY_FILE: Optional<PathBuf> = Optional::new("etcd.client_tls.key_file", path);
    /// The authorities that sign clients.
    ETCD_CLIENT_TLS_CA_FILE: Optional<PathBuf> = Optional::new("etcd.client_tls.ca_file", path);
    /// etcd's certificate chain for its peers.
    ETCD_PEER_TLS_CERT_FILE: Optional<PathBuf> = Optional::new("etcd.peer_tls.cert_file", path);
    /// Its private key.
    ETCD_PEER_TLS_KEY_FILE: Optional<PathBuf> = Optional::new("etcd.peer_tls.key_file", path);
    /// The authorities that sign peers.
    ETCD_PEER_TLS_CA_FILE: Optional<PathBuf> = Optional::new("etcd.peer_tls.ca_file", path);
    /// Further flags of etcd.
    ETCD_SETTINGS: Table<String, String> = Table::new("etcd.settings", "flag = value", |key, value| {
        flags::check(key)?;
        Ok((key.to_owned(), setting(value)?))
    });

    /// The URL of the store. Without it there are no backups.
    STORE_URL: Optional<StoreUrl> = Optional::new("store.url", store_url);
    /// The URL of an S3 server other than AWS.
    STORE_ENDPOINT: Optional<String> = Optional::new("store.endpoint", endpoint);
    /// The S3 region. Default: `us-east-1` if there is an endpoint.
    STORE_REGION: Optional<String> = Optional::new("store.region", word)
        .in_force(|settings| settings.store.as_ref()?.region.clone().map(Into::into));
    /// Whether the bucket is in the URL's path and not in the host name.
    STORE_PATH_STYLE: Defaulted<bool> = Defaulted::new("store.path_style", flag, || false).shown_if(|settings| {
        let store = settings.store.as_ref();
        store.is_some_and(|store| matches!(store.url, StoreUrl::S3 { .. }))
    });
    /// The authorities to trust in place of the system's.
    STORE_CA_FILE: Optional<PathBuf> = Optional::new("store.ca_file", path);
    /// A shared credentials file of the AWS tools. Default: the SDK's default chain.
    STORE_CREDENTIALS_FILE: Optional<PathBuf> = Optional::new("store.credentials_file", path);
    /// Whether all nodes see the same store. Default: true for S3, false for a directory.
    STORE_SHARED: Optional<bool> = Optional::new("store.shared", flag)
        .in_force(|settings| settings.store.as_ref().map(|store| store.shared.into()));
    /// The HTTP proxy, or "none". Default: the proxy of the environment.
    STORE_PROXY: Optional<Proxy> = Optional::new("store.proxy", proxy);
    /// How the server encrypts objects.
    STORE_SSE: Optional<&'static str> = Optional::new("store.sse", sse);
    /// The key of SSE-KMS.
    STORE_SSE_KMS_KEY: Optional<String> = Optional::new("store.sse_kms_key", word);
    /// The key of SSE-C.
    STORE_SSE_KEY_FILE: Optional<PathBuf> = Optional::new("store.sse_key_file", path);
    /// Send and check a checksum with every object.
    STORE_CHECKSUMS: Defaulted<bool> = Defaulted::new("store.checksums", flag, || false).shown_if(|_| false);
    /// Bytes per second that large uploads may send.
    STORE_BANDWIDTH: Optional<u64> = Optional::new("store.bandwidth", bytes);

    /// The second store. The agent copies every committed backup to it. Its fields are those of `[store]`,
    /// without `shared`.
    STORE_COPY_URL: Optional<StoreUrl> = Optional::new("store.copy.url", store_url);
    /// As `store.endpoint`.
    STORE_COPY_ENDPOINT: Optional<String> = Optional::new("store.copy.endpoint", endpoint);
    /// As `store.region`.
    STORE_COPY_REGION: Optional<String> = Optional::new("store.copy.region", word);
    /// As `store.path_style`.
    STORE_COPY_PATH_STYLE: Defaulted<bool> =
        Defaulted::new("store.copy.path_style", flag, || false).shown_if(|_| false);
    /// As `store.ca_file`.
    STORE_COPY_CA_FILE: Optional<PathBuf> = Optional::new("store.copy.ca_file", path);
    /// As `store.credentials_file`.
    STORE_COPY_CREDENTIALS_FILE: Optional<PathBuf> = Optional::new("store.copy.credentials_file", path);
    /// As `store.proxy`.
    STORE_COPY_PROXY: Optional<Proxy> = Optional::new("store.copy.proxy", proxy);
    /// As `store.sse`.
    STORE_COPY_SSE: Optional<&'static str> = Optional::new("store.copy.sse", sse);
    /// As `store.sse_kms_key`.
    STORE_COPY_SSE_KMS_KEY: Optional<String> = Optional::new("store.copy.sse_kms_key", word);
    /// As `store.sse_key_file`.
    STORE_COPY_SSE_KEY_FILE: Optional<PathBuf> = Optional::new("store.copy.sse_key_file", path);
    /// As `store.checksums`.
    STORE_COPY_CHECKSUMS: Defaulted<bool> =
        Defaulted::new("store.copy.checksums", flag, || false).shown_if(|_| false);
    /// As `store.bandwidth`.
    STORE_COPY_BANDWIDTH: Optional<u64> = Optional::new("store.copy.bandwidth", bytes);

    /// Time between full backups.
    BACKUP_INTERVAL: Defaulted<Duration> = Defaulted::new("backup.interval", duration, || Duration::from_mins(15))
        .shown_if(|settings| settings.store.is_some() && settings.spec.backup.on_calendar.is_none());
    /// When full backups are due, in place of `backup.interval`.
    BACKUP_ON_CALENDAR: Optional<Calendar> = Optional::new("backup.on_calendar", calendar);
    /// Store the changes between full backups.
    BACKUP_INCREMENTS: Defaulted<bool> = Defaulted::new("backup.increments", flag, || true);
    /// How long a change waits at most until it is stored.
    BACKUP_INCREMENT_INTERVAL: Defaulted<Duration> =
        Defaulted::new("backup.increment_interval", duration, || Duration::from_secs(1))
            .shown_if(|settings| settings.spec.backup.increment_interval.is_some());
    /// How many increments may follow a full backup.
    BACKUP_MAX_INCREMENTS: Defaulted<usize> =
        Defaulted::new("backup.max_increments", increments, || BackupSpec::default().max_increments);
    /// How often the newest backup is verified, or `off`.
    BACKUP_VERIFY_INTERVAL: Optional<Option<Duration>> = Optional::new("backup.verify_interval", interval)
        .in_force(|settings| {
            let interval = settings.spec.backup.verify_interval;
            Some(interval.map_or_else(|| "off".into(), duration_json))
        });
    /// The format of new backups.
    BACKUP_FORMAT: Defaulted<BackupFormat> = Defaulted::new("backup.format", backup_format, BackupFormat::default);
    /// Whether the agent removes backups by itself.
    BACKUP_RETENTION_ENABLED: Defaulted<bool> =
        Defaulted::new("backup.retention.enabled", flag, || Retention::default().enabled);
    /// Backups younger than this are kept.
    BACKUP_RETENTION_RECENT: Defaulted<Duration> =
        Defaulted::new("backup.retention.recent", duration, || Retention::default().recent);
    /// The newest backup of each of this many hours is kept.
    BACKUP_RETENTION_HOURLY: Defaulted<usize> =
        Defaulted::new("backup.retention.hourly", count, || Retention::default().hourly);
    /// The newest backup of each of this many days is kept.
    BACKUP_RETENTION_DAILY: Defaulted<usize> =
        Defaulted::new("backup.retention.daily", count, || Retention::default().daily);
    /// The newest backup of each of this many weeks is kept.
    BACKUP_RETENTION_WEEKLY: Defaulted<usize> =
        Defaulted::new("backup.retention.weekly", count, || Retention::default().weekly);
    /// The newest backup of each of this many years is kept.
    BACKUP_RETENTION_YEARLY: Defaulted<usize> =
        Defaulted::new("backup.retention.yearly", count, || Retention::default().yearly);
    /// This many of the newest backups are kept.
    BACKUP_RETENTION_COUNT: Defaulted<usize> =
        Defaulted::new("backup.retention.count", count, || Retention::default().count);
    /// The age recipients that backups are encrypted for.
    BACKUP_ENCRYPT_TO: Optional<Vec<String>> = Optional::new("backup.encrypt_to", recipients);

    /// A file with age identities, for reading encrypted backups.
    RESTORE_IDENTITY_FILE: Optional<PathBuf> = Optional::new("restore.identity_file", path);
    /// Accept unencrypted backups that were begun before this time.
    RESTORE_ACCEPT_PLAINTEXT_BEFORE: Optional<UnixMs> = Optional::new("restore.accept_plaintext_before", moment);

    /// The quota of etcd's database, or `auto`.
    SPACE_QUOTA: Optional<Quota> = Optional::new("space.quota", quota);
    /// The free part of a database's file, in percent, at which etcd is defragmented; 0 for never.
    SPACE_DEFRAG_PERCENT: Defaulted<usize> = Defaulted::new("space.defrag_percent", percent, || 50);
    /// Databases smaller than this are not defragmented.
    SPACE_DEFRAG_MIN_SIZE: Optional<u64> = Optional::new("space.defrag_min_size", bytes)
        .in_force(|settings| Some(format!("{}MiB", settings.spec.space.defrag_min_size >> 20).into()));
    /// The times at which a defragmentation may begin.
    SPACE_DEFRAG_ON_CALENDAR: Optional<Calendar> = Optional::new("space.defrag_on_calendar", calendar);
    /// Compact, defragment and disarm after NOSPACE.
    SPACE_RECOVER: Defaulted<bool> = Defaulted::new("space.recover", flag, || true);

    /// How often the data of all voters is compared, or `off`.
    REPAIR_CHECK_INTERVAL: Optional<Option<Duration>> = Optional::new("repair.check_interval", interval)
        .in_force(|settings| {
            let interval = settings.spec.repair.check_interval;
            Some(interval.map_or_else(|| "off".into(), duration_json))
        });
    /// Rebuild a member whose data differs from that of a majority.
    REPAIR_CORRUPT: Defaulted<bool> = Defaulted::new("repair.corrupt", flag, || false);

    /// How many replaced data directories older than `min_age` are kept.
    ARCHIVE_KEEP: Defaulted<usize> = Defaulted::new("archive.keep", keep, || 3);
    /// Replaced data directories younger than this are kept.
    ARCHIVE_MIN_AGE: Defaulted<Duration> =
        Defaulted::new("archive.min_age", duration, || Duration::from_hours(7 * 24));
    /// Replaced data directories older than this are removed.
    ARCHIVE_MAX_AGE: Defaulted<Duration> =
        Defaulted::new("archive.max_age", duration, || Duration::from_hours(30 * 24));
}

/// The fields of a TLS table. Either all of them are set or none.
pub(super) struct TlsFields {
    /// The table itself.
    pub(super) table: &'static str,
    pub(super) cert_file: Optional<PathBuf>,
    pub(super) key_file: Optional<PathBuf>,
    pub(super) ca_file: Optional<PathBuf>,
}

pub(super) const API_TLS: TlsFields = TlsFields {
    table: "api.tls",
    cert_file: API_TLS_CERT_FILE,
    key_file: API_TLS_KEY_FILE,
    ca_file: API_TLS_CA_FILE,
};

pub(super) const ETCD_CLIENT_TLS: TlsFields = TlsFields {
    table: "etcd.client_tls",
    cert_file: ETCD_CLIENT_TLS_CERT_FILE,
    key_file: ETCD_CLIENT_TLS_KEY_FILE,
    ca_file: ETCD_CLIENT_TLS_CA_FILE,
};

pub(super) const ETCD_PEER_TLS: TlsFields = TlsFields {
    table: "etcd.peer_tls",
    cert_file: ETCD_PEER_TLS_CERT_FILE,
    key_file: ETCD_PEER_TLS_KEY_FILE,
    ca_file: ETCD_PEER_TLS_CA_FILE,
};

/// The fields of a store.
pub(super) struct StoreFields {
    /// The table itself.
    pub(super) table: &'static str,
    pub(super) url: Optional<StoreUrl>,
    pub(super) endpoint: Optional<String>,
    pub(super) region: Optional<String>,
    pub(super) path_style: Defaulted<bool>,
    pub(super) ca_file: Optional<PathBuf>,
    pub(super) credentials_file: Optional<PathBuf>,
    /// `None` for the second store, which does not have this field.
    pub(super) shared: Option<Optional<bool>>,
    pub(super) proxy: Optional<Proxy>,
    pub(super) sse: Optional<&'static str>,
    pub(super) sse_kms_key: Optional<String>,
    pub(super) sse_key_file: Optional<PathBuf>,
    pub(super) checksums: Defaulted<bool>,
    pub(super) bandwidth: Optional<u64>,
}

impl StoreFields {
    /// The keys of the fields that a directory store does not have.
    pub(super) fn s3_only(&self) -> [&'static str; 11] {
        [
            self.endpoint.key,
            self.region.key,
            self.path_style.key,
            self.ca_file.key,
            self.credentials_file.key,
            self.proxy.key,
            self.sse.key,
            self.sse_kms_key.key,
            self.sse_key_file.key,
            self.checksums.key,
            self.bandwidth.key,
        ]
    }
}

pub(super) const STORE: StoreFields = StoreFields {
    table: "store",
    url: STORE_URL,
    endpoint: STORE_ENDPOINT,
    region: STORE_REGION,
    path_style: STORE_PATH_STYLE,
    ca_file: STORE_CA_FILE,
    credentials_file: STORE_CREDENTIALS_FILE,
    shared: Some(STORE_SHARED),
    proxy: STORE_PROXY,
    sse: STORE_SSE,
    sse_kms_key: STORE_SSE_KMS_KEY,
    sse_key_file: STORE_SSE_KEY_FILE,
    checksums: STORE_CHECKSUMS,
    bandwidth: STORE_BANDWIDTH,
};

pub(super) const STORE_COPY: StoreFields = StoreFields {
    table: "store.copy",
    url: STORE_COPY_URL,
    endpoint: STORE_COPY_ENDPOINT,
    region: STORE_COPY_REGION,
    path_style: STORE_COPY_PATH_STYLE,
    ca_file: STORE_COPY_CA_FILE,
    credentials_file: STORE_COPY_CREDENTIALS_FILE,
    shared: None,
    proxy: STORE_COPY_PROXY,
    sse: STORE_COPY_SSE,
    sse_kms_key: STORE_COPY_SSE_KMS_KEY,
    sse_key_file: STORE_COPY_SSE_KEY_FILE,
    checksums: STORE_COPY_CHECKSUMS,
    bandwidth: STORE_COPY_BANDWIDTH,
};
