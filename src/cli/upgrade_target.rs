//! What etcd is upgraded or downgraded to: a version, or whatever the package of etcd brings.

use std::fmt;
use std::str::FromStr;

use serde::{Serialize, Serializer};

use super::version_path::running;
use crate::model::{EtcdVersion, NodeStatus, etcd_or_package};

/// The word for the package on the command line.
const PACKAGE: &str = "package";

/// What etcd is upgraded or downgraded to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Target {
    /// A version below `etcd.versions_dir`.
    Version(EtcdVersion),
    /// The binary of `etcd.service` itself, which the package of etcd replaces.
    Package,
}

impl Target {
    pub(super) fn versions(versions: &[EtcdVersion]) -> Vec<Self> {
        versions.iter().copied().map(Self::Version).collect()
    }

    /// The version that the etcd of this node is to run; `None` if that is not known.
    pub(super) fn on(self, status: &NodeStatus) -> Option<EtcdVersion> {
        match self {
            Self::Version(version) => Some(version),
            Self::Package => status.etcd_binaries.as_ref()?.base,
        }
    }

    /// True if this node was given it for its next start.
    pub(super) fn is_assigned(self, status: &NodeStatus) -> bool {
        let assigned = status.assignment.as_ref();
        assigned.is_some_and(|assigned| match self {
            Self::Version(version) => assigned.etcd_version == Some(version),
            Self::Package => assigned.etcd_version.is_none(),
        })
    }

    /// True if the etcd of this node runs it, and does so after its next start.
    pub(super) fn runs(self, status: &NodeStatus) -> bool {
        let running = running(status);
        match self {
            Self::Version(version) => running == Some(version),
            Self::Package => running.is_some() && running == self.on(status) && self.is_assigned(status),
        }
    }

    /// The etcd, for people.
    pub(super) fn etcd(self) -> String {
        etcd_or_package(match self {
            Self::Version(version) => Some(version),
            Self::Package => None,
        })
    }
}

/// As on the command line.
impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Version(version) => version.fmt(f),
            Self::Package => f.write_str(PACKAGE),
        }
    }
}

impl FromStr for Target {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        if text == PACKAGE {
            return Ok(Self::Package);
        }
        let version = EtcdVersion::from_str(text).map(Self::Version);
        version.map_err(|error| format!("{error}; or `{PACKAGE}` for the etcd of the package"))
    }
}

impl Serialize for Target {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}
