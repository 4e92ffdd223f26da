//! The etcds that are probed while their agent is silent.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use crate::model::{NodeName, SteadyMs};

/// How often the etcd of a silent agent is probed.
const EVERY: Duration = Duration::from_secs(5);
/// How long the result of a probe is valid.
const GOOD_FOR: Duration = Duration::from_secs(30);

/// The probes of one node's etcd.
#[derive(Debug, Clone, Default)]
struct Probe {
    running: bool,
    /// When the last probe ended, and whether etcd was silent.
    last: Option<(SteadyMs, bool)>,
    /// Whether the last probe could not be sent.
    failed: bool,
}

/// The probes by node.
#[derive(Debug, Default)]
pub(crate) struct Probes(BTreeMap<NodeName, Probe>);

impl Probes {
    /// Keeps the probes of these nodes only, and marks those that are due as running.
    pub(crate) fn start_due(&mut self, nodes: &BTreeSet<NodeName>, now: SteadyMs) -> Vec<NodeName> {
        self.0.retain(|node, _| nodes.contains(node));
        let mut due = Vec::new();
        for node in nodes {
            let probe = self.0.entry(node.clone()).or_default();
            if !probe.running && probe.last.is_none_or(|(at, _)| now.since(at) >= EVERY) {
                probe.running = true;
                due.push(node.clone());
            }
        }
        due
    }

    /// The nodes whose etcd was silent lately.
    pub(crate) fn silent(&self, now: SteadyMs) -> BTreeSet<NodeName> {
        let silent = |probe: &Probe| matches!(probe.last, Some((at, true)) if now.since(at) < GOOD_FOR);
        let nodes = self.0.iter().filter(|(_, probe)| silent(probe));
        nodes.map(|(node, _)| node.clone()).collect()
    }

    /// Stores the result of a probe. Returns whether it differs from the last one, and whether this is the
    /// first of several probes that could not be sent. Without an entry the agent of the node has answered
    /// meanwhile.
    pub(crate) fn ended(
        &mut self,
        node: &NodeName,
        now: SteadyMs,
        silent: bool,
        failed: bool,
    ) -> (bool, bool) {
        let Some(probe) = self.0.get_mut(node) else {
            return (false, false);
        };
        let changed = probe.last.is_none_or(|(_, was)| was != silent);
        let first_failure = failed && !probe.failed;
        *probe = Probe {
            running: false,
            last: Some((now, silent)),
            failed,
        };
        (changed, first_failure)
    }
}
