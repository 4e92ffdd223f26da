//! The orders that people type. Each has to end in its effect or in a refusal with a reason.

mod follow;
mod keep;
mod order;

use std::collections::BTreeSet;
use std::sync::Arc;

use etcd_agent::agent::Agent;
use etcd_agent::model::{
    DirectiveChange, DirectiveOrder, DirectiveView, Directives, LockOwner, NodeName, OperatorRequest,
    SizeOrder,
};
use etcd_agent::ports::{AgentHandle, OrderError, PortError, PortResult};
use futures::FutureExt;

use crate::moves;
use crate::sim::Sim;
use crate::verdict::reasons;
use crate::world::{Host, Store};

pub use follow::follow;
pub use keep::keep_backup;
pub use order::{Order, Orders, State, What};

/// How long people wait for the reboot lock, in milliseconds.
const WAITS_FOR_LOCK_MS: u64 = 40_000;

/// A person types this command on a host.
pub fn give(sim: &Arc<Sim>, host: usize, what: What) {
    let mut order = {
        let world = sim.world();
        let ran = |h: &Host| h.server.is_some().then_some(h.pid);
        Order {
            at: world.now,
            host,
            what,
            state: State::Forgotten,
            tries: 0,
            processes: world.hosts.iter().map(ran).collect(),
            memories: world.hosts.iter().map(|h| h.reinstalled).collect(),
            acknowledged: world.acknowledged(),
        }
    };
    let mut orders = sim.orders();
    let index = orders.all.len();
    match order.what.clone() {
        What::Change(
            DirectiveChange::Upgrade { .. }
            | DirectiveChange::Downgrade { .. }
            | DirectiveChange::FollowPackage
            | DirectiveChange::CancelUpgrade,
        ) => {
            direct_later(sim, index, &mut order);
        }
        What::Change(change) => direct(sim, &mut orders, index, &mut order, &change),
        What::Size(size) => resize(sim, index, &mut order, size),
        _ => ask(sim, &mut order),
    }
    // An agent that has not begun the backup of an earlier order returns that request, so the order joins it.
    let joined = orders
        .all
        .iter()
        .find(|o| o.host == host && o.state == order.state);
    if let (What::Backup(_), State::Asked(..), Some(first)) = (&order.what, &order.state, joined) {
        order.what = first.what.clone();
    }
    sim.world()
        .tell(|_| format!("   {:?}: {:?}", order.what, order.state));
    orders.all.push(order);
}

fn refused(error: &PortError) -> State {
    State::Refused(error.to_string())
}

/// A request that the agent keeps in memory.
fn ask(sim: &Sim, order: &mut Order) {
    order.tries += 1;
    let Some(agent) = sim.agent(order.host) else {
        order.state = State::Refused("the agent does not run".to_owned());
        return;
    };
    let request = match &order.what {
        What::Restore(backup, _) => OperatorRequest::Restore {
            backup: backup.clone(),
            without: BTreeSet::new(),
            replace: None,
            etcd: None,
            above: None,
            asked: etcd_agent::model::UnixMs::default(),
        },
        What::Bootstrap(gone) => OperatorRequest::Bootstrap {
            without: [gone.clone()].into(),
            empty: false,
        },
        What::Confirm(epoch, token) => OperatorRequest::ConfirmEpoch {
            epoch: *epoch,
            token: token.clone(),
        },
        What::MoveLeader(to) => OperatorRequest::MoveLeader {
            to: to.clone(),
            from: None,
            id: 0,
            asked: etcd_agent::model::SteadyMs::default(),
        },
        What::RebootLock => OperatorRequest::RebootLock {
            owner: LockOwner::Operator,
            within_ms: WAITS_FOR_LOCK_MS,
            asked: etcd_agent::model::SteadyMs::default(),
        },
        _ => OperatorRequest::Backup,
    };
    let run = sim.world().hosts[order.host].run;
    order.state = match agent.submit(request) {
        Ok(view) => State::Asked(run, view.id),
        Err(error) => refused(&error),
    };
}

/// An order for the register that all agents keep on disk.
fn direct(sim: &Sim, orders: &mut Orders, index: usize, order: &mut Order, change: &DirectiveChange) {
    let Some(agent) = sim.agent(order.host) else {
        order.state = State::Refused("the agent does not run".to_owned());
        return;
    };
    let before = key(&sim.world().hosts[order.host].directives);
    let typed = DirectiveOrder {
        change: change.clone(),
        dry_run: false,
        force: matches!(change, DirectiveChange::Remove { .. }) && sim.world().rng.chance(70),
    };
    let answer = at_once(&agent, &typed);
    order.state = orders.given(index, &before, answer);
}

/// The answer to an order for which the agent looks at nothing again.
fn at_once(agent: &Agent, order: &DirectiveOrder) -> PortResult<DirectiveView> {
    let late = || PortError::Permanent("the agent waits before it takes the order".to_owned());
    AgentHandle::direct(agent, order)
        .now_or_never()
        .unwrap_or_else(|| Err(late()))
}

impl Orders {
    /// The state of an order that an agent has answered. `before` was the agent's register.
    fn given(
        &mut self,
        index: usize,
        before: &(u64, Option<NodeName>),
        answer: PortResult<DirectiveView>,
    ) -> State {
        match answer {
            Ok(view) if view.changed => {
                let mut knows = self.lineage.get(before).cloned().unwrap_or_default();
                knows.insert(index);
                self.lineage.insert(key(&view.directives), knows);
                State::Ordered
            }
            // The register already has this content.
            Ok(_) => State::Done,
            Err(error) => refused(&error),
        }
    }
}

/// An order before which all agents look again.
fn direct_later(sim: &Arc<Sim>, index: usize, order: &mut Order) {
    let Some(agent) = sim.agent(order.host) else {
        order.state = State::Refused("the agent does not run".to_owned());
        return;
    };
    let What::Change(change) = order.what.clone() else {
        return;
    };
    let (host, run) = (order.host, sim.world().hosts[order.host].run);
    order.state = State::Sent(run);
    let typed = DirectiveOrder {
        change,
        dry_run: false,
        force: false,
    };
    let sim = sim.clone();
    tokio::spawn(async move {
        let answer = AgentHandle::direct(&agent, &typed).await;
        // The register may have changed while the agents looked.
        let before = match &answer {
            Ok(view) => (view.directives.version.saturating_sub(1), None),
            Err(_) => key(&sim.world().hosts[host].directives),
        };
        let mut orders = sim.orders();
        let known = orders
            .lineage
            .keys()
            .rev()
            .find(|(version, _)| *version == before.0)
            .cloned();
        let state = orders.given(index, &known.unwrap_or(before), answer);
        sim.world().tell(|_| format!("   {:?}: {state:?}", typed.change));
        if let Some(order) = orders.all.get_mut(index)
            && matches!(order.state, State::Sent(_))
        {
            order.state = state;
        }
    });
}

fn key(register: &Directives) -> (u64, Option<NodeName>) {
    (register.version, register.by.clone())
}

fn resize(sim: &Arc<Sim>, index: usize, order: &mut Order, size: usize) {
    let Some(agent) = sim.agent(order.host) else {
        order.state = State::Refused("the agent does not run".to_owned());
        return;
    };
    order.state = State::Sent(sim.world().hosts[order.host].run);
    sim.world().unordered.take_if(|unordered| *unordered == size);
    let force = {
        let mut world = sim.world();
        // A person who repeats the size in the store confirms it.
        let said = world.store_of(order.host).and_then(|store| store.size);
        world.rng.chance(50) || said == Some(size)
    };
    let typed = SizeOrder {
        size,
        force,
        dry_run: false,
    };
    let sim = sim.clone();
    tokio::spawn(async move {
        let state = match agent.set_size(&typed).await {
            Ok(_) => State::Done,
            Err(
                OrderError::Store(PortError::OutcomeUnknown(_))
                | OrderError::Here(PortError::OutcomeUnknown(_)),
            ) => State::Void("the outcome of the write is unknown"),
            Err(error) => State::Refused(error.to_string()),
        };
        sim.world().tell(|_| format!("   size {size}: {state:?}"));
        if let Some(order) = sim.orders().all.get_mut(index)
            && matches!(order.state, State::Sent(_))
        {
            order.state = state;
        }
    });
}

/// People do what the reasons ask for.
pub fn heed(sim: &Arc<Sim>) {
    let said = reasons(sim);
    let says = |wanted: &str| -> Vec<usize> {
        let world = sim.world();
        let hosts = world.hosts.iter().enumerate();
        let say = hosts.filter(|(_, h)| {
            let mut said = said.iter();
            said.any(|(node, code, _)| node == h.name.as_str() && code == wanted)
        });
        say.map(|(host, _)| host).collect()
    };
    confirm(sim, &says("orders-refused"));
    for host in says("awaiting-stop") {
        sim.world().discard_replaced(host);
    }
    if let Some(host) = says("quarantine").first() {
        moves::resume(sim, *host);
    }
    let size = sim.world().store.as_ref().and_then(|store| store.size);
    // A node that was ordered out, and so has no etcd, refuses orders.
    let unconfirmed = says("size-unconfirmed");
    let member = unconfirmed
        .iter()
        .find(|host| sim.world().hosts[**host].server.is_some());
    if let (Some(host), Some(size)) = (member.or(unconfirmed.first()), size) {
        give(sim, *host, What::Size(size));
    }
    confirm_epoch(sim, &says("epoch-hearsay"));
    // The votes of a memory that is dated before an earlier one are refused: see docs/safety.md, Clocks.
    let refused = [says("not-agreed"), says("votes-missing")].concat();
    for order in &mut sim.orders().all {
        let outdated = sim.world().hosts[order.host].outdated;
        if matches!(order.state, State::Asked(..)) && outdated && refused.contains(&order.host) {
            order.state = State::Void("the memory of its agent is refused");
        }
    }
}

/// Orders that only one node reports are limited, so people give them on a second node too.
fn confirm(sim: &Sim, hosts: &[usize]) {
    let mut orders = sim.orders();
    let Orders { all, lineage } = &mut *orders;
    for (index, order) in all.iter().enumerate() {
        let (What::Change(change), State::Ordered) = (&order.what, &order.state) else {
            continue;
        };
        for host in hosts {
            let Some(agent) = sim.agent(*host) else { continue };
            let before = key(&sim.world().hosts[*host].directives);
            let typed = DirectiveOrder {
                change: change.clone(),
                dry_run: false,
                force: true,
            };
            // A node that was ordered out does not accept orders.
            let Ok(view) = at_once(&agent, &typed) else {
                continue;
            };
            // It was given here before, and one more node is necessary.
            if !view.changed {
                continue;
            }
            let mut knows = lineage.get(&before).cloned().unwrap_or_default();
            knows.insert(index);
            lineage.insert(key(&view.directives), knows);
            sim.world()
                .tell(|w| format!("   {change:?} at {} too", w.hosts[*host].name));
            break;
        }
    }
}

/// An operator knows which epoch was opened last, and confirms it if the electors cannot.
fn confirm_epoch(sim: &Arc<Sim>, hosts: &[usize]) {
    let newest = {
        let world = sim.world();
        let stored = world.store.as_ref().and_then(Store::genesis);
        // An epoch may have been recorded by an agent that lost its memory before it learned of it.
        world.newest().map(|chosen| chosen.genesis.clone()).or(stored)
    };
    let Some(newest) = newest else { return };
    for host in hosts {
        let behind = {
            let world = sim.world();
            let record = world.hosts[*host].elector.as_ref();
            record.is_some_and(|record| record.open_epoch() < newest.epoch)
        };
        if behind {
            give(sim, *host, What::Confirm(newest.epoch, newest.token.clone()));
        }
    }
}
