//! Calm schedules, random ones, regressions, and a check that the seed determines everything. More random
//! ones: `make sim SEEDS=…`.

#![allow(clippy::print_stdout)]

use std::collections::BTreeMap;
use std::sync::Mutex;

use etcd_agent_sim::{Coverage, Schedule, number_from_env, run, run_many, start};

/// These take a minute or two. `make sim` runs more.
const SCHEDULES: u64 = 15_000;

#[test]
fn the_same_seed_gives_the_same_history_byte_for_byte() {
    for seed in 0..40 {
        let schedule = Schedule::of(seed);
        let (first, second) = (run(&schedule, true), run(&schedule, true));
        assert!(first.history.len() > 10, "seed {seed} has almost no history");
        assert_eq!(first, second, "seed {seed} runs in two ways");
        let silent = run(&schedule, false);
        assert_eq!(
            (first.ended, first.crossings),
            (silent.ended, silent.crossings),
            "seed {seed} runs differently when nobody reads its history"
        );
    }
}

#[test]
fn calm_clusters_form_and_stay_whole() {
    for (nodes, size) in [(1, 1), (3, 3), (3, 1), (4, 3), (5, 5)] {
        for store in [false, true] {
            let outcome = run(&Schedule::calm(7, nodes, size, store), true);
            let history = outcome.history.join("\n");
            assert_eq!(outcome.violation, None, "{nodes} nodes, store {store}\n{history}");
            assert_eq!(outcome.excuse, None, "{nodes} nodes, store {store}\n{history}");
        }
    }
}

#[test]
fn regressions_stay_fixed() {
    let seeds = include_str!("../../regressions.txt");
    for line in seeds
        .lines()
        .filter(|line| !line.is_empty() && !line.starts_with('#'))
    {
        let (generate, seed): (fn(u64) -> Schedule, &str) = match line.split_once(' ') {
            Some(("long", rest)) => (Schedule::long, rest),
            Some(("any", rest)) => (Schedule::of, rest),
            _ => (Schedule::random, line),
        };
        let seed = seed.split_whitespace().next().and_then(|word| word.parse().ok());
        let seed = seed.unwrap_or_else(|| panic!("regressions.txt: {line:?} does not begin with a seed"));
        let schedule = generate(seed);
        let outcome = run(&schedule, true);
        assert_eq!(outcome.violation, None, "{line}\n{}", outcome.history.join("\n"));
    }
}

#[test]
fn no_random_schedule_breaks_a_rule() {
    let first = start().expect("the sources, from which the first seed is computed");
    let (schedules, start) = (
        number_from_env("SEEDS", SCHEDULES),
        number_from_env("START", first),
    );
    println!("{schedules} schedules from seed {start} on (again: SEEDS={schedules} START={start})");
    let violations = Mutex::new(BTreeMap::new());
    let coverage = Mutex::new(Coverage::default());
    run_many(schedules, start, |seed, outcome| {
        coverage.lock().unwrap().add(&outcome.seen);
        if let Some(violation) = outcome.violation {
            violations.lock().unwrap().insert(seed, violation);
        }
    });
    let violations = violations.into_inner().unwrap();
    assert!(
        violations.is_empty(),
        "`make sim REPLAY=seed` shows more: {violations:#?}"
    );
    let coverage = coverage.into_inner().unwrap();
    println!("schedules in which each was seen:\n{}", coverage.table());
    assert_eq!(
        coverage.missed(),
        [""; 0],
        "a run that saw this too rarely, or too often, proves nothing"
    );
}
