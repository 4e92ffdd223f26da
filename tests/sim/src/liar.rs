//! One node that lies, with a valid certificate, in what it answers: of its epoch, of the members, of operators' orders
//! (rule 10). Its epochs are out of bounds: one that could be true is still believed.
//!
//! What it orders is not among it: an order that it could give by the rules is an operator's.

use etcd_agent::model::{
    Epoch, Fact, Member, MemberId, MemberList, NodeName, NodeStatus, Paused, RaftTerm, UnixMs,
};

use crate::rng::Rng;
use crate::world::World;

/// Of a hundred answers so many are lies.
const LIES: u64 = 60;

/// Chance for one lie of this host, when it lies now.
fn chance(world: &mut World, host: usize) -> Option<&mut Rng> {
    let lies = world.liar == Some(host) && world.rng.chance(LIES);
    lies.then_some(&mut world.rng)
}

/// A list that lacks somebody, and perhaps invites it anew.
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

/// What the etcd of a lying host answers for a member list.
pub fn members(world: &mut World, host: usize, told: &mut MemberList) {
    if let Some(rng) = chance(world, host) {
        list(rng, told);
    }
}

/// What a lying host says of itself.
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

/// Orders that no operator gave, beyond what one node may order.
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
