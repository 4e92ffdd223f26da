//! A lab: some hosts, the network between them and the outside. All of it is removed when the lab is dropped.

use std::fmt::Write as _;
use std::fs;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, Result, bail};

use crate::certs::Authority;
use crate::faults::Outside;
use crate::host::Host;
use crate::net::Net;
use crate::place::{self, Record};
use crate::s3::S3;
use crate::{outside, sweep};

/// A running lab. Unless [`Lab::passed`] was called, dropping it keeps the journals and prints their last
/// lines.
#[derive(Debug)]
pub struct Lab {
    record: Record,
    net: Net,
    hosts: Vec<Host>,
    pub(crate) s3: S3,
    /// The proxy in front of the S3 server, which runs until this is dropped.
    pub(crate) proxy: Option<Outside>,
    pub(crate) ends_on_drop: bool,
    passed: bool,
}

impl Lab {
    /// A handle on a lab that was left up with [`Builder::keep`](crate::Builder::keep).
    pub fn attach(id: &str) -> Result<Self> {
        Ok(Self::new(Record::load(id)?))
    }

    /// The ids of the labs that were left up, with their names.
    pub fn kept() -> Vec<(String, String)> {
        let records = place::ids().into_iter().filter_map(|id| Record::load(&id).ok());
        records
            .filter(|record| record.owner.is_none())
            .map(|record| (record.id, record.name))
            .collect()
    }

    pub(crate) fn new(record: Record) -> Self {
        let net = Net::new(&record.id, record.index, record.hosts);
        let hosts = (1..=record.hosts)
            .map(|number| Host::new(&record, &net, number))
            .collect();
        let s3 = S3::new(&record, &net);
        Self {
            record,
            net,
            hosts,
            s3,
            proxy: None,
            ends_on_drop: false,
            passed: false,
        }
    }

    pub(crate) fn create(&self) -> Result<()> {
        // Made here, before several threads could make it.
        self.client_files()?;
        // A killed run may have left the server of a lab with the same id.
        self.s3.stop()?;
        self.net.create()?;
        let mut names = "127.0.0.1 localhost\n::1 localhost\n".to_owned();
        let _ = writeln!(names, "{} s3 outside", self.net.outside_address());
        for host in &self.hosts {
            let _ = writeln!(names, "{} {}", host.address(), host.name());
        }
        for host in &self.hosts {
            host.create(&names)?;
        }
        self.each(|host| {
            host.boot()?;
            match host.wait_booted()?.as_str() {
                "running" => Ok(()),
                other => {
                    let failed = host.systemctl(&["--failed", "--no-legend"])?.stdout;
                    bail!("{} booted as {other}: {failed}", host.name())
                }
            }
        })
    }

    /// The id, the prefix of all names of this lab.
    pub fn id(&self) -> &str {
        &self.record.id
    }

    /// Whether etcd and the agents speak mutual TLS.
    pub fn has_tls(&self) -> bool {
        self.record.tls
    }

    /// `etcd`, `etcdctl` or `etcdutl` for use on the outer machine: the same as in `/usr/bin` of the
    /// hosts.
    pub fn etcd_program(&self, name: &str) -> PathBuf {
        self.record.programs.join(name)
    }

    /// All hosts in order.
    pub fn hosts(&self) -> &[Host] {
        &self.hosts
    }

    /// The host `n<number>`; `lab.host(1)` is `n1`.
    pub fn host(&self, number: usize) -> Result<&Host> {
        let found = number.checked_sub(1).and_then(|at| self.hosts.get(at));
        found.with_context(|| format!("{} has no host n{number}", self.id()))
    }

    /// The host of this name.
    pub fn host_named(&self, name: &str) -> Result<&Host> {
        let found = self.hosts.iter().find(|host| host.name() == name);
        found.with_context(|| format!("{} has no host {name}", self.id()))
    }

    /// The network and its faults.
    pub fn net(&self) -> &Net {
        &self.net
    }

    /// Undoes every network fault, including pulled cables.
    pub fn heal_all(&self) -> Result<()> {
        self.net.clear()?;
        self.hosts.iter().try_for_each(Host::heal)
    }

    /// The S3 server, which is off until [`S3::start`].
    pub fn s3(&self) -> &S3 {
        &self.s3
    }

    /// The certificate authority that all hosts trust.
    pub fn ca(&self) -> Result<Authority> {
        Authority::open(&self.dir().join("ca"), "lab CA")
    }

    /// The directory of this lab's files.
    pub fn dir(&self) -> PathBuf {
        self.record.dir()
    }

    /// Does the same on all hosts concurrently and waits for all; returns the first error.
    pub fn each(&self, work: impl Fn(&Host) -> Result<()> + Sync) -> Result<()> {
        std::thread::scope(|scope| {
            let threads: Vec<_> = self.hosts.iter().map(|host| scope.spawn(|| work(host))).collect();
            let results: Vec<_> = threads
                .into_iter()
                .map(std::thread::ScopedJoinHandle::join)
                .collect();
            for (host, result) in self.hosts.iter().zip(results) {
                match result {
                    Ok(result) => result.with_context(|| format!("on {}", host.name()))?,
                    Err(_) => bail!("work on {} panicked", host.name()),
                }
            }
            Ok(())
        })
    }

    /// Runs `work` in the outside network namespace: servers see the outside's address as the client.
    pub fn outside<T: Send>(&self, work: impl FnOnce() -> Result<T> + Send) -> Result<T> {
        outside::run(&self.net.outside_namespace(), work)
    }

    /// Records that the test passed: dropping the lab then keeps nothing.
    pub fn passed(mut self) {
        self.passed = true;
    }

    /// Ends the lab now, even if it was to stay up.
    pub fn end(mut self) -> Result<()> {
        self.ends_on_drop = false;
        sweep::teardown(&self.record.id)
    }

    /// Writes all journals to files and returns their directory.
    pub fn keep_journals(&self) -> Result<PathBuf> {
        let dir = logs_dir().join(format!("{}-{}", self.record.name, self.record.id));
        fs::create_dir_all(&dir)?;
        for host in &self.hosts {
            let text = host.journalctl(&[]).unwrap_or_else(|error| format!("{error:#}"));
            fs::write(dir.join(format!("{}.log", host.name())), text)?;
            let _ = fs::copy(
                host.console_log(),
                dir.join(format!("{}.console.log", host.name())),
            );
        }
        let _ = fs::copy(self.s3.log(), dir.join("s3.log"));
        Ok(dir)
    }

    fn show_failure(&self) {
        match self.keep_journals() {
            Ok(dir) => eprintln!(
                "lab: {} did not pass; journals in {}",
                self.record.name,
                dir.display()
            ),
            Err(error) => eprintln!("lab: keeping the journals: {error:#}"),
        }
        let agent = [
            "-u",
            "etcd-agent",
            "-u",
            "etcd-agent-apply",
            "-u",
            "etcd-agent-data",
            "-u",
            "etcd-agent-verify",
            "-n",
            "40",
        ];
        let etcd = ["-u", "etcd", "-n", "25"];
        for host in &self.hosts {
            for args in [agent.as_slice(), etcd.as_slice()] {
                let tail = host.journalctl(args).unwrap_or_else(|error| format!("{error:#}"));
                let title = args.get(1).copied().unwrap_or_default();
                eprintln!("──── {} {title}", host.name());
                for line in tail.lines() {
                    eprintln!("{}", line.chars().take(300).collect::<String>());
                }
            }
        }
    }
}

impl Drop for Lab {
    fn drop(&mut self) {
        if !self.ends_on_drop {
            return;
        }
        if !self.passed {
            self.show_failure();
        }
        if let Err(error) = sweep::teardown(&self.record.id) {
            eprintln!(
                "lab: ending {}: {error:#}; the next lab sweeps it",
                self.record.id
            );
        }
    }
}

/// `target/lab-logs`, or `$ETCD_AGENT_LAB_LOGS`.
pub(crate) fn logs_dir() -> PathBuf {
    if let Some(dir) = std::env::var_os("ETCD_AGENT_LAB_LOGS") {
        return PathBuf::from(dir);
    }
    let target = std::env::var_os("CARGO_TARGET_DIR").map_or_else(
        || PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../../target")),
        PathBuf::from,
    );
    target.join("lab-logs")
}

/// The timeout for events that take well under a second on an idle machine.
pub const PATIENCE: Duration = Duration::from_mins(2);
