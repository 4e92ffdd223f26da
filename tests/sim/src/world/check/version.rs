//! Which version of etcd starts where, as etcd itself decides it.

use etcd_agent::model::{ClusterId, EtcdVersion};

use crate::world::{Host, World};

/// The versions below `/opt` of every host. The first one is also that of `etcd.service`.
pub const VERSIONS: [EtcdVersion; 4] = [version(5, 30), version(5, 35), version(6, 16), version(7, 3)];

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
        selected.unwrap_or(VERSIONS[0])
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
        here.series() >= of_cluster.series()
    }

    /// Raises the version of each cluster to the minor that all its members run.
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
                let oldest = runs.collect::<Option<Vec<EtcdVersion>>>()?.into_iter().min()?;
                Some((cluster, EtcdVersion { patch: 0, ..oldest }))
            })
            .collect();
        for (cluster, version) in raised {
            if let Some(truth) = self.truths.get_mut(&cluster)
                && truth.version < Some(version)
            {
                let before = truth.version.replace(version);
                if before.is_some() {
                    self.saw("event", "a cluster's version rises");
                }
            }
        }
    }

    /// True if the newest cluster has a newer minor than this version.
    pub(crate) fn is_newer_than(&self, version: Option<EtcdVersion>) -> bool {
        let newest = self.newest().map(|newest| newest.genesis.cluster_id);
        let of_cluster = newest.and_then(|cluster| self.truths.get(&cluster)?.version);
        of_cluster.is_some_and(|of_cluster| of_cluster.series() > version.unwrap_or(VERSIONS[0]).series())
    }

    /// True if every member of the newest cluster runs this version.
    pub(crate) fn all_run(&self, wanted: Option<EtcdVersion>) -> bool {
        let Some(newest) = self.newest() else { return false };
        let cluster = newest.genesis.cluster_id;
        let member = |h: &&Host| {
            let dir = h.dir.as_ref().filter(|dir| dir.cluster == cluster);
            dir.is_some_and(|dir| self.is_listed(cluster, dir.member))
        };
        let version = wanted.unwrap_or(VERSIONS[0]);
        // A new memory leaves an etcd alone that was there before it: the next start has the right version.
        let runs = |h: &Host| {
            let left_alone = h.reinstalled > 0 && wanted.is_none() && h.etcd_version() == version;
            left_alone || h.server.as_ref().is_some_and(|server| server.version == version)
        };
        self.hosts.iter().filter(member).all(runs)
    }
}
