//! What this node's etcd is to be. The agent persists the assignment before it acts on it.

use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use super::{
    BackupId, ClusterId, Epoch, EtcdSpec, EtcdVersion, Generation, MemberId, MemberList, NodeName, RaftTerm,
    Transport,
};

/// How this member joined the cluster.
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
    /// Only for the first start of a founder.
    New,
    /// For every other start. With `new`, an emptied data directory could come back as the same voter with no
    /// memory.
    Existing,
}

impl InitialState {
    /// etcd's own word.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::New => "new",
            Self::Existing => "existing",
        }
    }

    /// The state that etcd's word stands for.
    pub fn from_word(word: &str) -> Option<Self> {
        [Self::New, Self::Existing]
            .into_iter()
            .find(|state| state.as_str() == word)
    }
}

/// Whether the first start of a member was ever allowed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FirstStart {
    /// It was not: the member cannot have started, unless root has overridden the gate.
    Held,
    /// It was: the gate is cleared next, and the member may have started while no agent was there to see it. Files of
    /// an older version do not tell.
    #[default]
    Allowed,
}

impl FirstStart {
    #[allow(clippy::trivially_copy_pass_by_ref)] // As serde calls it.
    fn is_allowed(&self) -> bool {
        *self == Self::Allowed
    }
}

/// The `initial-cluster-*` settings that decide which cluster an etcd without data starts or joins.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct InitialSettings {
    /// `ETCD_INITIAL_CLUSTER_TOKEN`.
    pub token: String,
    /// `ETCD_INITIAL_CLUSTER_STATE`.
    pub state: InitialState,
}

impl fmt::Display for InitialSettings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "initial-cluster-token {} with initial-cluster-state {}",
            self.token,
            self.state.as_str()
        )
    }
}

/// What this node's etcd is to be.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Assignment {
    /// Each new assignment on this node increments it.
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
    /// How it joined.
    pub role: Role,
    /// `ETCD_INITIAL_CLUSTER_STATE`.
    pub initial_state: InitialState,
    /// `ETCD_INITIAL_CLUSTER`: every member's name and peer URLs, this one included.
    pub initial_cluster: BTreeMap<NodeName, Vec<String>>,
    /// The data directory.
    pub data_dir: PathBuf,
    /// The directory of the write-ahead log; `None`: `member/wal` in the data directory.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub wal_dir: Option<PathBuf>,
    /// The raft term of the member list that named this member first. An older list that does not name it
    /// proves no removal: the member was not added yet. Zero for a founder, which every list names until it
    /// is removed.
    #[serde(default)]
    pub listed: RaftTerm,
    /// True once this member was seen running. From then on it never starts without its data.
    pub started: bool,
    /// True once the removal of this member from its cluster was confirmed (rule 10). Permanent, because etcd
    /// never uses a member ID twice.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub removed: bool,
    /// The backup this member's data directory has to be restored from before its first start.
    pub restore: Option<BackupId>,
    /// True once the restored data was seen in its place. From then on the member never starts without its
    /// data, like a member that was seen running. It is not restored again either: it may have run, and a
    /// second restore would lose what it acknowledged.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub restored: bool,
    /// Whether its first start was ever allowed.
    #[serde(default, skip_serializing_if = "FirstStart::is_allowed")]
    pub first_start: FirstStart,
    /// Over what its next start speaks; `None` in a file of an older version: as configured.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub transport: Option<Transport>,
    /// The digest of the settings (`Spec::settings_digest`) of this assignment. A change makes a new
    /// generation.
    pub settings_digest: String,
    /// The etcd below `etcd.versions_dir` that runs; `None` for the binary of `etcd.service` itself, or
    /// `etcd.binary`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub etcd_version: Option<EtcdVersion>,
}

impl Assignment {
    /// The settings that decide which cluster this member starts or joins without data.
    pub fn initial_settings(&self) -> InitialSettings {
        InitialSettings {
            token: self.token.clone(),
            state: self.initial_state,
        }
    }

    /// True if the gate is cleared for this assignment. `cleared` is the generation in the file of this boot. The
    /// agent may have written it for an assignment that it has forgotten: one whose first start was not allowed has
    /// no cleared gate.
    pub fn is_cleared(&self, cleared: Option<Generation>) -> bool {
        cleared == Some(self.generation) && self.first_start == FirstStart::Allowed
    }

    /// True for a member that has had its data. It never starts without them.
    pub fn had_data(&self) -> bool {
        self.started || self.restored
    }

    /// Over what its next start speaks, where `etcd` is configured.
    pub fn transport(&self, etcd: &EtcdSpec) -> Transport {
        let assigned = self.transport.clone();
        assigned.unwrap_or_else(|| Transport::configured(etcd))
    }

    /// True if the assignment is for that member.
    pub fn is_of(&self, cluster: ClusterId, member: MemberId) -> bool {
        (self.cluster_id, self.member_id) == (cluster, member)
    }

    /// True if this member list is evidence about members of this node. It must be of this cluster, be read
    /// through quorum, and not be of an older raft term than the list that named this member first: a node
    /// that was cut off since then still shows the old list.
    pub fn is_current_in(&self, list: &MemberList) -> bool {
        list.linearizable && list.cluster_id == self.cluster_id && list.term >= self.listed
    }
}

/// The file that the gate reads if no agent answers. It is small, world-readable and without secrets.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct GateState {
    /// The assignment's generation. If the gate was cleared in this boot only for an older one, it does not
    /// pass.
    pub generation: Generation,
    /// The epoch this node is assigned to.
    pub epoch: Epoch,
    /// The newest epoch ever reported. If it is higher than `epoch`, etcd must not start.
    pub newest_epoch: Epoch,
    /// The newest epoch for which this node's elector may have accepted a genesis that it has not learned; 0
    /// if there is none. That epoch may be open on other nodes.
    #[serde(default, skip_serializing_if = "Epoch::is_zero")]
    pub voted: Epoch,
    /// The cluster of the assignment.
    pub cluster_id: ClusterId,
    /// The member of the assignment.
    pub member_id: MemberId,
    /// The directory that must hold the data.
    pub data_dir: PathBuf,
    /// The directory that must hold the write-ahead log; `None`: `member/wal` in the data directory.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub wal_dir: Option<PathBuf>,
    /// The number of voters of the epoch, as last seen.
    pub voters: usize,
    /// The number of electors of the epoch.
    pub electors: usize,
    /// False until the member has started once. Until then only the agent expects an absent data directory.
    pub started_once: bool,
    /// What etcd's environment file must say before etcd starts without data. `None` in a file of an older
    /// version.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub initial: Option<InitialSettings>,
}

impl GateState {
    /// The state of a node that has no assignment and knows this epoch. The gate does not pass.
    pub fn of_nobody(newest_epoch: Epoch) -> Self {
        Self {
            generation: Generation::default(),
            epoch: Epoch::default(),
            newest_epoch,
            voted: Epoch::default(),
            cluster_id: ClusterId(0),
            member_id: MemberId(0),
            data_dir: PathBuf::new(),
            wal_dir: None,
            voters: 0,
            electors: 0,
            started_once: false,
            initial: None,
        }
    }
}
