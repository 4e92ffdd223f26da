//! Data that nobody could look at is unknown, and not lost (rule 8).

use etcd_agent_sim::{Fault, Outcome, Schedule, run};

fn whole(outcome: &Outcome) {
    let history = outcome.history.join("\n");
    assert_eq!(outcome.violation, None, "{history}");
    assert_eq!(outcome.excuse, None, "{history}");
}

/// The agent of n2 is installed anew, and nobody can look into the data directory there when its host boots. Nothing starts
/// etcd until that is done.
fn a_directory_cannot_be_looked_into(seed: u64) -> Outcome {
    let mut schedule = Schedule::calm(seed, 3, 3, false);
    schedule.faults.push((19_000, Fault::InspectFails(1)));
    schedule.faults.push((19_000, Fault::Reinstall(1)));
    schedule.faults.push((19_100, Fault::PowerOff(1, 2000)));
    schedule.faults.push((60_000, Fault::Mend));
    run(&schedule, true)
}

#[test]
fn c10d_a_directory_that_cannot_be_looked_into_costs_no_membership() {
    for seed in 0..5 {
        let outcome = a_directory_cannot_be_looked_into(seed);
        whole(&outcome);
        let removed = outcome.history.iter().any(|line| line.contains(" removes "));
        assert!(!removed, "{:#?}", outcome.history);
    }
}

#[test]
#[cfg(feature = "mutants")]
fn c10d_what_is_unknown_and_taken_for_lost_is_found_out() {
    use etcd_agent::mutant::{Mutant, set};
    set(Some(Mutant::UnknownIsLost));
    let outcome = a_directory_cannot_be_looked_into(0);
    set(None);
    let violation = outcome.violation.unwrap_or_default();
    let history = outcome.history.join("\n");
    assert!(violation.starts_with("rule 8:"), "{violation}\n{history}");
}
