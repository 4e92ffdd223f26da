//! Whether a cluster has recovered, and what excuses it if it has not.

use etcd_agent::ports::AgentHandle;

use crate::schedule::Schedule;
use crate::sim::Sim;
use crate::world::World;
use crate::world::raft::Dir;

/// True when the newest epoch's cluster has its size, every voter serves, and no alarm is raised.
pub fn goal(sim: &Sim, schedule: &Schedule) -> bool {
    let mut world = sim.world();
    let Some(newest) = world.newest() else {
        return false;
    };
    let cluster = newest.genesis.cluster_id;
    let leader = (0..schedule.nodes).find(|host| {
        let h = &world.hosts[*host];
        h.dir.as_ref().is_some_and(|d| d.cluster == cluster)
            && h.server.as_ref().is_some_and(|s| s.leads && s.ready)
    });
    let Some(leader) = leader else { return false };
    let (Some(dir), Some(server)) = (&world.hosts[leader].dir, &world.hosts[leader].server) else {
        return false;
    };
    let own = dir.member;
    let whole = server.config.members.len() == wanted(&world, schedule)
        && server.config.members.iter().all(|(id, info)| {
            let h = &world.hosts[info.host];
            !info.learner
                && h.dir
                    .as_ref()
                    .is_some_and(|d| d.member == *id && d.cluster == cluster)
                && h.server
                    .as_ref()
                    .is_some_and(|s| s.ready && s.leader == Some(own))
        });
    // An agent that has lost its memory cannot distinguish an old epoch's etcd from a foreign one, and leaves
    // it alone.
    let others = world.hosts.iter().all(|h| {
        h.server.is_none() || h.assignment.is_none() || h.dir.as_ref().is_some_and(|d| d.cluster == cluster)
    });
    // etcd reads its authorities only when it starts.
    let trusts = |h: &crate::world::Host| h.server.as_ref().is_none_or(|s| s.trusts == h.tls.authorities);
    if !whole || !others || world.no_space || schedule.tls && !world.hosts.iter().all(trusts) {
        return false;
    }
    let number = world.next_write;
    world.next_write += 1;
    world.write(leader, number).is_some()
}

/// The wanted number of members: the size in the store or configuration, at most the nodes that are not
/// ordered out.
fn wanted(world: &World, schedule: &Schedule) -> usize {
    let said = world
        .store
        .as_ref()
        .filter(|_| schedule.sized)
        .and_then(|store| store.size);
    let out = world.register().out;
    let there = world.hosts.iter().filter(|h| !out.contains(&h.name)).count();
    // The last member stays, even if it was ordered out.
    said.unwrap_or(schedule.size).min(there).max(1)
}

/// Reasons for which the planner may rightly stop, each with the condition that justifies it.
pub fn excuse(sim: &Sim) -> Option<&'static str> {
    let world = sim.world();
    let reinstalled = world.hosts.iter().filter(|h| h.reinstalled > 0).count();
    let forgetful = reinstalled * 2 > world.first_electors();
    let emptied = world.store.as_ref().is_some_and(|s| s.emptied);
    let newest = world.newest().map(|chosen| &chosen.genesis);
    let beyond_repair = newest.is_some_and(|genesis| world.is_beyond_repair(genesis));
    let truth = newest.and_then(|genesis| world.truths.get(&genesis.cluster_id));
    let tainted = truth.is_some_and(|t| t.tainted);
    let disk_went_back = truth.is_some_and(|t| !t.set_back.is_empty());
    // The member that forgot acknowledged writes, or one with entries that the others lost together with it.
    let does_not_start = newest.is_some_and(|genesis| {
        let of_it = |d: &Dir| d.cluster == genesis.cluster_id;
        let mut hosts = world.hosts.iter();
        hosts.any(|h| h.server.is_none() && h.dir.as_ref().is_some_and(of_it))
    });
    let set_back = disk_went_back && does_not_start;
    let no_epoch = newest.is_none();
    let restoring = world.newest().is_some_and(|c| c.genesis.epoch.0 > 1);
    drop(world);
    let reasons = reasons(sim);
    let says = |code: &str| reasons.iter().any(|(_, c, _)| c == code);
    if tainted && disk_went_back {
        return Some("a disk went back to an older state, which no agent can detect: nothing is promised");
    }
    // An agent has to report the loss. A restore that was typed has to end first.
    let lost = ["all-data-lost", "data-gone", "lost-membership", "quorum-lost"]
        .into_iter()
        .any(says);
    if (tainted || beyond_repair) && lost && !sim.orders().restores() {
        return Some("a majority of disks is lost: a person has to restore");
    }
    if tainted && says("start-backoff") && !sim.orders().restores() {
        return Some(
            "a majority of disks is lost before its agents saw etcd serve, and etcd refuses to begin again",
        );
    }
    if no_epoch && says("data-without-epoch") {
        return Some("there is data and no memory of its epoch");
    }
    if no_epoch && says("store-without-epoch") {
        return Some("there are backups and no memory of their epoch");
    }
    if forgetful
        && ["new-memory", "memories-lost", "data-without-epoch"]
            .into_iter()
            .any(says)
    {
        return Some("a majority of electors has lost its memory: a person has to name the lost ones");
    }
    if set_back && says("start-backoff") {
        return Some("a disk was set back, and a member cannot start: a person has to remove it");
    }
    if restoring && emptied && says("restore-failed") {
        return Some("the backup that is being restored was deleted");
    }
    None
}

/// The current reasons of every agent: node, code, text.
pub fn reasons(sim: &Sim) -> Vec<(String, String, String)> {
    let hosts = sim.world().hosts.len();
    (0..hosts)
        .filter_map(|host| sim.agent(host))
        .filter_map(|agent| agent.plan_view())
        .flat_map(|view| {
            let node = view.observation.me.node.to_string();
            view.decision
                .reasons
                .into_iter()
                .map(move |reason| (node.clone(), reason.code.to_string(), reason.text))
        })
        .collect()
}

/// The text of the violation for a cluster that did not recover.
pub fn complaint(sim: &Sim) -> String {
    format!("the cluster did not recover: {}", said(sim))
}

/// The current decisions and reasons of every agent, and the open orders.
pub fn said(sim: &Sim) -> String {
    let hosts = sim.world().hosts.len();
    let texts = (0..hosts).filter_map(|host| {
        let view = sim.agent(host)?.plan_view()?;
        Some(format!("{}: {}", view.observation.me.node, view.decision.text))
    });
    let said = reasons(sim)
        .into_iter()
        .map(|(node, code, text)| format!("{node} {code}: {text}"));
    let orders = sim.orders().open();
    let all: Vec<String> = texts.chain(said).chain(orders).collect();
    all.join(" | ")
}
