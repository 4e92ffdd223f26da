//! Drives the genesis protocol over the network: enquiries and rounds. The rules are in `crate::genesis`.

use std::collections::BTreeSet;

use futures::future::BoxFuture;
use futures::stream::FuturesUnordered;
use futures::{FutureExt, StreamExt};
use tokio::time::timeout;

use crate::backup::{Recorded, record_epoch};
use crate::genesis::{
    Electorate, Outcome, Round, absorb, explain, note_reported_epoch, on_accept, on_prepare, renew,
};
use crate::model::{
    Accept, AcceptReply, Ballot, ElectorRecord, EnquireAnswer, Genesis, Learn, NodeName, Origin, Prepare,
    PrepareReply,
};
use crate::plan::with_other_stores;
use crate::ports::{ObjectStore, Peers, PortError, PortResult};

use crate::agent::Agent;
use crate::agent::execute::fence::{ASK_STORE, fence_quarantine};

fn others(agent: &Agent) -> impl Iterator<Item = &NodeName> {
    agent.spec.nodes.keys().filter(|node| **node != agent.spec.node)
}

/// The answers of all other nodes, in the order in which they arrive.
type Answers<'a, T> = FuturesUnordered<BoxFuture<'a, (&'a NodeName, PortResult<T>)>>;

/// Asks all other nodes at the same time.
fn ask_others<'a, T: 'a>(
    agent: &'a Agent,
    ask: impl Fn(&'a dyn Peers, &'a NodeName) -> BoxFuture<'a, PortResult<T>>,
) -> Answers<'a, T> {
    let peers = agent.ports.peers.as_ref();
    others(agent)
        .map(|node| ask(peers, node).map(move |answer| (node, answer)).boxed())
        .collect()
}

/// Asks every other elector for what it knows, and stores the answers in this elector's memory.
pub(crate) async fn enquire(agent: &Agent, without: &BTreeSet<NodeName>) -> PortResult<()> {
    let message = agent.enquiry();
    let mut answers = ask_others(agent, |peers, node| peers.enquire(node, &message));
    let (mut replies, mut refusals, mut silent) = (Vec::new(), Vec::new(), Vec::new());
    while let Some((node, answer)) = answers.next().await {
        match answer {
            Ok(EnquireAnswer::Reply(reply)) if reply.from == *node => replies.push(*reply),
            Ok(EnquireAnswer::Reply(reply)) => silent.push(format!("{node} answered as {}", reply.from)),
            Ok(EnquireAnswer::Refused(refusal)) => {
                silent.push(format!("{node}: {}", explain(&refusal)));
                refusals.push(refusal);
            }
            Err(error) => silent.push(format!("{node}: {error}")),
        }
    }
    // Once the shared store has reported the newest epoch, it stands in for silent electors.
    let stored = agent.shared.with(|inner| {
        let genesis = inner.store.view()?.genesis.as_ref();
        let genesis = genesis.filter(|genesis| genesis.cluster == agent.spec.cluster);
        Some(genesis.map(|genesis| genesis.epoch).unwrap_or_default())
    });
    // It does not if another node is known to record epochs elsewhere, unless a person has declared that node
    // permanently lost.
    let (mine, peers) = (agent.spec.store_digest(), agent.ports.peers.last_seen());
    let out = agent.shared.directives().out;
    let same = with_other_stores(&peers, &mine, &out).all(|node| without.contains(node));
    let stored = stored.filter(|_| agent.spec.store_shared && same);
    agent.shared.with(|inner| {
        inner
            .genesis
            .note_enquired(replies.iter().map(|r| r.from.clone()));
    });
    let electorate = agent.shared.electorate.clone();
    let renewed = agent
        .shared
        .update_elector(agent.ports.state.as_ref(), |record| {
            renew(record, &electorate, &refusals, stored.is_some())
        })?;
    if renewed {
        return Err(PortError::Retryable(
            "the clock of this host was behind when this elector's memory was made: it has a later incarnation now, and asks again"
                .to_owned(),
        ));
    }
    let was_eligible = agent.shared.elector().eligible;
    let eligible = agent
        .shared
        .update_elector(agent.ports.state.as_ref(), |record| {
            note_reported_epoch(record, stored.unwrap_or_default());
            let absorbed = absorb(record, &electorate, &replies, without, stored.is_some());
            absorbed.map(|()| (record.eligible, record.may_have_voted > record.newest_epoch))
        })?;
    match eligible {
        Ok((true, doubted)) if doubted && was_eligible => Err(PortError::Retryable(format!(
            "an elector may still have accepted the value that a former memory of this one has voted for: {}",
            silent.join("; ")
        ))),
        Ok((true, _)) => Ok(()),
        Ok((false, _)) => Err(PortError::Retryable(format!(
            "electors are missing: {}",
            silent.join("; ")
        ))),
        Err(conflict) => Err(PortError::Permanent(conflict.to_string())),
    }
}

/// The electors of the epoch that is replaced (the newest that this node or the store knows), without those
/// that are lost by the operator's word. `None` if no elector is left to be asked.
fn former_electors(
    agent: &Agent,
    record: &ElectorRecord,
    gone: &BTreeSet<NodeName>,
) -> Option<BTreeSet<NodeName>> {
    let stored = agent.shared.with(|inner| inner.store.genesis().cloned());
    let stored = stored.filter(|genesis| agent.believes(genesis, record.open_epoch()));
    let newest = record
        .known()
        .into_iter()
        .chain(&stored)
        .max_by_key(|genesis| genesis.epoch)?;
    let former = newest.electorate.keys().filter(|node| !gone.contains(*node));
    let former: BTreeSet<NodeName> = former.cloned().collect();
    (!former.is_empty()).then_some(former)
}

/// Runs one round for `candidate`.
pub(crate) async fn propose(
    agent: &Agent,
    round: u64,
    candidate: &Genesis,
    gone: &BTreeSet<NodeName>,
) -> PortResult<()> {
    let ballot = Ballot {
        round,
        node: agent.spec.node.clone(),
    };
    let record = agent.shared.elector();
    let previous = former_electors(agent, &record, gone).filter(|_| !mutant!(FormerElectorsUnasked));
    let mut candidate = candidate.clone();
    for (node, incarnation) in &record.incarnations {
        // The record also has electors of earlier lists. They are not electors of this epoch.
        if let Some(named) = candidate.electorate.get_mut(node) {
            named.clone_from(incarnation);
        }
    }
    candidate
        .electorate
        .insert(agent.spec.node.clone(), record.incarnation.clone());
    let candidate_continues = candidate.etcd.is_some_and(|etcd| etcd.continues);
    let mut round = Round::new(
        ballot,
        agent.shared.electorate.digest.clone(),
        candidate,
        previous,
    );

    let prepare = round.prepare(&record.incarnation);
    run_phase(agent, &mut round, gone, &PREPARE, prepare).await?;
    // The round may carry a value that was accepted before.
    if candidate_continues {
        let value = round.value();
        let Origin::Backup(backup) = &value.origin else {
            return Err(PortError::Permanent(format!(
                "an elector has accepted epoch {} from {}, which does not continue this one",
                value.epoch, value.origin
            )));
        };
        fence_quarantine(agent, backup).await?;
    }
    let accept = round.accept();
    run_phase(agent, &mut round, gone, &ACCEPT, accept).await?;
    let genesis = round.value();
    // The store's record is written before any node learns the genesis: with a shared store an epoch is open
    // only once it is recorded there.
    if agent.spec.store_shared
        && let Some(store) = &agent.ports.store
        && let Recorded::Exists(recorded) = record_within(agent, store.as_ref(), &genesis).await?
    {
        // Any client with write access to the store can put a record there, so it stops no etcd. The next
        // attempt reads the store first and opens a later epoch.
        agent.shared.with(|inner| inner.store.ask_again());
        return Err(PortError::Retryable(format!(
            "the store has epoch {} as {}, which no majority of the electors has chosen: a later one is opened",
            recorded.epoch, recorded.token
        )));
    }
    learn(agent, &genesis)?;
    spread(agent, &genesis);
    Ok(())
}

/// Records the epoch in the store. A store that is slow to answer may have recorded it: the next round repeats the
/// value that the electors have accepted, and finds it there.
async fn record_within(agent: &Agent, store: &dyn ObjectStore, genesis: &Genesis) -> PortResult<Recorded> {
    let recording = record_epoch(store, &agent.spec.cluster, genesis);
    timeout(ASK_STORE, recording).await.unwrap_or_else(|_| {
        Err(PortError::OutcomeUnknown(format!(
            "the store did not answer within {} s whether it has recorded epoch {}",
            ASK_STORE.as_secs(),
            genesis.epoch
        )))
    })
}

/// An elector reported that the epoch is open already. The other electors are asked before the node acts on
/// it.
fn chosen_already(agent: &Agent, genesis: &Genesis) -> PortError {
    let epoch = genesis.epoch;
    agent.shared.with(|inner| inner.genesis.push(genesis.clone()));
    PortError::Retryable(format!("an elector knows epoch {epoch} already"))
}

/// One of the two phases of a round.
struct Phase<M, R> {
    /// The verb for an elector that agrees.
    verb: &'static str,
    /// The answer of this node's elector.
    own: fn(&mut ElectorRecord, &Electorate, &M) -> R,
    /// Asks the elector of another node.
    ask: for<'a> fn(&'a dyn Peers, &'a NodeName, &'a M) -> BoxFuture<'a, PortResult<R>>,
    /// Counts an answer.
    take: fn(&mut Round, &NodeName, R),
    /// The state of the phase.
    outcome: fn(&Round) -> Outcome,
}

const PREPARE: Phase<Prepare, PrepareReply> = Phase {
    verb: "promised",
    own: on_prepare,
    ask: |peers, node, message| peers.prepare(node, message),
    take: Round::on_prepare_reply,
    outcome: Round::prepared,
};

const ACCEPT: Phase<Accept, AcceptReply> = Phase {
    verb: "accepted",
    own: on_accept,
    ask: |peers, node, message| peers.accept(node, message),
    take: Round::on_accept_reply,
    outcome: Round::accepted,
};

/// Runs one phase. If it fails because other electors know a newer memory of an elector, this node enquires,
/// so that the next round knows that memory too.
async fn run_phase<M, R>(
    agent: &Agent,
    round: &mut Round,
    gone: &BTreeSet<NodeName>,
    phase: &Phase<M, R>,
    message: M,
) -> PortResult<()> {
    let failed = match ask_electors(agent, round, phase, message).await {
        Ok(Outcome::Chosen(genesis)) => return Err(chosen_already(agent, &genesis)),
        Ok(_) => return Ok(()),
        Err(error) => error,
    };
    if round.names_stale_memory()
        && let Err(error) = enquire(agent, gone).await
    {
        // The other electors' answers to the round are the reason that is reported. A conflict of two
        // clusters takes precedence.
        if matches!(error, PortError::Permanent(_)) {
            return Err(error);
        }
        tracing::debug!("the electors were asked again after a failed round: {error}");
    }
    Err(failed)
}

async fn ask_electors<M, R>(
    agent: &Agent,
    round: &mut Round,
    phase: &Phase<M, R>,
    message: M,
) -> PortResult<Outcome> {
    let electorate = agent.shared.electorate.clone();
    let own = agent
        .shared
        .update_elector(agent.ports.state.as_ref(), |record| {
            (phase.own)(record, &electorate, &message)
        })?;
    (phase.take)(round, &agent.spec.node, own);
    let mut answers = ask_others(agent, |peers, node| (phase.ask)(peers, node, &message));
    let mut silent = Vec::new();
    // Waits for all answers: a refusal by one elector does not end a round for which the others are a
    // majority.
    while (phase.outcome)(round) != Outcome::Reached {
        match answers.next().await {
            Some((node, Ok(reply))) => (phase.take)(round, node, reply),
            Some((node, Err(error))) => silent.push(format!("{node}: {error}")),
            None => break,
        }
    }
    judge(agent, (phase.outcome)(round), phase.verb, &silent)
}

/// Continues after `Reached` or `Chosen`. Any other outcome ends the round, which is tried again under a
/// higher ballot.
fn judge(agent: &Agent, outcome: Outcome, verb: &str, silent: &[String]) -> PortResult<Outcome> {
    match outcome {
        Outcome::Reached | Outcome::Chosen(_) => Ok(outcome),
        Outcome::Preempted(ballot) => {
            agent.shared.with(|inner| inner.genesis.preempted_by(&ballot));
            Err(PortError::Retryable(format!("ballot {ballot} is ahead")))
        }
        Outcome::Refused(why) => Err(PortError::Retryable(why)),
        Outcome::Open => Err(PortError::Retryable(format!(
            "no majority of the electorate has {verb}: {}",
            silent.join("; ")
        ))),
    }
}

/// Takes over a genesis that is known to be chosen.
pub(crate) fn learn(agent: &Agent, genesis: &Genesis) -> PortResult<()> {
    let news = agent
        .shared
        .update_elector(agent.ports.state.as_ref(), |record| {
            crate::genesis::on_learn(record, genesis)
        })?;
    match news {
        Ok(true) => {
            tracing::info!(
                etcd_agent.epoch = genesis.epoch.0,
                "epoch {} of {} was chosen: {}, token {}",
                genesis.epoch,
                genesis.cluster,
                genesis.origin,
                genesis.token
            );
            Ok(())
        }
        Ok(false) => Ok(()),
        Err(why) => Err(PortError::Permanent(why.to_string())),
    }
}

/// Sends a chosen genesis to the peers, in the background. A peer that misses it reads it in this node's
/// status.
fn spread(agent: &Agent, genesis: &Genesis) {
    for node in others(agent) {
        let (node, peers, message) = (
            node.clone(),
            agent.ports.peers.clone(),
            Learn {
                genesis: genesis.clone(),
            },
        );
        tokio::spawn(async move {
            if let Err(error) = peers.learn(&node, &message).await {
                tracing::debug!("{node} did not receive epoch {}: {error}", message.genesis.epoch);
            }
        });
    }
}
