//! Stores what follows from the facts of a tick, and starts the probes and reads that they make due.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::agent::Agent;
use crate::agent::jobs::{probe, store_view};
use crate::agent::observe::{Facts, Recorded, reachability};
use crate::model::{DataState, EtcdRun, Fact, NodeName, NodeStatus, SizeSource, Spec, is_too_old};

/// How often an etcd that was found too old, and does not run, is checked again.
const OLD_AGAIN: Duration = Duration::from_secs(30);

/// Records the facts.
pub(super) fn record(agent: &Agent, facts: &Facts) -> Recorded {
    note_specs(agent, &facts.peers, &facts.spec_digest);
    probe::probe_silent(agent, facts.steady, &reachability::silent_members(agent, facts));
    agent.shared.ask_above(agent.asked_above(&facts.elector));
    let run = note_run(agent, facts);
    let data = note_data(agent, facts);
    note_version(agent, facts);
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

/// Notes which spec each peer follows. When a peer begins to follow another one than this node, it may have read the store
/// later, so the store is asked again. This happens once for each change: nodes that keep differing ask no more than others.
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

/// Stores which process runs with which settings and which order it is compared with.
fn note_run(agent: &Agent, facts: &Facts) -> Option<EtcdRun> {
    let process = facts.process(agent);
    let digest = facts.in_force.known().map(|f| f.settings_digest.as_str());
    let order = facts.directives.restart.as_ref();
    let run = agent.shared.update_etcd_run(agent.ports.state.as_ref(), |run| {
        run.look(&process, digest, order, &agent.spec.node)
    });
    // Without a memory of it a restart could be done twice, so none is asked for.
    run.inspect_err(|error| tracing::warn!("no restart is asked for: {error}"))
        .ok()
}

/// Notes what the state of etcd says about its data directory.
fn note_data(agent: &Agent, facts: &Facts) -> Fact<DataState> {
    let (etcd, up) = (facts.etcd.known(), facts.is_up());
    let silent = facts.unit.known().filter(|_| etcd.is_none());
    let runs_on = silent.and_then(|unit| agent.shared.runs_on(unit));
    agent.shared.with(|inner| {
        if etcd.is_some() {
            inner.last_words = None;
        }
        if up {
            let answers = etcd.map(|etcd| (etcd.cluster_id, etcd.member_id));
            inner.data = match answers.or(runs_on) {
                Some((cluster_id, member_id)) => Fact::Known(DataState::Present {
                    cluster_id,
                    member_id,
                }),
                None => Fact::Unreachable("etcd has it open".to_owned()),
            };
        } else if !inner.data.is_unreachable()
            && facts
                .unit
                .known()
                .is_some_and(|unit| unit.ended_us > inner.data_after)
        {
            // etcd may also have run during the inspection: systemd restarts a killed etcd before that ends.
            inner.data = Fact::Unreachable("etcd ran since it was last looked at".to_owned());
        }
        inner.data.clone()
    })
}

/// Notes the version of an etcd that is too old.
fn note_version(agent: &Agent, facts: &Facts) {
    let (steady, running) = (facts.steady, facts.etcd.known().map(|etcd| etcd.version.as_str()));
    agent.shared.with(|inner| {
        if let Some(version) = running {
            inner.too_old = is_too_old(version).then(|| (version.to_owned(), steady));
        } else if let Some((_, seen)) = &inner.too_old
            && steady.since(*seen) >= OLD_AGAIN
            && !facts.is_up()
        {
            // It may have been upgraded since. The next tick sees that the data is to be inspected again.
            inner.data = Fact::Unreachable("etcd was too old when it was last looked at".to_owned());
        }
    });
}

/// All nodes answer and agree on the spec.
fn all_follow(spec: &Spec, digest: &str, peers: &BTreeMap<NodeName, Fact<NodeStatus>>) -> bool {
    let follows = |status: &NodeStatus| status.spec_digest == digest;
    let mut others = spec.nodes.keys().filter(|node| **node != spec.node);
    others.all(|node| peers.get(node).and_then(Fact::known).is_some_and(follows))
}
