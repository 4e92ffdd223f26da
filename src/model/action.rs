//! What the planner can decide to do, and the conditions that are checked right before it is done.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use serde::{Deserialize, Serialize};

use super::{
    Assignment, BackupFormat, BackupId, ClusterId, Directives, Epoch, EtcdVersion, Generation, Genesis,
    Grant, MemberId, NodeName, NodeOrder, OperatorRequest, RaftTerm, RebootLock, Revision, SpecRecord,
    SteadyMs,
};

/// The conditions that must still hold when etcd is started.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct StartFence {
    /// The assignment generation.
    pub generation: Generation,
    /// The epoch, which must be the newest known one.
    pub epoch: Epoch,
}

impl StartFence {
    /// The fence of a start for this assignment.
    pub fn of(assignment: &Assignment) -> Self {
        Self {
            generation: assignment.generation,
            epoch: assignment.epoch,
        }
    }
}

/// One action. Each carries its fence, which is checked again right before the action.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "action")]
pub enum Action {
    /// Ask all other electors for what they know, and become eligible once enough have answered.
    Enquire {
        /// Electors that, on the operator's word, are lost permanently.
        without: BTreeSet<NodeName>,
    },
    /// Run a Paxos round for this value (or for a value that was accepted before).
    Propose {
        /// The ballot's round.
        round: u64,
        /// The value.
        genesis: Box<Genesis>,
        /// Electors of the replaced epoch that, on the operator's word, are lost permanently.
        #[serde(default)]
        gone: BTreeSet<NodeName>,
    },
    /// Ask the electors whether a newer epoch is open, and learn it if a majority confirms it.
    Confirm {
        /// The sources that report a newer epoch, and the epoch that each reports.
        reported_by: BTreeMap<String, Epoch>,
        /// The token of the genesis that an operator has confirmed here.
        #[serde(default)]
        by_operator: Option<String>,
    },
    /// Take over orders that operators gave on other nodes.
    TakeDirectives {
        /// The newer register.
        directives: Box<Directives>,
    },
    /// Persist the assignment of this node's etcd.
    Assign {
        /// The assignment.
        assignment: Box<Assignment>,
    },
    /// Write environment and drop-in for the persisted assignment and read back what is in force.
    Apply {
        /// Which generation.
        generation: Generation,
    },
    /// Ask the owner of the data directory for its content.
    InspectData,
    /// Fetch a backup and check it before anything is proposed or replaced.
    FetchBackup {
        /// The backup.
        backup: BackupId,
    },
    /// Restore a fetched and checked backup next to the old data. Nothing is replaced.
    StageRestore {
        /// The epoch that the restore is for.
        epoch: Epoch,
        /// The backup.
        backup: BackupId,
    },
    /// Move the data directory into the archive. If a restore is staged, put the restored data in its place.
    ReplaceData {
        /// The epoch that requires it.
        epoch: Epoch,
        /// The reason, which becomes part of the archive's name.
        why: String,
        /// Whether the staged restore is then swapped in.
        staged: bool,
    },
    /// Let the gate pass for this assignment generation in this boot. Before the first start of a member it only
    /// records that the start is allowed; the next one clears the gate.
    ClearGate {
        /// Which generation.
        generation: Generation,
        /// The epoch, if only the shared store confirms it. The store is then asked again before the gate is
        /// cleared.
        by_store: Option<Epoch>,
    },
    /// Start `etcd.service`; never waits for the job.
    StartEtcd {
        /// The fence.
        fence: StartFence,
    },
    /// Cancel a start of `etcd.service` that the gate holds back, because the data directory needs work
    /// first.
    CancelStart {
        /// The assignment generation.
        generation: Generation,
    },
    /// Ask etcd on every node, and every other agent, whether a member of this node was removed.
    CheckRemoval {
        /// The cluster.
        cluster_id: ClusterId,
        /// The member.
        member_id: MemberId,
        /// The raft term of the member list that named it first.
        listed: RaftTerm,
    },
    /// Stop `etcd.service` because its member was removed from the cluster.
    StopRemoved {
        /// The assignment generation.
        generation: Generation,
    },
    /// Persist this node's record of the wanted size.
    RememberSpec {
        /// The new record.
        record: Box<SpecRecord>,
    },
    /// Stop `etcd.service` because it serves an epoch that is no longer the newest.
    StopEtcd {
        /// The newest epoch.
        newest: Epoch,
    },
    /// Remove a member.
    RemoveMember {
        /// Which.
        id: MemberId,
        /// Its node.
        node: NodeName,
        /// Why. The cause is checked again right before the removal.
        why: Removal,
        /// The learner that replaces it. The learner must have caught up before the removal.
        replaced_by: Option<MemberId>,
        /// The end of the grace of a dead member: it is asked again until then, and not removed before.
        #[serde(default)]
        not_before: SteadyMs,
        /// The raft term of the member list that this was decided on.
        term: RaftTerm,
    },
    /// Give a member the new address of its node.
    UpdateMember {
        /// Which.
        id: MemberId,
        /// Its node.
        node: NodeName,
        /// The new peer URLs.
        peer_urls: Vec<String>,
        /// The raft term of the member list that this was decided on.
        term: RaftTerm,
    },
    /// Remove the member of a node that an operator has ordered out of the cluster.
    TakeOut {
        /// Which.
        id: MemberId,
        /// Its node.
        node: NodeName,
        /// The raft term of the member list that this was decided on.
        term: RaftTerm,
    },
    /// Add a node as a learner.
    AddLearner {
        /// Its node.
        node: NodeName,
        /// Its peer URLs.
        peer_urls: Vec<String>,
        /// The raft term of the member list that this was decided on.
        term: RaftTerm,
    },
    /// Promote a learner to a voter. etcd refuses while the learner is behind.
    Promote {
        /// Which.
        id: MemberId,
        /// Its node.
        node: NodeName,
        /// The raft term of the member list that this was decided on.
        term: RaftTerm,
    },
    /// Move the raft leadership to another member.
    MoveLeader {
        /// Which.
        to: MemberId,
        /// Its node.
        node: NodeName,
        /// The raft term in which this node's member leads.
        term: RaftTerm,
    },
    /// Ask etcd to convert its data for a downgrade of the cluster, or to end a downgrade that was cancelled.
    Downgrade {
        /// The version; `None` ends the downgrade.
        to: Option<EtcdVersion>,
        /// The raft term in which this node's member leads.
        term: RaftTerm,
    },
    /// Restart `etcd.service` with the coordinator's permission; never waits for the job.
    RestartEtcd {
        /// The fence of the start.
        fence: StartFence,
        /// The permission.
        grant: Grant,
        /// Who gave it.
        coordinator: NodeName,
    },
    /// Begin to defragment this node's etcd in the background, with the coordinator's permission.
    Defrag {
        /// The order that is carried out, if any.
        order: Option<NodeOrder>,
        /// The permission.
        grant: Grant,
        /// Who gave it.
        coordinator: NodeName,
    },
    /// Begin to compact the history of all keys in the background, because etcd has no space.
    Compact {
        /// Revisions before this one are compacted.
        revision: Revision,
        /// The raft term in which this node's member leads.
        term: RaftTerm,
    },
    /// Disarm the alarm NOSPACE of all members: their databases have space again.
    DisarmNoSpace {
        /// The raft term in which this node's member leads.
        term: RaftTerm,
    },
    /// Begin to compare the data of all voters in the background.
    CheckHashes {
        /// The raft term in which this node's member leads.
        term: RaftTerm,
    },
    /// Store this node's own reboot lock: it takes the lock under a grant, or releases it.
    SetRebootLock {
        /// The lock.
        lock: RebootLock,
    },
    /// Let the host reboot: check again that the cluster is whole and that the agents of all members have
    /// recorded the lock.
    ConfirmRebootLock {
        /// The version of this node's lock that they have recorded.
        version: u64,
        /// Who granted it.
        coordinator: NodeName,
    },
    /// Begin a full backup in the background.
    Backup {
        /// The node whose member is read.
        from: NodeName,
        /// The format in which it is written.
        format: BackupFormat,
    },
    /// Begin to watch etcd's changes and to store them as increments of this full backup.
    Increments {
        /// The newest full backup.
        backup: BackupId,
    },
    /// Store the changes received from etcd now, and answer the request.
    Flush,
    /// Begin to remove the backups that retention no longer wants.
    Prune {
        /// The newest backup at the time of the decision. Pruning runs once for each.
        after: Option<BackupId>,
    },
    /// Begin to verify a backup in the background.
    Verify {
        /// Which.
        backup: BackupId,
    },
    /// Forward a person's request to another node, and answer with its result.
    HandOver {
        /// The request.
        request: OperatorRequest,
        /// The node that can do it.
        to: NodeName,
    },
    /// Close a person's request, which is done or cannot be done, with this answer.
    Answer {
        /// The request.
        request: OperatorRequest,
        /// True if it was done.
        done: bool,
        /// The answer.
        message: String,
    },
}

/// Why a member is removed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Removal {
    /// Its own agent attests that its data is lost.
    Gone,
    /// No node has reached its agent or its etcd for `cluster.grace`.
    Dead,
    /// Its agent answers, and its etcd has not run for `cluster.grace`.
    Broken,
    /// It was added and has never started.
    Unstarted,
    /// Its data differs from that of a majority.
    Corrupt,
    /// A learner that makes no progress.
    Stuck,
    /// A learner that is no longer needed.
    Surplus,
    /// There are more voters than wanted.
    Excess,
}

impl fmt::Display for Removal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Gone => "its data is gone",
            Self::Dead => "nobody reaches it",
            Self::Broken => "its etcd does not run",
            Self::Unstarted => "it was never started",
            Self::Corrupt => "its data differs from the others'",
            Self::Stuck => "it makes no progress",
            Self::Surplus => "it is not needed",
            Self::Excess => "there are more voters than wanted",
        })
    }
}
