//! The three servers: peer API (TCP), admin API and gate (Unix sockets). All answer from an agent handle.
//!
//! Everything that arrives is bounded: connections, handshakes, headers, bodies, requests under way, and what
//! is logged about them.

mod admin_api;
mod caller;
mod gate_api;
mod limits;
mod noise;
mod peer_api;
mod reply;
mod serve;
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
use crate::paths::Paths;
use crate::ports::AgentHandle;
use crate::telemetry::Counters;

pub use limits::Limits;

/// A server that cannot be set up: what was tried, on what, and what to do. One line.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct HttpError(String);

/// The peer API's listening socket and who may talk to it.
pub struct PeerListener {
    listener: TcpListener,
    tls: Option<Arc<Tls>>,
    nodes: BTreeMap<NodeName, String>,
    limits: Limits,
}

impl PeerListener {
    /// Listens. Without `tls` the API is plain HTTP, which the configuration has to spell out. `nodes` is
    /// the electorate with its addresses (`Spec::nodes`): whom a certificate may name.
    ///
    /// # Errors
    /// [`HttpError`] naming the address; worth trying again, as an address may come up later than the agent.
    pub async fn bind(
        listen: SocketAddr,
        tls: Option<Arc<Tls>>,
        nodes: BTreeMap<NodeName, String>,
    ) -> Result<Self, HttpError> {
        let listener = TcpListener::bind(listen).await.map_err(|error| {
            HttpError(format!(
                "cannot listen on {listen} for peers (api.listen): {error}"
            ))
        })?;
        let limits = Limits::peers(nodes.len());
        Ok(Self {
            listener,
            tls,
            nodes,
            limits,
        })
    }

    /// Other limits than the default ones.
    #[must_use]
    pub fn with_limits(mut self, limits: Limits) -> Self {
        self.limits = limits;
        self
    }

    /// Where it listens: tells the port where `listen` had 0.
    ///
    /// # Errors
    /// When the socket cannot be asked.
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
    let secure = listener.tls.is_some();
    let access = caller::Access::new(listener.nodes, secure);
    let router = peer_api::router(handle, counters, access, listener.limits);
    serve::tcp(listener.listener, listener.tls, router, listener.limits, shutdown)
}

/// Listens on the admin socket: mode 0660 with the daemon's own group.
///
/// # Errors
/// [`HttpError`] when something else than a stale socket is there, or another agent answers on it.
pub fn bind_admin(paths: &Paths) -> Result<UnixListener, HttpError> {
    unix::bind(&paths.admin_socket(), 0o660)
}

/// Listens on the gate's socket: mode 0666.
///
/// # Errors
/// As [`bind_admin`].
pub fn bind_gate(paths: &Paths) -> Result<UnixListener, HttpError> {
    unix::bind(&paths.gate_socket(), 0o666)
}

/// Serves the admin API until `shutdown`.
pub fn serve_admin(
    listener: UnixListener,
    handle: Arc<dyn AgentHandle>,
    counters: Arc<Counters>,
    shutdown: CancellationToken,
) -> impl Future<Output = ()> + Send {
    serve::unix(
        listener,
        admin_api::router(handle, counters),
        Limits::admin(),
        shutdown,
    )
}

/// Serves the admin API of an agent that is not configured: every question is answered with what to do.
pub fn serve_unconfigured(
    listener: UnixListener,
    shutdown: CancellationToken,
) -> impl Future<Output = ()> + Send {
    serve::unix(listener, admin_api::unconfigured(), Limits::admin(), shutdown)
}

/// Serves the gate's questions until `shutdown`.
pub fn serve_gate(
    listener: UnixListener,
    handle: Arc<dyn AgentHandle>,
    shutdown: CancellationToken,
) -> impl Future<Output = ()> + Send {
    serve::unix(listener, gate_api::router(handle), Limits::gate(), shutdown)
}
