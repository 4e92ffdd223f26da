//! The agent's ports onto the simulated world.

mod backups;
mod board;
mod etcd;
mod files;
mod peers;
mod seat;
mod service;
mod state;
mod store;

use std::sync::Arc;
use std::sync::atomic::Ordering;

use etcd_agent::agent::Ports;
use etcd_agent::ports::ObjectStore;

use crate::sim::Sim;

pub use board::{Board, watch};
pub use files::Files;
pub use seat::Seat;

/// All ports of one run, and the board on which the statuses of its peers arrive.
pub fn ports(seat: &Arc<Seat>, board: &Arc<Board>) -> Ports {
    let has_store = seat.sim.world().store.is_some();
    Ports {
        service: Arc::new(service::Service(seat.clone())),
        etcd: Arc::new(etcd::LocalEtcd {
            seat: seat.clone(),
            host: seat.host,
        }),
        peers: Arc::new(peers::Others {
            seat: seat.clone(),
            board: board.clone(),
        }),
        store: has_store.then(|| Arc::new(store::Bucket(seat.clone())) as Arc<dyn ObjectStore>),
        backups: Arc::new(backups::Work(seat.clone())),
        state: Arc::new(state::Disk(seat.clone())),
        clock: seat.clone(),
    }
}

/// Sets how far a host's clock is off.
pub fn set_skew(sim: &Sim, host: usize, ms: i64) {
    sim.skew[host].store(ms, Ordering::Relaxed);
}
