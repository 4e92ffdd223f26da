//! The agent's ports, spec and state, which all its parts share.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::Arc;

use crate::genesis::Electorate;
use crate::model::{
    Assignment, ClusterId, Enquire, Epoch, Fact, Genesis, NodeStatus, Revision, Spec, SpecRecord, Steering,
    TlsFiles, Transport, UnitState, UnixMs,
};
use crate::ports::{Certificates, EtcdCertificates, PortResult};
use crate::telemetry::Counters;

use super::ports::Ports;
use super::state::Shared;

/// One agent. Cheap to clone: every part is shared.
#[derive(Clone)]
pub struct Agent {
    pub(super) ports: Ports,
    pub(super) spec: Spec,
    pub(super) insecure: bool,
    /// The agent's own. None without TLS.
    pub(super) certificates: Option<Arc<dyn Certificates>>,
    pub(super) etcd_certificates: Option<Arc<dyn EtcdCertificates>>,
    pub(super) boot_id: String,
    pub(super) verify_dir: PathBuf,
    pub(super) shared: Arc<Shared>,
    pub(super) counters: Arc<Counters>,
}

impl Agent {
    /// An agent over these ports. It is insecure until it is given TLS.
    ///
    /// # Errors
    /// If the agent's own state cannot be read.
    pub fn over(ports: Ports, spec: Spec, boot_id: String) -> PortResult<Self> {
        let electorate = electorate(&spec);
        let shared = Shared::new(ports.state.as_ref(), electorate, ports.clock.random())?;
        Ok(Self {
            ports,
            spec,
            insecure: true,
            certificates: None,
            etcd_certificates: None,
            boot_id,
            verify_dir: PathBuf::new(),
            shared: Arc::new(shared),
            counters: Arc::default(),
        })
    }

    /// The question to another elector about what it knows.
    pub(super) fn enquiry(&self) -> Enquire {
        Enquire {
            from: self.spec.node.clone(),
            incarnation: self.shared.elector().incarnation,
            electorate_digest: self.shared.electorate.digest.clone(),
        }
    }

    /// True for a genesis of this cluster that, by its form and its epoch, may have been chosen. `open` is
    /// the newest epoch that is known to be open.
    pub(super) fn believes(&self, genesis: &Genesis, open: Epoch) -> bool {
        genesis.cluster == self.spec.cluster && genesis.objection(open).is_none()
    }

    /// The status before the first tick.
    pub(super) fn blank_status(&self) -> NodeStatus {
        let record = self.shared.elector();
        let voted = record.voted();
        let unseen = || "the agent has just started".to_owned();
        NodeStatus {
            node: self.spec.node.clone(),
            agent_version: env!("CARGO_PKG_VERSION").to_owned(),
            incarnation: record.incarnation,
            boot_id: self.boot_id.clone(),
            cluster: self.spec.cluster.clone(),
            spec_digest: self.spec_in_force().digest(),
            electorate_digest: self.shared.electorate.digest.clone(),
            store_digest: Some(self.spec.store_digest()),
            eligible: record.eligible,
            unit: Fact::Unreachable(unseen()),
            data: Fact::Unreachable(unseen()),
            assignment: None,
            etcd: Fact::Unreachable(unseen()),
            members: Fact::Unreachable(unseen()),
            etcd_too_old: None,
            v2_entries: None,
            v2_trouble: None,
            version_trouble: None,
            etcd_binaries: None,
            newest_epoch: record.newest_epoch,
            voted,
            genesis: record.chosen,
            silent_agents: BTreeSet::new(),
            silent_etcds: BTreeSet::new(),
            backup_failures: 0,
            store_failures: 0,
            peer_url: self.spec.peer_url(&self.spec.node),
            transport: None,
            tls_trouble: None,
            binary_trouble: None,
            archive_trouble: None,
            last_backup: None,
            certificate_not_after: self.certificate_not_after(),
            steering: Steering {
                directives: self.shared.directives(),
                reboot_locks: self.shared.reboot_locks(),
                ..Steering::default()
            },
            insecure: self.insecure,
            now: self.ports.clock.now(),
            text: "starting".to_owned(),
        }
    }

    /// The same agent, which knows the certificates that etcd uses.
    #[must_use]
    pub fn with_etcd_certificates(mut self, files: Arc<dyn EtcdCertificates>) -> Self {
        self.etcd_certificates = Some(files);
        self
    }

    /// The identity of the running etcd process (boot ID and PID), if there is one.
    pub(super) fn etcd_process(&self, unit: &UnitState) -> Fact<String> {
        if unit.main_pid == 0 {
            return Fact::Absent;
        }
        Fact::Known(format!("{}:{}", self.boot_id, unit.main_pid))
    }

    /// Distinguishes the certificate files with which etcd may be started from what replaces them; `None` if there are
    /// none, or nobody can read them.
    pub(super) fn tls_stamp(&self, assigned: Option<&Assignment>) -> Option<String> {
        let etcd = &self.spec.etcd;
        let transports = [
            Some(Transport::configured(etcd)),
            assigned.map(|assigned| assigned.transport(etcd)),
        ];
        let mut sets: Vec<TlsFiles> = Vec::new();
        for (_, files) in transports.iter().flatten().flat_map(Transport::files) {
            if !sets.contains(files) {
                sets.push(files.clone());
            }
        }
        if sets.is_empty() {
            return None;
        }
        self.ports.service.tls_stamp(&sets)
    }

    /// The newest revision before which a coordinator has compacted the history of this node's cluster because of
    /// NOSPACE, as far as this node knows.
    pub(super) fn newest_compacted(&self, cluster_id: ClusterId) -> Option<Revision> {
        let peers = self.ports.peers.last_seen();
        let theirs = peers.values().filter_map(|peer| peer.known()?.steering.compacted);
        let all = theirs.chain(self.shared.with(|inner| inner.jobs.last_compaction()));
        let of_it = all.filter(|compaction| compaction.cluster_id == cluster_id);
        of_it.map(|compaction| compaction.revision).max()
    }

    /// The spec in force, given this node's record of the size.
    pub(super) fn spec_in_force(&self) -> Spec {
        let record = self.ports.state.spec().unwrap_or_else(|error| {
            tracing::warn!("the record of the size cannot be read: {error}");
            SpecRecord::default()
        });
        self.spec.in_force(&record)
    }

    pub(super) fn certificate_not_after(&self) -> Option<UnixMs> {
        let own = self.certificates.as_ref().and_then(|files| files.not_after());
        let etcds = self
            .etcd_certificates
            .as_ref()
            .and_then(|files| files.not_after());
        own.into_iter().chain(etcds).min()
    }

    /// The wanted number of voters in the last tick.
    pub(super) fn size(&self) -> usize {
        let seen = self
            .shared
            .with(|inner| inner.last.observation().map(|o| o.spec.size));
        seen.unwrap_or(self.spec.size)
    }
}

/// The electorate as configured.
fn electorate(spec: &Spec) -> Electorate {
    Electorate {
        me: spec.node.clone(),
        cluster: spec.cluster.clone(),
        names: spec.nodes.keys().cloned().collect(),
        digest: spec.electorate_digest(),
    }
}
