//! The admin socket, the socket of the gate, and the metrics.

use std::sync::Arc;

use tokio::net::UnixStream;
use tokio_util::sync::CancellationToken;

use super::*;
use crate::model::{ActionKind, AdminStatus};
use crate::paths::Paths;
use crate::telemetry::{ActionResult, Format, Process, exposition};

#[tokio::test]
async fn the_admin_socket_and_the_gate() {
    let dir = tempfile::tempdir().unwrap();
    let paths = Paths::below(dir.path());
    std::fs::create_dir_all(paths.run()).unwrap();
    let end = CancellationToken::new();
    let agent = FakeAgent::new("n1");
    let counters = Arc::new(Counters::default());
    counters.action(ActionKind::StartEtcd, ActionResult::Ok);
    let sockets = Sockets::bind(&paths).unwrap();
    let reloads = Arc::new(Reloads::default());
    let (socket, asked) = (sockets.admin(), reloads.clone());
    let admin = serve_admin(socket, agent.clone(), counters, asked, end.clone());
    let server = tokio::spawn(admin);
    tokio::spawn(serve_gate(sockets.gate().unwrap(), agent.clone(), end.clone()));
    let ask = async |bytes: Vec<u8>| {
        exchange(UnixStream::connect(paths.admin_socket()).await.unwrap(), &bytes).await
    };
    let table = [
        ("status", request("GET", "/v1/status", ""), "200", r#""size":3"#),
        (
            "no tick yet",
            request("GET", "/v1/plan", ""),
            "503",
            "has just started",
        ),
        (
            "may this node be stopped",
            request("GET", "/v1/ok-to-stop", ""),
            "200",
            r#"{"node":"n1","ok":true"#,
        ),
        (
            "may another node be stopped",
            request("GET", "/v1/ok-to-stop?node=n2", ""),
            "200",
            r#"{"node":"n2","ok":true"#,
        ),
        (
            "may a stranger be stopped",
            request("GET", "/v1/ok-to-stop?node=n9", ""),
            "400",
            "n9 is not a node",
        ),
        (
            "no name of a node",
            request("GET", "/v1/ok-to-stop?node=-", ""),
            "400",
            "node name",
        ),
        (
            "alarms",
            request("GET", "/v1/alarms", ""),
            "200",
            r#"[{"member_id":"cafe","node":"n1","alarm":"NOSPACE"}]"#,
        ),
        (
            "an alarm whose cause is not gone",
            request("POST", "/v1/alarms/disarm", "{}"),
            "400",
            "the database is full",
        ),
        (
            "an alarm that is disarmed all the same",
            request("POST", "/v1/alarms/disarm", r#"{"alarm":"NOSPACE","force":true}"#),
            "200",
            r#""left":[]"#,
        ),
        (
            "no alarm of etcd",
            request("POST", "/v1/alarms/disarm", r#"{"alarm":"NOROOM"}"#),
            "400",
            "NOROOM",
        ),
        (
            "no log level",
            request("POST", "/v1/log-level", r#"{"level":"loud"}"#),
            "400",
            "loud",
        ),
        (
            "no members yet",
            request("GET", "/v1/members", ""),
            "503",
            "not looked at yet",
        ),
        (
            "no store",
            request("GET", "/v1/backups", ""),
            "502",
            "no store is configured",
        ),
        (
            "b11: a store that fails",
            request("POST", "/v1/spec", r#"{"size":9,"force":false,"dry_run":false}"#),
            "502",
            "SlowDown",
        ),
        (
            "an order to keep a backup",
            request(
                "POST",
                "/v1/backups/change",
                r#"{"backup":"x","change":"keep","reason":"y"}"#,
            ),
            "200",
            r#"{"backup":"x","changed":true"#,
        ),
        (
            "a deletion that is refused",
            request(
                "POST",
                "/v1/backups/change",
                r#"{"backup":"x","change":"delete"}"#,
            ),
            "400",
            "the newest one",
        ),
        (
            "a store that does not take the order",
            request(
                "POST",
                "/v1/backups/change",
                r#"{"backup":"x","change":"release"}"#,
            ),
            "502",
            "SlowDown",
        ),
        (
            "an order about a backup, with a typo",
            request(
                "POST",
                "/v1/backups/change",
                r#"{"backup":"x","change":"delete","dryrun":true}"#,
            ),
            "400",
            "unknown field `dryrun`",
        ),
        (
            "a request",
            request("POST", "/v1/requests", r#"{"request":"backup"}"#),
            "202",
            r#""id":1"#,
        ),
        (
            "a typo",
            request("POST", "/v1/requests", r#"{"request":"backup","now":1}"#),
            "400",
            "unknown field `now`",
        ),
        (
            "an order",
            request("POST", "/v1/directives", r#"{"change":"pause"}"#),
            "200",
            r#""changed":true"#,
        ),
        (
            "an order, dry run",
            request("POST", "/v1/directives", r#"{"change":"pause","dry_run":true}"#),
            "200",
            r#""changed":false"#,
        ),
        (
            "an order with a typo",
            request("POST", "/v1/directives", r#"{"change":"pause","dryrun":true}"#),
            "400",
            "unknown field `dryrun`",
        ),
        (
            "another size, dry run",
            request("POST", "/v1/spec", r#"{"size":5,"dry_run":true}"#),
            "200",
            r#""size":5,"before":3,"changed":false"#,
        ),
        (
            "a size with a typo",
            request("POST", "/v1/spec", r#"{"size":5,"dryrun":true}"#),
            "400",
            "unknown field `dryrun`",
        ),
        (
            "a request, preview",
            request("POST", "/v1/preview", r#"{"request":"move_leader","to":"n2"}"#),
            "200",
            "the leader moves",
        ),
        (
            "events",
            request("GET", "/v1/events?after=6", ""),
            "200",
            r#""newest":7"#,
        ),
        (
            "events, misspelt",
            request("GET", "/v1/events?since=6", ""),
            "400",
            "since",
        ),
        (
            "no such request",
            request("GET", "/v1/requests/7", ""),
            "404",
            "no request 7",
        ),
        (
            "a reload",
            request("POST", "/v1/reload", ""),
            "200",
            r#""asked":1,"done":0"#,
        ),
        (
            "metrics",
            request("GET", "/metrics", ""),
            "200",
            r#"{action="start-etcd",result="ok"} 1"#,
        ),
    ];
    for (what, bytes, status, text) in table {
        let answer = ask(bytes).await;
        assert!(
            answer.starts_with(&format!("HTTP/1.1 {status} ")),
            "{what}: {answer}"
        );
        assert!(answer.contains(text), "{what}: {answer}");
    }
    let gate = UnixStream::connect(paths.gate_socket()).await.unwrap();
    let answer = exchange(gate, &request("GET", "/v1/gate", "")).await;
    assert!(
        answer.ends_with(r#"{"clear":false,"text":"waiting for the electorate"}"#),
        "{answer}"
    );
    // The agent must answer with an error. The gate treats an error like no answer.
    agent.live.store(false, Ordering::Relaxed);
    let gate = UnixStream::connect(paths.gate_socket()).await.unwrap();
    let answer = exchange(gate, &request("GET", "/v1/gate", "")).await;
    assert!(
        answer.starts_with("HTTP/1.1 503 ") && !answer.contains("clear"),
        "{answer}"
    );
    let gate = UnixStream::connect(paths.gate_socket()).await.unwrap();
    let answer = exchange(gate, &request("POST", "/v1/gate/stop", "")).await;
    assert!(answer.ends_with(r#"{"text":"all is stored"}"#), "{answer}");
    let gate = UnixStream::connect(paths.gate_socket()).await.unwrap();
    assert!(
        exchange(gate, &request("GET", "/v1/status", ""))
            .await
            .starts_with("HTTP/1.1 404 ")
    );

    end.cancel();
    timeout(LONG, server).await.unwrap().unwrap();
    let end = CancellationToken::new();
    tokio::spawn(serve_unconfigured(sockets.admin(), reloads, end));
    let answer = ask(request("GET", "/v1/status", "")).await;
    assert!(
        answer.starts_with("HTTP/1.1 503 ") && answer.contains("run `etcd-agent init`"),
        "{answer}"
    );
}

/// A client that connects while a reload replaces the servers gets its answer from the next server.
#[tokio::test]
async fn h01_a_socket_outlives_its_server() {
    let dir = tempfile::tempdir().unwrap();
    let paths = Paths::below(dir.path());
    std::fs::create_dir_all(paths.run()).unwrap();
    let sockets = Sockets::bind(&paths).unwrap();
    let listen = ([127, 0, 0, 1], 0).into();
    let tcp = sockets.tcp(listen, "api.listen").unwrap();
    let address = tcp.local_addr().unwrap();
    let life = |text: &str| {
        let agent = FakeAgent::new("n1");
        agent.change(text);
        let end = CancellationToken::new();
        let counters = Arc::new(Counters::default());
        let reloads = Arc::new(Reloads::default());
        let (admin, metrics) = (sockets.admin(), tcp.clone());
        let admin = serve_admin(admin, agent.clone(), counters.clone(), reloads, end.clone());
        let metrics = MetricsListener::new(metrics, None, Vec::new());
        let metrics = serve_metrics(metrics, agent, counters, end.clone());
        (end, tokio::spawn(admin), tokio::spawn(metrics))
    };
    let (end, admin, metrics) = life("first");
    end.cancel();
    admin.await.unwrap();
    metrics.await.unwrap();
    let unix = UnixStream::connect(paths.admin_socket()).await.unwrap();
    let tcp = TcpStream::connect(address).await.unwrap();
    let (_end, _admin, _metrics) = life("second");
    let answer = exchange(unix, &request("GET", "/v1/status", "")).await;
    assert!(answer.contains(r#""text":"second""#), "{answer}");
    let answer = exchange(tcp, &request("GET", "/metrics", "")).await;
    assert!(answer.contains("etcd_agent_up{"), "{answer}");
}

/// H6: the metrics address serves only metrics, for every request.
#[tokio::test]
async fn h06_the_metrics_address_only_reads() {
    let agent = FakeAgent::new("n1");
    let listener = Arc::new(TcpListener::bind("127.0.0.1:0").await.unwrap());
    let address = listener.local_addr().unwrap();
    let end = CancellationToken::new();
    tokio::spawn(serve_metrics(
        MetricsListener::new(listener, None, vec!["n1".to_owned()]),
        agent.clone(),
        Arc::new(Counters::default()),
        end.clone(),
    ));
    for (method, path, status) in [
        ("GET", "/metrics", "200"),
        ("POST", "/metrics", "405"),
        ("GET", "/v1/status", "404"),
        ("POST", "/v1/requests", "404"),
        ("POST", "/v1/genesis/enquire", "404"),
    ] {
        let stream = TcpStream::connect(address).await.unwrap();
        let answer = exchange(stream, &request(method, path, r#"{"request":"backup"}"#)).await;
        assert!(
            answer.starts_with(&format!("HTTP/1.1 {status} ")),
            "{method} {path}: {answer}"
        );
    }
    assert_eq!(agent.writes.load(Ordering::Relaxed), 0);
    end.cancel();
}

/// Each place that serves metrics does so in the format that the client asks for, with those of the process.
#[tokio::test]
async fn metrics_are_served_in_the_format_that_is_asked_for() {
    let dir = tempfile::tempdir().unwrap();
    let paths = Paths::below(dir.path());
    std::fs::create_dir_all(paths.run()).unwrap();
    let (agent, counters) = (FakeAgent::new("n1"), Arc::new(Counters::default()));
    let end = CancellationToken::new();
    let sockets = Sockets::bind(&paths).unwrap();
    let reloads = Arc::new(Reloads::default());
    tokio::spawn(serve_admin(
        sockets.admin(),
        agent.clone(),
        counters.clone(),
        reloads,
        end.clone(),
    ));
    let listener = Arc::new(TcpListener::bind("127.0.0.1:0").await.unwrap());
    let address = listener.local_addr().unwrap();
    let metrics = MetricsListener::new(listener, None, vec!["n1".to_owned()]);
    tokio::spawn(serve_metrics(metrics, agent, counters, end.clone()));
    let peers = insecure().await;
    let openmetrics = "application/openmetrics-text;version=1.0.0,text/plain;version=0.0.4;q=0.5";
    for (accept, kind, last) in [
        ("*/*", "text/plain; version=0.0.4; charset=utf-8", ""),
        (
            openmetrics,
            "application/openmetrics-text; version=1.0.0; charset=utf-8",
            "# EOF\n",
        ),
    ] {
        let bytes = String::from_utf8(request("GET", "/metrics", "")).unwrap();
        let bytes = bytes
            .replacen("host:", &format!("accept: {accept}\r\nhost:"), 1)
            .into_bytes();
        let unix = UnixStream::connect(paths.admin_socket()).await.unwrap();
        let tcp = TcpStream::connect(address).await.unwrap();
        for (place, answer) in [
            ("admin", exchange(unix, &bytes).await),
            ("metrics", exchange(tcp, &bytes).await),
            ("peers", plain(&peers, &bytes).await),
        ] {
            assert!(answer.starts_with("HTTP/1.1 200 "), "{place}: {answer}");
            let header = format!("\r\ncontent-type: {kind}\r\n");
            assert!(answer.contains(&header), "{place}, {accept}: {answer}");
            assert_eq!(answer.contains("# EOF"), !last.is_empty(), "{place}, {accept}");
            assert!(answer.ends_with(last), "{place}, {accept}: {answer}");
            assert!(
                answer.contains("\nprocess_cpu_seconds_total "),
                "{place}: {answer}"
            );
            assert!(
                answer.contains("\nprocess_resident_memory_bytes "),
                "{place}: {answer}"
            );
        }
    }
}

/// Before the first observation, the metrics do not show etcd as down.
#[test]
fn h01_before_the_first_look_nothing_is_said_of_etcd() {
    let status = |starting| AdminStatus {
        starting,
        ..FakeAgent::new("n1").admin_status()
    };
    let (counters, process) = (Counters::default(), Process::default());
    let text = |starting| exposition(&status(starting), &counters, &process, Format::Text);
    assert!(text(false).contains("\netcd_agent_etcd_up 0\n"));
    assert!(!text(true).contains("\netcd_agent_etcd_up "));
}

/// `[::]` is the default of `api.listen` (the setting `net.ipv6.bindv6only` would leave IPv4 out).
#[tokio::test]
async fn m_all_addresses_include_those_of_ipv4() {
    let dir = tempfile::tempdir().unwrap();
    let paths = Paths::below(dir.path());
    std::fs::create_dir_all(paths.run()).unwrap();
    let sockets = Sockets::bind(&paths).unwrap();
    let listen = ([0_u16; 8], 0).into();
    let tcp = sockets.tcp(listen, "api.listen").unwrap();
    if tcp.local_addr().unwrap().is_ipv6() {
        assert!(!socket2::SockRef::from(&*tcp).only_v6().unwrap());
    }
    let port = tcp.local_addr().unwrap().port();
    TcpStream::connect(("127.0.0.1", port)).await.unwrap();
}
