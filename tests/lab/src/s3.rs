//! The S3 server of a lab, in the outside network namespace: versitygw on a plain directory, or `MinIO`.

use std::fs;
use std::net::{SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result, ensure};

use crate::certs::Authority;
use crate::cgroup::Cgroup;
use crate::cmd::Cmd;
use crate::daemon;
use crate::faults::{Fault, Outside, Seen};
use crate::golang;
use crate::net::Net;
use crate::outside;
use crate::place::{Record, S3Server, Wanted};
use crate::wait::wait_until;

const PORT: u16 = 7070;
/// The port of the server itself if a proxy is in front of it.
const BEHIND: u16 = 7071;

/// The S3 server. It keeps its objects through a stop and a start.
#[derive(Debug, Clone)]
pub struct S3 {
    dir: PathBuf,
    group: Cgroup,
    net: Net,
    wanted: Wanted,
}

impl S3 {
    /// The access key of its one account.
    pub const ACCESS_KEY: &str = "labaccess";
    /// The secret key of its one account.
    pub const SECRET_KEY: &str = "labsecret-not-a-secret";
    /// The bucket that exists from the start.
    pub const BUCKET: &str = "backups";
    /// The region to sign for.
    pub const REGION: &str = "us-east-1";

    pub(crate) fn new(record: &Record, net: &Net) -> Self {
        Self {
            dir: record.dir().join("s3"),
            group: record.s3_group(),
            net: net.clone(),
            wanted: record.s3,
        }
    }

    /// The URL for clients; the name `s3` in the hosts' `/etc/hosts` works as well as the address.
    pub fn endpoint(&self) -> String {
        let scheme = if self.wanted.tls { "https" } else { "http" };
        format!("{scheme}://{}", self.address(PORT))
    }

    fn address(&self, port: u16) -> SocketAddr {
        SocketAddr::from((self.net.outside_address(), port))
    }

    /// The address on which the server itself listens.
    fn server(&self) -> SocketAddr {
        self.address(if self.wanted.proxied { BEHIND } else { PORT })
    }

    /// Starts the proxy through which clients reach it.
    pub(crate) fn proxy(
        &self,
        decide: impl Fn(usize, &Seen) -> Fault + Send + Sync + 'static,
    ) -> Result<Outside> {
        let namespace = self.net.outside_namespace();
        Outside::start(&namespace, self.address(PORT), self.address(BEHIND), decide)
    }

    /// The bucket's directory. With versitygw each object is a file in it, named by its key.
    pub fn dir(&self) -> PathBuf {
        self.dir.join("data").join(Self::BUCKET)
    }

    /// The output of the server.
    pub fn log(&self) -> PathBuf {
        self.dir.join("server.log")
    }

    /// The keys of all objects, sorted, read from the disk and not through S3.
    pub fn keys(&self) -> Result<Vec<String>> {
        let mut keys = Vec::new();
        walk(&self.dir(), &self.dir(), &mut keys)?;
        keys.sort();
        Ok(keys)
    }

    /// Reads an object without the proxy.
    pub fn read(&self, key: &str) -> Result<String> {
        if self.wanted.server == S3Server::Versitygw {
            let path = self.dir().join(key);
            return fs::read_to_string(&path).with_context(|| format!("reading {}", path.display()));
        }
        let namespace = self.net.outside_namespace();
        // The path as it is signed.
        let path = key.replace(':', "%3A");
        let url = format!("http://{}/{}/{path}", self.server(), Self::BUCKET);
        let sign = format!("aws:amz:{}:s3", Self::REGION);
        let user = format!("{}:{}", Self::ACCESS_KEY, Self::SECRET_KEY);
        let answer = Cmd::new("nsenter")
            .arg(format!("--net=/run/netns/{namespace}"))
            .args(["curl", "--silent", "--show-error", "--fail", "--max-time", "20"])
            .args(["--aws-sigv4", &sign, "--user", &user, &url])
            .ok()?;
        Ok(answer.stdout)
    }

    /// The AWS shared credentials file with its account.
    pub fn credentials_file(&self) -> String {
        format!(
            "[default]\naws_access_key_id = {}\naws_secret_access_key = {}\n",
            Self::ACCESS_KEY,
            Self::SECRET_KEY
        )
    }

    /// A command line for a shell on a host: curl of this object, signed with the keys of the account. The
    /// caller appends the operation.
    pub fn curl(&self, key: &str) -> String {
        format!(
            "curl -sSf --aws-sigv4 aws:amz:{}:s3 --user {}:{} {}/{}/{key}",
            Self::REGION,
            Self::ACCESS_KEY,
            Self::SECRET_KEY,
            self.endpoint(),
            Self::BUCKET
        )
    }

    /// From its next start on the server keeps its objects in memory, at most this many GiB. The server of a
    /// real host has a disk of its own; here it would slow down the disk that etcd writes to.
    pub fn in_memory(&self, gib: u32) -> Result<()> {
        let data = self.dir.join("data");
        fs::create_dir_all(&data)?;
        Cmd::new("mount")
            .args(["-t", "tmpfs", "-o", &format!("size={gib}g"), "lab-s3"])
            .arg(&data)
            .ok()?;
        Ok(())
    }

    /// Starts it and waits until it accepts connections; does nothing if it runs.
    pub fn start(&self) -> Result<()> {
        if self.is_on() {
            return Ok(());
        }
        let argv = match self.wanted.server {
            S3Server::Versitygw => self.versitygw()?,
            S3Server::Minio => self.minio()?,
        };
        self.group.remove()?;
        let namespace = self.net.outside_namespace();
        let mut inside = vec!["nsenter".to_owned(), format!("--net=/run/netns/{namespace}")];
        inside.extend(argv);
        let env = [
            ("ROOT_ACCESS_KEY", Self::ACCESS_KEY),
            ("ROOT_SECRET_KEY", Self::SECRET_KEY),
            ("MINIO_ROOT_USER", Self::ACCESS_KEY),
            ("MINIO_ROOT_PASSWORD", Self::SECRET_KEY),
            ("HOME", "/root"),
        ];
        let env = [&env[..], &golang::MINIO_ENV].concat();
        daemon::start(&self.group, &inside, &env, &self.log())?;
        let address = self.server();
        outside::run(&namespace, || {
            wait_until("the S3 server to listen", Duration::from_secs(30), || {
                Ok(TcpStream::connect_timeout(&address, Duration::from_secs(1)).is_ok())
            })
        })
        .with_context(|| fs::read_to_string(self.log()).unwrap_or_default())?;
        // `MinIO` also accepts a directory as a bucket, but only after it has initialized its data directory.
        wait_until("the S3 server's own files", Duration::from_secs(30), || {
            Ok(
                self.wanted.server != S3Server::Minio
                    || self.dir.join("data/.minio.sys/format.json").exists(),
            )
        })?;
        fs::create_dir_all(self.dir())?;
        Ok(())
    }

    fn versitygw(&self) -> Result<Vec<String>> {
        fs::create_dir_all(self.dir())?;
        let mut argv = vec![
            golang::versitygw()?.display().to_string(),
            "--port".to_owned(),
            self.server().to_string(),
        ];
        if self.wanted.tls {
            let parent = self.dir.parent().context("the lab's directory")?;
            let names = ["s3".to_owned(), self.net.outside_address().to_string()];
            let pair = Authority::open(&parent.join("ca"), "lab CA")?.issue("s3", &names)?;
            let (cert, key) = pair.save(&self.dir, "server")?;
            argv.extend(["--cert".to_owned(), cert.display().to_string()]);
            argv.extend(["--key".to_owned(), key.display().to_string()]);
        }
        argv.extend(["posix".to_owned(), self.dir.join("data").display().to_string()]);
        Ok(argv)
    }

    fn minio(&self) -> Result<Vec<String>> {
        ensure!(!self.wanted.tls, "the lab's MinIO has no certificate");
        let data = self.dir.join("data");
        fs::create_dir_all(&data)?;
        let program = golang::minio()?;
        let words = [&program.display().to_string(), "server", "--quiet", "--address"];
        let mut argv: Vec<String> = words.map(str::to_owned).to_vec();
        argv.extend([self.server().to_string(), data.display().to_string()]);
        Ok(argv)
    }

    /// Whether it runs.
    pub fn is_on(&self) -> bool {
        !self.group.processes().is_empty()
    }

    /// Kills it. Connections are refused from then on.
    pub fn stop(&self) -> Result<()> {
        self.group.kill()
    }
}

/// The file that marks a directory as an object of `MinIO`.
const MINIO_OBJECT: &str = "xl.meta";

fn walk(base: &Path, dir: &Path, keys: &mut Vec<String>) -> Result<()> {
    for entry in fs::read_dir(dir)
        .with_context(|| format!("reading {}", dir.display()))?
        .flatten()
    {
        let path = entry.path();
        // versitygw keeps parts of running uploads in here.
        if entry.file_name() == ".sgwtmp" {
            continue;
        }
        if path.is_dir() && !path.join(MINIO_OBJECT).exists() {
            walk(base, &path, keys)?;
        } else if let Ok(key) = path.strip_prefix(base) {
            keys.push(key.to_string_lossy().into_owned());
        }
    }
    Ok(())
}
