//! Follows each order to its end: its effect, or a refusal with a reason.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use etcd_agent::model::{
    BackupId, DirectiveChange, Directives, Epoch, NodeName, NodeOrder, Origin, ReasonCode, RequestState,
};
use etcd_agent::ports::AgentHandle;

use super::{Order, Orders, State, What, ask, key};
use crate::sim::Sim;
use crate::world::{Chosen, Host, World};

/// How long followers still name a lost leader, in milliseconds.
const LED_MS: u64 = 3000;
/// Two restores within this time are concurrent, in milliseconds: the epoch of the first one may answer the
/// second.
const AT_ONE_TIME_MS: u64 = 20_000;
/// How often a restore is typed if its agent dies each time.
const TRIES: u32 = 5;

/// Updates the state of each open order.
pub fn follow(sim: &Arc<Sim>) {
    let mut orders = sim.orders();
    let Orders { all, lineage } = &mut *orders;
    for (index, order) in all.iter_mut().enumerate().filter(|(_, order)| order.is_open()) {
        let before = order.state.clone();
        match before {
            State::Asked(run, id) => asked(sim, order, run, id),
            State::Forgotten => again(sim, order),
            State::Ordered => ordered(sim, lineage, index, order),
            State::Sent(run) if sim.world().hosts[order.host].run != run => {
                order.state = State::Void("its agent died");
            }
            _ => {}
        }
        if order.state != before {
            sim.world()
                .tell(|_| format!("   {:?}: {:?}", order.what, order.state));
        }
    }
}

fn asked(sim: &Sim, order: &mut Order, run: u64, id: u64) {
    if matches!(order.what, What::Bootstrap(_)) && sim.world().newest().is_some() {
        order.state = State::Done;
        return;
    }
    if sim.world().hosts[order.host].run != run {
        order.state = match order.what {
            What::Restore(..) => State::Forgotten,
            _ => State::Void("its agent died"),
        };
        return;
    }
    let view = sim.agent(order.host).and_then(|agent| agent.request(id));
    let Some(view) = view else { return };
    // A node that lies may report anything of an order that was handed over to it.
    let lied = sim.world().is_of_liar(&view.message);
    match view.state {
        RequestState::Pending => {}
        RequestState::Failed => {
            if let What::Restore(backup, above) = &order.what
                && view.message.contains("meanwhile")
                && !opened(&sim.world(), *above, order.at).any(|origin| !is_from(origin, backup))
            {
                let text = format!(
                    "{:?} is refused, though no other epoch was opened since: {}",
                    order.what, view.message
                );
                sim.world().violate(0, text);
            }
            order.state = State::Refused(view.message);
        }
        RequestState::Done if lied => {
            order.state = State::Done;
            sim.world().saw("event", "a liar reports that an order is done");
        }
        RequestState::Done => {
            order.state = State::Done;
            if !is_true(&sim.world(), order) {
                let text = format!("{:?} is not done as reported: {}", order.what, view.message);
                sim.world().violate(0, text);
            }
            let lost = missing(&sim.world(), order, &view.message);
            if let Some(lost) = lost {
                let text = format!(
                    "{:?} is done as {}, without write {lost}, which was acknowledged before",
                    order.what, view.message
                );
                sim.world().violate(7, text);
            }
        }
    }
    if matches!(&order.state, State::Refused(why) if why.is_empty()) {
        let text = format!("{:?} is refused without a reason", order.what);
        sim.world().violate(0, text);
    }
}

/// True if work that an agent reports as done was done.
fn is_true(world: &World, order: &Order) -> bool {
    match &order.what {
        What::Restore(backup, above) => opened(world, *above, order.at).any(|origin| is_from(origin, backup)),
        What::Confirm(epoch, token) => {
            let record = world.hosts[order.host].elector.as_ref();
            let chosen = record.and_then(|record| record.chosen.as_ref());
            chosen.is_some_and(|genesis| genesis.epoch > *epoch || genesis.token == *token)
        }
        What::Backup(before) => world.committed() > *before,
        // It led at some time since the order. The requesting node may learn of that late.
        What::MoveLeader(Some(to)) => world
            .hosts
            .iter()
            .any(|h| h.name == *to && h.led_at.is_some_and(|at| at + LED_MS >= order.at)),
        _ => true,
    }
}

/// A write that was acknowledged before a backup was ordered and is not in the one that answers the order.
fn missing(world: &World, order: &Order, message: &str) -> Option<u32> {
    if !matches!(order.what, What::Backup(_)) {
        return None;
    }
    let named = message
        .split_whitespace()
        .filter_map(|word| BackupId::new(word).ok());
    let (store, id) = named
        .flat_map(|id| world.stores().map(move |store| (store, id.clone())))
        .find(|(store, id)| store.contents.contains_key(id))?;
    let (writes, cluster) = (store.contents.get(&id)?, store.clusters.get(&id)?);
    let truth = world.truths.get(cluster).filter(|truth| !truth.tainted)?;
    let before = truth.acked.iter().take(*order.acknowledged.get(cluster)?);
    before.copied().find(|write| !writes.contains(write))
}

/// The origins of the epochs opened since an order that was given above this epoch at this time.
fn opened(world: &World, above: Epoch, at: u64) -> impl Iterator<Item = &Origin> {
    let since = move |(epoch, chosen): &(&Epoch, &Chosen)| **epoch > above || chosen.at + AT_ONE_TIME_MS > at;
    let opened = world.chosen.iter().filter(since);
    opened.map(|(_, chosen)| &chosen.genesis.origin)
}

fn is_from(origin: &Origin, backup: &BackupId) -> bool {
    *origin == Origin::Backup(backup.clone())
}

/// The agent died while the restore was open. The person types it again if there is no new epoch.
fn again(sim: &Sim, order: &mut Order) {
    let What::Restore(backup, above) = order.what.clone() else {
        return;
    };
    let next = {
        let world = sim.world();
        opened(&world, above, u64::MAX)
            .map(|origin| is_from(origin, &backup))
            .max()
    };
    match next {
        Some(true) => order.state = State::Done,
        Some(false) => order.state = State::Void("another restore came first"),
        None if order.tries >= TRIES => order.state = State::Void("its agent died repeatedly"),
        None => {
            if sim.agent(order.host).is_some() {
                ask(sim, order);
            }
        }
    }
}

fn ordered(
    sim: &Sim,
    lineage: &BTreeMap<(u64, Option<NodeName>), BTreeSet<usize>>,
    index: usize,
    order: &mut Order,
) {
    let What::Change(change) = &order.what else { return };
    let refused = {
        let hosts = sim.world().hosts.len();
        let agents = (0..hosts).filter_map(|host| sim.agent(host));
        let mut views = agents.filter_map(|agent| agent.plan_view());
        views.any(|view| {
            let mut reasons = view.decision.reasons.iter();
            reasons.any(|reason| reason.code == ReasonCode::UpgradeRefused)
        })
    };
    let mut world = sim.world();
    let newest = world.register();
    let knows = |register: &Directives| lineage.get(&key(register)).is_some_and(|k| k.contains(&index));
    if !knows(&newest) {
        if newest.version > 0 || world.hosts.iter().any(|h| knows(&h.directives)) {
            order.state = State::Void("a concurrent order won");
        } else if world
            .hosts
            .iter()
            .zip(&order.memories)
            .any(|(h, before)| h.reinstalled > *before)
        {
            order.state = State::Void("the agents that had received it lost their memory");
        } else {
            let text = format!("{change:?} was accepted and is in no register");
            world.violate(0, text);
        }
        return;
    }
    let follows = |h: &Host| !h.has_agent() || h.directives == newest;
    if !world.hosts.iter().all(follows) {
        return;
    }
    if *change == DirectiveChange::CancelUpgrade && world.is_newer_than(newest.etcd_version()) {
        order.state = State::Void("all members that were left run a newer minor");
        return;
    }
    let opened = world.newest().map(|newest| &newest.genesis);
    let moved = opened.is_some_and(|genesis| {
        let selected = newest.etcd.as_ref();
        genesis.etcd.is_some() && selected.is_some_and(|selected| selected.epoch < genesis.epoch)
    });
    if moved
        && matches!(
            change,
            DirectiveChange::Upgrade { .. }
                | DirectiveChange::Downgrade { .. }
                | DirectiveChange::FollowPackage
        )
    {
        order.state =
            State::Void("a move that began at the same moment opened an epoch with another version");
        return;
    }
    if let DirectiveChange::Upgrade { to, .. } = change
        && refused
        && world.runs_newer_than(*to)
    {
        // A package had replaced the binary, and etcd was restarted in the moment of the order.
        order.state = State::Refused("a member runs a newer version already".to_owned());
        return;
    }
    let former = |h: &Host| {
        let settings = h.written.as_ref().filter(|_| h.server.is_some());
        settings.is_some_and(|settings| settings.etcd_version.is_none())
    };
    if *change == DirectiveChange::CancelUpgrade
        && newest.etcd_version().is_none()
        && !world.hosts.iter().any(former)
    {
        order.state = State::Void("no node is left that runs what was selected before");
        return;
    }
    let done = match change {
        DirectiveChange::Remove { node } => {
            !newest.out.contains(node) || !is_member(&world, node) || is_last(&world, &newest)
        }
        DirectiveChange::Restart { nodes } => {
            // An order also names the nodes that still wait for the one before it.
            let latest = newest
                .restart
                .as_ref()
                .is_some_and(|restart| restart.nodes.is_superset(nodes));
            let mut hosts = world.hosts.iter().zip(&order.processes);
            !latest
                || hosts.all(|(h, before)| {
                    !nodes.contains(&h.name)
                        || before.is_none_or(|before| before != h.pid)
                        || h.server.is_none()
                })
        }
        DirectiveChange::Defrag { nodes } => {
            let latest = newest.defrag.as_ref().filter(|defrag| defrag.nodes == *nodes);
            let done = |h: &Host, order: &NodeOrder| {
                h.server.is_none()
                    || !nodes.contains(&h.name)
                    || h.etcd_run
                        .defragmented
                        .as_ref()
                        .is_some_and(|done| done.0 == order.id)
            };
            latest.is_none_or(|order| world.hosts.iter().all(|h| done(h, order)))
        }
        DirectiveChange::Upgrade { to, .. } | DirectiveChange::Downgrade { to } => {
            newest.etcd_version() != Some(*to) || world.all_run(Some(*to))
        }
        DirectiveChange::CancelUpgrade => world.all_run(newest.etcd_version()),
        DirectiveChange::FollowPackage => newest.etcd_version().is_some() || world.all_run(None),
        DirectiveChange::Pause
        | DirectiveChange::Resume
        | DirectiveChange::Add { .. }
        | DirectiveChange::ReleaseRebootLock { .. }
        | DirectiveChange::CancelRestart
        | DirectiveChange::CancelDefrag => true,
    };
    if done {
        order.state = State::Done;
    }
}

/// Whether the newest cluster lists this node.
fn is_member(world: &World, node: &NodeName) -> bool {
    let Some(host) = world.host_of(node) else {
        return false;
    };
    let Some(newest) = world.newest() else {
        return false;
    };
    let leads = |h: &&Host| {
        let of_it = h
            .dir
            .as_ref()
            .is_some_and(|d| d.cluster == newest.genesis.cluster_id);
        of_it && h.server.as_ref().is_some_and(|s| s.leads && s.ready)
    };
    // Without a leader nothing shows that it was removed.
    let Some(server) = world.hosts.iter().find(leads).and_then(|h| h.server.as_ref()) else {
        return true;
    };
    server.config.members.values().any(|info| info.host == host)
}

/// True if all nodes were ordered out. The last member stays and reports the reason.
fn is_last(world: &World, register: &Directives) -> bool {
    world.hosts.iter().all(|h| register.out.contains(&h.name))
}
