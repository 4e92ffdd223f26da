//! The types of the local admin socket. The CLI, `-o json` and tests share them.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::{
    BackupId, BackupView, Decision, DirectiveChange, Directives, Fact, NodeName, NodeStatus, Observation,
    OperatorRequest, Revision, UnixMs, Verified, Vitals,
};

/// `GET /v1/status` on the admin socket.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct AdminStatus {
    /// True until the agent's first observation. Until then it knows nothing about etcd and its peers.
    #[serde(default)]
    pub starting: bool,
    /// This node.
    pub node: NodeStatus,
    /// Every peer as last seen.
    pub peers: BTreeMap<NodeName, Fact<NodeStatus>>,
    /// The node that decides for the cluster now, if there is one.
    pub coordinator: Option<NodeName>,
    /// The last decision.
    pub decision: Decision,
    /// Wanted number of voters.
    pub size: usize,
    /// This agent's work in the store.
    #[serde(default)]
    pub backups: BackupView,
    /// The store's address, no secrets; `None` when none is configured.
    pub store: Option<String>,
    /// Why the store cannot be used; `None` if it can.
    pub store_error: Option<String>,
    /// The state of the copy to the second store, if there is one.
    #[serde(default)]
    pub copy: Option<CopyStatus>,
    /// The defect of the configuration on disk, if a reload was refused.
    pub config_error: Option<String>,
    /// What is wrong with the files of `[api.tls]`; `None` if nothing is, or without TLS.
    #[serde(default)]
    pub api_tls_error: Option<String>,
    /// The newest verified backup, and the result.
    #[serde(default)]
    pub verified: Option<(BackupId, Verified)>,
    /// Settings that a later file or flag would override; each line names the file.
    pub conflicts: Vec<String>,
    /// Numbers for the metrics and the status page.
    #[serde(default)]
    pub vitals: Vitals,
}

/// The state of this node's copy to the second store.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CopyStatus {
    /// The second store's address, no secrets.
    pub store: String,
    /// The newest backup that both stores have, as far as this node knows.
    pub newest: Option<BackupId>,
    /// The newest revision that its increments reach in the second store.
    #[serde(default)]
    pub covered: Option<Revision>,
    /// The last time when this node found everything copied.
    pub at: Option<UnixMs>,
    /// The number of failed rounds since then.
    pub failures: u32,
    /// Why the last round failed.
    pub error: Option<String>,
}

/// `GET /v1/plan`: what the agent would do now, and why.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PlanView {
    /// The observation.
    pub observation: Observation,
    /// The decision on this observation.
    pub decision: Decision,
}

/// The answer to `POST /v1/requests` and `GET /v1/requests/{id}`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RequestView {
    /// The request's number in this run of the agent.
    pub id: u64,
    /// The request itself.
    pub request: OperatorRequest,
    /// Its state.
    pub state: RequestState,
    /// One line: the progress, the result, or the failure and what to do.
    pub message: String,
    /// False if nothing was changed, because it was so already. True from the moment when the request is accepted,
    /// and from an agent of an older version.
    #[serde(default = "changed")]
    pub changed: bool,
}

fn changed() -> bool {
    true
}

/// The state of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RequestState {
    /// In progress.
    Pending,
    /// Done.
    Done,
    /// It cannot be done. Nothing was left half done.
    Failed,
}

/// `GET` and `POST /v1/reload`: reloads of the configuration, by number.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReloadView {
    /// The newest requested reload.
    pub asked: u64,
    /// All reloads up to this one have finished.
    pub done: u64,
    /// Why the newest finished reload was refused, with file and line if there is one; `None` if it is in
    /// force.
    pub refused: Option<String>,
    /// A digest of the files of the configuration in force (`config::digest`); `None` from an agent of an older
    /// version.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub in_force: Option<String>,
}

/// `POST /v1/directives`: an order for the whole cluster.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct DirectiveOrder {
    /// The order.
    #[serde(flatten)]
    pub change: DirectiveChange,
    /// Change nothing, and report what would follow.
    #[serde(default)]
    pub dry_run: bool,
    /// Accept the order even if the cluster then stays below its size.
    #[serde(default)]
    pub force: bool,
}

/// The answer to `POST /v1/directives` and to `POST /v1/preview`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct DirectiveView {
    /// The register after the order.
    pub directives: Directives,
    /// False if the order changed nothing, or in a dry run.
    pub changed: bool,
    /// The steps that follow, in words.
    pub steps: Vec<String>,
    /// The first decision that would follow, in a dry run.
    pub decision: Option<Decision>,
}

/// The form of every error of the APIs: `{"error": "..."}`, one line.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ApiError {
    /// What is wrong, what was expected, and what to do.
    pub error: String,
}

/// `POST /v1/spec`: an order for another size.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SizeOrder {
    /// The wanted number of voters.
    pub size: usize,
    /// Accept even an unwise number (see `unwise_size`).
    #[serde(default)]
    pub force: bool,
    /// Change nothing, and report what would follow.
    #[serde(default)]
    pub dry_run: bool,
}

/// The answer to `POST /v1/spec`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SizeView {
    /// The ordered number of voters.
    pub size: usize,
    /// The number of voters wanted before.
    pub before: usize,
    /// False if the store already had this size, or in a dry run.
    pub changed: bool,
    /// Where the size is written, or has to be written: an object in the store, or a line in a file.
    pub place: String,
    /// The first decision that would follow, in a dry run.
    pub decision: Option<Decision>,
}
