//! Accepts connections and serves them within limits.

use std::convert::Infallible;
use std::io;
use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use axum::Router;
use axum::body::Body;
use axum::http::{HeaderValue, Request, StatusCode, header};
use axum::response::{IntoResponse, Response};
use futures::future::join_all;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream, UnixListener, UnixStream, lookup_host};
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};
use tokio_rustls::TlsAcceptor;
use tokio_util::sync::CancellationToken;
use tower::ServiceExt;

use super::caller::Caller;
use super::limits::Limits;
use super::rejection_log::RejectionLog;
use super::reply::Refused;
use super::slots::{Slot, Slots};
use crate::adapters::tls::{CertificateNames, Tls, explain};
use crate::ports::AgentHandle;

/// A listening socket.
pub(super) enum Listener {
    Tcp(Arc<TcpListener>),
    Unix(Arc<UnixListener>),
}

enum Socket {
    Tcp(TcpStream),
    Unix(UnixStream),
}

impl Listener {
    async fn accept(&self) -> io::Result<(Socket, Option<IpAddr>)> {
        match self {
            Self::Tcp(listener) => {
                let (stream, address) = listener.accept().await?;
                stream.set_nodelay(true)?;
                Ok((Socket::Tcp(stream), Some(address.ip().to_canonical())))
            }
            Self::Unix(listener) => listener
                .accept()
                .await
                .map(|(stream, _)| (Socket::Unix(stream), None)),
        }
    }
}

/// What all connections of one server share.
pub(super) struct Server {
    tls: Option<Arc<Tls>>,
    /// The agent that decides whether a local process may use the socket. `None` if the socket's mode alone
    /// decides.
    door: Option<Arc<dyn AgentHandle>>,
    router: Router,
    limits: Limits,
    rejection_log: RejectionLog,
    slots: Arc<Slots>,
    shutdown: CancellationToken,
}

impl Server {
    pub(super) fn new(router: Router, limits: Limits, shutdown: CancellationToken) -> Self {
        Self {
            tls: None,
            door: None,
            router,
            limits,
            rejection_log: RejectionLog::default(),
            slots: Slots::new(limits),
            shutdown,
        }
    }

    /// Serves over TLS, if `tls` is given.
    pub(super) fn with_tls(self, tls: Option<Arc<Tls>>) -> Self {
        Self { tls, ..self }
    }

    /// Serves only local processes that this agent admits.
    pub(super) fn with_door(self, door: Arc<dyn AgentHandle>) -> Self {
        Self {
            door: Some(door),
            ..self
        }
    }

    /// Looks up the addresses of the cluster's nodes periodically; never returns. A node whose name does not
    /// resolve has no address, and its connections get the slots of unknown clients.
    pub(super) async fn follow(&self, nodes: &[String]) {
        loop {
            let found = nodes.iter().map(|node| addresses(node));
            let found = join_all(found).await.into_iter().flatten();
            self.slots.know(found.collect());
            sleep(FOLLOW_EVERY).await;
        }
    }

    /// Accepts the next connection. On the gate's socket, connections wait in the queue until a slot for
    /// unauthenticated clients is free. A client can thus not cause the refusal of others.
    async fn next(&self, listener: &Listener) -> io::Result<(Socket, Option<IpAddr>)> {
        if self.door.is_some() {
            self.slots.room().await;
        }
        listener.accept().await
    }

    /// Whether the client needs no further authentication (TLS handshake or systemd).
    fn knows(&self, socket: &Socket) -> bool {
        match socket {
            Socket::Tcp(_) => self.tls.is_none(),
            Socket::Unix(stream) => self.door.is_none() || is_trusted(stream),
        }
    }
}

/// How often the names of the cluster's nodes are looked up.
const FOLLOW_EVERY: Duration = Duration::from_mins(1);
/// How long one lookup may take.
const LOOKUP: Duration = Duration::from_secs(5);

async fn addresses(node: &str) -> Vec<IpAddr> {
    if let Ok(address) = node.parse::<IpAddr>() {
        return vec![address.to_canonical()];
    }
    match timeout(LOOKUP, lookup_host((node, 0))).await {
        Ok(Ok(found)) => found.map(|address| address.ip().to_canonical()).collect(),
        _ => Vec::new(),
    }
}

/// True for root and the user that the agent itself runs as. If `PrivateUsers=` is set, all other users look
/// like one user.
fn is_trusted(stream: &UnixStream) -> bool {
    let own = rustix::process::geteuid().as_raw();
    stream
        .peer_cred()
        .is_ok_and(|peer| peer.uid() == 0 || peer.uid() == own)
}

/// Accepts and serves until the server's shutdown.
pub(super) async fn run(listener: Listener, server: Arc<Server>) {
    let shutdown = server.shutdown.clone();
    let mut connections = JoinSet::new();
    loop {
        tokio::select! {
            // Connections that are not accepted stay in the queue for the next server of this socket.
            biased;
            () = shutdown.cancelled() => break,
            Some(_) = connections.join_next() => {}
            accepted = server.next(&listener) => match accepted {
                Ok((socket, address)) => match server.slots.take(address, server.knows(&socket)) {
                    Ok(slot) => {
                        connections.spawn(connection(server.clone(), socket, address, slot));
                    }
                    Err(why) => server.rejection_log.report(address, why),
                },
                Err(error) => {
                    // Usually the file table is full. An immediate retry would only spin.
                    server.rejection_log.report(None, &format!("cannot accept connections: {error}"));
                    sleep(Duration::from_millis(100)).await;
                }
            }
        }
    }
    drop(listener);
    // Answers in progress get a moment. Long polls end at once.
    let _ = timeout(Duration::from_millis(500), async {
        while connections.join_next().await.is_some() {}
    })
    .await;
}

async fn connection(server: Arc<Server>, socket: Socket, address: Option<IpAddr>, mut slot: Slot) {
    let plain = Caller { address, names: None };
    match (socket, &server.tls) {
        (Socket::Unix(stream), _) => match admit(&server, &stream, &mut slot).await {
            Ok(()) => drive(&server, stream, plain, 0).await,
            Err(why) => server.rejection_log.report(None, why),
        },
        (Socket::Tcp(stream), None) => drive(&server, stream, plain, 0).await,
        (Socket::Tcp(stream), Some(tls)) => {
            let (config, generation) = tls.server();
            let accept = TlsAcceptor::from(config).accept(stream);
            match timeout(server.limits.handshake, accept).await {
                Ok(Ok(stream)) => {
                    let certificates = stream.get_ref().1.peer_certificates();
                    let names = certificates.and_then(<[_]>::first).and_then(CertificateNames::of);
                    match names.ok_or("its certificate cannot be read") {
                        Ok(names) => {
                            if let Err(why) = slot.verify_restore() {
                                server.rejection_log.report(address, why);
                                return;
                            }
                            let caller = Caller {
                                address,
                                names: Some(Arc::new(names)),
                            };
                            drive(&server, stream, caller, generation).await;
                        }
                        Err(why) => server.rejection_log.report(address, why),
                    }
                }
                // The client only checked whether the port is open.
                Ok(Err(error)) if is_gone(&error) => {}
                Ok(Err(error)) => server.rejection_log.report(address, &explain(&error)),
                Err(_) => server
                    .rejection_log
                    .report(address, "it did not finish the TLS handshake in time"),
            }
        }
    }
    drop(slot);
}

/// Whether the process at the other end of a Unix socket may use it.
async fn admit(server: &Server, stream: &UnixStream, slot: &mut Slot) -> Result<(), &'static str> {
    let Some(door) = &server.door else {
        return Ok(());
    };
    if !is_trusted(stream) {
        let pid = stream.peer_cred().ok().and_then(|peer| peer.pid());
        let pid = pid.and_then(|pid| u32::try_from(pid).ok()).unwrap_or(0);
        if !door.is_etcds(pid).await {
            return Err("only etcd.service, root and the agent's own user may ask the gate");
        }
    }
    slot.verify_restore()
}

fn is_gone(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::UnexpectedEof | io::ErrorKind::ConnectionReset | io::ErrorKind::BrokenPipe
    )
}

async fn drive<S>(server: &Arc<Server>, stream: S, caller: Caller, generation: u64)
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let served = AtomicBool::new(false);
    let service = service_fn(|request: Request<Incoming>| {
        served.store(true, Ordering::Relaxed);
        answer(server.clone(), caller.clone(), generation, request)
    });
    let limits = server.limits;
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(limits.header)
        .max_headers(64)
        .max_buf_size(64 * 1024)
        .serve_connection(TokioIo::new(stream), service);
    tokio::pin!(connection);
    let ended = tokio::select! {
        ended = connection.as_mut() => Some(ended),
        () = sleep(limits.age) => None,
        () = server.shutdown.cancelled() => None,
    };
    let ended = if let Some(ended) = ended {
        ended
    } else {
        connection.as_mut().graceful_shutdown();
        timeout(limits.drain, connection).await.unwrap_or(Ok(()))
    };
    if let Err(error) = ended {
        let complaint = if error.is_parse() {
            Some(format!("it does not speak HTTP: {error}"))
        } else if error.is_timeout() && !served.load(Ordering::Relaxed) {
            Some("it sent no complete request header in time".to_owned())
        } else {
            None
        };
        if let Some(complaint) = complaint {
            server.rejection_log.report(caller.address, &complaint);
        }
    }
}

async fn answer(
    server: Arc<Server>,
    caller: Caller,
    generation: u64,
    request: Request<Incoming>,
) -> Result<Response, Infallible> {
    let expired = caller
        .names
        .as_ref()
        .is_some_and(|names| names.not_after.0 < now_ms());
    let stale = server
        .tls
        .as_ref()
        .is_some_and(|tls| tls.generation() != generation);
    let what = format!("{} {}", request.method(), request.uri().path());
    let address = caller.address;
    let mut response = if expired {
        Refused::forbidden("the certificate has expired since the connection was made").into_response()
    } else {
        let mut request = request.map(Body::new);
        request.extensions_mut().insert(caller);
        request.extensions_mut().insert(server.limits);
        match server.router.clone().oneshot(request).await {
            Ok(response) => response,
            Err(never) => match never {},
        }
    };
    if let Some(refused) = response.extensions().get::<Refused>()
        && address.is_some()
        && refused.status.is_client_error()
    {
        server
            .rejection_log
            .report(address, &format!("{what}: {}", refused.text));
    }
    // The connection cannot be reused if the body was not read to its end. Nor may it be reused with an
    // expired certificate, or with a TLS configuration that has been replaced.
    if expired || stale || response.status() == StatusCode::PAYLOAD_TOO_LARGE {
        response
            .headers_mut()
            .insert(header::CONNECTION, HeaderValue::from_static("close"));
    }
    Ok(response)
}

fn now_ms() -> u64 {
    SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .map_or(0, |since| u64::try_from(since.as_millis()).unwrap_or(u64::MAX))
}
