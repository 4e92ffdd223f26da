//! Scenarios that need a fault at an exact point.

use etcd_agent_sim::{Fault, Outcome, Schedule, run};

fn holds(what: &str, schedule: &Schedule) -> Outcome {
    let outcome = run(schedule, true);
    let history = outcome.history.join("\n");
    assert_eq!(outcome.violation, None, "{what}: {schedule:?}\n{history}");
    outcome
}

fn whole(what: &str, schedule: &Schedule) -> Outcome {
    let outcome = holds(what, schedule);
    assert_eq!(
        outcome.excuse,
        None,
        "{what}: {schedule:?}\n{}",
        outcome.history.join("\n")
    );
    outcome
}

fn count(outcome: &Outcome, what: &str) -> usize {
    outcome.history.iter().filter(|line| line.contains(what)).count()
}

/// Every way to cut the directed links between the electors while they form: at most one cluster, and one in
/// the end.
#[test]
fn s37_any_partition_of_the_electorate_yields_at_most_one_cluster() {
    let links: Vec<(usize, usize)> = (0..3)
        .flat_map(|a| (0..3).filter(move |b| *b != a).map(move |b| (a, b)))
        .collect();
    for mask in 0..1_u64 << links.len() {
        for at in [0, 150, 400] {
            let mut schedule = Schedule::calm(mask, 3, 3, false);
            for (bit, (from, to)) in links.iter().enumerate() {
                if (mask >> bit) & 1 == 1 {
                    schedule.faults.push((at, Fault::Cut(*from, *to, None)));
                }
            }
            schedule.faults.push((at + 15_000, Fault::Mend));
            let outcome = whole("partition", &schedule);
            assert_eq!(count(&outcome, "was chosen"), 1);
        }
    }
}

/// The agent of one node dies at each crossing of a port in turn, during some work; the next run finishes the
/// work. Each history has to contain all of `must`.
fn dies_everywhere(
    what: &str,
    base: &Schedule,
    host: usize,
    at: u64,
    most: u32,
    quiet_etcd: bool,
    must: &[&str],
) {
    let mut died = 0;
    for crossing in 0..most {
        let mut schedule = base.clone();
        schedule.faults.push((at, Fault::AgentDies(host, crossing)));
        // People repair nothing before the agents have had time to do it.
        schedule.faults.push((at + 15_000, Fault::Mend));
        schedule.faults.sort_by_key(|(at, _)| *at);
        let outcome = whole(what, &schedule);
        died += count(&outcome, "dies between two steps");
        for wanted in must {
            assert!(
                count(&outcome, wanted) > 0,
                "{wanted}: {}",
                outcome.history.join("\n")
            );
        }
        if quiet_etcd {
            assert_eq!(
                count(&outcome, "has lost its quorum"),
                0,
                "{}",
                outcome.history.join("\n")
            );
        }
    }
    assert!(
        died > most as usize / 4,
        "{what}: the agent died only {died} times of {most}"
    );
}

#[test]
fn s40_forming_survives_the_agents_death_at_every_step() {
    for host in 0..3 {
        dies_everywhere(
            "form",
            &Schedule::calm(3, 3, 3, false),
            host,
            0,
            60,
            false,
            &["epoch 1 was chosen"],
        );
    }
}

#[test]
fn s40_healing_survives_the_agents_death_at_every_step() {
    let mut base = Schedule::calm(4, 3, 3, false);
    base.faults.push((9000, Fault::Wipe(1)));
    for host in 0..3 {
        dies_everywhere("heal", &base, host, 9000, 60, false, &["as learner", "promotes"]);
    }
}

#[test]
fn s40_restoring_survives_the_agents_death_at_every_step() {
    let mut base = Schedule::calm(5, 3, 3, true);
    base.faults.push((20_000, Fault::Restore(0)));
    for host in 0..3 {
        // The restore is typed again if its agent died, so the new epoch is opened in the end.
        let must = ["epoch 2 was chosen"];
        dies_everywhere("restore", &base, host, 20_000, 60, false, &must);
    }
}

#[test]
fn s40_nothing_to_do_and_the_agent_dies_etcd_never_notices() {
    for host in 0..3 {
        dies_everywhere("idle", &Schedule::calm(6, 3, 3, false), host, 9000, 20, true, &[]);
    }
}

/// Five electors and three voters of epoch 1, two of which are off during epoch 2: they do not start when
/// they are alone again.
#[test]
fn s49_sleepers_of_an_old_epoch_do_not_start_alone() {
    for seed in 0..20 {
        let mut schedule = Schedule::calm(seed, 5, 3, true);
        // n1, n2 and n3 are the voters. n2 and n3 are off while the others restore, and then boot alone.
        let minutes = 60_000;
        schedule.faults.push((20_000, Fault::PowerOff(1, 2 * minutes)));
        schedule.faults.push((20_000, Fault::PowerOff(2, 2 * minutes)));
        schedule.faults.push((22_000, Fault::Restore(0)));
        for host in [0, 3, 4] {
            schedule
                .faults
                .push((minutes, Fault::PowerOff(host, 4 * minutes)));
        }
        schedule.faults.push((4 * minutes, Fault::Mend));
        let outcome = whole("s49", &schedule);
        assert_eq!(
            count(&outcome, "epoch 2 was chosen"),
            1,
            "{}",
            outcome.history.join("\n")
        );
    }
}

/// All clocks were an hour ahead when backups were taken. The next ones are still taken when they are due.
#[test]
fn s35_what_clocks_that_were_ahead_have_dated_holds_no_backup_up() {
    for seed in 0..5 {
        let mut schedule = Schedule::calm(seed, 3, 3, true);
        let clocks = |ms| (0..3).map(move |host| Fault::Clock(host, ms));
        let (ahead, right) = (clocks(3_600_000), clocks(0));
        schedule.faults.extend(ahead.map(|fault| (0, fault)));
        schedule.faults.extend(right.map(|fault| (60_000, fault)));
        schedule.faults.push((90_000, Fault::Restore(0)));
        schedule.faults.push((180_000, Fault::Mend));
        let outcome = whole("s35", &schedule);
        let set = |line: &String| line.contains("-- Clock(2, 0)");
        let since = outcome.history.iter().position(set).unwrap();
        let (before, after) = outcome.history.split_at(since);
        let fulls = |lines: &[String]| {
            let matching = lines.iter().filter(|line| line.contains("commits a full backup"));
            matching.count()
        };
        let counts = (fulls(before), fulls(after));
        assert!(
            counts.0 >= 2 && (5..=30).contains(&counts.1),
            "{counts:?}: {}",
            outcome.history.join("\n")
        );
    }
}

/// An elector is reinstalled while another is off: no second genesis, and no empty cluster while the third
/// has data.
#[test]
fn s50_a_reinstalled_elector_forms_nothing_despite_anothers_data() {
    for seed in 0..20 {
        for (away, forgets) in [(0, 1), (1, 2), (2, 0)] {
            let mut schedule = Schedule::calm(seed, 3, 3, false);
            schedule.faults.push((9000, Fault::PowerOff(away, 60_000)));
            schedule.faults.push((9500, Fault::Reinstall(forgets)));
            schedule.faults.push((40_000, Fault::Mend));
            let outcome = whole("s50", &schedule);
            assert_eq!(count(&outcome, "was chosen"), 1);
        }
    }
}

/// A site is lost: the data and agents' state of all hosts, but not the store. One order on one host is
/// enough.
#[test]
fn c14_one_order_at_one_host_restores_a_lost_site() {
    for (nodes, size) in [(3, 3), (3, 1), (5, 3), (5, 5)] {
        for seed in 0..3 {
            for asked in [0, nodes - 1] {
                let mut schedule = Schedule::calm(seed, nodes, size, true);
                for host in 0..nodes {
                    schedule.faults.push((25_000, Fault::Reinstall(host)));
                    schedule.faults.push((25_000, Fault::Wipe(host)));
                }
                schedule.faults.push((35_000, Fault::Restore(asked)));
                schedule.faults.push((50_000, Fault::Mend));
                let outcome = whole("c14", &schedule);
                assert_eq!(
                    count(&outcome, "epoch 2 was chosen"),
                    1,
                    "{}",
                    outcome.history.join("\n")
                );
            }
        }
    }
}

/// The hosts of a restored cluster are lost as well. The order comes before the new memories have learned of
/// that restore. The restore happened before the order, so it does not answer the order.
#[test]
fn c14_an_order_to_a_new_memory_is_not_answered_by_what_happened_before() {
    for seed in 0..2 {
        for asked in 40_501..40_550 {
            let mut schedule = Schedule::calm(seed, 3, 3, true);
            schedule.faults.push((20_000, Fault::Restore(0)));
            for host in 0..3 {
                schedule.faults.push((40_000, Fault::Reinstall(host)));
                schedule.faults.push((40_000, Fault::Wipe(host)));
            }
            schedule.faults.push((asked, Fault::Restore(1)));
            schedule.faults.push((70_000, Fault::Mend));
            let outcome = whole("c14", &schedule);
            let opened = count(&outcome, "epoch 3 was chosen");
            assert_eq!(opened, 1, "asked at {asked}: {}", outcome.history.join("\n"));
        }
    }
}

/// The agent of one host is reinstalled, and the first order to it is a restore. It does not yet know of the
/// epoch that was restored before.
#[test]
fn t02_the_first_word_to_a_new_agent_opens_an_epoch() {
    for seed in 0..20 {
        let mut schedule = Schedule::calm(seed, 3, 3, true);
        schedule.faults.push((15_000, Fault::Restore(0)));
        schedule.faults.push((45_000, Fault::Anew(1)));
        let outcome = whole("first word", &schedule);
        let opened = count(&outcome, "epoch 3 was chosen");
        assert_eq!(opened, 1, "seed {seed}: {}", outcome.history.join("\n"));
    }
}

/// The only host of a cluster is reinstalled. It votes at once, and the first order comes before it has seen
/// the store.
#[test]
fn c14_a_new_memory_without_others_takes_the_epoch_to_replace_from_the_store() {
    for seed in 0..20 {
        let mut schedule = Schedule::calm(seed, 1, 1, true);
        schedule.faults.push((15_000, Fault::Restore(0)));
        schedule.faults.push((45_000, Fault::Wipe(0)));
        schedule.faults.push((45_000, Fault::Anew(0)));
        let outcome = whole("first word", &schedule);
        let opened = count(&outcome, "epoch 3 was chosen");
        assert_eq!(opened, 1, "seed {seed}: {}", outcome.history.join("\n"));
    }
}

/// A majority's disks are lost, and a restore is ordered.
fn restored_after_a_loss() -> Schedule {
    let mut schedule = Schedule::calm(3, 3, 3, true);
    schedule.faults.push((25_000, Fault::Wipe(0)));
    schedule.faults.push((25_000, Fault::Wipe(1)));
    schedule.faults.push((40_000, Fault::Restore(2)));
    schedule
}

#[test]
fn t03_a_restore_after_the_loss_of_a_majority_ends_in_its_effect() {
    let outcome = whole("t03", &restored_after_a_loss());
    let history = outcome.history.join("\n");
    assert_eq!(count(&outcome, "epoch 2 was chosen"), 1, "{history}");
}

/// A loss does not excuse an order without effect.
#[test]
#[cfg(feature = "mutants")]
fn t02_t03_a_restore_that_is_dropped_is_found_out() {
    use etcd_agent::mutant::{Mutant, set};
    set(Some(Mutant::RestoresDropped));
    let outcome = run(&restored_after_a_loss(), false);
    set(None);
    let violation = outcome
        .violation
        .expect("no violation, although nothing was restored");
    assert!(violation.starts_with("rule 0:"), "{violation}");
}

/// Hosts of five are replaced one by one in a running cluster, and a restore is ordered if there is a store.
fn replaced_one_by_one(seed: u64, store: bool) -> Schedule {
    let mut schedule = Schedule::calm(seed, 5, 3, store);
    // Without a store, a majority of the electors must not lose its memory.
    for (turn, host) in (0..if store { 5 } else { 2 }).enumerate() {
        let at = 20_000 + 25_000 * turn as u64;
        schedule.faults.push((at, Fault::Wipe(host)));
        schedule.faults.push((at, Fault::Reinstall(host)));
    }
    schedule.faults.push((160_000, Fault::Mend));
    if store {
        schedule.faults.push((170_000, Fault::Restore(1)));
    }
    schedule
}

/// The votes come back, and a restore succeeds on whichever node it is ordered.
#[test]
fn c14_electors_that_are_replaced_one_by_one_keep_their_votes() {
    for store in [false, true] {
        for seed in 0..5 {
            let outcome = whole("c14", &replaced_one_by_one(seed, store));
            let opened = count(&outcome, "epoch 2 was chosen");
            assert_eq!(opened, usize::from(store), "{}", outcome.history.join("\n"));
        }
    }
}

#[test]
#[cfg(feature = "mutants")]
fn c14_new_memories_that_never_ask_for_their_votes_are_found_out() {
    use etcd_agent::mutant::{Mutant, set};
    for store in [false, true] {
        set(Some(Mutant::MemoriesStayNew));
        let violation = run(&replaced_one_by_one(0, store), false).violation;
        set(None);
        let violation = violation.expect("no violation, although votes are missing");
        assert!(violation.contains("has no vote"), "{violation}");
    }
}

/// One node was off when an epoch was opened, and another has lost its memory and its data since. One elector
/// and the store report the epoch, but the electors can neither confirm nor deny it. An operator confirms it.
#[test]
fn f02_an_epoch_that_nobody_can_confirm_is_followed_on_an_operators_word() {
    let mut schedule = Schedule::calm(7, 3, 3, true);
    schedule.faults = vec![
        // This host still counts as present.
        (24_000, Fault::PowerOff(0, 600_000)),
        (25_000, Fault::Restore(1)),
        (45_000, Fault::Reinstall(2)),
        (45_000, Fault::Wipe(2)),
    ];
    let outcome = whole("an epoch that nobody can confirm", &schedule);
    let confirmed = outcome
        .history
        .iter()
        .any(|line| line.contains("Confirm(Epoch(2)") && line.contains("Done"));
    assert!(confirmed, "{}", outcome.history.join("\n"));
}
