//! One agent's report on its own node; peers read it at `GET /v1/status`.

use std::collections::BTreeSet;
use std::fmt;

use serde::{Deserialize, Serialize};

use super::etcd_version::READS_V2;
use super::{
    BackupSummary, ClusterId, ClusterName, Compaction, DefragView, Directives, Epoch, EtcdSelection,
    EtcdVersion, Fact, Generation, Genesis, Grant, HashCheck, Incarnation, MemberId, MemberList, NodeName,
    RaftTerm, RebootLocks, RestartWish, Revision, TransportView, UnixMs, is_quarantine,
};

/// systemd's `ActiveState` of a unit (`org.freedesktop.systemd1(5)`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[allow(missing_docs)]
pub enum ActiveState {
    Active,
    Reloading,
    Inactive,
    Failed,
    Activating,
    Deactivating,
    Maintenance,
}

impl ActiveState {
    /// True for a unit that is up or starting.
    pub fn is_up(self) -> bool {
        matches!(self, Self::Active | Self::Activating | Self::Reloading)
    }
}

/// systemd's `LoadState` of a unit (`org.freedesktop.systemd1(5)`).
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[allow(missing_docs)]
pub enum LoadState {
    Stub,
    Loaded,
    #[default]
    NotFound,
    BadSetting,
    Error,
    Merged,
    Masked,
    /// A state of a later systemd.
    #[serde(untagged)]
    Other(String),
}

impl LoadState {
    /// As systemd spells it.
    pub fn as_str(&self) -> &str {
        match self {
            Self::Stub => "stub",
            Self::Loaded => "loaded",
            Self::NotFound => "not-found",
            Self::BadSetting => "bad-setting",
            Self::Error => "error",
            Self::Merged => "merged",
            Self::Masked => "masked",
            Self::Other(text) => text,
        }
    }
}

impl From<String> for LoadState {
    fn from(text: String) -> Self {
        match text.as_str() {
            "stub" => Self::Stub,
            "loaded" => Self::Loaded,
            "not-found" => Self::NotFound,
            "bad-setting" => Self::BadSetting,
            "error" => Self::Error,
            "merged" => Self::Merged,
            "masked" => Self::Masked,
            _ => Self::Other(text),
        }
    }
}

/// The state of `etcd.service` as systemd reports it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct UnitState {
    /// `ActiveState`.
    pub active: ActiveState,
    /// `SubState`, e.g. `running`, `start-pre`, `start`, `dead`, `auto-restart`.
    pub sub: String,
    /// `Result`, e.g. `success`, `exit-code`, `signal`, `start-limit-hit`.
    pub result: String,
    /// `MainPID`, 0 if there is none.
    pub main_pid: u32,
    /// `LoadState`.
    pub load: LoadState,
    /// True if a person stopped it: it was active in this boot, is now inactive with `Result=success`, and
    /// this agent did not ask for the stop.
    pub held: bool,
    /// When etcd last ended: `ExecMainExitTimestampMonotonic`, in microseconds; 0 while it runs, or if it has
    /// not run in this boot. Its data may have changed since any inspection before that time. For this node's
    /// own agent.
    #[serde(skip)]
    pub ended_us: u64,
}

impl UnitState {
    /// True while the gate runs before etcd starts.
    pub fn is_at_gate(&self) -> bool {
        self.active == ActiveState::Activating && self.sub == "start-pre"
    }

    /// True during a start in which etcd itself does not run yet: systemd waits before it restarts a crashed
    /// etcd, or the gate holds the start back. No process has the data directory open then.
    pub fn waits_to_start(&self) -> bool {
        let restarts = matches!(self.sub.as_str(), "auto-restart" | "auto-restart-queued");
        self.is_at_gate() || self.active == ActiveState::Activating && restarts
    }
}

/// The state of the data directory, as its owner (`etcd-agent-data.service`) found it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "state")]
pub enum DataState {
    /// It holds the data of this member.
    Present {
        /// From the WAL's metadata record.
        cluster_id: ClusterId,
        /// From the WAL's metadata record.
        member_id: MemberId,
    },
    /// It does not exist, or is an empty directory. Its owner attests this.
    Missing,
    /// It exists and cannot be used (no WAL, not readable, wrong owner). The text says what was found.
    Unusable {
        /// One line.
        why: String,
        /// The member whose data it is, if its log still names it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        member: Option<(ClusterId, MemberId)>,
    },
}

impl DataState {
    /// The member whose data it is, if the data can be used.
    pub fn member(&self) -> Option<(ClusterId, MemberId)> {
        match *self {
            Self::Present {
                cluster_id,
                member_id,
            } => Some((cluster_id, member_id)),
            Self::Missing | Self::Unusable { .. } => None,
        }
    }

    /// The member whose data it is, even if the data cannot be used.
    pub fn whose(&self) -> Option<(ClusterId, MemberId)> {
        match *self {
            Self::Unusable { member, .. } => member,
            Self::Present { .. } | Self::Missing => self.member(),
        }
    }
}

impl fmt::Display for DataState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Present {
                cluster_id,
                member_id,
            } => write!(f, "member {member_id} of cluster {cluster_id}"),
            Self::Missing => f.write_str("nothing"),
            Self::Unusable { why, .. } => f.write_str(why),
        }
    }
}

/// The status that this node's etcd reports.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct EtcdStatus {
    /// etcd's version.
    pub version: String,
    /// The version whose format its data has, e.g. 3.6.0; `None` from an etcd older than 3.6.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub storage_version: Option<EtcdVersion>,
    /// The version for which etcd prepares a downgrade of the cluster, e.g. 3.5.0; `None` if it does not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub downgrade_to: Option<EtcdVersion>,
    /// Cluster ID from the response header.
    pub cluster_id: ClusterId,
    /// Own member ID.
    pub member_id: MemberId,
    /// The raft leader it sees, if any.
    pub leader: Option<MemberId>,
    /// True if it has no vote.
    pub is_learner: bool,
    /// Raft term.
    pub term: RaftTerm,
    /// Raft index.
    pub index: u64,
    /// Raft applied index.
    pub applied: u64,
    /// Size of the backend database in bytes.
    pub db_size_bytes: u64,
    /// The bytes of it that are in use; `None` from an agent of an older version.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub db_in_use_bytes: Option<u64>,
    /// Current revision.
    pub revision: Revision,
    /// Alarms and errors that it reports, e.g. `NOSPACE`.
    pub errors: Vec<String>,
}

impl EtcdStatus {
    /// The version whose format its data has. An etcd that does not report it may have converted its data.
    pub fn stored(&self) -> Option<EtcdVersion> {
        self.storage_version
            .or_else(|| EtcdVersion::reported(&self.version))
    }

    /// True if its data has, or may have, the format of a minor that is newer than `to`.
    pub fn has_newer_data(&self, to: EtcdVersion) -> bool {
        self.stored().is_some_and(|stored| stored.series() > to.series())
    }

    /// True for etcd 3.6 in a cluster in which all members run it: no new entry of v2 gets into its log, and
    /// the next minor panics on those that are left there.
    pub fn log_decides(&self) -> bool {
        let last = |version: EtcdVersion| version.series() == READS_V2;
        EtcdVersion::reported(&self.version).is_some_and(last) && self.storage_version.is_some_and(last)
    }
}

impl NodeStatus {
    /// The etcd that is selected in the newest epoch, as this node knows both.
    pub fn selected_etcd(&self) -> Option<EtcdSelection> {
        self.steering.directives.etcd_in(self.genesis.as_ref())
    }
}

impl EtcdStatus {
    /// The free bytes in the file of its database; `None` if it does not report them.
    pub fn free_bytes(&self) -> Option<u64> {
        Some(self.db_size_bytes.saturating_sub(self.db_in_use_bytes?))
    }

    /// True while the alarm NOSPACE of any member is raised.
    pub fn has_no_space(&self) -> bool {
        self.alarms().any(|alarm| alarm == "NOSPACE")
    }

    /// True while the cluster is in quarantine.
    pub fn in_quarantine(&self) -> bool {
        self.alarms_with_members()
            .any(|(member, alarm)| is_of_quarantine(member, alarm))
    }

    /// The alarms that are raised, such as `NOSPACE`.
    pub fn alarms(&self) -> impl Iterator<Item = &str> {
        self.alarms_with_members().map(|(_, alarm)| alarm)
    }

    /// The alarms that are raised, without those of a quarantine.
    pub fn other_alarms(&self) -> impl Iterator<Item = &str> {
        let others = self
            .alarms_with_members()
            .filter(|(member, alarm)| !is_of_quarantine(*member, alarm));
        others.map(|(_, alarm)| alarm)
    }

    /// etcd lists alarms among its errors as `memberID:1 alarm:NOSPACE` (`Status` in etcd's `maintenance.go`).
    fn alarms_with_members(&self) -> impl Iterator<Item = (Option<MemberId>, &str)> {
        self.errors.iter().filter_map(|error| {
            let (rest, alarm) = error.split_once("alarm:")?;
            let id = rest
                .strip_prefix("memberID:")
                .and_then(|id| id.trim().parse().ok());
            Some((id.map(MemberId), alarm.trim()))
        })
    }
}

fn is_of_quarantine(member: Option<MemberId>, alarm: &str) -> bool {
    let kind = alarm.parse().ok();
    member.zip(kind).is_some_and(is_quarantine)
}

/// The fence-relevant part of an assignment.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct AssignmentSummary {
    /// Generation on its node.
    pub generation: Generation,
    /// Epoch.
    pub epoch: Epoch,
    /// Cluster.
    pub cluster_id: ClusterId,
    /// Member.
    pub member_id: MemberId,
    /// True once the member has started.
    pub started_once: bool,
    /// Its selected version; `None` for the binary of `etcd.service` itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub etcd_version: Option<EtcdVersion>,
}

/// Which etcds a node can run.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct EtcdBinaries {
    /// The version that `etcd.service` starts while none is selected; `None` if it is not known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub base: Option<EtcdVersion>,
    /// The versions below `etcd.versions_dir`.
    #[serde(default)]
    pub versions: BTreeSet<EtcdVersion>,
    /// True if `etcd.binary` is configured: no version can be selected then.
    #[serde(default)]
    pub pinned: bool,
}

/// A person's request for another raft leader, which the coordinator carries out.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LeaderAsk {
    /// Distinguishes requests.
    pub id: u64,
    /// Where to; `None` leaves the choice to the coordinator.
    pub to: Option<NodeName>,
    /// The leader at the time of the request.
    pub from: Option<MemberId>,
}

/// The orders that an agent has. Older versions of the agent leave out the fields that they do not know.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Steering {
    /// The operators' orders for the whole cluster, as far as this agent knows.
    #[serde(default)]
    pub directives: Directives,
    /// Why its etcd needs a restart, if it does. The restart waits for a grant.
    #[serde(default)]
    pub wants_restart: Option<RestartWish>,
    /// True while something other than the agent stops `etcd.service` and the gate holds the stop back until
    /// it has leave.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub waits_to_stop: bool,
    /// The defragmentation of its etcd.
    #[serde(default, skip_serializing_if = "DefragView::is_idle")]
    pub defrag: DefragView,
    /// Its last compaction as coordinator.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub compacted: Option<Compaction>,
    /// Its last comparison of the members' data as coordinator.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hash_check: Option<HashCheck>,
    /// The disruption that it has granted as coordinator and that has not finished.
    #[serde(default)]
    pub grant: Option<Grant>,
    /// The last raft term in which it was the coordinator, unless a node may still act on a grant of it or of
    /// an earlier coordinator. The coordinator of the next term need not wait then.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub grants_over: Option<RaftTerm>,
    /// A person's request on this node to move the leader.
    #[serde(default)]
    pub leader_ask: Option<LeaderAsk>,
    /// Electors that are lost on the word of an operator here, while that request is open. An operator's word
    /// on one node counts on all nodes.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub vouched_gone: BTreeSet<NodeName>,
    /// True while a person's request on this node to restore a backup is open.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub restoring: bool,
    /// True while a request on this node for the reboot lock is open.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub wants_reboot_lock: bool,
    /// What this agent stores about the reboot lock.
    #[serde(default, skip_serializing_if = "RebootLocks::is_unused")]
    pub reboot_locks: RebootLocks,
}

/// One agent's report on its own node.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct NodeStatus {
    /// The node.
    pub node: NodeName,
    /// The agent's version.
    pub agent_version: String,
    /// The identity of its state directory.
    pub incarnation: Incarnation,
    /// The kernel's boot ID.
    pub boot_id: String,
    /// The cluster that it is configured for.
    pub cluster: ClusterName,
    /// Digest of the spec that must agree between nodes.
    pub spec_digest: String,
    /// Digest of the electorate (sorted node names).
    pub electorate_digest: String,
    /// Digest of the shared store's URL; `None` from an agent of an older version.
    #[serde(default)]
    pub store_digest: Option<String>,
    /// Whether its elector may vote on a genesis yet (design §6: an elector without memory may not).
    pub eligible: bool,
    /// `etcd.service`.
    pub unit: Fact<UnitState>,
    /// The data directory.
    pub data: Fact<DataState>,
    /// The assignment of its etcd; `None` if there is none.
    pub assignment: Option<AssignmentSummary>,
    /// The status of its etcd.
    pub etcd: Fact<EtcdStatus>,
    /// The member list that it read from its own etcd.
    pub members: Fact<MemberList>,
    /// The version of its etcd, if that is older than the oldest one that is fully supported.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub etcd_too_old: Option<String>,
    /// Whether its etcd's log holds entries of v2, on which etcd 3.7 panics; `None` if that is not known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub v2_entries: Option<bool>,
    /// What an etcd without the v2 API, to which a step is wanted, does not start on here, in one line; `None` if
    /// nothing was found or the disk was not read lately, and from an agent of an older version.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub v2_trouble: Option<String>,
    /// Why it does not follow the version of etcd that operators have selected, in one line; `None` if it does, or is
    /// to wait for its turn, and from an agent of an older version.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version_trouble: Option<String>,
    /// Which etcds it can run; `None` from an agent of an older version.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub etcd_binaries: Option<EtcdBinaries>,
    /// The newest epoch reported to it.
    pub newest_epoch: Epoch,
    /// The newest epoch for which its elector may have accepted a genesis that it has not learned; 0 if there
    /// is none, and from an agent of an older version.
    #[serde(default, skip_serializing_if = "Epoch::is_zero")]
    pub voted: Epoch,
    /// The newest genesis that it has learned as chosen.
    pub genesis: Option<Genesis>,
    /// Nodes whose agent does not answer this one.
    #[serde(default)]
    pub silent_agents: BTreeSet<NodeName>,
    /// Nodes of silent agents whose etcd does not answer this agent either.
    #[serde(default)]
    pub silent_etcds: BTreeSet<NodeName>,
    /// The number of consecutive full backups that failed here. After some failures another node takes the
    /// next one. This node retries with a growing pause.
    #[serde(default)]
    pub backup_failures: u32,
    /// The number of consecutive reads of the store that failed here, about one every two seconds. After some
    /// failures another node takes the next full backup.
    #[serde(default)]
    pub store_failures: u32,
    /// Its peer URL in its own configuration.
    #[serde(default)]
    pub peer_url: Option<String>,
    /// Over what its etcd speaks; `None` from an agent of an older version.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub transport: Option<TransportView>,
    /// Why its etcd, once stopped, might not start again with the certificate files of its next start, in one
    /// line: what was found in them, or that they are not read yet; `None` if nothing was found, and from an
    /// agent of an older version.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tls_trouble: Option<String>,
    /// Why its etcd, once stopped, might not start again with the binary of its next start, in one line: a package has
    /// replaced it by one that does not open the data or skips a minor, or it is not read yet; `None` if nothing was
    /// found, and from an agent of an older version.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub binary_trouble: Option<String>,
    /// Why its data directory, or a log that is elsewhere, cannot be archived or replaced, in one line; `None` if
    /// nothing was found or it is not known yet, and from an agent of an older version.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub archive_trouble: Option<String>,
    /// The newest backup that it knows of.
    pub last_backup: Option<BackupSummary>,
    /// The earliest expiry of a certificate on this node: the agent's, etcd's, or one that these depend on.
    pub certificate_not_after: Option<UnixMs>,
    /// Its orders.
    #[serde(default)]
    pub steering: Steering,
    /// True if its TCP address is insecure (no TLS).
    pub insecure: bool,
    /// Its clock at the time of the answer.
    pub now: UnixMs,
    /// One human line about its current work.
    pub text: String,
}

impl NodeStatus {
    /// True while `etcd.service` is active: etcd has notified systemd that it serves. Also while a stop of it
    /// waits for leave.
    pub fn is_active(&self) -> bool {
        self.unit.known().is_some_and(|unit| match unit.active {
            ActiveState::Active => true,
            ActiveState::Deactivating => self.steering.waits_to_stop,
            _ => false,
        })
    }
}
