//! The loop: observe → plan → execute.

mod api;
mod build;
mod execute;
mod jobs;
mod observe;
mod ports;
mod record;
mod run;
mod standalone_backup;
mod state;
mod watchdog;

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use crate::adapters::tls::{Expiry, Tls};
use crate::genesis::Electorate;
use crate::model::{
    Action, Decision, Enquire, Epoch, EventOutcome, Fact, Genesis, Memory, NodeStatus, Observation,
    OperatorRequest, RequestState, Spec, SpecRecord, Steering, UnitState, UnixMs,
};
use crate::plan::plan;
use crate::ports::PortResult;
use crate::telemetry::{Counters, message_ids};

pub use ports::{Backups, Ports};
pub use run::run;
pub use standalone_backup::{StandaloneBackup, run_standalone_backup};
pub use state::version::Version;
use state::{FirstLook, Shared};

/// Minimum delay between loop iterations.
const MIN_TICK: Duration = Duration::from_millis(5);

/// How long the first tick waits for peers that do not answer. Each call times out earlier.
const FIRST_LOOK: Duration = Duration::from_secs(5);

/// The longest delay between two identical actions.
const LONGEST_REPEAT_PAUSE: Duration = Duration::from_secs(5);

/// One agent. Cheap to clone: every part is shared.
#[derive(Clone)]
pub struct Agent {
    ports: Ports,
    spec: Spec,
    insecure: bool,
    tls: Option<Arc<Tls>>,
    /// When etcd's own certificates expire.
    etcd_certificates: Option<Arc<Expiry>>,
    boot_id: String,
    verify_dir: PathBuf,
    shared: Arc<Shared>,
    counters: Arc<Counters>,
}

impl Agent {
    /// An agent over these ports. It is insecure until it is given TLS.
    ///
    /// # Errors
    /// When own state cannot be read.
    pub fn over(ports: Ports, spec: Spec, boot_id: String) -> PortResult<Self> {
        let electorate = electorate(&spec);
        let shared = Shared::new(ports.state.as_ref(), electorate, ports.clock.random())?;
        Ok(Self {
            ports,
            spec,
            insecure: true,
            tls: None,
            etcd_certificates: None,
            boot_id,
            verify_dir: PathBuf::new(),
            shared: Arc::new(shared),
            counters: Arc::default(),
        })
    }

    /// The loop. Runs until the future is dropped; everything that must outlive it is on disk.
    pub async fn run_loop(&self) {
        let _stops = self.shared.stopped.clone().drop_guard();
        let mut memory = Memory::default();
        let mut last: Option<Decision> = None;
        let mut backoff = RepeatBackoff::default();
        let begun = self.ports.clock.steady();
        loop {
            watchdog::feed();
            let observation = match self.observe().await {
                Ok(observation) => observation,
                Err(error) => {
                    // State that cannot be read is not absent: nothing is decided without it.
                    tracing::error!("this node's own state cannot be read, so nothing is done: {error}");
                    watchdog::say(&format!("halted: {error}"));
                    tokio::time::sleep(Duration::from_secs(5)).await;
                    continue;
                }
            };
            let decision = plan(&observation, &memory);
            memory = decision.memory.clone();
            self.publish(observation, &decision, last.as_ref());
            let waited = self.ports.clock.steady().since(begun);
            self.shared
                .looked(if self.ports.peers.asked() || waited >= FIRST_LOOK {
                    FirstLook::Done
                } else {
                    FirstLook::Here
                });
            last = Some(decision.clone());
            let Some(action) = decision.action.clone() else {
                backoff = RepeatBackoff::default();
                self.wait(decision.wake).await;
                continue;
            };
            self.act(&decision, &action, &mut memory).await;
            tokio::time::sleep(backoff.after(action)).await;
        }
    }

    /// Gathers the facts, records what follows from them, and makes the observation.
    async fn observe(&self) -> PortResult<Observation> {
        let facts = observe::gather(self).await?;
        let recorded = record::record(self, &facts);
        Ok(observe::observation(self, facts, recorded))
    }

    async fn act(&self, decision: &Decision, action: &Action, memory: &mut Memory) {
        let name = action.name();
        let (begun, at) = (self.ports.clock.steady(), self.ports.clock.now());
        let result = execute::execute(self, action).await;
        let goes_on = action.begins_a_job();
        self.counters.action(
            name,
            match &result {
                Ok(()) if goes_on => "begun",
                Ok(()) => "ok",
                Err(_) => "failed",
            },
        );
        let outcome = match &result {
            Ok(()) if goes_on => EventOutcome::Begun,
            Ok(()) => EventOutcome::Done,
            Err(error) => EventOutcome::Failed {
                error: error.to_string(),
            },
        };
        let took = self.ports.clock.steady().since(begun).as_millis();
        let took_ms = u64::try_from(took).unwrap_or(u64::MAX);
        self.shared
            .with(|inner| inner.events.note(at, decision, outcome, took_ms));
        match result {
            Ok(()) => {
                memory.failures.remove(name);
                memory.errors.remove(name);
            }
            Err(error) => {
                let now = self.ports.clock.steady();
                let (count, _) = memory.failures.get(name).copied().unwrap_or((0, now));
                // The first failures of a kind are news, then only every sixteenth.
                if count < 3 || count % 16 == 0 {
                    tracing::warn!(decision = name, "{name} ({}): {error}", error.kind());
                }
                memory
                    .failures
                    .insert(name.to_owned(), (count.saturating_add(1), now));
                memory.errors.insert(name.to_owned(), error.to_string());
            }
        }
    }

    /// Sleeps until a port or a request wakes the loop, at most `wake`.
    async fn wait(&self, wake: Duration) {
        tokio::select! {
            // Polled in this order, so that the simulator is deterministic (tests/sim).
            biased;
            () = self.ports.service.changed() => {}
            () = self.ports.peers.changed() => {}
            () = self.shared.wake.notified() => {}
            () = tokio::time::sleep(wake) => {}
        }
    }

    /// Makes observation and decision visible to the servers, systemd and the journal.
    fn publish(&self, observation: Observation, decision: &Decision, last: Option<&Decision>) {
        let mut status = observation.me.clone();
        status.text.clone_from(&decision.text);
        status.steering.grant = decision.memory.grant.as_ref().map(|(grant, _)| grant.clone());
        let material = material(&status);
        let asked = observation.requests.clone();
        let (changed, voters_changed) = self.shared.with(|inner| {
            let changed = inner.last.material.as_ref() != Some(&material);
            inner.last.material = Some(material);
            let voters = |s: &NodeStatus| s.members.known().map(|l| l.voters().count());
            let voters_changed = inner
                .last
                .status
                .as_ref()
                .is_none_or(|old| voters(old) != voters(&status));
            inner.last.at = Some(observation.steady);
            inner.events.note_wait(observation.now, decision, last);
            inner.last.status = Some(status);
            inner.last.observation = Some(observation);
            inner.last.decision = Some(decision.clone());
            (changed, voters_changed)
        });
        self.tell_order(&asked, decision);
        if changed {
            self.shared.version.grow();
        }
        if voters_changed && let Err(error) = state::gate::save_gate(self) {
            tracing::warn!("the gate's state cannot be written: {error}");
        }
        if last.is_none_or(|l| l.text != decision.text) {
            watchdog::say(&decision.text);
        }
        log(decision, last);
    }

    /// Updates the requests that wait for a new epoch.
    fn tell_order(&self, asked: &[OperatorRequest], decision: &Decision) {
        let going = match (&decision.order, &decision.action) {
            (Some(order), _) => order,
            (None, None) => &decision.text,
            (None, Some(_)) => return,
        };
        let opens = |request: &OperatorRequest| {
            let opens = matches!(
                request,
                OperatorRequest::Restore { .. } | OperatorRequest::Bootstrap { .. }
            );
            opens && asked.contains(request)
        };
        self.shared.set_request_state(opens, RequestState::Pending, going);
    }

    /// The question to another elector about what it knows.
    fn enquiry(&self) -> Enquire {
        Enquire {
            from: self.spec.node.clone(),
            incarnation: self.shared.elector().incarnation,
            electorate_digest: self.shared.electorate.digest.clone(),
        }
    }

    /// True for a genesis of this cluster that may have been chosen, as far as its form and its epoch show. `open` is the
    /// newest epoch that is known to be open.
    fn believes(&self, genesis: &Genesis, open: Epoch) -> bool {
        genesis.cluster == self.spec.cluster && genesis.objection(open).is_none()
    }

    /// The status before the first tick.
    fn blank_status(&self) -> NodeStatus {
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
            newest_epoch: record.newest_epoch,
            voted,
            genesis: record.chosen,
            silent_agents: BTreeSet::new(),
            silent_etcds: BTreeSet::new(),
            backup_failures: 0,
            store_failures: 0,
            peer_url: self.spec.peer_url(&self.spec.node),
            last_backup: None,
            certificate_not_after: self.certificate_not_after(),
            steering: Steering {
                directives: self.shared.directives(),
                ..Steering::default()
            },
            insecure: self.insecure,
            now: self.ports.clock.now(),
            text: "starting".to_owned(),
        }
    }

    /// The name of the etcd process that runs, if one does.
    fn etcd_process(&self, unit: &UnitState) -> Fact<String> {
        if unit.main_pid == 0 {
            return Fact::Absent;
        }
        Fact::Known(format!("{}:{}", self.boot_id, unit.main_pid))
    }

    /// The spec in force with what this node remembers.
    fn spec_in_force(&self) -> Spec {
        let record = self.ports.state.spec().unwrap_or_else(|error| {
            tracing::warn!("what is remembered of the size cannot be read: {error}");
            SpecRecord::default()
        });
        self.spec.in_force(&record)
    }

    fn certificate_not_after(&self) -> Option<UnixMs> {
        let own = self.tls.as_ref().map(|tls| tls.not_after());
        let etcds = self
            .etcd_certificates
            .as_ref()
            .and_then(|files| files.not_after());
        own.into_iter().chain(etcds).min()
    }

    /// The wanted number of voters, as of the last tick.
    fn size(&self) -> usize {
        let seen = self
            .shared
            .with(|inner| inner.last.observation.as_ref().map(|o| o.spec.size));
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

/// The delay after an action. It doubles while the same action is decided again, so that an action that changes nothing does
/// not become a busy loop.
#[derive(Default)]
struct RepeatBackoff {
    last: Option<Action>,
    repeats: u32,
}

impl RepeatBackoff {
    fn after(&mut self, action: Action) -> Duration {
        if self.last.as_ref() == Some(&action) {
            self.repeats = self.repeats.saturating_add(1);
        } else {
            self.repeats = 0;
            self.last = Some(action);
        }
        (MIN_TICK * (1 << self.repeats.min(10))).min(LONGEST_REPEAT_PAUSE)
    }
}

/// The part of a status that a peer's planner could act on. Indexes, sizes and clocks change all the time and wake no peer.
fn material(status: &NodeStatus) -> NodeStatus {
    let mut status = status.clone();
    status.now = UnixMs(0);
    status.text = String::new();
    if let Fact::Known(etcd) = &mut status.etcd {
        etcd.index = 0;
        etcd.applied = 0;
        etcd.db_size_bytes = 0;
        etcd.revision = crate::model::Revision(0);
    }
    status
}

/// Logs a decision that differs from the last one.
fn log(decision: &Decision, last: Option<&Decision>) {
    let name = |d: &Decision| d.action.as_ref().map(Action::name);
    let codes = |d: &Decision| d.reasons.iter().map(|r| r.code.clone()).collect::<Vec<_>>();
    if let Some(action) = &decision.action {
        let repeated = last.is_some_and(|l| name(l) == name(decision) && codes(l) == codes(decision));
        let why: Vec<String> = decision.reasons.iter().map(ToString::to_string).collect();
        if !repeated {
            tracing::info!(
                message_id = message_ids::DECISION,
                decision = action.name(),
                reason = why.join("; "),
                "{}{}{}",
                action.name(),
                if why.is_empty() { "" } else { ": " },
                why.join("; ")
            );
        }
    } else if last.is_none_or(|l| codes(l) != codes(decision)) {
        for reason in &decision.reasons {
            if reason.halt {
                tracing::error!(message_id = message_ids::HALT, reason = %reason.code, "{}", reason.text);
            } else {
                tracing::info!(reason = %reason.code, "{}", reason.text);
            }
        }
    }
    if decision.coordinator && last.is_some_and(|l| !l.coordinator) {
        tracing::info!(
            message_id = message_ids::COORDINATOR,
            "this node coordinates now: the raft leader is beside it"
        );
    }
}
