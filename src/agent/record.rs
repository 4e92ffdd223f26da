//! Stores what follows from the facts of a tick, and starts the probes and reads that are due.

use std::collections::BTreeMap;

use crate::agent::Agent;
use crate::agent::jobs::{probe, store_view};
use crate::agent::observe::facts::Facts;
use crate::agent::observe::{Recorded, reachability};
use crate::model::{DataState, EtcdRun, EtcdVersion, Fact, NodeName, NodeStatus, SizeSource, Spec, is_old};

/// Records the facts.
pub(super) fn record(agent: &Agent, facts: &Facts) -> Recorded {
    note_specs(agent, &facts.peers, &facts.spec_digest);
    probe::probe_silent(agent, facts.steady, &reachability::silent_members(agent, facts));
    agent.shared.ask_above(agent.asked_above(&facts.elector));
    let run = note_run(agent, facts);
    let data = note_data(agent, facts);
    note_version(agent, facts);
    note_reboot_locks(agent, facts);
    if agent.spec.store_shared {
        for status in facts.peers.values().filter_map(Fact::known) {
            if let Some(full) = &status.last_backup {
                agent.shared.note_full(full, agent.ports.clock.now());
            }
        }
    }
    let idle = facts
        .etcd
        .known()
        .filter(|e| e.leader.is_some() && all_follow(&facts.spec, &facts.spec_digest, &facts.peers))
        .map(|e| (e.cluster_id, e.revision));
    store_view::refresh(agent, facts.steady, facts.elector.known().is_none(), idle);
    Recorded { run, data }
}

/// Notes which spec each peer follows. A peer that begins to follow another spec than this node may have read
/// the store later, so the store is read again. This happens once for each change: nodes whose specs differ
/// permanently read no more often than others.
fn note_specs(agent: &Agent, peers: &BTreeMap<NodeName, Fact<NodeStatus>>, mine: &str) {
    if !matches!(agent.spec.size_source, SizeSource::Store { .. }) {
        return;
    }
    agent.shared.with(|inner| {
        for (node, seen) in peers {
            if let Fact::Known(status) = seen {
                inner.store.note_spec(node, &status.spec_digest, mine);
            }
        }
    });
}

/// Stores which process runs with which settings, and the restart order that it is compared with.
fn note_run(agent: &Agent, facts: &Facts) -> Option<EtcdRun> {
    let process = facts.process(agent);
    let digest = facts.in_force.known().map(|f| f.settings_digest.as_str());
    let order = facts.directives.restart.as_ref();
    let etcd = facts.etcd.known();
    let authorities = agent
        .etcd_certificates
        .as_ref()
        .and_then(|files| files.authorities());
    // The settings in force are those of the assignment only if they were written for it.
    let generation = facts.in_force.known().map(|f| f.generation);
    let assigned = facts.assignment.as_ref();
    let assigned = assigned.filter(|assigned| Some(assigned.generation) == generation);
    let written = assigned.map(|assigned| assigned.transport(&agent.spec.etcd));
    let run = agent.shared.update_etcd_run(agent.ports.state.as_ref(), |run| {
        let run = run.trusts(&process, authorities.as_deref()).look(
            &process,
            digest,
            facts.base_file.as_deref(),
            order,
            &agent.spec.node,
        );
        let run = run.speaks(written.as_ref());
        match etcd {
            Some(etcd) => run.serves(EtcdVersion::reported(&etcd.version), etcd.stored()),
            None => run,
        }
    });
    // Without this record a restart could be done twice, so none is requested.
    run.inspect_err(|error| tracing::warn!("no restart is requested: {error}"))
        .ok()
}

/// Notes what follows from the state of etcd for its data directory.
fn note_data(agent: &Agent, facts: &Facts) -> Fact<DataState> {
    let (etcd, up) = (facts.etcd.known(), facts.is_up());
    let silent = facts.unit.known().filter(|_| etcd.is_none());
    let runs_on = silent.and_then(|unit| agent.shared.with(|inner| inner.data.runs_on(unit)));
    agent.shared.with(|inner| {
        if let Some(etcd) = etcd {
            inner.data.etcd_serves(etcd);
        }
        if up {
            let answers = etcd.map(|etcd| (etcd.cluster_id, etcd.member_id));
            inner.data.is_open(answers.or(runs_on));
        } else if let Fact::Known(unit) = &facts.unit {
            inner.data.etcd_ended(unit.ended_us);
        }
        inner.data.state().clone()
    })
}

/// Notes the version of an etcd that is too old.
fn note_version(agent: &Agent, facts: &Facts) {
    agent.shared.with(|inner| match facts.etcd.known() {
        Some(etcd) => inner
            .data
            .runs_version(&etcd.version, is_old(&etcd.version), facts.steady),
        None if !facts.is_up() => inner.data.check_version_again(facts.steady),
        None => {}
    });
}

/// Stores what the peers report of their reboot locks. A peer may reboot once this node shows its lock.
fn note_reboot_locks(agent: &Agent, facts: &Facts) {
    let ours = |node: &NodeName, status: &NodeStatus| {
        facts.spec.nodes.contains_key(node) && status.cluster == facts.spec.cluster
    };
    let stored = agent
        .shared
        .update_reboot_locks(agent.ports.state.as_ref(), |locks| {
            for (node, seen) in &facts.peers {
                if let Some(status) = seen.known().filter(|status| ours(node, status)) {
                    locks.record(node, &status.incarnation, &status.steering.reboot_locks.own);
                }
            }
            Ok(())
        });
    if let Err(error) = stored {
        tracing::warn!("the reboot locks of other nodes are not recorded: {error}");
    }
}

/// True if all nodes answer and agree on the spec.
fn all_follow(spec: &Spec, digest: &str, peers: &BTreeMap<NodeName, Fact<NodeStatus>>) -> bool {
    let follows = |status: &NodeStatus| status.spec_digest == digest;
    let mut others = spec.nodes.keys().filter(|node| **node != spec.node);
    others.all(|node| peers.get(node).and_then(Fact::known).is_some_and(follows))
}
