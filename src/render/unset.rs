//! Variables that a base unit's environment file may set and that must not reach etcd unless we set them.

use std::collections::BTreeMap;

/// Each of these changes which cluster etcd is in, where its data is, who may talk to it, or whether writes reach
/// the disk. `UnsetEnvironment=` is applied last (systemd.exec(5)) and would take away our own as well, so only those
/// that are not set by us go into the drop-in.
const DANGEROUS: &[&str] = &[
    // Another configuration altogether.
    "ETCD_CONFIG_FILE",
    "ETCD_FORCE_NEW_CLUSTER",
    "ETCD_PROXY",
    "ETCD_WAL_DIR",
    // Another cluster.
    "ETCD_DISCOVERY",
    "ETCD_DISCOVERY_CACERT",
    "ETCD_DISCOVERY_CERT",
    "ETCD_DISCOVERY_DIAL_TIMEOUT",
    "ETCD_DISCOVERY_ENDPOINTS",
    "ETCD_DISCOVERY_FALLBACK",
    "ETCD_DISCOVERY_INSECURE_SKIP_TLS_VERIFY",
    "ETCD_DISCOVERY_INSECURE_TRANSPORT",
    "ETCD_DISCOVERY_KEEPALIVE_TIME",
    "ETCD_DISCOVERY_KEEPALIVE_TIMEOUT",
    "ETCD_DISCOVERY_KEY",
    "ETCD_DISCOVERY_PASSWORD",
    "ETCD_DISCOVERY_PROXY",
    "ETCD_DISCOVERY_REQUEST_TIMEOUT",
    "ETCD_DISCOVERY_SRV",
    "ETCD_DISCOVERY_SRV_NAME",
    "ETCD_DISCOVERY_TOKEN",
    "ETCD_DISCOVERY_USER",
    // Another listener.
    "ETCD_LISTEN_CLIENT_HTTP_URLS",
    // Other certificates than the configured ones.
    "ETCD_AUTO_TLS",
    "ETCD_CERT_FILE",
    "ETCD_CLIENT_CERT_AUTH",
    "ETCD_CLIENT_CERT_FILE",
    "ETCD_CLIENT_KEY_FILE",
    "ETCD_KEY_FILE",
    "ETCD_TRUSTED_CA_FILE",
    "ETCD_PEER_AUTO_TLS",
    "ETCD_PEER_CERT_FILE",
    "ETCD_PEER_CLIENT_CERT_AUTH",
    "ETCD_PEER_CLIENT_CERT_FILE",
    "ETCD_PEER_CLIENT_KEY_FILE",
    "ETCD_PEER_KEY_FILE",
    "ETCD_PEER_TRUSTED_CA_FILE",
    // Acknowledged writes that are not on disk.
    "ETCD_UNSAFE_NO_FSYNC",
];

/// What the drop-in takes away, in stable order.
pub(super) fn not_ours(set: &BTreeMap<String, String>) -> impl Iterator<Item = &'static str> + '_ {
    DANGEROUS.iter().copied().filter(|name| !set.contains_key(*name))
}
