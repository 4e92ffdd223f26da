//! Asks the electors afresh whether a newer epoch is open, before the node acts on a report of it (rule 10).

use std::collections::BTreeMap;
use std::time::Duration;

use futures::future::{join, join_all};

use crate::genesis::{ElectorReport, Tally, forget_above, note_reported_epoch, note_reported_genesis};
use crate::model::{
    ClusterId, DataState, Denial, Enquire, EnquireAnswer, Epoch, Fact, Genesis, NodeName, OperatorRequest,
    Origin, RequestState,
};
use crate::ports::{PortError, PortResult};

use crate::agent::Agent;
use crate::agent::execute::genesis::learn;

/// Each call has a deadline of its own; this bounds them all.
const ASK: Duration = Duration::from_secs(5);

/// Asks about the epochs that these sources report. Learns the genesis that a majority confirms, or the one
/// with the token `by_operator` unless a majority denies it.
///
/// # Errors
/// Retryable while the newest is neither confirmed nor denied: it holds back a start until then.
pub(crate) async fn confirm(
    agent: &Agent,
    reported_by: &BTreeMap<String, Epoch>,
    by_operator: Option<&str>,
) -> PortResult<()> {
    let epoch = reported_by.values().copied().max().unwrap_or_default();
    let state = agent.ports.state.as_ref();
    let (pushed, doubted) = agent.shared.with(|inner| {
        let doubted = reported_by
            .keys()
            .all(|who| inner.genesis.denied().contains_key(who));
        (inner.genesis.take_pushed(), doubted)
    });
    if !doubted {
        // Stored on disk before any elector is asked: if the agent dies meanwhile, the gate holds a start
        // back.
        agent
            .shared
            .update_elector(state, |record| note_reported_epoch(record, epoch))?;
    }
    let tally = ask(agent, pushed).await;
    let record = agent.shared.elector();
    let open = record.open_epoch();
    let confirmed = tally.confirmed(open).or_else(|| witnessed(agent, &tally));
    let report = by_operator.map(|token| (token, tally.operators_word(record.chosen.as_ref(), token)));
    let vouched = report
        .as_ref()
        .and_then(|(_, judged)| judged.as_ref().ok().copied());
    if let Some(genesis) = confirmed.or(vouched.flatten()) {
        let genesis = trusted_copy(agent, &tally, genesis);
        if confirmed.is_none() {
            tracing::warn!(
                "an operator has confirmed epoch {} ({})",
                genesis.epoch,
                genesis.token
            );
        }
        agent
            .shared
            .with(|inner| inner.genesis.confirm(reported_by.keys()));
        learn(agent, &genesis)?;
        answer(agent, report);
        return Ok(());
    }
    answer(agent, report);
    if epoch <= open {
        return Ok(());
    }
    if let Some(ceiling) = tally.ceiling(epoch).filter(|ceiling| *ceiling < epoch) {
        agent
            .shared
            .update_elector(state, |record| forget_above(record, ceiling))?;
        deny(agent, reported_by, ceiling);
        return Ok(());
    }
    let news = agent.shared.update_elector(state, |record| {
        let best = tally.reported().max_by_key(|genesis| genesis.epoch);
        let newer = best.is_some_and(|genesis| note_reported_genesis(record, genesis).unwrap_or(false));
        note_reported_epoch(record, epoch) || newer
    })?;
    if news && open == Epoch::default() {
        return Ok(());
    }
    Err(PortError::Retryable(format!(
        "epoch {epoch} is neither confirmed nor denied: {} of {} electors answer, {} are needed",
        tally.reports.len(),
        agent.spec.nodes.len(),
        tally.majority()
    )))
}

/// The copy of a genesis that this node can rely on. Electorate and replaced clusters are not part of the value. The
/// electorate decides whether this memory took part. A copy that this node has accepted itself is correct there. Of
/// other nodes' copies, one is used that does not name this memory: then the node is not a founder but joins, and
/// loses nothing by that. One whose electors the token does not confirm is the last choice.
fn trusted_copy(agent: &Agent, tally: &Tally, genesis: &Genesis) -> Genesis {
    if mutant!(BelievesElectorates) {
        return genesis.clone();
    }
    let (me, incarnation) = (&agent.spec.node, agent.shared.elector().incarnation);
    let own = tally
        .reports
        .get(me)
        .into_iter()
        .flat_map(|report| &report.accepted);
    let others = || {
        tally
            .reported()
            .filter(|copy| copy.electorate.get(me) != Some(&incarnation))
    };
    let intact = others().filter(|copy| copy.electors().is_some());
    let same = |copy: &&Genesis| copy.same_value(genesis);
    let mut copy = own
        .chain(intact)
        .chain(others())
        .find(same)
        .unwrap_or(genesis)
        .clone();
    let replaced = tally.replaced_by(genesis);
    copy.former.retain(|id| replaced.contains(id));
    copy
}

/// Answers the operator who has confirmed a genesis.
fn answer(agent: &Agent, report: Option<(&str, Result<Option<&Genesis>, String>)>) {
    let Some((token, judged)) = report else { return };
    let chosen = agent.shared.elector().chosen;
    let (state, text) = match (judged, chosen) {
        (_, Some(chosen)) if chosen.token == token => {
            let text = format!("epoch {} ({token}) is followed here", chosen.epoch);
            (RequestState::Done, text)
        }
        (Err(why), _) => (RequestState::Failed, why),
        (Ok(_), chosen) => {
            let open = chosen.map_or_else(|| "none".to_owned(), |g| format!("{} ({})", g.epoch, g.token));
            let text = format!("another epoch is confirmed here meanwhile: {open}");
            (RequestState::Failed, text)
        }
    };
    let asked = |request: &OperatorRequest| matches!(request, OperatorRequest::ConfirmEpoch { token: asked, .. } if asked == token);
    agent.shared.set_request_state(asked, state, &text);
}

/// Records which source reported a denied epoch, and logs it once per source.
fn deny(agent: &Agent, reported_by: &BTreeMap<String, Epoch>, ceiling: Epoch) {
    let at = agent.ports.clock.steady();
    for (who, epoch) in reported_by.iter().filter(|(_, epoch)| **epoch > ceiling) {
        let denial = Denial { epoch: *epoch, at };
        if agent.shared.with(|inner| inner.genesis.deny(who, denial)) {
            tracing::warn!(
                "ignoring epoch {epoch}, reported by {who}: it is denied by a majority of the electors"
            );
        }
    }
}

/// The reported genesis that the data here belongs to, for a new memory that knows no epoch. A cluster ID
/// follows from members and token, so no other genesis has the same one.
fn witnessed<'a>(agent: &Agent, tally: &'a Tally) -> Option<&'a Genesis> {
    let record = agent.shared.elector();
    if record.chosen.is_some() {
        return None;
    }
    let own = agent.shared.with(|inner| match inner.data.state() {
        Fact::Known(DataState::Present { cluster_id, .. }) => Some(*cluster_id),
        _ => None,
    })?;
    let of_own = |genesis: &&Genesis| is_computed(genesis, own);
    tally
        .reported()
        .filter(of_own)
        .max_by_key(|genesis| genesis.epoch)
}

fn is_computed(genesis: &Genesis, own: ClusterId) -> bool {
    genesis.cluster_id == own && !matches!(genesis.origin, Origin::Member(_))
}

/// The answers of all electors.
async fn ask(agent: &Agent, pushed: Option<Genesis>) -> Tally {
    let record = agent.shared.elector();
    let open = record.open_epoch();
    let message = agent.enquiry();
    let others = agent.spec.nodes.keys().filter(|node| **node != agent.spec.node);
    let asked = others.map(|node| ask_elector(agent, node, &message));
    let answers = tokio::time::timeout(ASK, join_all(asked))
        .await
        .unwrap_or_default();
    let mut reports: BTreeMap<NodeName, ElectorReport> = answers.into_iter().flatten().collect();
    let believed = |genesis: &Genesis| agent.believes(genesis, open);
    for report in reports.values_mut() {
        report.chosen = report.chosen.take().filter(believed);
    }
    reports.insert(agent.spec.node.clone(), ElectorReport::of(&record));
    let named = |node: &NodeName| agent.spec.nodes.contains_key(node) && !mutant!(AddedNodesVouch);
    let former = record
        .chosen
        .iter()
        .flat_map(|genesis| genesis.electors_among(named));
    let former = former.cloned().collect();
    let stored = agent.shared.with(|inner| inner.store.genesis().cloned());
    let seen = agent.ports.peers.last_seen();
    let seen = seen
        .into_values()
        .filter_map(|fact| fact.known()?.genesis.clone());
    Tally {
        reports,
        stored: stored.filter(believed),
        reported_before: seen
            .chain(pushed)
            .chain(record.reported)
            .filter(believed)
            .collect(),
        electors: agent.spec.nodes.len(),
        former,
    }
}

/// The answer of one elector; `None` if there is no answer. An elector with another list of electors answers
/// no enquiry. Its status shows which genesis it knows as chosen, and denies nothing.
async fn ask_elector(agent: &Agent, node: &NodeName, message: &Enquire) -> Option<(NodeName, ElectorReport)> {
    let peers = agent.ports.peers.as_ref();
    let (status, reply) = join(peers.status(node), peers.enquire(node, message)).await;
    let status = status.ok().filter(|status| status.cluster == agent.spec.cluster);
    let report = match (reply, status) {
        (Ok(EnquireAnswer::Reply(reply)), status) if reply.from == *node => {
            // The memory may have been lost between the two answers.
            let complete = status.is_some_and(|status| status.eligible) && !reply.new_memory;
            ElectorReport::from_reply(*reply, complete)
        }
        (_, Some(status)) => ElectorReport {
            chosen: status.genesis,
            ..ElectorReport::default()
        },
        _ => return None,
    };
    Some((node.clone(), report))
}
