//! Data that could not be inspected is unknown, not lost (rule 8).

use etcd_agent_sim::world::{Broken, Call, How};
use etcd_agent_sim::{Fault, Outcome, Schedule, run};

fn whole(outcome: &Outcome) {
    let history = outcome.history.join("\n");
    assert_eq!(outcome.violation, None, "{history}");
    assert_eq!(outcome.excuse, None, "{history}");
}

/// The agent of n2 is reinstalled, and its data directory cannot be inspected when its host boots. Nothing
/// starts etcd until the inspection succeeds.
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

/// The data directory of n2 is on a device that is mounted long after its host has booted. With `forgets` the
/// agent there was reinstalled before, and has taken over its running member.
fn a_mount_is_late(seed: u64, forgets: bool) -> Outcome {
    let mut schedule = Schedule::calm(seed, 3, 3, seed.is_multiple_of(2));
    if forgets {
        schedule.faults.push((15_000, Fault::Reinstall(1)));
    }
    schedule.faults.push((25_000, Fault::LateMount(1, 60_000)));
    schedule.faults.push((110_000, Fault::Mend));
    run(&schedule, true)
}

#[test]
fn c10d_a_member_whose_data_is_mounted_late_stays_a_member() {
    for seed in 0..10 {
        let outcome = a_mount_is_late(seed, false);
        whole(&outcome);
        let history = outcome.history.join("\n");
        assert!(
            outcome
                .seen
                .contains("check data is on a device that is not mounted"),
            "{history}"
        );
        assert!(history.contains("n2 mounts its data directory"), "{history}");
        assert!(
            !history.contains(" removes ") && !history.contains(" archives "),
            "{history}"
        );
    }
}

#[test]
fn c10d_an_agent_that_took_a_member_over_knows_what_held_its_data() {
    for seed in 0..10 {
        let outcome = a_mount_is_late(seed, true);
        whole(&outcome);
        let history = outcome.history.join("\n");
        assert!(
            !history.contains(" removes ") && !history.contains(" archives "),
            "{history}"
        );
    }
}

/// The agent of n2 is reinstalled and cannot inspect the data directory before its host boots without that
/// disk. It cannot know of the disk (`docs/safety.md`), so its member is replaced, through quorum.
#[test]
fn c10d_a_new_memory_that_could_not_look_does_not_know_of_the_mount() {
    for seed in 0..10 {
        let mut schedule = Schedule::calm(seed, 3, 3, seed.is_multiple_of(2));
        let broken = Broken {
            call: Call::Inspect,
            how: How::Refused,
            times: Some(6),
        };
        schedule.faults.push((15_000, Fault::Breaks(1, broken)));
        schedule.faults.push((15_100, Fault::Reinstall(1)));
        schedule.faults.push((16_400, Fault::LateMount(1, 60_000)));
        schedule.faults.push((110_000, Fault::Mend));
        whole(&run(&schedule, true));
    }
}

#[test]
#[cfg(feature = "mutants")]
fn c10d_an_agent_that_does_not_note_the_mount_is_found_out() {
    use etcd_agent::mutant::{Mutant, set};
    set(Some(Mutant::MountForgotten));
    let outcome = a_mount_is_late(0, true);
    set(None);
    let violation = outcome.violation.unwrap_or_default();
    let history = outcome.history.join("\n");
    assert!(violation.starts_with("rule 8:"), "{violation}\n{history}");
}

#[test]
#[cfg(feature = "mutants")]
fn an_agent_that_goes_on_telling_a_loss_while_etcd_starts_is_found_out() {
    use etcd_agent::mutant::{Mutant, set};
    set(Some(Mutant::LookStillReported));
    let outcome = run(&Schedule::calm(0, 3, 3, false), true);
    set(None);
    let violation = outcome.violation.unwrap_or_default();
    assert!(violation.starts_with("rule 8:"), "{violation}");
}
