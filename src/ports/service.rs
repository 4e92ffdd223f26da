//! The service manager: systemd, and the oneshots that run under it.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use async_trait::async_trait;

use crate::model::{
    BackupId, ClusterId, DataState, Epoch, Fact, Fingerprint, InForce, LastWords, MemberId, NodeName,
    Revision, UnitState,
};

use super::{PortError, PortResult};

/// How long staging a restore may take. It rewrites the database once; an hour is a hang.
pub const STAGE_WITHIN: Duration = Duration::from_hours(1);

/// What the data directory's owner is asked to do (`etcd-agent-data.service`).
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "snake_case", tag = "op", deny_unknown_fields)]
pub enum DataRequest {
    /// Say what is there.
    Inspect {
        /// etcd has ended by itself since it last served: its last words are read, and where they say that the data is
        /// damaged, the data is read as well, which takes as long as that lasts.
        #[serde(default)]
        failed: bool,
    },
    /// Restore a snapshot file next to the data directory; nothing is replaced.
    Stage {
        /// The epoch that it is for.
        epoch: Epoch,
        /// The backup, for the record.
        backup: BackupId,
        /// File name (no directory) in `/var/lib/etcd-agent/restore/`.
        snapshot_file: String,
        /// `--name`.
        name: NodeName,
        /// `--initial-cluster`.
        initial_cluster: BTreeMap<NodeName, Vec<String>>,
        /// `--initial-cluster-token`.
        token: String,
        /// The cluster that the restored directory must turn out to be of.
        cluster_id: ClusterId,
        /// The member that it must turn out to be of.
        member_id: MemberId,
    },
    /// Rename the data directory into the archive, and a staged restore of `epoch` into its place when there is one.
    Replace {
        /// On behalf of which epoch.
        epoch: Epoch,
        /// Goes into the archive's name.
        why: String,
        /// Whether a staged restore is to be put in its place.
        staged: bool,
        /// Whose data may be moved. What is another member's by now stays where it is.
        cluster_id: ClusterId,
        /// The member.
        member_id: MemberId,
    },
}

/// What the data directory's owner found after the request.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DataReport {
    /// What the data directory is.
    pub data: DataState,
    /// The staged restore next to it, if it is complete.
    pub staged: Option<(Epoch, BackupId)>,
    /// What went wrong, one line; `None` when the request was done.
    pub error: Option<String>,
    /// The version of etcd on this host, when that is older than what is supported.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub etcd_too_old: Option<String>,
    /// What etcd said when it last ended by itself, where that was asked and is understood.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_words: Option<LastWords>,
}

/// What is to be proved of a fetched snapshot (`etcd-agent-verify.service`).
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ProveRequest {
    /// File name (no directory) in `/var/lib/etcd-agent/verify/`.
    pub snapshot_file: String,
    /// At which revision keys are counted and hashed; the newest that is there without.
    pub revision: Option<Revision>,
}

/// What a real restore into a throw-away etcd came to.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "snake_case", tag = "proof")]
pub enum Proof {
    /// It was restored, and an etcd served it.
    Served {
        /// That etcd's version.
        etcd_version: String,
        /// The newest revision that it has.
        revision: Revision,
        /// What it holds at the revision that was asked for, as far as that could be found out.
        fingerprint: Option<Fingerprint>,
    },
    /// The restore tool or etcd itself refused it: the snapshot is no good.
    Refused {
        /// What was said, one line.
        why: String,
    },
}

/// A service manager: systemd over D-Bus.
#[async_trait]
pub trait ServiceManager: Send + Sync {
    /// The state of `etcd.service`.
    async fn etcd_unit(&self) -> PortResult<UnitState>;
    /// Queues a start of `etcd.service` and returns when the job is queued: with `Type=notify` the job itself
    /// lasts until there is quorum. Resets a `start-limit-hit` first.
    async fn start_etcd(&self) -> PortResult<()>;
    /// Queues a restart of `etcd.service` and returns when the job is queued, as [`Self::start_etcd`] does. When only
    /// the stop of it happens, the agent asked for that stop: it does not show as `held`.
    async fn restart_etcd(&self) -> PortResult<()>;
    /// Stops `etcd.service` and waits for the job, at most `deadline`. Remembers (for this boot) that the agent
    /// asked, so that it does not show as `held`.
    async fn stop_etcd(&self, deadline: Duration) -> PortResult<()>;
    /// Runs `etcd-agent-apply.service` for the persisted assignment, waits for its result, returns what it read back.
    async fn apply(&self, deadline: Duration) -> PortResult<InForce>;
    /// What the last apply of this boot read back; `Absent` when none ran, or when the unit's files changed since.
    async fn in_force(&self) -> Fact<InForce>;
    /// Runs `etcd-agent-data.service` for this request and returns its report.
    async fn data(&self, request: &DataRequest, deadline: Duration) -> PortResult<DataReport>;
    /// Runs `etcd-agent-verify.service` for a snapshot in the directory of verifications: a real restore into a
    /// throw-away etcd that nobody else can reach. An error says that nothing was found out, never that the
    /// snapshot is no good. A service manager without that unit answers that it has none.
    async fn prove(&self, _request: &ProveRequest, _deadline: Duration) -> PortResult<Proof> {
        Err(PortError::Permanent(
            "this service manager has no etcd-agent-verify.service".to_owned(),
        ))
    }
    /// Whether this process is one of `etcd.service`.
    async fn is_etcds(&self, _pid: u32) -> PortResult<bool> {
        Ok(true)
    }
    /// Whether etcd finds room for the next file of its log on the file system of its data directory; true where that
    /// cannot be asked.
    fn has_room(&self, _data_dir: &Path) -> bool {
        true
    }
    /// Whether it is remembered what etcd's data directory is on; true where that makes no difference.
    fn knows_mount(&self) -> bool {
        true
    }
    /// Returns when the state of `etcd.service` has changed since the last call (signals, not polling).
    async fn changed(&self);
}
