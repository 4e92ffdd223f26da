//! A control group for each host and server of a lab, to find its processes and to kill them all at once.
//!
//! Two facts, both measured, make this necessary:
//! - `systemd-nspawn --keep-unit` puts its payload below the caller's own group. Hosts started by one process
//!   would share `/system.slice/etcd.service`, and a stop on one would kill the etcd of all.
//! - If `systemd-nspawn` is killed by SIGKILL, the host keeps running. One write to `cgroup.kill` is a power
//!   loss.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result, bail};

use crate::wait::wait_until;

/// The parent of all groups of all labs.
const PARENT: &str = "etcd-agent-lab";

/// A group by its path below [`PARENT`], such as `lab3/n1`.
#[derive(Debug, Clone)]
pub(crate) struct Cgroup(String);

impl Cgroup {
    pub(crate) fn new(path: impl Into<String>) -> Self {
        Self(path.into())
    }

    /// Creates it in each hierarchy that systemd uses. Returns the files that move a process into it.
    pub(crate) fn create(&self) -> Result<Vec<PathBuf>> {
        self.directories()?
            .into_iter()
            .map(|dir| {
                fs::create_dir_all(&dir).with_context(|| format!("creating {}", dir.display()))?;
                Ok(dir.join("cgroup.procs"))
            })
            .collect()
    }

    /// The processes in it and in its children.
    pub(crate) fn processes(&self) -> Vec<u32> {
        let mut found = Vec::new();
        if let Ok(dir) = unified().map(|root| root.join(PARENT).join(&self.0)) {
            collect(&dir, &mut found);
        }
        found
    }

    /// The process in it that is PID 1 of its own PID namespace: the init of a host.
    pub(crate) fn init(&self) -> Option<u32> {
        self.processes().into_iter().find(|pid| {
            fs::read_to_string(format!("/proc/{pid}/status")).is_ok_and(|status| {
                status
                    .lines()
                    .find_map(|line| line.strip_prefix("NSpid:"))
                    .is_some_and(|ids| ids.split_whitespace().skip(1).last() == Some("1"))
            })
        })
    }

    /// Kills every process in it at once and removes it.
    pub(crate) fn kill(&self) -> Result<()> {
        let dir = unified()?.join(PARENT).join(&self.0);
        if dir.exists() {
            fs::write(dir.join("cgroup.kill"), "1")
                .with_context(|| format!("killing {} (needs Linux 5.14)", dir.display()))?;
        }
        wait_until(
            &format!("the processes of {} to end", self.0),
            Duration::from_secs(20),
            || Ok(self.processes().is_empty()),
        )?;
        self.remove()
    }

    /// Removes it once it is empty.
    pub(crate) fn remove(&self) -> Result<()> {
        for dir in self.directories()? {
            // The kernel may need a moment after the last process has ended.
            wait_until(
                &format!("{} to be removed", dir.display()),
                Duration::from_secs(5),
                || {
                    remove(&dir);
                    Ok(!dir.exists())
                },
            )?;
        }
        Ok(())
    }

    fn directories(&self) -> Result<Vec<PathBuf>> {
        let mut roots = vec![unified()?];
        let named = Path::new("/sys/fs/cgroup/systemd");
        if named.join("cgroup.procs").exists() {
            roots.push(named.to_owned());
        }
        Ok(roots
            .into_iter()
            .map(|root| root.join(PARENT).join(&self.0))
            .collect())
    }
}

/// The path of cgroup v2: alone, or together with v1 on a "hybrid" machine.
fn unified() -> Result<PathBuf> {
    for root in ["/sys/fs/cgroup", "/sys/fs/cgroup/unified"] {
        if Path::new(root).join("cgroup.controllers").exists() {
            return Ok(PathBuf::from(root));
        }
    }
    bail!("no cgroup v2 at /sys/fs/cgroup or /sys/fs/cgroup/unified: mount it there")
}

fn children(dir: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(dir).into_iter().flatten().flatten();
    entries
        .filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()))
        .map(|entry| entry.path())
        .collect()
}

fn collect(dir: &Path, found: &mut Vec<u32>) {
    let text = fs::read_to_string(dir.join("cgroup.procs")).unwrap_or_default();
    found.extend(text.lines().filter_map(|line| line.parse::<u32>().ok()));
    for child in children(dir) {
        collect(&child, found);
    }
}

fn remove(dir: &Path) {
    for child in children(dir) {
        remove(&child);
    }
    let _ = fs::remove_dir(dir);
}
