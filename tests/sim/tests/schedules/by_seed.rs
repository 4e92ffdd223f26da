//! Random schedules of one kind.
#![allow(clippy::panic, clippy::expect_used)]

use etcd_agent_sim::{Outcome, Schedule, number_from_env, run, start};

/// Runs `count` schedules, each derived from its seed by `of`. The first seed is computed from the sources, so that each
/// change runs others; SEEDS=… and START=… choose them. Returns in how many of them each of these things was seen.
///
/// # Panics
/// If a schedule breaks a rule. The message has its seed and its history.
pub(crate) fn none_breaks_a_rule<const N: usize>(
    count: u64,
    of: fn(u64) -> Schedule,
    things: [&str; N],
) -> [u64; N] {
    let first = start().expect("the sources, from which the first seed is computed");
    let start = number_from_env("START", first);
    let mut seen = [0; N];
    for seed in start..start + number_from_env("SEEDS", count) {
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
