//! Orders that are typed on a node that cannot carry them out.

use etcd_agent_sim::{Fault, Outcome, Schedule, run};

/// A backup and a change of the leader are ordered on a spare.
fn ordered_at_a_spare(seed: u64) -> Outcome {
    let mut schedule = Schedule::calm(seed, 4, 3, true);
    schedule.faults.push((20_000, Fault::Backup(3)));
    schedule.faults.push((30_000, Fault::MoveLeader(3, None)));
    run(&schedule, true)
}

#[test]
fn h09_what_is_ordered_at_a_spare_is_handed_on() {
    for seed in 0..5 {
        let outcome = ordered_at_a_spare(seed);
        let history = outcome.history.join("\n");
        assert_eq!(outcome.violation, None, "{history}");
        assert_eq!(outcome.excuse, None, "{history}");
        assert!(outcome.seen.contains("order backup done"), "{history}");
        assert!(outcome.seen.contains("order move leader done"), "{history}");
    }
}

#[test]
#[cfg(feature = "mutants")]
fn h09_an_order_that_stays_where_it_cannot_be_carried_out_is_found_out() {
    use etcd_agent::mutant::{Mutant, set};
    set(Some(Mutant::HandsNothingOver));
    let outcome = ordered_at_a_spare(0);
    set(None);
    let history = outcome.history.join("\n");
    for order in ["order backup done", "order move leader done"] {
        assert!(!outcome.seen.contains(order), "{history}");
    }
}

#[test]
#[cfg(feature = "mutants")]
fn a_node_that_keeps_its_own_orders_against_a_majority_is_found_out() {
    use etcd_agent::mutant::{Mutant, set};
    let schedule = Schedule::long(870_037_407);
    set(Some(Mutant::StaysIn));
    let violation = run(&schedule, false).violation.unwrap_or_default();
    set(None);
    assert!(violation.starts_with("rule 0:"), "{violation}");
    assert_eq!(run(&schedule, false).violation, None);
}

#[test]
fn a_restart_of_one_node_restarts_no_other_one() {
    for seed in 0..5 {
        for node in 0..3 {
            let mut schedule = Schedule::calm(seed, 3, 3, false);
            schedule.faults.push((20_000, Fault::RestartOne(0, node)));
            let outcome = run(&schedule, true);
            let history = outcome.history.join("\n");
            assert_eq!(outcome.violation, None, "{history}");
            assert!(outcome.seen.contains("order restart done"), "{history}");
            let restarts = history.matches(" restarts etcd").count();
            let there = history.contains(&format!("n{} restarts etcd", node + 1));
            assert!(there && restarts == 1, "{history}");
        }
    }
}

#[test]
fn the_rest_of_a_defragmentation_is_cancelled() {
    for seed in 0..5 {
        let mut schedule = Schedule::calm(seed, 3, 3, false);
        schedule.faults.push((20_000, Fault::DefragAll(0)));
        schedule.faults.push((21_000, Fault::CancelDefrag(1)));
        let outcome = run(&schedule, true);
        let history = outcome.history.join("\n");
        assert_eq!(outcome.violation, None, "{history}");
        assert!(outcome.seen.contains("order cancel defrag done"), "{history}");
        assert!(
            history.matches(" defragments etcd").count() < 3,
            "nothing was left to be cancelled: {history}"
        );
    }
}

/// The only member of a cluster with spares is ordered out.
#[test]
fn the_only_member_that_is_ordered_out_makes_way_for_a_spare() {
    for seed in 0..10 {
        let mut schedule = Schedule::calm(seed, 3, 1, true);
        schedule.faults.push((20_000, Fault::Out(0, 0)));
        let outcome = run(&schedule, true);
        let history = outcome.history.join("\n");
        assert_eq!(outcome.violation, None, "{history}");
        assert_eq!(outcome.excuse, None, "{history}");
        assert!(outcome.seen.contains("order out done"), "{history}");
    }
}
