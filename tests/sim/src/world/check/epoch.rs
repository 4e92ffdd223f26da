//! No etcd of a replaced epoch starts or serves, and a leader has all acknowledged writes: rules 1 and 2.

use std::collections::BTreeMap;

use etcd_agent::model::{ElectorRecord, Epoch, FirstStart};

use super::HEARD_OF_MS;
use crate::world::{Host, World};

/// An agent has stopped an etcd of an older epoch after this time. The steps before that have their own
/// deadlines.
const ENDED_MS: u64 = 15_000;

/// An agent has retried a failed step after this time.
const TRIED_AGAIN_MS: u64 = 35_000;

impl World {
    /// Rule 1: etcd is about to start; its own agent must not know of a newer epoch.
    pub(in crate::world) fn check_start(&mut self, host: usize) {
        let (serves, h) = (self.epoch_here(host), &self.hosts[host]);
        let known = h.elector.as_ref().map(|e| e.newest_epoch);
        if let (Some(serves), Some(known)) = (serves, known)
            && serves < known
        {
            let text = format!("{} starts etcd of epoch {serves} and knows epoch {known}", h.name);
            self.violate(1, text);
        }
        // The gate does not pass for such a member, and root's override is not simulated.
        let held = self.hosts[host]
            .assignment
            .as_ref()
            .filter(|a| a.first_start == FirstStart::Held);
        if let Some(held) = held.filter(|a| !a.had_data()) {
            let text = format!(
                "{} starts member {} before its disk says so",
                self.hosts[host].name, held.member_id
            );
            self.violate(2, text);
        }
    }

    /// Rule 1: the etcd here is not of an older epoch than its own agent has learned, once the agent has had
    /// time to stop it.
    pub(in crate::world) fn check_lingering(&mut self, host: usize) {
        let h = &self.hosts[host];
        let serves = h.dir.as_ref().and_then(|dir| self.epoch_of(dir.cluster));
        let learned = h
            .elector
            .as_ref()
            .and_then(|e| e.chosen.as_ref())
            .map(|g| g.epoch);
        let free = h.has_agent() && !h.unreadable;
        // An agent that has lost its memory cannot distinguish an old epoch's etcd from a foreign one.
        let chosen = h.elector.as_ref().and_then(|e| e.chosen.as_ref());
        let cluster = h.dir.as_ref().map(|dir| dir.cluster);
        let knows = h.assignment.is_some()
            || chosen
                .zip(cluster)
                .is_some_and(|(genesis, cluster)| genesis.replaces(cluster));
        if let (Some(serves), Some(learned)) = (serves, learned)
            && serves < learned
            && free
            && knows
        {
            let passed = |since: u64| self.now.saturating_sub(since);
            let late = passed(h.may_linger_from) > ENDED_MS
                && h.failed_at.is_none_or(|at| passed(at) > TRIED_AGAIN_MS);
            if !late {
                self.saw("check", "an etcd of a replaced epoch is to be stopped");
                return;
            }
            let text = format!(
                "etcd of epoch {serves} still runs on {}, whose agent has learned of epoch {learned}",
                h.name
            );
            self.violate(1, text);
        }
    }

    /// Rules 1 and 2: a leader was elected.
    pub(in crate::world) fn check_leader(&mut self, host: usize) {
        let Some(dir) = &self.hosts[host].dir else { return };
        let cluster = dir.cluster;
        let Some(truth) = self.truths.get(&cluster).cloned() else {
            self.violate(1, format!("cluster {cluster} is of no epoch that was chosen"));
            return;
        };
        if !truth.tainted {
            let mut has = dir.writes();
            // Both are in order, so each acknowledged write has to be found.
            let missing = truth
                .acked
                .iter()
                .copied()
                .find(|wanted| !has.any(|w| w == *wanted));
            drop(has);
            if let Some(write) = missing {
                let text = format!(
                    "{} leads without the acknowledged write {write}",
                    self.hosts[host].name
                );
                self.violate(2, text);
            }
        }
    }

    /// The first chosen epoch after this one, and when it was first learned.
    fn replaced_by(&self, epoch: Epoch) -> Option<(Epoch, u64)> {
        let newer = self.chosen.range(epoch.next()..).next();
        newer.map(|(epoch, chosen)| (*epoch, chosen.at))
    }

    /// The epoch of the data here, or of the written settings if there is no data.
    fn epoch_here(&self, host: usize) -> Option<Epoch> {
        let h = &self.hosts[host];
        match &h.dir {
            Some(dir) => self.epoch_of(dir.cluster),
            None => h.written.as_ref().map(|a| a.epoch),
        }
    }

    /// Rule 1: these voters store what their leader acknowledges. Single voters of a replaced epoch may have
    /// been started after it was replaced, but the gates must not have let a quorum of them start since.
    pub(in crate::world) fn check_quorum(&mut self, leader: usize, acks: &[usize], quorum: usize) {
        let Some(epoch) = self.epoch_here(leader) else {
            return;
        };
        let Some((newer, at)) = self.replaced_by(epoch) else {
            return;
        };
        self.saw("check", "a replaced epoch has a quorum");
        let since = |voter: &&usize| {
            let server = &self.hosts[**voter].server;
            server.as_ref().is_some_and(|server| server.vouched > at)
        };
        if acks.iter().filter(since).count() >= quorum {
            let text = format!("epoch {epoch} was started again after epoch {newer} was chosen");
            self.violate(1, text);
        }
    }

    /// Rule 1: a gate decides alone. An epoch of which its own elector has accepted a genesis may be open.
    pub(in crate::world) fn check_alone(&mut self, host: usize) {
        let (serves, h) = (self.epoch_here(host), &self.hosts[host]);
        let voted = h.elector.as_ref().map(ElectorRecord::voted);
        if let (Some(serves), Some(voted)) = (serves, voted)
            && serves < voted
        {
            let text = format!(
                "{} starts etcd of epoch {serves} alone and has accepted a genesis of epoch {voted}",
                h.name
            );
            self.violate(1, text);
        }
    }

    /// Records that a gate holds a start back.
    pub(in crate::world) fn note_held(&mut self, host: usize) {
        let replaced = self.epoch_here(host).and_then(|epoch| self.replaced_by(epoch));
        if replaced.is_some() {
            self.saw("check", "a gate holds back a replaced epoch");
        }
    }

    /// An agent clears the gate. Rule 1: a majority of the electors, or the store, must have been able to report
    /// that no newer epoch is open. Rule 2: the disk must already say that the member may have started.
    pub fn check_clear(&mut self, host: usize) {
        let Some(assigned) = self.hosts[host].assignment.as_ref() else {
            return;
        };
        let (serves, unmarked) = (assigned.epoch, assigned.first_start == FirstStart::Held);
        if unmarked {
            let name = &self.hosts[host].name;
            self.violate(
                2,
                format!("{name} clears the gate for a first start that its disk does not know of"),
            );
        }
        let now = self.now;
        let long = |since: &BTreeMap<Epoch, u64>| {
            let later = since.range(serves.next()..).map(|(_, since)| *since).min();
            later.is_some_and(|since| now.saturating_sub(since) > HEARD_OF_MS)
        };
        if self.replaced_by(serves).is_some() {
            self.saw("check", "a gate is cleared for a replaced epoch");
        }
        let learned = self.hosts.iter().any(|h| long(&h.learned));
        let here: Vec<&Host> = self.hosts.iter().take(self.electors(host)).collect();
        let of_epoch = self.chosen.get(&serves).map(|chosen| &chosen.genesis.electorate);
        let former = here
            .iter()
            .filter(|h| of_epoch.is_none_or(|electorate| electorate.contains_key(&h.name)))
            .copied()
            .collect();
        let few = [here, former].into_iter().find_map(|electors| {
            let unaware = electors.iter().filter(|h| !long(&h.traces)).count();
            (unaware * 2 <= electors.len()).then_some((unaware, electors.len()))
        });
        if let Some((unaware, electors)) = few.filter(|_| learned) {
            let text = format!(
                "{} clears the gate for epoch {serves}, and only {unaware} of {electors} electors know of none after it",
                self.hosts[host].name
            );
            self.violate(1, text);
        }
    }
}
