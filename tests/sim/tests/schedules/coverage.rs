//! A large run that saw too little fails.

use etcd_agent_sim::Coverage;

/// The number of schedules that the floors are for.
const MANY: u64 = 10_000;

fn runs(schedules: u64, seen: &[&str]) -> Coverage {
    let seen = seen.iter().map(|name| (*name).to_owned()).collect();
    let mut coverage = Coverage::default();
    for _ in 0..schedules {
        coverage.add(&seen);
    }
    coverage
}

#[test]
fn t05_a_large_run_that_saw_something_too_rarely_fails() {
    let names: Vec<&str> = include_str!("../../floors.txt")
        .lines()
        .filter_map(|line| line.split_once(' '))
        .map(|(_, name)| name)
        .collect();
    assert_eq!(runs(MANY, &names).missed(), [""; 0], "everything was seen always");
    for left_out in [
        "fault LateMount",
        "fault StoreDiffers",
        "fault Foreign",
        "order restore done",
    ] {
        let others: Vec<&str> = names.iter().copied().filter(|name| *name != left_out).collect();
        assert_eq!(others.len() + 1, names.len(), "{left_out} has a floor");
        let missed = runs(MANY, &others).missed();
        assert!(
            matches!(missed.as_slice(), [one] if one.starts_with(left_out)),
            "{missed:?}"
        );
    }
    let excused: Vec<&str> = names.iter().copied().chain(["excuse any"]).collect();
    let missed = runs(MANY, &excused).missed();
    assert!(
        matches!(missed.as_slice(), [one] if one.starts_with("excuse any")),
        "{missed:?}"
    );
    assert_eq!(runs(MANY - 1, &[]).missed(), [""; 0], "a small run shows nothing");
}
