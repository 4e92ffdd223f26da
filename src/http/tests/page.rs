//! The status page over HTTP: who gets it, with which headers.

use tokio_util::sync::DropGuard;

use super::*;

async fn served(tls: Option<Arc<Tls>>) -> (std::net::SocketAddr, Arc<FakeAgent>, DropGuard) {
    let agent = FakeAgent::new("n1");
    let listener = Arc::new(TcpListener::bind("127.0.0.1:0").await.unwrap());
    let address = listener.local_addr().unwrap();
    let end = CancellationToken::new();
    tokio::spawn(serve_metrics(
        MetricsListener::new(listener, tls, vec!["n1".to_owned(), "n1.example.org".to_owned()]),
        agent.clone(),
        Arc::new(Counters::default()),
        end.clone(),
    ));
    (address, agent, end.drop_guard())
}

#[tokio::test]
async fn the_page_is_read_only_and_only_under_a_name_of_this_host() {
    let (address, agent, _end) = served(None).await;
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

/// With `metrics.tls` a client needs a certificate. The name of the host is then a matter of TLS.
#[tokio::test]
async fn over_tls_the_page_is_for_clients_with_a_certificate() {
    let dir = tempfile::tempdir().unwrap();
    let authority = Authority::new();
    let tls = |name: &str| Tls::load(authority.issue(dir.path(), name, &[name], 2099)).unwrap();
    let (address, _agent, _end) = served(Some(tls("n1"))).await;
    let ask = b"GET / HTTP/1.1\r\nhost: n1.example.net\r\nconnection: close\r\n\r\n";

    let answer = exchange(TcpStream::connect(address).await.unwrap(), ask).await;
    assert!(!answer.contains("HTTP/1.1"), "plain HTTP: {answer}");

    let connect = async |end: Arc<Tls>| {
        let (config, _) = end.client(Some("n1"), &[b"http/1.1"]);
        let name = rustls::pki_types::ServerName::try_from("n1").unwrap();
        let stream = TcpStream::connect(address).await.unwrap();
        tokio_rustls::TlsConnector::from(config)
            .connect(name, stream)
            .await
    };
    let answer = exchange(connect(tls("reader")).await.unwrap(), ask).await;
    assert!(
        answer.starts_with("HTTP/1.1 200 ") && answer.contains("seen by n1</title>"),
        "{answer}"
    );

    let stranger = Authority::new().issue(dir.path(), "stranger", &["stranger"], 2099);
    let ours = authority.issue(dir.path(), "ours", &["ours"], 2099);
    let stranger = Tls::load(crate::model::TlsFiles {
        ca_file: ours.ca_file,
        ..stranger
    });
    // In TLS 1.3 the client learns of the refusal when it reads.
    if let Ok(stream) = connect(stranger.unwrap()).await {
        let answer = exchange(stream, ask).await;
        assert!(!answer.contains("HTTP/1.1"), "{answer}");
    }
}
