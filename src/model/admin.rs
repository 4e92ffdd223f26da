//! What the local admin socket speaks: one shape for the CLI, for `-o json` and for tests.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::{
    BackupId, BackupView, Decision, DirectiveChange, Directives, Fact, NodeName, NodeStatus, Observation,
    OperatorRequest, Revision, UnixMs, Verified,
};

/// `GET /v1/status` on the admin socket.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct AdminStatus {
    /// True until the agent has looked around for the first time: what it says of etcd and of its peers is not known yet.
    #[serde(default)]
    pub starting: bool,
    /// This node.
    pub node: NodeStatus,
    /// Every peer as last seen.
    pub peers: BTreeMap<NodeName, Fact<NodeStatus>>,
    /// Who decides for the cluster now, when somebody does.
    pub coordinator: Option<NodeName>,
    /// The last decision.
    pub decision: Decision,
    /// Wanted number of voters.
    pub size: usize,
    /// What this agent does in the store.
    #[serde(default)]
    pub backups: BackupView,
    /// The store's address, no secrets; `None` when none is configured.
    pub store: Option<String>,
    /// Why the store cannot be used, when it cannot.
    pub store_error: Option<String>,
    /// How copying to the second store goes, when there is one.
    #[serde(default)]
    pub copy: Option<CopyStatus>,
    /// What is wrong with the configuration on disk, when a reload was refused.
    pub config_error: Option<String>,
    /// The newest backup that was verified, and what came of it.
    #[serde(default)]
    pub verified: Option<(BackupId, Verified)>,
    /// What a later file or flag would override; each line names the file.
    pub conflicts: Vec<String>,
}

/// How copying to the second store goes on this node.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CopyStatus {
    /// The second store's address, no secrets.
    pub store: String,
    /// The newest backup that both stores have, as far as this node knows.
    pub newest: Option<BackupId>,
    /// The newest revision that its increments lead to in the second store.
    #[serde(default)]
    pub covered: Option<Revision>,
    /// When this node last found everything copied.
    pub at: Option<UnixMs>,
    /// Rounds that failed since then.
    pub failures: u32,
    /// Why the last one failed.
    pub error: Option<String>,
}

/// `GET /v1/plan`: what would be done now, and why.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PlanView {
    /// What was seen.
    pub observation: Observation,
    /// What was decided on it.
    pub decision: Decision,
}

/// The answer to `POST /v1/requests` and `GET /v1/requests/{id}`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RequestView {
    /// The request's number in this run of the agent.
    pub id: u64,
    /// What was asked.
    pub request: OperatorRequest,
    /// Where it stands.
    pub state: RequestState,
    /// One line: what is going on, what came of it, or what went wrong and what to do.
    pub message: String,
}

/// Where a request stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RequestState {
    /// Under way.
    Pending,
    /// Done.
    Done,
    /// It cannot be done; nothing is half done.
    Failed,
}

/// `GET` and `POST /v1/reload`: reloads of the configuration, by number.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReloadView {
    /// The newest that was asked for.
    pub asked: u64,
    /// All up to this one are over.
    pub done: u64,
    /// Why the newest of those was refused, with file and line where there is one; `None` when it is in force.
    pub refused: Option<String>,
}

/// `POST /v1/directives`: an order for the whole cluster.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct DirectiveOrder {
    /// What is ordered.
    #[serde(flatten)]
    pub change: DirectiveChange,
    /// Change nothing, and say what would follow.
    #[serde(default)]
    pub dry_run: bool,
    /// Even when the cluster then stays below its size.
    #[serde(default)]
    pub force: bool,
}

/// The answer to `POST /v1/directives` and to `POST /v1/preview`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct DirectiveView {
    /// The register after the order.
    pub directives: Directives,
    /// False when it was so already, or in a dry run.
    pub changed: bool,
    /// What follows, in words.
    pub steps: Vec<String>,
    /// What would be decided first, in a dry run.
    pub decision: Option<Decision>,
}

/// Every error of the APIs: `{"error": "..."}`, one line.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ApiError {
    /// What was wrong, what was expected, what to do.
    pub error: String,
}

/// `POST /v1/spec`: another size is wanted.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SizeOrder {
    /// How many voters.
    pub size: usize,
    /// Even a number that makes little sense.
    #[serde(default)]
    pub force: bool,
    /// Change nothing, and say what would follow.
    #[serde(default)]
    pub dry_run: bool,
}

/// The answer to `POST /v1/spec`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SizeView {
    /// How many voters were ordered.
    pub size: usize,
    /// How many were wanted before.
    pub before: usize,
    /// False when the store said so already, or in a dry run.
    pub changed: bool,
    /// Where it is written, or would have to be: an object in the store, or a line in a file.
    pub place: String,
    /// What would be decided first, in a dry run.
    pub decision: Option<Decision>,
}
