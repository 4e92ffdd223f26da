//! State shared by agents, ports and the driver: the world behind one lock, and the agents that run in it.

use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use etcd_agent::agent::{Agent, Version};
use etcd_agent::ports::AgentHandle;
use tokio::sync::Notify;
use tokio::time::Instant;

use crate::coverage;
use crate::orders::Orders;
use crate::world::World;

/// One simulation. It runs on one thread, so no lock is ever contended.
pub struct Sim {
    world: Mutex<World>,
    agents: Mutex<Vec<Option<Agent>>>,
    orders: Mutex<Orders>,
    /// The last recorded event of each host's running agent.
    noted: Mutex<Vec<u64>>,
    begin: Instant,
    /// The offset of each host's clock from the true time, in milliseconds.
    pub skew: Vec<AtomicI64>,
    /// Rings when the state of a host's `etcd.service` may have changed.
    pub unit_bells: Vec<Notify>,
    /// Counts messages between agents, answers included.
    pub messages: AtomicU64,
    /// Increases when a host becomes reachable or unreachable.
    pub topology: Version,
}

impl Sim {
    /// Makes a simulation of this world.
    pub fn new(world: World) -> Arc<Self> {
        let hosts = world.hosts.len();
        Arc::new(Self {
            world: Mutex::new(world),
            agents: Mutex::new((0..hosts).map(|_| None).collect()),
            orders: Mutex::default(),
            noted: Mutex::new(vec![0; hosts]),
            begin: Instant::now(),
            skew: (0..hosts).map(|_| AtomicI64::new(0)).collect(),
            unit_bells: (0..hosts).map(|_| Notify::new()).collect(),
            messages: AtomicU64::new(0),
            topology: Version::new(0),
        })
    }

    /// Milliseconds since the beginning.
    pub fn now(&self) -> u64 {
        u64::try_from(self.begin.elapsed().as_millis()).unwrap_or(u64::MAX)
    }

    /// The world, with its clock updated.
    pub fn world(&self) -> MutexGuard<'_, World> {
        let mut world = self.world.lock().unwrap_or_else(PoisonError::into_inner);
        world.now = self.now();
        world
    }

    /// The time of a host's clock, in milliseconds since the Unix epoch.
    pub fn clock(&self, host: usize) -> u64 {
        (crate::world::BEGIN_MS + self.now()).saturating_add_signed(self.skew[host].load(Ordering::Relaxed))
    }

    /// The running agent of a host.
    pub fn agent(&self, host: usize) -> Option<Agent> {
        self.agents.lock().unwrap_or_else(PoisonError::into_inner)[host].clone()
    }

    /// The orders that people have typed. Do not hold this lock across a call that may type an order itself.
    pub fn orders(&self) -> MutexGuard<'_, Orders> {
        self.orders.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Records the actions of a host's agent since the last call.
    pub fn take_note(&self, host: usize) {
        let Some(agent) = self.agent(host) else { return };
        let mut noted = self.noted.lock().unwrap_or_else(PoisonError::into_inner);
        let view = agent.events(noted[host]);
        noted[host] = view.newest;
        coverage::note(&mut self.world().seen, &view.events);
    }

    /// Sets the running agent of a host, or that there is none.
    pub fn set_agent(&self, host: usize, agent: Option<Agent>) {
        self.take_note(host);
        self.noted.lock().unwrap_or_else(PoisonError::into_inner)[host] = 0;
        self.agents.lock().unwrap_or_else(PoisonError::into_inner)[host] = agent;
        self.changed();
    }

    /// Counts one request and its answer.
    pub fn note_messages(&self) {
        self.messages.fetch_add(2, Ordering::Relaxed);
    }

    /// A host has become reachable or unreachable.
    pub fn changed(&self) {
        self.topology.grow();
    }
}
