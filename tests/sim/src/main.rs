//! `sim SEEDS [START]`: runs that many schedules from that first seed, on all cores. `sim replay SEED`:
//! prints one.
#![allow(clippy::print_stdout, clippy::print_stderr)]

use std::collections::BTreeMap;
use std::io::IsTerminal;
use std::process::ExitCode;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use etcd_agent_sim::{Coverage, Outcome, Schedule, load, run, run_many, start};

/// The interval between two lines of progress.
const TELL_EVERY: Duration = Duration::from_secs(1);

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let number = |text: &str| text.parse::<u64>().ok();
    match words.as_slice() {
        ["bench"] => bench(),
        ["replay", seed] if number(seed).is_some() => replay(number(seed).unwrap_or_default()),
        [seeds] if number(seeds).is_some() => match start() {
            Ok(start) => many(number(seeds).unwrap_or_default(), start),
            Err(error) => {
                eprintln!("cannot read the sources, from which the first seed is computed: {error}");
                ExitCode::FAILURE
            }
        },
        [seeds, start] if number(seeds).is_some() && number(start).is_some() => many(
            number(seeds).unwrap_or_default(),
            number(start).unwrap_or_default(),
        ),
        _ => {
            eprintln!("usage: sim SEEDS [START] | sim replay SEED");
            ExitCode::from(2)
        }
    }
}

/// A hundred candidates for five members at the default pace.
fn bench() -> ExitCode {
    let Some(load) = load(100, 5) else {
        println!("candidates_100: no cluster was formed");
        return ExitCode::FAILURE;
    };
    println!(
        "candidates_100: planning {:.3} ms per tick, {:.1} messages per node and second (simulated, size 5)",
        load.plan_ms, load.messages_per_second
    );
    ExitCode::SUCCESS
}

/// Prints the history of one seed.
fn replay(seed: u64) -> ExitCode {
    let schedule = Schedule::of(seed);
    println!("{schedule:?}");
    let outcome = run(&schedule, true);
    for line in &outcome.history {
        println!("{line}");
    }
    println!(
        "ended after {} ms, {} crossings; excuse: {}; violation: {}",
        outcome.ended,
        outcome.crossings,
        outcome.excuse.unwrap_or("none"),
        outcome.violation.as_deref().unwrap_or("none")
    );
    if outcome.violation.is_some() {
        ExitCode::FAILURE
    } else {
        ExitCode::SUCCESS
    }
}

#[derive(Default)]
struct Sum {
    violations: BTreeMap<u64, String>,
    excuses: BTreeMap<&'static str, u64>,
    coverage: Coverage,
    crossings: u64,
    simulated_ms: u64,
}

impl Sum {
    fn add(&mut self, seed: u64, outcome: Outcome) {
        self.crossings += outcome.crossings;
        self.simulated_ms += outcome.ended;
        self.coverage.add(&outcome.seen);
        if let Some(excuse) = outcome.excuse {
            *self.excuses.entry(excuse).or_default() += 1;
        }
        if let Some(violation) = outcome.violation {
            eprintln!("seed {seed}: {violation}");
            self.violations.insert(seed, violation);
        }
    }
}

fn many(seeds: u64, start: u64) -> ExitCode {
    let begun = Instant::now();
    let done = AtomicU64::new(0);
    let sum = Mutex::new(Sum::default());
    std::thread::scope(|scope| {
        scope.spawn(|| {
            run_many(seeds, start, |seed, outcome| {
                sum.lock()
                    .unwrap_or_else(PoisonError::into_inner)
                    .add(seed, outcome);
                done.fetch_add(1, Ordering::Relaxed);
            });
        });
        while std::io::stderr().is_terminal() && done.load(Ordering::Relaxed) < seeds {
            eprint!("\r{} of {seeds} schedules", done.load(Ordering::Relaxed));
            std::thread::sleep(TELL_EVERY.min(Duration::from_millis(seeds)));
        }
    });
    let sum = sum.into_inner().unwrap_or_else(PoisonError::into_inner);
    if let Some(seed) = sum.violations.keys().next() {
        println!("the history of seed {seed} (again by `make sim REPLAY={seed}`):");
        replay(*seed);
    }
    println!(
        "{:.1} s simulated and {} crossings of a port for each schedule",
        Duration::from_millis(sum.simulated_ms).as_secs_f64() / count(seeds),
        sum.crossings / seeds.max(1)
    );
    for (excuse, times) in &sum.excuses {
        println!("{times} did not recover: {excuse}");
    }
    println!("schedules in which each was seen:\n{}", sum.coverage.table());
    let missed = sum.coverage.missed();
    for line in &missed {
        println!("seen too rarely or too often: {line}");
    }
    let rate = count(seeds) / begun.elapsed().as_secs_f64();
    println!("the first seed was {start}; to run the same again: `make sim SEEDS={seeds} START={start}`");
    println!(
        "{seeds} schedules, {} violations, {rate:.0} schedules per second",
        sum.violations.len()
    );
    if sum.violations.is_empty() && missed.is_empty() {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    }
}

#[allow(clippy::cast_precision_loss)]
fn count(number: u64) -> f64 {
    number.max(1) as f64
}
