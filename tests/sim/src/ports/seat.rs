//! One run of one host's agent. It can die at each crossing of a port, before or after the requested effect.

use std::sync::Arc;
use std::sync::Mutex;
use std::time::Duration;

use etcd_agent::model::{SteadyMs, UnixMs};
use etcd_agent::ports::{Clock, PortError};

use crate::rng::Rng;
use crate::sim::Sim;
use crate::world::{AgentState, Call, How};

/// systemd starts a dead agent again after about this long.
const AGENT_AGAIN_MS: u64 = 300;

/// One run of one host's agent, as its ports see it.
pub struct Seat {
    /// The simulation.
    pub sim: Arc<Sim>,
    /// The host.
    pub host: usize,
    /// The run.
    pub run: u64,
    chance: Mutex<Rng>,
}

/// The agent has died at this port.
struct Dead;

impl Seat {
    /// A seat for this run of this host's agent.
    pub fn new(sim: Arc<Sim>, host: usize, run: u64, seed: u64) -> Arc<Self> {
        Arc::new(Self {
            sim,
            host,
            run,
            chance: Mutex::new(Rng::new(seed)),
        })
    }

    /// Whether this is still the host's current run.
    pub fn is_alive(&self) -> bool {
        let world = self.sim.world();
        let host = &world.hosts[self.host];
        host.run == self.run && host.has_agent()
    }

    /// Crosses a port, where the agent may die.
    fn step(&self) -> Result<(), Dead> {
        let mut world = self.sim.world();
        let at = world.now + AGENT_AGAIN_MS;
        let host = &mut world.hosts[self.host];
        if host.run != self.run || !host.has_agent() {
            return Err(Dead);
        }
        host.crossings += 1;
        match &mut host.dies_in {
            Some(0) => {
                host.kill_agent(AgentState::Until(at));
                world.tell(|w| format!("agent of {} dies between two steps", w.hosts[self.host].name));
                drop(world);
                self.sim.set_agent(self.host, None);
                Err(Dead)
            }
            Some(left) => {
                *left -= 1;
                Ok(())
            }
            None => Ok(()),
        }
    }

    /// Crosses a port. The call of a dead agent never returns.
    pub async fn cross(&self) {
        if self.step().is_err() {
            std::future::pending::<()>().await;
        }
    }

    /// Crosses a port that cannot wait.
    ///
    /// # Errors
    /// When the agent is dead: its reaction to the error has no effect.
    pub fn cross_now(&self) -> Result<(), PortError> {
        self.step()
            .map_err(|Dead| PortError::Retryable("dead".to_owned()))
    }

    /// True when this call takes effect and its answer is lost.
    ///
    /// # Errors
    /// When the call is refused and has no effect.
    pub fn breaks(&self, call: Call) -> Result<bool, PortError> {
        let mut world = self.sim.world();
        let how = world.hosts[self.host].breaks(call);
        if let Some(how) = how {
            let now = world.now;
            world.hosts[self.host].failed(now);
            world.tell(|w| format!("{}: {call:?} is {how:?}", w.hosts[self.host].name));
            world.saw("broken", &format!("{call:?} {how:?}"));
        }
        match how {
            None => Ok(false),
            Some(How::Refused) => Err(PortError::Retryable(format!("{call:?} is refused"))),
            Some(How::AnswerLost) => Ok(true),
        }
    }

    /// Whether the store refuses this host's credentials.
    pub(super) fn is_refused(&self) -> bool {
        let world = self.sim.world();
        world
            .store_of(self.host)
            .is_some_and(|store| store.refuses.contains(&self.host))
    }

    /// Waits for a random time of at most `most_ms`.
    pub async fn pause(&self, most_ms: u64) {
        let ms = self.sim.world().rng.below(most_ms + 1);
        if ms > 0 {
            tokio::time::sleep(Duration::from_millis(ms)).await;
        }
    }
}

impl Clock for Seat {
    fn now(&self) -> UnixMs {
        UnixMs(self.sim.clock(self.host))
    }

    fn steady(&self) -> SteadyMs {
        SteadyMs(self.sim.now())
    }

    fn random(&self) -> u64 {
        self.chance.lock().map_or(0, |mut rng| rng.number())
    }
}

/// The answer to a call that took effect: an error when the answer is lost.
pub(super) fn answered(answer_lost: bool) -> Result<(), PortError> {
    if answer_lost {
        return Err(PortError::OutcomeUnknown("no answer in time".to_owned()));
    }
    Ok(())
}
