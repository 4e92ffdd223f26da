//! The gate, while its agent cannot answer yet.

use std::collections::BTreeMap;

use etcd_agent::agent::Agent;
use etcd_agent::genesis::new_record;
use etcd_agent::model::{
    Accept, AcceptReply, Assignment, BackupId, Ballot, ClusterId, Epoch, FirstStart, GateState, Generation,
    Genesis, Incarnation, InitialState, MemberId, Origin, RaftTerm, Role, Spec, UnixMs, cluster_id_of,
};
use etcd_agent::plan::start::{Answer, Known, Log, Step, decide};
use etcd_agent::ports::AgentHandle;
use etcd_agent_sim::ports::{Board, Seat, ports};
use etcd_agent_sim::sim::Sim;
use etcd_agent_sim::spec::{name, spec};
use etcd_agent_sim::world::{AgentState, Weather, World};
use etcd_agent_sim::{Fault, Outcome, Schedule, run};

fn assignment(spec: &Spec) -> Assignment {
    Assignment {
        generation: Generation(3),
        epoch: Epoch(1),
        node: spec.node.clone(),
        member_id: MemberId(7),
        cluster_id: ClusterId(9),
        token: "sim-1".to_owned(),
        role: Role::Founder,
        initial_state: InitialState::Existing,
        initial_cluster: BTreeMap::new(),
        data_dir: spec.etcd.data_dir.clone(),
        wal_dir: spec.etcd.wal_dir.clone(),
        listed: RaftTerm::default(),
        started: true,
        removed: false,
        restore: None,
        restored: false,
        first_start: FirstStart::Allowed,
        transport: None,
        settings_digest: String::new(),
        etcd_version: None,
    }
}

/// The gate's socket exists before the agent's first observation, which may take long or never succeed.
#[tokio::test(start_paused = true)]
async fn c01_an_agent_that_has_not_looked_yet_does_not_clear_the_gate() {
    let schedule = Schedule::calm(1, 3, 3, false);
    let names: Vec<_> = (0..3).filter_map(name).collect();
    let sim = Sim::new(World::new(1, &names, None, false));
    let spec = spec(&schedule, 0).unwrap();
    {
        let host = &mut sim.world().hosts[0];
        host.agent = AgentState::Alive;
        host.run = 1;
        host.assignment = Some(assignment(&spec));
        host.unreadable = true;
    }
    let seat = Seat::new(sim.clone(), 0, 1, 1);
    let board = Board::new(spec.nodes.keys().filter(|n| **n != spec.node).cloned());
    let agent = Agent::over(ports(&seat, &board), spec, "boot-1".to_owned()).unwrap();
    assert!(agent.gate().is_err(), "before the first look: {:?}", agent.gate());

    let looping = tokio::spawn({
        let agent = agent.clone();
        async move { agent.run_loop().await }
    });
    tokio::time::sleep(std::time::Duration::from_mins(1)).await;
    assert!(agent.gate().is_err(), "no look succeeds: {:?}", agent.gate());

    sim.world().hosts[0].unreadable = false;
    tokio::time::sleep(std::time::Duration::from_mins(1)).await;
    let (clear, _) = agent.gate().expect("it has looked");
    assert!(!clear, "nothing was cleared in this boot");

    sim.world().hosts[0].unreadable = true;
    assert!(agent.gate().is_err(), "what is assigned cannot be read any more");
    looping.abort();
}

/// The number of schedules that are tried if a crash has to come between two messages.
const ROUNDS: u64 = 100;

/// Epoch 2 may be open as soon as an elector has accepted it, even if nobody is left to report it.
#[tokio::test(start_paused = true)]
async fn rule_1_an_elector_tells_the_gate_what_it_has_accepted() {
    let schedule = Schedule::calm(1, 3, 3, false);
    let names: Vec<_> = (0..3).filter_map(name).collect();
    let sim = Sim::new(World::new(1, &names, None, false));
    let spec = spec(&schedule, 0).unwrap();
    let assigned = assignment(&spec);
    let before = GateState {
        generation: assigned.generation,
        epoch: assigned.epoch,
        newest_epoch: assigned.epoch,
        voted: Epoch::default(),
        cluster_id: assigned.cluster_id,
        member_id: assigned.member_id,
        data_dir: assigned.data_dir.clone(),
        wal_dir: assigned.wal_dir.clone(),
        voters: 3,
        electors: 3,
        started_once: true,
        initial: None,
    };
    let mine = Incarnation::new("a".repeat(32)).unwrap();
    {
        let mut world = sim.world();
        let host = &mut world.hosts[0];
        host.agent = AgentState::Alive;
        host.run = 1;
        host.assignment = Some(assigned);
        host.gate = Some(before.clone());
        let mut record = new_record(mine.clone());
        (record.eligible, record.newest_epoch) = (true, Epoch(1));
        host.elector = Some(record);
    }
    let seat = Seat::new(sim.clone(), 0, 1, 1);
    let board = Board::new(spec.nodes.keys().filter(|n| **n != spec.node).cloned());
    let agent = Agent::over(ports(&seat, &board), spec.clone(), "boot-1".to_owned()).unwrap();
    let members: BTreeMap<_, _> = [(names[1].clone(), vec![World::peer_url(1)])].into();
    let token = "sim-2-abc".to_owned();
    let reply = agent
        .accept(Accept {
            ballot: Ballot {
                round: 1,
                node: names[1].clone(),
            },
            electorate_digest: spec.electorate_digest(),
            genesis: Genesis {
                epoch: Epoch(2),
                cluster: spec.cluster.clone(),
                cluster_id: cluster_id_of(&members, &token),
                token,
                members,
                origin: Origin::Backup(BackupId::new("2026-01-01T00:00:00Z-000001").unwrap()),
                electorate: names.iter().map(|node| (node.clone(), mine.clone())).collect(),
                created: UnixMs(1),
                former: Vec::new(),
                etcd: None,
            },
        })
        .await;
    assert!(matches!(reply, Ok(AcceptReply::Accepted { .. })), "{reply:?}");
    assert_eq!(agent.status().voted, Epoch(2));
    let gate = sim.world().hosts[0].gate.clone().unwrap();
    assert_eq!((gate.newest_epoch, gate.voted), (Epoch(1), Epoch(2)));
    let alone = |gate: GateState| {
        let known = Known {
            gate: Ok(Some(gate)),
            assigned: true,
            cleared: None,
            initial: None,
            overridden: false,
            agent: Answer::Silent(std::time::Duration::from_mins(2)),
        };
        let own = Log {
            cluster_id: ClusterId(9),
            member_id: MemberId(7),
            remembers: true,
        };
        matches!(decide(&known, |_| Ok(Some(own))), Step::Pass(_))
    };
    assert!(alone(before), "it knew of no later epoch");
    assert!(!alone(gate), "epoch 2 may be open");
}

/// Epoch 2 is chosen by n1, n2 and n3 of five electors. The agent of n2, the only one that has learned that,
/// dies at a crossing that the seed determines, and n3 is off. n1, which has accepted the epoch, is rebooted
/// next to n4 and n5, which know nothing. In every other schedule n1 has lost its memory before, and n4 is
/// rebooted.
fn the_witnesses_of_a_round_are_away(seed: u64) -> Outcome {
    let forgets = seed.is_multiple_of(2);
    let mut schedule = Schedule::calm(seed, 5, 5, true);
    let cut = |host| [(1, host), (host, 1)].map(|(from, to)| (20_000, Fault::Cut(from, to, Some(true))));
    schedule.faults.extend([cut(3), cut(4)].concat());
    let refused = [0, 2, 3, 4].map(|host| (20_000, Fault::StoreRefuses(host)));
    schedule.faults.extend(refused);
    let died = 20_200;
    let crossing = 10 + u32::try_from(seed / 2).unwrap_or_default();
    schedule.faults.extend([
        (20_100, Fault::Restore(1)),
        (20_100, Fault::AgentDies(1, crossing)),
        (died, Fault::AgentOff(1, 120_000)),
        (died, Fault::Isolate(1)),
        (died, Fault::Store(Weather::Down)),
        (died, Fault::PowerOff(2, 120_000)),
    ]);
    if forgets {
        schedule.faults.push((died + 500, Fault::Reinstall(0)));
        schedule.faults.push((died + 20_000, Fault::PowerOff(3, 5000)));
    } else {
        schedule.faults.push((died + 20_000, Fault::PowerOff(0, 5000)));
    }
    schedule.faults.push((150_000, Fault::Mend));
    schedule.faults.push((150_000, Fault::Store(Weather::Fair)));
    run(&schedule, true)
}

#[test]
fn rule_1_a_start_waits_for_those_who_may_know_of_a_later_epoch() {
    let mut waited = 0;
    for seed in 0..ROUNDS {
        let outcome = the_witnesses_of_a_round_are_away(seed);
        let history = outcome.history.join("\n");
        assert_eq!(outcome.violation, None, "seed {seed}\n{history}");
        assert_eq!(outcome.excuse, None, "seed {seed}\n{history}");
        waited += u64::from(outcome.seen.contains("check a gate holds back a replaced epoch"));
    }
    assert!(waited > 0, "in no schedule did a start wait");
}

#[test]
#[cfg(feature = "mutants")]
fn rule_1_an_elector_that_has_accepted_a_later_epoch_confirms_an_older_one() {
    use etcd_agent::mutant::{Mutant, set};
    let mut found = [false; 2];
    for seed in 0..ROUNDS {
        set(Some(Mutant::VotesForgotten));
        let violation = the_witnesses_of_a_round_are_away(seed).violation;
        set(None);
        if violation.is_some_and(|text| text.starts_with("rule 1:")) {
            found[usize::from(seed.is_multiple_of(2))] = true;
        }
    }
    assert_eq!(
        found, [true; 2],
        "with a memory that remembers, and with one that forgot"
    );
}

/// The only voter of epoch 1 is off while the other electors restore. When it comes back, it is isolated and
/// the store is down.
fn the_only_voter_sleeps_through_a_restore(seed: u64) -> Outcome {
    let mut schedule = Schedule::calm(seed, 3, 1, true);
    schedule.faults.push((20_000, Fault::PowerOff(0, 60_000)));
    schedule.faults.push((22_000, Fault::Restore(1)));
    schedule.faults.push((60_000, Fault::Isolate(0)));
    schedule.faults.push((60_000, Fault::Store(Weather::Down)));
    schedule.faults.push((110_000, Fault::Mend));
    run(&schedule, true)
}

#[test]
fn c01_the_gate_asks_before_the_agents_first_look() {
    for seed in 0..20 {
        let outcome = the_only_voter_sleeps_through_a_restore(seed);
        let history = outcome.history.join("\n");
        assert_eq!(outcome.violation, None, "{history}");
        assert_eq!(outcome.excuse, None, "{history}");
        assert!(history.contains("epoch 2 was chosen"), "{history}");
    }
}

#[test]
#[cfg(feature = "mutants")]
fn rule_1_an_agent_that_has_not_looked_clears_the_gate() {
    use etcd_agent::mutant::{Mutant, set};
    let found = (0..20).any(|seed| {
        set(Some(Mutant::GateBlind));
        let violation = the_only_voter_sleeps_through_a_restore(seed).violation;
        set(None);
        violation.is_some_and(|text| text.starts_with("rule 1:"))
    });
    assert!(
        found,
        "no violation, although the old epoch's only voter started again"
    );
}

/// n1 is cut off from the others, and its disk is not mounted, while a restore opens epoch 2. It reaches the
/// store all the time.
fn the_store_was_read_before(seed: u64) -> Outcome {
    let mut schedule = Schedule::calm(seed, 3, 3, true);
    schedule.faults.push((13_000, Fault::Backup(1)));
    schedule.faults.push((14_400, Fault::Isolate(0)));
    schedule.faults.push((15_600, Fault::LateMount(0, 18_600)));
    schedule.faults.push((24_500, Fault::Restore(2)));
    schedule.faults.push((46_300, Fault::PowerOff(1, 8600)));
    run(&schedule, true)
}

#[test]
fn rule_1_the_store_is_asked_again_before_it_clears_the_gate() {
    for seed in 0..10 {
        let outcome = the_store_was_read_before(seed);
        let history = outcome.history.join("\n");
        assert_eq!(outcome.violation, None, "{history}");
        assert!(history.contains("epoch 2 was chosen"), "{history}");
    }
}

#[test]
#[cfg(feature = "mutants")]
fn rule_1_a_gate_cleared_by_what_the_store_said_before_is_found_out() {
    use etcd_agent::mutant::{Mutant, set};
    set(Some(Mutant::StoreNotAskedAgain));
    let outcomes: Vec<Outcome> = (0..10).map(the_store_was_read_before).collect();
    set(None);
    let found = |outcome: &Outcome| {
        let violation = outcome.violation.as_deref().unwrap_or_default();
        violation.starts_with("rule 1:")
    };
    let violations: Vec<_> = outcomes.iter().map(|outcome| &outcome.violation).collect();
    assert!(outcomes.iter().any(found), "{violations:?}");
}

/// n2 cannot write etcd's settings when a restore opens epoch 2, and archives its data. Its environment file
/// still names epoch 1. A person starts etcd there. Found by a random schedule.
fn unapplied() -> Schedule {
    Schedule::long(6_000_033_270)
}

/// A cluster of three shrinks to n1, whose agent starts again while etcd is down. The two others are a
/// majority of the electors and restore a backup. n1 boots without its agent: its gate decides alone. Found
/// by a random schedule.
fn shrunk() -> Schedule {
    let mut schedule = Schedule::long(6_000_392_409);
    // n1 has to be the member that stays: later faults cut it off and turn its agent off.
    schedule.faults.insert(0, (6_000, Fault::MoveLeader(0, Some(0))));
    schedule
}

/// Runs a schedule without violation, and returns its history.
fn passes(schedule: &Schedule) -> String {
    let outcome = run(schedule, true);
    let history = outcome.history.join("\n");
    assert_eq!(outcome.violation, None, "{history}");
    assert!(history.contains("epoch 2 was chosen"), "{history}");
    history
}

#[test]
fn rule_1_a_start_on_settings_of_a_replaced_epoch_is_held_back() {
    let history = passes(&unapplied());
    assert!(history.contains("n2: Apply is Refused"), "{history}");
    assert!(history.contains("-- Start(1)"), "{history}");
}

#[test]
fn rule_1_the_gate_knows_of_a_smaller_cluster_after_the_agent_was_started_again() {
    let history = passes(&shrunk());
    assert!(history.contains("size 1: Done"), "{history}");
}

#[test]
#[cfg(feature = "mutants")]
fn rule_1_a_gate_without_these_guards_is_found_out() {
    use etcd_agent::mutant::{Mutant, set};
    let rows = [
        (
            Mutant::SettingsUnchecked,
            unapplied(),
            "rule 1: n2 starts etcd of epoch 1",
        ),
        (
            Mutant::VotersForgotten,
            shrunk(),
            "rule 1: epoch 1 was started again",
        ),
    ];
    for (mutant, schedule, expected) in rows {
        // Which member leads, and what it does when, depends on the sources. One of these moments shows it.
        let found = (0..40).any(|later| {
            let mut schedule = schedule.clone();
            if let Some((at, Fault::MoveLeader(..))) = schedule.faults.first_mut() {
                *at += later * 100;
            }
            set(Some(mutant));
            let outcome = run(&schedule, false);
            set(None);
            outcome
                .violation
                .is_some_and(|violation| violation.starts_with(expected))
        });
        assert!(found, "{mutant:?}");
    }
}
