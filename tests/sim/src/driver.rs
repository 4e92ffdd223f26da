//! Runs one schedule: starts the agents, lets time pass, injects faults, and at the end requires a healthy
//! cluster.

use std::mem::{Discriminant, discriminant};
use std::sync::Arc;
use std::time::Duration;

use etcd_agent::agent::Agent;
use etcd_agent::model::NodeName;
use etcd_agent::ports::AgentHandle;
use tokio::task::AbortHandle;

use crate::coverage::{EXCUSED, Seen};
use crate::fault::Fault;
use crate::inject::inject;
use crate::orders;
use crate::ports::{Board, Files, Seat, ports, watch};
use crate::schedule::Schedule;
use crate::sim::Sim;
use crate::spec::{name, spec};
use crate::verdict::{complaint, excuse, goal, said};
use crate::world::{AgentState, Asked, Host, Phase, Plane, Store, Weather, World};

/// The longest time that the gate holds a stop back, in milliseconds.
const LEAVE_MS: u64 = 20_000;
/// The interval of the world's own changes.
pub(crate) const TICK: Duration = Duration::from_millis(100);
/// A cluster has to recover within this time after the last fault, in milliseconds.
pub(crate) const BOUND_MS: u64 = 300_000;
/// While all agents run and reach each other (and the store), each elector gets its vote within this time, in
/// milliseconds.
const VOTES_MS: u64 = 20_000;
/// A fault within this time after a restore was typed counts as a fault during the restore, in milliseconds.
const RESTORING_MS: u64 = 10_000;
/// How often people do what the reasons ask for, in milliseconds.
const HEED_MS: u64 = 30_000;
/// A run with an excuse ends after this time, in milliseconds. Before that, people have time to do what the
/// reasons ask for.
const EXCUSED_MS: u64 = HEED_MS + 30_000;

/// The result of a schedule.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Outcome {
    /// The violation of a rule, if there was one.
    pub violation: Option<String>,
    /// Why the cluster was allowed not to recover, if it did not.
    pub excuse: Option<&'static str>,
    /// The history of events.
    pub history: Vec<String>,
    /// How often agents crossed a port.
    pub crossings: u64,
    /// When it ended, in simulated milliseconds.
    pub ended: u64,
    /// The things seen during it.
    pub seen: Seen,
}

/// Runs a schedule from its beginning to its end.
pub fn run(schedule: &Schedule, record: bool) -> Outcome {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .start_paused(true)
        .build();
    match runtime {
        // The driver is made inside the runtime, where the clock is paused.
        Ok(runtime) => runtime.block_on(async { Driver::new(schedule, record).run().await }),
        Err(error) => Outcome {
            violation: Some(format!("no runtime: {error}")),
            ..Outcome::default()
        },
    }
}

pub(crate) struct Driver<'a> {
    pub(crate) schedule: &'a Schedule,
    pub(crate) sim: Arc<Sim>,
    tasks: Vec<Vec<AbortHandle>>,
    units: Vec<(Discriminant<Phase>, bool)>,
    /// Since when all agents run and reach each other.
    connected: Option<u64>,
}

/// Agents hold the simulation that they run in, and it holds them. The cycle is broken here; otherwise a
/// million simulations would leak.
impl Drop for Driver<'_> {
    fn drop(&mut self) {
        for host in 0..self.schedule.nodes {
            self.sim.set_agent(host, None);
        }
    }
}

impl<'a> Driver<'a> {
    pub(crate) fn new(schedule: &'a Schedule, record: bool) -> Self {
        let names: Vec<NodeName> = (0..schedule.nodes).filter_map(name).collect();
        let store = schedule.store.then(Store::new);
        let mut world = World::new(schedule.seed, &names, store, record);
        for (host, at) in world.hosts.iter_mut().zip(&schedule.starts) {
            host.agent = AgentState::Until(*at);
        }
        world.newcomers = schedule.newcomers;
        let first = world.first_electors();
        for host in world.hosts.iter_mut().take(first) {
            host.narrow = schedule.newcomers > 0;
        }
        Self {
            schedule,
            tasks: vec![Vec::new(); schedule.nodes],
            units: vec![(discriminant(&Phase::Down), false); schedule.nodes],
            connected: None,
            sim: Sim::new(world),
        }
    }

    async fn run(mut self) -> Outcome {
        let mut faults = self.schedule.faults.iter().peekable();
        let mut tick = 0_u64;
        let excuse = loop {
            let now = self.sim.now();
            while let Some((_, fault)) = faults.next_if(|(at, _)| *at <= now) {
                inject(&self.sim, fault);
            }
            self.beat(tick);
            tick += 1;
            let voteless = self.voteless();
            if self.sim.world().violation.is_some() {
                break None;
            }
            if tick.is_multiple_of(5) {
                orders::follow(&self.sim);
            }
            let over = now.saturating_sub(self.schedule.end());
            if faults.peek().is_none() && tick.is_multiple_of(5) && over > 0 {
                if (1000..1500).contains(&over) {
                    self.mend();
                }
                if (6000..6500).contains(&over) {
                    // Only once all agents run: a resume on a node that does not know of the pause would end
                    // nothing.
                    for host in 0..self.schedule.nodes {
                        inject(&self.sim, &Fault::Resume(host));
                    }
                    self.release_locks();
                    self.make_anew();
                }
                if over >= HEED_MS && over % HEED_MS < 500 {
                    orders::heed(&self.sim);
                    self.release_locks();
                }
                if over >= 1500 && !voteless && self.is_settled() && goal(&self.sim, self.schedule) {
                    break None;
                }
                let excused = if over > EXCUSED_MS {
                    excuse(&self.sim)
                } else {
                    None
                };
                if excused.is_some() {
                    break excused;
                }
                if over > BOUND_MS {
                    let text = complaint(&self.sim);
                    self.sim.world().violate(0, text);
                    break None;
                }
            }
            tokio::time::sleep(TICK).await;
        };
        for host in 0..self.schedule.nodes {
            self.sim.take_note(host);
        }
        self.note_orders();
        let mut world = self.sim.world();
        if excuse.is_some() {
            world.seen.insert(EXCUSED.to_owned());
        }
        Outcome {
            violation: world.violation.take(),
            excuse,
            history: world.history.take().unwrap_or_default(),
            crossings: world.hosts.iter().map(|h| u64::from(h.crossings)).sum(),
            ended: world.now,
            seen: std::mem::take(&mut world.seen),
        }
    }

    /// True when no order is open.
    fn is_settled(&self) -> bool {
        !self.sim.orders().all.iter().any(orders::Order::is_open)
    }

    /// Records the outcome of each order, restores under faults, and later epochs.
    fn note_orders(&self) {
        let orders = self.sim.orders();
        let mut world = self.sim.world();
        for order in &orders.all {
            world.saw("order", &order.name());
            let restored =
                matches!(order.what, orders::What::Restore(..)) && order.state == orders::State::Done;
            let meanwhile = order.at..order.at + RESTORING_MS;
            let faults = self.schedule.faults.iter();
            if restored
                && faults
                    .clone()
                    .any(|(at, fault)| meanwhile.contains(at) && fault.is_hard())
            {
                world.saw("event", "a restore under faults");
            }
        }
        if world.chosen.len() > 1 {
            world.saw("event", "a later epoch");
        }
    }

    /// Advances the simulation by a tenth of a second.
    pub(crate) fn beat(&mut self, tick: u64) {
        self.sim.world().tick();
        self.power();
        for host in 0..self.schedule.nodes {
            if tick.is_multiple_of(2) {
                self.gate(host);
                self.leave(host);
            }
            let start = {
                let world = self.sim.world();
                let h = &world.hosts[host];
                h.up && matches!(h.agent, AgentState::Until(at) if at <= world.now)
            };
            if start {
                self.start(host);
            }
            let seen = {
                let world = self.sim.world();
                let h = &world.hosts[host];
                (discriminant(&h.unit), h.server.as_ref().is_some_and(|s| s.ready))
            };
            if seen != self.units[host] {
                self.units[host] = seen;
                self.sim.unit_bells[host].notify_one();
            }
        }
    }

    /// Whether some elector has no vote and must get it back by itself. It is a violation if that takes too
    /// long.
    fn voteless(&mut self) -> bool {
        let world = self.sim.world();
        let connected = agents_are_connected(&world);
        self.connected = self
            .connected
            .filter(|_| connected)
            .or(connected.then_some(world.now));
        // Without a store, nothing replaces the memory that most electors have lost.
        let forgetful = world.hosts.iter().filter(|h| h.reinstalled > 0).count() * 2 > world.first_electors();
        if forgetful && world.store.is_none() {
            return false;
        }
        // A new memory that is dated before the old one is refused: see docs/safety.md, Clocks.
        let votes = |h: &Host| h.elector.as_ref().is_some_and(|record| record.eligible);
        let voteless: Vec<String> = world
            .hosts
            .iter()
            .filter(|h| !votes(h) && !h.outdated)
            .map(|h| h.name.to_string())
            .collect();
        if !voteless.is_empty() && self.connected.is_some_and(|since| world.now > since + VOTES_MS) {
            drop(world);
            let text = format!(
                "{} has no vote although all agents reach each other for {} s: {}",
                voteless.join(", "),
                VOTES_MS / 1000,
                said(&self.sim)
            );
            self.sim.world().violate(0, text);
        }
        !voteless.is_empty()
    }

    /// Boots hosts that get their power back. etcd is enabled, so it starts with the host.
    fn power(&self) {
        for host in 0..self.schedule.nodes {
            let mut world = self.sim.world();
            let now = world.now;
            let later = now + world.rng.below(1500);
            let h = &mut world.hosts[host];
            if h.power_at.is_none_or(|at| at > now) {
                continue;
            }
            h.up = true;
            h.power_at = None;
            h.boot += 1;
            h.agent = AgentState::Until(later.max(h.agent_off_until));
            world.tell(|w| format!("{} boots", w.hosts[host].name));
            world.start_unit(host);
            drop(world);
            self.sim.changed();
        }
    }

    /// Lets the gate of a held stop ask its agent.
    fn leave(&self, host: usize) {
        let (since, now) = {
            let world = self.sim.world();
            let Phase::Leaves(since) = world.hosts[host].unit else {
                return;
            };
            (since, world.now)
        };
        let Some(agent) = self.sim.agent(host) else {
            self.sim.world().leaves(host, Some("no agent answers"));
            return;
        };
        if now.saturating_sub(since) >= LEAVE_MS {
            self.sim.world().leaves(host, None);
            return;
        }
        let sim = self.sim.clone();
        tokio::spawn(async move {
            let leave = agent.leave_to_stop().await;
            let mut world = sim.world();
            if leave.go && world.hosts[host].unit == Phase::Leaves(since) {
                world.leaves(host, Some(&leave.text));
            }
        });
    }

    /// Lets the gate of a held start ask its agent.
    fn gate(&self, host: usize) {
        if !self.sim.world().look_at_gate(host, Asked::NotYet) {
            return;
        }
        if let Some(agent) = self.sim.agent(host) {
            let answer = match agent.gate() {
                Ok((clear, text)) => Asked::Says(clear, text),
                Err(_) => Asked::Silent,
            };
            self.sim.world().look_at_gate(host, answer);
        }
    }

    fn start(&mut self, host: usize) {
        for task in self.tasks[host].drain(..) {
            task.abort();
        }
        let (run, boot, seed) = {
            let mut world = self.sim.world();
            world.tell(|w| format!("agent of {} starts", w.hosts[host].name));
            let seed = world.rng.number();
            let now = world.now;
            let h = &mut world.hosts[host];
            h.run += 1;
            h.agent_at = Some(now);
            h.agent = AgentState::Alive;
            h.may_linger_from = h.may_linger_from.max(now);
            (h.run, h.boot, seed)
        };
        let Some(mut spec) = spec(self.schedule, host) else {
            return;
        };
        if self.sim.world().hosts[host].differs {
            "sim://other".clone_into(&mut spec.shared_store);
        }
        let electors = self.sim.world().electors(host);
        while spec.nodes.len() > electors {
            spec.nodes.pop_last();
        }
        let seat = Seat::new(self.sim.clone(), host, run, seed);
        let board = Board::new(spec.nodes.keys().filter(|n| **n != spec.node).cloned());
        let peers = (0..spec.nodes.len()).filter(|peer| *peer != host);
        let Ok(agent) = Agent::over(ports(&seat, &board), spec, format!("boot-{boot}")) else {
            // The agent ends with an error, and systemd restarts it.
            let mut world = self.sim.world();
            let at = world.now + 1000;
            world.hosts[host].kill_agent(AgentState::Until(at));
            return;
        };
        let agent = if self.schedule.tls {
            agent.with_etcd_certificates(Arc::new(Files(seat.clone())))
        } else {
            agent
        };
        self.sim.set_agent(host, Some(agent.clone()));
        // The agent's socket exists before its first observation, and a waiting gate asks at once.
        self.gate(host);
        for peer in peers {
            let watching = tokio::spawn(watch(seat.clone(), board.clone(), peer));
            self.tasks[host].push(watching.abort_handle());
        }
        let looping = tokio::spawn(async move { agent.run_loop().await });
        self.tasks[host].push(looping.abort_handle());
        let asks = std::mem::take(&mut self.sim.world().hosts[host].asks_at_once);
        if asks {
            inject(&self.sim, &Fault::Restore(host));
        }
    }
}

/// Whether all agents run, and reach each other and the store, if there is one.
fn agents_are_connected(world: &World) -> bool {
    let fair = |store: &Store| store.weather == Weather::Fair && store.refuses.is_empty();
    world
        .hosts
        .iter()
        .all(|h| h.has_agent() && !h.differs && !h.narrow && h.broken_calls.is_empty())
        && world.links.all_open(Plane::Agents)
        && world.store.as_ref().is_none_or(fair)
}
