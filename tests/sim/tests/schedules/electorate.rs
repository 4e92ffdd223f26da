//! Nodes are added to `cluster.nodes` while a cluster runs: other electors vote for the next epoch.

#[cfg(feature = "mutants")]
use etcd_agent::mutant::{Mutant, set};
use etcd_agent_sim::{Fault, Outcome, Schedule, run};

/// A cluster of three, to which two nodes will be added.
fn growing(seed: u64) -> Schedule {
    let mut schedule = Schedule::calm(seed, 5, 3, true);
    schedule.newcomers = 2;
    schedule.faults.push((20_000, Fault::Backup(0)));
    schedule
}

fn checked(schedule: &Schedule) -> Outcome {
    let outcome = run(schedule, true);
    let history = outcome.history.join("\n");
    assert_eq!(outcome.violation, None, "{history}");
    assert_eq!(outcome.excuse, None, "{history}");
    assert!(outcome.seen.contains("order restore done"), "{history}");
    assert!(
        outcome.seen.contains("event an epoch of another electorate"),
        "{history}"
    );
    outcome
}

/// Without this guard the schedule breaks rule 1.
#[cfg(feature = "mutants")]
fn breaks_rule_1(mutant: Mutant, schedule: &Schedule) {
    set(Some(mutant));
    let outcome = run(schedule, true);
    set(None);
    let violation = outcome.violation.unwrap_or_default();
    assert!(
        violation.starts_with("rule 1:"),
        "{violation}: {}",
        outcome.history.join("\n")
    );
}

#[test]
fn t05_a_restore_after_a_change_of_the_electorate() {
    for seed in 0..10 {
        let mut schedule = growing(seed);
        for host in 0..3 {
            let at = 22_000 + 3000 * host as u64;
            schedule.faults.push((at, Fault::Widen(host)));
        }
        let host = usize::try_from(seed % 5).unwrap_or(0);
        schedule.faults.push((40_000, Fault::Restore(host)));
        checked(&schedule);
    }
}

/// Only n3 has the new list. n3 and the newcomers are a majority of the new list, and are cut off from the
/// two others, which are a majority of the old list. Those two boot, and their gates ask each other.
fn parted(seed: u64) -> Schedule {
    let mut schedule = growing(seed);
    let mut push = |at, fault| schedule.faults.push((at, fault));
    push(22_000, Fault::Widen(2));
    for old in [0, 1] {
        push(24_000, Fault::StoreRefuses(old));
        for other in [2, 3, 4] {
            push(24_000, Fault::Cut(old, other, None));
            push(24_000, Fault::Cut(other, old, None));
        }
    }
    push(26_000, Fault::Restore(2));
    for old in [0, 1] {
        push(45_000, Fault::PowerOff(old, 1000));
    }
    push(60_000, Fault::KillEtcd(2));
    schedule
}

#[test]
fn t05_the_former_electors_have_to_vote_for_another_epoch() {
    for seed in 0..10 {
        checked(&parted(seed));
    }
}

#[test]
#[cfg(feature = "mutants")]
fn t05_an_epoch_without_the_former_electors_is_found_out() {
    breaks_rule_1(Mutant::FormerElectorsUnasked, &parted(0));
}

/// Only n2 has the new list, and is cut off with the newcomers. The two others, a majority of the old list,
/// open an epoch. n2 boots meanwhile.
fn overtaken(seed: u64) -> Schedule {
    let mut schedule = growing(seed);
    let mut push = |at, fault| schedule.faults.push((at, fault));
    push(22_000, Fault::Widen(1));
    push(24_000, Fault::StoreRefuses(1));
    for old in [0, 2] {
        for other in [1, 3, 4] {
            push(24_000, Fault::Cut(old, other, None));
            push(24_000, Fault::Cut(other, old, None));
        }
    }
    push(26_000, Fault::Restore(2));
    push(45_000, Fault::PowerOff(1, 1000));
    push(60_000, Fault::KillEtcd(2));
    schedule
}

#[test]
fn t05_nodes_that_were_added_neither_vouch_for_an_epoch_nor_deny_one() {
    for seed in 0..10 {
        let outcome = run(&overtaken(seed), true);
        let history = outcome.history.join("\n");
        assert_eq!(outcome.violation, None, "{history}");
        assert_eq!(outcome.excuse, None, "{history}");
        assert!(outcome.seen.contains("order restore done"), "{history}");
    }
}

/// n1 and n3 open epoch 2 while the agents of the others are off, and record it in a store that the others do
/// not use. Both lose all their state. Then the list grows, so that they are no longer a majority of it. No
/// node knows of epoch 2 any more, and n2 wants to open it.
fn forgotten(seed: u64) -> Schedule {
    let mut schedule = growing(seed);
    let mut push = |at, fault| schedule.faults.push((at, fault));
    push(22_000, Fault::StoreDiffers(0));
    push(22_000, Fault::StoreDiffers(2));
    push(23_000, Fault::Backup(0));
    for away in [1, 3, 4] {
        push(25_000, Fault::AgentOff(away, 38_000));
    }
    push(26_000, Fault::Restore(0));
    push(60_000, Fault::AgentOff(0, 3000));
    push(60_000, Fault::AgentOff(2, 3000));
    push(60_500, Fault::Mend);
    for other in [0, 2, 3, 4] {
        push(60_500, Fault::StoreRefuses(other));
    }
    for lost in [0, 2] {
        push(61_000, Fault::Reinstall(lost));
        push(61_000, Fault::KillEtcd(lost));
        push(61_000, Fault::Wipe(lost));
    }
    for old in [0, 1, 2] {
        push(62_000, Fault::Widen(old));
    }
    push(80_000, Fault::Restore(1));
    push(110_000, Fault::Reinstall(1));
    schedule
}

#[test]
fn t05_a_list_that_grew_brings_back_no_lost_votes() {
    for seed in 0..10 {
        let outcome = run(&forgotten(seed), true);
        let history = outcome.history.join("\n");
        assert_eq!(outcome.violation, None, "{history}");
        assert!(history.contains("epoch 2 was chosen"), "{history}");
        assert!(outcome.seen.contains("reason memories-lost"), "{history}");
    }
}

#[test]
#[cfg(feature = "mutants")]
fn t05_lost_votes_that_a_longer_list_brings_back_are_found_out() {
    breaks_rule_1(Mutant::FormerLossesUncounted, &forgotten(0));
}

#[test]
#[cfg(feature = "mutants")]
fn t05_an_epoch_that_only_added_nodes_vouch_for_is_found_out() {
    breaks_rule_1(Mutant::AddedNodesVouch, &overtaken(0));
}

/// The clock of n4 is set back, and its agent is reinstalled: its new memory orders before its former one.
/// The restore is ordered there, or on another node.
#[test]
fn a_memory_older_than_its_former_one_does_not_hold_back_an_epoch() {
    for seed in 0..10 {
        let at = if seed % 2 == 0 { 3 } else { 4 };
        let mut schedule = Schedule::calm(seed, 5, 3, true);
        schedule.faults.push((20_000, Fault::Backup(0)));
        schedule.faults.push((30_000, Fault::Clock(3, -95_000)));
        schedule.faults.push((30_100, Fault::Reinstall(3)));
        schedule.faults.push((40_000, Fault::Restore(at)));
        let outcome = run(&schedule, true);
        let history = outcome.history.join("\n");
        assert_eq!(outcome.violation, None, "{history}");
        assert!(outcome.seen.contains("order restore done"), "{history}");
    }
}
