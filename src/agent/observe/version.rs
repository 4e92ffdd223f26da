//! The version of etcd that this node wants to run.

use super::facts::Facts;
use super::transport;
use crate::agent::Agent;
use crate::model::{EtcdRun, EtcdSelection, RestartWish, TransportView};
use crate::plan::{self, EtcdSeen, StopWish};

/// Whether this node's etcd is to be restarted with another version, and why. Without a member it is not.
///
/// # Errors
/// Why this node does not follow the version that operators have selected.
pub(super) fn wanted(agent: &Agent, facts: &Facts, run: Option<&EtcdRun>) -> Result<Option<String>, String> {
    if !has_member(facts) {
        return Ok(None);
    }
    let selected = selected(facts);
    plan::wants_version(&seen_by(agent, facts, run, selected.as_ref()))
}

/// Adds the selected version of etcd to the wish, if another one runs, or else the next listener. The selected version
/// for which the disk is read first holds nothing else back. A binary that was replaced does: the next start takes it.
/// `wanted` is the answer of [`wanted()`].
pub(super) fn with_version(
    agent: &Agent,
    facts: &Facts,
    run: Option<&EtcdRun>,
    transport: &TransportView,
    wanted: &Result<Option<String>, String>,
    wish: Option<RestartWish>,
) -> Option<RestartWish> {
    if !has_member(facts) {
        return transport::with_listener(transport, wish);
    }
    if let Ok(Some(why)) = wanted {
        let order = wish.and_then(|wish| wish.order);
        return Some(RestartWish {
            order,
            version: true,
            ..RestartWish::new(why.clone())
        });
    }
    let selected = selected(facts);
    let seen = seen_by(agent, facts, run, selected.as_ref());
    let paused = facts.directives.paused.is_some();
    let mut wish = transport::with_listener(transport, wish);
    if let (Some(wish), Some(trouble)) = (&mut wish, plan::binary_trouble(&seen, facts.base_unknown)) {
        trouble.hold(wish);
    }
    wish.or_else(|| {
        let objection = wanted.as_ref().err().filter(|_| !paused)?;
        Some(RestartWish {
            version: true,
            held: Some(objection.clone()),
            reading: true,
            ..RestartWish::new(plan::wants_after_reading(&seen)?)
        })
    })
}

/// Why the etcd here, once stopped, might not start again with the binary of its next start.
pub(super) fn binary_trouble(
    agent: &Agent,
    facts: &Facts,
    run: Option<&EtcdRun>,
    wish: StopWish,
) -> Option<String> {
    if !has_member(facts) {
        return None;
    }
    let selected = selected(facts);
    let seen = seen_by(agent, facts, run, selected.as_ref());
    plan::binary_trouble(&seen, facts.base_unknown)?.against(wish)
}

/// True if this node has a member that was not removed.
fn has_member(facts: &Facts) -> bool {
    facts
        .assignment
        .as_ref()
        .is_some_and(|assignment| !assignment.removed)
}

/// What operators have selected.
fn selected(facts: &Facts) -> Option<EtcdSelection> {
    facts.directives.etcd_in(facts.elector.acted_on())
}

/// What decides whether this node's etcd is to be replaced by another version.
fn seen_by<'a>(
    agent: &Agent,
    facts: &'a Facts,
    run: Option<&EtcdRun>,
    selected: Option<&'a EtcdSelection>,
) -> EtcdSeen<'a> {
    EtcdSeen {
        node: &facts.spec.node,
        selected,
        assigned: facts
            .assignment
            .as_ref()
            .and_then(|assignment| assignment.etcd_version),
        etcd: facts.etcd.known(),
        replaced: run.is_some_and(|run| run.is_replaced(facts.base_file.as_deref())),
        v2_entries: v2_entries(agent, facts),
        v2: &facts.v2,
        now: facts.steady,
        binaries: &facts.etcd_binaries,
        versions_dir: &facts.spec.etcd.versions_dir,
        peers: &facts.peers,
    }
}

/// Whether the log of the etcd that serves holds entries of v2, if it was read.
pub(super) fn v2_entries(agent: &Agent, facts: &Facts) -> Option<bool> {
    let etcd = facts.etcd.known()?;
    let whose = (etcd.cluster_id, etcd.member_id);
    agent.shared.with(|inner| inner.data.v2_entries(whose))
}
