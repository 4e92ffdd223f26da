//! versitygw and `MinIO` behind one interface, so that one test runs on both.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::Command;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use aws_sdk_s3::config::{BehaviorVersion, Credentials, Region};
use aws_smithy_async::time::StaticTimeSource;
use etcd_agent::adapters::store::open_store;
use etcd_agent::config::{Proxy, S3Options, StoreSettings, StoreUrl};
use etcd_agent::ports::ObjectStore;
use etcd_agent_lab::{Authority, Cmd, MINIO_ENV, minio_program, versitygw_program};
use tempfile::TempDir;

use crate::servers::{Server, free_port, start};

/// The kind of S3 server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// versitygw on a plain directory.
    Versitygw,
    /// `MinIO`, the second implementation.
    Minio,
}

impl Kind {
    /// Both kinds.
    pub const ALL: [Self; 2] = [Self::Versitygw, Self::Minio];
}

/// A server with the bucket `backups`.
pub struct AnyS3 {
    _server: Server,
    dir: TempDir,
    address: SocketAddr,
    authority: Option<Authority>,
}

impl AnyS3 {
    /// The administrator's keys.
    pub const ACCESS: &str = "labaccess";
    pub const SECRET: &str = "labsecret-not-a-secret";

    /// Starts the server without TLS.
    pub async fn start(kind: Kind) -> Self {
        Self::start_with(kind, false).await
    }

    /// Starts the server with a certificate of its own authority.
    pub async fn start_tls(kind: Kind) -> Self {
        Self::start_with(kind, true).await
    }

    async fn start_with(kind: Kind, tls: bool) -> Self {
        let dir = TempDir::new().unwrap();
        let address = free_port();
        let certs = dir.path().join("certs");
        std::fs::create_dir_all(&certs).unwrap();
        let authority = tls.then(|| {
            let authority = Authority::open(&dir.path().join("ca"), "store CA").unwrap();
            let pair = authority.issue("s3", &[address.ip().to_string()]).unwrap();
            // The file names that MinIO expects.
            std::fs::write(certs.join("public.crt"), &pair.cert).unwrap();
            std::fs::write(certs.join("private.key"), &pair.key).unwrap();
            authority
        });
        let data = dir.path().join("data");
        std::fs::create_dir_all(&data).unwrap();
        let mut command = match kind {
            Kind::Versitygw => versitygw(&dir, address, tls),
            Kind::Minio => minio(&certs, &data, address),
        };
        let server = start(
            command.current_dir(dir.path()).env("HOME", dir.path()),
            &dir.path().join("log"),
            address,
        );
        let this = Self {
            _server: server,
            dir,
            address,
            authority,
        };
        this.make_bucket().await;
        this
    }

    /// Makes the bucket. Retries, because `MinIO` listens before it can serve requests.
    async fn make_bucket(&self) {
        let mut last = String::new();
        for _ in 0..120 {
            match self.client(None).create_bucket().bucket("backups").send().await {
                Ok(_) => return,
                Err(error) => last = format!("{error:?}"),
            }
            tokio::time::sleep(Duration::from_millis(500)).await;
        }
        let log = std::fs::read_to_string(self.dir.path().join("log")).unwrap_or_default();
        panic!("cannot make the bucket: {last}\n{log}");
    }

    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// A directory for files of the test.
    pub fn dir(&self) -> PathBuf {
        self.dir.path().to_owned()
    }

    /// A client with the administrator's keys. If `now` is given, its clock shows that time.
    pub fn client(&self, now: Option<SystemTime>) -> aws_sdk_s3::Client {
        use aws_smithy_http_client::tls::rustls_provider::CryptoMode;
        use aws_smithy_http_client::tls::{Provider, TlsContext, TrustStore};
        let mut trust = TrustStore::empty();
        if let Some(authority) = &self.authority {
            trust = trust.with_pem_certificate(authority.cert());
        }
        let context = TlsContext::builder().with_trust_store(trust).build().unwrap();
        let http = aws_smithy_http_client::Builder::new()
            .tls_provider(Provider::Rustls(CryptoMode::Ring))
            .tls_context(context)
            .build_https();
        let mut config = aws_sdk_s3::Config::builder()
            .behavior_version(BehaviorVersion::v2026_01_12())
            .http_client(http)
            .region(Region::new("us-east-1"))
            .credentials_provider(Credentials::new(Self::ACCESS, Self::SECRET, None, None, "test"))
            .endpoint_url(self.endpoint(self.address))
            .force_path_style(true);
        if let Some(now) = now {
            config = config.time_source(StaticTimeSource::new(now));
        }
        aws_sdk_s3::Client::from_conf(config.build())
    }

    /// Temporary keys of `MinIO`'s own token service, valid for an hour.
    pub async fn temporary(&self) -> Credentials {
        let config = aws_sdk_sts::Config::builder()
            .behavior_version(aws_sdk_sts::config::BehaviorVersion::v2026_01_12())
            .http_client(aws_smithy_http_client::Builder::new().build_http())
            .region(Region::new("us-east-1"))
            .credentials_provider(Credentials::new(Self::ACCESS, Self::SECRET, None, None, "test"))
            .endpoint_url(self.endpoint(self.address));
        let client = aws_sdk_sts::Client::from_conf(config.build());
        // The token service is ready later than the rest.
        let mut last = String::new();
        for _ in 0..120 {
            let request = client.assume_role().role_arn("arn:aws:iam::1:role/any");
            match request.role_session_name("test").send().await {
                Ok(answer) => {
                    let keys = answer.credentials.unwrap();
                    let (access, secret) = (keys.access_key_id, keys.secret_access_key);
                    return Credentials::new(access, secret, Some(keys.session_token), None, "test");
                }
                Err(error) => last = format!("{error:?}"),
            }
            tokio::time::sleep(Duration::from_millis(500)).await;
        }
        panic!("no keys: {last}");
    }

    fn endpoint(&self, address: SocketAddr) -> String {
        let scheme = if self.authority.is_some() { "https" } else { "http" };
        format!("{scheme}://{address}")
    }

    /// The store of the agent, reached at `address`.
    pub fn settings_at(&self, address: SocketAddr) -> StoreSettings {
        self.settings_of(address, Self::ACCESS, Self::SECRET)
    }

    /// The store of the agent.
    pub fn settings(&self) -> StoreSettings {
        self.settings_at(self.address)
    }

    /// The store of the agent with other keys.
    pub fn settings_of(&self, address: SocketAddr, access: &str, secret: &str) -> StoreSettings {
        let credentials = self.dir.path().join(format!("credentials-{access}-{secret}"));
        let text = format!("[default]\naws_access_key_id = {access}\naws_secret_access_key = {secret}\n");
        std::fs::write(&credentials, text).unwrap();
        StoreSettings {
            url: StoreUrl::S3 {
                bucket: "backups".to_owned(),
                prefix: "etcd/prod".to_owned(),
            },
            endpoint: Some(self.endpoint(address)),
            region: None,
            path_style: true,
            ca_file: self.authority.as_ref().map(Authority::cert_path),
            credentials_file: Some(credentials),
            shared: true,
            options: S3Options {
                proxy: Proxy::Off,
                ..S3Options::default()
            },
        }
    }

    pub fn store(&self) -> Arc<dyn ObjectStore> {
        open_store(&self.settings())
    }

    /// Creates an account of versitygw without any right. Returns the settings to use it.
    pub fn nobody(&self) -> StoreSettings {
        Cmd::new(versitygw_program().unwrap())
            .args([
                "admin",
                "--access",
                Self::ACCESS,
                "--secret",
                Self::SECRET,
                "--endpoint-url",
            ])
            .arg(self.endpoint(self.address))
            .args([
                "create-user",
                "--access",
                "agent",
                "--secret",
                "agentsecret",
                "--role",
                "user",
            ])
            .ok()
            .unwrap();
        self.settings_of(self.address, "agent", "agentsecret")
    }

    /// Sets the actions that the account of [`Self::nobody`] may perform.
    pub async fn allow(&self, actions: &[&str]) {
        let quoted: Vec<String> = actions.iter().map(|action| format!("{action:?}")).collect();
        let on_objects: Vec<String> = quoted
            .iter()
            .filter(|a| !a.contains("ListBucket\""))
            .cloned()
            .collect();
        let mut statements = Vec::new();
        if quoted.len() > on_objects.len() {
            statements.push(
                r#"{"Effect":"Allow","Principal":{"AWS":["agent"]},"Action":["s3:ListBucket"],"Resource":["arn:aws:s3:::backups"]}"#
                    .to_owned(),
            );
        }
        if !on_objects.is_empty() {
            statements.push(format!(
                r#"{{"Effect":"Allow","Principal":{{"AWS":["agent"]}},"Action":[{}],"Resource":["arn:aws:s3:::backups/etcd/prod/*"]}}"#,
                on_objects.join(",")
            ));
        }
        let policy = format!(
            r#"{{"Version":"2012-10-17","Statement":[{}]}}"#,
            statements.join(",")
        );
        let put = self
            .client(None)
            .put_bucket_policy()
            .bucket("backups")
            .policy(policy);
        put.send().await.unwrap();
    }
}

fn versitygw(dir: &TempDir, address: SocketAddr, tls: bool) -> Command {
    let iam = dir.path().join("iam");
    std::fs::create_dir_all(&iam).unwrap();
    let mut command = Command::new(versitygw_program().unwrap());
    command
        .env_clear()
        .env("ROOT_ACCESS_KEY", AnyS3::ACCESS)
        .env("ROOT_SECRET_KEY", AnyS3::SECRET)
        .args(["--port", &address.to_string(), "--iam-cache-disable", "--iam-dir"])
        .arg(&iam);
    if tls {
        // Absolute paths: versitygw changes its working directory before it reads the files.
        let certs = dir.path().join("certs");
        command.arg("--cert").arg(certs.join("public.crt"));
        command.arg("--key").arg(certs.join("private.key"));
    }
    command.args(["posix", "data"]);
    command
}

fn minio(certs: &std::path::Path, data: &std::path::Path, address: SocketAddr) -> Command {
    let mut command = Command::new(minio_program().unwrap());
    command
        .env_clear()
        .env("MINIO_ROOT_USER", AnyS3::ACCESS)
        .env("MINIO_ROOT_PASSWORD", AnyS3::SECRET)
        .envs(MINIO_ENV)
        // SSE-S3 and SSE-KMS need a key server or this key.
        .env(
            "MINIO_KMS_SECRET_KEY",
            "lab:AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=",
        )
        .args([
            "server",
            "--quiet",
            "--address",
            &address.to_string(),
            "--certs-dir",
        ])
        .arg(certs)
        .arg(data);
    command
}
