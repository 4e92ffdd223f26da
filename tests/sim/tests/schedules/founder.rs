//! A founder that loses its data and its memory is a joiner. As a founder it would come back as the same
//! voter, without the writes that it has acknowledged.

use etcd_agent_sim::{Fault, Outcome, Schedule, run};

/// n3 misses writes, because its etcd is cut off. n1 loses memory and disk, and its etcd is cut off too, so
/// that no peer reports that its member has run before; the agents reach each other. Then n2, the only one
/// with the writes, is off for a while.
fn a_founder_loses_its_disk(store: bool) -> Outcome {
    run(&disk_lost(7, store), true)
}

fn disk_lost(seed: u64, store: bool) -> Schedule {
    let mut schedule = Schedule::calm(seed, 3, 3, store);
    let cut = |host, at| {
        let others = (0..3).filter(move |other| *other != host);
        others.flat_map(move |other| {
            [(host, other), (other, host)].map(|(from, to)| (at, Fault::Cut(from, to, Some(false))))
        })
    };
    schedule.faults.extend(cut(2, 10_000));
    schedule.faults.extend(cut(0, 15_000));
    schedule.faults.extend([
        (15_000, Fault::Reinstall(0)),
        (15_000, Fault::KillEtcd(0)),
        (15_000, Fault::Wipe(0)),
        (17_000, Fault::PowerOff(1, 60_000)),
        (18_000, Fault::Mend),
        (90_000, Fault::Mend),
    ]);
    schedule
}

/// n2 lies meanwhile: its genesis names the new memory of n1 as one that took part. The other etcds are
/// stopped, so that no member list shows that n1's member has run before.
fn a_liar_names_the_new_memory(seed: u64) -> Outcome {
    let mut schedule = disk_lost(seed, seed.is_multiple_of(2));
    schedule.faults.extend([
        (14_000, Fault::Lies(1)),
        (14_000, Fault::Stop(1)),
        (14_000, Fault::Stop(2)),
        (18_000, Fault::Start(2)),
    ]);
    schedule.faults.sort_by_key(|(at, _)| *at);
    run(&schedule, true)
}

#[test]
fn f02_a_liar_makes_no_founder_of_a_new_memory() {
    for seed in 0..60 {
        let outcome = a_liar_names_the_new_memory(seed);
        let history = outcome.history.join("\n");
        assert_eq!(outcome.violation, None, "seed {seed}\n{history}");
    }
}

#[test]
#[cfg(feature = "mutants")]
fn f02_a_copy_of_a_genesis_makes_a_founder_of_a_new_memory() {
    use etcd_agent::mutant::{Mutant, set};
    let found = (0..60).find_map(|seed| {
        set(Some(Mutant::BelievesElectorates));
        let outcome = a_liar_names_the_new_memory(seed);
        set(None);
        outcome.violation
    });
    let violation = found.unwrap_or_default();
    assert!(violation.starts_with("rule 2:"), "{violation}");
}

#[test]
#[cfg(feature = "mutants")]
fn f02_a_liars_invitation_brings_a_member_back_without_its_data() {
    use etcd_agent::mutant::{Mutant, set};
    let found = (0..1000).find(|seed| {
        set(Some(Mutant::BelievesInvitations));
        let outcome = a_liar_names_the_new_memory(*seed);
        set(None);
        outcome
            .violation
            .is_some_and(|violation| violation.starts_with("rule 2:"))
    });
    assert!(
        found.is_some(),
        "no violation, although a member came back without its data"
    );
}

#[test]
fn rule_2_a_founder_that_has_lost_its_disk_is_no_founder_any_more() {
    for store in [false, true] {
        let outcome = a_founder_loses_its_disk(store);
        let history = outcome.history.join("\n");
        assert_eq!(outcome.violation, None, "{history}");
        assert_eq!(outcome.excuse, None, "{history}");
    }
}

#[test]
#[cfg(feature = "mutants")]
fn rule_2_a_founder_that_has_lost_its_data_starts_as_if_it_were_new() {
    use etcd_agent::mutant::{Mutant, set};
    for store in [false, true] {
        set(Some(Mutant::FounderForgets));
        let outcome = a_founder_loses_its_disk(store);
        set(None);
        let history = outcome.history.join("\n");
        let violation = outcome.violation.unwrap_or_default();
        assert!(violation.starts_with("rule 2:"), "{violation}\n{history}");
    }
}

#[test]
#[cfg(feature = "mutants")]
fn rule_2_a_first_start_that_is_not_on_disk_before_it_is_allowed_is_found_out() {
    use etcd_agent::mutant::{Mutant, set};
    set(Some(Mutant::FirstStartUnmarked));
    let outcome = run(&Schedule::calm(0, 3, 3, false), true);
    set(None);
    let violation = outcome.violation.unwrap_or_default();
    assert!(violation.starts_with("rule 2:"), "{violation}");
}

/// The clock of n1 is set back, and its agent is reinstalled: its votes are refused, and the restored epoch
/// names its former memory. So it is not a founder, although etcd has its name in the list.
#[test]
fn c03_a_founder_that_was_named_for_a_lost_memory_is_added_anew() {
    for seed in 0..10 {
        let mut schedule = Schedule::calm(seed, 3, 3, true);
        schedule.faults.extend([
            (20_000, Fault::Clock(0, -110_000)),
            (20_500, Fault::Reinstall(0)),
            (25_000, Fault::Restore(2)),
            (60_000, Fault::Mend),
        ]);
        let outcome = run(&schedule, true);
        let history = outcome.history.join("\n");
        assert_eq!(outcome.violation, None, "seed {seed}\n{history}");
        assert_eq!(outcome.excuse, None, "seed {seed}\n{history}");
        assert!(history.contains("epoch 2 was chosen"), "seed {seed}\n{history}");
    }
}
