//! Does an etcd answer at all? Any byte that comes back is an answer: one that refuses our certificate, or wants a
//! password, is alive. A connection that the kernel accepts for a process that hangs is none.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use hyper::Uri;
use rustls::pki_types::ServerName;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::timeout;
use tokio_rustls::TlsConnector;

use crate::adapters::tls::Tls;
use crate::ports::{PortError, PortResult};

/// The whole question, connection included.
const DEADLINE: Duration = Duration::from_secs(2);

/// Asks the etcd at this client URL for its version.
pub(super) async fn probe(url: &str, tls: Option<Arc<Tls>>) -> PortResult<()> {
    let silent = |why: String| PortError::Retryable(format!("etcd at {url} does not answer: {why}"));
    match timeout(DEADLINE, ask(url, tls)).await {
        Ok(Ok(())) => Ok(()),
        Ok(Err(error)) if error.kind() == io::ErrorKind::InvalidInput => Err(PortError::Permanent(format!(
            "cannot ask the etcd at {url}: {error}"
        ))),
        Ok(Err(error)) => Err(silent(error.to_string())),
        Err(_) => Err(silent(format!("nothing within {} s", DEADLINE.as_secs()))),
    }
}

async fn ask(url: &str, tls: Option<Arc<Tls>>) -> io::Result<()> {
    let no_url = || io::Error::new(io::ErrorKind::InvalidInput, "it is no URL of a host and a port");
    let uri: Uri = url.parse().map_err(|_| no_url())?;
    let host = uri.host().ok_or_else(no_url)?.trim_matches(['[', ']']).to_owned();
    let port = uri.port_u16().ok_or_else(no_url)?;
    let stream = TcpStream::connect((host.as_str(), port)).await?;
    let Some(tls) = tls.filter(|_| uri.scheme_str() == Some("https")) else {
        return version(stream, &host).await;
    };
    let name = ServerName::try_from(host.clone())
        .map_err(|error| io::Error::new(io::ErrorKind::InvalidInput, error.to_string()))?;
    let (config, _) = tls.client(None, &[b"http/1.1"]);
    match TlsConnector::from(config).connect(name, stream).await {
        Ok(stream) => version(stream, &host).await,
        Err(error) => answered(&error),
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
        Err(error) => answered(&error),
    }
}

/// What TLS does not like came from somebody.
fn answered(error: &io::Error) -> io::Result<()> {
    if error.kind() == io::ErrorKind::InvalidData {
        return Ok(());
    }
    Err(io::Error::new(error.kind(), error.to_string()))
}
