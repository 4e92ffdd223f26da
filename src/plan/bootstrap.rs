//! The first epoch: which node proposes what, and what it waits for (design §6).

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use super::bootstrap_checks::{PATIENCE, data_allows, nothing_stored, store_allows};
use super::context::{Context, names};
use super::electors;
use super::safety::same_store;
use super::transport;
use super::unfinished::unfinished_round;
use crate::model::{
    Action, ActionKind, DataState, Epoch, Fact, Genesis, NodeName, NodeStatus, OperatorRequest, Origin,
    ReasonCode, cluster_id_of, token_of,
};

/// True when a person asked for the first cluster.
pub(super) fn asked(cx: &Context<'_>) -> bool {
    let asks = |request: &OperatorRequest| matches!(request, OperatorRequest::Bootstrap { .. });
    cx.obs.requests.iter().any(asks)
}

/// Forms the first cluster when there is none anywhere.
pub(super) fn first_epoch(cx: &mut Context<'_>) -> Option<Action> {
    if cx.genesis().is_some() || cx.obs.newest_epoch > Epoch::default() {
        return None;
    }
    let since = *cx.memory.waiting_since.get_or_insert(cx.obs.steady);
    let without = operators_word(cx);
    if let Some(action) = become_eligible(cx, &without) {
        return Some(action);
    }
    if !cx.obs.elector.eligible || !store_allows(cx) {
        return None;
    }
    if let Some(action) = take_over(cx) {
        return Some(action);
    }
    let unfinished = unfinished_round(cx).filter(|_| without.is_empty());
    if unfinished.is_none() && !data_allows(cx, &without) || !nothing_stored(cx, since) {
        return None;
    }
    if let Some(unfinished) = unfinished {
        return finish(cx, unfinished);
    }
    let ready: Vec<&NodeName> = cx
        .known_nodes()
        .into_iter()
        .filter(|(_, s)| is_candidate(cx, s))
        .map(|(n, _)| n)
        .collect();
    let late: Vec<&NodeName> = cx
        .spec
        .nodes
        .keys()
        .filter(|n| !ready.contains(n) && !without.contains(*n))
        .collect();
    let waited = cx.obs.steady.since(since);
    if !late.is_empty() && ready.len() < cx.spec.nodes.len() && waited < PATIENCE {
        cx.because(
            ReasonCode::WaitingForElectors,
            format!("waiting for {} before the first cluster is formed", names(late)),
        );
        cx.wake_in(Duration::from_millis(200));
        return None;
    }
    let members: BTreeMap<NodeName, Vec<String>> = ready
        .iter()
        .take(cx.spec.size)
        .filter_map(|node| cx.spec.peer_url(node).map(|url| ((*node).clone(), vec![url])))
        .collect();
    if let Some(differs) = transport::mixture(cx, members.keys()) {
        let text = format!("no cluster is formed: {differs}");
        cx.because(ReasonCode::TransportDiffers, text);
        cx.wake_in(Duration::from_secs(1));
        return None;
    }
    if ready.len() < cx.spec.majority() {
        cx.because(
            ReasonCode::NoMajority,
            format!(
                "{} of {} electors are ready ({}); a majority of {} is needed",
                ready.len(),
                cx.spec.nodes.len(),
                names(ready),
                cx.spec.majority()
            ),
        );
        return None;
    }
    propose(cx, Epoch(1), Origin::Empty, members, BTreeSet::new())
}

/// Proposes a genesis with these members. The node with the lowest name proposes first, and the others follow
/// in turn. `gone` are electors of the replaced epoch that a person has declared permanently lost.
pub(super) fn propose(
    cx: &mut Context<'_>,
    epoch: Epoch,
    origin: Origin,
    members: BTreeMap<NodeName, Vec<String>>,
    gone: BTreeSet<NodeName>,
) -> Option<Action> {
    let rank = cx
        .known_nodes()
        .iter()
        .filter(|(_, s)| s.eligible)
        .position(|(n, _)| **n == cx.spec.node)?;
    // A restore is proposed by the node that was asked.
    let asked = !matches!(origin, Origin::Empty);
    let since = cx.memory.waiting_since.unwrap_or(cx.obs.steady);
    let my_turn = Duration::from_secs(2) * u32::try_from(rank).unwrap_or(u32::MAX);
    let passed = cx.obs.steady.since(since);
    if !asked && passed < my_turn {
        cx.because(ReasonCode::NotMyTurn, "a node with a lower name proposes first");
        cx.wake_in(my_turn.saturating_sub(passed));
        return None;
    }
    if let Some(error) = cx.memory.errors.get(&ActionKind::Propose).cloned() {
        cx.because(
            ReasonCode::NotAgreed,
            format!("the last try to open epoch {epoch} failed: {error}"),
        );
    }
    if !cx.may_try(
        ActionKind::Propose,
        Duration::from_millis(100),
        Duration::from_secs(5),
    ) {
        return None;
    }
    let token = token_of(&cx.spec.cluster, epoch, cx.obs.seed, cx.spec.nodes.keys());
    let mut electorate: BTreeMap<_, _> = cx.incarnations().into_iter().collect();
    for node in cx.spec.nodes.keys() {
        // The vote of a silent elector is not needed. Its incarnation is recorded when it promises.
        electorate
            .entry(node.clone())
            .or_insert_with(|| cx.obs.me.incarnation.clone());
    }
    let genesis = Genesis {
        epoch,
        cluster: cx.spec.cluster.clone(),
        cluster_id: cluster_id_of(&members, &token),
        token,
        members,
        origin,
        electorate,
        created: cx.obs.now,
        former: electors::replaced(cx).map(Genesis::lineage).unwrap_or_default(),
        etcd: None,
    };
    cx.because(
        ReasonCode::ProposeGenesis,
        format!(
            "epoch {epoch} from {} with {}",
            genesis.origin,
            names(genesis.members.keys())
        ),
    );
    Some(Action::Propose {
        round: cx.obs.elector.highest_round.saturating_add(1),
        genesis: Box::new(genesis),
        gone,
    })
}

/// Electors that an operator has declared permanently lost, here or at a peer with the same electorate that
/// knows no epoch yet. A peer's declaration does not count for a node that answers here. A declaration
/// expires with the first epoch: a node that returns after that is not lost.
fn operators_word(cx: &Context<'_>) -> BTreeSet<NodeName> {
    let here = cx.obs.requests.iter().flat_map(OperatorRequest::without);
    let silent = cx.silent();
    let at_peers = cx
        .known_peers()
        .filter(|(_, s)| {
            s.newest_epoch == Epoch::default()
                && s.cluster == cx.spec.cluster
                && s.electorate_digest == cx.obs.me.electorate_digest
        })
        .flat_map(|(_, s)| &s.steering.vouched_gone)
        .filter(|node| silent.contains(node));
    here.chain(at_peers).cloned().collect()
}

/// An elector with a new memory asks all others before it votes.
pub(super) fn become_eligible(cx: &mut Context<'_>, without: &BTreeSet<NodeName>) -> Option<Action> {
    if cx.obs.elector.eligible {
        return None;
    }
    let missing = electors::report_new_memory(cx, without);
    let reachable = missing
        .iter()
        .any(|n| cx.obs.peers.get(*n).is_some_and(|f| f.known().is_some()));
    let store_answers = cx.spec.store_shared && cx.obs.store.known().is_some();
    if !(reachable || missing.is_empty() || store_answers) {
        return None;
    }
    cx.may_try(
        ActionKind::Enquire,
        Duration::from_millis(50),
        Duration::from_secs(2),
    )
    .then(|| Action::Enquire {
        without: without.clone(),
    })
}

/// Takes over an etcd that runs on the only node of the electorate and is a cluster of one already (Debian's
/// `etcd-server` starts one when it is installed). It becomes epoch 1 with its data, without a restart.
fn take_over(cx: &mut Context<'_>) -> Option<Action> {
    let etcd = cx.obs.me.etcd.known()?;
    let list = cx.obs.me.members.known().filter(|list| list.linearizable)?;
    let alone =
        list.members.len() == 1 && list.get(etcd.member_id).is_some() && list.cluster_id == etcd.cluster_id;
    if cx.spec.nodes.len() != 1 || !alone {
        return None;
    }
    let me = cx.spec.node.clone();
    let members = BTreeMap::from([(me.clone(), vec![cx.spec.peer_url(&me)?])]);
    let mut action = propose(cx, Epoch(1), Origin::Member(me), members, BTreeSet::new())?;
    if let Action::Propose { genesis, .. } = &mut action {
        genesis.cluster_id = etcd.cluster_id;
    }
    Some(action)
}

/// Proposes an accepted genesis again. A round proposes this value in any case (Paxos), so that the data on
/// the other node belongs to the epoch that opens.
fn finish(cx: &mut Context<'_>, unfinished: Genesis) -> Option<Action> {
    let members = unfinished.members.clone();
    let mut action = propose(cx, unfinished.epoch, Origin::Empty, members, BTreeSet::new())?;
    if let Action::Propose { genesis, .. } = &mut action {
        let electorate = std::mem::take(&mut genesis.electorate);
        **genesis = Genesis {
            electorate,
            ..unfinished
        };
    }
    Some(action)
}

/// A node that can be an initial member: it answers, may vote, has no data, and has the same electorate,
/// cluster and store.
fn is_candidate(cx: &Context<'_>, status: &NodeStatus) -> bool {
    status.eligible
        && status.electorate_digest == cx.obs.me.electorate_digest
        && status.cluster == cx.spec.cluster
        && same_store(&cx.spec.store_digest(), status)
        && matches!(status.data, Fact::Known(DataState::Missing))
}
