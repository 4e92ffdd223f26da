//! The version of etcd that this node wants to run.

use super::facts::Facts;
use super::transport;
use crate::agent::Agent;
use crate::model::{EtcdRun, RestartWish, TransportView};
use crate::plan;

/// Adds the selected version of etcd to the wish, if another one runs, or else the next listener. The version for which
/// the disk is read first holds nothing else back.
pub(super) fn with_version(
    agent: &Agent,
    facts: &Facts,
    run: Option<&EtcdRun>,
    transport: &TransportView,
    wish: Option<RestartWish>,
) -> Option<RestartWish> {
    let Some(assignment) = facts.assignment.as_ref().filter(|a| !a.removed) else {
        return transport::with_listener(transport, wish);
    };
    let selected = facts.directives.etcd_in(facts.elector.acted_on());
    let seen = plan::EtcdSeen {
        node: &facts.spec.node,
        selected: selected.as_ref(),
        assigned: assignment.etcd_version,
        etcd: facts.etcd.known(),
        replaced: run.is_some_and(|run| run.is_replaced(facts.base_file.as_deref())),
        v2_entries: v2_entries(agent, facts),
        v2: &facts.v2,
        now: facts.steady,
        binaries: &facts.etcd_binaries,
        versions_dir: &facts.spec.etcd.versions_dir,
        peers: &facts.peers,
    };
    let objection = match plan::wants_version(&seen) {
        Ok(Some(why)) => {
            let order = wish.and_then(|wish| wish.order);
            return Some(RestartWish {
                order,
                version: true,
                ..RestartWish::new(why)
            });
        }
        Ok(None) => None,
        Err(objection) => Some(objection),
    };
    let paused = facts.directives.paused.is_some();
    transport::with_listener(transport, wish).or_else(|| {
        let held = Some(objection.filter(|_| !paused)?);
        Some(RestartWish {
            version: true,
            held,
            reading: true,
            ..RestartWish::new(plan::wants_after_reading(&seen)?)
        })
    })
}

/// Whether the log of the etcd that serves holds entries of v2, if it was read.
pub(super) fn v2_entries(agent: &Agent, facts: &Facts) -> Option<bool> {
    let etcd = facts.etcd.known()?;
    let whose = (etcd.cluster_id, etcd.member_id);
    agent.shared.with(|inner| inner.data.v2_entries(whose))
}
