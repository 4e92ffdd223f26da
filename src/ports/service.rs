//! The service manager: systemd, and the oneshots that run under it.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::time::Duration;

use async_trait::async_trait;

use crate::model::{
    BackupId, BaseEtcd, ClusterId, DataState, Epoch, EtcdSpec, EtcdVersion, Fact, Fingerprint, InForce,
    LastWords, MemberId, NodeName, Revision, TlsFiles, TlsFinding, UnitState, V2Names,
};

use super::{PortError, PortResult};

/// The time limit for staging a restore. It rewrites the database once; an hour means that it hangs.
pub const STAGE_WITHIN: Duration = Duration::from_hours(1);

/// What an inspection of the data directory finds out in addition to its state.
#[derive(Debug, Clone, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(default, deny_unknown_fields)]
#[allow(clippy::struct_excessive_bools)] // Questions that do not depend on each other.
pub struct Inspection {
    /// True if etcd has ended by itself since it last served. Its last words are then read. If they say that the
    /// data is damaged, the data is read as well, and the request lasts as long as that takes.
    pub failed: bool,
    /// True if the log is to be read for entries of etcd's v2 API.
    pub log: bool,
    /// True if the version of the etcd is to be found out that `etcd.service` starts while none is selected.
    pub base: bool,
    /// The process of etcd whose settings are to be compared with those that are written.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub process: Option<u32>,
    /// True if the certificate files with which etcd may be started are to be read.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub tls: bool,
    /// True if the keys of etcd's v2 API are to be looked for.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub v2_keys: bool,
}

/// A request to the owner of the data directory (`etcd-agent-data.service`).
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "snake_case", tag = "op", deny_unknown_fields)]
pub enum DataRequest {
    /// Report the state of the data directory.
    Inspect(Inspection),
    /// Restore a snapshot file next to the data directory; nothing is replaced.
    Stage {
        /// The epoch that the restore is for.
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
        /// The cluster that the restored directory must belong to.
        cluster_id: ClusterId,
        /// The member that the restored directory must belong to.
        member_id: MemberId,
        /// True if the epoch continues the one before it: the revisions go on, and the restored data is compared
        /// with the snapshot.
        #[serde(default)]
        continues: bool,
    },
    /// Rename the data directory into the archive, and a staged restore of `epoch`, if there is one, into its
    /// place.
    Replace {
        /// The epoch that requires it.
        epoch: Epoch,
        /// The reason, which becomes part of the archive's name.
        why: String,
        /// Whether a staged restore replaces it.
        staged: bool,
        /// The cluster whose data may be moved. If the directory now holds another member's data, it is not
        /// moved.
        cluster_id: ClusterId,
        /// The member.
        member_id: MemberId,
    },
}

/// The report of the owner of the data directory after the request.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DataReport {
    /// The state of the data directory.
    pub data: DataState,
    /// The staged restore next to it, if it is complete.
    pub staged: Option<(Epoch, BackupId)>,
    /// The error, one line; `None` if the request was carried out.
    pub error: Option<String>,
    /// The version of etcd on this host, if it is older than the oldest supported one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub etcd_too_old: Option<String>,
    /// What etcd logged when it last ended by itself, if the request asked for it and it names a known
    /// trouble.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_words: Option<LastWords>,
    /// Whether etcd would apply entries of its v2 API at its next start, if the request asked for it and the
    /// log could be read.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub v2_entries: Option<bool>,
    /// The etcd that `etcd.service` starts while no version is selected, if the request asked for it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub base: Option<BaseEtcd>,
    /// The settings of the process, if the request asked for them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub process: Option<ProcessReport>,
    /// The sets of certificate files that are configured, and those with which etcd starts next, if the request asked
    /// for them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tls: Option<Vec<TlsFinding>>,
    /// What the disk says of the keys of etcd's v2 API, if the request asked for them and the log could be read.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub v2_keys: Option<V2Names>,
    /// Why the data directory, or a log that is elsewhere, cannot be renamed into the archive, or a restore into its
    /// place, in one line; `None` if nothing was found.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub archive_trouble: Option<String>,
}

/// What was found out about the process of etcd.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ProcessReport {
    /// Its PID.
    pub pid: u32,
    /// A line for each setting that differs from what is written for its next start, without secrets.
    pub drift: Fact<Vec<String>>,
}

/// A request to verify a fetched snapshot (`etcd-agent-verify.service`).
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub struct VerifyRestoreRequest {
    /// File name (no directory) in `/var/lib/etcd-agent/verify/`.
    pub snapshot_file: String,
    /// The revision at which keys are counted and hashed; `None`: the newest in the snapshot.
    pub revision: Option<Revision>,
}

/// The result of a real restore into a temporary etcd.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "snake_case", tag = "proof")]
pub enum RestoreReport {
    /// It was restored, and an etcd served it.
    Served {
        /// That etcd's version.
        etcd_version: String,
        /// The newest revision that it has.
        revision: Revision,
        /// Its content at the requested revision, as far as that could be determined.
        fingerprint: Option<Fingerprint>,
    },
    /// The restore tool or etcd itself refused it, so the snapshot is invalid.
    Refused {
        /// Its message, one line.
        why: String,
    },
}

/// Delays a shutdown of the host until it is dropped.
pub struct ShutdownLock {
    /// The longest delay. Then the host shuts down anyway.
    pub within: Duration,
    /// What delays it.
    pub lock: Box<dyn Send + Sync>,
}

/// A service manager: systemd over D-Bus.
#[async_trait]
pub trait ServiceManager: Send + Sync {
    /// The state of `etcd.service`.
    async fn etcd_unit(&self) -> PortResult<UnitState>;
    /// Queues a start of `etcd.service` and returns once the job is queued, because with `Type=notify` the
    /// job itself lasts until there is quorum. Resets a `start-limit-hit` first.
    async fn start_etcd(&self) -> PortResult<()>;
    /// Queues a restart of `etcd.service` and returns once the job is queued, as [`Self::start_etcd`] does.
    /// If only the stop succeeds, the unit does not show as `held`, because the agent asked for that stop.
    async fn restart_etcd(&self) -> PortResult<()>;
    /// Stops `etcd.service` and waits for the job, at most `deadline`. Records (for this boot) that the agent
    /// asked for the stop, so that the unit does not show as `held`.
    async fn stop_etcd(&self, deadline: Duration) -> PortResult<()>;
    /// Runs `etcd-agent-apply.service` for the persisted assignment, waits for its result, and returns the
    /// settings that it read back.
    async fn apply(&self, deadline: Duration) -> PortResult<InForce>;
    /// The settings that the last apply of this boot read back; `Absent` if none ran, or if the unit's files
    /// have changed since.
    async fn in_force(&self) -> Fact<InForce>;
    /// Runs `etcd-agent-data.service` for this request and returns its report.
    async fn data(&self, request: &DataRequest, deadline: Duration) -> PortResult<DataReport>;
    /// Runs `etcd-agent-verify.service` for a snapshot in the verification directory: a real restore into a
    /// temporary etcd that nobody else can reach. An error means that the result is unknown, never that the
    /// snapshot is invalid. A service manager without that unit returns that as an error.
    async fn verify_restore(
        &self,
        _request: &VerifyRestoreRequest,
        _deadline: Duration,
    ) -> PortResult<RestoreReport> {
        Err(PortError::Permanent(
            "this service manager has no etcd-agent-verify.service".to_owned(),
        ))
    }
    /// Whether this process belongs to `etcd.service`.
    async fn is_etcds(&self, pid: u32) -> PortResult<bool>;
    /// Whether the file system of this directory has space for the next file of etcd's log; true if that
    /// cannot be determined.
    fn has_room(&self, _dir: &Path) -> bool {
        true
    }
    /// The versions of etcd in this directory. The name of each subdirectory counts, e.g.
    /// `etcd-v3.6.16-linux-amd64`. Only root can have put them there; `etcd-agent-apply.service` checks that again,
    /// and what is in it, before it is used. By default there are none.
    fn etcd_versions(&self, _dir: &Path) -> BTreeSet<EtcdVersion> {
        BTreeSet::new()
    }
    /// Distinguishes the file of the etcd that `etcd.service` starts while no version is selected from one that
    /// replaces it; `None` if that is not known, which is the default.
    async fn base_etcd(&self, _spec: &EtcdSpec) -> Option<String> {
        None
    }
    /// Whether the owner of the data directory can compare the settings of the running etcd with those that are
    /// written. By default it cannot.
    fn compares_settings(&self) -> bool {
        false
    }
    /// Distinguishes the content of these certificate files from what replaces it, as far as the agent's user can see
    /// them. `None` if the owner of the data directory cannot read them, which is the default.
    fn tls_stamp(&self, _sets: &[TlsFiles]) -> Option<String> {
        None
    }
    /// Whether the mount that holds etcd's data directory is recorded; true if that makes no difference.
    fn knows_mount(&self) -> bool {
        true
    }
    /// True while systemd shuts the host down. By default it never does.
    async fn shuts_down(&self) -> bool {
        false
    }
    /// Returns when a shutdown of the host begins, with the lock that delays it. By default the host never
    /// shuts down.
    async fn shutdown_begins(&self) -> PortResult<ShutdownLock> {
        std::future::pending().await
    }
    /// Returns once the state of `etcd.service` has changed since the last call (by signals, not polling).
    async fn changed(&self);
}
