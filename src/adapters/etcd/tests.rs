//! Against nothing, and (`--ignored`, with `ETCD_BIN` naming the binary) against a real etcd over TLS.
#![allow(clippy::unwrap_used, clippy::panic)]

use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use futures::StreamExt;
use sha2::{Digest, Sha256};

use super::*;
use crate::adapters::tls::testing::Authority;

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
async fn an_etcd_that_is_down_is_retryable_for_changes_too_and_cheap() {
    let etcd = local(free_port(), None);
    let begun = Instant::now();
    for _ in 0..3 {
        let error = etcd.status().await.unwrap_err();
        assert!(matches!(error, PortError::Retryable(_)), "{error:?}");
        assert!(error.to_string().contains("connection refused"), "{error}");
    }
    let error = etcd.remove_member(MemberId(1)).await.unwrap_err();
    assert!(matches!(error, PortError::Retryable(_)), "{error:?}");
    let error = etcd.members(true).await.unwrap_err();
    assert!(error.to_string().contains("connection refused"), "{error}");
    assert!(etcd.snapshot().await.is_err());
    assert!(begun.elapsed() < Duration::from_secs(1), "{:?}", begun.elapsed());
}

#[tokio::test]
async fn an_etcd_that_accepts_and_is_silent_is_given_up_and_connected_anew() {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let etcd = local(listener.local_addr().unwrap().port(), None);
    let begun = Instant::now();
    let error = etcd.status().await.unwrap_err();
    assert!(error.to_string().contains("no answer within 1 s"), "{error}");
    assert!(begun.elapsed() < Duration::from_millis(1500));
    let _ = etcd.status().await;
    listener.accept().await.unwrap();
    let second = tokio::time::timeout(Duration::from_secs(1), listener.accept()).await;
    assert!(second.is_ok(), "the second question uses a second connection");
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

struct Running(Child);
impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

struct Member {
    client: u16,
    peer: u16,
    name: &'static str,
}

impl Member {
    fn new(name: &'static str) -> Self {
        Self {
            client: free_port(),
            peer: free_port(),
            name,
        }
    }
    fn peer_url(&self) -> String {
        format!("http://127.0.0.1:{}", self.peer)
    }
    fn start(&self, dir: &Path, files: &TlsFiles, cluster: &[&Member], state: &str) -> Running {
        let client = format!("https://127.0.0.1:{}", self.client);
        let initial: Vec<String> = cluster
            .iter()
            .map(|m| format!("{}={}", m.name, m.peer_url()))
            .collect();
        let log = std::fs::File::create(dir.join(format!("{}.log", self.name))).unwrap();
        let child = Command::new(std::env::var("ETCD_BIN").unwrap())
            .args([
                "--name",
                self.name,
                "--listen-client-urls",
                &client,
                "--advertise-client-urls",
                &client,
            ])
            .args([
                "--listen-peer-urls",
                &self.peer_url(),
                "--initial-advertise-peer-urls",
                &self.peer_url(),
            ])
            .args([
                "--initial-cluster",
                &initial.join(","),
                "--initial-cluster-state",
                state,
            ])
            .args([
                "--cert-file",
                files.cert_file.to_str().unwrap(),
                "--key-file",
                files.key_file.to_str().unwrap(),
            ])
            .args([
                "--trusted-ca-file",
                files.ca_file.to_str().unwrap(),
                "--client-cert-auth",
            ])
            .arg("--data-dir")
            .arg(dir.join(self.name))
            .stderr(Stdio::from(log))
            .spawn()
            .unwrap();
        Running(child)
    }
}

async fn eventually<T>(what: &str, mut ask: impl AsyncFnMut() -> PortResult<T>) -> T {
    let begun = Instant::now();
    loop {
        match ask().await {
            Ok(answer) => return answer,
            Err(PortError::Retryable(why)) if begun.elapsed() < Duration::from_secs(30) => {
                eprintln!("{what}: {why}");
                tokio::time::sleep(Duration::from_millis(200)).await;
            }
            Err(error) => panic!("{what}: {error:?}"),
        }
    }
}

#[tokio::test]
#[ignore = "needs a real etcd: ETCD_BIN"]
async fn a_real_etcd_over_tls() {
    let dir = tempfile::tempdir().unwrap();
    let authority = Authority::new();
    let files = authority.issue(dir.path(), "etcd", &["n1", "127.0.0.1"], 2099);
    let (first, second) = (Member::new("n1"), Member::new("n2"));
    let _first = first.start(dir.path(), &files, &[&first], "new");
    let etcd = local(
        first.client,
        Some(authority.issue(dir.path(), "agent", &["n1"], 2099)),
    );

    let status = eventually("status", async || {
        let status = etcd.status().await?;
        match status.leader {
            Some(_) => Ok(status),
            None => Err(PortError::Retryable("no leader".to_owned())),
        }
    })
    .await;
    assert_eq!(status.leader, Some(status.member_id));
    assert!(status.errors.is_empty() && !status.is_learner, "{status:?}");

    let list = etcd.members(true).await.unwrap();
    assert_eq!((list.members.len(), list.cluster_id), (1, status.cluster_id));
    assert_eq!(list.term, status.term);

    // Learner: add, refuse to promote before it has started, start, promote, remove.
    let learner = eventually("add", async || etcd.add_learner(&[second.peer_url()]).await).await;
    let again = etcd.add_learner(&[second.peer_url()]).await.unwrap_err();
    assert!(matches!(again, PortError::Permanent(_)), "{again:?}");
    let early = etcd.promote(learner).await.unwrap_err();
    assert!(matches!(early, PortError::Retryable(_)), "{early:?}");
    let running = second.start(dir.path(), &files, &[&first, &second], "existing");
    eventually("promote", async || etcd.promote(learner).await).await;
    let list = etcd.members(true).await.unwrap();
    assert_eq!(list.voters().count(), 2);

    // The leader moves where it is told to; a member that does not lead refuses.
    eventually("move", async || etcd.move_leader(learner).await).await;
    assert_eq!(etcd.status().await.unwrap().leader, Some(learner));
    let refused = etcd.move_leader(status.member_id).await.unwrap_err();
    assert!(matches!(refused, PortError::Permanent(_)), "{refused:?}");
    let other = local(
        second.client,
        Some(authority.issue(dir.path(), "agent2", &["n1"], 2099)),
    );
    eventually("move back", async || other.move_leader(status.member_id).await).await;
    let gone = etcd.promote(MemberId(42)).await.unwrap_err();
    assert!(matches!(gone, PortError::Permanent(_)), "{gone:?}");

    // Data, and a snapshot that carries its own SHA-256.
    let channel = etcd.connector.channel().unwrap();
    let mut client = Client::from_channel(etcd_client::Channel::Tonic(channel), None)
        .await
        .unwrap();
    let value = vec![7_u8; 1024 * 1024];
    for n in 0..100 {
        client.put(format!("k{n}"), value.clone(), None).await.unwrap();
    }
    let begun = Instant::now();
    let mut stream = etcd.snapshot().await.unwrap();
    let (mut bytes, mut chunks) = (Vec::new(), 0);
    while let Some(chunk) = stream.next().await {
        bytes.extend_from_slice(&chunk.unwrap());
        chunks += 1;
    }
    eprintln!(
        "snapshot: {} bytes in {chunks} chunks, {:?}",
        bytes.len(),
        begun.elapsed()
    );
    let (database, trailer) = bytes.split_at(bytes.len() - 32);
    assert_eq!(Sha256::digest(database).as_slice(), trailer);
    assert!(bytes.len() > 100 * 1024 * 1024);

    // Without quorum: status answers, changes and linearizable reads do not.
    drop(running);
    let begun = Instant::now();
    let stuck = loop {
        let error = etcd.remove_member(MemberId(42)).await.unwrap_err();
        if !matches!(error, PortError::Permanent(_)) || begun.elapsed() > Duration::from_secs(20) {
            break error;
        }
    };
    eprintln!("remove without quorum: {stuck:?}");
    let list = etcd.members(true).await.unwrap_err();
    assert!(matches!(list, PortError::Retryable(_)), "{list:?}");
    assert_eq!(etcd.members(false).await.unwrap().members.len(), 2);
    let status = eventually("no leader", async || {
        let status = etcd.status().await?;
        match status.leader {
            None => Ok(status),
            Some(_) => Err(PortError::Retryable("still a leader".to_owned())),
        }
    })
    .await;
    eprintln!("errors without quorum: {:?}", status.errors);
}
