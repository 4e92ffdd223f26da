//! Upgrades of etcd: one member at a time, minor by minor, and back if a version does not start.

use etcd_agent_sim::{Fault, Schedule, run, told};

/// How many random schedules.
const SCHEDULES: u64 = 800;

/// Upgrades through all versions on a cluster without faults.
#[test]
fn s09_etcd_is_upgraded_minor_by_minor() {
    for (seed, nodes) in [(1, 1), (2, 3), (3, 5), (4, 4)] {
        let mut schedule = Schedule::calm(seed, nodes, nodes.min(5) | 1, false);
        if nodes == 4 {
            schedule = Schedule::calm(seed, 4, 3, false);
        }
        schedule.faults.push((20_000, Fault::Upgrade(0, 1)));
        schedule.faults.push((90_000, Fault::Upgrade(nodes - 1, 2)));
        let outcome = run(&schedule, true);
        let history = outcome.history.join("\n");
        assert_eq!(outcome.violation, None, "{history}");
        assert!(outcome.seen.contains("order upgrade done"), "{history}");
        assert!(!outcome.seen.contains("order upgrade refused"), "{history}");
        assert!(
            outcome.seen.contains("event a cluster's version rises"),
            "{history}"
        );
    }
}

/// Two minors in one step are refused, and nothing is restarted.
#[test]
fn an_upgrade_that_skips_a_minor_is_refused() {
    let mut schedule = Schedule::calm(5, 3, 3, false);
    schedule.faults.push((20_000, Fault::Upgrade(1, 3)));
    let outcome = run(&schedule, true);
    let history = outcome.history.join("\n");
    assert_eq!(outcome.violation, None, "{history}");
    assert!(outcome.seen.contains("order upgrade refused"), "{history}");
    assert!(!history.contains("restarts etcd"), "{history}");
}

/// The new version does not start on the first node: no other one gets it, and a cancelled upgrade brings the
/// first one back.
#[test]
fn an_upgrade_stops_at_its_first_failure_and_goes_back() {
    for seed in 0..20 {
        let mut schedule = Schedule::calm(seed, 3, 3, false);
        schedule.faults.push((15_000, Fault::BreakVersion(2)));
        schedule.faults.push((20_000, Fault::Upgrade(0, 2)));
        schedule.faults.push((60_000, Fault::CancelUpgrade(2)));
        schedule.faults.push((120_000, Fault::Upgrade(0, 0)));
        let outcome = run(&schedule, true);
        let history = outcome.history.join("\n");
        assert_eq!(outcome.violation, None, "{history}");
        let failed = history
            .lines()
            .filter(|line| line.contains("ends with exit code 1"));
        let hosts: std::collections::BTreeSet<&str> =
            failed.filter_map(|line| line.split(" of ").nth(1)).collect();
        assert_eq!(hosts.len(), 1, "{history}");
        assert!(outcome.seen.contains("order cancel upgrade done"), "{history}");
    }
}

/// A package restarts etcd on all hosts at the same moment: one member is down at a time.
#[test]
fn s51_members_that_a_package_restarts_at_once_go_down_one_at_a_time() {
    for (seed, nodes) in [(0, 3), (1, 3), (2, 3), (3, 5), (4, 5), (5, 1)] {
        let mut schedule = Schedule::calm(seed, nodes, nodes, false);
        for host in 0..nodes {
            schedule.faults.push((30_000, Fault::RestartByOthers(host)));
        }
        let outcome = run(&schedule, true);
        let history = outcome.history.join("\n");
        assert_eq!(outcome.violation, None, "{history}");
        let with_leave = history.matches("granted it").count();
        assert_eq!(with_leave, if nodes == 1 { 0 } else { nodes }, "{history}");
        assert!(!history.contains("without leave"), "{history}");
    }
}

#[test]
fn rule_4_upgrades_under_faults_take_one_member_at_a_time() {
    let start = told("START", 0);
    let (mut upgraded, mut back) = (0_u64, 0_u64);
    for seed in start..start + told("SEEDS", SCHEDULES) {
        let schedule = Schedule::with_upgrades(seed);
        let outcome = run(&schedule, false);
        if outcome.violation.is_some() {
            let history = run(&schedule, true).history.join("\n");
            panic!("seed {seed}: {:?}: {schedule:?}\n{history}", outcome.violation);
        }
        upgraded += u64::from(outcome.seen.contains("order upgrade done"));
        back += u64::from(outcome.seen.contains("order cancel upgrade done"));
    }
    assert!(
        upgraded > SCHEDULES / 4,
        "only {upgraded} schedules had an upgrade"
    );
    assert!(
        back > SCHEDULES / 40,
        "only {back} schedules had a cancelled upgrade"
    );
}
