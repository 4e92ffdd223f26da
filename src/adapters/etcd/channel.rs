//! The connection to the local etcd: opened when needed, over our own TLS, and opened again when certificates
//! change.

use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use hyper::Uri;
use hyper_util::rt::TokioIo;
use rustls::pki_types::ServerName;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::time::timeout;
use tokio_rustls::TlsConnector;
use tonic::transport::{Channel, Endpoint};

use crate::adapters::dial::dial;
use crate::adapters::tls::{Tls, explain};
use crate::model::TlsFiles;

const CONNECT: Duration = Duration::from_secs(1);
/// The flow-control window, in bytes: how much etcd sends before the agent reads it. The round trip is short,
/// and a snapshot comes in chunks of 64 KiB.
const UNREAD: u32 = 1024 * 1024;

/// The address of an etcd.
#[derive(Debug, Clone)]
pub(super) struct Address {
    /// Host name or IP address.
    pub(super) host: String,
    pub(super) port: u16,
    /// The node's name. Its certificate may contain this name instead of the address.
    pub(super) node: String,
    /// For messages.
    pub(super) url: String,
}

/// Makes channels to the local etcd.
pub(super) struct Connector {
    address: Address,
    ways: Mutex<Ways>,
    current: Kept,
    watching: Kept,
}

/// How etcd may serve: over TLS with one of these files, or in plain HTTP (`None`). It has one way, except
/// between the order of a restart and the look at the new process.
struct Ways {
    all: Vec<Option<TlsFiles>>,
    /// Which of them is tried, and how often that has changed.
    tried: usize,
    changes: u64,
    tls: Option<Arc<Tls>>,
}

impl Ways {
    fn files(&self) -> Option<&TlsFiles> {
        self.all.get(self.tried).and_then(Option::as_ref)
    }

    fn try_way(&mut self, which: usize) {
        self.tried = which;
        self.changes += 1;
        self.tls = None;
    }
}

/// A channel that is reused while the way and its certificates stay the same.
#[derive(Default)]
struct Kept(Mutex<Option<((u64, u64), Channel)>>);

impl Kept {
    fn forget(&self) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = None;
    }
}

trait Stream: AsyncRead + AsyncWrite + Unpin + Send {}
impl<S: AsyncRead + AsyncWrite + Unpin + Send> Stream for S {}

impl Connector {
    pub(super) fn new(address: Address, files: Option<TlsFiles>) -> Self {
        Self {
            address,
            ways: Mutex::new(Ways {
                all: vec![files],
                tried: 0,
                changes: 0,
                tls: None,
            }),
            current: Kept::default(),
            watching: Kept::default(),
        }
    }

    /// The URL, with the scheme of the way that is tried.
    pub(super) fn url(&self) -> String {
        let scheme = if self.files().is_some() { "https" } else { "http" };
        match self.address.url.split_once("://") {
            Some((_, rest)) => format!("{scheme}://{rest}"),
            None => self.address.url.clone(),
        }
    }

    /// The files of the way that is tried.
    pub(super) fn files(&self) -> Option<TlsFiles> {
        self.ways().files().cloned()
    }

    /// From now on etcd serves in one of these ways; the first one is tried first, unless another one of them
    /// is in use.
    pub(super) fn serves_in(&self, all: Vec<Option<TlsFiles>>) {
        let mut ways = self.ways();
        if ways.all == all || all.is_empty() {
            return;
        }
        let in_use = ways.files().cloned();
        let still = all.iter().position(|way| *way == in_use);
        ways.all = all;
        match still {
            Some(which) => ways.tried = which,
            None => ways.try_way(0),
        }
    }

    /// Tries another way from the next request on, after one has failed.
    pub(super) fn try_another(&self) {
        let mut ways = self.ways();
        if let Some(next) = (ways.tried + 1).checked_rem(ways.all.len())
            && next != ways.tried
        {
            ways.try_way(next);
        }
    }

    fn ways(&self) -> MutexGuard<'_, Ways> {
        self.ways.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The shared channel. It connects at the first request, and again at the next request after a failure:
    /// an etcd that is down costs one refused connection for each request, and nothing in between.
    pub(super) fn channel(&self) -> Result<Channel, String> {
        self.kept(&self.current)
    }

    /// The channel of the watch. It is separate so that unread watch messages do not block other requests.
    pub(super) fn watch_channel(&self) -> Result<Channel, String> {
        self.kept(&self.watching)
    }

    /// A channel that is not shared, for a long stream.
    pub(super) fn own_channel(&self) -> Result<Channel, String> {
        self.fresh(self.tls()?)
    }

    /// Drops the shared channel, after its connection did not answer.
    pub(super) fn reset(&self) {
        self.current.forget();
    }

    /// Drops the channel of the watch, after its connection did not answer.
    pub(super) fn reset_watch(&self) {
        self.watching.forget();
    }

    /// The certificates. Each call tries to load them until it succeeds, because they may be installed after
    /// the agent has started.
    pub(super) fn tls(&self) -> Result<Option<Arc<Tls>>, String> {
        Self::tls_of(&mut self.ways())
    }

    fn tls_of(ways: &mut Ways) -> Result<Option<Arc<Tls>>, String> {
        if let Some(files) = ways.files().cloned()
            && ways.tls.is_none()
        {
            ways.tls = Some(Tls::load(files).map_err(|error| error.to_string())?);
        }
        Ok(ways.tls.clone())
    }

    fn kept(&self, kept: &Kept) -> Result<Channel, String> {
        let (changes, tls) = {
            let mut ways = self.ways();
            (ways.changes, Self::tls_of(&mut ways)?)
        };
        let generation = (changes, tls.as_ref().map_or(0, |tls| tls.generation()));
        let mut kept = kept.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((of, channel)) = &*kept
            && *of == generation
        {
            return Ok(channel.clone());
        }
        let channel = self.fresh(tls)?;
        *kept = Some((generation, channel.clone()));
        Ok(channel)
    }

    fn fresh(&self, tls: Option<Arc<Tls>>) -> Result<Channel, String> {
        // The scheme is always http, because the connector itself does TLS.
        let authority = if self.address.host.contains(':') {
            format!("[{}]:{}", self.address.host, self.address.port)
        } else {
            format!("{}:{}", self.address.host, self.address.port)
        };
        let endpoint = Endpoint::from_shared(format!("http://{authority}"))
            .map_err(|error| format!("{} is not a URL: {error}", self.address.url))?
            .initial_stream_window_size(UNREAD)
            .initial_connection_window_size(UNREAD);
        let address = self.address.clone();
        let connector = tower::service_fn(move |_: Uri| {
            let (address, tls) = (address.clone(), tls.clone());
            async move {
                timeout(CONNECT, connect(address, tls)).await.unwrap_or_else(|_| {
                    Err(io::Error::new(
                        io::ErrorKind::TimedOut,
                        format!("no connection within {} s", CONNECT.as_secs()),
                    ))
                })
            }
        });
        Ok(endpoint.connect_with_connector_lazy(connector))
    }
}

async fn connect(address: Address, tls: Option<Arc<Tls>>) -> io::Result<TokioIo<Box<dyn Stream>>> {
    let stream = dial(&address.host, address.port).await?;
    stream.set_nodelay(true)?;
    let Some(tls) = tls else {
        return Ok(TokioIo::new(Box::new(stream)));
    };
    let name = ServerName::try_from(address.host.clone())
        .or_else(|_| ServerName::try_from(address.node.clone()))
        .map_err(|error| io::Error::new(io::ErrorKind::InvalidInput, error.to_string()))?;
    let (config, _) = tls.client(Some(&address.node), &[b"h2"]);
    let stream = TlsConnector::from(config)
        .connect(name, stream)
        .await
        .map_err(|error| io::Error::other(explain(&error)))?;
    Ok(TokioIo::new(Box::new(stream)))
}
