//! The write-ahead logs of all present and former members: the validators need every entry from the first on.

use std::fs;
use std::path::PathBuf;

use anyhow::{Context, Result};

use crate::cmd::Cmd;
use crate::host::Host;

const DATA: &str = "/var/lib/etcd/default";
/// The directory to which the agent moves the data of a removed member.
const ARCHIVE: &str = "/var/lib/etcd/etcd-agent-archive";

/// Copies of logs, each in its own directory with the layout of a data directory.
pub(super) struct Logs {
    dir: PathBuf,
}

impl Logs {
    pub(super) fn new(dir: PathBuf) -> Self {
        Self { dir }
    }

    /// Keeps the logs of a host that is off: that of its member and those in its archive.
    pub(super) fn keep_all(&self, host: &Host) -> Result<()> {
        self.keep(host, DATA)?;
        let archive = host.disk().join(ARCHIVE.trim_start_matches('/'));
        if !archive.exists() {
            return Ok(());
        }
        for entry in fs::read_dir(&archive).with_context(|| format!("reading {}", archive.display()))? {
            self.keep(host, &format!("{ARCHIVE}/{}", entry?.file_name().display()))?;
        }
        Ok(())
    }

    /// Removes the data of a member from a host that is off, and keeps its log.
    pub(super) fn take(&self, host: &Host) -> Result<()> {
        self.keep(host, DATA)?;
        host.wipe(DATA)
    }

    fn keep(&self, host: &Host, data: &str) -> Result<()> {
        let from = host.disk().join(data.trim_start_matches('/')).join("member/wal");
        if !from.exists() {
            return Ok(());
        }
        let to = self
            .dir
            .join(format!("{}-{}", host.name(), self.all()?.len()))
            .join("member");
        fs::create_dir_all(&to).with_context(|| format!("creating {}", to.display()))?;
        Cmd::new("cp")
            .args(["-r", "--sparse=always"])
            .arg(&from)
            .arg(&to)
            .ok()?;
        Ok(())
    }

    /// The directories of all kept logs.
    pub(super) fn all(&self) -> Result<Vec<PathBuf>> {
        if !self.dir.exists() {
            return Ok(Vec::new());
        }
        let mut found: Vec<PathBuf> = fs::read_dir(&self.dir)
            .with_context(|| format!("reading {}", self.dir.display()))?
            .map(|entry| entry.map(|entry| entry.path()))
            .collect::<std::io::Result<_>>()?;
        found.sort();
        Ok(found)
    }
}
