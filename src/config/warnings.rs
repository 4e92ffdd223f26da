//! Warnings about settings that are allowed but rarely intended. `config check` prints them and does not
//! refuse the configuration.

use std::path::Path;

use super::settings::Settings;

/// The warnings, one line each.
pub(super) fn of(settings: &Settings) -> Vec<String> {
    one_authority(settings).into_iter().collect()
}

/// Warns if the peer port trusts an authority of etcd's clients. etcd accepts any certificate of a port's
/// authority.
fn one_authority(settings: &Settings) -> Option<String> {
    let etcd = &settings.spec.etcd;
    let (clients, peers) = (
        &etcd.client_tls.as_ref()?.ca_file,
        &etcd.peer_tls.as_ref()?.ca_file,
    );
    let named = ["peer-cert-allowed-hostname", "peer-cert-allowed-cn"]
        .iter()
        .any(|flag| etcd.settings.contains_key(*flag));
    if named || !shared(clients, peers) {
        return None;
    }
    Some(format!(
        "etcd.peer_tls.ca_file: {} trusts an authority of etcd's clients ({}), so every client's certificate may speak raft \
         on port {}: give the peers an authority of their own, or set etcd.settings.peer-cert-allowed-hostname",
        peers.display(),
        clients.display(),
        etcd.peer_port
    ))
}

/// Whether two files are the same or have a certificate in common. An unreadable file counts as empty.
fn shared(a: &Path, b: &Path) -> bool {
    if a == b {
        return true;
    }
    let (a, b) = (certificates(a), certificates(b));
    a.iter().any(|certificate| b.contains(certificate))
}

/// The PEM blocks of a file, without white space.
fn certificates(path: &Path) -> Vec<String> {
    let text = std::fs::read_to_string(path).unwrap_or_default();
    let blocks = text.split("-----BEGIN CERTIFICATE-----").skip(1);
    blocks
        .filter_map(|block| block.split("-----END CERTIFICATE-----").next())
        .map(|block| block.split_whitespace().collect())
        .collect()
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use crate::config;
    use crate::paths::Paths;

    fn pem(text: &str) -> String {
        format!("-----BEGIN CERTIFICATE-----\n{text}\n-----END CERTIFICATE-----\n")
    }

    #[test]
    fn f05_one_authority_for_clients_and_peers_is_warned_of() {
        let root = tempfile::tempdir().unwrap();
        let paths = Paths::below(root.path());
        std::fs::create_dir_all(paths.config_file().parent().unwrap()).unwrap();
        for (name, text) in [
            ("clients", pem("AAAA\nBBBB") + &pem("CCCC")),
            ("copy", pem("AAAABBBB")),
            ("peers", pem("DDDD")),
        ] {
            std::fs::write(root.path().join(name), text).unwrap();
        }
        let warned = |peers: &str, more: &str| {
            let dir = root.path().display();
            let text = format!(
                "[node]\nname = \"n1\"\n[etcd.client_tls]\ncert_file = \"/c\"\nkey_file = \"/k\"\nca_file = \"{dir}/clients\"\n\
                 [etcd.peer_tls]\ncert_file = \"/c\"\nkey_file = \"/k\"\nca_file = \"{dir}/{peers}\"\n[etcd.settings]\n{more}"
            );
            std::fs::write(paths.config_file(), text).unwrap();
            let loaded = config::load(&paths).unwrap().unwrap();
            config::warnings(&loaded.settings)
        };
        for shared in ["clients", "copy"] {
            let said = warned(shared, "");
            assert_eq!(said.len(), 1, "{shared}");
            assert!(said.iter().all(|line| line.contains("port 2380")), "{said:?}");
        }
        assert!(warned("peers", "").is_empty(), "separate authorities");
        assert!(warned("gone", "").is_empty(), "an unreadable file");
        for name in ["peer-cert-allowed-hostname", "peer-cert-allowed-cn"] {
            assert!(
                warned("copy", &format!("{name} = \"etcd\"\n")).is_empty(),
                "{name}"
            );
        }
    }
}
