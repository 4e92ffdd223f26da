//! Moves the raft leader to another host before this one shuts down. etcd moves the leader itself when it
//! stops, but only while systemd also stops everything else on the host.

use std::time::Duration;

use tokio::time::{Instant, sleep};

use crate::agent::Agent;
use crate::model::{Backoff, MemberId, MemberList, OperatorRequest, RequestState, SteadyMs};
use crate::ports::AgentHandle;

/// The longest delay of a shutdown, whatever logind allows.
const LONGEST: Duration = Duration::from_secs(10);
/// The lock is given up this long before logind stops waiting for it, and reports that it did.
const MARGIN: Duration = Duration::from_millis(500);
/// How often the progress is checked.
const LOOK: Duration = Duration::from_millis(20);
/// The pause before the next lock: after a shutdown began, which may be cancelled, and after an error.
const PAUSE: Backoff = Backoff::new(Duration::from_secs(1), Duration::from_mins(5));

/// The failure that is reported. logind refuses the lock while it shuts the host down, and a lost connection
/// is soon replaced.
const LASTING: u32 = 3;

/// Waits for shutdowns of the host until it is dropped.
pub(crate) async fn watch(agent: Agent) {
    let mut failures = 0u32;
    loop {
        match agent.ports.service.shutdown_begins().await {
            Ok(shutdown) => {
                failures = 0;
                move_leader(&agent, shutdown.within.saturating_sub(MARGIN).min(LONGEST)).await;
            }
            Err(error) => {
                failures = failures.saturating_add(1);
                if failures == LASTING {
                    tracing::info!("a shutdown of this host will not move the raft leader first: {error}");
                }
            }
        }
        sleep(PAUSE.after(failures.max(1))).await;
    }
}

/// Moves the leader if it is on this host. Returns when another member leads, when none can, or after
/// `within`.
async fn move_leader(agent: &Agent, within: Duration) {
    let Some(own) = leads(agent) else { return };
    let only_voter = |members: &MemberList| members.voters().all(|voter| voter.id == own);
    if agent.status().members.known().is_some_and(only_voter) {
        return;
    }
    tracing::info!("the host shuts down: the raft leader moves to another one");
    let until = Instant::now() + within;
    let to_any = OperatorRequest::MoveLeader {
        to: None,
        from: None,
        id: 0,
        asked: SteadyMs::default(),
    };
    // It fails if an operator has just requested a move; that one is awaited.
    let request = agent.submit(to_any).ok();
    let failed = || {
        let view = request.as_ref().and_then(|request| agent.request(request.id));
        view.filter(|view| view.state == RequestState::Failed)
    };
    while leads(agent).is_some() {
        if let Some(view) = failed() {
            tracing::warn!(
                "the raft leader does not move before the shutdown: {}",
                view.message
            );
            return;
        }
        if Instant::now() >= until {
            let waited = within.as_secs_f64();
            tracing::warn!("the raft leader has not moved within {waited:.1} s: the host shuts down anyway");
            return;
        }
        sleep(LOOK).await;
    }
    tracing::info!("another member leads: the host may shut down");
}

/// This node's member, if it is the raft leader.
fn leads(agent: &Agent) -> Option<MemberId> {
    let status = agent.status();
    let etcd = status.etcd.known()?;
    (etcd.leader == Some(etcd.member_id)).then_some(etcd.member_id)
}
