#![allow(clippy::unwrap_used, clippy::type_complexity)]

use super::*;
use crate::model::testing;

fn spec(nodes: &[(&str, &str)], tls: bool) -> Spec {
    let files = tls.then(|| TlsFiles {
        cert_file: "/c".into(),
        key_file: "/k".into(),
        ca_file: "/a".into(),
    });
    let mut spec = testing::spec(&["n1"]);
    spec.cluster = ClusterName::new("default").unwrap();
    spec.nodes = nodes
        .iter()
        .map(|(name, address)| (NodeName::new(*name).unwrap(), (*address).to_owned()))
        .collect();
    spec.etcd.client_tls.clone_from(&files);
    spec.etcd.peer_tls = files;
    spec
}

#[test]
fn what_is_advertised_and_listened_on() {
    let rows: &[(&str, &[(&str, &str)], bool, &str, &str)] = &[
        (
            "one node without address or TLS stays on loopback",
            &[("n1", "n1")],
            false,
            "http://127.0.0.1:2379",
            "http://127.0.0.1:2379",
        ),
        (
            "a configured address is used",
            &[("n1", "10.0.0.1")],
            false,
            "http://10.0.0.1:2379",
            "http://0.0.0.0:2379",
        ),
        (
            "TLS opens it",
            &[("n1", "n1")],
            true,
            "https://n1:2379",
            "https://0.0.0.0:2379",
        ),
        (
            "peers open it",
            &[("n1", "n1"), ("n2", "n2")],
            false,
            "http://n1:2379",
            "http://0.0.0.0:2379",
        ),
        (
            "IPv6 is bracketed and listened on",
            &[("n1", "fd00::1"), ("n2", "fd00::2")],
            true,
            "https://[fd00::1]:2379",
            "https://[::]:2379",
        ),
        (
            "IPv6 loopback",
            &[("n1", "::1")],
            false,
            "http://[::1]:2379",
            "http://[::1]:2379",
        ),
    ];
    for (name, nodes, tls, advertised, listened) in rows {
        let spec = spec(nodes, *tls);
        assert_eq!(
            spec.client_url(&spec.node).as_deref(),
            Some(*advertised),
            "{name}"
        );
        assert_eq!(spec.listen_client_urls(), *listened, "{name}");
        let (peer, listen) = (spec.peer_url(&spec.node).unwrap(), spec.listen_peer_url());
        assert_eq!(peer, advertised.replace("2379", "2380"), "{name}");
        assert_eq!(listen, listened.replace("2379", "2380"), "{name}");
    }
}

#[test]
fn what_the_settings_digest_sees() {
    let base = spec(&[("n1", "10.0.0.1"), ("n2", "10.0.0.2")], true);
    let rows: [(&str, fn(&mut Spec), bool); 6] = [
        ("nothing", |_| {}, false),
        ("a setting of etcd", |s| s.etcd.client_port = 1, true),
        (
            "the own address",
            |s| {
                s.nodes.insert(s.node.clone(), "10.0.0.9".to_owned());
            },
            true,
        ),
        (
            "another node's address",
            |s| {
                s.nodes
                    .insert(NodeName::new("n2").unwrap(), "10.0.0.9".to_owned());
            },
            false,
        ),
        ("the size", |s| s.size = 1, false),
        (
            "the source of the size",
            |s| s.size_source = SizeSource::Store { said: Some(1) },
            false,
        ),
    ];
    for (what, change, sees) in rows {
        let mut other = base.clone();
        change(&mut other);
        assert_eq!(other.settings_digest() != base.settings_digest(), sees, "{what}");
    }
    // A single node without TLS listens on loopback, and on all addresses once it has a peer.
    let alone = spec(&[("n1", "n1")], false);
    let mut joined = alone.clone();
    joined.nodes.insert(NodeName::new("n2").unwrap(), "n2".to_owned());
    assert_ne!(alone.settings_digest(), joined.settings_digest());
}

#[test]
fn which_size_is_in_force() {
    let store = SizeSource::Store { said: None };
    let file = SizeSource::Config {
        file: "/etc/etcd-agent/config.toml".into(),
        line: 3,
    };
    let rows = [
        ("a file wins", &file, Some(5), Some(5), 3),
        ("no shared store", &SizeSource::Default, Some(5), Some(5), 3),
        ("the store", &store, Some(1), Some(5), 1),
        ("the store, and no memory", &store, Some(5), None, 5),
        ("the store says nothing: as it was", &store, None, Some(5), 5),
        ("the store says nothing: it grows", &store, None, Some(1), 3),
        ("nothing is known", &store, None, None, 3),
    ];
    for (what, source, stored, settled, expected) in rows {
        let mut spec = testing::spec(&["n1", "n2", "n3"]);
        spec.size_source = source.clone();
        let record = SpecRecord {
            settled,
            change: None,
            stored,
            ..SpecRecord::default()
        };
        let seen = spec.in_force(&record);
        assert_eq!(seen.size, expected, "{what}");
        // A second application changes nothing.
        assert_eq!(seen.in_force(&record), seen, "{what}");
    }
}

#[test]
fn the_quota_is_etcds() {
    let table = [
        (None, Some(2_147_483_648)),
        (Some("0"), Some(2_147_483_648)),
        (Some("16777216"), Some(16_777_216)),
        (Some("-1"), None),
    ];
    let mut etcd = testing::spec(&["n1"]).etcd;
    for (setting, bytes) in table {
        let entry = |value: &str| ("quota-backend-bytes".to_owned(), value.to_owned());
        etcd.settings = setting.map(entry).into_iter().collect();
        assert_eq!(etcd.quota(), bytes, "{setting:?}");
    }
}
