//! Many schedules on all cores.

use std::num::NonZero;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::driver::{Outcome, run};
use crate::schedule::Schedule;

/// Seeds that a thread takes at a time.
const BATCH: u64 = 64;

/// Runs the random schedules of `seeds` seeds from `start` on, on all cores; `each` hears of every one, in no order.
pub fn run_many(seeds: u64, start: u64, each: impl Fn(u64, Outcome) + Sync) {
    let next = AtomicU64::new(0);
    let cores = std::thread::available_parallelism().map_or(1, NonZero::get);
    std::thread::scope(|scope| {
        for _ in 0..cores {
            scope.spawn(|| {
                loop {
                    let first = next.fetch_add(BATCH, Ordering::Relaxed);
                    if first >= seeds {
                        return;
                    }
                    for offset in first..(first + BATCH).min(seeds) {
                        let seed = start.saturating_add(offset);
                        each(seed, run(&Schedule::random(seed), false));
                    }
                }
            });
        }
    });
}
