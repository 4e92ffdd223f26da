//! Many schedules on all cores.

use std::fs;
use std::num::NonZero;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use crate::driver::{Outcome, run};
use crate::schedule::Schedule;

/// Seeds that a thread takes at a time.
const BATCH: u64 = 64;
/// The number of seeds that `start` can return.
const STARTS: u64 = 1_000_000;
/// The distance between two of them.
const ROUND: u64 = 100_000;

/// A number from the environment: `SEEDS` or `START`.
pub fn number_from_env(name: &str, otherwise: u64) -> u64 {
    let number = std::env::var(name).ok().and_then(|text| text.parse().ok());
    number.unwrap_or(otherwise)
}

/// Runs the schedules of `seeds` seeds from `start` on, on all cores. Calls `each` for every one, in any
/// order.
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
                        each(seed, run(&Schedule::of(seed), false));
                    }
                }
            });
        }
    });
}

/// The first seed of a run without a given one. It differs for each state of the sources.
///
/// # Errors
/// When the sources cannot be read.
pub fn start() -> std::io::Result<u64> {
    let sim = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut files = Vec::new();
    for sources in [sim.join("src"), sim.join("../../src")] {
        files_below(&sources, &mut files)?;
    }
    files.sort();
    // FNV-1a, the same on every machine.
    let mut sum = 0xcbf2_9ce4_8422_2325_u64;
    for file in files {
        for byte in fs::read(file)? {
            sum = (sum ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
        }
    }
    Ok(sum % STARTS * ROUND)
}

fn files_below(dir: &Path, files: &mut Vec<PathBuf>) -> std::io::Result<()> {
    for entry in fs::read_dir(dir)? {
        let path = entry?.path();
        if path.is_dir() {
            files_below(&path, files)?;
        } else {
            files.push(path);
        }
    }
    Ok(())
}
