//! No empty cluster is formed while there is data, even if a node could not inspect its own.

use etcd_agent_sim::{Fault, Outcome, Schedule, run};

/// One of five hosts holds data of an unknown cluster, and the data directory of another cannot be inspected.
/// After a minute people repair both.
fn data_on_one_of_five(seed: u64) -> Outcome {
    let mut schedule = Schedule::calm(seed, 5, 3, false);
    schedule.faults.push((0, Fault::InspectFails(0)));
    schedule.faults.push((0, Fault::Foreign(4)));
    schedule.faults.push((60_000, Fault::Mend));
    run(&schedule, true)
}

#[test]
fn t01_nothing_is_formed_despite_data_where_another_node_cannot_be_looked_into() {
    for seed in 0..10 {
        let outcome = data_on_one_of_five(seed);
        let history = outcome.history.join("\n");
        assert_eq!(outcome.violation, None, "{history}");
        assert_eq!(outcome.excuse, None, "{history}");
        let (before, after) = history.split_once("-- Mend").expect("a repair by people");
        assert!(
            !before.contains("was chosen") && after.contains("was chosen"),
            "{history}"
        );
    }
}

/// One of three hosts holds data of another cluster when its agent starts. People move it away after a
/// minute.
fn foreign_data_on_one_of_three(seed: u64) -> Outcome {
    let mut schedule = Schedule::calm(seed, 3, 3, false);
    schedule.faults.push((20_000, Fault::Foreign(2)));
    schedule.faults.push((80_000, Fault::Mend));
    run(&schedule, true)
}

#[test]
fn a_node_goes_on_once_people_have_moved_data_of_another_cluster_away() {
    for seed in 0..10 {
        let outcome = foreign_data_on_one_of_three(seed);
        let history = outcome.history.join("\n");
        assert_eq!(outcome.violation, None, "{history}");
        assert_eq!(outcome.excuse, None, "{history}");
        let (_, after) = history.split_once("-- Mend").expect("a repair by people");
        assert!(
            !after.contains("agent of n3 starts"),
            "no agent is restarted\n{history}"
        );
        assert!(outcome.ended < 80_000 + 60_000, "it took too long\n{history}");
    }
}

#[test]
#[cfg(feature = "mutants")]
fn a_node_that_looks_once_waits_for_ever() {
    use etcd_agent::mutant::{Mutant, set};
    set(Some(Mutant::LooksOnce));
    let violation = foreign_data_on_one_of_three(0).violation;
    set(None);
    let violation = violation.expect("no violation, although the node waits without end");
    assert!(violation.starts_with("rule 0:"), "{violation}");
}

#[test]
#[cfg(feature = "mutants")]
fn rule_2_an_empty_cluster_is_formed_despite_data() {
    use etcd_agent::mutant::{Mutant, set};
    set(Some(Mutant::FormsDespiteData));
    let violation = data_on_one_of_five(0).violation;
    set(None);
    let violation = violation.expect("no violation, although a cluster was formed next to data");
    assert!(violation.starts_with("rule 2:"), "{violation}");
}
