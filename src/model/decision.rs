//! What the planner answers: at most one action, the reasons, and when to look again.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::{
    Assignment, BackupFormat, BackupId, ClusterId, Directives, Epoch, Generation, Genesis, Grant, MemberId,
    NodeName, OperatorRequest, RaftTerm, Reason, SpecRecord, SteadyMs,
};

/// What must still hold when etcd is started.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct StartFence {
    /// The assignment generation.
    pub generation: Generation,
    /// The epoch, which must be the newest known.
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

/// One thing to do. Each carries its fence, checked again right before acting.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "action")]
pub enum Action {
    /// Ask all other electors what they know, and become eligible when enough have answered.
    Enquire {
        /// Electors that the operator vouches are gone.
        without: BTreeSet<NodeName>,
    },
    /// Run a Paxos round for this value (or for one that was accepted before).
    Propose {
        /// The ballot's round.
        round: u64,
        /// The value.
        genesis: Box<Genesis>,
        /// Electors of the replaced epoch that the operator vouches are gone for good.
        #[serde(default)]
        gone: BTreeSet<NodeName>,
    },
    /// Ask the electors whether a newer epoch is open, and learn it when a majority confirms it.
    Confirm {
        /// The sources that report one, and which.
        told_by: BTreeMap<String, Epoch>,
        /// The token of the genesis that an operator has confirmed here.
        #[serde(default)]
        by_operator: Option<String>,
    },
    /// Take over what operators have ordered elsewhere.
    TakeDirectives {
        /// The newer register.
        directives: Box<Directives>,
    },
    /// Persist what this node's etcd is to be.
    Assign {
        /// The assignment.
        assignment: Box<Assignment>,
    },
    /// Write environment and drop-in for the persisted assignment and read back what is in force.
    Apply {
        /// Which generation.
        generation: Generation,
    },
    /// Ask the data directory's owner what is in it.
    InspectData,
    /// Fetch a backup and check it, before anything is proposed or replaced.
    FetchBackup {
        /// The backup.
        backup: BackupId,
    },
    /// Restore a fetched and checked backup next to the old data (nothing is replaced).
    StageRestore {
        /// The epoch that it is for.
        epoch: Epoch,
        /// The backup.
        backup: BackupId,
    },
    /// Move the data directory into the archive and, when a restore is staged, put that in its place.
    ReplaceData {
        /// The epoch on whose behalf.
        epoch: Epoch,
        /// The reason that goes into the archive's name.
        why: String,
        /// Swap the staged restore in afterwards.
        staged: bool,
    },
    /// Let the gate pass for this assignment generation in this boot.
    ClearGate {
        /// Which generation.
        generation: Generation,
        /// The epoch, where only the shared store confirms it: the store is asked again before.
        by_store: Option<Epoch>,
    },
    /// Start `etcd.service`; never waits for the job.
    StartEtcd {
        /// The fence.
        fence: StartFence,
    },
    /// Cancel a start of `etcd.service` that the gate holds back, because the data directory has to be seen to.
    CancelStart {
        /// The assignment generation.
        generation: Generation,
    },
    /// Ask etcd at every node, and every other agent, whether a member of this node was removed.
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
    /// Write down what this node has to remember of the wanted size.
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
        /// Why; all of it is asked for again right before acting.
        why: Removal,
        /// The learner that takes its place, which must have caught up by then.
        replaced_by: Option<MemberId>,
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
    /// Remove the member of a node that a person ordered out.
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
    /// Give a learner its vote; etcd refuses while it is behind.
    Promote {
        /// Which.
        id: MemberId,
        /// Its node.
        node: NodeName,
        /// The raft term of the member list that this was decided on.
        term: RaftTerm,
    },
    /// Let another member lead.
    MoveLeader {
        /// Which.
        to: MemberId,
        /// Its node.
        node: NodeName,
        /// The raft term in which this node's member leads.
        term: RaftTerm,
    },
    /// Restart `etcd.service`, with the coordinator's leave; never waits for the job.
    RestartEtcd {
        /// The fence of the start.
        fence: StartFence,
        /// The leave.
        grant: Grant,
        /// Who gave it.
        coordinator: NodeName,
    },
    /// Begin a full backup in the background.
    Backup {
        /// The node whose member is read.
        from: NodeName,
        /// In which form it is written.
        format: BackupFormat,
    },
    /// Begin to follow etcd's changes and to store them as increments of this full backup.
    Increments {
        /// The newest full backup.
        backup: BackupId,
    },
    /// Store the changes received from etcd now, and answer the request.
    Flush,
    /// Begin to remove the backups that retention no longer wants.
    Prune {
        /// The newest backup when this was decided: once for each.
        after: Option<BackupId>,
    },
    /// Begin to verify a backup in the background.
    Verify {
        /// Which.
        backup: BackupId,
    },
    /// Forward a person's request to another node, and answer with its result.
    HandOver {
        /// What was asked.
        request: OperatorRequest,
        /// Who can do it.
        to: NodeName,
    },
    /// A person's request is done or cannot be done: drop it, with what to tell them.
    Answer {
        /// What was asked.
        request: OperatorRequest,
        /// True when it was done.
        done: bool,
        /// What to tell them.
        message: String,
    },
}

impl Action {
    /// True for an action that only begins when it is carried out, and continues in the background.
    pub fn begins_a_job(&self) -> bool {
        matches!(
            self,
            Self::FetchBackup { .. }
                | Self::StageRestore { .. }
                | Self::Backup { .. }
                | Self::Increments { .. }
                | Self::Prune { .. }
                | Self::Verify { .. }
        )
    }

    /// A short stable name for logs and metrics.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Enquire { .. } => "enquire",
            Self::Propose { .. } => "propose",
            Self::Confirm { .. } => "confirm",
            Self::TakeDirectives { .. } => "take-directives",
            Self::Assign { .. } => "assign",
            Self::Apply { .. } => "apply",
            Self::InspectData => "inspect-data",
            Self::FetchBackup { .. } => "fetch-backup",
            Self::StageRestore { .. } => "stage-restore",
            Self::ReplaceData { .. } => "replace-data",
            Self::ClearGate { .. } => "clear-gate",
            Self::StartEtcd { .. } => "start-etcd",
            Self::CancelStart { .. } => "cancel-start",
            Self::CheckRemoval { .. } => "check-removal",
            Self::StopRemoved { .. } => "stop-removed",
            Self::RememberSpec { .. } => "remember-spec",
            Self::UpdateMember { .. } => "update-member",
            Self::StopEtcd { .. } => "stop-etcd",
            Self::RemoveMember { .. } => "remove-member",
            Self::TakeOut { .. } => "take-out",
            Self::AddLearner { .. } => "add-learner",
            Self::Promote { .. } => "promote",
            Self::MoveLeader { .. } => "move-leader",
            Self::RestartEtcd { .. } => "restart-etcd",
            Self::Backup { .. } => "backup",
            Self::Increments { .. } => "increments",
            Self::Flush => "flush",
            Self::Prune { .. } => "prune",
            Self::Verify { .. } => "verify",
            Self::HandOver { .. } => "hand-over",
            Self::Answer { .. } => "answer",
        }
    }
}

/// Why a member is removed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Removal {
    /// Its own agent attests that its data is gone.
    Gone,
    /// Nobody has reached its agent or its etcd for `cluster.grace`.
    Dead,
    /// Its agent answers, and its etcd has not run for `cluster.grace`.
    Broken,
    /// It was added and never started.
    Unstarted,
    /// A learner that makes no progress.
    Stuck,
    /// A learner that is not needed any more.
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
            Self::Stuck => "it makes no progress",
            Self::Surplus => "it is not needed",
            Self::Excess => "there are more voters than wanted",
        })
    }
}

/// How far a learner has come.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LearnerProgress {
    /// Which.
    pub id: MemberId,
    /// The highest raft index that it was seen at.
    pub index: u64,
    /// When it got there.
    pub at: SteadyMs,
}

/// What the planner keeps from tick to tick. Losing it (a restart of the agent) is always safe.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Memory {
    /// Since when each peer is out of reach.
    pub unreachable_since: BTreeMap<NodeName, SteadyMs>,
    /// Failed tries by action name: count and time of the last.
    pub failures: BTreeMap<String, (u32, SteadyMs)>,
    /// What the last of them failed with, by action name.
    #[serde(default)]
    pub errors: BTreeMap<String, String>,
    /// When etcd was last asked to start.
    pub started_at: Option<SteadyMs>,
    /// As which member it was.
    #[serde(default)]
    pub started_as: Option<MemberId>,
    /// True once the unit has shown that start.
    #[serde(default)]
    pub start_shown: bool,
    /// Since when etcd has run and not answered.
    #[serde(default)]
    pub silent_since: Option<SteadyMs>,
    /// When the data directory was last looked into.
    #[serde(default)]
    pub looked_at: Option<SteadyMs>,
    /// Since when this agent has waited for electors to show up.
    pub waiting_since: Option<SteadyMs>,
    /// Starts in a row that did not last.
    pub start_failures: u32,
    /// As coordinator: in which raft term, and since when.
    #[serde(default)]
    pub coordinates: Option<(RaftTerm, SteadyMs)>,
    /// As coordinator: the restart that was granted and is not over, and since when.
    #[serde(default)]
    pub grant: Option<(Grant, SteadyMs)>,
    /// Nodes that made nothing of a grant, and when.
    #[serde(default)]
    pub grant_unused: BTreeMap<NodeName, SteadyMs>,
    /// When etcd was last asked to restart.
    #[serde(default)]
    pub restarted_at: Option<SteadyMs>,
    /// Since when each member is out of reach for every observer (coordinator only).
    #[serde(default)]
    pub dead_since: BTreeMap<MemberId, SteadyMs>,
    /// Since when each member's etcd does not run although its agent answers (coordinator only).
    #[serde(default)]
    pub broken_since: BTreeMap<MemberId, SteadyMs>,
    /// Since when each member is listed and was never started (coordinator only).
    #[serde(default)]
    pub unstarted_since: BTreeMap<MemberId, SteadyMs>,
    /// The learner that is on its way (coordinator only).
    #[serde(default)]
    pub learner: Option<LearnerProgress>,
    /// Nodes that were added and did not become members: how often, and when last.
    #[serde(default)]
    pub failed_joins: BTreeMap<NodeName, (u32, SteadyMs)>,
}

/// What the planner answers.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Decision {
    /// At most one action.
    pub action: Option<Action>,
    /// Why this, and why nothing else.
    pub reasons: Vec<Reason>,
    /// Look again after this, or earlier when something is heard.
    pub wake: Duration,
    /// What to remember.
    pub memory: Memory,
    /// True on the node that decides for the cluster now.
    pub coordinator: bool,
    /// One human line for `STATUS=` and `status`.
    pub text: String,
    /// How an order to open an epoch goes, when a person gave one here and there is something to say of it.
    #[serde(default)]
    pub order: Option<String>,
}
