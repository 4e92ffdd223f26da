//! The FleetLock protocol.

use tokio_util::sync::CancellationToken;

use super::*;

/// A request in the form of the protocol.
fn asks(path: &str, header: &str, body: &str) -> Vec<u8> {
    let length = body.len();
    format!(
        "POST {path} HTTP/1.1\r\nhost: x\r\nconnection: close\r\n{header}\r\ncontent-length: {length}\r\n\r\n{body}"
    )
    .into_bytes()
}

#[tokio::test]
async fn a_fleet_lock_client_takes_and_releases_the_lock() {
    let agent = FakeAgent::new("n1");
    let listener = Arc::new(TcpListener::bind("127.0.0.1:0").await.unwrap());
    let address = listener.local_addr().unwrap();
    let end = CancellationToken::new();
    tokio::spawn(serve_fleet_lock(
        listener,
        agent.clone(),
        vec!["default".to_owned(), "workers".to_owned()],
        end.clone(),
    ));
    let intended = "fleet-lock-protocol: true";
    let client = r#"{"client_params":{"id":"c988","group":"default"}}"#;
    let with = |id: &str, group: &str| format!(r#"{{"client_params":{{"id":"{id}","group":"{group}"}}}}"#);
    let long = "x".repeat(257);
    let bad = r#"{"kind":"bad_request","#;
    let table = [
        ("the lock", asks("/v1/pre-reboot", intended, client), "200", ""),
        (
            "with a field of a later version",
            asks(
                "/v1/pre-reboot",
                intended,
                &client.replacen('{', r#"{"later":1,"#, 2),
            ),
            "200",
            "",
        ),
        ("its end", asks("/v1/steady-state", intended, client), "200", ""),
        (
            "an unintended request",
            asks("/v1/pre-reboot", "accept: */*", client),
            "400",
            bad,
        ),
        (
            "another value of the header",
            asks("/v1/steady-state", "fleet-lock-protocol: 1", client),
            "400",
            bad,
        ),
        ("no JSON", asks("/v1/pre-reboot", intended, "x"), "400", bad),
        ("no client", asks("/v1/pre-reboot", intended, "{}"), "400", bad),
        (
            "no ID",
            asks("/v1/pre-reboot", intended, &with("", "default")),
            "400",
            "client_params.id",
        ),
        (
            "an endless ID",
            asks("/v1/pre-reboot", intended, &with(&long, "default")),
            "400",
            "client_params.id",
        ),
        (
            "no group",
            asks("/v1/steady-state", intended, &with("c988", "")),
            "400",
            "client_params.group",
        ),
        (
            "another alphabet",
            asks("/v1/steady-state", intended, &with("c988", "a b")),
            "400",
            "client_params.group",
        ),
        (
            "another group",
            asks("/v1/pre-reboot", intended, &with("c988", "workers")),
            "200",
            "",
        ),
        (
            "an unknown group",
            asks("/v1/pre-reboot", intended, &with("c988", "db")),
            "400",
            r#"{"kind":"unknown_group","value":"client_params.group is \"db\", expected a group of this host's reboot_lock.groups (\"default\", \"workers\"): "#,
        ),
        (
            "the end of a group that is no longer configured",
            asks("/v1/steady-state", intended, &with("c988", "db")),
            "200",
            "",
        ),
        (
            "another path",
            asks("/v1/reboot", intended, client),
            "404",
            "error",
        ),
    ];
    for (what, bytes, status, text) in table {
        let writes = agent.writes.load(Ordering::Relaxed);
        let stream = TcpStream::connect(address).await.unwrap();
        let answer = exchange(stream, &bytes).await;
        assert!(
            answer.starts_with(&format!("HTTP/1.1 {status} ")),
            "{what}: {answer}"
        );
        assert!(answer.contains(text), "{what}: {answer}");
        let wrote = agent.writes.load(Ordering::Relaxed) > writes;
        assert_eq!(wrote, status == "200", "{what}");
    }
    end.cancel();
}
