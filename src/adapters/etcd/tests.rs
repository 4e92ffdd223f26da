//! Tests without an etcd. Those with real etcds over TLS are in `tests/store/tests/servers/etcd_adapter.rs`.
#![allow(clippy::unwrap_used, clippy::panic)]

use std::time::Duration;

use super::channel::Address;
use super::*;
use crate::adapters::dial::tests::black_hole;
use crate::adapters::tls::testing::Authority;
use crate::model::TlsFiles;

fn free_port() -> u16 {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    listener.local_addr().unwrap().port()
}

fn local(port: u16, files: Option<TlsFiles>) -> LocalEtcd {
    let address = Address {
        host: "127.0.0.1".to_owned(),
        port,
        node: "n1".to_owned(),
        url: format!("https://127.0.0.1:{port}"),
    };
    LocalEtcd::at(address, files)
}

#[tokio::test]
async fn an_etcd_that_is_down_is_retryable_for_changes_too() {
    let etcd = local(free_port(), None);
    // Each error says that the connection was refused, not that a deadline has passed.
    for _ in 0..3 {
        let error = etcd.status().await.unwrap_err();
        assert!(matches!(error, PortError::Retryable(_)), "{error:?}");
        assert!(error.to_string().contains("connection refused"), "{error}");
    }
    let error = etcd.remove_member(MemberId(1)).await.unwrap_err();
    assert!(matches!(error, PortError::Retryable(_)), "{error:?}");
    let error = etcd.members(true).await.unwrap_err();
    assert!(error.to_string().contains("connection refused"), "{error}");
    let error = etcd
        .validate_downgrade("3.5.35".parse().unwrap())
        .await
        .unwrap_err();
    assert!(matches!(error, PortError::Retryable(_)), "{error:?}");
    assert!(
        error.to_string().contains("check the downgrade to 3.5"),
        "{error}"
    );
    let error = etcd.snapshot().await.err().unwrap();
    assert!(error.to_string().contains("connection refused"), "{error}");
    // The cause is that of the hash, and not of another request.
    let error = etcd.hash_data(Revision(1)).await.unwrap_err();
    assert!(error.to_string().contains("hash the keys"), "{error}");
    assert!(error.to_string().contains("connection refused"), "{error}");
}

#[tokio::test]
async fn an_etcd_that_accepts_and_is_silent_is_given_up_and_connected_anew() {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let etcd = local(listener.local_addr().unwrap().port(), None);
    let error = etcd.status().await.unwrap_err();
    assert!(error.to_string().contains("no answer within 1 s"), "{error}");
    let _ = etcd.status().await;
    listener.accept().await.unwrap();
    let second = tokio::time::timeout(Duration::from_mins(2), listener.accept()).await;
    assert!(second.is_ok(), "the second request uses a second connection");
}

#[tokio::test]
async fn missing_certificates_are_named_and_looked_for_again() {
    let dir = tempfile::tempdir().unwrap();
    let files = TlsFiles {
        cert_file: dir.path().join("n1.crt"),
        key_file: dir.path().join("n1.key"),
        ca_file: dir.path().join("n1.ca"),
    };
    let etcd = local(free_port(), Some(files));
    let error = etcd.status().await.unwrap_err().to_string();
    assert!(error.contains("n1.crt"), "{error}");
    Authority::new().issue(dir.path(), "n1", &["n1"], 2099);
    let error = etcd.status().await.unwrap_err().to_string();
    assert!(error.contains("connection refused"), "{error}");
}

#[tokio::test]
async fn b01_an_etcd_that_could_not_be_asked_is_not_silent() {
    let etcd = local(free_port(), None);
    let error = etcd.probe("http://no-such.invalid:2379").await.unwrap_err();
    assert!(matches!(error, PortError::Permanent(_)), "{error:?}");
    assert!(error.to_string().contains("no-such.invalid"), "{error}");
    // The host answers, but no etcd listens.
    let url = format!("http://127.0.0.1:{}", free_port());
    let error = etcd.probe(&url).await.unwrap_err();
    assert!(matches!(error, PortError::Retryable(_)), "{error:?}");
}

#[tokio::test]
async fn b01_an_etcd_that_takes_no_connection_is_silent() {
    let (hole, _kept) = black_hole().await;
    let etcd = local(free_port(), None);
    let error = etcd.probe(&format!("http://{hole}")).await.unwrap_err();
    assert!(matches!(error, PortError::Retryable(_)), "{error:?}");
}

/// etcd closes a connection in plain HTTP to a port where it speaks TLS.
#[tokio::test]
async fn an_etcd_that_speaks_tls_answers_a_probe_in_plain_http() {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let (etcd, serves) = (local(free_port(), None), |answer: &'static [u8]| async {
        let (mut stream, _) = listener.accept().await.unwrap();
        let mut request = [0; 1024];
        tokio::io::AsyncReadExt::read(&mut stream, &mut request)
            .await
            .unwrap();
        tokio::io::AsyncWriteExt::write_all(&mut stream, answer)
            .await
            .unwrap();
    });
    let closes = async {
        serves(b"").await;
        // The alert handshake_failure.
        serves(b"\x15\x03\x03\x00\x02\x02\x28").await;
    };
    let (answer, ()) = tokio::join!(etcd.probe(&url), closes);
    assert_eq!(answer, Ok(()));
    let closes = async {
        serves(b"").await;
        serves(b"").await;
    };
    let (answer, ()) = tokio::join!(etcd.probe(&url), closes);
    assert!(matches!(answer, Err(PortError::Retryable(_))), "{answer:?}");
}

#[tokio::test]
async fn an_etcd_that_may_serve_in_two_ways_is_asked_in_the_other_one_after_a_failure() {
    let dir = tempfile::tempdir().unwrap();
    let files = TlsFiles {
        cert_file: dir.path().join("n1.crt"),
        key_file: dir.path().join("n1.key"),
        ca_file: dir.path().join("n1.ca"),
    };
    let etcd = local(free_port(), None);
    let ways = [Some(files), None];
    let ask = async || etcd.status().await.unwrap_err().to_string();
    etcd.serves_with(&ways);
    let plain = ask().await;
    assert!(
        plain.contains("at etcd http://") && plain.contains("refused"),
        "{plain}"
    );
    etcd.serves_with(&ways);
    let tls = ask().await;
    assert!(
        tls.contains("at etcd https://") && tls.contains("n1.crt"),
        "{tls}"
    );
    let plain = ask().await;
    assert!(plain.contains("at etcd http://"), "{plain}");
    etcd.serves_with(&ways[..1]);
    assert!(ask().await.contains("n1.crt"), "there is no other way now");
    assert!(ask().await.contains("n1.crt"));
}
