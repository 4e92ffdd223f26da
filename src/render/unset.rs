//! Variables that a base unit's environment file may set and that must not reach etcd unless the agent sets
//! them.

use std::collections::BTreeMap;

/// Each of these changes the cluster that etcd belongs to, the place of its data, who may connect to it, or
/// whether writes reach the disk. `UnsetEnvironment=` is applied last (systemd.exec(5)) and would also remove
/// the agent's own values, so only variables that the agent does not set go into the drop-in.
const DANGEROUS: &[&str] = &[
    // An entirely different configuration.
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
    // Acknowledges writes that are not on disk.
    "ETCD_UNSAFE_NO_FSYNC",
];

/// The variables that the drop-in unsets, in stable order.
pub(super) fn not_ours(set: &BTreeMap<String, String>) -> impl Iterator<Item = &'static str> + '_ {
    DANGEROUS.iter().copied().filter(|name| !set.contains_key(*name))
}
