//! Certificate files with which etcd cannot work: a running etcd is not restarted into them.

use etcd_agent_sim::{Fault, Outcome, Schedule, run};

/// One host gets bad files, then somebody orders a restart of all. Later the files are replaced.
fn with_bad_files(seed: u64, nodes: usize, victim: usize) -> Schedule {
    let mut schedule = Schedule::calm(seed, nodes, nodes, false);
    schedule.tls = true;
    schedule.faults.push((15_000, Fault::BadFiles(victim)));
    schedule.faults.push((22_000, Fault::RestartAll(0)));
    schedule
}

fn run_well(schedule: &Schedule) -> (Outcome, String) {
    let outcome = run(schedule, true);
    let history = outcome.history.join("\n");
    assert_eq!(outcome.violation, None, "{history}");
    assert_eq!(outcome.excuse, None, "{history}");
    (outcome, history)
}

#[test]
fn an_etcd_is_not_restarted_with_certificate_files_that_do_not_work() {
    for (seed, nodes) in [(1, 1), (2, 3), (3, 3), (4, 5)] {
        for victim in 0..nodes {
            let mut schedule = with_bad_files(seed, nodes, victim);
            schedule.faults.push((120_000, Fault::Mend));
            let (outcome, history) = run_well(&schedule);
            let restarts = format!("n{} restarts etcd", victim + 1);
            let at = history.find(&restarts).unwrap_or(history.len());
            let installed = history
                .find("certificate files that do not work")
                .unwrap_or_default();
            assert!(installed < at, "{history}");
            assert!(history.contains(&restarts), "once the files work: {history}");
            assert!(outcome.seen.contains("order restart done"), "{:?}", outcome.seen);
            assert!(
                !outcome
                    .seen
                    .contains("event an etcd does not start with its certificate files"),
                "{history}"
            );
        }
    }
}

/// Agents die, hosts lose power, and packages restart etcd meanwhile: an etcd that goes down by others does not come
/// back, and no agent takes one down.
#[test]
fn rule_4_under_faults_no_agent_takes_an_etcd_down_that_cannot_come_back() {
    let mut down = 0;
    for seed in 0..60 {
        let victim = usize::try_from(seed % 3).unwrap_or_default();
        let mut schedule = with_bad_files(seed, 3, victim);
        let dies = u32::try_from(seed % 40).unwrap_or_default();
        schedule.faults.push((16_000, Fault::AgentDies(victim, dies)));
        schedule
            .faults
            .push((24_000, Fault::AgentDies((victim + 1) % 3, dies)));
        schedule.faults.push((26_000, Fault::MoveLeader(0, None)));
        if seed % 2 == 0 {
            schedule
                .faults
                .push((40_000 + seed * 100, Fault::KillEtcd(victim)));
        }
        if seed % 5 == 0 {
            schedule
                .faults
                .push((50_000, Fault::PowerOff((victim + 2) % 3, 3000)));
        }
        schedule.faults.push((90_000, Fault::Mend));
        let (outcome, _) = run_well(&schedule);
        let seen = "event an etcd does not start with its certificate files";
        down += usize::from(outcome.seen.contains(seen));
    }
    assert!(down >= 20, "only {down} schedules had an etcd that did not start");
}

/// Makes a schedule of a seed and of the host that gets bad files.
#[cfg(feature = "mutants")]
type MakeSchedule = fn(u64, usize) -> Schedule;

/// A package restarts etcd on all hosts, one of which has bad files. The gate lets that one stop in the end.
fn with_a_package(seed: u64, victim: usize) -> Schedule {
    let mut schedule = Schedule::calm(seed, 3, 3, false);
    schedule.tls = true;
    schedule.faults.push((15_000, Fault::BadFiles(victim)));
    for host in 0..3 {
        schedule.faults.push((22_000, Fault::RestartByOthers(host)));
    }
    schedule.faults.push((90_000, Fault::Mend));
    schedule
}

/// All hosts ask for the reboot lock, and reboot when they have it. One has bad files until people replace
/// them.
fn with_reboots(seed: u64, victim: usize) -> Schedule {
    let mut schedule = Schedule::calm(seed, 3, 3, false);
    schedule.tls = true;
    schedule.faults.push((15_000, Fault::BadFiles(victim)));
    for host in 0..3 {
        schedule.faults.push((22_000, Fault::RebootLock(host)));
        for at in (22_500..45_000).step_by(500) {
            schedule.faults.push((at, Fault::Reboot(host, 2000)));
        }
        for at in (27_000..60_000).step_by(6000) {
            schedule.faults.push((at, Fault::ReleaseLock(host)));
        }
    }
    schedule.faults.push((90_000, Fault::Mend));
    schedule.faults.sort_by_key(|(at, _)| *at);
    schedule
}

#[test]
fn rule_4_nobody_has_leave_to_stop_an_etcd_that_cannot_come_back() {
    for seed in 0..12 {
        let victim = usize::try_from(seed % 3).unwrap_or_default();
        let bad = format!("n{}", victim + 1);
        let (_, history) = run_well(&with_a_package(seed, victim));
        assert!(
            history.contains(&format!("{bad} restarts etcd without leave")),
            "{history}"
        );
        let (outcome, history) = run_well(&with_reboots(seed, victim));
        assert!(
            outcome.seen.contains("event a reboot under the lock"),
            "{history}"
        );
        assert!(!history.contains(&format!("{bad} boots")), "{history}");
    }
}

#[cfg(feature = "mutants")]
#[test]
fn rule_4_an_agent_that_gives_leave_whatever_the_files_are_is_found_out() {
    use etcd_agent::mutant::{Mutant, set};

    let kinds: [(MakeSchedule, &str); 2] = [
        (with_a_package, "lets etcd stop"),
        (with_reboots, "takes the reboot lock"),
    ];
    for (kind, what) in kinds {
        // Whose turn comes first differs from seed to seed.
        let found = (0..12).any(|seed| {
            let victim = usize::try_from(seed % 3).unwrap_or_default();
            set(Some(Mutant::FilesUnchecked));
            let violation = run(&kind(seed, victim), false).violation;
            set(None);
            violation.is_some_and(|text| text.starts_with("rule 4:") && text.contains(what))
        });
        assert!(found, "no violation of the kind that it {what}");
    }
}

#[cfg(feature = "mutants")]
#[test]
fn rule_4_an_agent_that_does_not_look_at_certificate_files_is_found_out() {
    use etcd_agent::mutant::{Mutant, set};

    set(Some(Mutant::FilesUnchecked));
    let violation = run(&with_bad_files(2, 3, 1), false).violation;
    set(None);
    let violation =
        violation.expect("no violation, although an etcd was restarted with files that do not work");
    assert!(violation.starts_with("rule 4:"), "{violation}");
}

/// An authority is replaced: both are trusted, and later only the new one. Each change reaches one host after the other.
fn with_a_new_authority(seed: u64, nodes: usize) -> Schedule {
    let mut schedule = Schedule::calm(seed, nodes, nodes, false);
    schedule.tls = true;
    for begin in [15_000, 70_000] {
        for host in 0..nodes {
            let at = begin + 700 * u64::try_from(host).unwrap_or_default();
            schedule.faults.push((at, Fault::NewAuthorities(host)));
        }
    }
    schedule
}

#[test]
fn an_authority_is_replaced_by_restarts_of_one_member_at_a_time() {
    for (seed, nodes) in [(1, 3), (2, 5)] {
        let (_, history) = run_well(&with_a_new_authority(seed, nodes));
        assert_eq!(history.matches("restarts etcd").count(), 2 * nodes, "{history}");
    }
}

/// Each agent dies at each crossing of a port in turn, and hosts lose power: every etcd trusts the new authority in the
/// end, and no two members are down by the agents' doing.
#[test]
fn rule_4_a_change_of_authorities_survives_deaths_at_each_step() {
    for seed in 0..90 {
        let mut schedule = with_a_new_authority(seed, 3);
        let [first, second, third] =
            [0, 1, 2].map(|step| usize::try_from((seed + step) % 3).unwrap_or_default());
        let dies = u32::try_from(seed).unwrap_or_default();
        schedule.faults.push((15_100, Fault::AgentDies(first, dies)));
        schedule.faults.push((16_500, Fault::AgentDies(second, dies / 2)));
        schedule.faults.push((70_500, Fault::AgentDies(third, dies / 3)));
        if seed % 3 == 0 {
            schedule
                .faults
                .push((17_000 + seed * 40, Fault::PowerOff(second, 2500)));
        }
        if seed % 4 == 0 {
            schedule.faults.push((71_000 + seed * 30, Fault::KillEtcd(first)));
        }
        schedule.faults.sort_by_key(|(at, _)| *at);
        run_well(&schedule);
    }
}
