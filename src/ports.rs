//! What the agent needs of the world, by role. Adapters implement these; the simulator has its own.

use std::collections::BTreeMap;
use std::path::Path;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use futures::Stream;

use crate::model::{
    Accept, AcceptReply, Assignment, BackupId, ClusterId, DataState, Directives, ElectorRecord, Enquire,
    EnquireReply, Epoch, EtcdRun, EtcdStatus, Fact, Fingerprint, GateState, InForce, LastWords, Learn,
    MemberId, MemberList, NodeName, NodeStatus, Past, Prepare, PrepareReply, Revision, SpecRecord, SteadyMs,
    UnitState, UnixMs, Watched,
};

/// How a call across a port failed. The text is one line: what was tried, on what, what the operator can do.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PortError {
    /// It did not happen and may be tried again.
    #[error("{0}")]
    Retryable(String),
    /// It will not work until something changes.
    #[error("{0}")]
    Permanent(String),
    /// It may have happened: observe again, never repeat blindly.
    #[error("{0} (it may have happened all the same)")]
    OutcomeUnknown(String),
}

impl PortError {
    /// The kind of failure, for the journal.
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Retryable(_) => "retryable",
            Self::Permanent(_) => "permanent",
            Self::OutcomeUnknown(_) => "outcome unknown",
        }
    }
}

/// Why an order was not carried out.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum OrderError {
    /// This agent refuses it, or is not ready for it.
    #[error(transparent)]
    Here(#[from] PortError),
    /// The store did not do it.
    #[error("{0}")]
    Store(PortError),
}

/// What comes back from a port.
pub type PortResult<T> = Result<T, PortError>;

impl<T> From<PortResult<T>> for Fact<T> {
    /// A failed call makes a fact unreachable, never absent.
    fn from(result: PortResult<T>) -> Self {
        match result {
            Ok(value) => Self::Known(value),
            Err(error) => Self::Unreachable(error.to_string()),
        }
    }
}

/// A stream of bytes that can fail.
pub type ByteStream = Pin<Box<dyn Stream<Item = PortResult<Bytes>> + Send>>;

/// What a watch of all keys tells, or how it failed.
pub type WatchStream = Pin<Box<dyn Stream<Item = PortResult<Watched>> + Send>>;

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
    /// Restore a snapshot file beside the data directory; nothing is replaced.
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
    /// The staged restore beside it, if a complete one is there.
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

/// The local etcd, and through it the cluster.
#[async_trait]
pub trait Etcd: Send + Sync {
    /// The local member's status.
    async fn status(&self) -> PortResult<EtcdStatus>;
    /// The member list; through quorum when `linearizable`.
    async fn members(&self, linearizable: bool) -> PortResult<MemberList>;
    /// Adds a learner and gives its ID.
    async fn add_learner(&self, peer_urls: &[String]) -> PortResult<MemberId>;
    /// Removes a member.
    async fn remove_member(&self, id: MemberId) -> PortResult<()>;
    /// Gives a member other peer URLs.
    async fn update_member(&self, id: MemberId, peer_urls: &[String]) -> PortResult<()>;
    /// Does the etcd at this client URL (any node's, e.g. `https://n3:2379`) answer at all? `Ok` for any answer, a
    /// refusal too; retryable when nothing came back within a short deadline; permanent when it could not be asked
    /// (no certificates, no URL, a name that does not resolve, no route, no file descriptor), which says nothing of that
    /// etcd.
    async fn probe(&self, client_url: &str) -> PortResult<()>;
    /// The etcd of another node, for reading; `None` where that cannot be asked from here.
    fn of(&self, _node: &NodeName) -> Option<Arc<dyn Etcd>> {
        None
    }
    /// Promotes a learner; retryable while it is behind.
    async fn promote(&self, id: MemberId) -> PortResult<()>;
    /// Makes another voter the raft leader. Only the leader's own endpoint can do it; answers once it has happened.
    async fn move_leader(&self, to: MemberId) -> PortResult<()>;
    /// Streams a snapshot: the bbolt file and its 32-byte SHA-256 trailer.
    async fn snapshot(&self) -> PortResult<ByteStream>;
    /// Watches all keys from this revision on, for ever. The stream ends after [`Watched::Compacted`]. An etcd that
    /// cannot be watched answers that.
    async fn watch(&self, _from: Revision) -> PortResult<WatchStream> {
        Err(PortError::Permanent("this etcd cannot be watched".to_owned()))
    }
    /// What this revision changed, as this member knows it after a read through quorum: what was acknowledged before the
    /// call is part of the answer, however far the member lagged. An etcd that cannot be asked answers that.
    async fn past(&self, _at: Revision) -> PortResult<Past> {
        Err(PortError::Permanent(
            "this etcd tells nothing of its past".to_owned(),
        ))
    }
    /// What a lease was granted, in seconds; `None` when there is no such lease any more.
    async fn lease_ttl(&self, _id: i64) -> PortResult<Option<i64>> {
        Err(PortError::Permanent(
            "this etcd tells nothing of leases".to_owned(),
        ))
    }
    /// The revision of users, roles and whether authentication is on: it grows with each change of them, which no
    /// watch tells.
    async fn auth_revision(&self) -> PortResult<u64> {
        Err(PortError::Permanent(
            "this etcd tells nothing of users".to_owned(),
        ))
    }
    /// Counts the keys at this revision and, where `hash` says so, hashes them (`HashKV`: reads the whole
    /// database). What etcd does not tell (a revision that was compacted, authentication) is left out; an error
    /// only where nothing could be found out. An etcd that cannot be asked answers that.
    async fn fingerprint(&self, _revision: Revision, _hash: bool) -> PortResult<Fingerprint> {
        Err(PortError::Permanent("this etcd counts no keys".to_owned()))
    }
}

/// Other nodes' agents.
#[async_trait]
pub trait Peers: Send + Sync {
    /// A fresh status, not a remembered one.
    async fn status(&self, node: &NodeName) -> PortResult<NodeStatus>;
    /// What each peer last said: kept up to date by a long poll each (`Unreachable` as soon as that fails).
    fn last_seen(&self) -> BTreeMap<NodeName, Fact<NodeStatus>>;
    /// By how many milliseconds the clock of each peer in `last_seen` was ahead of this node's when its answer came: the way
    /// here makes a peer look up to two seconds late. A transport that does not tell says nothing.
    fn clocks(&self) -> BTreeMap<NodeName, i64> {
        BTreeMap::new()
    }
    /// Whether each peer was asked once at least, whatever came of it.
    fn asked(&self) -> bool {
        true
    }
    /// Returns when something in `last_seen` has changed since the last call.
    async fn changed(&self);
    /// Asks an elector for all it knows.
    async fn enquire(&self, node: &NodeName, message: &Enquire) -> PortResult<EnquireReply>;
    /// Phase 1.
    async fn prepare(&self, node: &NodeName, message: &Prepare) -> PortResult<PrepareReply>;
    /// Phase 2.
    async fn accept(&self, node: &NodeName, message: &Accept) -> PortResult<AcceptReply>;
    /// Tells a chosen genesis.
    async fn learn(&self, node: &NodeName, message: &Learn) -> PortResult<()>;
    /// Hands what a person asked for to the agent of another node.
    async fn submit(
        &self,
        node: &NodeName,
        _request: &crate::model::OperatorRequest,
    ) -> PortResult<crate::model::RequestView> {
        Err(PortError::Permanent(format!(
            "{node} takes no requests from here"
        )))
    }
    /// Where such a request stands there; permanent when it is not known there (any more).
    async fn request(&self, node: &NodeName, _id: u64) -> PortResult<crate::model::RequestView> {
        Err(PortError::Permanent(format!(
            "{node} takes no requests from here"
        )))
    }
}

/// One object in a listing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ObjectMeta {
    /// Key relative to the store's prefix.
    pub key: String,
    /// Size in bytes.
    pub size_bytes: u64,
    /// Last change, when the store tells.
    pub modified: Option<UnixMs>,
}

/// What a conditional create came to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Created {
    /// It was not there, and now is.
    Created,
    /// It was there already, with this content.
    Exists(Bytes),
}

/// One version of an object, as its store names it: an `ETag` of S3, a digest of the content in a directory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Tag(pub String);

/// What a conditional replacement came to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Replaced {
    /// The object was what was read, and is the new one now.
    Done,
    /// The object had changed since it was read, and stays as it is.
    Changed,
}

/// What an upload is best written in, in bytes: as large as the first parts of one to S3, so that a chunk of this size
/// goes out without a copy.
pub const PART_BYTES: usize = 7 * 1024 * 1024;

/// An upload under way. Nothing is visible in the store until `complete`; dropping it without either call leaves
/// nothing listed.
#[async_trait]
pub trait Upload: Send {
    /// Adds bytes; waits while the bounded buffer is full.
    async fn write(&mut self, chunk: Bytes) -> PortResult<()>;
    /// Makes the object visible.
    async fn complete(self: Box<Self>) -> PortResult<()>;
    /// Throws it away.
    async fn abort(self: Box<Self>) -> PortResult<()>;
}

/// What is known of an object of a backup before it is read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Expected {
    /// The backup says that it is encrypted.
    pub encrypted: bool,
    /// When the backup was begun, as its name says.
    pub at: UnixMs,
}

/// The store: keys are relative to the configured prefix. A store that does not answer is an error, never an
/// empty listing.
#[async_trait]
pub trait ObjectStore: Send + Sync {
    /// Where it is, for people; no secrets.
    fn describe(&self) -> String;
    /// The configured path or prefix that keys are relative to: its last component tells whether the store is
    /// the cluster's own already.
    fn path(&self) -> String {
        String::new()
    }
    /// How what holds data is encrypted before it leaves the host; `None` when it is not.
    fn encryption(&self) -> Option<&'static str> {
        None
    }
    /// Whether `create` is what it says: false when the store was seen to overwrite in spite of
    /// `If-None-Match: *`. Tried once and remembered.
    async fn conditional_writes(&self) -> PortResult<bool> {
        Ok(true)
    }
    /// A small object (at most 1 MiB); `None` when it is known not to be there.
    async fn get_small(&self, key: &str) -> PortResult<Option<Bytes>>;
    /// Streams an object; `None` when it is known not to be there.
    async fn get(&self, key: &str) -> PortResult<Option<ByteStream>>;
    /// Streams an object of a backup. A store that knows of encryption refuses one in the clear where it has to be
    /// encrypted; any other has nothing to tell apart.
    async fn get_expected(&self, key: &str, _expected: Expected) -> PortResult<Option<ByteStream>> {
        self.get(key).await
    }
    /// Writes a small object, replacing what is there.
    async fn put(&self, key: &str, body: Bytes) -> PortResult<()>;
    /// Writes a small object only if nothing is there (`If-None-Match: *`).
    async fn create(&self, key: &str, body: Bytes) -> PortResult<Created>;
    /// A small object (at most 1 MiB) and which version of it this is; `None` when it is known not to be there. A store
    /// that cannot replace an object by a condition answers that.
    async fn get_tagged(&self, _key: &str) -> PortResult<Option<(Bytes, Tag)>> {
        Err(no_conditions(&self.describe()))
    }
    /// Replaces a small object only if it still is the version that was read (`If-Match`). A store that was seen to
    /// ignore the condition is an error that names it.
    async fn replace(&self, _key: &str, _body: Bytes, _read: &Tag) -> PortResult<Replaced> {
        Err(no_conditions(&self.describe()))
    }
    /// Begins a large upload.
    async fn upload(&self, key: &str) -> PortResult<Box<dyn Upload>>;
    /// All objects below a prefix, however many pages that takes, ordered by key.
    async fn list(&self, prefix: &str) -> PortResult<Vec<ObjectMeta>>;
    /// Deletes one object; deleting what is not there is no error.
    async fn delete(&self, key: &str) -> PortResult<()>;
}

fn no_conditions(store: &str) -> PortError {
    PortError::Permanent(format!(
        "{store} cannot replace an object by a condition (`If-Match`): two who write at once would overwrite each other"
    ))
}

/// What this node must remember across restarts. Every write is temp + fsync + rename + fsync of the directory.
pub trait NodeState: Send + Sync {
    /// The elector's memory; a new one with a fresh incarnation is made and stored when there is none.
    fn elector(&self) -> PortResult<ElectorRecord>;
    /// Stores the elector's memory before any reply.
    fn save_elector(&self, record: &ElectorRecord) -> PortResult<()>;
    /// What operators have ordered for the whole cluster; the empty register when nothing was ever stored.
    fn directives(&self) -> PortResult<Directives>;
    /// Stores what operators have ordered, before it is shown to anybody.
    fn save_directives(&self, directives: &Directives) -> PortResult<()>;
    /// What is remembered of the etcd process; the empty record when nothing was ever stored.
    fn etcd_run(&self) -> PortResult<EtcdRun>;
    /// Stores what is remembered of the etcd process.
    fn save_etcd_run(&self, run: &EtcdRun) -> PortResult<()>;
    /// The assignment, when there is one.
    fn assignment(&self) -> PortResult<Option<Assignment>>;
    /// Stores the assignment.
    fn save_assignment(&self, assignment: &Assignment) -> PortResult<()>;
    /// What this node remembers of the wanted size; an empty record when nothing was stored yet.
    fn spec(&self) -> PortResult<SpecRecord>;
    /// Stores what this node remembers of the wanted size.
    fn save_spec(&self, record: &SpecRecord) -> PortResult<()>;
    /// What the gate may decide on alone, when it was ever told.
    fn gate(&self) -> PortResult<Option<GateState>>;
    /// Stores what the gate may decide on alone (world-readable).
    fn save_gate(&self, gate: &GateState) -> PortResult<()>;
    /// Clears the gate for this boot and this generation (world-readable, below `/run`).
    fn clear_gate(&self, generation: crate::model::Generation) -> PortResult<()>;
    /// Which generation was cleared in this boot.
    fn cleared_gate(&self) -> PortResult<Option<crate::model::Generation>>;
}

/// Time and randomness.
pub trait Clock: Send + Sync {
    /// Wall-clock time.
    fn now(&self) -> UnixMs;
    /// A clock that never jumps, for how long something lasts.
    fn steady(&self) -> SteadyMs;
    /// A random number.
    fn random(&self) -> u64;
}

/// What the HTTP servers need of the running agent. Implemented by `agent`; every call answers from memory or
/// from a bounded port call.
#[async_trait]
pub trait AgentHandle: Send + Sync {
    /// This node's status now.
    fn status(&self) -> NodeStatus;
    /// Grows with each change of the material part of `status` (what a peer's planner could act on).
    fn status_version(&self) -> u64;
    /// Returns once `status_version` is above `version`.
    async fn status_after(&self, version: u64);
    /// Returns once this node was looked at for the first time: before, `status` knows nothing of its etcd.
    async fn first_look(&self) {}
    /// Whether this process is one of `etcd.service`: the gate's. True where that cannot be found out.
    async fn is_etcds(&self, _pid: u32) -> bool {
        true
    }
    /// Answers an enquiry; the elector's memory is on disk before this returns.
    async fn enquire(&self, message: Enquire) -> PortResult<EnquireReply>;
    /// Phase 1 as an elector.
    async fn prepare(&self, message: Prepare) -> PortResult<PrepareReply>;
    /// Phase 2 as an elector.
    async fn accept(&self, message: Accept) -> PortResult<AcceptReply>;
    /// Is told a chosen genesis.
    async fn learn(&self, message: Learn) -> PortResult<()>;
    /// Everything for `etcd-agent status`.
    fn admin_status(&self) -> crate::model::AdminStatus;
    /// Everything for `etcd-agent plan`; `None` before the first tick.
    fn plan_view(&self) -> Option<crate::model::PlanView>;
    /// Backups in the store, oldest first: this one, or a page of all after that one.
    async fn backups(
        &self,
        only: Option<BackupId>,
        after: Option<BackupId>,
    ) -> PortResult<crate::model::Page<crate::model::ListedBackup>>;
    /// The point that is to be restored, in this backup or in whichever serves best.
    async fn point(
        &self,
        backup: Option<BackupId>,
        wanted: crate::model::RestoreTarget,
    ) -> PortResult<crate::model::BackupSummary>;
    /// The commands in etcd-manager's queue in the store, oldest first.
    async fn commands(&self) -> PortResult<Vec<crate::model::StoreCommand>>;
    /// Takes a command out of the queue; false when there is none of that name.
    async fn delete_command(&self, name: &str) -> PortResult<bool>;
    /// What retention says of each, oldest first: a page of all after that one.
    async fn retention(
        &self,
        after: Option<BackupId>,
    ) -> PortResult<crate::model::Page<crate::model::Verdict>>;
    /// Queues what a person asks for.
    fn submit(&self, request: crate::model::OperatorRequest) -> PortResult<crate::model::RequestView>;
    /// Queues what a person asks another node for, which hands it to this one.
    fn take_over(&self, request: crate::model::OperatorRequest) -> PortResult<crate::model::RequestView>;
    /// Where a request stands.
    fn request(&self, id: u64) -> Option<crate::model::RequestView>;
    /// Takes an order for the whole cluster, on disk before this returns; with `dry_run` only says what would follow.
    fn direct(&self, order: &crate::model::DirectiveOrder) -> PortResult<crate::model::DirectiveView>;
    /// Takes another wanted size to the store; with `dry_run` only says what would follow.
    async fn set_size(&self, order: &crate::model::SizeOrder) -> Result<crate::model::SizeView, OrderError>;
    /// Says what would follow from a request, and changes nothing.
    fn preview(&self, request: &crate::model::OperatorRequest) -> PortResult<crate::model::DirectiveView>;
    /// The decisions after the one with this number, oldest first; few hundred at most.
    fn events(&self, after: u64) -> crate::model::EventsView;
    /// The gate's question: is the assignment that is on disk cleared, and if not, what is waited for. An error where this
    /// agent cannot say: it has not looked yet, or cannot read its own state. The gate takes that as silence.
    fn gate(&self) -> PortResult<(bool, String)>;
    /// etcd.service is about to stop: answers once what etcd has committed is stored, or cannot be within seconds, and
    /// says which.
    async fn before_stop(&self) -> String;
    /// True when the loop has made progress lately.
    fn is_live(&self) -> bool;
    /// True when this node's etcd is a healthy member of the newest epoch.
    fn is_ready(&self) -> bool;
}
