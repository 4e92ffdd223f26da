//! One node with a valid certificate that lies in any field of its answers and pushes (rule 10).
//!
//! It does not forge orders that a single node may give: such an order counts as an operator's (ADR 19). The
//! exception is a cancelled upgrade: no operator's order brings etcd back from data that it has converted.

use std::collections::BTreeMap;

use etcd_agent::model::{
    AcceptReply, ActiveState, BackupId, Ballot, ClusterId, DataState, EnquireAnswer, Epoch, EpochVotes,
    EtcdSelection, Fact, Genesis, Grant, GrantPurpose, Incarnation, Member, MemberId, MemberList, NodeName,
    NodeStatus, Origin, Paused, PrepareReply, RaftTerm, Refusal, RestartWish, UnixMs, cluster_id_of,
};

use crate::rng::Rng;
use crate::world::{VERSIONS, World};

/// The percentage of its answers that are lies.
const LIES: u64 = 60;

/// The random source for a lie, if this host lies now.
fn chance(world: &mut World, host: usize) -> Option<&mut Rng> {
    let lies = world.liar == Some(host) && world.rng.chance(LIES);
    lies.then_some(&mut world.rng)
}

/// A later epoch: the next, or one far ahead.
fn later(rng: &mut Rng, epoch: Epoch) -> Epoch {
    match rng.below(4) {
        0 | 1 => epoch.next(),
        2 => Epoch(epoch.0 + rng.below(1500)),
        _ => Epoch(u64::MAX),
    }
}

/// A genesis that nobody has chosen.
fn forged(rng: &mut Rng, of: &Genesis) -> Genesis {
    let mut genesis = of.clone();
    if rng.chance(80) {
        genesis.former = genesis.lineage();
        genesis.epoch = later(rng, of.epoch);
    }
    genesis.token = format!("{}-{}-forged{}", genesis.cluster, genesis.epoch, rng.below(3));
    if rng.chance(50)
        && let Ok(id) = BackupId::new("2020-01-01T00:00:00Z-000001")
    {
        genesis.origin = Origin::Backup(id);
    }
    genesis.cluster_id = cluster_id_of(&genesis.members, &genesis.token);
    genesis
}

/// Removes a member from a list, and may invite its node again.
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

/// Falsifies the member list that the etcd of a lying host returns.
pub fn members(world: &mut World, host: usize, told: &mut MemberList) {
    if let Some(rng) = chance(world, host) {
        list(rng, told);
    }
}

/// The status that a host reports, falsified if it lies.
pub fn status(world: &mut World, host: usize, mut status: NodeStatus) -> NodeStatus {
    let names: Vec<NodeName> = world.hosts.iter().map(|h| h.name.clone()).collect();
    let memories = memories(world);
    if world.forger == Some(host) {
        cancel(&mut world.rng, &mut status);
    }
    let Some(rng) = chance(world, host) else {
        return status;
    };
    for _ in 0..=rng.below(2) {
        match rng.below(14) {
            0 => status.newest_epoch = later(rng, status.newest_epoch),
            1 | 2 => {
                if let Some(genesis) = &mut status.genesis {
                    *genesis = forged(rng, genesis);
                    status.newest_epoch = genesis.epoch;
                }
            }
            3 => {
                let real = status.members.known().cloned();
                if let Some(mut told) = real.or_else(|| status.genesis.as_ref().map(Genesis::founders)) {
                    list(rng, &mut told);
                    status.members = Fact::Known(told);
                }
            }
            4 => status.eligible = !status.eligible,
            5 => {
                if let Some(genesis) = &mut status.genesis {
                    genesis.electorate.clone_from(&memories);
                }
            }
            6 => orders(rng, &mut status, &names),
            7 | 8 => of_itself(rng, &mut status),
            9 => etcd(rng, &mut status),
            10 => others(&mut status, &names),
            11 => steering(rng, &mut status, &names),
            12 => identity(rng, &mut status, &memories),
            _ => troubles(rng, &mut status),
        }
    }
    status
}

/// Falsifies the state of its unit, its data and its assignment.
fn of_itself(rng: &mut Rng, status: &mut NodeStatus) {
    match rng.below(6) {
        0 => {
            if let Fact::Known(unit) = &mut status.unit {
                unit.active = if unit.active == ActiveState::Active {
                    ActiveState::Inactive
                } else {
                    ActiveState::Active
                };
                unit.held = rng.chance(50);
            }
        }
        1 => {
            status.data = Fact::Known(DataState::Present {
                cluster_id: ClusterId(rng.number()),
                member_id: MemberId(rng.number()),
            });
        }
        2 => status.data = Fact::Known(DataState::Missing),
        3 => status.assignment = None,
        4 => {
            if let Some(assigned) = &mut status.assignment {
                assigned.epoch = later(rng, assigned.epoch);
                assigned.started_once = !assigned.started_once;
            }
        }
        _ => {
            if let Some(assigned) = &mut status.assignment {
                assigned.member_id = MemberId(rng.number());
            }
        }
    }
}

/// Falsifies what its etcd reports.
fn etcd(rng: &mut Rng, status: &mut NodeStatus) {
    let Fact::Known(etcd) = &mut status.etcd else {
        return;
    };
    match rng.below(6) {
        0 => {
            etcd.leader = Some(etcd.member_id);
            etcd.term = RaftTerm(etcd.term.0.saturating_add(rng.below(3)));
        }
        1 => etcd.leader = None,
        2 => etcd.term = RaftTerm(u64::MAX),
        3 => etcd.member_id = MemberId(rng.number()),
        4 => etcd.is_learner = !etcd.is_learner,
        _ => {
            etcd.index = u64::MAX;
            etcd.applied = rng.below(2) * u64::MAX;
        }
    }
}

/// Claims that it reaches no other node.
fn others(status: &mut NodeStatus, names: &[NodeName]) {
    let others = names.iter().filter(|name| **name != status.node);
    status.silent_agents = others.cloned().collect();
    status.silent_etcds.clone_from(&status.silent_agents);
}

/// Forges a grant, or a wish for one.
fn steering(rng: &mut Rng, status: &mut NodeStatus, names: &[NodeName]) {
    let term = status.etcd.known().map_or(RaftTerm(1), |etcd| etcd.term);
    let id = rng.number();
    let steering = &mut status.steering;
    match rng.below(6) {
        0 | 1 => {
            let purposes = [GrantPurpose::Restart, GrantPurpose::Reboot, GrantPurpose::Defrag];
            steering.grant = Some(Grant {
                node: names[rng.index(names.len())].clone(),
                id,
                term,
                purpose: purposes[rng.index(3)],
            });
        }
        2 => steering.grants_over = Some(term),
        3 => steering.wants_restart = Some(RestartWish::new("a lie".to_owned())),
        4 => steering.waits_to_stop = true,
        _ => steering.wants_reboot_lock = true,
    }
}

/// Claims to be another node's agent, to be configured in another way, or to have voted.
fn identity(rng: &mut Rng, status: &mut NodeStatus, memories: &BTreeMap<NodeName, Incarnation>) {
    match rng.below(5) {
        0 => {
            let others: Vec<_> = memories.values().collect();
            if !others.is_empty() {
                status.incarnation.clone_from(others[rng.index(others.len())]);
            }
        }
        1 => "forged".clone_into(&mut status.spec_digest),
        2 => "forged".clone_into(&mut status.electorate_digest),
        3 => status.store_digest = Some("forged".to_owned()),
        _ => status.voted = later(rng, status.voted),
    }
}

/// Reports trouble that it does not have, or another time.
fn troubles(rng: &mut Rng, status: &mut NodeStatus) {
    let trouble = Some("a lie".to_owned());
    match rng.below(7) {
        0 => status.tls_trouble = trouble,
        1 => status.archive_trouble = trouble,
        2 => status.v2_trouble = trouble,
        3 => status.etcd_too_old = trouble,
        4 => status.store_failures = u32::MAX,
        5 => status.peer_url = Some("http://forged:2380".to_owned()),
        _ => status.now = UnixMs(rng.number() % (1 << 45)),
    }
}

/// The current incarnations of all memories. A genesis that names them makes a founder of each member that it
/// lists.
fn memories(world: &World) -> BTreeMap<NodeName, Incarnation> {
    let hosts = world.hosts.iter();
    let known = hosts.filter_map(|h| Some((h.name.clone(), h.elector.as_ref()?.incarnation.clone())));
    known.collect()
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

/// Cancels an upgrade, and claims to run the version of before, so that others go back to it.
fn cancel(rng: &mut Rng, status: &mut NodeStatus) {
    let former = VERSIONS[rng.index(2)];
    let selected = Some(former).filter(|_| rng.chance(50));
    let told = &mut status.steering.directives;
    told.by = Some(status.node.clone());
    told.version += 1;
    told.etcd = Some(EtcdSelection {
        epoch: etcd_agent::model::Epoch::default(),
        version: selected,
        before: told.etcd.take().and_then(|etcd| etcd.version),
        pause_after: None,
        downgrade: false,
        cancelled: true,
    });
    if let Fact::Known(etcd) = &mut status.etcd {
        etcd.version = former.to_string();
        etcd.storage_version = None;
    }
    if let Some(assigned) = &mut status.assignment {
        assigned.etcd_version = selected;
    }
}

/// The genesis that a lying host pushes, as if it had been chosen.
pub fn pushed(world: &mut World, host: usize, status: &NodeStatus) -> Option<Genesis> {
    let rng = chance(world, host)?;
    status.genesis.as_ref().map(|genesis| forged(rng, genesis))
}

/// The answer of a host to an enquiry, falsified if it lies.
pub fn enquired(world: &mut World, host: usize, asker: &NodeName, answer: EnquireAnswer) -> EnquireAnswer {
    let memories = memories(world);
    let EnquireAnswer::Reply(mut reply) = answer else {
        return answer;
    };
    let Some(rng) = chance(world, host) else {
        return EnquireAnswer::Reply(reply);
    };
    match rng.below(6) {
        0 => reply.newest_epoch = later(rng, reply.newest_epoch),
        4 => {
            if let Some(genesis) = &mut reply.chosen {
                genesis.electorate = memories;
            }
        }
        5 => {
            if let Some(known) = reply.incarnation.after(&reply.incarnation) {
                let elector = asker.clone();
                return EnquireAnswer::Refused(Refusal::StaleIncarnation { elector, known });
            }
        }
        1 | 2 => reply.chosen = reply.chosen.map(|genesis| forged(rng, &genesis)),
        _ => {
            let epoch = later(rng, reply.newest_epoch);
            let promised = Some(beyond(&reply.from));
            reply.votes.insert(
                epoch,
                EpochVotes {
                    promised,
                    accepted: None,
                },
            );
        }
    }
    EnquireAnswer::Reply(reply)
}

fn beyond(node: &NodeName) -> Ballot {
    Ballot {
        round: u64::MAX,
        node: node.clone(),
    }
}

fn refusal(rng: &mut Rng, node: &NodeName, known: Option<&Genesis>) -> Refusal {
    match (rng.below(3), known) {
        (0, Some(genesis)) => Refusal::Chosen {
            genesis: Box::new(forged(rng, genesis)),
        },
        (1, _) => Refusal::NotEligible,
        _ => Refusal::HigherBallot {
            promised: beyond(node),
        },
    }
}

/// The answer of a host in phase 1, falsified if it lies.
pub fn prepared(world: &mut World, host: usize, reply: PrepareReply) -> PrepareReply {
    let name = world.hosts[host].name.clone();
    let known = known(world, host);
    let Some(rng) = chance(world, host) else {
        return reply;
    };
    PrepareReply::Refused(refusal(rng, &name, known.as_ref()))
}

/// The answer of a host in phase 2, falsified if it lies. It does not claim an acceptance that it did not
/// make: with one such elector among three no choice is certain.
pub fn accepted(world: &mut World, host: usize, reply: AcceptReply) -> AcceptReply {
    let name = world.hosts[host].name.clone();
    let known = known(world, host);
    let Some(rng) = chance(world, host) else {
        return reply;
    };
    AcceptReply::Refused(refusal(rng, &name, known.as_ref()))
}

fn known(world: &World, host: usize) -> Option<Genesis> {
    world.hosts[host].elector.as_ref()?.chosen.clone()
}
