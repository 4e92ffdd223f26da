//! Planners that break a safety rule on purpose. The simulator detects each, and reports the broken rule.
#![allow(clippy::panic, clippy::print_stdout)]

use etcd_agent::mutant::{Mutant, set};
use etcd_agent_sim::{Schedule, run};

/// The mutant breaks one of these rules in one of this many random schedules.
fn breaks(mutant: Mutant, rules: &[u8], within: u64) {
    let hit = (0..within).find_map(|seed| {
        set(Some(mutant));
        let violation = run(&Schedule::random(seed), false).violation;
        set(None);
        let violation = violation?;
        let named = rules
            .iter()
            .any(|rule| violation.starts_with(&format!("rule {rule}:")));
        // The same schedule breaks no rule with the planner that is shipped.
        (named && run(&Schedule::random(seed), false).violation.is_none()).then_some((seed, violation))
    });
    let Some((seed, violation)) = hit else {
        panic!("{mutant:?} broke none of the rules {rules:?} within {within} schedules");
    };
    println!("{mutant:?} was found by seed {seed}: {violation}");
}

#[test]
fn rule_1_an_elector_forgets_what_it_has_promised() {
    breaks(Mutant::PromiseForgotten, &[1, 8], 60_000);
}

#[test]
fn rule_1_the_gate_does_not_learn_of_a_newer_epoch() {
    breaks(Mutant::GateUnaware, &[1], 20_000);
}

#[test]
fn rule_3_a_voter_is_removed_without_a_look_at_the_others() {
    breaks(Mutant::RemovesAnyway, &[3], 20_000);
}

#[test]
fn rule_3_a_second_member_is_added_while_one_is_a_learner() {
    breaks(Mutant::TwoLearners, &[3], 20_000);
}

#[test]
fn rule_4_a_member_restarts_without_leave() {
    breaks(Mutant::RestartsTogether, &[4], 20_000);
}

#[test]
fn rule_5_data_without_a_leader_is_taken_for_useless() {
    breaks(Mutant::ReplacesOwnData, &[5], 2000);
}

#[test]
fn rule_6_what_is_restored_is_not_fetched_first() {
    breaks(Mutant::RestoresUnfetched, &[6], 20_000);
}

#[test]
fn rule_6_a_restore_begins_by_itself() {
    breaks(Mutant::RestoresUnasked, &[6], 2000);
}

#[test]
fn rule_7_retention_wants_nothing() {
    breaks(Mutant::PrunesAll, &[7], 20_000);
}

#[test]
fn rule_8_a_minority_chooses_a_genesis() {
    breaks(Mutant::MinorityChooses, &[8, 1], 2000);
}
