//! A host gets a new address. Its member is updated once it votes, and not before: `MemberUpdate` makes a learner a
//! voter in etcd's list (etcd#21694).

use etcd_agent_sim::{Fault, Outcome, Schedule, run};

/// n2 has lost its data, and gets a new address at this time while it joins again, or later.
fn moves(at: u64) -> Outcome {
    let mut schedule = Schedule::calm(4, 3, 3, false);
    schedule.faults.push((9000, Fault::Wipe(1)));
    schedule.faults.push((at, Fault::NewAddress(1)));
    run(&schedule, true)
}

/// The times at which n2 may be a learner, or is a voter again.
fn times() -> impl Iterator<Item = u64> {
    (9000..16_000).step_by(100)
}

#[test]
fn c12b_a_member_gets_the_new_address_of_its_host_once_it_votes() {
    let mut updated = 0;
    for at in times() {
        let outcome = moves(at);
        let history = outcome.history.join("\n");
        assert_eq!(outcome.violation, None, "{at}: {history}");
        assert_eq!(outcome.excuse, None, "{at}: {history}");
        if outcome.seen.contains("action update-member") {
            assert!(outcome.seen.contains("reason address-changed"), "{at}: {history}");
            updated += 1;
        }
    }
    assert!(updated > times().count() / 4, "{updated} members were updated");
}

#[test]
#[cfg(feature = "mutants")]
fn c12b_an_agent_that_updates_the_address_of_a_learner_is_found_out() {
    use etcd_agent::mutant::{Mutant, set};
    set(Some(Mutant::UpdatesLearners));
    let found: Vec<String> = times().filter_map(|at| moves(at).violation).collect();
    set(None);
    assert!(!found.is_empty(), "no learner was updated");
    for violation in found {
        assert!(violation.starts_with("rule 3:"), "{violation}");
    }
}
