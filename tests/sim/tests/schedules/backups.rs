//! How founders, and a cluster's backups, depend on the store and on single hosts.

use etcd_agent_sim::world::Weather;
use etcd_agent_sim::{Fault, Outcome, Schedule, run};

fn count(outcome: &Outcome, what: &str) -> usize {
    outcome.history.iter().filter(|line| line.contains(what)).count()
}

fn whole(outcome: &Outcome) {
    let history = outcome.history.join("\n");
    assert_eq!(outcome.violation, None, "{history}");
    assert_eq!(outcome.excuse, None, "{history}");
}

/// n3 is a founder of the restored epoch and cannot fetch the backup for a while. Backups of that epoch are
/// taken meanwhile, and only the newest is kept.
fn a_founder_fetches_late(seed: u64) -> Outcome {
    let mut schedule = Schedule::calm(seed, 3, 3, true);
    schedule.keeps = Some(1);
    schedule.faults.push((20_000, Fault::StoreRefuses(2)));
    schedule.faults.push((20_500, Fault::Restore(0)));
    schedule.faults.push((90_000, Fault::Mend));
    run(&schedule, true)
}

#[test]
fn c03_the_origin_of_an_epoch_stays_until_its_founders_have_started() {
    for seed in 0..5 {
        let outcome = a_founder_fetches_late(seed);
        whole(&outcome);
        assert!(
            count(&outcome, "commits a full backup") > 5,
            "{:#?}",
            outcome.history
        );
        assert!(outcome.seen.contains("action prune"), "{:#?}", outcome.history);
    }
}

#[test]
#[cfg(feature = "mutants")]
fn c03_an_origin_that_is_pruned_too_early_is_found_out() {
    use etcd_agent::mutant::{Mutant, set};
    set(Some(Mutant::OriginPruned));
    let outcome = a_founder_fetches_late(0);
    set(None);
    let violation = outcome.violation.unwrap_or_default();
    let history = outcome.history.join("\n");
    assert!(violation.starts_with("rule 0:"), "{violation}\n{history}");
}

/// Retention keeps three backups, and people order on all nodes to keep the one that goes next.
fn backups_are_kept_by_orders(seed: u64) -> Outcome {
    let mut schedule = Schedule::calm(seed, 3, 3, true);
    schedule.keeps = Some(3);
    for n in 0..16 {
        let at = 50_000 + n * 5300 + 97 * seed;
        schedule
            .faults
            .push((at, Fault::KeepBackup(usize::try_from(n % 3).unwrap_or(0))));
        if n % 5 == 4 {
            schedule.faults.push((at, Fault::AgentDies(0, 3)));
        }
    }
    schedule.faults.push((140_000, Fault::Mend));
    run(&schedule, true)
}

#[test]
fn a_backup_that_an_order_keeps_is_never_removed() {
    for seed in 0..10 {
        let outcome = backups_are_kept_by_orders(seed);
        whole(&outcome);
        assert!(outcome.seen.contains("action prune"), "{:#?}", outcome.history);
        assert!(count(&outcome, "changed: true") > 1, "{:#?}", outcome.history);
    }
}

#[test]
#[cfg(feature = "mutants")]
fn an_order_to_keep_a_backup_that_is_forgotten_is_found_out() {
    use etcd_agent::mutant::{Mutant, set};
    set(Some(Mutant::KeptPruned));
    let outcome = backups_are_kept_by_orders(0);
    set(None);
    let violation = outcome.violation.unwrap_or_default();
    let history = outcome.history.join("\n");
    assert!(
        violation.starts_with("rule 7: a kept backup"),
        "{violation}\n{history}"
    );
}

/// People order backups on all nodes while the agents take their own, and clients write. The store is slow at first.
fn backups_are_ordered(seed: u64) -> Outcome {
    let mut schedule = Schedule::calm(seed, 3, 3, true);
    schedule.faults.push((20_000, Fault::Store(Weather::Slow)));
    for n in 0..60 {
        let host = usize::try_from(n % 3).unwrap_or(0);
        schedule
            .faults
            .push((20_000 + n * 1307 + 61 * seed, Fault::Backup(host)));
    }
    schedule.faults.push((60_000, Fault::Mend));
    run(&schedule, true)
}

#[test]
fn a_backup_that_answers_an_order_has_what_was_acknowledged_before() {
    for seed in 0..10 {
        let outcome = backups_are_ordered(seed);
        whole(&outcome);
        assert!(
            count(&outcome, "commits a full backup") > 20,
            "{:#?}",
            outcome.history
        );
    }
}

#[test]
#[cfg(feature = "mutants")]
fn a_backup_that_answers_later_orders_is_found_out() {
    use etcd_agent::mutant::{Mutant, set};
    set(Some(Mutant::AnswersLater));
    let violations: Vec<String> = (0..10)
        .filter_map(|seed| backups_are_ordered(seed).violation)
        .collect();
    set(None);
    assert!(!violations.is_empty());
    for violation in violations {
        assert!(violation.starts_with("rule 7: Backup"), "{violation}");
    }
}

/// All backups are deleted after n1 and n2 have fetched the backup that they restore, and before n3 has. n4
/// is a spare.
fn a_founder_never_fetches(seed: u64) -> Outcome {
    let mut schedule = Schedule::calm(seed, 4, 3, true);
    schedule.grace_ms = 3000;
    schedule.faults.push((20_000, Fault::StoreRefuses(2)));
    schedule.faults.push((20_500, Fault::Restore(0)));
    schedule.faults.push((24_500, Fault::DeleteBackups));
    schedule.faults.push((60_000, Fault::Mend));
    run(&schedule, true)
}

#[test]
fn c03_a_founder_that_never_starts_is_replaced() {
    for seed in 0..5 {
        let outcome = a_founder_never_fetches(seed);
        whole(&outcome);
        assert_eq!(count(&outcome, "epoch 2 was chosen"), 1, "{:#?}", outcome.history);
    }
}

#[test]
#[cfg(feature = "mutants")]
fn c03_a_founder_that_is_waited_for_without_end_is_found_out() {
    use etcd_agent::mutant::{Mutant, set};
    set(Some(Mutant::FounderAwaited));
    let outcome = a_founder_never_fetches(0);
    set(None);
    let violation = outcome.violation.unwrap_or_default();
    let history = outcome.history.join("\n");
    assert!(violation.starts_with("rule 0:"), "{violation}\n{history}");
}

/// The store refuses the credentials of one host, which may be any, and the agent there has just started: it
/// does not try a backup into a store that it cannot read. Returns the number of full backups in two minutes.
fn taken_while_one_is_refused(host: usize) -> usize {
    let mut schedule = Schedule::calm(7, 3, 3, true);
    schedule.faults.push((20_000, Fault::StoreRefuses(host)));
    schedule.faults.push((20_000, Fault::AgentStops(host, 1000)));
    schedule.faults.push((140_000, Fault::Mend));
    let outcome = run(&schedule, true);
    whole(&outcome);
    count(&outcome, "commits a full backup")
}

/// The limit for one backup every ten seconds.
const ENOUGH: usize = 8;

#[test]
fn c08_full_backups_go_on_where_the_store_refuses_one_host() {
    for host in 0..3 {
        let taken = taken_while_one_is_refused(host);
        assert!(taken > ENOUGH, "{host}: {taken}");
    }
}

#[test]
#[cfg(feature = "mutants")]
fn c08_a_coordinator_that_nobody_stands_in_for_is_found_out() {
    use etcd_agent::mutant::{Mutant, set};
    set(Some(Mutant::NobodyStandsIn));
    let taken: Vec<usize> = (0..3).map(taken_while_one_is_refused).collect();
    set(None);
    assert!(taken.iter().any(|taken| *taken <= ENOUGH), "{taken:?}");
}

/// Somebody writes a smaller size into the store, and all agents read it again.
fn the_store_alone_wants_fewer(seed: u64) -> Outcome {
    let mut schedule = Schedule::calm(seed, 3, 3, true);
    schedule.sized = true;
    schedule.faults.push((20_000, Fault::StoreShrinks(1)));
    for host in 0..3 {
        let at = 21_000 + 3000 * host as u64;
        schedule.faults.push((at, Fault::AgentStops(host, 500)));
    }
    schedule.faults.push((60_000, Fault::Mend));
    run(&schedule, true)
}

/// An operator confirms the size in the end.
#[test]
fn f03_a_smaller_size_in_the_store_waits_for_an_operator() {
    for seed in 0..5 {
        let outcome = the_store_alone_wants_fewer(seed);
        whole(&outcome);
        let history = outcome.history.join("\n");
        assert!(outcome.seen.contains("reason size-unconfirmed"), "{history}");
        let (before, after) = history.split_once("-- Mend").unwrap_or_default();
        assert!(
            !before.contains(" removes ") && after.contains(" removes "),
            "{history}"
        );
    }
}

#[test]
#[cfg(feature = "mutants")]
fn f03_a_size_that_only_the_store_wants_and_that_is_followed_is_found_out() {
    use etcd_agent::mutant::{Mutant, set};
    set(Some(Mutant::BelievesSizes));
    let outcome = the_store_alone_wants_fewer(0);
    set(None);
    let violation = outcome.violation.unwrap_or_default();
    let history = outcome.history.join("\n");
    assert!(violation.starts_with("rule 10:"), "{violation}\n{history}");
}

/// n1 is configured with another store for a while, and its backups are there. A restore is ordered on that
/// host, or on another one.
fn a_store_differs(seed: u64, asked: usize) -> Outcome {
    let mut schedule = Schedule::calm(seed, 3, 3, true);
    schedule.faults.push((20_000, Fault::StoreDiffers(0)));
    schedule.faults.push((30_000, Fault::Backup(0)));
    schedule.faults.push((40_000, Fault::Restore(asked)));
    schedule.faults.push((100_000, Fault::Mend));
    run(&schedule, true)
}

/// Only the store of one host has the backup, and would have the record of the epoch.
#[test]
fn c10c_nothing_is_restored_while_a_host_has_another_store() {
    for seed in 0..5 {
        for asked in [0, 1] {
            let outcome = a_store_differs(seed, asked);
            whole(&outcome);
            let history = outcome.history.join("\n");
            assert!(outcome.seen.contains("order backup done"), "{history}");
            assert!(outcome.seen.contains("order restore refused"), "{history}");
            assert_eq!(count(&outcome, "was chosen"), 1, "{history}");
        }
    }
}

#[test]
#[cfg(feature = "mutants")]
fn c10c_a_restore_from_a_store_that_others_do_not_have_is_found_out() {
    use etcd_agent::mutant::{Mutant, set};
    set(Some(Mutant::RestoresApart));
    let outcome = a_store_differs(0, 0);
    set(None);
    let violation = outcome.violation.unwrap_or_default();
    let history = outcome.history.join("\n");
    assert!(violation.starts_with("rule 0:"), "{violation}\n{history}");
}
