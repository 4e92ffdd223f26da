//! Measures the cost of a quiet cluster.

use std::sync::atomic::Ordering;
use std::time::Duration;

use etcd_agent::plan::plan;
use etcd_agent::ports::AgentHandle;

use crate::driver::{BOUND_MS, Driver, TICK};
use crate::schedule::Schedule;
use crate::verdict::goal;

/// The cost of a quiet cluster for each node.
#[derive(Debug, Clone, Copy)]
pub struct Load {
    /// Time to plan once, in milliseconds.
    pub plan_ms: f64,
    /// Messages to and from one agent in a second, answers included.
    pub messages_per_second: f64,
}

/// Forms a cluster of `size` among `nodes` candidates, leaves it alone for a minute, and measures; `None` if
/// it does not form.
pub fn load(nodes: usize, size: usize) -> Option<Load> {
    let schedule = Schedule::calm(1, nodes, size, false);
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .start_paused(true)
        .build()
        .ok()?;
    runtime.block_on(async { Driver::new(&schedule, false).measure().await })
}

/// How long a quiet cluster is observed, in milliseconds.
const QUIET_MS: u64 = 60_000;

/// How often each agent plans for the measurement.
const PLANS: u32 = 20;

impl Driver<'_> {
    async fn measure(mut self) -> Option<Load> {
        let mut tick = 0;
        while !goal(&self.sim, self.schedule) {
            if self.sim.now() > BOUND_MS {
                return None;
            }
            self.beat(tick);
            tick += 1;
            tokio::time::sleep(TICK).await;
        }
        let (begun, before) = (self.sim.now(), self.sim.messages.load(Ordering::Relaxed));
        while self.sim.now() < begun + QUIET_MS {
            self.beat(tick);
            tick += 1;
            tokio::time::sleep(TICK).await;
        }
        let messages = self.sim.messages.load(Ordering::Relaxed) - before;
        let views: Vec<_> = (0..self.schedule.nodes)
            .filter_map(|host| self.sim.agent(host)?.plan_view())
            .collect();
        let clock = std::time::Instant::now();
        for view in &views {
            for _ in 0..PLANS {
                std::hint::black_box(plan(&view.observation, &view.decision.memory));
            }
        }
        let plans = PLANS * u32::try_from(views.len()).ok()?.max(1);
        let seconds = Duration::from_millis(QUIET_MS).as_secs_f64();
        let nodes = f64::from(u32::try_from(self.schedule.nodes).ok()?);
        // Each message has two ends.
        let messages = 2.0 * f64::from(u32::try_from(messages).ok()?);
        Some(Load {
            plan_ms: clock.elapsed().as_secs_f64() * 1000.0 / f64::from(plans),
            messages_per_second: messages / nodes / seconds,
        })
    }
}
