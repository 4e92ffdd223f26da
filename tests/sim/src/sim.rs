//! What agents, ports and the driver share: the world behind one lock, and the agents that run in it.

use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use etcd_agent::agent::{Agent, Version};
use etcd_agent::ports::AgentHandle;
use tokio::sync::Notify;
use tokio::time::Instant;

use crate::coverage;
use crate::orders::Orders;
use crate::world::World;

/// One simulation. It runs on one thread: no lock is ever waited for.
pub struct Sim {
    world: Mutex<World>,
    agents: Mutex<Vec<Option<Agent>>>,
    orders: Mutex<Orders>,
    /// The last event of each host's running agent that was recorded.
    noted: Mutex<Vec<u64>>,
    begin: Instant,
    /// Each host's clock against the true one, in milliseconds.
    pub skew: Vec<AtomicI64>,
    /// Rings when the state of a host's `etcd.service` may have changed.
    pub unit_bells: Vec<Notify>,
    /// Counts messages between agents, answers included.
    pub messages: AtomicU64,
    /// Grows when somebody can or cannot be reached any more.
    pub topology: Version,
}

impl Sim {
    /// Around this world.
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

    /// The world, at its present time.
    pub fn world(&self) -> MutexGuard<'_, World> {
        let mut world = self.world.lock().unwrap_or_else(PoisonError::into_inner);
        world.now = self.now();
        world
    }

    /// What a host's clock shows, in milliseconds since the Unix epoch.
    pub fn clock(&self, host: usize) -> u64 {
        (crate::world::BEGIN_MS + self.now()).saturating_add_signed(self.skew[host].load(Ordering::Relaxed))
    }

    /// The running agent of a host.
    pub fn agent(&self, host: usize) -> Option<Agent> {
        self.agents.lock().unwrap_or_else(PoisonError::into_inner)[host].clone()
    }

    /// What people have typed. Do not hold this lock across a call that may type something itself.
    pub fn orders(&self) -> MutexGuard<'_, Orders> {
        self.orders.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Records what a host's agent has done since the last call.
    pub fn take_note(&self, host: usize) {
        let Some(agent) = self.agent(host) else { return };
        let mut noted = self.noted.lock().unwrap_or_else(PoisonError::into_inner);
        let view = agent.events(noted[host]);
        noted[host] = view.newest;
        coverage::note(&mut self.world().seen, &view.events);
    }

    /// Takes note of a host's running agent, or that there is none.
    pub fn set_agent(&self, host: usize, agent: Option<Agent>) {
        self.take_note(host);
        self.noted.lock().unwrap_or_else(PoisonError::into_inner)[host] = 0;
        self.agents.lock().unwrap_or_else(PoisonError::into_inner)[host] = agent;
        self.changed();
    }

    /// One question and its answer.
    pub fn note_messages(&self) {
        self.messages.fetch_add(2, Ordering::Relaxed);
    }

    /// Somebody can or cannot be reached any more.
    pub fn changed(&self) {
        self.topology.grow();
    }
}
