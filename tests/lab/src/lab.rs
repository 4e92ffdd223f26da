//! A lab: some hosts, the network between them and the outside. All of it is removed when the lab is dropped.

use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result, bail};

use crate::certs::Authority;
use crate::cgroup::Cgroup;
use crate::faults::{Outside, bad_weather};
use crate::golang::{self, ETCD_DEFAULT, ETCD_VERSIONS};
use crate::host::Host;
use crate::net::Net;
use crate::place::{self, Owner, Record};
use crate::s3::{S3, S3Server, Wanted};
use crate::tree::{self, Suite};
use crate::{machine, outside, package, sweep};

/// The etcd at `/usr/bin/etcd` on the hosts.
#[derive(Debug, Clone)]
enum Etcd {
    /// Built from its Go module, of this version.
    Version(String),
    /// The one of the package `etcd-server` of the hosts' Debian.
    OfDebian,
}

/// The description of a lab to boot.
#[derive(Debug, Clone)]
pub struct Builder {
    name: String,
    hosts: u8,
    suite: Suite,
    etcd: Etcd,
    package: Option<PathBuf>,
    keep: bool,
    s3: Wanted,
    tls: bool,
    all_etcds: bool,
}

impl Builder {
    /// How many hosts, named `n1` and so on; 1 by default, at most 40.
    #[must_use]
    pub fn hosts(mut self, hosts: u8) -> Self {
        self.hosts = hosts;
        self
    }

    /// The Debian release of the hosts; Debian 13 by default.
    #[must_use]
    pub fn suite(mut self, suite: Suite) -> Self {
        self.suite = suite;
        self
    }

    /// The version at `/usr/bin/etcd`. All of [`ETCD_VERSIONS`] are under `/opt/etcd-v<version>/`.
    #[must_use]
    pub fn etcd(mut self, version: &str) -> Self {
        self.etcd = Etcd::Version(version.to_owned());
        self
    }

    /// No etcd under `/opt/`, so that only one version has to be built.
    #[must_use]
    pub fn one_etcd(mut self) -> Self {
        self.all_etcds = false;
        self
    }

    /// The etcd of the package `etcd-server` at `/usr/bin/etcd`: 3.5.16 on Debian 13.
    #[must_use]
    pub fn etcd_of_debian(mut self) -> Self {
        self.etcd = Etcd::OfDebian;
        self
    }

    /// The hosts have this package from their first boot on, like hosts made from an image. It is installed
    /// once for all labs.
    #[must_use]
    pub fn package(mut self, deb: &Path) -> Self {
        self.package = Some(deb.to_owned());
        self
    }

    /// Serve S3 over HTTPS, with a certificate of the lab's authority.
    #[must_use]
    pub fn s3_tls(mut self) -> Self {
        self.s3.tls = true;
        self
    }

    /// Another S3 server than versitygw.
    #[must_use]
    pub fn s3_server(mut self, server: S3Server) -> Self {
        self.s3.server = server;
        self
    }

    /// Clients reach the S3 server through [`bad_weather`].
    #[must_use]
    pub fn bad_store(mut self) -> Self {
        self.s3.proxied = true;
        self
    }

    /// Everything over plain HTTP instead of mutual TLS.
    #[must_use]
    pub fn plain(mut self) -> Self {
        self.tls = false;
        self
    }

    /// Leave the lab up when its handle is dropped and its process ends: for manual use.
    #[must_use]
    pub fn keep(mut self) -> Self {
        self.keep = true;
        self
    }

    /// Makes what is missing (minutes, the first time on a machine), and boots all hosts.
    pub fn boot(self) -> Result<Lab> {
        if !(1..=40).contains(&self.hosts) {
            bail!("a lab has 1 to 40 hosts, not {}", self.hosts);
        }
        machine::check()?;
        let (programs, mut layers) = match &self.etcd {
            Etcd::Version(version) => {
                let bin = golang::etcd(version)?.join("bin");
                (bin.clone(), vec![bin])
            }
            Etcd::OfDebian => (golang::etcd(ETCD_DEFAULT)?.join("bin"), Vec::new()),
        };
        for version in ETCD_VERSIONS.iter().filter(|_| self.all_etcds) {
            layers.push(golang::etcd(version)?.join("opt"));
        }
        let tree = tree::ensure(self.suite)?;
        if let Some(deb) = &self.package {
            layers.push(package::layer(deb, self.suite, &tree)?);
        }
        layers.push(tree);
        let record = Record {
            id: String::new(),
            index: 0,
            name: self.name,
            hosts: self.hosts,
            owner: if self.keep { None } else { Some(Owner::current()?) },
            layers,
            programs: programs.join("usr/bin"),
            s3: self.s3,
            tls: self.tls,
        }
        .claim()?;
        if !self.keep {
            sweep::remember(&record.id)?;
        }
        // From here on dropping it cleans up after any failure.
        let mut lab = Lab::new(record);
        lab.ends_on_drop = true;
        lab.create()?;
        if self.s3.proxied {
            lab.proxy = Some(lab.s3.proxy(bad_weather)?);
        }
        lab.ends_on_drop = !self.keep;
        Ok(lab)
    }
}

/// A running lab. Unless [`Lab::passed`] was called, dropping it keeps the journals and prints their last
/// lines.
#[derive(Debug)]
pub struct Lab {
    record: Record,
    net: Net,
    hosts: Vec<Host>,
    s3: S3,
    /// The proxy in front of the S3 server, which runs until this is dropped.
    proxy: Option<Outside>,
    ends_on_drop: bool,
    passed: bool,
}

impl Lab {
    /// A lab of this name (a word for people and log files; labs of the same name may run concurrently).
    pub fn builder(name: &str) -> Builder {
        Builder {
            name: name.to_owned(),
            hosts: 1,
            suite: Suite::Trixie,
            etcd: Etcd::Version(ETCD_DEFAULT.to_owned()),
            package: None,
            keep: false,
            s3: Wanted {
                server: S3Server::Versitygw,
                tls: false,
                proxied: false,
            },
            tls: true,
            all_etcds: true,
        }
    }

    /// A handle on a lab that was left up with [`Builder::keep`].
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

    fn new(record: Record) -> Self {
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

    fn create(&self) -> Result<()> {
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

    /// `etcd`, `etcdctl` or `etcdutl` for use on the outer machine: of this lab's version, or of
    /// [`ETCD_DEFAULT`] if the hosts have Debian's.
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

pub(crate) fn s3_group(record: &Record) -> Cgroup {
    Cgroup::new(format!("{}/s3", record.id))
}
