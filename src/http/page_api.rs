//! The status page, read only: for a browser on this host, or over mutual TLS.
//!
//! Plain HTTP is answered only to clients on this host, and only under a name that is known to be this
//! host's. A page of a foreign site in a browser on this host could otherwise read it under a name of its own
//! that it lets resolve to a loopback address (DNS rebinding).

use std::net::IpAddr;
use std::sync::Arc;

use axum::extract::rejection::QueryRejection;
use axum::extract::{Query, State};
use axum::http::{HeaderMap, StatusCode, Uri, header};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use axum::{Extension, Router};
use serde::Deserialize;

use super::caller::Caller;
use super::reply::Refused;
use crate::page::{Picture, STYLE, STYLE_PATH, page};
use crate::ports::AgentHandle;

/// The page loads its own style sheet and nothing else, runs nothing, sends nothing, and is shown in no
/// frame.
const POLICY: &str =
    "default-src 'none'; style-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

/// The shortest and the longest interval at which the page reloads itself, in seconds.
const REFRESH: std::ops::RangeInclusive<u16> = 5..=3600;

struct Site {
    handle: Arc<dyn AgentHandle>,
    /// The names under which readers may ask for the page over plain HTTP, apart from IP addresses and
    /// `localhost`.
    names: Vec<String>,
}

pub(super) fn router(handle: Arc<dyn AgentHandle>, names: Vec<String>) -> Router {
    Router::new()
        .route("/", get(show))
        .route(STYLE_PATH, get(style))
        .with_state(Arc::new(Site { handle, names }))
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct PageQuery {
    refresh: Option<u16>,
}

async fn show(
    State(site): State<Arc<Site>>,
    Extension(caller): Extension<Caller>,
    uri: Uri,
    headers: HeaderMap,
    query: Result<Query<PageQuery>, QueryRejection>,
) -> Result<Response, Refused> {
    admit(&caller, &uri, &headers, &site.names)?;
    let Query(PageQuery { refresh }) = query.map_err(|error| Refused::bad(error.body_text()))?;
    if let Some(seconds) = refresh.filter(|seconds| !REFRESH.contains(seconds)) {
        return Err(Refused::bad(format!(
            "refresh is {seconds}, expected {} to {} seconds",
            REFRESH.start(),
            REFRESH.end()
        )));
    }
    let picture = Picture {
        status: site.handle.admin_status(),
        events: site.handle.events(0).events,
        backups: site.handle.recent_backups(),
        refresh,
    };
    Ok(answer("text/html; charset=utf-8", page(&picture)))
}

async fn style() -> Response {
    answer("text/css; charset=utf-8", STYLE.to_owned())
}

fn answer(kind: &'static str, text: String) -> Response {
    let headers = [
        (header::CONTENT_TYPE, kind),
        (header::CONTENT_SECURITY_POLICY, POLICY),
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (header::X_FRAME_OPTIONS, "DENY"),
        (header::REFERRER_POLICY, "no-referrer"),
        (header::CACHE_CONTROL, "no-store"),
    ];
    let same_origin = [("cross-origin-resource-policy", "same-origin")];
    (headers, same_origin, text).into_response()
}

/// Whether this client may read the page.
fn admit(caller: &Caller, uri: &Uri, headers: &HeaderMap, names: &[String]) -> Result<(), Refused> {
    // Mutual TLS has verified the client, and a browser has verified the name of this host.
    if caller.names.is_some() {
        return Ok(());
    }
    if !caller
        .address
        .is_some_and(|address| address.to_canonical().is_loopback())
    {
        return Err(Refused::forbidden(
            "over plain HTTP the status page is for clients on this host: forward a port with ssh, or set \
             metrics.tls = true",
        ));
    }
    let host = host(uri, headers);
    if host.is_some_and(|host| is_ours(host, names)) {
        return Ok(());
    }
    let expected: Vec<&str> = ["an IP address", "localhost"]
        .into_iter()
        .chain(names.iter().map(String::as_str))
        .collect();
    Err(Refused::new(
        StatusCode::MISDIRECTED_REQUEST,
        format!(
            "the status page was asked for as {:?}, expected {}",
            host.unwrap_or_default(),
            expected.join(" or ")
        ),
    ))
}

/// The host that the client asks for, without a port; `None` if it names none, or several.
fn host<'a>(uri: &'a Uri, headers: &'a HeaderMap) -> Option<&'a str> {
    let mut given = headers.get_all(header::HOST).iter();
    let (first, second) = (given.next(), given.next());
    let host = match (uri.host(), first, second) {
        (Some(host), _, _) => host,
        (None, Some(host), None) => host.to_str().ok()?,
        _ => return None,
    };
    if let Some(rest) = host.strip_prefix('[') {
        let (address, port) = rest.split_once(']')?;
        return (port.is_empty() || port.starts_with(':')).then_some(address);
    }
    Some(host.rsplit_once(':').map_or(host, |(host, _port)| host))
}

/// Whether nobody else can let this name resolve to an address of this host.
fn is_ours(host: &str, names: &[String]) -> bool {
    let is = |name: &str| host.eq_ignore_ascii_case(name);
    host.parse::<IpAddr>().is_ok() || is("localhost") || names.iter().any(|name| is(name))
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn plain_http_is_for_this_host() {
        let caller = |address: &str| Caller {
            address: Some(address.parse().unwrap()),
            names: None,
        };
        let mut headers = HeaderMap::new();
        headers.insert(header::HOST, "10.0.0.1:2381".parse().unwrap());
        let ask = |caller: &Caller| admit(caller, &Uri::from_static("/"), &headers, &[]);
        assert!(ask(&caller("127.0.0.1")).is_ok());
        assert!(ask(&caller("::1")).is_ok());
        assert!(
            ask(&caller("::ffff:127.0.0.1")).is_ok(),
            "of a socket for both families"
        );
        let refused = ask(&caller("10.0.0.2")).unwrap_err();
        assert_eq!(refused.status, StatusCode::FORBIDDEN);
        assert!(refused.text.contains("metrics.tls"), "{}", refused.text);
        let socket = Caller {
            address: None,
            names: None,
        };
        assert!(ask(&socket).is_err());
    }

    #[test]
    fn a_foreign_name_of_this_host_is_not_served() {
        let names = ["n1".to_owned(), "n1.example.org".to_owned()];
        let rows = [
            ("127.0.0.1:2381", true),
            ("[::1]:2381", true),
            ("[::1]", true),
            ("localhost:2381", true),
            ("LOCALHOST", true),
            ("n1:2381", true),
            ("N1.example.org", true),
            ("evil.example:2381", false),
            ("localhost.evil.example", false),
            ("127.0.0.1.evil.example", false),
            ("n1.evil.example", false),
            ("[::1].evil.example", false),
            ("", false),
        ];
        for (text, ours) in rows {
            let mut headers = HeaderMap::new();
            headers.insert(header::HOST, text.parse().unwrap());
            let uri = Uri::from_static("/");
            assert_eq!(
                host(&uri, &headers).is_some_and(|host| is_ours(host, &names)),
                ours,
                "{text}"
            );
        }
        let uri = Uri::from_static("/");
        assert_eq!(host(&uri, &HeaderMap::new()), None, "no header");
        let mut twice = HeaderMap::new();
        twice.append(header::HOST, "localhost".parse().unwrap());
        twice.append(header::HOST, "evil.example".parse().unwrap());
        assert_eq!(host(&uri, &twice), None, "two headers");
        let absolute = Uri::from_static("http://evil.example/");
        assert_eq!(host(&absolute, &HeaderMap::new()), Some("evil.example"));
    }
}
