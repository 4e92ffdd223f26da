//! HTTP/1 over the agent's Unix socket, with deadlines and bounded answers.

use std::io;
use std::path::PathBuf;
use std::time::Duration;

use bytes::Bytes;
use http_body_util::{BodyExt, Full, Limited};
use hyper::{Method, Request, StatusCode};
use hyper_util::rt::TokioIo;
use serde::Serialize;
use serde::de::DeserializeOwned;
use tokio::net::UnixStream;

use super::exit::{Exit, Failure};
use crate::model::{ApiError, BackupId, Page};
use crate::paths::Paths;

/// Largest answer that is read, in bytes.
const MAX_BODY: usize = 8 << 20;
/// How long one call may take by default.
const DEADLINE: Duration = Duration::from_secs(30);

/// How a call to the agent failed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CallError {
    /// No agent answers.
    #[error("{0}")]
    Unreachable(String),
    /// The agent answered with an error.
    #[error("{text}")]
    Answered {
        /// HTTP status.
        status: u16,
        /// What the agent said.
        text: String,
    },
    /// The agent accepted the request and did not answer in time.
    #[error("{0}")]
    TimedOut(String),
    /// The answer is malformed.
    #[error("{0}")]
    Broken(String),
}

impl From<CallError> for Failure {
    fn from(error: CallError) -> Self {
        let exit = match &error {
            CallError::Unreachable(_) | CallError::Answered { status: 503, .. } => Exit::Unreachable,
            CallError::Answered {
                status: 400 | 403 | 409 | 422,
                ..
            } => Exit::Refused,
            CallError::TimedOut(_) => Exit::TimedOut,
            CallError::Answered { .. } | CallError::Broken(_) => Exit::Failed,
        };
        Self::new(exit, error)
    }
}

/// The agent of this host.
#[derive(Debug, Clone)]
pub struct Client {
    socket: PathBuf,
    deadline: Duration,
}

impl Client {
    /// The agent that listens on the admin socket of this host.
    pub fn new(paths: &Paths) -> Self {
        Self {
            socket: paths.admin_socket(),
            deadline: DEADLINE,
        }
    }

    /// The same agent with another deadline for each call: calls that need the store take longer.
    #[must_use]
    pub fn within(&self, deadline: Duration) -> Self {
        Self {
            socket: self.socket.clone(),
            deadline,
        }
    }

    /// `GET` of all pages of a long answer, each within the deadline.
    ///
    /// # Errors
    /// [`CallError`].
    pub async fn all<T: DeserializeOwned>(&self, path: &str) -> Result<Vec<T>, CallError> {
        let mut items = Vec::new();
        let mut last: Option<BackupId> = None;
        loop {
            let asked = last
                .as_ref()
                .map_or_else(|| path.to_owned(), |last| format!("{path}?after={last}"));
            let page: Page<T> = self.get(&asked).await?;
            items.extend(page.items);
            let Some(next) = page.next else {
                return Ok(items);
            };
            if Some(&next) == last.as_ref() {
                return Err(CallError::Broken(format!(
                    "{path}: the pages do not continue after {next}"
                )));
            }
            last = Some(next);
        }
    }

    /// `GET`.
    ///
    /// # Errors
    /// [`CallError`].
    pub async fn get<T: DeserializeOwned>(&self, path: &str) -> Result<T, CallError> {
        self.call(Method::GET, path, Bytes::new()).await
    }

    /// `POST` with a JSON body.
    ///
    /// # Errors
    /// [`CallError`].
    pub async fn post<B: Serialize, T: DeserializeOwned>(
        &self,
        path: &str,
        body: &B,
    ) -> Result<T, CallError> {
        let body = serde_json::to_vec(body).map_err(|error| CallError::Broken(error.to_string()))?;
        self.call(Method::POST, path, body.into()).await
    }

    async fn call<T: DeserializeOwned>(
        &self,
        method: Method,
        path: &str,
        body: Bytes,
    ) -> Result<T, CallError> {
        let what = format!("{method} {path} on {}", self.socket.display());
        match tokio::time::timeout(self.deadline, self.exchange(method, path, body)).await {
            Ok(Ok((status, bytes))) => read(status, &bytes).map_err(|error| match error {
                CallError::Broken(why) => CallError::Broken(format!("{what}: {why}")),
                other => other,
            }),
            Ok(Err(error)) => Err(error),
            Err(_) => Err(CallError::TimedOut(format!(
                "{what}: no answer within {}; see `journalctl -u etcd-agent`",
                humantime::format_duration(self.deadline)
            ))),
        }
    }

    async fn exchange(
        &self,
        method: Method,
        path: &str,
        body: Bytes,
    ) -> Result<(StatusCode, Bytes), CallError> {
        let broken = |error: &dyn std::fmt::Display| {
            CallError::Unreachable(format!(
                "the agent ended the connection: {error}; see `journalctl -u etcd-agent`"
            ))
        };
        let stream = UnixStream::connect(&self.socket)
            .await
            .map_err(|error| self.no_connection(&error))?;
        let (mut sender, connection) = hyper::client::conn::http1::handshake(TokioIo::new(stream))
            .await
            .map_err(|error| broken(&error))?;
        // Ends by itself when the sender is dropped.
        let driver = tokio::spawn(connection);
        let request = Request::builder()
            .method(method)
            .uri(path)
            .header("host", "etcd-agent")
            .header("content-type", "application/json")
            .body(Full::new(body))
            .map_err(|error| CallError::Broken(error.to_string()))?;
        let response = sender
            .send_request(request)
            .await
            .map_err(|error| broken(&error))?;
        let status = response.status();
        let bytes = Limited::new(response.into_body(), MAX_BODY)
            .collect()
            .await
            .map_err(|error| CallError::Broken(format!("reading the agent's answer: {error}")))?
            .to_bytes();
        drop(sender);
        driver.abort();
        Ok((status, bytes))
    }

    fn no_connection(&self, error: &io::Error) -> CallError {
        let socket = self.socket.display();
        let text = match error.kind() {
            io::ErrorKind::NotFound | io::ErrorKind::ConnectionRefused => format!(
                "the agent does not run on this host (nothing answers on {socket}): `systemctl status etcd-agent`, \
                 `systemctl start etcd-agent`"
            ),
            io::ErrorKind::PermissionDenied => {
                format!(
                    "no permission to talk to the agent on {socket}: run as root or as a member of the group etcd-agent"
                )
            }
            _ => format!("cannot talk to the agent on {socket}: {error}"),
        };
        CallError::Unreachable(text)
    }
}

fn read<T: DeserializeOwned>(status: StatusCode, bytes: &[u8]) -> Result<T, CallError> {
    if status.is_success() {
        return serde_json::from_slice(bytes).map_err(|error| {
            CallError::Broken(format!(
                "the answer is not understood ({error}); are the agent and this command of the same version?"
            ))
        });
    }
    let text = serde_json::from_slice::<ApiError>(bytes)
        .map_or_else(|_| format!("the agent answered {status}"), |body| body.error);
    Err(CallError::Answered {
        status: status.as_u16(),
        text,
    })
}
