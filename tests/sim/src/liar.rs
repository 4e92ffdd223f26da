//! One node with a valid certificate that lies about its epoch, the members and operators' orders (rule 10). Its epochs
//! are out of bounds, because an epoch within bounds is still believed.
//!
//! It forges no order that one node may give: such an order counts as an operator's.

use etcd_agent::model::{
    Epoch, Fact, Member, MemberId, MemberList, NodeName, NodeStatus, Paused, RaftTerm, UnixMs,
};

use crate::rng::Rng;
use crate::world::World;

/// The percentage of its answers that are lies.
const LIES: u64 = 60;

/// The source of chance for a lie, when this host lies now.
fn chance(world: &mut World, host: usize) -> Option<&mut Rng> {
    let lies = world.liar == Some(host) && world.rng.chance(LIES);
    lies.then_some(&mut world.rng)
}

/// Removes a member from a list, and may invite its node anew.
pub fn list(rng: &mut Rng, list: &mut MemberList) {
    list.linearizable = true;
    list.term = RaftTerm(u64::MAX);
    if list.members.is_empty() {
        return;
    }
    let gone = list.members.remove(rng.index(list.members.len()));
    match rng.below(3) {
        0 => list.members.push(Member {
            id: MemberId(rng.number()),
            name: String::new(),
            client_urls: Vec::new(),
            is_learner: true,
            ..gone
        }),
        1 => list.members.truncate(1),
        _ => {}
    }
}

/// Falsifies a member list that the etcd of a lying host answers.
pub fn members(world: &mut World, host: usize, told: &mut MemberList) {
    if let Some(rng) = chance(world, host) {
        list(rng, told);
    }
}

/// The status that a host reports, falsified when it lies.
pub fn status(world: &mut World, host: usize, mut status: NodeStatus) -> NodeStatus {
    let names: Vec<NodeName> = world.hosts.iter().map(|h| h.name.clone()).collect();
    let Some(rng) = chance(world, host) else {
        return status;
    };
    for _ in 0..=rng.below(2) {
        match rng.below(6) {
            0 => status.newest_epoch = Epoch(u64::MAX - rng.below(3)),
            1 | 2 => {
                if let Some(genesis) = &mut status.genesis {
                    genesis.epoch = Epoch(status.newest_epoch.0 + 1001);
                    genesis.token = format!("{}-{}-forged", genesis.cluster, genesis.epoch);
                }
            }
            3 => {
                if let Fact::Known(told) = &mut status.members {
                    list(rng, told);
                }
            }
            4 => status.eligible = !status.eligible,
            _ => orders(rng, &mut status, &names),
        }
    }
    status
}

/// Adds orders that no operator gave and that exceed what one node may order.
fn orders(rng: &mut Rng, status: &mut NodeStatus, names: &[NodeName]) {
    let me = status.node.clone();
    let told = &mut status.steering.directives;
    told.by = Some(me.clone());
    told.version += 1;
    match rng.below(4) {
        0 => told.version = u64::MAX,
        1 => told.version += 1001,
        2 => told.by = None,
        _ => told.out = names.iter().filter(|name| **name != me).cloned().collect(),
    }
    if rng.chance(50) {
        told.paused = Some(Paused {
            since: UnixMs(0),
            by: me,
        });
    }
    if told.out.is_empty() && told.by.is_some() && told.version < 1000 {
        told.version = u64::MAX;
    }
}
