//! S46: hostile input is refused and changes nothing.
#![allow(clippy::unwrap_used)]

use std::sync::atomic::Ordering;
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::timeout;

use super::testing::{FakeAgent, Served, enquiry, quick, serve};
use super::*;
use crate::adapters::tls::testing::Authority;

mod fleet_lock;
mod page;
mod sockets;

/// The timeout for something that must happen, even on a slow machine.
const LONG: Duration = Duration::from_mins(2);

/// Sends bytes and returns everything that the server sends until it closes the connection. The server must
/// close it.
async fn exchange(mut stream: impl AsyncReadExt + AsyncWriteExt + Unpin, bytes: &[u8]) -> String {
    let _ = stream.write_all(bytes).await;
    let mut out = Vec::new();
    let closed = timeout(LONG, stream.read_to_end(&mut out)).await;
    let out = String::from_utf8_lossy(&out).into_owned();
    // An error (a connection reset) ends the connection too.
    assert!(closed.is_ok(), "the server leaves the connection open: {out}");
    out
}

async fn plain(served: &Served, bytes: &[u8]) -> String {
    exchange(TcpStream::connect(served.address).await.unwrap(), bytes).await
}

fn request(method: &str, path: &str, body: &str) -> Vec<u8> {
    format!(
        "{method} {path} HTTP/1.1\r\nhost: x\r\nconnection: close\r\ncontent-length: {}\r\n\r\n{body}",
        body.len()
    )
    .into_bytes()
}

async fn insecure() -> Served {
    serve(FakeAgent::new("n1"), None, quick()).await
}

#[tokio::test]
async fn every_answer_is_json_and_refusals_change_nothing() {
    let served = insecure().await;
    let genesis = |step: &str| format!("/v1/genesis/{step}");
    let enquire = serde_json::to_string(&enquiry("n2")).unwrap();
    let foreign = serde_json::to_string(&enquiry("n9")).unwrap();
    let extra = enquire.replacen('{', r#"{"x":1,"#, 1);
    let huge = format!("\"{}\"", "x".repeat(300 * 1024));
    let table = [
        (
            "status",
            request("GET", "/v1/status", ""),
            "200",
            r#"{"version":1,"status":{"node":"n1""#,
        ),
        (
            "unknown query key",
            request("GET", "/v1/status?aftr=1", ""),
            "400",
            "unknown field `aftr`",
        ),
        (
            "a look that begins now",
            request("GET", "/v1/status?fresh=true", ""),
            "200",
            r#""text":"fresh""#,
        ),
        (
            "unknown path",
            request("GET", "/v2/status", ""),
            "404",
            "nothing at this path",
        ),
        (
            "wrong method",
            request("GET", &genesis("learn"), ""),
            "405",
            "method not allowed",
        ),
        (
            "garbage body",
            request("POST", &genesis("enquire"), "\u{16}\u{3}"),
            "400",
            "not JSON",
        ),
        (
            "unknown field",
            request("POST", &genesis("enquire"), &extra),
            "400",
            "unknown field `x`",
        ),
        (
            "foreign node",
            request("POST", &genesis("enquire"), &foreign),
            "403",
            "n9 is not one of",
        ),
        (
            "oversized body",
            request("POST", &genesis("enquire"), &huge),
            "413",
            "larger than 262144 bytes",
        ),
        (
            "empty body",
            request("POST", &genesis("prepare"), ""),
            "400",
            "not JSON",
        ),
        ("liveness", request("GET", "/healthz", ""), "200", "ok"),
        ("readiness", request("GET", "/readyz", ""), "503", "waiting"),
        (
            "metrics",
            request("GET", "/metrics", ""),
            "200",
            "etcd_agent_peer_reachable{peer=\"n2\"} 0\n",
        ),
    ];
    for (what, bytes, status, text) in table {
        let answer = plain(&served, &bytes).await;
        assert!(
            answer.starts_with(&format!("HTTP/1.1 {status} ")),
            "{what}: {answer}"
        );
        assert!(answer.contains(text), "{what}: {answer}");
    }
    assert_eq!(
        served.agent.writes.load(Ordering::Relaxed),
        0,
        "no request reached the agent"
    );
    let answer = plain(&served, &request("POST", &genesis("enquire"), &enquire)).await;
    assert!(answer.starts_with("HTTP/1.1 200 "), "{answer}");
    assert_eq!(served.agent.writes.load(Ordering::Relaxed), 1);
}

#[tokio::test]
async fn a_body_of_unknown_length_is_bounded_too() {
    let served = insecure().await;
    let mut bytes =
        b"POST /v1/genesis/learn HTTP/1.1\r\nhost: x\r\ntransfer-encoding: chunked\r\n\r\n".to_vec();
    for _ in 0..300 {
        bytes.extend_from_slice(b"400\r\n");
        bytes.extend_from_slice(&[b'x'; 1024]);
        bytes.extend_from_slice(b"\r\n");
    }
    let answer = plain(&served, &bytes).await;
    assert!(answer.starts_with("HTTP/1.1 413 "), "{answer}");
}

#[tokio::test]
async fn a_long_poll_sends_something_while_it_waits() {
    let served = serve(FakeAgent::new("n1"), None, Limits::peers()).await;
    let answer = plain(&served, &request("GET", "/v1/status?after=1&wait_ms=2000", "")).await;
    assert!(answer.starts_with("HTTP/1.1 200 "), "{answer}");
    let beats = answer.matches("1\r\n \r\n").count();
    assert!(beats >= 1, "{answer}");
    let status = answer.find(r#"{"version":1,"status":{"#);
    assert!(
        status > answer.rfind("1\r\n \r\n"),
        "the spaces come first: {answer}"
    );
}

#[tokio::test]
async fn a_long_poll_is_answered_when_the_server_stops() {
    let served = serve(FakeAgent::new("n1"), None, Limits::peers()).await;
    let stream = TcpStream::connect(served.address).await.unwrap();
    let poll = request("GET", "/v1/status?after=1&wait_ms=25000", "");
    let agent = served.agent.clone();
    let stop = async {
        while !agent.is_asked() {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        drop(served);
    };
    let (answer, ()) = tokio::join!(exchange(stream, &poll), stop);
    assert!(answer.contains(r#"{"version":1,"status":{"#), "{answer}");
    assert!(answer.ends_with("0\r\n\r\n"), "the answer is complete: {answer}");
}

#[tokio::test]
async fn garbage_and_slow_clients_are_cut_off() {
    let served = insecure().await;
    let answer = plain(&served, b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\r\n\r\n").await;
    assert!(
        answer.is_empty() || answer.starts_with("HTTP/1.1 400 "),
        "{answer}"
    );
    // For half a header and half a body, wait until the server closes the connection.
    plain(&served, b"GET /v1/status HTTP/1.1\r\nhost: x\r\n").await;
    let answer = plain(
        &served,
        b"POST /v1/genesis/learn HTTP/1.1\r\nhost: x\r\ncontent-length: 10\r\n\r\n{",
    )
    .await;
    assert!(answer.contains("did not arrive"), "{answer}");
}

#[tokio::test]
async fn one_address_cannot_take_all_connections() {
    // The server must not close one of the six idle connections before the seventh connects.
    let patient = Limits {
        header: LONG * 10,
        ..quick()
    };
    let served = serve(FakeAgent::new("n1"), None, patient).await;
    let mut open = Vec::new();
    for _ in 0..6 {
        open.push(TcpStream::connect(served.address).await.unwrap());
    }
    assert_eq!(
        plain(&served, &request("GET", "/healthz", "")).await,
        "",
        "the seventh is closed"
    );
    drop(open);
    let again = async {
        while !plain(&served, &request("GET", "/healthz", ""))
            .await
            .starts_with("HTTP/1.1 200 ")
        {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    let again = timeout(LONG, again).await;
    assert!(again.is_ok(), "the address cannot connect again");
}

#[tokio::test]
async fn a_server_with_tls_answers_nothing_without_it_and_drops_silent_clients() {
    let dir = tempfile::tempdir().unwrap();
    let files = Authority::new().issue(dir.path(), "n1", &["n1"], 2099);
    let served = serve(FakeAgent::new("n1"), Some(Tls::load(files).unwrap()), quick()).await;
    let answer = plain(&served, &request("GET", "/v1/status", "")).await;
    assert!(!answer.contains("HTTP/1.1"), "{answer}");
    plain(&served, b"").await;
}
