//! Random schedules of one kind.
#![allow(clippy::panic)]

use etcd_agent_sim::{Outcome, Schedule, run, told};

/// Runs `count` schedules, each derived from its seed by `of`; SEEDS=… and START=… choose others. Returns in how many
/// of them each of these things was seen.
///
/// # Panics
/// If a schedule breaks a rule. The message has its history.
pub(crate) fn none_breaks_a_rule<const N: usize>(
    count: u64,
    of: fn(u64) -> Schedule,
    things: [&str; N],
) -> [u64; N] {
    let start = told("START", 0);
    let mut seen = [0; N];
    for seed in start..start + told("SEEDS", count) {
        let outcome = keeps_the_rules(seed, of);
        for (number, thing) in seen.iter_mut().zip(things) {
            *number += u64::from(outcome.seen.contains(thing));
        }
    }
    seen
}

/// The outcome of one of them.
///
/// # Panics
/// If it breaks a rule. The message has its history.
pub(crate) fn keeps_the_rules(seed: u64, of: fn(u64) -> Schedule) -> Outcome {
    let schedule = of(seed);
    let outcome = run(&schedule, false);
    if outcome.violation.is_some() {
        let history = run(&schedule, true).history.join("\n");
        panic!("seed {seed}: {:?}: {schedule:?}\n{history}", outcome.violation);
    }
    outcome
}
