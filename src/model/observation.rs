//! Everything that one agent observed at one instant. `etcd-agent plan --observation FILE` replays a saved
//! observation.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use super::{
    Assignment, BackupFormat, BackupId, BackupSummary, BackupView, ClusterId, ClusterName, Epoch, EpochEtcd,
    EtcdVersion, Fact, Generation, Genesis, Job, LastWords, LockOwner, MemberId, NodeName, NodeStatus, Spec,
    SpecRecord, SteadyMs, TlsView, UnixMs, V2View, VerifyView,
};

/// A person's request to this agent.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "request")]
pub enum OperatorRequest {
    /// Restore this backup as a new epoch.
    Restore {
        /// Which backup.
        backup: BackupId,
        /// Electors that, on the operator's word, are lost permanently.
        without: BTreeSet<NodeName>,
        /// The cluster's name. It is the operator's word that all electors of the newest epoch that this
        /// node's configuration does not name are lost permanently.
        #[serde(default)]
        replace: Option<ClusterName>,
        /// The etcd that the new epoch begins with; `None` for the one that is selected.
        #[serde(default)]
        etcd: Option<EpochEtcd>,
        /// The newest epoch at the time of the request, which the restore has to replace; the agent fills it
        /// in. `None` while the agent's memory is new: an epoch that it learns then was opened before the
        /// order.
        #[serde(default)]
        above: Option<Epoch>,
        /// The time of the request, by this node's clock; the agent fills it in.
        #[serde(default)]
        asked: UnixMs,
    },
    /// Form the first cluster without these electors, which are lost on the operator's word.
    Bootstrap {
        /// Electors that, on the operator's word, are lost permanently.
        without: BTreeSet<NodeName>,
        /// Form an empty cluster even if the store holds backups.
        #[serde(default)]
        empty: bool,
    },
    /// Accept this genesis as chosen, on the operator's word, if the remaining electors can neither confirm
    /// nor deny it.
    ConfirmEpoch {
        /// Its epoch.
        epoch: Epoch,
        /// Its token, which excludes any other genesis of the same epoch.
        token: String,
    },
    /// Take a full backup now.
    Backup,
    /// Store all changes up to now as an increment, without waiting for the interval.
    Increment,
    /// Remove the backups that retention no longer wants.
    Prune,
    /// Move the raft leader.
    MoveLeader {
        /// Where to; `None` leaves the choice to the coordinator.
        #[serde(default)]
        to: Option<NodeName>,
        /// The leader at the time of the request; the agent fills it in.
        #[serde(default)]
        from: Option<MemberId>,
        /// Distinguishes the request from others; the agent fills it in.
        #[serde(default)]
        id: u64,
        /// The time of the request; the agent fills it in.
        #[serde(default)]
        asked: SteadyMs,
    },
    /// Take a full backup in this format now.
    BackupAs {
        /// The format.
        format: BackupFormat,
    },
    /// Restore this backup into a temporary etcd, and report whether it is good.
    Verify {
        /// Which backup.
        backup: BackupId,
    },
    /// Take the reboot lock for this host.
    RebootLock {
        /// For whom.
        #[serde(default)]
        owner: LockOwner,
        /// How long to wait for it, in milliseconds.
        within_ms: u64,
        /// The time of the request; the agent fills it in.
        #[serde(default)]
        asked: SteadyMs,
    },
}

impl OperatorRequest {
    /// True if what it asks for is so already, as this node reports itself: the node follows the epoch, the other one
    /// leads, or the lock is held for the same owner.
    pub fn is_already_done_on(&self, node: &NodeStatus) -> bool {
        match self {
            Self::ConfirmEpoch { token, .. } => node
                .genesis
                .as_ref()
                .is_some_and(|genesis| genesis.token == *token),
            Self::MoveLeader { to: Some(to), .. } => {
                let leader = node.etcd.known().and_then(|etcd| etcd.leader);
                let mut members = node.members.known().into_iter().flat_map(|list| &list.members);
                let named = members.find(|member| member.name == to.as_str());
                named.is_some_and(|member| Some(member.id) == leader)
            }
            Self::RebootLock { owner, .. } => {
                let released = node.steering.directives.released.get(&node.node).copied();
                let lock = &node.steering.reboot_locks.own;
                let valid = lock.version > released.unwrap_or_default();
                let hold = lock.hold.as_ref().filter(|_| valid);
                hold.is_some_and(|hold| hold.confirmed && hold.owner == *owner)
            }
            _ => false,
        }
    }

    /// The electors that, on the operator's word, are lost permanently.
    pub fn without(&self) -> impl Iterator<Item = &NodeName> {
        let without = match self {
            Self::Restore { without, .. } | Self::Bootstrap { without, .. } => Some(without),
            Self::ConfirmEpoch { .. }
            | Self::Backup
            | Self::BackupAs { .. }
            | Self::Increment
            | Self::Prune
            | Self::MoveLeader { .. }
            | Self::RebootLock { .. }
            | Self::Verify { .. } => None,
        };
        without.into_iter().flatten()
    }
}

/// The state of the store, as far as the planner needs it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct StoreView {
    /// The newest epoch record in `control/epochs/`, if any.
    pub genesis: Option<Genesis>,
    /// The newest committed backup whose date is not in the future, if any.
    pub newest_backup: Option<BackupSummary>,
    /// The evidence, if etcd was put back to an older state before that backup was taken.
    #[serde(default)]
    pub went_back: Option<String>,
    /// False if the store was seen to ignore `If-None-Match: *`.
    pub conditional_writes: bool,
    /// The number of voters in `control/etcd-cluster-spec`; absent if there is no such object or no number in
    /// it.
    #[serde(default)]
    pub size: Fact<usize>,
    /// A key that proves that there was a cluster before: the marker of a backup, or etcd-manager's marker of
    /// its cluster.
    #[serde(default)]
    pub trace: Option<String>,
    /// The names of the commands in etcd-manager's queue.
    #[serde(default)]
    pub commands: Vec<String>,
    /// The state of verifications.
    #[serde(default)]
    pub verify: VerifyView,
}

/// The settings in force for `etcd.service`, as `etcd-agent-apply.service` read them back.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct InForce {
    /// The assignment generation that was written.
    pub generation: Generation,
    /// Digest of the settings that were written, without those that only say how the member joined. A running
    /// etcd is restarted if this digest changes.
    pub settings_digest: String,
    /// `initial-cluster-state` that was written.
    pub initial_state: super::InitialState,
    /// Settings that override the agent's; each line names file, line and what to do. Empty if there are
    /// none.
    pub conflicts: Vec<String>,
}

/// How the settings of the running etcd differ from those that are written for its next start.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct DriftView {
    /// True if etcd serves and its settings were not compared yet.
    pub unread: bool,
    /// A line for each setting that differs; absent if they were not compared.
    pub found: Fact<Vec<String>>,
}

impl Default for DriftView {
    fn default() -> Self {
        Self {
            unread: false,
            found: Fact::Absent,
        }
    }
}

/// The binary that `etcd.service` starts while no version of etcd is selected.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct BaseView {
    /// True if etcd serves and it is not known which version the binary has.
    pub unknown: bool,
    /// True if the etcd that runs may have been started from another file.
    pub replaced: bool,
}

/// The state of the gate in this boot.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct GateView {
    /// The generation for which the gate was cleared in this boot, if any.
    pub cleared: Option<Generation>,
}

/// This elector's memory, as far as the planner needs it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ElectorView {
    /// True once it may vote.
    pub eligible: bool,
    /// Electors that have answered an enquiry of this incarnation since the agent started.
    pub enquired: BTreeSet<NodeName>,
    /// Electors that are known to have lost their memory since the newest epoch was opened.
    #[serde(default)]
    pub superseded: BTreeSet<NodeName>,
    /// The newest epoch in which a former memory of this elector may have voted, 0 if there is none after the open
    /// one.
    #[serde(default, skip_serializing_if = "Epoch::is_zero")]
    pub may_have_voted: Epoch,
    /// The highest ballot round seen for the next epoch.
    pub highest_round: u64,
    /// A value that was accepted in the next epoch and may be chosen. Only this value may be proposed.
    pub accepted: Option<Genesis>,
    /// True while no epoch is confirmed here. The genesis in the status was then only reported to this new
    /// memory.
    #[serde(default)]
    pub hearsay: bool,
    /// An epoch that a message reported and that is not confirmed yet.
    #[serde(default)]
    pub pushed: Option<Epoch>,
    /// The sources that reported a newer epoch that the electors denied.
    #[serde(default)]
    pub denied: BTreeMap<String, Denial>,
}

/// An epoch that the electors denied.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Denial {
    /// The epoch that was reported.
    pub epoch: Epoch,
    /// When the electors were asked.
    pub at: SteadyMs,
}

/// The result of a check of whether a member was removed from its cluster (`agent/execute/removal_check.rs`).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RemovalView {
    /// The cluster.
    pub cluster_id: ClusterId,
    /// The member.
    pub member_id: MemberId,
    /// True when it was removed. Permanent, because etcd never uses a member ID twice.
    pub removed: bool,
    /// When the check ended.
    pub at: SteadyMs,
}

impl RemovalView {
    /// True if the result is about that member.
    pub fn is_of(&self, cluster: ClusterId, member: MemberId) -> bool {
        (self.cluster_id, self.member_id) == (cluster, member)
    }
}

/// Everything that one agent observed at one instant.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Observation {
    /// The time by the wall clock.
    pub now: UnixMs,
    /// The time by the monotonic clock.
    #[serde(default)]
    pub steady: SteadyMs,
    /// The planner's only source of randomness.
    pub seed: u64,
    /// The status of this node.
    pub me: NodeStatus,
    /// The full assignment, if there is one.
    pub assignment: Option<Assignment>,
    /// The last check of whether a member of this node was removed.
    #[serde(default)]
    pub removal: Option<RemovalView>,
    /// The newest epoch that any source has reported to this node.
    pub newest_epoch: Epoch,
    /// This node's elector.
    pub elector: ElectorView,
    /// Peers by name: the last status of each, or why it is unreachable.
    pub peers: BTreeMap<NodeName, Fact<NodeStatus>>,
    /// By how many milliseconds each peer's clock was ahead of this node's when it last answered.
    #[serde(default)]
    pub clocks: BTreeMap<NodeName, i64>,
    /// The store; `Absent` if none is configured.
    pub store: Fact<StoreView>,
    /// This node's record of the wanted size.
    #[serde(default)]
    pub spec_record: SpecRecord,
    /// The settings in force for `etcd.service`; `Absent` if nothing was applied in this boot.
    pub in_force: Fact<InForce>,
    /// The gate.
    pub gate: GateView,
    /// What etcd logged when it last ended by itself, until it serves again; `None` also if the log names no
    /// known trouble.
    #[serde(default)]
    pub last_words: Option<LastWords>,
    /// True if etcd runs, does not serve, and has no disk space for the next file of its log. An etcd that
    /// waits for a snapshot from the raft leader does not exit in this state: it logs each snapshot that it
    /// could not save.
    #[serde(default)]
    pub no_room: bool,
    /// True if etcd serves and nobody has recorded the mount that holds its data directory. Without that
    /// record, an empty directory after a boot without the mount would count as lost data.
    #[serde(default)]
    pub mount_unknown: bool,
    /// The member whose data is open in an etcd that runs here and does not answer. The owner of the data
    /// directory inspected it while this very process ran.
    #[serde(default)]
    pub runs_on: Option<(ClusterId, MemberId)>,
    /// The version of the etcd that served here last.
    #[serde(default)]
    pub served: Option<EtcdVersion>,
    /// The version whose format its data had then.
    #[serde(default)]
    pub stored: Option<EtcdVersion>,
    /// The binary of `etcd.service`.
    #[serde(default)]
    pub base: BaseView,
    /// The settings of the running etcd.
    #[serde(default)]
    pub drift: DriftView,
    /// The certificate files with which etcd may be started.
    #[serde(default)]
    pub tls: TlsView,
    /// The keys of the v2 API on this node's disk.
    #[serde(default)]
    pub v2: V2View,
    /// The staged restore: the backup that is restored next to the old data and ready to replace it, with its
    /// epoch.
    pub staged: Option<(Epoch, BackupId)>,
    /// The backup that is fetched and checked on this node.
    pub fetched: Option<BackupId>,
    /// The highest epoch that a backup in the store belonged to when that one was fetched; 0 if none did.
    #[serde(default)]
    pub highest_backup_epoch: Epoch,
    /// The backup from which no epoch can go on, because the cluster holds more than it, and what more.
    #[serde(default)]
    pub outrun: Option<(BackupId, String)>,
    /// This agent's full backup job.
    pub backup: Job,
    /// This agent's other work in the store.
    #[serde(default)]
    pub backups: BackupView,
    /// This agent's fetch or restore job.
    pub restore: Job,
    /// This agent's compaction job.
    #[serde(default)]
    pub compact: Job,
    /// This agent's comparison of the members' data.
    #[serde(default)]
    pub hash_check: Job,
    /// The open requests of a person.
    pub requests: Vec<OperatorRequest>,
    /// The spec at that time, so that a saved observation replays by itself.
    pub spec: Spec,
}

impl Observation {
    /// The member as which etcd runs here, from its own answer or else from the data that it has open.
    pub fn runs_as(&self) -> Option<(ClusterId, MemberId)> {
        let answers = self.me.etcd.known();
        answers
            .map(|etcd| (etcd.cluster_id, etcd.member_id))
            .or(self.runs_on)
    }
}
