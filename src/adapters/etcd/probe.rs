//! Asks an etcd for `/version` on its client port: to learn the version of its cluster, or only whether it answers at
//! all. For the latter any byte that comes back is an answer: an etcd that refuses our certificate, or wants a
//! password, is alive. A connection that the kernel accepts for a hanging process is not an answer. If this host could
//! not ask (the name does not resolve, no route, no file descriptor left), the probe says nothing about the other side.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use hyper::Uri;
use rustls::crypto::ring::default_provider;
use rustls::pki_types::ServerName;
use rustls::{ClientConfig, RootCertStore};
use serde::Deserialize;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::time::timeout;
use tokio_rustls::TlsConnector;

use crate::adapters::dial::{DialError, is_silence, lookup, reach};
use crate::adapters::tls::Tls;
use crate::model::EtcdVersion;
use crate::ports::{PortError, PortResult};

/// The deadline for the whole request, connection included. The name lookup has its own deadline.
const DEADLINE: Duration = Duration::from_secs(2);

/// The longest answer that is read, in bytes. etcd's has less than 300.
const LONGEST: u64 = 16 << 10;

/// Whether the etcd at this client URL answers.
pub(super) async fn probe(url: &str, tls: Option<Arc<Tls>>) -> PortResult<()> {
    ask(url, tls, 1).await.map(drop)
}

/// The version of the cluster of the etcd at this client URL, which is the minor of its oldest member; `None` while the
/// members have not agreed on one, or if the answer cannot be read.
pub(super) async fn cluster_version(url: &str, tls: Option<Arc<Tls>>) -> PortResult<Option<EtcdVersion>> {
    let answer = ask(url, tls, LONGEST).await?;
    Ok(cluster_version_in(&String::from_utf8_lossy(&answer)))
}

/// etcd answers `{"etcdserver":"3.5.16","etcdcluster":"3.4.0"}`.
fn cluster_version_in(answer: &str) -> Option<EtcdVersion> {
    #[derive(Deserialize)]
    struct Version {
        etcdcluster: String,
    }
    let (_, body) = answer.split_once("\r\n\r\n")?;
    let version: Version = serde_json::from_str(body).ok()?;
    EtcdVersion::reported(&version.etcdcluster)
}

/// The first bytes of the answer, at most `most`; none if it is an error of TLS.
async fn ask(url: &str, tls: Option<Arc<Tls>>, most: u64) -> PortResult<Vec<u8>> {
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
            None => match version(stream, host, most).await {
                // etcd closes a connection that does not begin with a handshake, if it serves over TLS.
                Err(error) if is_silence(&error) => shake_hands(reach(&addresses).await?, host).await,
                answered => answered,
            },
            Some((tls, name)) => {
                let (config, _) = tls.client(None, &[b"http/1.1"]);
                match TlsConnector::from(config).connect(name, stream).await {
                    Ok(stream) => version(stream, host, most).await,
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
        Ok(Ok(answer)) => Ok(answer),
        Ok(Err(DialError::Silent(error))) => Err(silent(error.to_string())),
        Ok(Err(DialError::Unasked(why))) => Err(unasked(why)),
        Err(_) => Err(silent(format!("nothing within {} s", DEADLINE.as_secs()))),
    }
}

async fn version(
    mut stream: impl AsyncRead + AsyncWrite + Unpin,
    host: &str,
    most: u64,
) -> io::Result<Vec<u8>> {
    let request = format!("GET /version HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n");
    let mut answer = Vec::new();
    let asked = async {
        stream.write_all(request.as_bytes()).await?;
        stream.flush().await?;
        (&mut stream).take(most).read_to_end(&mut answer).await
    };
    match asked.await {
        Ok(0) => Err(io::ErrorKind::UnexpectedEof.into()),
        Ok(_) => Ok(answer),
        Err(error) => answered(error),
    }
}

/// An empty answer if there is an etcd that serves over TLS. Its certificate is not verified: only that
/// something answers counts.
async fn shake_hands(stream: impl AsyncRead + AsyncWrite + Unpin, host: &str) -> io::Result<Vec<u8>> {
    let config = ClientConfig::builder_with_provider(Arc::new(default_provider()))
        .with_safe_default_protocol_versions()
        .map_err(io::Error::other)?
        .with_root_certificates(RootCertStore::empty())
        .with_no_client_auth();
    let name = ServerName::try_from(host.to_owned())
        .map_err(|error| io::Error::new(io::ErrorKind::InvalidInput, error))?;
    match TlsConnector::from(Arc::new(config)).connect(name, stream).await {
        Ok(_) => Ok(Vec::new()),
        Err(error) => answered(error),
    }
}

/// Treats a TLS error as an answer of the peer.
fn answered(error: io::Error) -> io::Result<Vec<u8>> {
    if error.kind() == io::ErrorKind::InvalidData {
        return Ok(Vec::new());
    }
    Err(error)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_version_of_the_cluster_is_read_or_unknown() {
        let answer = |body: &str| format!("HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n\r\n{body}");
        let mixed = answer(r#"{"etcdserver":"3.5.16","etcdcluster":"3.4.0"}"#);
        assert_eq!(cluster_version_in(&mixed), EtcdVersion::reported("3.4.0"));
        for unknown in [
            String::new(),
            answer(""),
            answer(r#"{"etcdserver":"3.5.16","etcdcluster":"not_decided"}"#),
        ] {
            assert_eq!(cluster_version_in(&unknown), None, "{unknown:?}");
        }
    }
}
