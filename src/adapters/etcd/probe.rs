//! Checks whether an etcd answers at all. Any byte that comes back is an answer: an etcd that refuses our
//! certificate, or wants a password, is alive. A connection that the kernel accepts for a hanging process is
//! not an answer. If this host could not ask (the name does not resolve, no route, no file descriptor left),
//! the probe says nothing about the other side.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use hyper::Uri;
use rustls::pki_types::ServerName;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::time::timeout;
use tokio_rustls::TlsConnector;

use crate::adapters::dial::{DialError, is_silence, lookup, reach};
use crate::adapters::tls::Tls;
use crate::ports::{PortError, PortResult};

/// The deadline for the whole request, connection included. The name lookup has its own deadline.
const DEADLINE: Duration = Duration::from_secs(2);

/// Asks the etcd at this client URL for its version.
pub(super) async fn probe(url: &str, tls: Option<Arc<Tls>>) -> PortResult<()> {
    let silent = |why: String| PortError::Retryable(format!("etcd at {url} does not answer: {why}"));
    let unasked = |why: String| PortError::Permanent(format!("cannot ask the etcd at {url}: {why}"));
    let no_url = || unasked("it is not a URL with a host and a port".to_owned());
    let uri: Uri = url.parse().map_err(|_| no_url())?;
    let host = uri.host().ok_or_else(no_url)?.trim_matches(['[', ']']);
    let port = uri.port_u16().ok_or_else(no_url)?;
    let tls = tls.filter(|_| uri.scheme_str() == Some("https"));
    let name = tls
        .as_ref()
        .map(|_| ServerName::try_from(host.to_owned()))
        .transpose()
        .map_err(|error| unasked(error.to_string()))?;
    // The lookup comes first: an address that could not be asked does not count as silent.
    let addresses = lookup(host, port)
        .await
        .map_err(|error| unasked(error.to_string()))?;
    let asked = async {
        let stream = reach(&addresses).await?;
        let answered = match tls.zip(name) {
            None => version(stream, host).await,
            Some((tls, name)) => {
                let (config, _) = tls.client(None, &[b"http/1.1"]);
                match TlsConnector::from(config).connect(name, stream).await {
                    Ok(stream) => version(stream, host).await,
                    Err(error) => answered(error),
                }
            }
        };
        answered.map_err(|error| {
            if is_silence(&error) {
                DialError::Silent(error)
            } else {
                DialError::Unasked(error.to_string())
            }
        })
    };
    match timeout(DEADLINE, asked).await {
        Ok(Ok(())) => Ok(()),
        Ok(Err(DialError::Silent(error))) => Err(silent(error.to_string())),
        Ok(Err(DialError::Unasked(why))) => Err(unasked(why)),
        Err(_) => Err(silent(format!("nothing within {} s", DEADLINE.as_secs()))),
    }
}

async fn version(mut stream: impl AsyncRead + AsyncWrite + Unpin, host: &str) -> io::Result<()> {
    let request = format!("GET /version HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n");
    let asked = async {
        stream.write_all(request.as_bytes()).await?;
        stream.flush().await?;
        stream.read_u8().await
    };
    match asked.await {
        Ok(_) => Ok(()),
        Err(error) => answered(error),
    }
}

/// Treats a TLS error as an answer of the peer.
fn answered(error: io::Error) -> io::Result<()> {
    if error.kind() == io::ErrorKind::InvalidData {
        return Ok(());
    }
    Err(error)
}
