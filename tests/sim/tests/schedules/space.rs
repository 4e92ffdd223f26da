//! Defragmentation, one member at a time (rule 4), and the way back from NOSPACE.

use etcd_agent_sim::{Fault, Outcome, Schedule, run};

use crate::by_seed::none_breaks_a_rule;

/// How many random schedules.
const SCHEDULES: u64 = 800;

/// The outcome of a schedule without faults that breaks no rule, and its history. The last fault comes `ms`
/// after the first one.
fn run_well(seed: u64, nodes: usize, faults: &[Fault], ms: u64) -> (Outcome, String) {
    let mut schedule = Schedule::calm(seed, nodes, nodes, false);
    for fault in faults {
        schedule.faults.push((20_000, fault.clone()));
    }
    schedule.faults.push((20_000 + ms, Fault::Mend));
    let outcome = run(&schedule, true);
    let history = outcome.history.join("\n");
    assert_eq!(outcome.violation, None, "{history}");
    (outcome, history)
}

#[test]
fn s36_databases_with_much_free_space_are_defragmented_one_after_the_other() {
    for (seed, nodes) in [(0, 3), (1, 3), (2, 5), (3, 1)] {
        let faults: Vec<Fault> = (0..nodes).map(Fault::Fragments).collect();
        let (_, history) = run_well(seed, nodes, &faults, 60_000);
        // The only member would serve nothing meanwhile.
        let expected = if nodes == 1 { 0 } else { nodes };
        assert_eq!(history.matches("defragments etcd").count(), expected, "{history}");
    }
}

#[test]
fn s36_an_ordered_defragmentation_is_carried_out_once_on_each_node() {
    for (seed, nodes) in [(0, 3), (1, 5), (2, 1)] {
        let (outcome, history) = run_well(seed, nodes, &[Fault::DefragAll(0)], 60_000);
        assert_eq!(history.matches("defragments etcd").count(), nodes, "{history}");
        assert!(outcome.seen.contains("order defrag done"), "{history}");
    }
}

#[test]
fn s36_no_space_ends_without_an_operator() {
    for (seed, nodes) in [(0, 3), (1, 5), (2, 1)] {
        let (outcome, history) = run_well(seed, nodes, &[Fault::FillsUp], 60_000);
        assert_eq!(history.matches("defragments etcd").count(), nodes, "{history}");
        assert!(outcome.seen.contains("event NOSPACE is disarmed"), "{history}");
    }
}

#[test]
fn rule_4_defragmentations_under_faults_take_one_member_at_a_time() {
    let [defragmented, recovered] = none_breaks_a_rule(
        SCHEDULES,
        Schedule::with_little_space,
        ["event a defragmentation", "event NOSPACE is disarmed"],
    );
    assert!(
        defragmented > SCHEDULES / 2,
        "only {defragmented} schedules had a defragmentation"
    );
    assert!(
        recovered > SCHEDULES / 8,
        "only {recovered} schedules had NOSPACE"
    );
}

#[cfg(feature = "mutants")]
mod mutants {
    use etcd_agent::mutant::{Mutant, set};
    use etcd_agent_sim::{Fault, Schedule, run};

    /// etcd goes on when its agent dies and loses its memory.
    #[test]
    fn rule_4_an_agent_that_forgets_a_defragmentation_is_found_out() {
        let violates = |at, host| {
            let mut schedule = Schedule::calm(0, 3, 3, false);
            schedule.faults.push((20_000, Fault::DefragAll(0)));
            schedule.faults.push((at, Fault::Reinstall(host)));
            set(Some(Mutant::DefragForgotten));
            let violation = run(&schedule, false).violation;
            set(None);
            assert_eq!(run(&schedule, false).violation, None, "{schedule:?}");
            violation.is_some_and(|text| text.starts_with("rule 4:"))
        };
        let mut moments = (20_200..26_000).step_by(200);
        assert!(
            moments.any(|at| (0..3).any(|host| violates(at, host))),
            "nothing broke rule 4"
        );
    }
}
