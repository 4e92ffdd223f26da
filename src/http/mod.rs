//! The servers: peer API, metrics with the status page, and FleetLock (TCP), admin API and gate (Unix
//! sockets). All of them answer from an agent handle.
//!
//! All input is bounded: connections, handshakes, headers, bodies and concurrent requests. So is the logging
//! about them.

mod admin_api;
mod caller;
mod fleet_lock_api;
mod gate_api;
mod limits;
mod metrics_api;
mod page_api;
mod peer_api;
mod rejection_log;
mod reload;
mod reply;
mod scrape;
mod serve;
mod slots;
mod sockets;
mod strict;
mod unix;

#[cfg(test)]
pub(crate) mod testing;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::future::Future;
use std::net::SocketAddr;
use std::sync::Arc;

use tokio::net::{TcpListener, UnixListener};
use tokio_util::sync::CancellationToken;

use crate::adapters::tls::Tls;
use crate::model::NodeName;
use crate::ports::AgentHandle;
use crate::telemetry::Counters;

pub use limits::Limits;
pub use reload::Reloads;
pub use sockets::Sockets;

/// A server that cannot be set up: what was tried, on what, and what to do. One line.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct HttpError(String);

/// The peer API's listening socket, and the clients that may use it.
pub struct PeerListener {
    listener: Arc<TcpListener>,
    tls: Option<Arc<Tls>>,
    nodes: BTreeMap<NodeName, String>,
    limits: Limits,
}

impl PeerListener {
    /// Without `tls` the API is plain HTTP, which the configuration must allow explicitly. `nodes` is the
    /// electorate with its addresses (`Spec::nodes`): the names that a certificate may have.
    pub fn new(listener: Arc<TcpListener>, tls: Option<Arc<Tls>>, nodes: BTreeMap<NodeName, String>) -> Self {
        Self {
            listener,
            tls,
            nodes,
            limits: Limits::peers(),
        }
    }

    /// Sets limits other than the default ones.
    #[must_use]
    pub fn with_limits(mut self, limits: Limits) -> Self {
        self.limits = limits;
        self
    }

    /// The address that it listens at. This gives the actual port if `listen` has port 0.
    ///
    /// # Errors
    /// If getsockname(2) fails.
    pub fn local_addr(&self) -> std::io::Result<SocketAddr> {
        self.listener.local_addr()
    }
}

/// Serves the peer API until `shutdown`.
pub fn serve_peers(
    listener: PeerListener,
    handle: Arc<dyn AgentHandle>,
    counters: Arc<Counters>,
    shutdown: CancellationToken,
) -> impl Future<Output = ()> + Send {
    let PeerListener {
        listener,
        tls,
        nodes,
        limits,
    } = listener;
    let addresses: Vec<String> = nodes.values().cloned().collect();
    let access = caller::Access::new(nodes, tls.is_some());
    let router = peer_api::router(handle, counters, access, limits, shutdown.clone());
    let server = Arc::new(serve::Server::new(router, limits, shutdown).with_tls(tls));
    async move {
        tokio::select! {
            () = serve::run(serve::Listener::Tcp(listener), server.clone()) => {}
            () = server.follow(&addresses) => {}
        }
    }
}

/// Serves the admin API until `shutdown`.
pub fn serve_admin(
    listener: Arc<UnixListener>,
    handle: Arc<dyn AgentHandle>,
    counters: Arc<Counters>,
    reloads: Arc<Reloads>,
    shutdown: CancellationToken,
) -> impl Future<Output = ()> + Send {
    let router = admin_api::router(handle, counters, reloads);
    let server = serve::Server::new(router, Limits::admin(), shutdown);
    serve::run(serve::Listener::Unix(listener), Arc::new(server))
}

/// Serves the admin API of an agent that is not configured. It answers every request but a reload with a hint
/// about what to do.
pub fn serve_unconfigured(
    listener: Arc<UnixListener>,
    reloads: Arc<Reloads>,
    shutdown: CancellationToken,
) -> impl Future<Output = ()> + Send {
    let router = admin_api::unconfigured(reloads);
    let server = serve::Server::new(router, Limits::admin(), shutdown);
    serve::run(serve::Listener::Unix(listener), Arc::new(server))
}

/// The listening socket for metrics and the status page.
pub struct MetricsListener {
    listener: Arc<TcpListener>,
    tls: Option<Arc<Tls>>,
    names: Vec<String>,
}

impl MetricsListener {
    /// Without `tls` it is plain HTTP, and the status page is served only to clients on this host that ask
    /// for it by an IP address, as `localhost` or by one of `names`.
    pub fn new(listener: Arc<TcpListener>, tls: Option<Arc<Tls>>, names: Vec<String>) -> Self {
        Self { listener, tls, names }
    }
}

/// Serves `GET /metrics` and the status page until `shutdown`, and nothing else.
pub fn serve_metrics(
    listener: MetricsListener,
    handle: Arc<dyn AgentHandle>,
    counters: Arc<Counters>,
    shutdown: CancellationToken,
) -> impl Future<Output = ()> + Send {
    let MetricsListener { listener, tls, names } = listener;
    let router = metrics_api::router(handle, counters, names);
    let server = serve::Server::new(router, Limits::metrics(), shutdown).with_tls(tls);
    serve::run(serve::Listener::Tcp(listener), Arc::new(server))
}

/// Serves the FleetLock protocol over plain HTTP until `shutdown`, to clients of these groups.
pub fn serve_fleet_lock(
    listener: Arc<TcpListener>,
    handle: Arc<dyn AgentHandle>,
    groups: Vec<String>,
    shutdown: CancellationToken,
) -> impl Future<Output = ()> + Send {
    let server = serve::Server::new(
        fleet_lock_api::router(handle, groups),
        Limits::metrics(),
        shutdown,
    );
    serve::run(serve::Listener::Tcp(listener), Arc::new(server))
}

/// Serves the gate's socket until `shutdown`. It answers root, the agent's own user and `etcd.service`.
pub fn serve_gate(
    listener: Arc<UnixListener>,
    handle: Arc<dyn AgentHandle>,
    shutdown: CancellationToken,
) -> impl Future<Output = ()> + Send {
    let server = serve::Server::new(gate_api::router(handle.clone()), Limits::gate(), shutdown);
    serve::run(
        serve::Listener::Unix(listener),
        Arc::new(server.with_door(handle)),
    )
}
