//! Which of etcd's flags are refused in `[etcd.settings]`.

use super::suggest::nearest;
use crate::model::{etcd_flags, is_etcd_flag};

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
    let allowed = etcd_flags().filter(|known| check(known).is_ok());
    let near = nearest(plain, allowed);
    Err(match near {
        Some(near) => format!("not a flag of etcd 3.4 to 3.7; did you mean \"{near}\"?"),
        None => "not a flag of etcd 3.4 to 3.7; flag names are written without dashes in front, e.g. \
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
    fn flags_are_distinguished() {
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
