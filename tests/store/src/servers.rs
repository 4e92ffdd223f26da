//! A real S3 server, a real etcd and a proxy that cuts connections, each on a free port of the loopback
//! interface.

use std::fs;
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};
use std::time::Duration;

use etcd_agent::adapters::etcd::LocalEtcd;
use etcd_agent::adapters::store::open_store;
use etcd_agent::config::{Proxy, S3Options, StoreSettings, StoreUrl};
use etcd_agent::ports::ObjectStore;
use etcd_agent_lab::{Cmd, etcd_metric, etcd_programs, versitygw_program, wait_until};
use tempfile::TempDir;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

/// A process that is killed at the end of the test.
pub struct Server(Child);

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Starts a server with its output in `log`, and waits until it listens at `address`.
pub fn start(command: &mut Command, log: &Path, address: SocketAddr) -> Server {
    let log = fs::File::create(log).unwrap();
    let server = command
        .stdin(Stdio::null())
        .stdout(log.try_clone().unwrap())
        .stderr(log)
        .spawn()
        .unwrap();
    let server = Server(server);
    wait_until("the server to listen", Duration::from_mins(2), || {
        Ok(TcpStream::connect_timeout(&address, Duration::from_secs(1)).is_ok())
    })
    .unwrap();
    server
}

/// A free port of a loopback address that no other process uses. On 127.0.0.1 another test's server or client
/// could take the port between this check and the server's start.
pub(crate) fn free_port() -> SocketAddr {
    static COUNT: AtomicU8 = AtomicU8::new(1);
    let [.., middle, low] = std::process::id().to_be_bytes();
    let number = COUNT.fetch_add(1, Ordering::Relaxed);
    let address = Ipv4Addr::new(127, 0x80 | middle, low, number);
    TcpListener::bind((address, 0)).unwrap().local_addr().unwrap()
}

pub struct S3 {
    _server: Server,
    dir: TempDir,
    address: SocketAddr,
}

impl S3 {
    pub fn start() -> Self {
        let dir = TempDir::new().unwrap();
        fs::create_dir_all(dir.path().join("data/backups")).unwrap();
        let address = free_port();
        let server = start(
            Command::new(versitygw_program().unwrap())
                .args(["--port", &address.to_string(), "posix"])
                .arg(dir.path().join("data"))
                .env_clear()
                .env("ROOT_ACCESS_KEY", "labaccess")
                .env("ROOT_SECRET_KEY", "labsecret-not-a-secret"),
            &dir.path().join("log"),
            address,
        );
        Self {
            _server: server,
            dir,
            address,
        }
    }

    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// The bucket's directory.
    pub fn bucket(&self) -> PathBuf {
        self.dir.path().join("data/backups")
    }

    pub fn store(&self) -> Arc<dyn ObjectStore> {
        open_store(&self.right_settings())
    }

    /// Settings with the right secret.
    pub fn right_settings(&self) -> StoreSettings {
        self.settings(self.address, "labsecret-not-a-secret")
    }

    pub fn settings(&self, address: SocketAddr, secret: &str) -> StoreSettings {
        let credentials = self.dir.path().join(format!("credentials-{secret}"));
        let text = format!("[default]\naws_access_key_id = labaccess\naws_secret_access_key = {secret}\n");
        fs::write(&credentials, text).unwrap();
        StoreSettings {
            url: StoreUrl::S3 {
                bucket: "backups".to_owned(),
                prefix: "etcd/prod".to_owned(),
            },
            endpoint: Some(format!("http://{address}")),
            region: None,
            path_style: true,
            ca_file: None,
            credentials_file: Some(credentials),
            shared: true,
            options: S3Options {
                proxy: Proxy::Off,
                ..S3Options::default()
            },
        }
    }

    /// Parts of uploads that are neither complete nor aborted.
    pub fn parts(&self) -> Vec<PathBuf> {
        fn walk(dir: &Path, found: &mut Vec<PathBuf>) {
            for entry in fs::read_dir(dir).into_iter().flatten().flatten() {
                if entry.path().is_dir() {
                    walk(&entry.path(), found);
                } else {
                    found.push(entry.path());
                }
            }
        }
        let mut found = Vec::new();
        walk(&self.bucket().join(".sgwtmp"), &mut found);
        found
    }
}

pub struct RealEtcd {
    _server: Server,
    pub dir: TempDir,
    pub bin: PathBuf,
    pub url: String,
}

impl RealEtcd {
    pub fn start(version: &str) -> Self {
        Self::start_with(version, &[])
    }

    /// Starts etcd with additional flags.
    pub fn start_with(version: &str, flags: &[&str]) -> Self {
        let dir = TempDir::new().unwrap();
        let bin = etcd_programs(version).unwrap().join("bin/usr/bin");
        let data = dir.path().join("data");
        let server = Self::run(&bin, &data, &dir.path().join("log"), flags);
        Self {
            _server: server.0,
            dir,
            bin,
            url: server.1,
        }
    }

    fn run(bin: &Path, data: &Path, log: &Path, flags: &[&str]) -> (Server, String) {
        let (client, peer) = (free_port(), free_port());
        let url = format!("http://{client}");
        let server = start(
            Command::new(bin.join("etcd"))
                .env_clear()
                .args(["--name", "n1", "--data-dir"])
                .arg(data)
                .args(["--listen-client-urls", &url, "--advertise-client-urls", &url])
                .args(["--listen-peer-urls", &format!("http://{peer}")])
                .args(["--initial-advertise-peer-urls", &format!("http://{peer}")])
                .args(["--initial-cluster", &format!("n1=http://{peer}")])
                .args(flags),
            log,
            client,
        );
        let healthy = || Ok(Self::ctl_at(bin, &url, &["endpoint", "health"]).run()?.success());
        wait_until("etcd to be healthy", Duration::from_mins(2), healthy).unwrap();
        (server, url)
    }

    /// Stops etcd, applies `change` to its data directory, and starts it again.
    #[must_use]
    pub fn restarted(self, change: impl FnOnce(&Path)) -> Self {
        let Self {
            _server: server,
            dir,
            bin,
            ..
        } = self;
        drop(server);
        let data = dir.path().join("data");
        change(&data);
        let (server, url) = Self::run(&bin, &data, &dir.path().join("log"), &[]);
        Self {
            _server: server,
            dir,
            bin,
            url,
        }
    }

    /// Starts another etcd on a restored data directory.
    #[must_use]
    pub fn serve(&self, data: &Path) -> Self {
        let dir = TempDir::new().unwrap();
        let (server, url) = Self::run(&self.bin, data, &dir.path().join("log"), &[]);
        Self {
            _server: server,
            dir,
            bin: self.bin.clone(),
            url,
        }
    }

    /// The sum of its metrics whose line begins with `begins`.
    pub fn metric(&self, begins: &str) -> f64 {
        let address = self.url.trim_start_matches("http://").parse().unwrap();
        etcd_metric(address, begins).unwrap()
    }

    /// The agent's own client of this etcd.
    pub fn member(&self) -> LocalEtcd {
        LocalEtcd::at_url(&self.url, None).unwrap()
    }

    fn ctl_at(bin: &Path, url: &str, args: &[&str]) -> Cmd {
        Cmd::new(bin.join("etcdctl"))
            .args(["--endpoints", url])
            .args(args)
    }

    pub fn ctl(&self, args: &[&str]) -> String {
        Self::ctl_at(&self.bin, &self.url, args).ok().unwrap().stdout
    }

    pub fn utl(&self, args: &[&str]) -> String {
        Cmd::new(self.bin.join("etcdutl")).args(args).ok().unwrap().stdout
    }
}

/// Starts a proxy that forwards to `to` and cuts each connection after `bytes` of the response. Returns its
/// address and the counter of connections.
pub async fn cutting_proxy(to: SocketAddr, bytes: u64) -> (SocketAddr, Arc<AtomicU64>) {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let count = Arc::new(AtomicU64::new(0));
    let counted = count.clone();
    tokio::spawn(async move {
        while let Ok((client, _)) = listener.accept().await {
            counted.fetch_add(1, Ordering::Relaxed);
            let server = tokio::net::TcpStream::connect(to).await.unwrap();
            tokio::spawn(async move {
                let (mut from_client, mut to_client) = client.into_split();
                let (mut from_server, mut to_server) = server.into_split();
                let up = tokio::spawn(async move { tokio::io::copy(&mut from_client, &mut to_server).await });
                let _ = tokio::io::copy(&mut (&mut from_server).take(bytes), &mut to_client).await;
                let _ = to_client.shutdown().await;
                up.abort();
            });
        }
    });
    (address, count)
}
