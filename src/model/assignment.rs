//! What this node's etcd is to be, persisted before anything acts on it.

use std::collections::BTreeMap;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use super::{BackupId, ClusterId, Epoch, Generation, MemberId, MemberList, NodeName, RaftTerm};

/// How this member came into the cluster.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Role {
    /// Named in the genesis as an initial voter.
    Founder,
    /// Added as a learner to a running cluster.
    Joiner,
}

/// etcd's `initial-cluster-state`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum InitialState {
    /// The first start of a founder, and only that.
    New,
    /// Everything else: an emptied data directory must never come back as the same voter with no memory.
    Existing,
}

impl InitialState {
    /// The word etcd uses.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::New => "new",
            Self::Existing => "existing",
        }
    }
}

/// What this node's etcd is to be.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Assignment {
    /// One higher for each new assignment on this node.
    pub generation: Generation,
    /// The epoch that it serves.
    pub epoch: Epoch,
    /// This node: `ETCD_NAME`.
    pub node: NodeName,
    /// The member it is to be.
    pub member_id: MemberId,
    /// The cluster it belongs to.
    pub cluster_id: ClusterId,
    /// `ETCD_INITIAL_CLUSTER_TOKEN`.
    pub token: String,
    /// How it came in.
    pub role: Role,
    /// `ETCD_INITIAL_CLUSTER_STATE`.
    pub initial_state: InitialState,
    /// `ETCD_INITIAL_CLUSTER`: every member's name and peer URLs, this one included.
    pub initial_cluster: BTreeMap<NodeName, Vec<String>>,
    /// The data directory.
    pub data_dir: PathBuf,
    /// The raft term of the member list that named this member first: what an older list leaves out was not removed, it
    /// was not there yet. Zero for a founder, whom every list names until it is removed.
    #[serde(default)]
    pub listed: RaftTerm,
    /// True once this member was seen running: from then on it never starts without its data.
    pub started: bool,
    /// True once the removal of this member from its cluster was confirmed (rule 10). Permanent, because etcd never
    /// uses a member ID twice.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub removed: bool,
    /// The backup this member's data directory has to be restored from before its first start.
    pub restore: Option<BackupId>,
    /// True once the restored data was seen in its place. From then on the member never starts without its data, as one that was
    /// seen running, and is not restored again: it may have run, and would have forgotten what it acknowledged.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub restored: bool,
    /// The digest of the settings (`Spec::settings_digest`) that it was made with: a change makes a new generation.
    pub settings_digest: String,
}

impl Assignment {
    /// True for a member that has had its data: it never starts without them.
    pub fn had_data(&self) -> bool {
        self.started || self.restored
    }

    /// True when this is about that member.
    pub fn is_of(&self, cluster: ClusterId, member: MemberId) -> bool {
        (self.cluster_id, self.member_id) == (cluster, member)
    }

    /// True when this member list can tell what became of members of this node: of this cluster, read through quorum, and
    /// not of an older raft term than the list that named this member first. Whoever has been cut off since still shows
    /// what was before.
    pub fn is_told_by(&self, list: &MemberList) -> bool {
        list.linearizable && list.cluster_id == self.cluster_id && list.term >= self.listed
    }
}

/// What the gate reads when no agent answers: small, world-readable, no secrets.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct GateState {
    /// The assignment's generation: a gate that was cleared in this boot for an older one does not pass.
    pub generation: Generation,
    /// The epoch this node is assigned to.
    pub epoch: Epoch,
    /// The newest epoch ever reported. If it is higher than `epoch`, etcd must not start.
    pub newest_epoch: Epoch,
    /// The newest epoch for which this node's elector may have accepted a genesis that it has not learned; 0 when there is
    /// none. That epoch may be open elsewhere.
    #[serde(default, skip_serializing_if = "Epoch::is_zero")]
    pub voted: Epoch,
    /// The assignment's cluster.
    pub cluster_id: ClusterId,
    /// The assignment's member.
    pub member_id: MemberId,
    /// Where the data must be.
    pub data_dir: PathBuf,
    /// How many voters the epoch has, as last seen.
    pub voters: usize,
    /// How many electors the epoch has.
    pub electors: usize,
    /// False until the member has started once: then an absent data directory is expected by the agent alone.
    pub started_once: bool,
}

impl GateState {
    /// The state of a node without an assignment whose agent knows of this epoch: nothing passes.
    pub fn of_nobody(newest_epoch: Epoch) -> Self {
        Self {
            generation: Generation::default(),
            epoch: Epoch::default(),
            newest_epoch,
            voted: Epoch::default(),
            cluster_id: ClusterId(0),
            member_id: MemberId(0),
            data_dir: PathBuf::new(),
            voters: 0,
            electors: 0,
            started_once: false,
        }
    }
}
