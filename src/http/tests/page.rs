//! The status page over HTTP: who gets it, with which headers.

use tokio_util::sync::DropGuard;

use super::*;

async fn served() -> (std::net::SocketAddr, Arc<FakeAgent>, DropGuard) {
    let agent = FakeAgent::new("n1");
    let listener = Arc::new(TcpListener::bind("127.0.0.1:0").await.unwrap());
    let address = listener.local_addr().unwrap();
    let end = CancellationToken::new();
    tokio::spawn(serve_metrics(
        MetricsListener::new(listener, None, vec!["n1".to_owned(), "n1.example.org".to_owned()]),
        agent.clone(),
        Arc::new(Counters::default()),
        end.clone(),
    ));
    (address, agent, end.drop_guard())
}

#[tokio::test]
async fn the_page_is_read_only_and_only_under_a_name_of_this_host() {
    let (address, agent, _end) = served().await;
    let rows = [
        ("GET", "/", "127.0.0.1:2381", "200", "<!DOCTYPE html>"),
        (
            "GET",
            "/",
            "localhost:2381",
            "200",
            "<title>Down: prod, seen by n1</title>",
        ),
        (
            "GET",
            "/?refresh=10",
            "n1",
            "200",
            r#"http-equiv="refresh" content="10""#,
        ),
        ("HEAD", "/", "n1.example.org", "200", ""),
        ("GET", "/status.css", "anything", "200", "prefers-color-scheme"),
        (
            "GET",
            "/",
            "evil.example",
            "421",
            "expected an IP address or localhost or n1 or n1.example.org",
        ),
        ("GET", "/", "", "421", "asked for as"),
        (
            "GET",
            "/?refresh=1",
            "n1",
            "400",
            "refresh is 1, expected 5 to 3600 seconds",
        ),
        ("GET", "/?refresh=x", "n1", "400", "refresh"),
        ("GET", "/?x=1", "n1", "400", "unknown field `x`"),
        ("POST", "/", "n1", "405", "method not allowed"),
        ("PUT", "/status.css", "n1", "405", "method not allowed"),
        ("GET", "/index.html", "n1", "404", "there is nothing at this path"),
        (
            "GET",
            "/..%2f..%2fetc/passwd",
            "n1",
            "404",
            "there is nothing at this path",
        ),
    ];
    for (method, path, host, status, has) in rows {
        let ask = format!("{method} {path} HTTP/1.1\r\nhost: {host}\r\nconnection: close\r\n\r\n");
        let stream = TcpStream::connect(address).await.unwrap();
        let answer = exchange(stream, ask.as_bytes()).await;
        let what = format!("{method} {path} as {host:?}: {answer}");
        assert!(
            answer.starts_with(&format!("HTTP/1.1 {status} ")) && answer.contains(has),
            "{what}"
        );
        if status == "200" {
            for header in [
                "content-security-policy: default-src 'none'; style-src 'self';",
                "x-content-type-options: nosniff",
                "x-frame-options: DENY",
                "referrer-policy: no-referrer",
                "cache-control: no-store",
                "cross-origin-resource-policy: same-origin",
            ] {
                assert!(answer.contains(header), "{header}: {what}");
            }
        }
        let body = answer.split_once("\r\n\r\n").unwrap().1;
        assert!(!body.contains("<script") && !body.contains("style="), "{what}");
        assert_eq!(method == "HEAD", body.is_empty(), "{what}");
    }
    assert_eq!(agent.writes.load(Ordering::Relaxed), 0);
}
