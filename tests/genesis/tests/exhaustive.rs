//! Checks in every interleaving within the bounds that at most one genesis of an epoch is ever chosen (rule
//! 1). Also checks that faults in electors are detected.
//!
//! `make genesis` checks larger bounds. It needs hours and up to 16 GB of memory.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use genesis_check::{Bounds, Fault, Found, Start, explore};

/// Three electors that know each other. Two of them propose, two rounds in total. No memory is lost.
fn bounds() -> Bounds {
    Bounds {
        nodes: 3,
        proposers: 2,
        rounds: 2,
        losses: 0,
        some_answers: true,
        epochs: 1,
        start: Start::Ready,
        fault: Fault::None,
        most_states: 20_000_000,
    }
}

/// Epoch 1 was opened by the votes of `accepted`, the nodes in `learned` know it, and epoch 2 is proposed.
fn second_epoch(accepted: &[usize], learned: &[usize]) -> Bounds {
    Bounds {
        epochs: 2,
        start: Start::Opened {
            accepted: accepted.to_vec(),
            learned: learned.to_vec(),
        },
        ..bounds()
    }
}

/// Checks that there is no violation, and that at least this many states were seen. Fewer states would mean
/// that some events can no longer happen.
fn holds(bounds: &Bounds, at_least: usize) {
    let begun = std::time::Instant::now();
    let found = explore(bounds);
    eprintln!(
        "{} states ({} with a genesis chosen), {} steps deep, {:.1?}: {bounds:?}",
        found.states,
        found.chosen,
        found.depth,
        begun.elapsed()
    );
    if let Some(violation) = found.violation {
        panic!("{bounds:?}: {violation}");
    }
    assert!(found.chosen > 0, "nothing was ever chosen within {bounds:?}");
    assert!(
        found.states >= at_least,
        "only {} states within {bounds:?}",
        found.states
    );
}

/// True if the larger bounds are checked as well (`make genesis`).
fn larger() -> bool {
    std::env::var_os("GENESIS_LARGER").is_some()
}

fn most(bounds: Bounds) -> Bounds {
    Bounds {
        most_states: 250_000_000,
        ..bounds
    }
}

#[test]
fn rule_1_three_electors_without_amnesia() {
    let three = Bounds {
        proposers: 3,
        rounds: 3,
        ..bounds()
    };
    holds(&three, 120_000);
    let four_rounds = Bounds {
        rounds: 4,
        ..bounds()
    };
    holds(&four_rounds, 300_000);
    if larger() {
        holds(&most(Bounds { rounds: 4, ..three }), 0);
    }
}

#[test]
fn rule_1_three_electors_with_amnesia() {
    let one = Bounds {
        losses: 1,
        ..bounds()
    };
    holds(&one, 180_000);
    let two = Bounds {
        proposers: 1,
        losses: 2,
        ..bounds()
    };
    holds(&two, 2_300_000);
    if larger() {
        holds(
            &most(Bounds {
                rounds: 3,
                ..one.clone()
            }),
            0,
        );
        holds(
            &most(Bounds {
                losses: 2,
                some_answers: false,
                ..one
            }),
            0,
        );
        holds(
            &most(Bounds {
                rounds: 3,
                some_answers: false,
                ..two
            }),
            0,
        );
    }
}

#[test]
fn rule_1_three_electors_just_installed() {
    let fresh = Bounds {
        start: Start::Fresh,
        ..bounds()
    };
    holds(&fresh, 26_000);
    let with_amnesia = Bounds {
        proposers: 1,
        losses: 1,
        ..fresh
    };
    holds(&with_amnesia, 2_200_000);
}

#[test]
fn rule_1_five_electors() {
    let five = Bounds {
        nodes: 5,
        rounds: 3,
        ..bounds()
    };
    holds(&five, 900_000);
    let with_amnesia = Bounds {
        proposers: 1,
        rounds: 2,
        losses: 1,
        ..five.clone()
    };
    holds(&with_amnesia, 2_000_000);
    if larger() {
        holds(
            &most(Bounds {
                proposers: 3,
                ..five.clone()
            }),
            0,
        );
        holds(
            &most(Bounds {
                rounds: 2,
                losses: 1,
                some_answers: false,
                ..five
            }),
            0,
        );
    }
}

#[test]
fn rule_1_the_second_epoch() {
    for (accepted, learned) in [(&[0, 1][..], &[0, 1][..]), (&[0, 1], &[0]), (&[0, 2], &[0, 1, 2])] {
        holds(
            &Bounds {
                losses: 1,
                ..second_epoch(accepted, learned)
            },
            100_000,
        );
    }
    // Two memories are lost before the third elector knows epoch 1.
    let late = Bounds {
        proposers: 1,
        losses: 2,
        some_answers: false,
        ..second_epoch(&[0, 1], &[0, 1])
    };
    holds(&late, 2_200_000);
    if larger() {
        holds(
            &most(Bounds {
                some_answers: true,
                ..late.clone()
            }),
            0,
        );
        holds(&most(Bounds { proposers: 2, ..late }), 0);
    }
}

fn found_out(fault: Fault, bounds: Bounds) -> Found {
    let found = explore(&Bounds { fault, ..bounds });
    assert!(found.violation.is_some(), "{fault:?} was not detected");
    found
}

#[test]
fn promises_that_are_not_stored_are_found_out() {
    let found = found_out(Fault::PromisesNotStored, bounds());
    assert!(found.violation.unwrap().contains("forgets at a restart"));
}

#[test]
fn new_memories_that_vote_at_once_are_found_out() {
    let found = found_out(
        Fault::NewMemoryVotes,
        Bounds {
            losses: 1,
            ..bounds()
        },
    );
    assert!(found.violation.unwrap().contains("has two geneses"));
}

#[test]
fn f02_new_memories_that_deny_an_epoch_are_found_out() {
    let found = found_out(
        Fault::NewMemoryDenies,
        Bounds {
            losses: 1,
            ..bounds()
        },
    );
    assert!(found.violation.unwrap().contains("a majority denies"));
}

#[test]
fn f02_new_memories_that_deny_what_their_former_ones_voted_for_are_found_out() {
    let found = found_out(
        Fault::FormerVotesDenied,
        Bounds {
            losses: 1,
            ..bounds()
        },
    );
    assert!(found.violation.unwrap().contains("a majority denies"));
}

#[test]
fn a_memory_lost_under_its_old_incarnation_is_found_out() {
    found_out(
        Fault::OldIncarnationKept,
        Bounds {
            losses: 1,
            ..bounds()
        },
    );
}
