//! The names and the configuration of the nodes.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use etcd_agent::model::{ClusterName, EtcdSpec, NodeName, RepairSpec, Retention, SizeSource, Spec, TlsFiles};

use crate::schedule::Schedule;
use crate::world::address;

/// The name of the cluster.
pub const CLUSTER: &str = "sim";

/// The name of a host.
pub fn name(host: usize) -> Option<NodeName> {
    NodeName::new(format!("n{}", host + 1)).ok()
}

/// A retention that keeps only the newest `count` backups.
fn keeps(count: usize) -> Retention {
    Retention {
        recent: Duration::ZERO,
        hourly: 0,
        daily: 0,
        weekly: 0,
        yearly: 0,
        count,
        ..Retention::default()
    }
}

/// The certificate files of etcd, the same paths on all hosts.
fn files() -> TlsFiles {
    let path = |name: &str| PathBuf::from("/etc/etcd/tls").join(name);
    TlsFiles {
        cert_file: path("node.crt"),
        key_file: path("node.key"),
        ca_file: path("ca.crt"),
    }
}

/// The configuration of one node.
pub fn spec(schedule: &Schedule, host: usize) -> Option<Spec> {
    let nodes: BTreeMap<NodeName, String> = (0..schedule.nodes)
        .map(|host| Some((name(host)?, address(host))))
        .collect::<Option<_>>()?;
    Some(Spec {
        cluster: ClusterName::new(CLUSTER).ok()?,
        node: name(host)?,
        size: schedule.size,
        nodes,
        size_source: if schedule.sized {
            SizeSource::Store { said: None }
        } else {
            SizeSource::Default
        },
        etcd: EtcdSpec {
            data_dir: PathBuf::from("/var/lib/etcd/sim"),
            wal_dir: None,
            client_port: 2379,
            plain_client_port: None,
            peer_port: 2380,
            client_tls: schedule.tls.then(files),
            peer_tls: None,
            binary: None,
            versions_dir: "/opt".into(),
            settings: BTreeMap::new(),
        },
        backup_interval: schedule.store.then_some(Duration::from_secs(10)),
        backup: etcd_agent::model::BackupSpec {
            // Following etcd's changes needs a watch and threads: see the README.
            increment_interval: None,
            retention: schedule.keeps.map_or_else(Retention::default, keeps),
            ..etcd_agent::model::BackupSpec::default()
        },
        store_shared: schedule.store,
        shared_store: if schedule.store {
            "sim://store".to_owned()
        } else {
            String::new()
        },
        grace: Duration::from_millis(schedule.grace_ms),
        space: etcd_agent::model::SpaceSpec::default(),
        repair: if schedule.repairs {
            RepairSpec {
                check_interval: Some(Duration::from_secs(15)),
                corrupt: true,
            }
        } else {
            RepairSpec::default()
        },
        join: etcd_agent::model::Join::default(),
    })
}
