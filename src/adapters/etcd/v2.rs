//! The keys of etcd's v2 API, read from a member that serves it (`enable-v2`, etcd 3.4 and 3.5).
//!
//! One directory at a time, so that no answer holds the whole tree. A read with `quorum=true` would be an entry of the
//! log on which etcd 3.6 panics, so a read of the v3 API goes first: the member has then applied everything that was
//! acknowledged before. Source: <https://etcd.io/docs/v2.3/api/>.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http_body_util::{BodyExt, Empty, Limited};
use hyper::client::conn::http1::SendRequest;
use hyper::{Request, StatusCode, Uri, header};
use rustls::pki_types::ServerName;
use serde::Deserialize;
use tokio::task::JoinSet;
use tokio::time::timeout;
use tokio_rustls::TlsConnector;

use crate::adapters::dial::{lookup, reach};
use crate::adapters::http1;
use crate::adapters::tls::{Tls, explain, one_line};
use crate::model::V2Key;
use crate::ports::{PortError, PortResult};

/// How long one answer may take.
const ANSWER: Duration = Duration::from_secs(10);
/// The largest answer, in bytes. It holds the values of one directory.
const ANSWER_BYTES: usize = 64 << 20;
/// The most that is carried, keys and bytes. The agent holds all of it in memory.
const MOST_KEYS: usize = 100_000;
const MOST_BYTES: usize = 256 << 20;
/// `errorCode` of an answer: there is no such key (`EcodeKeyNotFound`).
const NOT_FOUND: u64 = 100;

#[derive(Deserialize)]
struct Answer {
    node: Node,
}

/// A key, or a directory with what is in it.
#[derive(Deserialize)]
struct Node {
    #[serde(default)]
    key: String,
    #[serde(default)]
    value: String,
    #[serde(default)]
    dir: bool,
    ttl: Option<i64>,
    #[serde(default)]
    nodes: Vec<Node>,
}

#[derive(Deserialize)]
struct Refusal {
    #[serde(rename = "errorCode")]
    code: u64,
    message: String,
}

/// What a member answered for one name.
enum Found {
    Node(Node),
    /// There is no such key.
    Nothing,
    /// The member does not serve the API.
    NotServed,
}

/// All keys, those below the `hidden` names included; `None` if the member at this client URL does not serve the API.
pub(super) async fn keys(
    url: &str,
    tls: Option<Arc<Tls>>,
    hidden: &BTreeSet<String>,
) -> PortResult<Option<Vec<V2Key>>> {
    let mut api = Api::connect(url, tls).await?;
    let mut directories = vec![("/".to_owned(), None)];
    directories.extend(hidden.iter().map(|name| (name.clone(), None)));
    let (mut keys, mut bytes) = (Vec::new(), 0);
    while let Some((name, above)) = directories.pop() {
        let node = match api.get(&name).await? {
            Found::Node(node) => node,
            Found::Nothing => continue,
            Found::NotServed => return Ok(None),
        };
        // A hidden name expires with the directories above it, which this answer does not show.
        let above = if hidden.contains(&name) {
            api.ttl_above(&name).await?
        } else {
            above
        };
        let above = earlier(above, node.ttl);
        let found = if node.dir { node.nodes } else { vec![node] };
        for node in found {
            let ttl = earlier(above, node.ttl);
            if node.dir {
                directories.push((node.key, ttl));
                continue;
            }
            bytes += node.key.len() + node.value.len();
            keys.push(V2Key {
                name: node.key,
                value: node.value,
                ttl,
            });
        }
        if keys.len() + directories.len() > MOST_KEYS || bytes > MOST_BYTES {
            return Err(PortError::Permanent(format!(
                "the v2 API of etcd at {url} holds more than can be carried: expected at most {MOST_KEYS} keys and \
                 {} MiB",
                MOST_BYTES >> 20
            )));
        }
    }
    Ok(Some(keys))
}

/// The shorter of two times to live.
fn earlier(one: Option<i64>, other: Option<i64>) -> Option<i64> {
    one.into_iter().chain(other).min()
}

/// The name as a path of the API. etcd's names may hold any character.
fn path(name: &str) -> String {
    let mut path = "/v2/keys".to_owned();
    for byte in name.bytes() {
        match byte {
            b'/' | b'-' | b'.' | b'_' | b'~' => path.push(byte.into()),
            _ if byte.is_ascii_alphanumeric() => path.push(byte.into()),
            _ => _ = write!(path, "%{byte:02X}"),
        }
    }
    path
}

/// A connection to a member's client port.
struct Api {
    url: String,
    host: String,
    sender: SendRequest<Empty<Bytes>>,
    /// Drives the connection, until this is dropped.
    _driver: JoinSet<()>,
}

impl Api {
    async fn connect(url: &str, tls: Option<Arc<Tls>>) -> PortResult<Self> {
        let failed =
            |why: String| PortError::Retryable(format!("reading the v2 API of etcd at {url}: {why}"));
        let uri: Uri = url.parse().map_err(|_| failed("it is not a URL".to_owned()))?;
        let host = uri.host().unwrap_or_default().trim_matches(['[', ']']).to_owned();
        let port = uri.port_u16().unwrap_or(2379);
        let connected = async {
            let addresses = lookup(&host, port).await.map_err(|error| error.to_string())?;
            let stream = reach(&addresses).await.map_err(|error| error.to_string())?;
            let Some(tls) = tls.filter(|_| uri.scheme_str() == Some("https")) else {
                return http1::open(stream).await.map_err(|error| explain(&error));
            };
            let name = ServerName::try_from(host.clone()).map_err(|error| error.to_string())?;
            let (config, _) = tls.client(None, &[b"http/1.1"]);
            let stream = TlsConnector::from(config).connect(name, stream).await;
            let stream = stream.map_err(|error| explain(&error))?;
            http1::open(stream).await.map_err(|error| explain(&error))
        };
        let (sender, driver) = match timeout(ANSWER, connected).await {
            Ok(connected) => connected.map_err(failed)?,
            Err(_) => return Err(failed(format!("no connection within {} s", ANSWER.as_secs()))),
        };
        Ok(Self {
            url: url.to_owned(),
            host: uri.authority().map_or(host, ToString::to_string),
            sender,
            _driver: driver,
        })
    }

    async fn get(&mut self, name: &str) -> PortResult<Found> {
        let url = self.url.clone();
        let failed = |why: &str| {
            PortError::Retryable(format!("reading {name:?} of the v2 API of etcd at {url}: {why}"))
        };
        let request = Request::get(path(name))
            .header(header::HOST, &self.host)
            .body(Empty::new())
            .map_err(|error| failed(&error.to_string()))?;
        let asked = async {
            self.sender.ready().await.map_err(|error| explain(&error))?;
            let answer = self
                .sender
                .send_request(request)
                .await
                .map_err(|error| explain(&error))?;
            let status = answer.status();
            let body = Limited::new(answer.into_body(), ANSWER_BYTES).collect().await;
            Ok((status, body.map_err(|error| explain(error.as_ref()))?.to_bytes()))
        };
        let (status, body) = match timeout(ANSWER, asked).await {
            Ok(answer) => answer.map_err(|why: String| failed(&why))?,
            Err(_) => return Err(failed(&format!("no answer within {} s", ANSWER.as_secs()))),
        };
        if status.is_success() {
            let answer: Answer = serde_json::from_slice(&body).map_err(|error| failed(&error.to_string()))?;
            return Ok(Found::Node(answer.node));
        }
        match serde_json::from_slice::<Refusal>(&body) {
            Ok(refusal) if refusal.code == NOT_FOUND => Ok(Found::Nothing),
            Err(_) if status == StatusCode::NOT_FOUND => Ok(Found::NotServed),
            Ok(refusal) => Err(failed(&one_line(&refusal.message))),
            Err(_) if matches!(status, StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN) => {
                Err(PortError::Permanent(format!(
                    "etcd at {url} does not show {name:?} of its v2 API: its authentication is on (`etcdctl auth \
                     disable` with ETCDCTL_API=2)"
                )))
            }
            Err(_) => Err(failed(&format!("HTTP {}", status.as_u16()))),
        }
    }

    /// The shortest time to live of the directories above a name.
    async fn ttl_above(&mut self, name: &str) -> PortResult<Option<i64>> {
        let mut shortest = None;
        for (at, _) in name.match_indices('/').skip(1) {
            if let Found::Node(node) = self.get(name.get(..at).unwrap_or_default()).await? {
                shortest = earlier(shortest, node.ttl);
            }
        }
        Ok(shortest)
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use axum::Router;
    use axum::extract::Request as Asked;
    use axum::response::{IntoResponse, Response};

    use super::*;

    /// The answers of etcd 3.4.23 to `GET`, recorded. A name that is not there has etcd's own answer for that.
    const ANSWERS: [(&str, &str); 5] = [
        (
            "/v2/keys/",
            r#"{"action":"get","node":{"dir":true,"nodes":[
            {"key":"/one","value":"1","modifiedIndex":4,"createdIndex":4},
            {"key":"/a dir","dir":true,"expiration":"2026-11-28T09:00:00Z","ttl":60,"modifiedIndex":5,"createdIndex":5}]}}"#,
        ),
        (
            "/v2/keys/a%20dir",
            r#"{"action":"get","node":{"key":"/a dir","dir":true,"ttl":60,"nodes":[
            {"key":"/a dir/two","value":"","ttl":90},{"key":"/a dir/empty","dir":true}]}}"#,
        ),
        (
            "/v2/keys/a%20dir/empty",
            r#"{"action":"get","node":{"key":"/a dir/empty","dir":true}}"#,
        ),
        (
            "/v2/keys/a%20dir/_h",
            r#"{"action":"get","node":{"key":"/a dir/_h","dir":true,"nodes":[
            {"key":"/a dir/_h/three","value":"3"}]}}"#,
        ),
        (
            "/v2/keys/_key",
            r#"{"action":"get","node":{"key":"/_key","value":"4"}}"#,
        ),
    ];

    async fn answer(asked: Asked) -> Response {
        if let Some((_, body)) = ANSWERS.iter().find(|(path, _)| *path == asked.uri().path()) {
            return body.into_response();
        }
        let body = r#"{"errorCode":100,"message":"Key not found","cause":"/x","index":9}"#;
        (StatusCode::NOT_FOUND, body).into_response()
    }

    async fn served(router: Router) -> String {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        tokio::spawn(async move { axum::serve(listener, router).await });
        url
    }

    #[tokio::test]
    async fn keys_of_v2_are_read_with_hidden_ones_and_times_to_live() {
        let url = served(Router::new().fallback(answer)).await;
        let hidden = ["/a dir/_h", "/_key", "/_gone"].map(str::to_owned);
        let mut found = keys(&url, None, &BTreeSet::from(hidden)).await.unwrap().unwrap();
        found.sort_by(|one, other| one.name.cmp(&other.name));
        let seen: Vec<_> = found
            .iter()
            .map(|key| (key.name.as_str(), key.value.as_str(), key.ttl))
            .collect();
        let expected = [
            ("/_key", "4", None),
            ("/a dir/_h/three", "3", Some(60)),
            ("/a dir/two", "", Some(60)),
            ("/one", "1", None),
        ];
        assert_eq!(seen, expected);
    }

    #[tokio::test]
    async fn a_member_without_the_v2_api_is_distinguished_from_one_that_refuses() {
        let url = served(Router::new()).await;
        assert_eq!(keys(&url, None, &BTreeSet::new()).await, Ok(None));
        let refuses = Router::new().fallback(|| async {
            let body = r#"{"message":"Insufficient credentials"}"#;
            (StatusCode::UNAUTHORIZED, body)
        });
        let url = served(refuses).await;
        let error = keys(&url, None, &BTreeSet::new()).await.unwrap_err();
        assert!(
            matches!(&error, PortError::Permanent(why) if why.contains("auth disable")),
            "{error:?}"
        );
    }
}
