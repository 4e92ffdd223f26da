//! Which version of etcd starts where, as etcd itself decides it.

use etcd_agent::model::{ClusterId, EtcdVersion};

use crate::world::raft::Server;
use crate::world::{Host, Refused, World};

/// The versions below `/opt` of every host. At first, the package of etcd has the first one.
pub const VERSIONS: [EtcdVersion; 4] = [version(5, 30), version(5, 35), version(6, 16), version(7, 3)];

/// The last minor that reads the entries which older ones write by etcd's v2 API.
const LAST_WITH_V2: (u64, u64) = (3, 6);

const fn version(minor: u64, patch: u64) -> EtcdVersion {
    EtcdVersion {
        major: 3,
        minor,
        patch,
    }
}

impl Host {
    /// The version that the settings in force start.
    pub(crate) fn etcd_version(&self) -> EtcdVersion {
        let selected = self.written.as_ref().and_then(|settings| settings.etcd_version);
        selected.unwrap_or(self.packaged)
    }
}

impl World {
    /// Whether etcd starts on the data of this cluster. It refuses to run with an older minor than that of
    /// the cluster. A minor that is newer by more than one must never get this far.
    pub(crate) fn starts(&mut self, host: usize, cluster: ClusterId) -> bool {
        let here = self.hosts[host].etcd_version();
        if self.broken_version == Some(here) {
            self.saw("event", "a version of etcd does not start");
            return false;
        }
        if self.hosts[host].tls.are_bad() {
            self.saw("event", "an etcd does not start with its certificate files");
            return false;
        }
        let Some(of_cluster) = self.truths.get(&cluster).and_then(|truth| truth.version) else {
            return true;
        };
        let next = (of_cluster.major, of_cluster.minor + 1);
        if here.series() > next {
            let text = format!(
                "etcd {here} starts on {} in a cluster of version {of_cluster}",
                self.hosts[host].name
            );
            self.violate(0, text);
        }
        let v2 = self.hosts[host].dir.as_ref().is_some_and(|dir| dir.v2);
        if v2 && here.series() > LAST_WITH_V2 {
            let name = &self.hosts[host].name;
            let text = format!("etcd {here} starts on {name} with entries of v2 in its log");
            self.violate(0, text);
        }
        let opens = here.series() >= of_cluster.series();
        if !opens && self.forger.is_some_and(|forger| forger != host) {
            let text = format!(
                "{} goes back to etcd {here} in a cluster of version {of_cluster}",
                self.hosts[host].name
            );
            self.violate(10, text);
        }
        opens
    }

    /// A package replaces etcd on all hosts at the same moment, and restarts nothing.
    pub(crate) fn install_etcd(&mut self, version: EtcdVersion) {
        for host in &mut self.hosts {
            host.packaged = version;
        }
    }

    /// The version of the package of etcd.
    fn packaged(&self) -> EtcdVersion {
        self.hosts.first().map_or(VERSIONS[0], |host| host.packaged)
    }

    /// The leader enables or ends a downgrade. The cluster's version is the older minor from then on.
    pub(crate) fn downgrade(&mut self, host: usize, to: Option<EtcdVersion>) -> Result<(), Refused> {
        let leads = |server: &Server| server.leads && server.ready;
        let cluster = self.hosts[host].dir.as_ref().map(|dir| dir.cluster);
        let Some(cluster) = cluster.filter(|_| self.hosts[host].server.as_ref().is_some_and(leads)) else {
            return Err(Refused::Says("etcdserver: not leader"));
        };
        let Some(truth) = self.truths.get_mut(&cluster) else {
            return Err(Refused::Down);
        };
        let to = to.map(|to| EtcdVersion { patch: 0, ..to });
        if let Some(to) = to {
            let next = (to.major, to.minor + 1);
            if truth.downgrade.is_some() || truth.version.map(EtcdVersion::series) != Some(next) {
                return Err(Refused::Says("etcdserver: invalid downgrade target version"));
            }
            truth.version = Some(to);
        }
        truth.downgrade = to;
        self.saw("event", "a downgrade is enabled or ended");
        Ok(())
    }

    /// Raises the version of each cluster to the minor that all its members run, unless it is downgraded. Ends
    /// a downgrade that all members have done.
    pub(crate) fn raise_versions(&mut self) {
        let leads = |h: &&Host| {
            h.server
                .as_ref()
                .is_some_and(|server| server.leads && server.ready)
        };
        let raised: Vec<(ClusterId, EtcdVersion)> = self
            .hosts
            .iter()
            .filter(leads)
            .filter_map(|leader| {
                let cluster = leader.dir.as_ref()?.cluster;
                let members = leader.server.as_ref()?.config.members.iter();
                let runs = members.map(|(id, info)| {
                    let h = &self.hosts[info.host];
                    let own = h
                        .dir
                        .as_ref()
                        .is_some_and(|dir| (dir.cluster, dir.member) == (cluster, *id));
                    h.server
                        .as_ref()
                        .filter(|server| own && server.ready)
                        .map(|server| server.version)
                });
                let runs = runs.collect::<Option<Vec<EtcdVersion>>>()?;
                if let Some(to) = self.truths.get(&cluster)?.downgrade
                    && runs.iter().any(|version| version.series() != to.series())
                {
                    return None;
                }
                let oldest = runs.into_iter().min()?;
                Some((cluster, EtcdVersion { patch: 0, ..oldest }))
            })
            .collect();
        for (cluster, version) in raised {
            if let Some(truth) = self.truths.get_mut(&cluster) {
                truth.downgrade = None;
            }
            if let Some(truth) = self.truths.get_mut(&cluster)
                && truth.version < Some(version)
            {
                let before = truth.version.replace(version);
                if before.is_some() {
                    self.saw("event", "a cluster's version rises");
                }
            }
        }
        self.write_snapshots();
    }

    /// While one member is older, entries of v2 may get into each log. Afterwards a snapshot of raft stands for
    /// them, sooner or later.
    fn write_snapshots(&mut self) {
        for host in &mut self.hosts {
            let (Some(dir), Some(server)) = (&mut host.dir, &host.server) else {
                continue;
            };
            let version = self.truths.get(&dir.cluster).and_then(|truth| truth.version);
            let older = version.unwrap_or(server.version).series() < LAST_WITH_V2;
            if older {
                dir.v2 = true;
            } else if dir.v2 && server.ready && self.rng.chance(2) {
                dir.v2 = false;
            }
        }
    }

    /// True if the newest cluster has a newer minor than this version.
    pub(crate) fn is_newer_than(&self, version: Option<EtcdVersion>) -> bool {
        let newest = self.newest().map(|newest| newest.genesis.cluster_id);
        let of_cluster = newest.and_then(|cluster| self.truths.get(&cluster)?.version);
        of_cluster.is_some_and(|of_cluster| of_cluster.series() > version.unwrap_or(self.packaged()).series())
    }

    /// True if an etcd runs that is newer than this version.
    pub(crate) fn runs_newer_than(&self, version: EtcdVersion) -> bool {
        let mut servers = self.hosts.iter().filter_map(|h| h.server.as_ref());
        servers.any(|server| server.version > version)
    }

    /// True if every member of the newest cluster runs this version.
    pub(crate) fn all_run(&self, wanted: Option<EtcdVersion>) -> bool {
        let Some(newest) = self.newest() else { return false };
        let cluster = newest.genesis.cluster_id;
        let member = |h: &&Host| {
            let dir = h.dir.as_ref().filter(|dir| dir.cluster == cluster);
            dir.is_some_and(|dir| self.is_listed(cluster, dir.member))
        };
        let version = wanted.unwrap_or(self.packaged());
        let runs = |h: &Host| h.server.as_ref().is_some_and(|server| server.version == version);
        self.hosts.iter().filter(member).all(runs)
    }
}
