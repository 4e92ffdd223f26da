//! The description of a lab, and its boot.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use anyhow::{Result, bail};

use crate::faults::bad_weather;
use crate::golang::{self, ETCD_DEFAULT, ETCD_VERSIONS};
use crate::lab::Lab;
use crate::managed::{self, Manager};
use crate::place::{Owner, Record, S3Server, Wanted};
use crate::tree::{self, Suite};
use crate::{debian_etcd, machine, package, sweep};

/// The etcd at `/usr/bin/etcd` on the hosts.
#[derive(Debug, Clone)]
enum Etcd {
    /// Built from its Go module, of this version.
    Version(String),
    /// The one of the package `etcd-server` of the hosts' Debian.
    OfDebian,
}

/// The etcds under `/opt/`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum InOpt {
    Nothing,
    /// All of [`ETCD_VERSIONS`].
    Releases,
    /// Those, and the etcds of both Debian releases.
    DebiansToo,
}

/// The description of a lab to boot.
#[derive(Debug, Clone)]
pub struct Builder {
    name: String,
    hosts: u8,
    suite: Suite,
    suites: BTreeMap<u8, Suite>,
    etcd: Etcd,
    package: Option<PathBuf>,
    manager: Option<Manager>,
    keep: bool,
    s3: Wanted,
    tls: bool,
    in_opt: InOpt,
    needrestart: bool,
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

    /// Another Debian release for the host of this number.
    #[must_use]
    pub fn suite_of(mut self, host: u8, suite: Suite) -> Self {
        self.suites.insert(host, suite);
        self
    }

    /// The version at `/usr/bin/etcd`. All of [`ETCD_VERSIONS`] are under `/opt/etcd-v<version>/`.
    #[must_use]
    pub fn etcd(mut self, version: &str) -> Self {
        self.etcd = Etcd::Version(version.to_owned());
        self
    }

    /// No etcd under `/opt/`, so that at most one version has to be built.
    #[must_use]
    pub fn one_etcd(mut self) -> Self {
        self.in_opt = InOpt::Nothing;
        self
    }

    /// The etcd of the package `etcd-server` at `/usr/bin/etcd`: 3.5.16 on Debian 13, 3.4.23 on Debian 12. The outer
    /// machine runs its `etcdctl`, which needs only a C library not older than Debian 12's.
    #[must_use]
    pub fn etcd_of_debian(mut self) -> Self {
        self.etcd = Etcd::OfDebian;
        self
    }

    /// The etcds of both Debian releases under `/opt/` as well: 3.4.23 and 3.5.16.
    #[must_use]
    pub fn debian_etcds(mut self) -> Self {
        self.in_opt = InOpt::DebiansToo;
        self
    }

    /// The hosts have this package from their first boot on, like hosts made from an image. It is installed
    /// once for all labs.
    #[must_use]
    pub fn package(mut self, deb: &Path) -> Self {
        self.package = Some(deb.to_owned());
        self
    }

    /// The hosts have what this tool needs on them, and the Debian release that goes with it. They do not have
    /// the agent's package: the tool installs it.
    #[must_use]
    pub fn managed_by(mut self, manager: Manager) -> Self {
        self.suite = manager.suite();
        self.manager = Some(manager);
        self
    }

    /// The hosts have Debian's needrestart. They do not have the agent's package yet: [`Lab::install`] installs
    /// it.
    #[must_use]
    pub fn needrestart(mut self) -> Self {
        self.needrestart = true;
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
        let (programs, layers) = self.layers(self.suite)?;
        let mut layers_of = BTreeMap::new();
        for (host, suite) in &self.suites {
            if !(1..=self.hosts).contains(host) {
                bail!("the lab has no host n{host}");
            }
            layers_of.insert(*host, self.layers(*suite)?.1);
        }
        let record = sweep::claim(Record {
            id: String::new(),
            index: 0,
            name: self.name,
            hosts: self.hosts,
            owner: if self.keep { None } else { Some(Owner::current()?) },
            layers,
            layers_of,
            programs,
            s3: self.s3,
            tls: self.tls,
        })?;
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

    /// The directory of etcd's programs, and the layers of hosts with this Debian release.
    fn layers(&self, suite: Suite) -> Result<(PathBuf, Vec<PathBuf>)> {
        let tree = tree::ensure(suite)?;
        let (programs, mut layers) = match &self.etcd {
            Etcd::Version(version) => {
                let bin = golang::etcd(version)?.join("bin");
                (bin.clone(), vec![bin])
            }
            Etcd::OfDebian => (tree.clone(), Vec::new()),
        };
        for version in ETCD_VERSIONS.iter().filter(|_| self.in_opt != InOpt::Nothing) {
            layers.push(golang::etcd(version)?.join("opt"));
        }
        if self.in_opt == InOpt::DebiansToo {
            for debian in [Suite::Bookworm, Suite::Trixie] {
                layers.push(debian_etcd::layer(debian)?);
            }
        }
        if let Some(manager) = self.manager {
            if self.package.is_some() || suite != manager.suite() {
                bail!("{manager:?} installs the package, on {}", manager.suite());
            }
            layers.push(managed::layer(manager)?);
        }
        if self.needrestart {
            if self.package.is_some() {
                bail!("the layers of needrestart and of the package both have dpkg's list of packages");
            }
            layers.push(managed::needrestart(suite)?);
        }
        if let Some(deb) = &self.package {
            layers.push(package::layer(deb, suite, &tree)?);
        }
        layers.push(tree);
        Ok((programs.join("usr/bin"), layers))
    }
}

impl Lab {
    /// A lab of this name (a word for people and log files; labs of the same name may run concurrently).
    pub fn builder(name: &str) -> Builder {
        Builder {
            name: name.to_owned(),
            hosts: 1,
            suite: Suite::Trixie,
            suites: BTreeMap::new(),
            etcd: Etcd::Version(ETCD_DEFAULT.to_owned()),
            package: None,
            manager: None,
            keep: false,
            s3: Wanted {
                server: S3Server::Versitygw,
                tls: false,
                proxied: false,
            },
            tls: true,
            in_opt: InOpt::Releases,
            needrestart: false,
        }
    }
}
