//! An etcd without quorum does not answer. Its data identifies its cluster (rule 1).

use etcd_agent_sim::{Fault, Outcome, Schedule, run};

/// n3 is cut off and its etcd is killed, so that the restarted etcd waits for quorum. Its agent is
/// reinstalled. Meanwhile the others are restored, so the etcd on n3 is of the previous epoch.
fn a_new_memory_next_to_a_replaced_etcd(seed: u64) -> Outcome {
    let mut schedule = Schedule::calm(seed, 3, 3, true);
    schedule.faults.push((15_000, Fault::Isolate(2)));
    schedule.faults.push((15_500, Fault::KillEtcd(2)));
    schedule.faults.push((17_000, Fault::Reinstall(2)));
    schedule.faults.push((20_000, Fault::Restore(0)));
    schedule.faults.push((60_000, Fault::Mend));
    run(&schedule, true)
}

#[test]
fn a_replaced_etcd_that_waits_for_quorum_is_stopped() {
    for seed in 0..10 {
        let outcome = a_new_memory_next_to_a_replaced_etcd(seed);
        let history = outcome.history.join("\n");
        assert_eq!(outcome.violation, None, "{history}");
        assert_eq!(outcome.excuse, None, "{history}");
        assert!(outcome.seen.contains("action stop-etcd"), "{history}");
    }
}

#[test]
#[cfg(feature = "mutants")]
fn an_agent_that_does_not_ask_whose_data_it_has_is_found_out() {
    use etcd_agent::mutant::{Mutant, set};
    set(Some(Mutant::SilentUnknown));
    let outcome = a_new_memory_next_to_a_replaced_etcd(0);
    set(None);
    let violation = outcome.violation.unwrap_or_default();
    assert!(
        violation.starts_with("rule 1:"),
        "{violation}\n{}",
        outcome.history.join("\n")
    );
}
