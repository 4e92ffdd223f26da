//! Members whose data differs from the others': who is rebuilt, and who is not.

use etcd_agent_sim::{Fault, Outcome, Schedule, run};

use crate::by_seed::none_breaks_a_rule;

/// How many random schedules.
const SCHEDULES: u64 = 600;

/// The outcome of a schedule in which the data of these hosts' members begins to differ, and its history.
fn run_with(seed: u64, nodes: usize, repairs: bool, hosts: &[usize]) -> (Outcome, String) {
    let mut schedule = Schedule::calm(seed, nodes, nodes, false);
    schedule.repairs = repairs;
    for host in hosts {
        schedule.faults.push((20_000, Fault::Differs(*host)));
    }
    schedule.faults.push((120_000, Fault::Mend));
    let outcome = run(&schedule, true);
    let history = outcome.history.join("\n");
    assert_eq!(outcome.violation, None, "{history}");
    (outcome, history)
}

const REBUILT: &str = "event a member that differs is removed";

#[test]
fn a_member_whose_data_differs_is_rebuilt_if_it_shall_be() {
    for (seed, nodes) in [(0, 3), (1, 3), (2, 5)] {
        for host in 0..3 {
            let (outcome, history) = run_with(seed, nodes, true, &[host]);
            assert!(outcome.seen.contains(REBUILT), "{history}");
        }
        let (outcome, history) = run_with(seed, nodes, false, &[1]);
        assert!(!outcome.seen.contains(REBUILT), "{history}");
    }
}

#[test]
fn two_of_five_are_rebuilt_from_the_data_of_the_majority() {
    for seed in 0..5 {
        let (outcome, history) = run_with(seed, 5, true, &[1, 3]);
        assert!(outcome.seen.contains(REBUILT), "{history}");
    }
}

#[test]
fn nobody_is_rebuilt_where_no_majority_has_the_same_data() {
    for (seed, nodes, hosts) in [(0, 3, &[0, 1][..]), (1, 2, &[1]), (2, 5, &[0, 2, 4])] {
        let (outcome, history) = run_with(seed, nodes, true, hosts);
        assert!(!outcome.seen.contains(REBUILT), "{history}");
    }
}

#[test]
fn rule_5_members_that_differ_are_rebuilt_under_faults_only_from_a_majority() {
    let [rebuilt] = none_breaks_a_rule(SCHEDULES, Schedule::with_differences, [REBUILT]);
    assert!(
        rebuilt > SCHEDULES / 5,
        "only {rebuilt} schedules had a member that was rebuilt"
    );
}

#[cfg(feature = "mutants")]
mod mutants {
    use etcd_agent::mutant::{Mutant, set};
    use etcd_agent_sim::{Fault, Schedule, run};

    #[test]
    fn rule_5_an_agent_that_trusts_any_hash_is_found_out() {
        let violates = |seed| {
            let mut schedule = Schedule::calm(seed, 3, 3, false);
            schedule.repairs = true;
            schedule.faults.push((20_000, Fault::Differs(0)));
            schedule.faults.push((20_000, Fault::Differs(1)));
            schedule.faults.push((120_000, Fault::Mend));
            set(Some(Mutant::TrustsAnyHash));
            let violation = run(&schedule, false).violation;
            set(None);
            violation.is_some_and(|text| text.starts_with("rule 5:"))
        };
        assert!((0..10).any(violates), "nothing broke rule 5");
    }
}
