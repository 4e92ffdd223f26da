//! The running agent, as seen by the HTTP servers.

use async_trait::async_trait;

use crate::model::{
    Accept, AcceptReply, AdminStatus, Alarm, BackupChangeView, BackupId, BackupOrder, BackupSummary,
    DirectiveOrder, DirectiveView, DisarmOrder, DisarmView, Enquire, EnquireAnswer, EventsView, Learn, Leave,
    ListedBackup, LockOwner, NodeName, NodeStatus, OperatorRequest, Page, PlanView, Prepare, PrepareReply,
    QuarantineOrder, QuarantineView, RecentBackup, ReleaseView, RequestView, RestoreTarget, SizeOrder,
    SizeView, StopVerdict, StoreCommand, Verdict,
};

use super::{OrderError, PortResult};

/// The interface of the running agent for the HTTP servers. `agent` implements it. Every call is answered
/// from memory or by a bounded port call.
#[async_trait]
pub trait AgentHandle: Send + Sync {
    /// This node's status now.
    fn status(&self) -> NodeStatus;
    /// Grows with each change of the material part of `status` (the part that a peer's planner could act on).
    fn status_version(&self) -> u64;
    /// Returns once `status_version` is above `version`.
    async fn status_after(&self, version: u64);
    /// Returns once the first observation of this node is complete. Before that, `status` knows nothing about
    /// its etcd.
    async fn first_look(&self) {}
    /// Whether this process belongs to `etcd.service`, as the gate does. True if that cannot be determined.
    async fn is_etcds(&self, pid: u32) -> bool;
    /// This node's status from a look that begins after the call.
    ///
    /// # Errors
    /// Retryable when no look ends within a few seconds: the agent is busy, or its etcd does not answer.
    async fn fresh_status(&self) -> PortResult<NodeStatus>;
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
    /// The same, after this agent and all others have looked again.
    ///
    /// # Errors
    /// Retryable when this agent does not look in time.
    async fn fresh_admin_status(&self) -> PortResult<AdminStatus>;
    /// The newest backups in the store as this agent last saw them, oldest first.
    fn recent_backups(&self) -> Vec<RecentBackup>;
    /// Everything for `etcd-agent plan`; `None` before the first tick.
    fn plan_view(&self) -> Option<PlanView>;
    /// Backups in the store, oldest first: the backup `only`, or a page of all backups after `after`.
    async fn backups(
        &self,
        only: Option<BackupId>,
        after: Option<BackupId>,
    ) -> PortResult<Page<ListedBackup>>;
    /// The point that a restore would build, from this backup or else from the best one.
    async fn point(&self, backup: Option<BackupId>, wanted: RestoreTarget) -> PortResult<BackupSummary>;
    /// The commands in etcd-manager's queue in the store, oldest first.
    async fn commands(&self) -> PortResult<Vec<StoreCommand>>;
    /// Deletes a command from the queue; false if there is none with that name.
    async fn delete_command(&self, name: &str) -> PortResult<bool>;
    /// The verdict of retention on each backup, oldest first: a page of all backups after `after`.
    async fn retention(&self, after: Option<BackupId>) -> PortResult<Page<Verdict>>;
    /// Deletes one backup, or changes its marks; with `dry_run` only returns what would follow.
    async fn change_backup(&self, order: &BackupOrder) -> Result<BackupChangeView, OrderError>;
    /// Queues an operator's request.
    fn submit(&self, request: OperatorRequest) -> PortResult<RequestView>;
    /// Queues a request that another node hands over.
    fn take_over(&self, request: OperatorRequest) -> PortResult<RequestView>;
    /// The state of a request.
    fn request(&self, id: u64) -> Option<RequestView>;
    /// Takes an order for the whole cluster, which is on disk before this returns; with `dry_run` only
    /// returns what would follow.
    ///
    /// # Errors
    /// Permanent when the order is refused; retryable when this agent has not looked around yet.
    async fn direct(&self, order: &DirectiveOrder) -> PortResult<DirectiveView>;
    /// Writes another wanted size to the store; with `dry_run` only returns what would follow.
    async fn set_size(&self, order: &SizeOrder) -> Result<SizeView, OrderError>;
    /// Whether this node, or another one, may be stopped now. All agents look again first.
    ///
    /// # Errors
    /// Permanent for a node that is not configured; retryable when this agent does not look in time.
    async fn ok_to_stop(&self, node: Option<NodeName>) -> PortResult<StopVerdict>;
    /// The alarms that etcd's members have raised.
    async fn alarms(&self) -> PortResult<Vec<Alarm>>;
    /// Begins or ends the quarantine.
    async fn quarantine(&self, order: &QuarantineOrder) -> PortResult<QuarantineView>;
    /// Disarms alarms whose cause is gone.
    ///
    /// # Errors
    /// Permanent when a cause does not seem to be gone and the order is not forced.
    async fn disarm(&self, order: &DisarmOrder) -> PortResult<DisarmView>;
    /// Releases this node's reboot lock: if `only` is given, only if it is the owner.
    ///
    /// # Errors
    /// When the lock cannot be stored. It is still held then.
    fn release_reboot_lock(&self, only: Option<&LockOwner>) -> PortResult<ReleaseView>;
    /// Returns what would follow from a request, and changes nothing.
    fn preview(&self, request: &OperatorRequest) -> PortResult<DirectiveView>;
    /// The decisions after the one with this number, oldest first; a few hundred at most.
    fn events(&self, after: u64) -> EventsView;
    /// Answers the gate: whether the assignment on disk is cleared, and if not, what the agent waits for. An
    /// error if this agent does not know, because it has not observed anything yet or cannot read its own
    /// state. The gate treats an error like no answer.
    fn gate(&self) -> PortResult<(bool, String)>;
    /// Whether `etcd.service`, which something is stopping, may stop now. The gate asks again until it may.
    async fn leave_to_stop(&self) -> Leave;
    /// Called when `etcd.service` is about to stop. Answers once the store has everything that etcd has
    /// committed, or once that is impossible within seconds, and says which.
    async fn before_stop(&self) -> String;
    /// True if the loop has made progress recently.
    fn is_live(&self) -> bool;
    /// True if this node's etcd is a healthy member of the newest epoch.
    fn is_ready(&self) -> bool;
}
