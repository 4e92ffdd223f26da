//! Accepting connections and driving them, within limits.

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

/// A socket that is listened on.
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
    /// Who is asked whether a local process may ask here; nobody where the socket's mode says it.
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

    /// The same over TLS.
    pub(super) fn with_tls(self, tls: Option<Arc<Tls>>) -> Self {
        Self { tls, ..self }
    }

    /// The same for those whom this agent lets in.
    pub(super) fn with_door(self, door: Arc<dyn AgentHandle>) -> Self {
        Self {
            door: Some(door),
            ..self
        }
    }

    /// Keeps the addresses of the cluster's nodes up to date, for ever. A name that does not resolve now keeps none: its
    /// node is served like everybody else.
    pub(super) async fn follow(&self, nodes: &[String]) {
        loop {
            let found = nodes.iter().map(|node| addresses(node));
            let found = join_all(found).await.into_iter().flatten();
            self.slots.know(found.collect());
            sleep(FOLLOW_EVERY).await;
        }
    }

    /// The next connection. On a Unix socket strangers wait for their turn, so that none of them can have the others refused.
    async fn next(&self, listener: &Listener) -> io::Result<(Socket, Option<IpAddr>)> {
        if self.door.is_some() {
            self.slots.room().await;
        }
        listener.accept().await
    }

    /// Whether the client is known without asking systemd.
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

/// Root, or the user that the agent itself runs as. Where `PrivateUsers=` is set, all others look like one.
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
            // What is not accepted any more is left in the queue to the next server of this socket.
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
                    // Mostly a full file table: accepting again at once would only spin.
                    server.rejection_log.report(None, &format!("cannot accept connections: {error}"));
                    sleep(Duration::from_millis(100)).await;
                }
            }
        }
    }
    drop(listener);
    // End long polls now, so that clients learn of the end before their timeout.
    let _ = timeout(Duration::from_millis(500), async {
        while connections.join_next().await.is_some() {}
    })
    .await;
}

async fn connection(server: Arc<Server>, socket: Socket, address: Option<IpAddr>, mut slot: Slot) {
    let plain = Caller { address, names: None };
    match (socket, &server.tls) {
        (Socket::Unix(stream), _) => match lets_in(&server, &stream, &mut slot).await {
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
                            if let Err(why) = slot.prove() {
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

/// Whether the process at the other end of a Unix socket may ask.
async fn lets_in(server: &Server, stream: &UnixStream, slot: &mut Slot) -> Result<(), &'static str> {
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
    slot.prove()
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
    // A body that was not read to its end leaves nothing to go on with; neither does an old certificate.
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
