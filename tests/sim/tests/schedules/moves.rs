//! Moves between versions of etcd: no acknowledged write is lost, whichever process dies meanwhile.

use etcd_agent_sim::{Fault, Schedule, run};

use crate::by_seed::none_breaks_a_rule;

/// How many random schedules.
const SCHEDULES: u64 = 600;

fn calm(seed: u64, nodes: usize) -> Schedule {
    let mut schedule = Schedule::calm(seed, nodes, nodes, true);
    // From 3.5.30 to 3.7.3 and back, which no rolling upgrade does in one step.
    schedule.faults.push((20_000, Fault::Move(0, 3)));
    schedule.faults.push((80_000, Fault::Move(nodes - 1, 0)));
    schedule
}

#[test]
fn s09_a_calm_cluster_moves_there_and_back() {
    for (seed, nodes) in [(1, 1), (2, 3), (3, 5)] {
        let outcome = run(&calm(seed, nodes), true);
        let history = outcome.history.join("\n");
        assert_eq!(outcome.violation, None, "{history}");
        let done = history.matches("Ok(\"done\")").count();
        assert_eq!(done, 2, "{history}");
    }
}

#[test]
fn rule_2_random_faults_during_a_move_lose_no_acknowledged_write() {
    let [done, interrupted, cancelled] = none_breaks_a_rule(
        SCHEDULES,
        Schedule::with_moves,
        [
            "event a move is done",
            "event a move is interrupted",
            "event a move is cancelled",
        ],
    );
    eprintln!("{done} done, {interrupted} interrupted, {cancelled} cancelled");
    assert!(
        done > SCHEDULES / 3 && interrupted > SCHEDULES / 4 && cancelled > SCHEDULES / 40,
        "{done} {interrupted} {cancelled}"
    );
}

/// Another person cancels the move in each of its moments.
fn cancelled(seed: u64) -> Schedule {
    let mut schedule = Schedule::calm(seed, 3, 3, true);
    schedule.faults.push((20_000, Fault::Move(0, 3)));
    for nth in 0..12 {
        schedule
            .faults
            .push((20_200 + seed % 5 * 60 + nth * 300, Fault::CancelMove(1)));
    }
    schedule
}

#[test]
fn rule_2_a_move_that_another_person_cancels_loses_no_acknowledged_write() {
    none_breaks_a_rule(60, cancelled, []);
}

/// Another person cancels the move once, around its backup, and half of them begin another one a moment later.
fn cancelled_around_the_backup(seed: u64) -> Schedule {
    let mut schedule = Schedule::calm(seed, 3, 3, true);
    schedule.faults.push((20_000, Fault::Move(0, 3)));
    let at = 20_040 + seed % 20 * 15;
    schedule.faults.push((at, Fault::CancelMove(1)));
    schedule
}

#[test]
fn a_move_whose_backup_is_outrun_ends_with_a_refusal() {
    let mut refused = 0;
    for seed in 0..200 {
        let outcome = run(&cancelled_around_the_backup(seed), true);
        let ends = |line: &&String| line.contains("   a move of ");
        for end in outcome.history.iter().filter(ends) {
            assert!(!end.contains("no answer in time"), "seed {seed}: {end}");
            refused += usize::from(end.contains("take another backup; nothing was changed"));
        }
    }
    assert!(refused > 0, "none was outrun");
}

/// Two electors lose their memory in the quarantine of the new epoch, while a third one is silent. Neither knows how far
/// the other's former memory has voted, so the quarantine does not end in this epoch. People move the cluster once more.
#[test]
fn a_quarantine_in_which_two_electors_were_reinstalled_ends_with_another_move() {
    let mut moved_again = 0;
    for seed in 0..20 {
        let mut schedule = Schedule::calm(seed, 5, 5, true);
        schedule.faults.extend([
            (20_000, Fault::Move(0, 3)),
            (20_500, Fault::AgentStops(4, 6_000)),
            (20_600, Fault::Reinstall(2)),
            (20_600, Fault::Reinstall(3)),
            // People look after that.
            (30_000, Fault::Resume(0)),
        ]);
        let outcome = run(&schedule, true);
        let history = outcome.history.join("\n");
        assert_eq!(outcome.violation, None, "seed {seed}: {history}");
        assert_eq!(outcome.excuse, None, "seed {seed}: {history}");
        let refused = history.find("may have voted for epoch 3");
        moved_again += usize::from(refused.is_some_and(|at| history[at..].contains("Ok(\"done\")")));
    }
    assert!(moved_again > 0, "no former vote held a quarantine back");
}

#[cfg(feature = "mutants")]
#[test]
fn rule_2_without_the_fence_a_move_loses_writes() {
    use etcd_agent::mutant::{Mutant, set};

    let broken = |seed| {
        set(Some(Mutant::MovesUnfenced));
        let violation = run(&Schedule::with_moves(seed), false).violation;
        set(None);
        violation
    };
    let found = (0..SCHEDULES).find_map(broken);
    let found = found.expect("the simulator does not see it");
    assert!(found.contains("rule 2"), "{found}");
}
