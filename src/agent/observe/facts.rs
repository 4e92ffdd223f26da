//! What the ports answered in one tick.

use std::collections::BTreeMap;

use crate::agent::Agent;
use crate::model::{
    Assignment, Directives, DriftView, ElectorRecord, EtcdBinaries, EtcdStatus, Fact, Generation, InForce,
    MemberList, NodeName, NodeStatus, Spec, SpecRecord, SteadyMs, TlsView, UnitState, V2View,
};

/// What the ports answered in one tick: the local facts are fresh, the peers' statuses are the last received.
pub(in crate::agent) struct Facts {
    pub(in crate::agent) steady: SteadyMs,
    pub(in crate::agent) directives: Directives,
    pub(in crate::agent) unit: Fact<UnitState>,
    pub(in crate::agent) etcd: Fact<EtcdStatus>,
    pub(in crate::agent) members: Fact<MemberList>,
    pub(in crate::agent) in_force: Fact<InForce>,
    pub(in crate::agent) assignment: Option<Assignment>,
    pub(in crate::agent) peers: BTreeMap<NodeName, Fact<NodeStatus>>,
    pub(in crate::agent) cleared: Option<Generation>,
    pub(in crate::agent) spec_record: SpecRecord,
    /// The spec in force.
    pub(in crate::agent) spec: Spec,
    pub(in crate::agent) spec_digest: String,
    pub(in crate::agent) elector: ElectorRecord,
    /// etcd finds no room for the next file of its log.
    pub(in crate::agent) no_room: bool,
    /// It is not remembered which device holds the data directory.
    pub(in crate::agent) mount_unknown: bool,
    /// Which etcds this host can run.
    pub(in crate::agent) etcd_binaries: EtcdBinaries,
    /// The file of the etcd that `etcd.service` starts while none is selected.
    pub(in crate::agent) base_file: Option<String>,
    /// How the settings of the running etcd differ from those that are written.
    pub(in crate::agent) drift: DriftView,
    /// What is known of the certificate files with which etcd may be started.
    pub(in crate::agent) tls: TlsView,
    /// The keys of the v2 API on this node's disk.
    pub(in crate::agent) v2: V2View,
    /// True if it is not known which version that file has.
    pub(in crate::agent) base_unknown: bool,
}

impl Facts {
    /// etcd has its data directory open, or may have.
    pub(in crate::agent) fn is_up(&self) -> bool {
        let unit = self.unit.known();
        unit.is_some_and(|unit| unit.active.is_up() && !unit.waits_to_start())
    }

    /// The etcd process that runs.
    pub(in crate::agent) fn process(&self, agent: &Agent) -> Fact<String> {
        match &self.unit {
            Fact::Known(unit) => agent.etcd_process(unit),
            Fact::Absent => Fact::Absent,
            Fact::Unreachable(why) => Fact::Unreachable(why.clone()),
        }
    }
}
