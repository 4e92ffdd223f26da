//! Accepting connections and driving them, within limits.

use std::collections::HashMap;
use std::convert::Infallible;
use std::io;
use std::net::IpAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use axum::Router;
use axum::body::Body;
use axum::http::{HeaderValue, Request, StatusCode, header};
use axum::response::{IntoResponse, Response};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream, UnixListener, UnixStream};
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};
use tokio_rustls::TlsAcceptor;
use tokio_util::sync::CancellationToken;
use tower::ServiceExt;

use super::caller::Caller;
use super::limits::Limits;
use super::noise::Noise;
use super::reply::Refused;
use crate::adapters::tls::{CertificateNames, Tls, explain};

enum Listener {
    Tcp(TcpListener),
    Unix(UnixListener),
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
struct Server {
    tls: Option<Arc<Tls>>,
    router: Router,
    limits: Limits,
    noise: Noise,
    open: Mutex<HashMap<Option<IpAddr>, usize>>,
    shutdown: CancellationToken,
}

pub(super) async fn tcp(
    listener: TcpListener,
    tls: Option<Arc<Tls>>,
    router: Router,
    limits: Limits,
    shutdown: CancellationToken,
) {
    run(Listener::Tcp(listener), tls, router, limits, shutdown).await;
}

pub(super) async fn unix(
    listener: UnixListener,
    router: Router,
    limits: Limits,
    shutdown: CancellationToken,
) {
    run(Listener::Unix(listener), None, router, limits, shutdown).await;
}

async fn run(
    listener: Listener,
    tls: Option<Arc<Tls>>,
    router: Router,
    limits: Limits,
    shutdown: CancellationToken,
) {
    let server = Arc::new(Server {
        tls,
        router,
        limits,
        noise: Noise::default(),
        open: Mutex::default(),
        shutdown: shutdown.clone(),
    });
    let mut connections = JoinSet::new();
    loop {
        tokio::select! {
            () = shutdown.cancelled() => break,
            Some(_) = connections.join_next() => {}
            accepted = listener.accept() => match accepted {
                Ok((socket, address)) => match Slot::take(&server, connections.len(), address) {
                    Ok(slot) => {
                        connections.spawn(connection(server.clone(), socket, address, slot));
                    }
                    Err(why) => server.noise.report(address, why),
                },
                Err(error) => {
                    // Mostly a full file table: accepting again at once would only spin.
                    server.noise.report(None, &format!("cannot accept connections: {error}"));
                    sleep(Duration::from_millis(100)).await;
                }
            }
        }
    }
    drop(listener);
    // Long polls end with the process: whoever waits has to hear of the end now, not after its wait.
    let _ = timeout(Duration::from_millis(500), async {
        while connections.join_next().await.is_some() {}
    })
    .await;
}

/// A connection's place among those that are open.
struct Slot {
    server: Arc<Server>,
    address: Option<IpAddr>,
}

impl Slot {
    fn take(server: &Arc<Server>, total: usize, address: Option<IpAddr>) -> Result<Self, &'static str> {
        if total >= server.limits.connections {
            return Err("too many connections");
        }
        let mut open = server.open.lock().unwrap_or_else(PoisonError::into_inner);
        let count = open.entry(address).or_insert(0);
        if *count >= server.limits.connections_per_address {
            return Err("too many connections from this address");
        }
        *count += 1;
        Ok(Self {
            server: server.clone(),
            address,
        })
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        let mut open = self.server.open.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(count) = open.get_mut(&self.address) {
            *count -= 1;
            if *count == 0 {
                open.remove(&self.address);
            }
        }
    }
}

async fn connection(server: Arc<Server>, socket: Socket, address: Option<IpAddr>, slot: Slot) {
    let plain = Caller { address, names: None };
    match (socket, &server.tls) {
        (Socket::Unix(stream), _) => drive(&server, stream, plain, 0).await,
        (Socket::Tcp(stream), None) => drive(&server, stream, plain, 0).await,
        (Socket::Tcp(stream), Some(tls)) => {
            let (config, generation) = tls.server();
            let accept = TlsAcceptor::from(config).accept(stream);
            match timeout(server.limits.handshake, accept).await {
                Ok(Ok(stream)) => {
                    let certificates = stream.get_ref().1.peer_certificates();
                    let names = certificates.and_then(<[_]>::first).and_then(CertificateNames::of);
                    match names {
                        Some(names) => {
                            let caller = Caller {
                                address,
                                names: Some(Arc::new(names)),
                            };
                            drive(&server, stream, caller, generation).await;
                        }
                        None => server.noise.report(address, "its certificate cannot be read"),
                    }
                }
                // Somebody only looked whether the port is open.
                Ok(Err(error)) if is_gone(&error) => {}
                Ok(Err(error)) => server.noise.report(address, &explain(&error)),
                Err(_) => server
                    .noise
                    .report(address, "it did not finish the TLS handshake in time"),
            }
        }
    }
    drop(slot);
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
            server.noise.report(caller.address, &complaint);
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
        server.noise.report(address, &format!("{what}: {}", refused.text));
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
