//! Everything one agent saw at one instant. An observation saved from the field replays with
//! `etcd-agent plan --observation FILE`.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use super::{
    Assignment, BackupFormat, BackupId, BackupSummary, BackupView, ClusterId, ClusterName, Epoch, Fact,
    Generation, Genesis, Job, LastWords, MemberId, NodeName, NodeStatus, Spec, SpecRecord, SteadyMs, UnixMs,
    VerifyView,
};

/// What a person asked this agent to do.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "request")]
pub enum OperatorRequest {
    /// Restore this backup as a new epoch.
    Restore {
        /// Which backup.
        backup: BackupId,
        /// Electors that the operator vouches are gone for good.
        without: BTreeSet<NodeName>,
        /// The cluster's name: the operator's word that all electors of the newest epoch that this node's configuration
        /// does not name are gone for good.
        #[serde(default)]
        replace: Option<ClusterName>,
        /// The newest epoch when it was asked, which the restore has to replace; the agent fills it in. `None` while its
        /// memory is new: what it learns then happened before the order.
        #[serde(default)]
        above: Option<Epoch>,
        /// When it was asked, by this node's clock; the agent fills it in.
        #[serde(default)]
        asked: UnixMs,
    },
    /// Form the first cluster without these electors, which the operator vouches are gone.
    Bootstrap {
        /// Electors that the operator vouches are gone for good.
        without: BTreeSet<NodeName>,
        /// An empty cluster is wanted, even if the store holds backups.
        #[serde(default)]
        empty: bool,
    },
    /// Take this genesis for chosen, on the operator's word, where the electors that are left can neither confirm nor deny it.
    ConfirmEpoch {
        /// Its epoch.
        epoch: Epoch,
        /// Its token: another genesis of the same epoch is not meant.
        token: String,
    },
    /// Take a full backup now.
    Backup,
    /// Store what was written until now as an increment, without waiting for the interval.
    Increment,
    /// Remove the backups that retention no longer wants.
    Prune,
    /// Move the raft leader.
    MoveLeader {
        /// Where to; `None` leaves the choice to the coordinator.
        #[serde(default)]
        to: Option<NodeName>,
        /// Who led when it was asked; the agent fills it in.
        #[serde(default)]
        from: Option<MemberId>,
        /// Tells it from others; the agent fills it in.
        #[serde(default)]
        id: u64,
        /// When it was asked; the agent fills it in.
        #[serde(default)]
        asked: SteadyMs,
    },
    /// Take a full backup in this form now.
    BackupAs {
        /// In which form.
        format: BackupFormat,
    },
    /// Restore this backup for a look, and say whether it is good.
    Verify {
        /// Which backup.
        backup: BackupId,
    },
}

impl OperatorRequest {
    /// The electors of which it vouches that they are gone for good.
    pub fn without(&self) -> impl Iterator<Item = &NodeName> {
        let without = match self {
            Self::Restore { without, .. } | Self::Bootstrap { without, .. } => Some(without),
            Self::ConfirmEpoch { .. }
            | Self::Backup
            | Self::BackupAs { .. }
            | Self::Increment
            | Self::Prune
            | Self::MoveLeader { .. }
            | Self::Verify { .. } => None,
        };
        without.into_iter().flatten()
    }
}

/// What the store says, as far as the planner needs it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct StoreView {
    /// The newest epoch record in `control/epochs/`, if any.
    pub genesis: Option<Genesis>,
    /// The newest committed backup that is not dated after now, if any.
    pub newest_backup: Option<BackupSummary>,
    /// What was seen, when etcd had been put back to an older state before that backup was taken.
    #[serde(default)]
    pub went_back: Option<String>,
    /// False when the store was seen to ignore `If-None-Match: *`.
    pub conditional_writes: bool,
    /// How many voters `control/etcd-cluster-spec` wants; absent when there is no such object or no number in it.
    #[serde(default)]
    pub size: Fact<usize>,
    /// A key that shows that there was a cluster before: the marker of a backup, or etcd-manager's of its cluster.
    #[serde(default)]
    pub trace: Option<String>,
    /// Names of the commands in etcd-manager's queue.
    #[serde(default)]
    pub commands: Vec<String>,
    /// What is known of verifications.
    #[serde(default)]
    pub verify: VerifyView,
}

/// What is in force for `etcd.service`, as `etcd-agent-apply.service` read it back.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct InForce {
    /// The assignment generation that was written.
    pub generation: Generation,
    /// Digest of what was written, but for how the member joined: what a running etcd would be restarted for.
    pub settings_digest: String,
    /// `initial-cluster-state` that was written.
    pub initial_state: super::InitialState,
    /// What would win over our settings; each line names file, line and what to do. Empty when all is well.
    pub conflicts: Vec<String>,
}

/// The gate of this boot.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct GateView {
    /// The generation that was cleared in this boot, if any.
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
    /// The highest ballot round seen for the next epoch.
    pub highest_round: u64,
    /// A value accepted in the next epoch and maybe chosen: only this may be proposed.
    pub accepted: Option<Genesis>,
    /// True while no epoch is confirmed here: the genesis shown was only reported to this new memory.
    #[serde(default)]
    pub hearsay: bool,
    /// An epoch that a message reported and that is not confirmed.
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
    /// True when this is about that member.
    pub fn is_of(&self, cluster: ClusterId, member: MemberId) -> bool {
        (self.cluster_id, self.member_id) == (cluster, member)
    }
}

/// Everything one agent saw at one instant.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Observation {
    /// When, by the clock on the wall.
    pub now: UnixMs,
    /// When, by the clock that never jumps.
    #[serde(default)]
    pub steady: SteadyMs,
    /// The planner's only source of randomness.
    pub seed: u64,
    /// Own node.
    pub me: NodeStatus,
    /// The full assignment, when there is one.
    pub assignment: Option<Assignment>,
    /// The last check of whether a member of this node was removed.
    #[serde(default)]
    pub removal: Option<RemovalView>,
    /// The newest epoch that any source has reported to this node.
    pub newest_epoch: Epoch,
    /// Own elector.
    pub elector: ElectorView,
    /// Peers by name: what each last said, or why it could not be asked.
    pub peers: BTreeMap<NodeName, Fact<NodeStatus>>,
    /// By how many milliseconds each peer's clock was ahead of this node's when it last answered.
    #[serde(default)]
    pub clocks: BTreeMap<NodeName, i64>,
    /// The store; `Absent` when none is configured.
    pub store: Fact<StoreView>,
    /// What this node remembers of the wanted size.
    #[serde(default)]
    pub spec_record: SpecRecord,
    /// What is in force for etcd.service; `Absent` when nothing was applied in this boot.
    pub in_force: Fact<InForce>,
    /// The gate.
    pub gate: GateView,
    /// What etcd said when it last ended by itself, while it has not served since; `None` also where nothing is understood.
    #[serde(default)]
    pub last_words: Option<LastWords>,
    /// True when etcd runs and does not serve, and has no room for the next file of its log. It does not end for that where
    /// it waits for a snapshot of the raft leader: it logs each that it could not save.
    #[serde(default)]
    pub no_room: bool,
    /// True when etcd serves and nobody has noted what its data directory is on. After a boot without that mount an empty
    /// directory would be taken for lost data.
    #[serde(default)]
    pub mount_unknown: bool,
    /// Whose data the etcd has open that runs here and does not answer, as the data directory's owner saw it beside this very
    /// process.
    #[serde(default)]
    pub runs_on: Option<(ClusterId, MemberId)>,
    /// The backup that is restored next to the old data and ready to replace it, by epoch.
    pub staged: Option<(Epoch, BackupId)>,
    /// The backup that lies fetched and checked on this node.
    pub fetched: Option<BackupId>,
    /// Own backup job.
    pub backup: Job,
    /// What else this agent does in the store.
    #[serde(default)]
    pub backups: BackupView,
    /// Own fetch or restore job.
    pub restore: Job,
    /// What a person asked for and is not done.
    pub requests: Vec<OperatorRequest>,
    /// The spec that this was observed under (so that a saved observation replays alone).
    pub spec: Spec,
}

impl Observation {
    /// The member as which etcd runs here: as it answers, or else by the data that it has open.
    pub fn runs_as(&self) -> Option<(ClusterId, MemberId)> {
        let answers = self.me.etcd.known();
        answers
            .map(|etcd| (etcd.cluster_id, etcd.member_id))
            .or(self.runs_on)
    }
}
