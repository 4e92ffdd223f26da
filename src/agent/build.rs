//! Binds the ports to adapters.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use anyhow::Context;

use crate::adapters::clock::SystemClock;
use crate::adapters::disk::DiskState;
use crate::adapters::etcd::LocalEtcd;
use crate::adapters::peers::{HttpPeers, PeersConfig};
use crate::adapters::store::open_store;
use crate::adapters::systemd::Systemd;
use crate::adapters::tls::Tls;
use crate::config::Settings;
use crate::model::CopyStatus;
use crate::paths::Paths;
use crate::ports::{NodeState, ObjectStore};
use crate::telemetry::Counters;

use super::observe::electorate;
use super::shared::Shared;
use super::{Agent, Ports};

/// An agent for these settings.
///
/// # Errors
/// When own state or certificates cannot be read.
pub(super) fn agent(paths: &Paths, settings: &Settings, counters: Arc<Counters>) -> anyhow::Result<Agent> {
    let spec = settings.spec.clone();
    let tls = settings
        .api
        .tls
        .clone()
        .map(Tls::load)
        .transpose()
        .context("the peer API's certificates ([api.tls])")?;
    let state = Arc::new(DiskState::new(paths.clone()));
    let elector = state.elector()?;
    let peers = HttpPeers::start(&PeersConfig {
        me: spec.node.clone(),
        cluster: spec.cluster.clone(),
        nodes: spec.nodes.clone(),
        port: settings.api.port,
        tls: tls.clone(),
    });
    let shared = Arc::new(Shared::new(
        elector,
        state.directives()?,
        state.etcd_run()?,
        electorate(&spec),
    ));
    let ports = Ports {
        service: Arc::new(Systemd::new(paths.clone())),
        etcd: Arc::new(LocalEtcd::new(settings)),
        peers: Arc::new(peers),
        store: settings.store.as_ref().map(open_store),
        state,
        clock: Arc::new(SystemClock),
    };
    Ok(Agent {
        ports,
        insecure: settings.api.insecure,
        tls,
        boot_id: crate::unit::boot::id(),
        restore_dir: paths.restore(),
        verify_dir: paths.verify(),
        shared,
        counters,
        was_up: Arc::new(AtomicBool::new(false)),
        spec,
    })
}

/// The store and the one to copy to, when there is one. Neither encrypts or decrypts: copies are byte for byte. From
/// now on the status tells how copying goes.
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
