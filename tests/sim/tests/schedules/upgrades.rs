//! Upgrades of etcd: one member at a time, minor by minor, and back if a version does not start.

use etcd_agent_sim::world::{Broken, Call, How};
use etcd_agent_sim::{Fault, Outcome, Schedule, run};

use crate::by_seed::none_breaks_a_rule;

/// How many random schedules.
const SCHEDULES: u64 = 800;

/// The outcome of a schedule that breaks no rule, and its history.
fn run_well(schedule: &Schedule) -> (Outcome, String) {
    let outcome = run(schedule, true);
    let history = outcome.history.join("\n");
    assert_eq!(outcome.violation, None, "{history}");
    (outcome, history)
}

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
        // 3.7, once snapshots of raft stand for what 3.5 has written.
        schedule.faults.push((250_000, Fault::Upgrade(0, 3)));
        let (outcome, history) = run_well(&schedule);
        assert!(outcome.seen.contains("order upgrade done"), "{history}");
        assert!(!outcome.seen.contains("order upgrade refused"), "{history}");
        assert!(
            outcome.seen.contains("event a cluster's version rises"),
            "{history}"
        );
        // The leader's node may be the first that knows that the new version starts on its data.
        for upgrade in history.split("-- Upgrade").skip(1) {
            let (upgrade, _) = upgrade.split_once(": Done").unwrap();
            assert!(upgrade.matches("leads in term").count() <= 1, "{history}");
        }
    }
}

/// The data directory is read for something else when the order comes, which needs what is on the disk.
#[test]
fn an_order_waits_while_the_data_directory_is_read_for_something_else() {
    for seed in 0..10 {
        let mut schedule = Schedule::calm(seed, 3, 3, false);
        schedule.faults.push((20_000, Fault::Upgrade(0, 1)));
        let broken = Broken {
            call: Call::Inspect,
            how: How::Refused,
            times: Some(3),
        };
        schedule.faults.push((90_000, Fault::Breaks(1, broken)));
        schedule.faults.push((90_000, Fault::Upgrade(1, 2)));
        let (outcome, history) = run_well(&schedule);
        assert!(outcome.seen.contains("order upgrade done"), "{history}");
        assert!(!outcome.seen.contains("order upgrade refused"), "{history}");
        assert!(!outcome.seen.contains("order upgrade failed"), "{history}");
    }
}

/// Back through all minors, while the raft leader changes.
#[test]
fn s09_etcd_is_downgraded_minor_by_minor() {
    for (seed, nodes) in [(1, 1), (2, 3), (3, 5)] {
        let mut schedule = Schedule::calm(seed, nodes, nodes, false);
        schedule.faults.push((20_000, Fault::InstallEtcd(2)));
        schedule.faults.push((90_000, Fault::MoveLeader(0, None)));
        schedule.faults.push((100_000, Fault::Downgrade(0, 1)));
        schedule.faults.push((200_000, Fault::Upgrade(0, 2)));
        schedule.faults.push((260_000, Fault::Downgrade(nodes - 1, 1)));
        // The downgrade is under way, or done.
        schedule.faults.push((262_000, Fault::CancelUpgrade(0)));
        let (outcome, history) = run_well(&schedule);
        assert!(outcome.seen.contains("order downgrade done"), "{history}");
        assert!(!outcome.seen.contains("order downgrade refused"), "{history}");
        assert!(
            outcome.seen.contains("event a downgrade is enabled or ended"),
            "{history}"
        );
    }
}

/// The members return to the etcd of the package, which may be a newer minor or an older patch. One that would skip a
/// minor, or is an older one, is refused.
#[test]
fn members_follow_the_package_again() {
    for (seed, selected, package, end) in [(1, 1, 0, "done"), (2, 1, 2, "done"), (3, 2, 1, "refused")] {
        for nodes in [1, 3] {
            let mut schedule = Schedule::calm(seed, nodes, nodes, false);
            schedule.faults.push((20_000, Fault::Upgrade(0, 1)));
            if selected > 1 {
                schedule.faults.push((90_000, Fault::Upgrade(0, selected)));
            }
            schedule.faults.push((160_000, Fault::InstallEtcd(package)));
            schedule.faults.push((170_000, Fault::FollowPackage(nodes - 1)));
            let (outcome, history) = run_well(&schedule);
            let ended = format!("order follow package {end}");
            assert!(outcome.seen.contains(ended.as_str()), "{history}");
            // The way back to what was selected is an upgrade, or a cancelled one.
            let mut back = schedule.clone();
            back.faults.push((171_500, Fault::CancelUpgrade(0)));
            run_well(&back);
        }
    }
}

/// A log that was clean gets entries of v2 again when 3.5 runs, and 3.7 must not start on them.
#[test]
fn a_log_is_read_again_after_a_downgrade() {
    for seed in 0..10 {
        let mut schedule = Schedule::calm(seed, 3, 3, false);
        schedule.faults.push((20_000, Fault::InstallEtcd(2)));
        schedule.faults.push((150_000, Fault::Downgrade(0, 1)));
        schedule.faults.push((250_000, Fault::Upgrade(0, 2)));
        for at in [260_000, 262_000, 265_000, 270_000] {
            schedule.faults.push((at, Fault::Upgrade(0, 3)));
        }
        let (outcome, history) = run_well(&schedule);
        assert!(outcome.seen.contains("order downgrade done"), "{history}");
    }
}

/// Two minors in one step are refused, and nothing is restarted.
#[test]
fn an_upgrade_that_skips_a_minor_is_refused() {
    let mut schedule = Schedule::calm(5, 3, 3, false);
    schedule.faults.push((20_000, Fault::Upgrade(1, 3)));
    let (outcome, history) = run_well(&schedule);
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
        let (outcome, history) = run_well(&schedule);
        let failed = history
            .lines()
            .filter(|line| line.contains("ends with exit code 1"));
        let hosts: std::collections::BTreeSet<&str> =
            failed.filter_map(|line| line.split(" of ").nth(1)).collect();
        assert_eq!(hosts.len(), 1, "{history}");
        assert!(outcome.seen.contains("order cancel upgrade done"), "{history}");
    }
}

/// The member on the last host that runs the former version is lost while another one goes back. The rest convert their
/// data, the new member begins with their version, and a restart that nobody holds brings the same etcd back.
fn with_a_loss_on_the_way_back(seed: u64, lost_at: u64) -> Schedule {
    let mut schedule = Schedule::calm(seed, 3, 3, false);
    schedule.faults.push((10_000, Fault::Upgrade(1, 2)));
    schedule.faults.push((11_700, Fault::CancelUpgrade(2)));
    schedule.faults.push((lost_at, Fault::Wipe(0)));
    schedule.faults.push((lost_at + 20, Fault::Reinstall(0)));
    schedule
        .faults
        .push((lost_at + 11_000, Fault::RestartByOthers(2)));
    schedule
}

const LOST_AT: std::ops::Range<u64> = 11_700..13_700;

#[test]
fn a_member_that_converts_its_data_on_the_way_back_stays() {
    for (seed, lost_at) in (0..).zip(LOST_AT.step_by(50)) {
        run_well(&with_a_loss_on_the_way_back(seed, lost_at));
    }
}

#[cfg(feature = "mutants")]
#[test]
fn an_etcd_that_goes_back_after_the_conversion_is_found_out() {
    use etcd_agent::mutant::{Mutant, set};

    let broken = |(seed, lost_at)| {
        set(Some(Mutant::GoesBackLate));
        let violation = run(&with_a_loss_on_the_way_back(seed, lost_at), false).violation;
        set(None);
        violation.is_some()
    };
    assert!((0..).zip(LOST_AT.step_by(50)).any(broken));
}

/// A package restarts etcd on all hosts at the same moment: one member is down at a time.
#[test]
fn s51_members_that_a_package_restarts_at_once_go_down_one_at_a_time() {
    for (seed, nodes) in [(0, 3), (1, 3), (2, 3), (3, 5), (4, 5), (5, 1)] {
        let mut schedule = Schedule::calm(seed, nodes, nodes, false);
        for host in 0..nodes {
            schedule.faults.push((30_000, Fault::RestartByOthers(host)));
        }
        let (_, history) = run_well(&schedule);
        let with_leave = history.matches("granted it").count();
        assert_eq!(with_leave, if nodes == 1 { 0 } else { nodes }, "{history}");
        assert!(!history.contains("without leave"), "{history}");
    }
}

#[test]
fn rule_4_upgrades_under_faults_take_one_member_at_a_time() {
    let [upgraded, back] = none_breaks_a_rule(
        SCHEDULES,
        Schedule::with_upgrades,
        ["order upgrade done", "order cancel upgrade done"],
    );
    assert!(
        upgraded > SCHEDULES / 4,
        "only {upgraded} schedules had an upgrade"
    );
    assert!(
        back > SCHEDULES / 40,
        "only {back} schedules had a cancelled upgrade"
    );
}

/// A package replaces etcd on all hosts and restarts nothing: the agents do, one member at a time.
#[test]
fn a_binary_that_a_package_replaced_is_rolled_out_one_member_at_a_time() {
    for (seed, nodes, number) in [(0, 3, 1), (1, 3, 2), (2, 5, 1), (3, 1, 2)] {
        let mut schedule = Schedule::calm(seed, nodes, nodes, false);
        schedule.faults.push((20_000, Fault::InstallEtcd(number)));
        schedule.faults.push((120_000, Fault::Mend));
        let (outcome, history) = run_well(&schedule);
        let restarts = history.matches("restarts etcd").count();
        assert_eq!(restarts, nodes, "{history}");
        let rises = outcome.seen.contains("event a cluster's version rises");
        assert_eq!(rises, number == 2, "{history}");
    }
}

/// One node reports that the upgrade was cancelled, and that it runs the former version, after etcd has
/// converted its data.
fn with_a_forged_cancel(seed: u64) -> Schedule {
    let mut schedule = Schedule::calm(seed, 3, 3, false);
    schedule.faults.push((20_000, Fault::Upgrade(0, 1)));
    schedule.faults.push((90_000, Fault::Upgrade(0, 2)));
    schedule.faults.push((170_000, Fault::ForgesCancel(1)));
    schedule.faults.push((230_000, Fault::Mend));
    schedule
}

#[test]
fn rule_10_a_liar_brings_no_etcd_back_from_converted_data() {
    for seed in 0..20 {
        let mut schedule = with_a_forged_cancel(seed);
        // The lie does not lock operators out.
        schedule.faults.push((240_000, Fault::Upgrade(0, 2)));
        let (outcome, history) = run_well(&schedule);
        assert!(outcome.seen.contains("order upgrade done"), "{history}");
        assert!(!outcome.seen.contains("order upgrade refused"), "{history}");
    }
}

#[cfg(feature = "mutants")]
#[test]
fn rule_10_without_this_guard_a_liar_brings_an_etcd_back() {
    use etcd_agent::mutant::{Mutant, set};

    let broken = |seed| {
        set(Some(Mutant::OpensAnyData));
        let violation = run(&with_a_forged_cancel(seed), false).violation;
        set(None);
        violation.is_some_and(|violation| violation.starts_with("rule 10:"))
    };
    assert!((0..20).any(broken));
}
