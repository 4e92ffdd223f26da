//! A large run that saw too little fails.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use etcd_agent::model::{ActionKind, ReasonCode};
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

/// What has a floor.
fn floors() -> impl Iterator<Item = &'static str> {
    let lines = include_str!("../../floors.txt").lines();
    lines.filter_map(|line| Some(line.split_once(' ')?.1))
}

#[test]
fn t05_a_large_run_that_saw_something_too_rarely_fails() {
    let names: Vec<&str> = floors().collect();
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

/// Each line of this file names a test for what random schedules show too rarely: a kind, a name and a file.
const ELSEWHERE: &str = include_str!("../../elsewhere.txt");

#[test]
fn t05_each_action_and_each_reason_has_a_floor_or_a_test_elsewhere() {
    let floors: BTreeSet<&str> = floors().collect();
    let elsewhere: BTreeMap<&str, &str> = ELSEWHERE
        .lines()
        .filter_map(|line| line.rsplit_once(' '))
        .collect();
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let actions = ActionKind::ALL
        .iter()
        .map(|kind| (format!("action {kind}"), format!("::{kind:?}"), kind.to_string()));
    let reasons = ReasonCode::ALL.iter().map(|code| {
        (
            format!("reason {code}"),
            format!("ReasonCode::{code:?}"),
            code.to_string(),
        )
    });
    let mut listed = 0;
    for (name, variant, text) in actions.chain(reasons) {
        let file = elsewhere.get(name.as_str());
        listed += usize::from(file.is_some());
        assert_ne!(
            floors.contains(name.as_str()),
            file.is_some(),
            "{name}: list it in either floors.txt or elsewhere.txt"
        );
        let Some(file) = file else { continue };
        let test = std::fs::read_to_string(root.join(file)).unwrap();
        assert!(
            test.contains(&variant) || test.contains(&format!("\"{text}\"")),
            "{file} says nothing of {name}"
        );
    }
    assert_eq!(
        listed,
        ELSEWHERE.lines().count(),
        "elsewhere.txt has a name that does not exist"
    );
}
