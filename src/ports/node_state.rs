//! This node's state across restarts.

use crate::model::{
    Assignment, Directives, ElectorRecord, EtcdRun, GateState, Generation, RebootLocks, SpecRecord,
};

use super::PortResult;

/// This node's persistent state. Every write is temp + fsync + rename + fsync of the directory.
pub trait NodeState: Send + Sync {
    /// The elector's memory. If there is none, a new one with a new incarnation is created and stored.
    fn elector(&self) -> PortResult<ElectorRecord>;
    /// Stores the elector's memory before any reply.
    fn save_elector(&self, record: &ElectorRecord) -> PortResult<()>;
    /// The operators' orders for the whole cluster; the empty register if none was ever stored.
    fn directives(&self) -> PortResult<Directives>;
    /// Stores the operators' orders, before anybody sees them.
    fn save_directives(&self, directives: &Directives) -> PortResult<()>;
    /// The record of the etcd process; the empty record if none was ever stored.
    fn etcd_run(&self) -> PortResult<EtcdRun>;
    /// Stores the record of the etcd process.
    fn save_etcd_run(&self, run: &EtcdRun) -> PortResult<()>;
    /// The reboot locks of all nodes; none if none was ever stored.
    fn reboot_locks(&self) -> PortResult<RebootLocks>;
    /// Stores the reboot locks, before anybody sees them.
    fn save_reboot_locks(&self, locks: &RebootLocks) -> PortResult<()>;
    /// The assignment, if there is one.
    fn assignment(&self) -> PortResult<Option<Assignment>>;
    /// Stores the assignment.
    fn save_assignment(&self, assignment: &Assignment) -> PortResult<()>;
    /// This node's record of the wanted size; the empty record if none was stored yet.
    fn spec(&self) -> PortResult<SpecRecord>;
    /// Stores this node's record of the wanted size.
    fn save_spec(&self, record: &SpecRecord) -> PortResult<()>;
    /// The state from which the gate may decide without an agent; `None` if none was ever stored.
    fn gate(&self) -> PortResult<Option<GateState>>;
    /// Stores the state from which the gate may decide without an agent (world-readable).
    fn save_gate(&self, gate: &GateState) -> PortResult<()>;
    /// Clears the gate for this boot and this generation (world-readable, below `/run`).
    fn clear_gate(&self, generation: Generation) -> PortResult<()>;
    /// Takes back that the gate was cleared: no assignment passes it until it is cleared again.
    fn close_gate(&self) -> PortResult<()>;
    /// The generation for which the gate was cleared in this boot.
    fn cleared_gate(&self) -> PortResult<Option<Generation>>;
}
