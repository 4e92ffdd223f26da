//! One HTTP/1.1 connection to a peer's agent.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http_body_util::{BodyExt, Full, Limited};
use hyper::client::conn::http1::SendRequest;
use hyper::{Method, Request, StatusCode, header};
use rustls::Error as TlsError;
use rustls::pki_types::ServerName;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::Notify;
use tokio::task::JoinSet;
use tokio::time::timeout;
use tokio_rustls::TlsConnector;

use crate::adapters::dial::{DialError, dial};
use crate::adapters::http1;
use crate::adapters::tls::{Tls, explain, find};
use crate::model::{ApiError, ClusterName, NodeName, NodeStatus};

const CONNECT: Duration = Duration::from_secs(2);
const ANSWER_BYTES: usize = 1024 * 1024;

/// The address of a peer's agent, and the identity that it must have.
pub(super) struct Target {
    pub(super) node: NodeName,
    pub(super) cluster: ClusterName,
    pub(super) address: String,
    pub(super) port: u16,
    pub(super) tls: Option<Arc<Tls>>,
}

/// Why there is no answer. The text is only the reason; it does not name the peer or the request.
#[derive(Debug)]
pub(super) struct Failure {
    /// False if the request certainly never reached the agent.
    pub(super) sent: bool,
    pub(super) why: String,
}

impl Failure {
    fn unsent(why: impl Into<String>) -> Self {
        Self {
            sent: false,
            why: why.into(),
        }
    }
    fn sent(why: impl Into<String>) -> Self {
        Self {
            sent: true,
            why: why.into(),
        }
    }
}

impl Target {
    /// `agent of n2 at 10.0.0.2:2381`, for messages.
    pub(super) fn describe(&self) -> String {
        format!("agent of {} at {}", self.node, self.authority())
    }

    fn authority(&self) -> String {
        if self.address.contains(':') {
            format!("[{}]:{}", self.address, self.port)
        } else {
            format!("{}:{}", self.address, self.port)
        }
    }

    /// Refuses the status of another node or cluster.
    pub(super) fn expected(&self, status: NodeStatus) -> Result<NodeStatus, String> {
        if status.node == self.node && status.cluster == self.cluster {
            Ok(status)
        } else {
            Err(format!(
                "{} answers as {} of cluster {}, expected {} of cluster {}",
                self.describe(),
                status.node,
                status.cluster,
                self.node,
                self.cluster
            ))
        }
    }

    pub(super) async fn connect(&self) -> Result<Connection, Failure> {
        timeout(CONNECT, self.connect_unbounded())
            .await
            .unwrap_or_else(|_| {
                Err(Failure::unsent(format!(
                    "no connection within {} s",
                    CONNECT.as_secs()
                )))
            })
    }

    async fn connect_unbounded(&self) -> Result<Connection, Failure> {
        let stream = dial(&self.address, self.port)
            .await
            .map_err(|error| match error {
                DialError::Unasked(why) => Failure::unsent(why),
                DialError::Silent(error) => Failure::unsent(explain(&error)),
            })?;
        stream
            .set_nodelay(true)
            .map_err(|error| Failure::unsent(explain(&error)))?;
        let Some(tls) = &self.tls else {
            return Connection::over(stream, 0).await;
        };
        let (config, generation) = tls.client_of_agent(self.node.as_str(), &[b"http/1.1"]);
        let name = ServerName::try_from(self.address.clone())
            .or_else(|_| ServerName::try_from(self.node.as_str().to_owned()))
            .map_err(|_| Failure::unsent(format!("{} is not a host name or IP address", self.address)))?;
        let stream = TlsConnector::from(config)
            .connect(name, stream)
            .await
            .map_err(|error| Failure::unsent(explain(&error)))?;
        Connection::over(stream, generation).await
    }

    /// The request, ready to be sent.
    pub(super) fn request(
        &self,
        method: Method,
        path: &str,
        body: Vec<u8>,
    ) -> Result<Request<Full<Bytes>>, Failure> {
        Request::builder()
            .method(method)
            .uri(path)
            .header(header::HOST, self.authority())
            .header(header::CONTENT_TYPE, "application/json")
            .body(Full::new(Bytes::from(body)))
            .map_err(|error| Failure::unsent(error.to_string()))
    }
}

/// An open connection. Dropping it closes it.
pub(super) struct Connection {
    sender: SendRequest<Full<Bytes>>,
    _driver: JoinSet<()>,
    /// The TLS generation at the time of the handshake.
    generation: u64,
}

impl Connection {
    async fn over<S>(stream: S, generation: u64) -> Result<Self, Failure>
    where
        S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    {
        let (sender, driver) = http1::open(stream)
            .await
            .map_err(|error| Failure::unsent(explain(&error)))?;
        Ok(Self {
            sender,
            _driver: driver,
            generation,
        })
    }

    /// True if the connection can take another request and was made with the current certificates.
    pub(super) fn is_usable(&self, tls: Option<&Arc<Tls>>) -> bool {
        !self.sender.is_closed() && tls.is_none_or(|tls| tls.generation() == self.generation)
    }

    /// Sends a request and reads its whole answer.
    pub(super) async fn exchange(
        &mut self,
        request: Request<Full<Bytes>>,
    ) -> Result<(StatusCode, Bytes), Failure> {
        self.exchange_notifying(request, &Notify::new()).await
    }

    /// Like [`Connection::exchange`]. Notifies `received` whenever a part of the answer arrives.
    pub(super) async fn exchange_notifying(
        &mut self,
        request: Request<Full<Bytes>>,
        received: &Notify,
    ) -> Result<(StatusCode, Bytes), Failure> {
        self.sender
            .ready()
            .await
            .map_err(|error| Failure::unsent(explain(&error)))?;
        let response = self.sender.try_send_request(request).await.map_err(|mut error| {
            let unsent = error.take_message().is_some();
            let error = error.into_error();
            Failure {
                // With TLS 1.3 the peer verifies our certificate only after we have sent our first bytes.
                sent: !unsent && !matches!(find(&error), Some(TlsError::AlertReceived(_))),
                why: text(&error),
            }
        })?;
        received.notify_one();
        let status = response.status();
        let body = response.into_body().map_frame(|frame| {
            received.notify_one();
            frame
        });
        let body = Limited::new(body, ANSWER_BYTES)
            .collect()
            .await
            .map_err(|error| {
                Failure::sent(format!("its answer cannot be read: {}", explain(error.as_ref())))
            })?;
        Ok((status, body.to_bytes()))
    }
}

fn text(error: &hyper::Error) -> String {
    if error.is_parse() {
        "it does not speak plain HTTP: is api.insecure set on one side only?".to_owned()
    } else if error.is_incomplete_message() || error.is_canceled() {
        "the other side closed the connection".to_owned()
    } else {
        explain(error)
    }
}

/// The text of an error answer.
pub(super) fn api_error(status: StatusCode, body: &[u8]) -> String {
    let said = match serde_json::from_slice::<ApiError>(body) {
        Ok(error) => error.error,
        Err(_) => String::from_utf8_lossy(body).into_owned(),
    };
    crate::adapters::tls::one_line(&format!("{} ({})", said.trim(), status.as_u16()))
}
