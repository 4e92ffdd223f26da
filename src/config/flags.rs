//! etcd's flags, and which of them are refused in `[etcd.settings]`. The allow-list of root's oneshot
//! (`crate::unit::apply::allow`) uses the same list.

use super::suggest::nearest;

/// Every flag of etcd 3.5.35, 3.6.16 and 3.7.3, collected from their `etcdmain/config.go` and
/// `embed/config.go` (`fs.*Var` and `fs.Var` calls) and checked against `etcd --help` of all three; sorted.
const KNOWN: &[&str] = &[
    "advertise-client-urls",
    "auth-token",
    "auth-token-ttl",
    "auto-compaction-mode",
    "auto-compaction-retention",
    "auto-tls",
    "backend-batch-interval",
    "backend-batch-limit",
    "backend-bbolt-freelist-type",
    "bcrypt-cost",
    "bootstrap-defrag-threshold-megabytes",
    "cert-file",
    "cipher-suites",
    "client-cert-allowed-hostname",
    "client-cert-auth",
    "client-cert-file",
    "client-crl-file",
    "client-key-file",
    "compact-hash-check-time",
    "compaction-batch-limit",
    "compaction-sleep-interval",
    "config-file",
    "corrupt-check-time",
    "cors",
    "data-dir",
    "discovery",
    "discovery-cacert",
    "discovery-cert",
    "discovery-dial-timeout",
    "discovery-endpoints",
    "discovery-fallback",
    "discovery-insecure-skip-tls-verify",
    "discovery-insecure-transport",
    "discovery-keepalive-time",
    "discovery-keepalive-timeout",
    "discovery-key",
    "discovery-password",
    "discovery-proxy",
    "discovery-request-timeout",
    "discovery-srv",
    "discovery-srv-name",
    "discovery-token",
    "discovery-user",
    "distributed-tracing-address",
    "distributed-tracing-instance-id",
    "distributed-tracing-sampling-rate",
    "distributed-tracing-service-name",
    "downgrade-check-time",
    "election-timeout",
    "enable-distributed-tracing",
    "enable-grpc-gateway",
    "enable-log-rotation",
    "enable-pprof",
    "enable-v2",
    "experimental-bootstrap-defrag-threshold-megabytes",
    "experimental-compact-hash-check-enabled",
    "experimental-compact-hash-check-time",
    "experimental-compaction-batch-limit",
    "experimental-compaction-sleep-interval",
    "experimental-corrupt-check-time",
    "experimental-distributed-tracing-address",
    "experimental-distributed-tracing-instance-id",
    "experimental-distributed-tracing-sampling-rate",
    "experimental-distributed-tracing-service-name",
    "experimental-downgrade-check-time",
    "experimental-enable-distributed-tracing",
    "experimental-enable-lease-checkpoint",
    "experimental-enable-lease-checkpoint-persist",
    "experimental-enable-v2v3",
    "experimental-initial-corrupt-check",
    "experimental-memory-mlock",
    "experimental-peer-skip-client-san-verification",
    "experimental-snapshot-catchup-entries",
    "experimental-stop-grpc-service-on-defrag",
    "experimental-txn-mode-write-with-shared-buffer",
    "experimental-warning-apply-duration",
    "experimental-warning-unary-request-duration",
    "experimental-watch-progress-notify-interval",
    "feature-gates",
    "force-new-cluster",
    "grpc-keepalive-interval",
    "grpc-keepalive-min-time",
    "grpc-keepalive-timeout",
    "heartbeat-interval",
    "host-whitelist",
    "initial-advertise-peer-urls",
    "initial-cluster",
    "initial-cluster-state",
    "initial-cluster-token",
    "initial-election-tick-advance",
    "key-file",
    "listen-client-http-urls",
    "listen-client-urls",
    "listen-metrics-urls",
    "listen-peer-urls",
    "log-format",
    "log-level",
    "log-outputs",
    "log-rotation-config-json",
    "logger",
    "max-concurrent-streams",
    "max-learners",
    "max-request-bytes",
    "max-snapshots",
    "max-txn-ops",
    "max-wals",
    "memory-mlock",
    "metrics",
    "name",
    "peer-auto-tls",
    "peer-cert-allowed-cn",
    "peer-cert-allowed-hostname",
    "peer-cert-file",
    "peer-client-cert-auth",
    "peer-client-cert-file",
    "peer-client-key-file",
    "peer-crl-file",
    "peer-key-file",
    "peer-skip-client-san-verification",
    "peer-trusted-ca-file",
    "pre-vote",
    "proxy",
    "proxy-dial-timeout",
    "proxy-failure-wait",
    "proxy-read-timeout",
    "proxy-refresh-interval",
    "proxy-write-timeout",
    "quota-backend-bytes",
    "raft-read-timeout",
    "raft-write-timeout",
    "self-signed-cert-validity",
    "snapshot-catchup-entries",
    "snapshot-count",
    "socket-reuse-address",
    "socket-reuse-port",
    "strict-reconfig-check",
    "tls-max-version",
    "tls-min-version",
    "trusted-ca-file",
    "unsafe-no-fsync",
    "v2-deprecation",
    "version",
    "wal-dir",
    "warning-apply-duration",
    "warning-unary-request-duration",
    "watch-progress-notify-interval",
];

/// Flags that the agent sets itself, and what to use instead. A trailing `*` matches any suffix.
const MANAGED: &[(&str, &str)] = &[
    ("name", "set node.name"),
    ("data-dir", "set etcd.data_dir"),
    ("wal-dir", "set etcd.wal_dir"),
    ("initial-election-tick-advance", ""),
    ("initial-*", "it follows from cluster.nodes and the epoch"),
    ("listen-metrics-urls", ""),
    (
        "listen-*",
        "set etcd.client_port, etcd.peer_port and cluster.nodes",
    ),
    ("advertise-*", "set cluster.nodes and etcd.client_port"),
    ("cert-file", "set etcd.client_tls"),
    ("key-file", "set etcd.client_tls"),
    ("trusted-ca-file", "set etcd.client_tls"),
    ("client-cert-auth", "set etcd.client_tls"),
    ("client-cert-file", "set etcd.client_tls"),
    ("client-key-file", "set etcd.client_tls"),
    ("auto-tls", "set etcd.client_tls"),
    ("peer-cert-file", "set etcd.peer_tls"),
    ("peer-key-file", "set etcd.peer_tls"),
    ("peer-trusted-ca-file", "set etcd.peer_tls"),
    ("peer-client-*", "set etcd.peer_tls"),
    ("peer-auto-tls", "set etcd.peer_tls"),
    ("config-file", "etcd would ignore all other flags and variables"),
    ("force-new-cluster", "use `etcd-agent restore`"),
    ("discovery*", "the members are those of cluster.nodes"),
    ("proxy*", "a proxy is not a member"),
    ("strict-reconfig-check", "it is always on"),
    ("version", "it would only print the version"),
];

/// Whether etcd 3.5, 3.6 or 3.7 has this flag. `name` has no leading dashes.
pub fn is_etcd_flag(name: &str) -> bool {
    KNOWN.binary_search(&name).is_ok()
}

/// Whether etcd reads this environment variable. Each flag has a variable: `ETCD_` and the flag in capitals.
pub fn is_etcd_variable(name: &str) -> bool {
    name.strip_prefix("ETCD_")
        .filter(|rest| !rest.contains(|c: char| c.is_ascii_lowercase() || c == '-'))
        .is_some_and(|rest| is_etcd_flag(&rest.to_ascii_lowercase().replace('_', "-")))
}

/// Checks whether `[etcd.settings]` may contain a flag. An error says why not.
pub(super) fn check(name: &str) -> Result<(), String> {
    if let Some((_, instead)) = MANAGED.iter().find(|(pattern, _)| matches(pattern, name)) {
        if instead.is_empty() {
            return Ok(());
        }
        return Err(format!("etcd-agent sets this flag itself; {instead}"));
    }
    if is_etcd_flag(name) {
        return Ok(());
    }
    // People also paste `--flag` and `ETCD_FLAG`.
    let plain = name
        .trim_start_matches('-')
        .to_ascii_lowercase()
        .replace('_', "-");
    let plain = plain.strip_prefix("etcd-").unwrap_or(&plain);
    let allowed = KNOWN.iter().copied().filter(|known| check(known).is_ok());
    let near = nearest(plain, allowed);
    Err(match near {
        Some(near) => format!("not a flag of etcd 3.5 to 3.7; did you mean \"{near}\"?"),
        None => "not a flag of etcd 3.5 to 3.7; flag names are written without dashes in front, e.g. \
                 \"quota-backend-bytes\""
            .to_owned(),
    })
}

fn matches(pattern: &str, name: &str) -> bool {
    pattern
        .strip_suffix('*')
        .map_or(pattern == name, |prefix| name.starts_with(prefix))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_list_is_sorted() {
        assert!(KNOWN.is_sorted());
    }

    #[test]
    fn variables_are_flags_in_capitals() {
        for known in [
            "ETCD_NAME",
            "ETCD_EXPERIMENTAL_COMPACTION_BATCH_LIMIT",
            "ETCD_FEATURE_GATES",
        ] {
            assert!(is_etcd_variable(known), "{known}");
        }
        for other in [
            "ETCD_EXPERIMENTAL_X_Y",
            "ETCD_NO_SUCH",
            "etcd_name",
            "ETCD_name",
            "ETCD_WAL-DIR",
            "PATH",
        ] {
            assert!(!is_etcd_variable(other), "{other}");
        }
    }

    #[test]
    fn flags_are_told_apart() {
        let rows = [
            ("quota-backend-bytes", ""),
            ("listen-metrics-urls", ""),
            ("initial-election-tick-advance", ""),
            ("peer-cert-allowed-cn", ""),
            ("initial-cluster", "cluster.nodes"),
            ("discovery-srv", "cluster.nodes"),
            ("peer-client-cert-auth", "etcd.peer_tls"),
            ("data-dir", "etcd.data_dir"),
            ("wal-dir", "etcd.wal_dir"),
            ("quota-backend-byte", "\"quota-backend-bytes\""),
            ("--heartbeat-interval", "\"heartbeat-interval\""),
            ("ETCD_SNAPSHOT_COUNT", "\"snapshot-count\""),
            ("wholly-unheard-of-thing", "without dashes"),
        ];
        for (flag, expected) in rows {
            match check(flag) {
                Ok(()) => assert_eq!(expected, "", "{flag}"),
                Err(text) => assert!(!expected.is_empty() && text.contains(expected), "{flag}: {text}"),
            }
        }
    }
}
