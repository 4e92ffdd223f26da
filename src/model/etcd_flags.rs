//! etcd's flags, and the versions that have them.

use super::EtcdVersion;

/// Every flag of etcd 3.4.23, 3.5.35, 3.6.16 and 3.7.3, with the first and the last minor of 3.x that has it; sorted.
/// The names are those of `etcdmain/config.go` and `embed/config.go` (`fs.*Var` and `fs.Var` calls). The versions are
/// those whose `etcd` did not answer "flag provided but not defined"; 3.5.16 has the same ones as 3.5.35.
const FLAGS: &[(&str, u64, u64)] = &[
    ("advertise-client-urls", 4, 7),
    ("auth-token", 4, 7),
    ("auth-token-ttl", 4, 7),
    ("auto-compaction-mode", 4, 7),
    ("auto-compaction-retention", 4, 7),
    ("auto-tls", 4, 7),
    ("backend-batch-interval", 4, 7),
    ("backend-batch-limit", 4, 7),
    ("backend-bbolt-freelist-type", 5, 7),
    ("bcrypt-cost", 4, 7),
    ("bootstrap-defrag-threshold-megabytes", 6, 7),
    ("cert-file", 4, 7),
    ("cipher-suites", 4, 7),
    ("client-cert-allowed-hostname", 4, 7),
    ("client-cert-auth", 4, 7),
    ("client-cert-file", 5, 7),
    ("client-crl-file", 4, 7),
    ("client-key-file", 5, 7),
    ("compact-hash-check-time", 6, 7),
    ("compaction-batch-limit", 6, 7),
    ("compaction-sleep-interval", 6, 7),
    ("config-file", 4, 7),
    ("corrupt-check-time", 6, 7),
    ("cors", 4, 7),
    ("data-dir", 4, 7),
    ("debug", 4, 4),
    ("discovery", 4, 6),
    ("discovery-cacert", 6, 7),
    ("discovery-cert", 6, 7),
    ("discovery-dial-timeout", 6, 7),
    ("discovery-endpoints", 6, 7),
    ("discovery-fallback", 4, 7),
    ("discovery-insecure-skip-tls-verify", 6, 7),
    ("discovery-insecure-transport", 6, 7),
    ("discovery-keepalive-time", 6, 7),
    ("discovery-keepalive-timeout", 6, 7),
    ("discovery-key", 6, 7),
    ("discovery-password", 6, 7),
    ("discovery-proxy", 4, 6),
    ("discovery-request-timeout", 6, 7),
    ("discovery-srv", 4, 7),
    ("discovery-srv-name", 4, 7),
    ("discovery-token", 6, 7),
    ("discovery-user", 6, 7),
    ("distributed-tracing-address", 6, 7),
    ("distributed-tracing-instance-id", 6, 7),
    ("distributed-tracing-sampling-rate", 6, 7),
    ("distributed-tracing-service-name", 6, 7),
    ("downgrade-check-time", 6, 7),
    ("election-timeout", 4, 7),
    ("enable-distributed-tracing", 6, 7),
    ("enable-grpc-gateway", 4, 7),
    ("enable-log-rotation", 5, 7),
    ("enable-pprof", 4, 7),
    ("enable-v2", 4, 5),
    ("experimental-backend-bbolt-freelist-type", 4, 4),
    ("experimental-bootstrap-defrag-threshold-megabytes", 5, 6),
    ("experimental-compact-hash-check-enabled", 5, 6),
    ("experimental-compact-hash-check-time", 5, 6),
    ("experimental-compaction-batch-limit", 4, 6),
    ("experimental-compaction-sleep-interval", 5, 6),
    ("experimental-corrupt-check-time", 4, 6),
    ("experimental-distributed-tracing-address", 5, 6),
    ("experimental-distributed-tracing-instance-id", 5, 6),
    ("experimental-distributed-tracing-sampling-rate", 5, 6),
    ("experimental-distributed-tracing-service-name", 5, 6),
    ("experimental-downgrade-check-time", 5, 6),
    ("experimental-enable-distributed-tracing", 5, 6),
    ("experimental-enable-lease-checkpoint", 4, 6),
    ("experimental-enable-lease-checkpoint-persist", 4, 6),
    ("experimental-enable-v2v3", 4, 5),
    ("experimental-initial-corrupt-check", 4, 6),
    ("experimental-memory-mlock", 5, 6),
    ("experimental-peer-skip-client-san-verification", 4, 6),
    ("experimental-snapshot-catchup-entries", 5, 6),
    ("experimental-stop-grpc-service-on-defrag", 5, 6),
    ("experimental-txn-mode-write-with-shared-buffer", 5, 6),
    ("experimental-warning-apply-duration", 4, 6),
    ("experimental-warning-unary-request-duration", 6, 6),
    ("experimental-watch-progress-notify-interval", 4, 6),
    ("feature-gates", 6, 7),
    ("force-new-cluster", 4, 7),
    ("grpc-keepalive-interval", 4, 7),
    ("grpc-keepalive-min-time", 4, 7),
    ("grpc-keepalive-timeout", 4, 7),
    ("heartbeat-interval", 4, 7),
    ("host-whitelist", 4, 7),
    ("initial-advertise-peer-urls", 4, 7),
    ("initial-cluster", 4, 7),
    ("initial-cluster-state", 4, 7),
    ("initial-cluster-token", 4, 7),
    ("initial-election-tick-advance", 4, 7),
    ("key-file", 4, 7),
    ("listen-client-http-urls", 5, 7),
    ("listen-client-urls", 4, 7),
    ("listen-metrics-urls", 4, 7),
    ("listen-peer-urls", 4, 7),
    ("log-format", 6, 7),
    ("log-level", 4, 7),
    ("log-outputs", 4, 7),
    ("log-package-levels", 4, 4),
    ("log-rotation-config-json", 5, 7),
    ("logger", 4, 7),
    ("max-concurrent-streams", 4, 7),
    ("max-learners", 6, 7),
    ("max-request-bytes", 4, 7),
    ("max-snapshots", 4, 7),
    ("max-txn-ops", 4, 7),
    ("max-wals", 4, 7),
    ("memory-mlock", 6, 7),
    ("metrics", 4, 7),
    ("name", 4, 7),
    ("peer-auto-tls", 4, 7),
    ("peer-cert-allowed-cn", 4, 7),
    ("peer-cert-allowed-hostname", 4, 7),
    ("peer-cert-file", 4, 7),
    ("peer-client-cert-auth", 4, 7),
    ("peer-client-cert-file", 5, 7),
    ("peer-client-key-file", 5, 7),
    ("peer-crl-file", 4, 7),
    ("peer-key-file", 4, 7),
    ("peer-skip-client-san-verification", 6, 7),
    ("peer-trusted-ca-file", 4, 7),
    ("pre-vote", 4, 7),
    ("proxy", 4, 5),
    ("proxy-dial-timeout", 4, 5),
    ("proxy-failure-wait", 4, 5),
    ("proxy-read-timeout", 4, 5),
    ("proxy-refresh-interval", 4, 5),
    ("proxy-write-timeout", 4, 5),
    ("quota-backend-bytes", 4, 7),
    ("raft-read-timeout", 5, 7),
    ("raft-write-timeout", 5, 7),
    ("self-signed-cert-validity", 5, 7),
    ("snapshot-catchup-entries", 6, 7),
    ("snapshot-count", 4, 7),
    ("socket-reuse-address", 5, 7),
    ("socket-reuse-port", 5, 7),
    ("strict-reconfig-check", 4, 7),
    ("tls-max-version", 5, 7),
    ("tls-min-version", 5, 7),
    ("trusted-ca-file", 4, 7),
    ("unsafe-no-fsync", 4, 7),
    ("v2-deprecation", 5, 7),
    ("version", 4, 7),
    ("wal-dir", 4, 7),
    ("warning-apply-duration", 6, 7),
    ("warning-unary-request-duration", 6, 7),
    ("watch-progress-notify-interval", 6, 7),
];
/// The last minor of 3.x of which the flags are known. Nothing is said about newer ones.
const LAST: u64 = 7;
/// The prefix of flags whose names were to change. The others have taken their place since etcd 3.6.
const EXPERIMENTAL: &str = "experimental-";

/// All flags, sorted.
pub fn etcd_flags() -> impl Iterator<Item = &'static str> {
    FLAGS.iter().map(|(name, ..)| *name)
}

/// The first and the last minor of 3.x that has this flag. `name` has no leading dashes.
fn minors(name: &str) -> Option<(u64, u64)> {
    let at = FLAGS.binary_search_by_key(&name, |(flag, ..)| flag).ok()?;
    FLAGS.get(at).map(|(_, first, last)| (*first, *last))
}

/// Whether an etcd 3.4 to 3.7 has this flag. `name` has no leading dashes.
pub fn is_etcd_flag(name: &str) -> bool {
    minors(name).is_some()
}

/// Whether etcd reads this environment variable. Each flag has a variable: `ETCD_` and the flag in capitals.
pub fn is_etcd_variable(name: &str) -> bool {
    name.strip_prefix("ETCD_")
        .filter(|rest| !rest.contains(|c: char| c.is_ascii_lowercase() || c == '-'))
        .is_some_and(|rest| is_etcd_flag(&rest.to_ascii_lowercase().replace('_', "-")))
}

/// Why this version of etcd would ignore a setting; `None` if it has the flag, or if that is not known. etcd logs
/// "unrecognized environment variable" for a setting that it does not know, and starts without it
/// (`pkg/flags/flag.go`).
pub fn ignores_flag(version: EtcdVersion, name: &str) -> Option<String> {
    let (first, last) = minors(name)?;
    let (major, minor) = version.series();
    if major != 3 || minor > LAST || (first..=last).contains(&minor) {
        return None;
    }
    let which = match (first, last) {
        (first, LAST) => format!("etcd 3.{first} and newer have it"),
        (first, last) if first == last => format!("only etcd 3.{first} has it"),
        (first, last) if first + 1 == last => format!("etcd 3.{first} and 3.{last} have it"),
        (first, last) => format!("etcd 3.{first} to 3.{last} have it"),
    };
    let other = match name.strip_prefix(EXPERIMENTAL) {
        Some(plain) => plain.to_owned(),
        None => format!("{EXPERIMENTAL}{name}"),
    };
    let has = |(first, last): (u64, u64)| (first..=last).contains(&minor);
    let there = minors(&other).is_some_and(has);
    let there = there.then(|| format!("; its name there is {other}"));
    Some(format!("{which}{}", there.unwrap_or_default()))
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn the_list_is_sorted() {
        assert!(FLAGS.is_sorted());
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
    fn a_version_ignores_what_it_does_not_have() {
        let ignores = |version: &str, flag| ignores_flag(version.parse().unwrap(), flag);
        let rows = [
            ("3.4.23", "snapshot-count", None),
            ("3.4.23", "feature-gates", Some("etcd 3.6 and newer have it")),
            ("3.6.0", "enable-v2", Some("etcd 3.4 and 3.5 have it")),
            ("3.5.1", "debug", Some("only etcd 3.4 has it")),
            (
                "3.7.3",
                "experimental-compaction-batch-limit",
                Some("etcd 3.4 to 3.6 have it; its name there is compaction-batch-limit"),
            ),
            (
                "3.5.35",
                "compaction-batch-limit",
                Some("etcd 3.6 and newer have it; its name there is experimental-compaction-batch-limit"),
            ),
            ("3.8.0", "enable-v2", None),
            ("3.4.23", "no-such-flag", None),
        ];
        for (version, flag, expected) in rows {
            assert_eq!(ignores(version, flag).as_deref(), expected, "{flag} of {version}");
        }
    }
}
