//! HTTP/1.1 over a connection that is open.

use hyper::body::Body;
use hyper::client::conn::http1::{Builder, SendRequest};
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::task::JoinSet;

/// The sender of requests, and the task that drives the connection until the set is dropped.
pub(super) async fn open<S, B>(stream: S) -> hyper::Result<(SendRequest<B>, JoinSet<()>)>
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    B: Body + Send + 'static,
    B::Data: Send,
    B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
{
    let handshake = Builder::new().max_headers(64).handshake(TokioIo::new(stream));
    let (sender, connection) = handshake.await?;
    let mut driver = JoinSet::new();
    driver.spawn(async move {
        // The sender gets the error, if there is one.
        let _ = connection.await;
    });
    Ok((sender, driver))
}
