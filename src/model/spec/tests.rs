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
            "an address that somebody wrote down is used",
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
        assert_eq!(spec.listen_client_url(), *listened, "{name}");
        let (peer, listen) = (spec.peer_url(&spec.node).unwrap(), spec.listen_peer_url());
        assert_eq!(peer, advertised.replace("2379", "2380"), "{name}");
        assert_eq!(listen, listened.replace("2379", "2380"), "{name}");
    }
}
