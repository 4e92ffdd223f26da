//! What the concerns share: the observation, answers to common questions about it, and the decision being
//! made.

use std::collections::BTreeSet;
use std::time::Duration;

use crate::model::{
    Action, ActionKind, Backoff, Decision, Epoch, EtcdSelection, Fact, Generation, Genesis, Incarnation, Job,
    MemberList, Memory, NodeName, NodeStatus, Observation, Reason, ReasonCode, Spec,
};

/// The longest that the loop sleeps without an event.
const IDLE: Duration = Duration::from_secs(5);

pub(super) struct Context<'a> {
    pub(super) obs: &'a Observation,
    pub(super) spec: &'a Spec,
    pub(super) memory: Memory,
    /// The etcd that is selected in the newest epoch that is known here.
    pub(super) selected: Option<EtcdSelection>,
    reasons: Vec<Reason>,
    order: Option<String>,
    wake: Duration,
}

impl<'a> Context<'a> {
    pub(super) fn new(obs: &'a Observation, memory: &Memory) -> Self {
        let mut memory = memory.clone();
        memory
            .unreachable_since
            .retain(|node, _| obs.peers.get(node).is_some_and(Fact::is_unreachable));
        for (node, _) in obs.peers.iter().filter(|(_, fact)| fact.is_unreachable()) {
            memory.unreachable_since.entry(node.clone()).or_insert(obs.steady);
        }
        Self {
            obs,
            spec: &obs.spec,
            memory,
            selected: obs.me.selected_etcd(),
            reasons: Vec::new(),
            order: None,
            wake: IDLE,
        }
    }

    pub(super) fn into_decision(self, action: Option<Action>, text: String) -> Decision {
        let coordinator = self.is_coordinator();
        Decision {
            action,
            reasons: self.reasons,
            wake: self.wake,
            memory: self.memory,
            coordinator,
            text,
            order: self.order,
        }
    }

    /// Runs a concern that a person ordered. Its reasons are shown to the person who waits for it.
    pub(super) fn order(&mut self, concern: impl FnOnce(&mut Self) -> Option<Action>) -> Option<Action> {
        let before = self.reasons.len();
        let action = concern(self);
        let said: Vec<&str> = self
            .reasons
            .iter()
            .skip(before)
            .map(|r| r.text.as_str())
            .collect();
        if !said.is_empty() {
            self.order = Some(said.join("; "));
        }
        action
    }

    /// Records a reason.
    pub(super) fn because(&mut self, code: ReasonCode, text: impl Into<String>) {
        self.reasons.push(Reason::new(code, text));
    }

    /// Records a reason that stops everything until a person acts.
    pub(super) fn halt(&mut self, code: ReasonCode, text: impl Into<String>) {
        self.reasons.push(Reason::halt(code, text));
    }

    /// The reasons given so far.
    pub(super) fn reasons(&self) -> &[Reason] {
        &self.reasons
    }

    /// Plans again after at most this time.
    pub(super) fn wake_in(&mut self, after: Duration) {
        self.wake = self.wake.min(after);
    }

    /// True when this action may be tried: it has not failed, or the pause after its last failure
    /// is over ([`Backoff`]).
    pub(super) fn may_try(&mut self, action: ActionKind, first: Duration, longest: Duration) -> bool {
        let Some((count, at)) = self.memory.failures.get(&action).copied() else {
            return true;
        };
        let wait = Backoff::new(first, longest).jittered(count, self.obs.seed);
        let passed = self.obs.steady.since(at);
        if passed >= wait {
            return true;
        }
        self.wake_in(wait.saturating_sub(passed).max(Duration::from_millis(10)));
        false
    }

    /// True while a background job rests after its last failure. Reports the error then: `failed`, a colon
    /// and the error of the job.
    pub(super) fn rests(&mut self, job: &Job, pause: Duration, code: ReasonCode, failed: &str) -> bool {
        let Some(at) = job.failed_at else {
            return false;
        };
        let since = self.obs.steady.since(at);
        if since >= pause {
            return false;
        }
        let error = job.error.as_deref().unwrap_or_default();
        self.because(code, format!("{failed}: {error}"));
        self.wake_in(pause.saturating_sub(since));
        true
    }

    /// The newest genesis that this node knows was chosen.
    pub(super) fn genesis(&self) -> Option<&'a Genesis> {
        self.obs.me.genesis.as_ref()
    }

    /// The generation of this node's next assignment.
    pub(super) fn next_generation(&self) -> Generation {
        let current = self.obs.assignment.as_ref();
        current.map(|a| a.generation).unwrap_or_default().next()
    }

    /// The newest epoch that is confirmed here; 0 when none is.
    pub(super) fn open_epoch(&self) -> Epoch {
        let genesis = self.genesis().filter(|_| !self.obs.elector.hearsay);
        genesis.map(|genesis| genesis.epoch).unwrap_or_default()
    }

    /// The newest genesis in the store, if it is one of this cluster that can be believed.
    pub(super) fn stored_genesis(&self) -> Option<&'a Genesis> {
        let stored = self.obs.store.known()?.genesis.as_ref()?;
        let known = self.genesis() == Some(stored);
        let believed =
            || stored.cluster == self.spec.cluster && stored.objection(self.open_epoch()).is_none();
        (known || believed()).then_some(stored)
    }

    /// Peers whose status is known.
    pub(super) fn known_peers(&self) -> impl Iterator<Item = (&'a NodeName, &'a NodeStatus)> {
        self.obs
            .peers
            .iter()
            .filter_map(|(node, fact)| fact.known().map(|status| (node, status)))
    }

    /// This node and the peers whose status is known, by name.
    pub(super) fn known_nodes(&self) -> Vec<(&'a NodeName, &'a NodeStatus)> {
        let mut nodes: Vec<_> = self.known_peers().collect();
        nodes.push((&self.spec.node, &self.obs.me));
        nodes.sort_by_key(|(name, _)| *name);
        nodes
    }

    /// The coordinator: the node of the raft leader that this node's etcd names.
    pub(super) fn leading(&self) -> Option<&'a NodeName> {
        let leader = self.obs.me.etcd.known()?.leader?;
        let leads = |status: &NodeStatus| status.etcd.known().is_some_and(|etcd| etcd.member_id == leader);
        let mut nodes = self.known_nodes().into_iter();
        nodes.find(|(_, status)| leads(status)).map(|(node, _)| node)
    }

    /// The status that a node reports of itself: this node, or a peer that answers.
    pub(super) fn status_of(&self, node: &NodeName) -> Option<&'a NodeStatus> {
        if *node == self.spec.node {
            Some(&self.obs.me)
        } else {
            self.obs.peers.get(node).and_then(Fact::known)
        }
    }

    /// Electors that do not answer now.
    pub(super) fn silent(&self) -> BTreeSet<NodeName> {
        let known: BTreeSet<&NodeName> = self.known_nodes().into_iter().map(|(n, _)| n).collect();
        self.spec
            .nodes
            .keys()
            .filter(|n| !known.contains(n))
            .cloned()
            .collect()
    }

    /// True if the raft leader of the newest epoch runs on this node. Its agent decides for the cluster.
    pub(super) fn is_coordinator(&self) -> bool {
        let (Some(genesis), Some(etcd)) = (self.genesis(), self.obs.me.etcd.known()) else {
            return false;
        };
        etcd.cluster_id == genesis.cluster_id && etcd.leader == Some(etcd.member_id) && !etcd.is_learner
    }

    /// If this node is the coordinator: its member list of the newest epoch, read through quorum.
    pub(super) fn coordinated_list(&self) -> Option<&'a MemberList> {
        let genesis = self.genesis().filter(|_| self.is_coordinator())?;
        let list = self.obs.me.members.known()?;
        (list.linearizable && list.cluster_id == genesis.cluster_id).then_some(list)
    }

    /// The newest genesis, and the member list of its cluster if this node's etcd read it through quorum.
    /// Changes of the members are decided on these two.
    pub(super) fn fenced_list(&self) -> Option<(&'a Genesis, &'a MemberList)> {
        let genesis = self.genesis()?;
        let list = self.obs.me.members.known()?;
        (list.linearizable && list.cluster_id == genesis.cluster_id).then_some((genesis, list))
    }

    /// Every elector's incarnation as known now. A genesis records them.
    pub(super) fn incarnations(&self) -> Vec<(NodeName, Incarnation)> {
        self.known_nodes()
            .into_iter()
            .map(|(n, s)| (n.clone(), s.incarnation.clone()))
            .collect()
    }
}

/// `n1, n2 and n3`.
pub(super) fn names<'n>(nodes: impl IntoIterator<Item = &'n NodeName>) -> String {
    let all: Vec<&str> = nodes.into_iter().map(NodeName::as_str).collect();
    match all.as_slice() {
        [] => "nobody".to_owned(),
        [one] => (*one).to_owned(),
        [first @ .., last] => format!("{} and {last}", first.join(", ")),
    }
}
