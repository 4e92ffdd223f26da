//! Calls to one peer, each with a deadline.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use bytes::Bytes;
use hyper::{Method, StatusCode};
use serde::de::DeserializeOwned;
use tokio::time::timeout;

use super::connection::{Connection, Failure, Target, api_error};
use crate::ports::{PortError, PortResult};

pub(super) const DEADLINE: Duration = Duration::from_secs(2);
/// The deadline of a call for which the peer looks again. Longer than the peer waits for its look
/// (`LOOK_WITHIN` in `agent/api/fresh.rs`).
pub(super) const LOOK_DEADLINE: Duration = Duration::from_secs(8);
/// How long an idle connection is kept. Shorter than the server's idle timeout, so that the server rarely
/// closes it first.
const KEEP: Duration = Duration::from_secs(3);

/// Calls one peer. It keeps the last connection for a moment, because the steps of a genesis follow each
/// other closely.
pub(super) struct Caller {
    target: Arc<Target>,
    kept: Mutex<Option<(Connection, Instant)>>,
}

impl Caller {
    pub(super) fn new(target: Arc<Target>) -> Self {
        Self {
            target,
            kept: Mutex::new(None),
        }
    }

    pub(super) fn target(&self) -> &Target {
        &self.target
    }

    /// Makes one call. A failure before the request was sent is retryable. After a later failure the outcome
    /// is unknown.
    pub(super) async fn call<R: DeserializeOwned>(
        &self,
        method: Method,
        path: &str,
        body: Vec<u8>,
    ) -> PortResult<R> {
        self.call_within(DEADLINE, method, path, body).await
    }

    /// Makes one call with another deadline.
    pub(super) async fn call_within<R: DeserializeOwned>(
        &self,
        deadline: Duration,
        method: Method,
        path: &str,
        body: Vec<u8>,
    ) -> PortResult<R> {
        let what = format!("{method} {path} to the {}", self.target.describe());
        let sending = AtomicBool::new(false);
        let outcome = timeout(deadline, self.exchange(method, path, body, &sending)).await;
        let (status, body) = match outcome {
            Ok(Ok(answer)) => answer,
            Ok(Err(Failure { sent: false, why })) => {
                return Err(PortError::Retryable(format!("{what}: {why}")));
            }
            Ok(Err(Failure { sent: true, why })) => {
                return Err(PortError::OutcomeUnknown(format!("{what}: {why}")));
            }
            Err(_) => {
                let text = format!("{what}: no answer within {} s", deadline.as_secs());
                return Err(if sending.load(Ordering::Relaxed) {
                    PortError::OutcomeUnknown(text)
                } else {
                    PortError::Retryable(text)
                });
            }
        };
        if status.is_success() {
            return serde_json::from_slice(&body).map_err(|error| {
                PortError::OutcomeUnknown(format!("{what}: its answer is not understood: {error}"))
            });
        }
        let text = format!("{what}: {}", api_error(status, &body));
        Err(match status {
            StatusCode::SERVICE_UNAVAILABLE => PortError::Retryable(text),
            status if status.is_client_error() => PortError::Permanent(text),
            _ => PortError::OutcomeUnknown(text),
        })
    }

    async fn exchange(
        &self,
        method: Method,
        path: &str,
        body: Vec<u8>,
        sending: &AtomicBool,
    ) -> Result<(StatusCode, Bytes), Failure> {
        if let Some(mut connection) = self.take() {
            let request = self.target.request(method.clone(), path, body.clone())?;
            sending.store(true, Ordering::Relaxed);
            match connection.exchange(request).await {
                Ok(answer) => {
                    self.keep(connection);
                    return Ok(answer);
                }
                // The kept connection was closed while idle; open a new one.
                Err(Failure { sent: false, .. }) => sending.store(false, Ordering::Relaxed),
                Err(failure) => return Err(failure),
            }
        }
        let mut connection = self.target.connect().await?;
        let request = self.target.request(method, path, body)?;
        sending.store(true, Ordering::Relaxed);
        let answer = connection.exchange(request).await?;
        self.keep(connection);
        Ok(answer)
    }

    fn take(&self) -> Option<Connection> {
        let kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner).take();
        kept.filter(|(connection, since)| {
            since.elapsed() < KEEP && connection.is_usable(self.target.tls.as_ref())
        })
        .map(|(connection, _)| connection)
    }

    fn keep(&self, connection: Connection) {
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        *kept = Some((connection, Instant::now()));
    }
}
