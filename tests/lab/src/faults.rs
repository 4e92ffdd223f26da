//! A proxy in front of an S3 server that imitates bad networks and overloaded stores.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use anyhow::{Context, Result, anyhow};
use bytes::Bytes;
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt, Full, StreamBody};
use hyper::body::{Frame, Incoming};
use hyper::service::service_fn;
use hyper::{Request, Response};
use hyper_util::rt::TokioIo;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::oneshot;

use crate::outside;

type Body = UnsyncBoxBody<Bytes, std::io::Error>;

/// What the proxy does to one request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Fault {
    /// Nothing.
    Pass,
    /// The request does not reach the store; this is the answer.
    Answer(u16, Bytes),
    /// The request does not reach the store, and the connection is closed.
    Hangup,
    /// The connection is closed after the store has processed the request: the answer is lost.
    Lost,
    /// The answer's body ends after this many bytes.
    Truncate(usize),
    /// Both bodies are limited to this rate, in bytes per second.
    Slow(u32),
}

impl Fault {
    /// The answer of an overloaded S3.
    pub fn slow_down() -> Self {
        let text = "<?xml version=\"1.0\"?><Error><Code>SlowDown</Code><Message>Please reduce your request rate.</Message></Error>";
        Self::Answer(503, Bytes::from_static(text.as_bytes()))
    }
}

/// One request as received: method, path with query.
pub type Seen = (String, String);

/// A bad network and an overloaded store: four of eleven requests fail, one more is slow.
pub fn bad_weather(number: usize, (method, _): &Seen) -> Fault {
    match number % 11 {
        1 => Fault::slow_down(),
        3 => Fault::Lost,
        5 if method == "GET" => Fault::Truncate(100_000),
        7 => Fault::Hangup,
        9 => Fault::Slow(8 << 20),
        _ => Fault::Pass,
    }
}

/// A running proxy.
pub struct Faults {
    address: SocketAddr,
    seen: Arc<Mutex<Vec<Seen>>>,
}

impl Faults {
    /// Forwards to `to`, from an address of its own. `decide` is called for each request, counted from 0.
    pub async fn before(
        to: SocketAddr,
        decide: impl Fn(usize, &Seen) -> Fault + Send + Sync + 'static,
    ) -> Result<Self> {
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let address = listener.local_addr()?;
        let seen: Arc<Mutex<Vec<Seen>>> = Arc::default();
        tokio::spawn(accept(listener, to, seen.clone(), decide));
        Ok(Self { address, seen })
    }

    /// The address on which it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Every request so far.
    pub fn seen(&self) -> Vec<Seen> {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

/// A proxy in a lab's outside network, on its own thread. It ends when this is dropped.
#[derive(Debug)]
pub(crate) struct Outside {
    end: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Outside {
    /// The proxy accepts connections once this returns.
    pub(crate) fn start(
        namespace: &str,
        listen: SocketAddr,
        to: SocketAddr,
        decide: impl Fn(usize, &Seen) -> Fault + Send + Sync + 'static,
    ) -> Result<Self> {
        let (end, ended) = oneshot::channel();
        let (ready, listens) = std::sync::mpsc::channel();
        let namespace = namespace.to_owned();
        let thread = std::thread::spawn(move || {
            let made = outside::enter(&namespace).and_then(|()| {
                let runtime = tokio::runtime::Builder::new_current_thread()
                    .enable_all()
                    .build()?;
                let listener = runtime
                    .block_on(TcpListener::bind(listen))
                    .with_context(|| format!("listening on {listen}"))?;
                Ok((runtime, listener))
            });
            match made {
                Ok((runtime, listener)) => {
                    let _ = ready.send(Ok(()));
                    runtime.block_on(async {
                        tokio::select! {
                            () = accept(listener, to, Arc::default(), decide) => {}
                            _ = ended => {}
                        }
                    });
                }
                Err(error) => drop(ready.send(Err(error))),
            }
        });
        listens.recv().map_err(|_| anyhow!("the proxy panicked"))??;
        Ok(Self {
            end: Some(end),
            thread: Some(thread),
        })
    }
}

impl Drop for Outside {
    fn drop(&mut self) {
        drop(self.end.take());
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

async fn accept(
    listener: TcpListener,
    to: SocketAddr,
    log: Arc<Mutex<Vec<Seen>>>,
    decide: impl Fn(usize, &Seen) -> Fault + Send + Sync + 'static,
) {
    let decide = Arc::new(decide);
    while let Ok((client, _)) = listener.accept().await {
        let (log, decide) = (log.clone(), decide.clone());
        let service = service_fn(move |request: Request<Incoming>| {
            let (log, decide) = (log.clone(), decide.clone());
            async move {
                let path = request.uri().path_and_query().map_or("/", |path| path.as_str());
                let one = (request.method().to_string(), path.to_owned());
                let number = {
                    let mut log = log.lock().unwrap_or_else(PoisonError::into_inner);
                    log.push(one.clone());
                    log.len() - 1
                };
                serve(to, request, decide(number, &one)).await
            }
        });
        tokio::spawn(async move {
            let server = hyper::server::conn::http1::Builder::new();
            // The faults cause errors here.
            let _ = server.serve_connection(TokioIo::new(client), service).await;
        });
    }
}

async fn serve(to: SocketAddr, request: Request<Incoming>, fault: Fault) -> std::io::Result<Response<Body>> {
    match fault {
        Fault::Answer(status, body) => {
            // The body is read first: a client that is still sending would see a broken connection instead of
            // the answer.
            request.into_body().collect().await.map_err(broken)?;
            let answer = Response::builder()
                .status(status)
                .header("content-type", "application/xml");
            answer
                .body(Full::new(body).map_err(|never| match never {}).boxed_unsync())
                .map_err(std::io::Error::other)
        }
        Fault::Hangup => Err(std::io::ErrorKind::ConnectionReset.into()),
        Fault::Lost => {
            let answer = forward(to, request, None).await?;
            answer.into_body().collect().await.map_err(broken)?;
            Err(std::io::ErrorKind::ConnectionReset.into())
        }
        Fault::Pass => Ok(forward(to, request, None)
            .await?
            .map(|body| paced(body, None, None))),
        Fault::Truncate(bytes) => Ok(forward(to, request, None)
            .await?
            .map(|body| paced(body, None, Some(bytes)))),
        Fault::Slow(rate) => Ok(forward(to, request, Some(rate))
            .await?
            .map(|body| paced(body, Some(rate), None))),
    }
}

async fn forward(
    to: SocketAddr,
    request: Request<Incoming>,
    rate: Option<u32>,
) -> std::io::Result<Response<Incoming>> {
    let stream = TcpStream::connect(to).await?;
    let (mut sender, connection) = hyper::client::conn::http1::handshake(TokioIo::new(stream))
        .await
        .map_err(broken)?;
    tokio::spawn(connection);
    sender
        .send_request(request.map(|body| paced(body, rate, None)))
        .await
        .map_err(broken)
}

/// The body, slowed down or truncated.
fn paced(body: Incoming, rate: Option<u32>, keep: Option<usize>) -> Body {
    if rate.is_none() && keep.is_none() {
        return body.map_err(broken).boxed_unsync();
    }
    let stream = futures::stream::try_unfold((body, keep), move |(mut body, mut keep)| async move {
        let Some(frame) = body.frame().await else {
            return Ok(None);
        };
        let mut data = frame.map_err(broken)?.into_data().unwrap_or_default();
        if let Some(left) = &mut keep {
            if *left == 0 {
                // The bytes before the cut have to be sent first.
                tokio::time::sleep(Duration::from_millis(50)).await;
                return Err(std::io::ErrorKind::ConnectionReset.into());
            }
            data.truncate(*left);
            *left -= data.len();
        }
        if let Some(rate) = rate {
            let size = u32::try_from(data.len()).unwrap_or(u32::MAX);
            tokio::time::sleep(Duration::from_secs(1) * size / rate).await;
        }
        Ok(Some((Frame::data(data), (body, keep))))
    });
    // The length in the headers is not changed.
    StreamBody::new(stream).boxed_unsync()
}

fn broken(error: hyper::Error) -> std::io::Error {
    std::io::Error::other(error)
}
