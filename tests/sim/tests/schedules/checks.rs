//! Situations that the checks of the world must detect: agents that do not ask before they act break a rule.
#![allow(clippy::expect_used)]

use etcd_agent::model::{ClusterId, Epoch, InitialState, MemberId, NodeName};
use etcd_agent_sim::spec::name;
use etcd_agent_sim::world::raft::Dir;
use etcd_agent_sim::world::{AgentState, Plane, Truth, World};

use crate::by_hand;

/// A cluster of three forms within this time, in milliseconds.
const FORMS_MS: u64 = 20_000;
/// After this time no earlier report counts any more, in milliseconds.
const LONG_MS: u64 = 10_000;

fn pass(world: &mut World, ms: u64) {
    let end = world.now + ms;
    while world.now < end {
        world.now += 100;
        world.tick();
    }
}

fn hosts() -> World {
    let names: Vec<NodeName> = (0..3).filter_map(name).collect();
    let mut world = World::new(1, &names, None, false);
    world.writing = false;
    for host in &mut world.hosts {
        host.agent = AgentState::Alive;
    }
    world
}

/// Three voters with their agents, and the number of the leader's host.
fn cluster() -> (World, usize) {
    let mut world = hosts();
    for host in 0..3 {
        let truth = Truth {
            epoch: Epoch(1),
            ..Truth::default()
        };
        by_hand::start(&mut world, host, InitialState::New, &[0, 1, 2], "checks", truth);
    }
    pass(&mut world, FORMS_MS);
    let leads = |host: &usize| {
        world.hosts[*host]
            .server
            .as_ref()
            .is_some_and(|server| server.leads)
    };
    let leader = (0..3).find(leads).expect("one of them leads");
    (world, leader)
}

/// The leader's agent requests the removal of one follower, after `happens` was done to the other.
fn removed_after(happens: impl Fn(&mut World, usize, usize), ms: u64) -> Option<String> {
    let (mut world, leader) = cluster();
    let others: Vec<usize> = (0..3).filter(|host| *host != leader).collect();
    let (gone, other) = (others[0], others[1]);
    let id = world.hosts[gone].dir.as_ref().map(|dir| dir.member)?;
    happens(&mut world, leader, other);
    pass(&mut world, ms);
    let _ = world.remove_member(leader, id);
    world.violation
}

#[test]
fn t04_a_voter_that_is_away_does_not_count_as_healthy() {
    assert_eq!(
        removed_after(|_, _, _| (), LONG_MS),
        None,
        "the other one is healthy"
    );
    let dead = |world: &mut World, _, other: usize| world.hosts[other].power_off(None);
    let apart = |world: &mut World, leader, other| {
        world.links.cut(Plane::Agents, leader, other);
        world.links.changed = world.now;
    };
    let down = |world: &mut World, _, other| world.stop_unit(other, false);
    for violation in [
        removed_after(dead, LONG_MS),
        removed_after(apart, LONG_MS),
        removed_after(down, LONG_MS),
    ] {
        let violation = violation.expect("a removal that leaves one of two is detected");
        assert!(violation.starts_with("rule 3:"), "{violation}");
    }
    assert_eq!(removed_after(dead, 500), None, "its agent has just answered");
}

#[test]
fn t04_data_of_an_unknown_cluster_is_not_moved_away_unnoticed() {
    let mut world = hosts();
    world.hosts[0].dir = Some(Dir::empty(ClusterId(0xf0), MemberId(0xf0)));
    world.check_replace(0, Epoch(2), true);
    assert_eq!(world.violation, None, "a person has ordered a restore");
    world.check_replace(0, Epoch(2), false);
    let violation = world.violation.expect("this needs a person's order");
    assert!(violation.starts_with("rule 5:"), "{violation}");
}
