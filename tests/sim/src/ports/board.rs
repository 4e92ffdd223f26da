//! The last status of each peer, kept up to date like by the long poll of `adapters::peers::watch`.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use etcd_agent::model::{Fact, Learn, NodeName, NodeStatus};
use etcd_agent::ports::AgentHandle;
use tokio::sync::Notify;

use super::Seat;
use crate::liar;
use crate::spec::CLUSTER;
use crate::world::Plane;

/// The longest time that a poll waits.
const WAIT: Duration = Duration::from_secs(10);
/// The pause between two polls.
const PAUSE: Duration = Duration::from_millis(10);
/// The pause between two tries.
const AGAIN: Duration = Duration::from_millis(500);
/// How long a dead link may look like a quiet peer, in milliseconds.
const UNNOTICED_MS: u64 = 12_000;

/// The last status of each peer, and a notification of changes.
pub struct Board {
    seen: Mutex<BTreeMap<NodeName, Fact<NodeStatus>>>,
    bell: Notify,
}

impl Board {
    /// No status was received yet.
    pub fn new(peers: impl Iterator<Item = NodeName>) -> Arc<Self> {
        let silent = || Fact::Unreachable("not asked yet".to_owned());
        Arc::new(Self {
            seen: Mutex::new(peers.map(|peer| (peer, silent())).collect()),
            bell: Notify::new(),
        })
    }

    pub(super) fn all(&self) -> BTreeMap<NodeName, Fact<NodeStatus>> {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub(super) async fn changed(&self) {
        self.bell.notified().await;
    }

    fn set(&self, node: &NodeName, fact: Fact<NodeStatus>) {
        let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        let same = matches!(
            (seen.get(node), &fact),
            (Some(Fact::Unreachable(_)), Fact::Unreachable(_))
        );
        if !same {
            seen.insert(node.clone(), fact);
            drop(seen);
            self.bell.notify_one();
        }
    }
}

/// Whether an agent takes this as the status of that node (`adapters::peers::connection`).
pub(super) fn is_expected(node: &NodeName, status: &NodeStatus) -> bool {
    status.node == *node && status.cluster.as_str() == CLUSTER
}

/// Follows one peer as long as this run of the agent lasts.
pub async fn watch(seat: Arc<Seat>, board: Arc<Board>, peer: usize) {
    let name = seat.sim.world().hosts[peer].name.clone();
    let mut topology = seat.sim.topology.get();
    while seat.is_alive() {
        follow(&seat, &board, peer, &name, &mut topology).await;
        if !seat.is_alive() {
            return;
        }
        board.set(&name, Fact::Unreachable("no answer".to_owned()));
        tokio::select! {
            biased;
            now = seat.sim.topology.above(topology) => {
                topology = now;
                tokio::time::sleep(PAUSE).await;
            }
            () = tokio::time::sleep(AGAIN * 8) => {}
        }
    }
}

/// Whether a request arrives and its answer comes back.
fn connected(seat: &Seat, peer: usize) -> bool {
    let world = seat.sim.world();
    world.hosts[peer].has_agent() && world.links.both(Plane::Agents, seat.host, peer)
}

/// Follows one connection; returns when it breaks.
async fn follow(seat: &Seat, board: &Board, peer: usize, name: &NodeName, topology: &mut u64) {
    if !connected(seat, peer) {
        return;
    }
    let Some(agent) = seat.sim.agent(peer) else { return };
    let run = seat.sim.world().hosts[peer].run;
    loop {
        seat.pause(2).await;
        seat.sim.note_messages();
        let version = agent.status_version();
        let (status, pushed) = {
            let status = agent.status();
            let mut world = seat.sim.world();
            let pushed = liar::pushed(&mut world, peer, &status);
            (liar::status(&mut world, peer, status), pushed)
        };
        if !is_expected(name, &status) {
            return;
        }
        board.set(name, Fact::Known(status));
        if let (Some(genesis), Some(own)) = (pushed, seat.sim.agent(seat.host)) {
            // A refused message has no effect.
            let _ = own.learn(Learn { genesis }).await;
        }
        tokio::time::sleep(PAUSE).await;
        let poll = tokio::time::Instant::now();
        loop {
            tokio::select! {
                biased;
                () = agent.status_after(version) => {}
                now = seat.sim.topology.above(*topology) => *topology = now,
                () = tokio::time::sleep(WAIT) => {}
            }
            if seat.sim.world().hosts[peer].run != run {
                // The kernel of a running host reports at once that nothing listens any more.
                if seat.sim.world().hosts[peer].up {
                    return;
                }
            } else if connected(seat, peer) {
                if agent.status_version() > version || poll.elapsed() >= WAIT {
                    break;
                }
                continue;
            }
            if !unnoticed(seat, peer, run, topology).await {
                return;
            }
        }
    }
}

/// A link that breaks silently is noticed late, or never if it works again first.
async fn unnoticed(seat: &Seat, peer: usize, run: u64, topology: &mut u64) -> bool {
    let limit = Duration::from_millis(seat.sim.world().rng.below(UNNOTICED_MS));
    let end = tokio::time::Instant::now() + limit;
    loop {
        tokio::select! {
            biased;
            () = tokio::time::sleep_until(end) => return false,
            now = seat.sim.topology.above(*topology) => *topology = now,
        }
        let same = seat.sim.world().hosts[peer].run == run;
        if !same || !seat.is_alive() {
            return false;
        }
        if connected(seat, peer) {
            return true;
        }
    }
}
