//! Tests etcd's adapter against each real etcd version, over mutual TLS.

use std::fs;
use std::net::{SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use etcd_agent::adapters::etcd::LocalEtcd;
use etcd_agent::config;
use etcd_agent::model::MemberId;
use etcd_agent::paths::Paths;
use etcd_agent::ports::{Etcd, PortError, PortResult};
use etcd_agent_lab::{Authority, ETCD_VERSIONS, etcd_programs};
use etcd_agent_store_tests::{Server, noise, start};
use futures::StreamExt;
use sha2::{Digest, Sha256};
use tempfile::TempDir;

struct Files {
    cert: PathBuf,
    key: PathBuf,
    ca: PathBuf,
}

impl Files {
    fn new(dir: &Path) -> Self {
        let authority = Authority::open(&dir.join("ca"), "ca").unwrap();
        let names = ["n1", "localhost", "127.0.0.1"].map(str::to_owned);
        let (cert, key) = authority.issue("n1", &names).unwrap().save(dir, "n1").unwrap();
        let ca = authority.cert_path();
        Self { cert, key, ca }
    }
}

/// A free port on 127.0.0.1, where the agent expects its own etcd.
fn free_port() -> SocketAddr {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap()
}

struct Member {
    name: &'static str,
    client: SocketAddr,
    peer: SocketAddr,
}

impl Member {
    fn new(name: &'static str) -> Self {
        let (client, peer) = (free_port(), free_port());
        Self { name, client, peer }
    }

    fn peer_url(&self) -> String {
        format!("http://{}", self.peer)
    }

    fn start(&self, etcd: &Path, dir: &Path, files: &Files, cluster: &[&Member], state: &str) -> Server {
        let client = format!("https://{}", self.client);
        let initial: Vec<String> = cluster
            .iter()
            .map(|m| format!("{}={}", m.name, m.peer_url()))
            .collect();
        start(
            Command::new(etcd)
                .env_clear()
                .args(["--name", self.name, "--data-dir"])
                .arg(dir.join(self.name))
                .args([
                    "--listen-client-urls",
                    &client,
                    "--advertise-client-urls",
                    &client,
                ])
                .args(["--listen-peer-urls", &self.peer_url()])
                .args(["--initial-advertise-peer-urls", &self.peer_url()])
                .args(["--initial-cluster", &initial.join(",")])
                .args(["--initial-cluster-state", state, "--client-cert-auth"])
                .arg("--cert-file")
                .arg(&files.cert)
                .arg("--key-file")
                .arg(&files.key)
                .arg("--trusted-ca-file")
                .arg(&files.ca),
            &dir.join(format!("{}.log", self.name)),
            self.peer,
        )
    }
}

/// The adapter, created from a configuration like in the agent.
fn adapter(dir: &Path, member: &Member, files: &Files) -> LocalEtcd {
    let tls = format!(
        "cert_file = \"{}\"\nkey_file = \"{}\"\nca_file = \"{}\"\n",
        files.cert.display(),
        files.key.display(),
        files.ca.display()
    );
    let text = format!(
        "[cluster]\nname = \"prod\"\nnodes = {{ n1 = \"127.0.0.1\" }}\n[node]\nname = \"n1\"\n[etcd]\nclient_port = {}\n\
         [etcd.client_tls]\n{tls}[api.tls]\n{tls}",
        member.client.port()
    );
    let paths = Paths::below(dir.join(format!("root-{}", member.name)));
    fs::create_dir_all(paths.config_file().parent().unwrap()).unwrap();
    fs::write(paths.config_file(), text).unwrap();
    LocalEtcd::new(&config::load(&paths).unwrap().unwrap().settings)
}

async fn eventually<T>(what: &str, mut ask: impl AsyncFnMut() -> PortResult<T>) -> T {
    let begun = Instant::now();
    loop {
        match ask().await {
            Ok(answer) => return answer,
            Err(PortError::Retryable(why)) if begun.elapsed() < Duration::from_mins(1) => {
                eprintln!("{what}: {why}");
                tokio::time::sleep(Duration::from_millis(200)).await;
            }
            Err(error) => panic!("{what}: {error:?}"),
        }
    }
}

async fn follow(version: &str) {
    let dir = TempDir::new().unwrap();
    let bin = etcd_programs(version).unwrap().join("bin/usr/bin");
    let (program, files) = (bin.join("etcd"), Files::new(dir.path()));
    let (first, second) = (Member::new("n1"), Member::new("n2"));
    let _first = first.start(&program, dir.path(), &files, &[&first], "new");
    let etcd = adapter(dir.path(), &first, &files);

    let status = eventually("status", async || {
        let status = etcd.status().await?;
        match status.leader {
            Some(_) => Ok(status),
            None => Err(PortError::Retryable("no leader".to_owned())),
        }
    })
    .await;
    assert_eq!(status.version, version);
    assert_eq!(status.leader, Some(status.member_id));
    assert!(status.errors.is_empty() && !status.is_learner, "{status:?}");
    let list = eventually("members", async || etcd.members(true).await).await;
    assert_eq!((list.members.len(), list.cluster_id), (1, status.cluster_id));
    assert_eq!(list.term, status.term);

    // Write data, and take a snapshot. Its last 32 bytes are its SHA-256.
    for n in 0..16 {
        fs::write(dir.path().join("value"), noise(1 << 20)).unwrap();
        put(&bin, &first, &files, &format!("k{n}"), &dir.path().join("value"));
    }
    let mut stream = etcd.snapshot().await.unwrap();
    let mut bytes = Vec::new();
    while let Some(chunk) = stream.next().await {
        bytes.extend_from_slice(&chunk.unwrap());
    }
    assert!(bytes.len() > 16 << 20);
    let (database, trailer) = bytes.split_at(bytes.len() - 32);
    assert_eq!(Sha256::digest(database).as_slice(), trailer);

    // A learner can be added only once and promoted only after it has started.
    let learner = eventually("add", async || etcd.add_learner(&[second.peer_url()]).await).await;
    let again = etcd.add_learner(&[second.peer_url()]).await.unwrap_err();
    assert!(matches!(again, PortError::Permanent(_)), "{again:?}");
    let early = etcd.promote(learner).await.unwrap_err();
    assert!(matches!(early, PortError::Retryable(_)), "{early:?}");
    let running = second.start(&program, dir.path(), &files, &[&first, &second], "existing");
    eventually("promote", async || etcd.promote(learner).await).await;
    let list = eventually("members", async || etcd.members(true).await).await;
    assert_eq!(list.voters().count(), 2);

    // The leader moves to the requested member, as soon as that member knows that it is a voter. A member
    // that is not the leader refuses a move.
    let other = adapter(dir.path(), &second, &files);
    eventually("vote", async || {
        let learns = other.status().await?.is_learner;
        let still = || PortError::Retryable("still a learner".to_owned());
        (!learns).then_some(()).ok_or_else(still)
    })
    .await;
    eventually("move", async || etcd.move_leader(learner).await).await;
    eventually("moved", async || match etcd.status().await?.leader {
        Some(leader) if leader == learner => Ok(()),
        _ => Err(PortError::Retryable("not yet".to_owned())),
    })
    .await;
    let refused = etcd.move_leader(status.member_id).await.unwrap_err();
    assert!(matches!(refused, PortError::Permanent(_)), "{refused:?}");
    eventually("move back", async || other.move_leader(status.member_id).await).await;
    let gone = etcd.promote(MemberId(42)).await.unwrap_err();
    assert!(matches!(gone, PortError::Permanent(_)), "{gone:?}");

    // Without quorum, status and the local member list still work. Changes and linearizable reads fail.
    drop(running);
    eventually("no leader", async || match etcd.status().await?.leader {
        None => Ok(()),
        Some(_) => Err(PortError::Retryable("still a leader".to_owned())),
    })
    .await;
    let list = etcd.members(true).await.unwrap_err();
    assert!(matches!(list, PortError::Retryable(_)), "{list:?}");
    // A witness of a removal is asked once, by an adapter that has not seen its version. etcd 3.4 would answer from
    // memory.
    let once = adapter(dir.path(), &first, &files).members(true).await;
    assert!(matches!(once, Err(PortError::Retryable(_))), "{once:?}");
    assert_eq!(etcd.members(false).await.unwrap().members.len(), 2);
    let stuck = etcd.remove_member(learner).await.unwrap_err();
    assert!(!matches!(stuck, PortError::Permanent(_)), "{stuck:?}");
}

/// Puts the content of a file as a value.
fn put(bin: &Path, member: &Member, files: &Files, key: &str, value: &Path) {
    let done = Command::new(bin.join("etcdctl"))
        .env_clear()
        .env("ETCDCTL_API", "3")
        .arg(format!("--endpoints=https://{}", member.client))
        .arg("--cert")
        .arg(&files.cert)
        .arg("--key")
        .arg(&files.key)
        .arg("--cacert")
        .arg(&files.ca)
        .args(["put", key])
        .stdin(fs::File::open(value).unwrap())
        .output()
        .unwrap();
    assert!(done.status.success(), "{done:?}");
}

#[tokio::test]
async fn each_etcd_is_followed_over_tls() {
    for version in ETCD_VERSIONS {
        eprintln!("etcd {version}");
        follow(version).await;
    }
}
