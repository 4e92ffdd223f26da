//! Stops that systemd refuses: polkit or the bus restarts, or a job is cancelled.

use etcd_agent_sim::{Fault, Outcome, Schedule, run};

/// With `size` voters among three electors, the stop on `victim` fails `times` times during a restore.
fn a_stop_fails(seed: u64, size: usize, victim: usize, times: u32) -> Outcome {
    let mut schedule = Schedule::calm(seed, 3, size, true);
    schedule.faults.push((19_000, Fault::StopsFail(victim, times)));
    schedule.faults.push((20_000, Fault::Restore(1)));
    schedule.faults.push((140_000, Fault::Mend));
    run(&schedule, true)
}

#[test]
fn c02_a_stop_that_fails_during_a_restore_is_made_up_for() {
    for size in [1, 3] {
        for victim in 0..size {
            for times in [1, 2, 6] {
                let outcome = a_stop_fails(7, size, victim, times);
                let history = outcome.history.join("\n");
                assert_eq!(outcome.violation, None, "{history}");
                assert_eq!(outcome.excuse, None, "{history}");
                let refused = outcome
                    .history
                    .iter()
                    .filter(|l| l.contains("systemd refuses"))
                    .count();
                assert_eq!(refused, times as usize, "{history}");
            }
        }
    }
}

#[test]
#[cfg(feature = "mutants")]
fn rule_1_an_etcd_of_an_older_epoch_is_forgotten() {
    use etcd_agent::mutant::{Mutant, set};
    set(Some(Mutant::StopForgotten));
    let violation = a_stop_fails(7, 1, 0, 1).violation;
    set(None);
    let violation = violation.expect("no violation, although two epochs are served");
    assert!(violation.starts_with("rule 1:"), "{violation}");
}
