//! Binds the ports to adapters.

use std::sync::Arc;

use anyhow::Context;

use crate::adapters::clock::SystemClock;
use crate::adapters::disk::{DiskState, read_json, write_json};
use crate::adapters::etcd::LocalEtcd;
use crate::adapters::peers::{HttpPeers, PeersConfig};
use crate::adapters::store::{open_backups, open_store};
use crate::adapters::systemd::Systemd;
use crate::adapters::tls::{EtcdCertificates, Tls};
use crate::config::Settings;
use crate::model::{ApiRecord, CopyStatus};
use crate::paths::Paths;
use crate::ports::{Certificates, ObjectStore, PortResult};
use crate::telemetry::Counters;

use super::ports::LocalBackups;
use super::{Agent, Ports};

/// The parts of an agent that depend on files that the settings name. They are opened before the running
/// agent is given up for the new one.
pub(super) struct Parts {
    pub(super) tls: Option<Arc<Tls>>,
    store: Option<Arc<dyn ObjectStore>>,
}

impl Parts {
    /// Opens what these settings name.
    ///
    /// # Errors
    /// When certificates or keys cannot be read.
    pub(super) fn open(settings: &Settings) -> anyhow::Result<Self> {
        let tls = settings
            .api
            .tls
            .clone()
            .map(Tls::load)
            .transpose()
            .context("the peer API's certificates ([api.tls])")?;
        let store = settings
            .store
            .as_ref()
            .map(|store| open_backups(store, &settings.encryption))
            .transpose()?;
        Ok(Self { tls, store })
    }
}

/// An agent for these settings.
///
/// # Errors
/// When this node's own state cannot be read.
pub(super) fn agent(
    paths: &Paths,
    settings: &Settings,
    parts: &Parts,
    counters: Arc<Counters>,
) -> anyhow::Result<Agent> {
    let spec = settings.spec.clone();
    let Parts { tls, store } = parts;
    let state = Arc::new(DiskState::new(paths.clone()));
    let peers = HttpPeers::start(&PeersConfig {
        me: spec.node.clone(),
        cluster: spec.cluster.clone(),
        nodes: spec.nodes.clone(),
        port: settings.api.port,
        tls: tls.clone(),
    });
    let etcd = Arc::new(LocalEtcd::new(settings));
    let quota = spec.etcd.settings.get("quota-backend-bytes");
    let ports = Ports {
        service: Arc::new(Systemd::new(paths.clone())),
        etcd: etcd.clone(),
        peers: Arc::new(peers),
        store: store.clone(),
        backups: Arc::new(LocalBackups {
            restore_dir: paths.restore(),
            etcd,
            quota_bytes: quota.and_then(|bytes| bytes.parse().ok()),
        }),
        state,
        clock: Arc::new(SystemClock),
    };
    let mut agent = Agent::over(ports, spec, crate::unit::boot::id())?;
    agent.insecure = settings.api.insecure;
    agent.certificates = tls.clone().map(|tls| tls as Arc<dyn Certificates>);
    let etcds = [&settings.spec.etcd.client_tls, &settings.spec.etcd.peer_tls];
    let etcds: Vec<_> = etcds.into_iter().flatten().cloned().collect();
    agent.verify_dir = paths.verify();
    agent.counters = counters;
    Ok(agent.with_etcd_certificates(Arc::new(EtcdCertificates::of(etcds))))
}

/// Records over what the API speaks with these settings. A configuration without its TLS counts as a loss
/// from then on (`src/config/losses.rs`).
///
/// # Errors
/// When the record cannot be read or stored.
pub(super) fn record_api(paths: &Paths, settings: &Settings) -> PortResult<()> {
    let path = paths.api_record();
    let api = ApiRecord {
        tls: settings.api.tls.is_some(),
    };
    // A single node without TLS needs no record.
    let recorded: Option<ApiRecord> = read_json(&path)?;
    if recorded.unwrap_or_default() == api {
        return Ok(());
    }
    write_json(&path, &api, 0o600)
}

/// The store and the second store to copy to, if there is one. Neither encrypts or decrypts: copies are byte
/// for byte. From now on the status reports the progress of copying.
pub(super) fn copy_stores(
    agent: &Agent,
    settings: &Settings,
) -> Option<(Arc<dyn ObjectStore>, Arc<dyn ObjectStore>)> {
    let from = open_store(settings.store.as_ref()?);
    let to = open_store(settings.store_copy.as_ref()?);
    agent.shared.with(|inner| {
        inner.copy = Some(CopyStatus {
            store: to.describe(),
            ..CopyStatus::default()
        });
    });
    Some((from, to))
}
