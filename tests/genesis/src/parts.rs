//! The parts of a state: requests on the wire, the progress of a proposer, and the checker's own notes.

use std::collections::{BTreeMap, BTreeSet};

use etcd_agent::genesis::{Outcome, Round};
use etcd_agent::model::{
    Accept, AcceptReply, Enquire, EnquireReply, Genesis, NodeName, Prepare, PrepareReply,
};
use serde::{Deserialize, Serialize};

/// A request. After it was sent, it may arrive at any node, at any time, any number of times, or never.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) enum Request {
    Prepare(Prepare),
    Accept(Accept),
    Enquire(Enquire),
}

impl Request {
    pub(crate) fn from(&self) -> &NodeName {
        match self {
            Self::Prepare(m) => &m.ballot.node,
            Self::Accept(m) => &m.ballot.node,
            Self::Enquire(m) => &m.from,
        }
    }
}

/// A reply that the sender of the request waits for. Refusals are omitted, because a round never counts them.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) enum Reply {
    Prepare(PrepareReply),
    Accept(AcceptReply),
    Enquire(Box<EnquireReply>),
}

/// The progress of an agent's process. It is not stored: a crash makes it `Idle`.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) enum Process {
    Idle,
    /// Asks the others for their knowledge. Holds the received answers.
    Enquiring {
        replies: BTreeMap<NodeName, EnquireReply>,
    },
    /// Phase 1. Holds the promises that are in flight or received.
    Preparing {
        prepare: Prepare,
        candidate: Genesis,
        previous: Option<BTreeSet<NodeName>>,
        promises: Replies,
    },
    /// Phase 2. Holds the acceptances that are in flight or received.
    Accepting {
        accept: Accept,
        previous: Option<BTreeSet<NodeName>>,
        acceptances: Replies,
    },
}

/// Replies of one kind by sender. A request that arrives twice may get two different replies.
pub(crate) type Replies = BTreeMap<NodeName, Vec<Reply>>;

/// Adds a reply. False if it is already there.
pub(crate) fn add(replies: &mut Replies, from: &NodeName, reply: Reply) -> bool {
    let text = |reply: &Reply| serde_json::to_string(reply).unwrap();
    let row = replies.entry(from.clone()).or_default();
    if row.iter().any(|known| text(known) == text(&reply)) {
        return false;
    }
    row.push(reply);
    row.sort_by_key(text);
    true
}

/// Every possible end of phase 1 with these promises, as the messages of phase 2. The proposer's own promise
/// is counted first, and the promise that completes the majority comes last.
pub(crate) fn ends_of_phase_1(prepare: &Prepare, round: &Round, promises: &Replies) -> Vec<Accept> {
    let me = &prepare.ballot.node;
    let mut first = round.clone();
    for reply in promises.get(me).into_iter().flatten() {
        if let Reply::Prepare(reply) = reply {
            first.on_prepare_reply(me, reply.clone());
        }
    }
    let others: Vec<_> = promises.iter().filter(|(node, _)| *node != me).collect();
    let mut asked = vec![(first, 0_usize)];
    let mut ends: BTreeMap<String, Accept> = BTreeMap::new();
    while let Some((round, answered)) = asked.pop() {
        if round.prepared() == Outcome::Reached {
            let accept = round.accept();
            ends.insert(serde_json::to_string(&accept).unwrap(), accept);
            continue;
        }
        // The order of the promises matters only for which one is last, so try each remaining promise as the
        // next one.
        for (at, (node, replies)) in others.iter().enumerate() {
            if answered & (1 << at) != 0 {
                continue;
            }
            for reply in *replies {
                let Reply::Prepare(reply) = reply else { continue };
                let mut next = round.clone();
                next.on_prepare_reply(node, reply.clone());
                asked.push((next, answered | (1 << at)));
            }
        }
    }
    ends.into_values().collect()
}

/// The checker's notes in addition to the state of the protocol.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub(crate) struct Notes {
    /// Every genesis with which a round has ended. All geneses of one epoch must have the same value.
    pub(crate) chosen: Vec<Genesis>,
    /// Rounds begun so far.
    pub(crate) rounds: usize,
    /// Memories lost so far, by node.
    pub(crate) lost: BTreeMap<NodeName, usize>,
    /// Restarts that forgot something (only of broken electors).
    pub(crate) forgot: usize,
}
