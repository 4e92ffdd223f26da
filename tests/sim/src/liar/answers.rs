//! The answers of a lying elector, and what it reports of orders that were handed over to it.

use std::collections::BTreeMap;

use etcd_agent::model::{
    Accept, AcceptReply, BackupId, Ballot, Enquire, EnquireAnswer, EnquireReply, Epoch, EpochVotes, Genesis,
    Incarnation, NodeName, Origin, Prepare, PrepareReply, Refusal, RequestState, RequestView, cluster_id_of,
    token_of,
};

use super::lie::{SELDOM, chance, forged, later, memories};
use crate::rng::Rng;
use crate::world::World;

/// The answer of a host to an enquiry, falsified if it lies.
pub fn enquired(world: &mut World, host: usize, message: &Enquire, answer: EnquireAnswer) -> EnquireAnswer {
    let memories = memories(world);
    let EnquireAnswer::Reply(mut reply) = answer else {
        return answer;
    };
    let memory = reply.incarnation.clone();
    let Some(rng) = chance(world, host) else {
        return EnquireAnswer::Reply(reply);
    };
    match rng.below(6) {
        0 => reply.newest_epoch = later(rng, reply.newest_epoch),
        4 => {
            if let Some(genesis) = &mut reply.chosen {
                genesis.electorate.clone_from(&memories);
            }
        }
        5 => {
            if let Some(known) = memory.after(&memory) {
                let elector = message.from.clone();
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
    if rng.chance(SELDOM) {
        if rng.chance(20) {
            let asker = (&message.from, Some(&message.incarnation));
            return EnquireAnswer::Refused(another_refusal(rng, &reply.from, asker));
        }
        seldom(rng, &mut reply, message, &memories);
    }
    world.claimed_memory |= reply.incarnation > memory;
    EnquireAnswer::Reply(reply)
}

/// Falsifies what it knows of memories and votes. Of memories, only the asker's and its own.
fn seldom(
    rng: &mut Rng,
    reply: &mut EnquireReply,
    message: &Enquire,
    memories: &BTreeMap<NodeName, Incarnation>,
) {
    match rng.below(7) {
        0 => reply.from.clone_from(&message.from),
        1 => reply.may_have_voted = later(rng, reply.newest_epoch),
        2 => reply.new_memory = true,
        3 => {
            if let Some(genesis) = reply.chosen.as_ref().map(|chosen| forged(rng, chosen)) {
                let ballot = Ballot {
                    round: 1 + rng.below(5),
                    node: reply.from.clone(),
                };
                let epoch = genesis.epoch;
                let votes = EpochVotes {
                    promised: Some(ballot.clone()),
                    accepted: Some((ballot, genesis)),
                };
                // What it has accepted is not hidden.
                reply.votes.entry(epoch).or_insert(votes);
            }
        }
        4 => {
            if let Some(memory) = another_memory(rng, &reply.incarnation, memories) {
                reply.incarnation = memory;
            }
        }
        5 => {
            if let Some(memory) = message.incarnation.after(&message.incarnation) {
                reply.incarnations.insert(message.from.clone(), memory);
            }
        }
        _ => {
            let lost = if rng.chance(50) {
                message.from.clone()
            } else {
                reply.from.clone()
            };
            reply.superseded.insert(lost);
        }
    }
}

/// Another memory of the liar than this one, mostly one that is older than all others. With a later one its votes do
/// not count until its state is made anew (`World::claimed_memory`).
fn another_memory(
    rng: &mut Rng,
    memory: &Incarnation,
    memories: &BTreeMap<NodeName, Incarnation>,
) -> Option<Incarnation> {
    match rng.below(20) {
        0 => memory.after(memory),
        1 => memories.values().nth(rng.index(memories.len())).cloned(),
        _ => Incarnation::new("0".repeat(32)).ok(),
    }
}

fn beyond(node: &NodeName) -> Ballot {
    Ballot {
        round: u64::MAX,
        node: node.clone(),
    }
}

/// The elector that asks, and its memory, if that is known.
type Asker<'a> = (&'a NodeName, Option<&'a Incarnation>);

fn refusal(rng: &mut Rng, node: &NodeName, known: Option<&Genesis>, asker: Asker<'_>) -> Refusal {
    if rng.chance(SELDOM) {
        return another_refusal(rng, node, asker);
    }
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

/// A refusal that names another electorate, a defect, or another memory of the asker.
fn another_refusal(rng: &mut Rng, node: &NodeName, (elector, memory): Asker<'_>) -> Refusal {
    match (rng.below(3), memory.and_then(|memory| memory.after(memory))) {
        (0, Some(known)) => Refusal::StaleIncarnation {
            elector: elector.clone(),
            known,
        },
        (1, _) => Refusal::Electorate {
            mine: "forged".to_owned(),
            names: vec![node.clone()],
        },
        _ => Refusal::Invalid {
            why: "a lie".to_owned(),
        },
    }
}

/// The answer of a host in phase 1, falsified if it lies. It does not hide what it has accepted.
pub fn prepared(world: &mut World, host: usize, message: &Prepare, reply: PrepareReply) -> PrepareReply {
    let name = world.hosts[host].name.clone();
    let (known, memories, backups) = (known(world, host), memories(world), backups(world, host));
    let Some(rng) = chance(world, host) else {
        return reply;
    };
    if rng.chance(SELDOM)
        && let PrepareReply::Promise {
            incarnation,
            accepted,
        } = &reply
    {
        if let Some(of) = known.as_ref().filter(|_| accepted.is_none())
            && rng.chance(50)
            && let Some(value) = false_value(rng, message.epoch, of, &backups)
        {
            if let Origin::Backup(backup) = &value.origin {
                world.misled.insert((value.epoch, backup.clone()));
            }
            // Below each ballot of a proposer: a value that any elector has accepted comes first.
            let ballot = Ballot { round: 0, node: name };
            return PrepareReply::Promise {
                incarnation: incarnation.clone(),
                accepted: Some(Box::new((ballot, value))),
            };
        }
        if let Some(memory) = another_memory(rng, incarnation, &memories) {
            return PrepareReply::Promise {
                incarnation: memory,
                accepted: accepted.clone(),
            };
        }
    }
    let asker = (&message.ballot.node, Some(&message.incarnation));
    PrepareReply::Refused(refusal(rng, &name, known.as_ref(), asker))
}

/// A value for this epoch that nobody has proposed: the restore of another backup than was ordered (ADR 19), seldom an
/// empty cluster, or the same for another epoch.
fn false_value(rng: &mut Rng, epoch: Epoch, of: &Genesis, backups: &[BackupId]) -> Option<Genesis> {
    if epoch <= of.epoch {
        return None;
    }
    let kind = rng.below(10);
    let origin = if kind == 0 {
        Origin::Empty
    } else {
        Origin::Backup(backups.get(rng.index(backups.len()))?.clone())
    };
    let epoch = if kind == 1 { epoch.next() } else { epoch };
    let token = token_of(&of.cluster, epoch, rng.number(), of.electorate.keys());
    Some(Genesis {
        epoch,
        cluster_id: cluster_id_of(&of.members, &token),
        token,
        origin,
        former: of.lineage(),
        etcd: None,
        ..of.clone()
    })
}

/// The answer of a host in phase 2, falsified if it lies. It does not claim an acceptance that it did not
/// make: with one such elector among three no choice is certain.
pub fn accepted(world: &mut World, host: usize, message: &Accept, reply: AcceptReply) -> AcceptReply {
    let name = world.hosts[host].name.clone();
    let (known, memories) = (known(world, host), memories(world));
    let Some(rng) = chance(world, host) else {
        return reply;
    };
    if rng.chance(SELDOM)
        && let AcceptReply::Accepted { incarnation } = &reply
        && let Some(memory) = another_memory(rng, incarnation, &memories)
    {
        return AcceptReply::Accepted { incarnation: memory };
    }
    let elector = &message.ballot.node;
    let asker = (elector, message.genesis.electorate.get(elector));
    AcceptReply::Refused(refusal(rng, &name, known.as_ref(), asker))
}

fn known(world: &World, host: usize) -> Option<Genesis> {
    world.hosts[host].elector.as_ref()?.chosen.clone()
}

/// The committed backups in the store of this host, oldest first.
fn backups(world: &World, host: usize) -> Vec<BackupId> {
    let Some(store) = world.store_of(host) else {
        return Vec::new();
    };
    let committed = |id: &&BackupId| store.objects.contains_key(&format!("sim/{id}/backup.json"));
    store.contents.keys().filter(committed).cloned().collect()
}

/// What a host reports of an order that another node has handed over to it, falsified if it lies.
pub fn reported(world: &mut World, host: usize, mut view: RequestView) -> RequestView {
    let oldest = backups(world, host).into_iter().next();
    let Some(rng) = chance(world, host) else {
        return view;
    };
    match rng.below(4) {
        0 => view.id = rng.number(),
        1 => view.state = RequestState::Failed,
        2 => view.state = RequestState::Pending,
        _ => view.state = RequestState::Done,
    }
    view.changed = rng.chance(50);
    view.message = match oldest.filter(|_| rng.chance(50)) {
        Some(backup) => format!("{backup} (revision 1)"),
        None => "a lie".to_owned(),
    };
    view
}
