//! What this node remembers across restarts.

use crate::model::{Assignment, Directives, ElectorRecord, EtcdRun, GateState, Generation, SpecRecord};

use super::PortResult;

/// This node's persistent state. Every write is temp + fsync + rename + fsync of the directory.
pub trait NodeState: Send + Sync {
    /// The elector's memory; a new one with a fresh incarnation is made and stored when there is none.
    fn elector(&self) -> PortResult<ElectorRecord>;
    /// Stores the elector's memory before any reply.
    fn save_elector(&self, record: &ElectorRecord) -> PortResult<()>;
    /// What operators have ordered for the whole cluster; the empty register when nothing was ever stored.
    fn directives(&self) -> PortResult<Directives>;
    /// Stores what operators have ordered, before it is shown to anybody.
    fn save_directives(&self, directives: &Directives) -> PortResult<()>;
    /// What is remembered of the etcd process; the empty record when nothing was ever stored.
    fn etcd_run(&self) -> PortResult<EtcdRun>;
    /// Stores what is remembered of the etcd process.
    fn save_etcd_run(&self, run: &EtcdRun) -> PortResult<()>;
    /// The assignment, when there is one.
    fn assignment(&self) -> PortResult<Option<Assignment>>;
    /// Stores the assignment.
    fn save_assignment(&self, assignment: &Assignment) -> PortResult<()>;
    /// What this node remembers of the wanted size; an empty record when nothing was stored yet.
    fn spec(&self) -> PortResult<SpecRecord>;
    /// Stores what this node remembers of the wanted size.
    fn save_spec(&self, record: &SpecRecord) -> PortResult<()>;
    /// What the gate may decide on alone; `None` when it was never stored.
    fn gate(&self) -> PortResult<Option<GateState>>;
    /// Stores what the gate may decide on alone (world-readable).
    fn save_gate(&self, gate: &GateState) -> PortResult<()>;
    /// Clears the gate for this boot and this generation (world-readable, below `/run`).
    fn clear_gate(&self, generation: Generation) -> PortResult<()>;
    /// Which generation was cleared in this boot.
    fn cleared_gate(&self) -> PortResult<Option<Generation>>;
}
