//! Leave for a stop of `etcd.service` that something other than the agent has asked systemd for.

use std::time::Duration;

use tokio::time::timeout;

use crate::agent::Agent;
use crate::agent::state::FirstLook;
use crate::model::{Fact, Leave};
use crate::plan;

/// How long the agent may take to publish that etcd is about to stop.
const PUBLISHED_WITHIN: Duration = Duration::from_millis(500);

/// Whether etcd may stop now. The gate asks again until it may.
pub(crate) async fn leave_to_stop(agent: &Agent) -> Leave {
    if agent.ports.service.shuts_down().await {
        return Leave::go("the host shuts down");
    }
    let pid = match agent.ports.service.etcd_unit().await {
        Ok(unit) if unit.main_pid != 0 => unit.main_pid,
        Ok(_) => return Leave::go("etcd does not run"),
        Err(error) => {
            return Leave::go(format!(
                "systemd does not report the state of etcd.service: {error}"
            ));
        }
    };
    if agent.shared.with(|inner| inner.stop.is_own(pid)) {
        return Leave::go("the agent asked for it");
    }
    let now = agent.ports.clock.steady();
    agent.shared.with(|inner| inner.stop.ask(pid, now));
    agent.shared.wake.notify_one();
    if *agent.shared.first_look.borrow() != FirstLook::Done {
        return Leave::wait("the agent has just started");
    }
    let seen = agent.shared.with(|inner| {
        let status = inner.last.status();
        let given = status.and_then(|status| status.steering.grant.clone());
        inner.last.observation().cloned().map(|seen| (seen, given))
    });
    let Some((seen, given)) = seen else {
        return Leave::wait("the agent has just started");
    };
    // Others count this etcd as healthy while its stop is shown to wait.
    let shown = seen.me.steering.waits_to_stop;
    let down = plan::another_is_down(&seen);
    let down_for_long = agent.shared.with(|inner| inner.stop.down_for_long(down, now));
    let leave = plan::leave_to_stop(&seen, given.as_ref(), down_for_long);
    if !leave.go || !shown && matches!(&seen.me.etcd, Fact::Known(_)) {
        return Leave { go: false, ..leave };
    }
    agent.shared.with(|inner| inner.stop.leave());
    let published = agent.shared.looks.next();
    agent.shared.wake.notify_one();
    // From now on the others see that it is about to stop. A look that takes longer does not hold the stop.
    let _ = timeout(PUBLISHED_WITHIN, published).await;
    leave
}
