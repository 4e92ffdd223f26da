//! Hosts that reboot under the reboot lock, one at a time (rule 4).

use etcd_agent_sim::world::{Broken, Call, How};
use etcd_agent_sim::{Fault, Schedule, run};

use crate::by_seed::none_breaks_a_rule;

/// How many random schedules.
const SCHEDULES: u64 = 800;

/// All hosts ask at the same moment. Each gets the lock, reboots and releases it.
fn all_reboot(seed: u64) -> Schedule {
    let mut schedule = Schedule::calm(seed, 3, 3, false);
    for host in 0..3 {
        schedule.faults.push((20_000, Fault::RebootLock(host)));
    }
    for at in (20_500..58_000).step_by(500) {
        for host in 0..3 {
            schedule.faults.push((at, Fault::Reboot(host, 2000)));
        }
    }
    // A host releases the lock once it is back.
    for at in (24_000..60_000).step_by(6000) {
        for host in 0..3 {
            schedule.faults.push((at, Fault::ReleaseLock(host)));
        }
    }
    schedule.faults.sort_by_key(|(at, _)| *at);
    schedule
}

#[test]
fn rule_4_hosts_that_ask_at_one_time_reboot_one_after_the_other() {
    for seed in 0..20 {
        let outcome = run(&all_reboot(seed), true);
        let history = outcome.history.join("\n");
        assert_eq!(outcome.violation, None, "{history}");
        assert!(
            outcome.seen.contains("event a reboot under the lock"),
            "{history}"
        );
        assert!(outcome.seen.contains("order reboot lock done"), "{history}");
    }
}

#[test]
fn rule_4_at_most_one_host_holds_the_reboot_lock() {
    let [locks] = none_breaks_a_rule(SCHEDULES, Schedule::with_reboots, ["event a reboot lock"]);
    assert!(locks > SCHEDULES / 4, "only {locks} schedules had a reboot lock");
}

/// A spare takes the lock while the next `times` writes of each member's agent fail, and reboots as soon as
/// it may. A member asks for the lock meanwhile.
fn unrecorded(times: u32) -> Schedule {
    let mut schedule = Schedule::calm(7, 4, 3, false);
    let fails = Broken {
        call: Call::Remember,
        how: How::Refused,
        times: Some(times),
    };
    for host in 0..3 {
        schedule.faults.push((19_900, Fault::Breaks(host, fails)));
    }
    schedule.faults.push((20_000, Fault::RebootLock(3)));
    for at in (20_100..22_000).step_by(100) {
        schedule.faults.push((at, Fault::Reboot(3, 60_000)));
    }
    schedule.faults.push((30_000, Fault::RebootLock(1)));
    schedule
}

#[test]
fn rule_4_a_lock_that_no_agent_could_record_is_not_confirmed() {
    for times in 0..30 {
        let outcome = run(&unrecorded(times), true);
        let history = outcome.history.join("\n");
        assert_eq!(outcome.violation, None, "{times} writes fail: {history}");
    }
}

#[cfg(feature = "mutants")]
mod mutants {
    use etcd_agent::mutant::{Mutant, set};

    use super::*;

    /// Without this guard one of the schedules breaks rule 4.
    fn breaks(mutant: Mutant, schedules: impl IntoIterator<Item = Schedule>) {
        let hit = schedules.into_iter().find(|schedule| {
            set(Some(mutant));
            let violation = run(schedule, false).violation;
            set(None);
            violation.is_some_and(|violation| violation.starts_with("rule 4:"))
        });
        assert!(hit.is_some(), "{mutant:?} does not break rule 4");
    }

    #[test]
    fn rule_4_the_lock_holds_nothing_back() {
        breaks(
            Mutant::RebootsTogether,
            (0..10 * SCHEDULES).map(Schedule::with_reboots),
        );
    }

    #[test]
    fn rule_4_a_host_reboots_before_its_lock_is_recorded() {
        breaks(Mutant::RebootsUnrecorded, (0..30).map(unrecorded));
    }
}
