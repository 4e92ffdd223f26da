//! The place of a lab: an index that no other lab has, and all names derived from it.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

use anyhow::{Context, Result, bail};
use serde::{Deserialize, Serialize};

use crate::cache;
use crate::cgroup::Cgroup;

/// The directory of all labs of the machine, each in a subdirectory named by its id; on a real disk, for
/// overlayfs.
const BASE: &str = "/var/tmp/etcd-agent-lab";

/// The prefix of directories that are being removed.
const GONE: &str = "gone-";

/// The kind of server.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum S3Server {
    /// versitygw: an object is a file named by its key.
    Versitygw,
    /// `MinIO`: an object is a directory named by its key.
    Minio,
}

/// The requested S3 server.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
pub(crate) struct Wanted {
    pub(crate) server: S3Server,
    pub(crate) tls: bool,
    /// Clients reach it through a proxy, once the proxy is started.
    pub(crate) proxied: bool,
}

/// The record of a lab on disk, written before anything else of the lab is made.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Record {
    pub(crate) id: String,
    pub(crate) index: u8,
    pub(crate) name: String,
    pub(crate) hosts: u8,
    /// The lab ends with this process. `None` for a lab that stays up until it is ended by hand.
    pub(crate) owner: Option<Owner>,
    /// Lower layers of the hosts' file systems, topmost first.
    pub(crate) layers: Vec<PathBuf>,
    /// The same for hosts with another Debian release, by their numbers.
    #[serde(default)]
    pub(crate) layers_of: BTreeMap<u8, Vec<PathBuf>>,
    /// The directory of etcd's programs for use on the outer machine.
    pub(crate) programs: PathBuf,
    pub(crate) s3: Wanted,
    /// Whether etcd and the agents speak mutual TLS.
    pub(crate) tls: bool,
}

/// A process. Its start time distinguishes it from a later process with the same PID.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Owner {
    pid: u32,
    start_ticks: u64,
}

impl Owner {
    pub(crate) fn current() -> Result<Self> {
        Self::of(std::process::id()).context("reading /proc/self/stat")
    }

    fn of(pid: u32) -> Option<Self> {
        let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
        // proc_pid_stat(5): field 22, counted after the command name, which may contain spaces.
        let (_, rest) = stat.rsplit_once(')')?;
        let start_ticks = rest.split_whitespace().nth(19)?.parse().ok()?;
        Some(Self { pid, start_ticks })
    }

    pub(crate) fn is_alive(&self) -> bool {
        Self::of(self.pid).as_ref() == Some(self)
    }
}

impl Record {
    pub(crate) fn dir(&self) -> PathBuf {
        Path::new(BASE).join(&self.id)
    }

    fn save(&self) -> Result<()> {
        fs::create_dir_all(self.dir())?;
        fs::write(self.dir().join("lab.json"), serde_json::to_vec_pretty(self)?)
            .with_context(|| format!("writing into {}", self.dir().display()))
    }

    pub(crate) fn load(id: &str) -> Result<Self> {
        let path = Path::new(BASE).join(id).join("lab.json");
        let text = fs::read_to_string(&path).with_context(|| format!("no lab at {}", path.display()))?;
        serde_json::from_str(&text).with_context(|| format!("reading {}", path.display()))
    }

    /// The cgroup of the S3 server.
    pub(crate) fn s3_group(&self) -> Cgroup {
        Cgroup::new(format!("{}/s3", self.id))
    }

    /// Claims the first free index. The caller holds the [`lock`].
    pub(crate) fn claim(mut self) -> Result<Self> {
        for index in 0..200_u8 {
            let id = format!("lab{index}");
            if !Path::new(BASE).join(&id).exists() {
                self.index = index;
                self.id = id;
                self.save()?;
                return Ok(self);
            }
        }
        bail!("200 labs are up in {BASE}; `lab down --all` ends those left by hand")
    }
}

/// Held while labs are claimed or swept.
pub(crate) fn lock() -> Result<fs::File> {
    fs::create_dir_all(BASE).with_context(|| format!("creating {BASE}"))?;
    cache::lock(&Path::new(BASE).join("lock"))
}

/// The ids of all labs on this machine, oldest index first.
pub(crate) fn ids() -> Vec<String> {
    let entries = fs::read_dir(BASE).into_iter().flatten().flatten();
    let mut ids: Vec<String> = entries
        .filter(|entry| entry.path().is_dir())
        .filter_map(|entry| entry.file_name().into_string().ok())
        .filter(|name| name.starts_with("lab"))
        .collect();
    ids.sort_by_key(|id| (id.len(), id.clone()));
    ids
}

pub(crate) fn dir_of(id: &str) -> PathBuf {
    Path::new(BASE).join(id)
}

/// The name of a lab's directory while it is being removed: never a lab's id, and never used twice.
pub(crate) fn gone_dir(id: &str) -> PathBuf {
    static COUNT: AtomicU32 = AtomicU32::new(0);
    let number = COUNT.fetch_add(1, Ordering::Relaxed);
    Path::new(BASE).join(format!("{GONE}{id}-{}-{number}", std::process::id()))
}

/// The directories whose removal has begun.
pub(crate) fn gone() -> Vec<PathBuf> {
    let names = names_in(BASE, GONE);
    names.into_iter().map(|name| Path::new(BASE).join(name)).collect()
}

/// The entries of a directory whose names start with `prefix`.
pub(crate) fn names_in(dir: impl AsRef<Path>, prefix: &str) -> Vec<String> {
    let entries = fs::read_dir(dir).into_iter().flatten().flatten();
    entries
        .filter_map(|entry| entry.file_name().into_string().ok())
        .filter(|name| name.starts_with(prefix))
        .collect()
}
