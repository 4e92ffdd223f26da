//! A genesis is chosen: rules 1, 2, 6 and 8.

use std::collections::BTreeSet;

use etcd_agent::model::{ClusterId, ElectorRecord, Epoch, Genesis, NodeName, Origin};

use crate::world::{Chosen, Plane, World};

/// An agent's report about its host has arrived everywhere after this time, once the agent runs and links are
/// open.
const HEARD_MS: u64 = 5000;

impl World {
    /// Rules 1, 6 and 8: an elector's memory was stored.
    pub fn check_elector(&mut self, host: usize, record: &ElectorRecord) {
        for (epoch, votes) in &record.votes {
            if let Some((_, genesis)) = &votes.accepted {
                self.accepted
                    .entry((*epoch, genesis.token.clone()))
                    .or_default()
                    .insert(host);
            }
        }
        let Some(genesis) = &record.chosen else { return };
        if let Some(known) = self.chosen.get(&genesis.epoch) {
            if known.genesis.same_value(genesis) {
                return;
            }
            if !self.is_extinct(&known.genesis) {
                let text = format!(
                    "epoch {} is {} and {}",
                    genesis.epoch, known.genesis.token, genesis.token
                );
                self.violate(1, text);
                return;
            }
            self.tell(|_| format!("no trace of the former epoch {} is left", genesis.epoch));
        }
        self.check_chosen(genesis);
        self.check_empty(genesis);
        self.check_continues(genesis);
        let at = self.now;
        self.tell(|w| {
            let members: Vec<&str> = genesis.members.keys().map(NodeName::as_str).collect();
            format!(
                "epoch {} was chosen: {} with {}, learned first by {}",
                genesis.epoch,
                genesis.origin,
                members.join(" "),
                w.hosts[host].name
            )
        });
        self.chosen.insert(
            genesis.epoch,
            Chosen {
                genesis: genesis.clone(),
                at,
            },
        );
        let base = match &genesis.origin {
            Origin::Backup(id) => self.stores().find_map(|s| s.contents.get(id).cloned()),
            _ => None,
        };
        self.note_cluster(genesis, base.as_deref().unwrap_or(&[]));
    }

    /// True if no disk and no store has any trace of this genesis, neither as chosen nor as accepted, nor of
    /// its data. Then nobody can know that it existed, and there is no second cluster.
    fn is_extinct(&self, genesis: &Genesis) -> bool {
        let remembers = |record: &ElectorRecord| {
            let accepted = record
                .votes
                .get(&genesis.epoch)
                .and_then(|votes| votes.accepted.as_ref());
            let values = accepted.map(|(_, value)| value).into_iter().chain(&record.chosen);
            values.into_iter().any(|value| value.same_value(genesis))
        };
        let recorded = (genesis.epoch, genesis.token.clone());
        let stored = self.stores().any(|store| store.recorded.contains(&recorded));
        let kept = self.hosts.iter().any(|host| {
            host.elector.as_ref().is_some_and(remembers)
                || host.disk().is_some_and(|dir| dir.cluster == genesis.cluster_id)
        });
        !stored && !kept
    }

    /// Rule 2: an epoch that continues the one before it has all that was acknowledged in it.
    fn check_continues(&mut self, genesis: &Genesis) {
        let Origin::Backup(backup) = &genesis.origin else {
            return;
        };
        if !genesis.continues_with(backup) {
            return;
        }
        let held = self
            .stores()
            .find_map(|store| store.contents.get(backup).cloned());
        let held: BTreeSet<u32> = held.iter().flat_map(|writes| writes.iter().copied()).collect();
        let former = self.chosen.range(..genesis.epoch).next_back();
        let truth = former.and_then(|(_, former)| self.truths.get(&former.genesis.cluster_id));
        let Some(truth) = truth.filter(|truth| !truth.tainted) else {
            return;
        };
        if let Some(lost) = truth.acked.iter().find(|write| !held.contains(write)) {
            let text = format!(
                "epoch {} continues without the acknowledged write {lost}",
                genesis.epoch
            );
            self.violate(2, text);
        }
    }

    /// Rule 2: a client's write was acknowledged by this cluster. An epoch that continues it lacks that write.
    pub(in crate::world) fn check_acknowledged(&mut self, cluster: ClusterId, number: u32) {
        let Some(truth) = self.truths.get(&cluster).filter(|truth| !truth.tainted) else {
            return;
        };
        let next = self.chosen.range(truth.epoch.next()..).next();
        let continues = next.filter(|(_, next)| next.genesis.etcd.is_some_and(|etcd| etcd.continues));
        if let Some(epoch) = continues.map(|(epoch, _)| *epoch) {
            let text =
                format!("write {number} is acknowledged in an epoch that epoch {epoch} continues already");
            self.violate(2, text);
        }
    }

    fn check_chosen(&mut self, genesis: &Genesis) {
        // A lying node may have changed the electorate in this copy.
        let electors = if self.lied.is_some() {
            self.hosts.len()
        } else {
            genesis.electorate.len()
        };
        let majority = electors / 2 + 1;
        let votes = self
            .accepted
            .get(&(genesis.epoch, genesis.token.clone()))
            .map_or(0, BTreeSet::len);
        let record = (genesis.epoch, genesis.token.clone());
        let recorded = self.stores().any(|store| store.recorded.contains(&record));
        if votes < majority && !recorded {
            let text = format!(
                "epoch {} was learned with {votes} of {electors} votes",
                genesis.epoch
            );
            self.violate(8, text);
        }
        // While an operator's restore is under way, one elector that lies can have another backup restored (ADR 19).
        let misled = match &genesis.origin {
            Origin::Backup(id) => self.misled.contains(&(genesis.epoch, id.clone())),
            _ => false,
        };
        match &genesis.origin {
            Origin::Backup(_) if misled => self.saw("event", "a liar has another backup restored"),
            Origin::Backup(id) if !self.asked.contains(id) => {
                self.violate(
                    6,
                    format!("epoch {} restores {id}, which nobody asked for", genesis.epoch),
                );
            }
            Origin::Backup(id) if !self.ever_fetched.contains(id) => {
                self.violate(
                    6,
                    format!("epoch {} restores {id}, which nobody has fetched", genesis.epoch),
                );
            }
            Origin::Empty if genesis.epoch != Epoch(1) => {
                self.violate(6, format!("epoch {} begins empty", genesis.epoch));
            }
            _ => {}
        }
        // A number that a liar reported, or that somebody forged in the store, may be skipped: numbers only have to
        // grow. A record in the store uses up its number, learned or not, because its proposer may have died.
        let before = Epoch(genesis.epoch.0.saturating_sub(1));
        let is_before = |record: &(Epoch, String)| record.0 == before;
        let follows = self.chosen.contains_key(&before)
            || self.stores().any(|store| store.recorded.iter().any(is_before));
        let forged = self.lied.is_some() || !self.forged.is_empty();
        let grows = forged && self.chosen.keys().all(|epoch| *epoch < genesis.epoch);
        if genesis.epoch > Epoch(1) && !follows && !grows {
            self.violate(1, format!("epoch {} was opened out of turn", genesis.epoch));
        }
        let former = self.chosen.get(&before).map(|chosen| &chosen.genesis.electorate);
        if former.is_some_and(|former| !former.keys().eq(genesis.electorate.keys())) {
            self.saw("event", "an epoch of another electorate");
        }
    }

    /// Rule 2: no empty cluster is formed while an agent that can reach all others has data, of whatever
    /// cluster.
    fn check_empty(&mut self, genesis: &Genesis) {
        if genesis.origin != Origin::Empty {
            return;
        }
        // No agent asks a host that is not in `cluster.nodes`.
        let asked = (0..self.hosts.len()).map(|host| self.electors(host)).min();
        let hosts = asked.unwrap_or_default();
        let holder = (0..hosts).find(|host| {
            let h = &self.hosts[*host];
            let reached = |other| other == *host || self.links.both(Plane::Agents, *host, other);
            let long = |since: u64| self.now.saturating_sub(since) > HEARD_MS;
            h.has_agent()
                && h.disk().is_some()
                && (0..hosts).all(reached)
                && long(h.may_linger_from)
                && long(self.links.changed)
        });
        if let Some(host) = holder {
            let name = &self.hosts[host].name;
            let text = format!(
                "epoch {} begins empty although there is data on {name}",
                genesis.epoch
            );
            self.violate(2, text);
        }
    }
}
