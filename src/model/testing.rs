//! Fixtures for tests in the whole crate.
#![allow(clippy::unwrap_used)]

use std::collections::BTreeMap;
use std::time::Duration;

use super::{BackupSpec, ClusterName, EtcdSpec, NodeName, Spec};

/// The spec of the first of these nodes in a cluster `prod`. Each node's address is its name. There is no
/// TLS, no store and no backup.
pub(crate) fn spec(nodes: &[&str]) -> Spec {
    let name = |text: &str| NodeName::new(text).unwrap();
    Spec {
        cluster: ClusterName::new("prod").unwrap(),
        node: name(nodes[0]),
        size: nodes.len(),
        size_source: super::SizeSource::Default,
        nodes: nodes.iter().map(|n| (name(n), (*n).to_owned())).collect(),
        etcd: EtcdSpec {
            data_dir: "/var/lib/etcd/default".into(),
            wal_dir: None,
            client_port: 2379,
            plain_client_port: None,
            peer_port: 2380,
            client_tls: None,
            peer_tls: None,
            binary: None,
            versions_dir: "/opt".into(),
            settings: BTreeMap::new(),
        },
        backup_interval: None,
        backup: BackupSpec::default(),
        store_shared: false,
        shared_store: String::new(),
        grace: Duration::from_mins(5),
        space: super::SpaceSpec::default(),
        repair: super::RepairSpec::default(),
        join: super::Join::default(),
    }
}
