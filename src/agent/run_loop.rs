//! The loop: observe → plan → execute.

use std::time::Duration;

use crate::model::{
    Action, Backoff, Decision, EventOutcome, Fact, Memory, NodeStatus, Observation, OperatorRequest,
    ReasonCode, RequestState, UnixMs,
};
use crate::plan::plan;
use crate::ports::PortResult;
use crate::telemetry::{ActionResult, message_ids};

use super::context::Agent;
use super::jobs::space;
use super::state::FirstLook;
use super::{execute, gate, observe, record, watchdog};

/// Minimum delay between loop iterations.
const MIN_TICK: Duration = Duration::from_millis(5);

/// How long the first tick waits for peers that do not answer. Each call times out earlier.
const FIRST_LOOK: Duration = Duration::from_secs(5);

/// The longest that an action may take before it counts as hanging. Each call in it has a deadline of its own; the
/// longest, an inspection that reads all of a database, has 150 s.
const ACTION: Duration = Duration::from_mins(5);

/// The delay after the same action, decided once or several times in a row.
const REPEAT_BACKOFF: Backoff = Backoff::new(MIN_TICK, Duration::from_secs(5));

impl Agent {
    /// The loop. Runs until the future is dropped; everything that must outlive it is on disk.
    pub async fn run_loop(&self) {
        let _stops = self.shared.stopped.clone().drop_guard();
        let mut memory = Memory::default();
        let mut last: Option<Decision> = None;
        let mut backoff = RepeatBackoff::default();
        let begun = self.ports.clock.steady();
        space::await_defrag(self);
        loop {
            watchdog::feed();
            self.shared.looks.begin();
            let observation = match Box::pin(self.observe()).await {
                Ok(observation) => observation,
                Err(error) => {
                    // Unreadable state is not absent state, so the planner must not decide without it.
                    tracing::error!("this node's own state cannot be read, so nothing is done: {error}");
                    watchdog::say(&format!("halted: {error}"));
                    tokio::time::sleep(Duration::from_secs(5)).await;
                    continue;
                }
            };
            let decision = plan(&observation, &memory);
            memory = decision.memory.clone();
            self.publish(observation, &decision, last.as_ref());
            self.shared.looks.end();
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

    /// Gathers the facts, records the state that follows from them, and builds the observation.
    async fn observe(&self) -> PortResult<Observation> {
        let assignment = self.ports.state.assignment()?;
        let ways = observe::client_ways(self, assignment.as_ref());
        self.ports.etcd.serves_with(&ways);
        let facts = observe::gather(self, assignment).await?;
        let recorded = record::record(self, &facts);
        Ok(observe::observation(self, facts, recorded))
    }

    async fn act(&self, decision: &Decision, action: &Action, memory: &mut Memory) {
        let kind = action.kind();
        let name = kind.as_str();
        let (begun, at) = (self.ports.clock.steady(), self.ports.clock.now());
        let doing = Box::pin(execute::execute(self, action));
        let result = watchdog::feed_during(ACTION, doing).await;
        let goes_on = kind.begins_a_job();
        self.counters.action(
            kind,
            match &result {
                Ok(()) if goes_on => ActionResult::Begun,
                Ok(()) => ActionResult::Ok,
                Err(_) => ActionResult::Failed,
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
                memory.failures.remove(&kind);
                memory.errors.remove(&kind);
            }
            Err(error) => {
                let now = self.ports.clock.steady();
                let (count, _) = memory.failures.get(&kind).copied().unwrap_or((0, now));
                // Logs the first failures of a kind, then only every sixteenth.
                if count < 3 || count % 16 == 0 {
                    tracing::warn!(etcd_agent.decision = name, "{name} ({}): {error}", error.kind());
                }
                memory.failures.insert(kind, (count.saturating_add(1), now));
                memory.errors.insert(kind, error.to_string());
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
        status.steering.grants_over = decision.memory.grants_over;
        let material = material(&status);
        let asked = observation.requests.clone();
        let changed = self.shared.with(|inner| {
            inner.events.note_wait(observation.now, decision, last);
            inner
                .last
                .replace(status, material, observation, decision.clone())
        });
        self.update_requests(&asked, decision);
        if changed.material {
            self.shared.version.grow();
        }
        if changed.voters
            && let Err(error) = gate::save_gate(self)
        {
            tracing::warn!("the gate's state cannot be written: {error}");
        }
        if last.is_none_or(|l| l.text != decision.text) {
            watchdog::say(&decision.text);
        }
        log(decision, last);
    }

    /// Updates the requests that wait for a new epoch.
    fn update_requests(&self, asked: &[OperatorRequest], decision: &Decision) {
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
        let mut reasons = decision.reasons.iter();
        if let Some(waits) = reasons.find(|reason| reason.code == ReasonCode::RebootLockWaits) {
            let locks = |request: &OperatorRequest| matches!(request, OperatorRequest::RebootLock { .. });
            self.shared
                .set_request_state(locks, RequestState::Pending, &waits.text);
        }
    }
}

/// The delay after an action. It doubles while the same action is decided again, so that an action that
/// changes nothing does not become a busy loop.
#[derive(Default)]
struct RepeatBackoff {
    last: Option<Action>,
    times: u32,
}

impl RepeatBackoff {
    fn after(&mut self, action: Action) -> Duration {
        if self.last.as_ref() != Some(&action) {
            self.times = 0;
            self.last = Some(action);
        }
        self.times = self.times.saturating_add(1);
        REPEAT_BACKOFF.after(self.times)
    }
}

/// The part of a status that a peer's planner could act on. Indexes, sizes and clocks change all the time and
/// wake no peer.
fn material(status: &NodeStatus) -> NodeStatus {
    let mut status = status.clone();
    status.now = UnixMs(0);
    status.text = String::new();
    // Only `ok-to-stop` asks for it, and it asks for a new look.
    status.steering.restoring = false;
    if let Fact::Known(etcd) = &mut status.etcd {
        etcd.index = 0;
        etcd.applied = 0;
        etcd.db_size_bytes = 0;
        etcd.db_in_use_bytes = None;
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
                etcd_agent.decision = action.name(),
                etcd_agent.reason = why.join("; "),
                "{}{}{}",
                action.name(),
                if why.is_empty() { "" } else { ": " },
                why.join("; ")
            );
        }
    } else if last.is_none_or(|l| codes(l) != codes(decision)) {
        for reason in &decision.reasons {
            if reason.halt {
                tracing::error!(message_id = message_ids::HALT, etcd_agent.reason = %reason.code, "{}", reason.text);
            } else {
                tracing::info!(etcd_agent.reason = %reason.code, "{}", reason.text);
            }
        }
    }
    if decision.coordinator && last.is_some_and(|l| !l.coordinator) {
        tracing::info!(
            message_id = message_ids::COORDINATOR,
            "this node coordinates now: it runs the raft leader"
        );
    }
}
