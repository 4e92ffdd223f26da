//! The running agent, as the servers see it.

use async_trait::async_trait;

use crate::model::{
    Accept, AcceptReply, AdminStatus, BackupId, BackupSummary, DirectiveOrder, DirectiveView, Enquire,
    EnquireAnswer, EventsView, Learn, ListedBackup, NodeStatus, OperatorRequest, Page, PlanView, Prepare,
    PrepareReply, RequestView, RestoreTarget, SizeOrder, SizeView, StoreCommand, Verdict,
};

use super::{OrderError, PortResult};

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
    async fn enquire(&self, message: Enquire) -> PortResult<EnquireAnswer>;
    /// Phase 1 as an elector.
    async fn prepare(&self, message: Prepare) -> PortResult<PrepareReply>;
    /// Phase 2 as an elector.
    async fn accept(&self, message: Accept) -> PortResult<AcceptReply>;
    /// Receives a chosen genesis.
    async fn learn(&self, message: Learn) -> PortResult<()>;
    /// Everything for `etcd-agent status`.
    fn admin_status(&self) -> AdminStatus;
    /// Everything for `etcd-agent plan`; `None` before the first tick.
    fn plan_view(&self) -> Option<PlanView>;
    /// Backups in the store, oldest first: this one, or a page of all after that one.
    async fn backups(
        &self,
        only: Option<BackupId>,
        after: Option<BackupId>,
    ) -> PortResult<Page<ListedBackup>>;
    /// The point that is to be restored, in this backup or in whichever serves best.
    async fn point(&self, backup: Option<BackupId>, wanted: RestoreTarget) -> PortResult<BackupSummary>;
    /// The commands in etcd-manager's queue in the store, oldest first.
    async fn commands(&self) -> PortResult<Vec<StoreCommand>>;
    /// Deletes a command from the queue; false when there is none of that name.
    async fn delete_command(&self, name: &str) -> PortResult<bool>;
    /// What retention says of each, oldest first: a page of all after that one.
    async fn retention(&self, after: Option<BackupId>) -> PortResult<Page<Verdict>>;
    /// Queues an operator's request.
    fn submit(&self, request: OperatorRequest) -> PortResult<RequestView>;
    /// Queues a request that another node hands over.
    fn take_over(&self, request: OperatorRequest) -> PortResult<RequestView>;
    /// Where a request stands.
    fn request(&self, id: u64) -> Option<RequestView>;
    /// Takes an order for the whole cluster, on disk before this returns; with `dry_run` only returns what would follow.
    fn direct(&self, order: &DirectiveOrder) -> PortResult<DirectiveView>;
    /// Writes another wanted size to the store; with `dry_run` only returns what would follow.
    async fn set_size(&self, order: &SizeOrder) -> Result<SizeView, OrderError>;
    /// Returns what would follow from a request, and changes nothing.
    fn preview(&self, request: &OperatorRequest) -> PortResult<DirectiveView>;
    /// The decisions after the one with this number, oldest first; few hundred at most.
    fn events(&self, after: u64) -> EventsView;
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
