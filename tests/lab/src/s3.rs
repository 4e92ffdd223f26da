//! The S3 server of a lab: versitygw on a plain directory, in the outside network namespace.

use std::fs;
use std::net::{SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result};

use crate::certs::Authority;
use crate::cgroup::Cgroup;
use crate::cmd::Cmd;
use crate::daemon;
use crate::golang;
use crate::lab::s3_group;
use crate::net::Net;
use crate::outside;
use crate::place::Record;
use crate::wait::wait_until;

const PORT: u16 = 7070;

/// The S3 server. It keeps its objects when it is stopped and started again.
#[derive(Debug, Clone)]
pub struct S3 {
    dir: PathBuf,
    group: Cgroup,
    net: Net,
    tls: bool,
}

impl S3 {
    /// The access key of its one account.
    pub const ACCESS_KEY: &str = "labaccess";
    /// The secret key of its one account.
    pub const SECRET_KEY: &str = "labsecret-not-a-secret";
    /// The bucket that is there from the start.
    pub const BUCKET: &str = "backups";
    /// The region to sign for.
    pub const REGION: &str = "us-east-1";

    pub(crate) fn new(record: &Record, net: &Net) -> Self {
        Self {
            dir: record.dir().join("s3"),
            group: s3_group(record),
            net: net.clone(),
            tls: record.s3_tls,
        }
    }

    /// Where clients find it; the name `s3` in the hosts' `/etc/hosts` works as well as the address.
    pub fn endpoint(&self) -> String {
        let scheme = if self.tls { "https" } else { "http" };
        format!("{scheme}://{}", self.address())
    }

    fn address(&self) -> SocketAddr {
        SocketAddr::from((self.net.outside_address(), PORT))
    }

    /// The bucket's directory: each object is a file in it, by its key.
    pub fn dir(&self) -> PathBuf {
        self.dir.join("data").join(Self::BUCKET)
    }

    /// What the server printed.
    pub fn log(&self) -> PathBuf {
        self.dir.join("versitygw.log")
    }

    /// The keys of all objects, sorted, read from the disk and not through S3.
    pub fn keys(&self) -> Result<Vec<String>> {
        let mut keys = Vec::new();
        walk(&self.dir(), &self.dir(), &mut keys)?;
        keys.sort();
        Ok(keys)
    }

    /// The AWS shared credentials file for it.
    pub fn credentials_file(&self) -> String {
        format!(
            "[default]\naws_access_key_id = {}\naws_secret_access_key = {}\n",
            Self::ACCESS_KEY,
            Self::SECRET_KEY
        )
    }

    /// From its start on it keeps at most so many GiB of objects, in memory: where the server of a real host has a disk of
    /// its own, here it would take its share of the one that etcd writes to.
    pub fn in_memory(&self, gib: u32) -> Result<()> {
        let data = self.dir.join("data");
        fs::create_dir_all(&data)?;
        Cmd::new("mount")
            .args(["-t", "tmpfs", "-o", &format!("size={gib}g"), "lab-s3"])
            .arg(&data)
            .ok()?;
        Ok(())
    }

    /// Starts it and waits until it accepts connections; does nothing when it runs.
    pub fn start(&self) -> Result<()> {
        if self.is_on() {
            return Ok(());
        }
        let program = golang::versitygw()?;
        fs::create_dir_all(self.dir())?;
        self.group.remove()?;
        let namespace = self.net.outside_namespace();
        let mut argv = vec![
            "nsenter".to_owned(),
            format!("--net=/run/netns/{namespace}"),
            program.display().to_string(),
            "--port".to_owned(),
            self.address().to_string(),
        ];
        if self.tls {
            let parent = self.dir.parent().context("the lab's directory")?;
            let names = ["s3".to_owned(), self.net.outside_address().to_string()];
            let pair = Authority::open(&parent.join("ca"), "lab CA")?.issue("s3", &names)?;
            let (cert, key) = pair.save(&self.dir, "server")?;
            argv.extend(["--cert".to_owned(), cert.display().to_string()]);
            argv.extend(["--key".to_owned(), key.display().to_string()]);
        }
        argv.extend(["posix".to_owned(), self.dir.join("data").display().to_string()]);
        let env = [
            ("ROOT_ACCESS_KEY", Self::ACCESS_KEY),
            ("ROOT_SECRET_KEY", Self::SECRET_KEY),
            ("HOME", "/root"),
        ];
        daemon::start(&self.group, &argv, &env, &self.log())?;
        let address = self.address();
        outside::run(&namespace, || {
            wait_until("the S3 server to listen", Duration::from_secs(30), || {
                Ok(TcpStream::connect_timeout(&address, Duration::from_secs(1)).is_ok())
            })
        })
        .with_context(|| fs::read_to_string(self.log()).unwrap_or_default())?;
        Ok(())
    }

    /// Whether it runs.
    pub fn is_on(&self) -> bool {
        !self.group.processes().is_empty()
    }

    /// Kills it; connections are refused from now on.
    pub fn stop(&self) -> Result<()> {
        self.group.kill()
    }
}

fn walk(base: &Path, dir: &Path, keys: &mut Vec<String>) -> Result<()> {
    for entry in fs::read_dir(dir)
        .with_context(|| format!("reading {}", dir.display()))?
        .flatten()
    {
        let path = entry.path();
        // versitygw keeps parts of uploads under way in here.
        if entry.file_name() == ".sgwtmp" {
            continue;
        }
        if path.is_dir() {
            walk(base, &path, keys)?;
        } else if let Ok(key) = path.strip_prefix(base) {
            keys.push(key.to_string_lossy().into_owned());
        }
    }
    Ok(())
}
