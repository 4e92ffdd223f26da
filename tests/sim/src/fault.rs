//! What can go wrong, and what an operator can type.

use etcd_agent::agent::Agent;
use etcd_agent::model::{ClusterId, DirectiveChange, DirectiveOrder, MemberId, OperatorRequest};
use etcd_agent::ports::AgentHandle;

use crate::ports::set_skew;
use crate::sim::Sim;
use crate::world::raft::Dir;
use crate::world::{AgentState, Phase, Plane, Store, Weather, World};

/// One thing that happens.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Fault {
    /// One direction between two hosts is cut, for agents, for etcd, or for both.
    Cut(usize, usize, Option<bool>),
    /// A host is cut off from all others.
    Isolate(usize),
    /// The network is whole again.
    Mend,
    /// Of a hundred messages so many are lost, arrive twice, and take up to so many milliseconds.
    Noise(u64, u64, u64),
    /// The agent dies at this many crossings of a port from now.
    AgentDies(usize, u32),
    /// The agent is stopped, for this many milliseconds.
    AgentStops(usize, u64),
    /// The agent's state is lost.
    Reinstall(usize),
    /// Nobody can look into the data directory, until people see to it.
    InspectFails(usize),
    /// The data directory holds data of a cluster that nobody here knows.
    Foreign(usize),
    /// systemd refuses that many of the agent's next stops of etcd.
    StopsFail(usize, u32),
    /// The host loses power, for this many milliseconds.
    PowerOff(usize, u64),
    /// etcd is killed.
    KillEtcd(usize),
    /// The data directory is emptied.
    Wipe(usize),
    /// The data directory becomes of no use.
    Corrupt(usize),
    /// A copy of the data directory is made, for `SetBack`.
    Copy(usize),
    /// The data directory is set back to the copy.
    SetBack(usize),
    /// The clock jumps by so many milliseconds.
    Clock(usize, i64),
    /// The store behaves so.
    Store(Weather),
    /// The store is emptied.
    EmptyStore,
    /// Typed here: restore the newest backup.
    Restore(usize),
    /// Typed here: form the first cluster without that host, which is gone for good.
    Without(usize, usize),
    /// Typed here: take a backup now.
    Backup(usize),
    /// Typed here: `systemctl stop etcd`.
    Stop(usize),
    /// Typed here: `systemctl start etcd`.
    Start(usize),
    /// Typed here: `systemctl mask etcd`.
    Mask(usize),
    /// Typed here: restart etcd on all nodes, one after the other.
    RestartAll(usize),
    /// Typed here: pause.
    Pause(usize),
    /// Typed here: resume.
    Resume(usize),
}

/// Makes it happen.
pub fn inject(sim: &Sim, fault: &Fault) {
    sim.world().tell(|_| format!("-- {fault:?}"));
    match fault {
        Fault::Restore(host) => restore(sim, *host),
        Fault::Without(host, gone) => without(sim, *host, *gone),
        Fault::Backup(host) => submit(sim, *host, OperatorRequest::Backup),
        Fault::Pause(host) => direct(sim, *host, DirectiveChange::Pause),
        Fault::Resume(host) => direct(sim, *host, DirectiveChange::Resume),
        Fault::RestartAll(host) => {
            let nodes = sim.world().hosts.iter().map(|h| h.name.clone()).collect();
            direct(sim, *host, DirectiveChange::Restart { nodes });
        }
        Fault::Clock(host, ms) => set_skew(sim, *host, *ms),
        Fault::Cut(..) | Fault::Isolate(_) | Fault::Mend | Fault::Noise(..) => network(sim, fault),
        Fault::Store(_) | Fault::EmptyStore => store(&mut sim.world(), fault),
        Fault::AgentDies(..) | Fault::AgentStops(..) | Fault::Reinstall(_) | Fault::PowerOff(..) => {
            process(sim, fault);
        }
        _ => host_fault(sim, fault),
    }
}

fn network(sim: &Sim, fault: &Fault) {
    let mut world = sim.world();
    let hosts = world.hosts.len();
    let now = world.now;
    let links = &mut world.links;
    match fault {
        Fault::Cut(from, to, plane) => {
            if *plane != Some(false) {
                links.cut(Plane::Agents, *from, *to);
            }
            if *plane != Some(true) {
                links.cut(Plane::Etcd, *from, *to);
            }
        }
        Fault::Isolate(host) => {
            for other in (0..hosts).filter(|other| other != host) {
                for plane in [Plane::Agents, Plane::Etcd] {
                    links.cut(plane, *host, other);
                    links.cut(plane, other, *host);
                }
            }
        }
        Fault::Noise(loss, twice, delay) => {
            links.loss = *loss;
            links.twice = *twice;
            links.delay = *delay;
        }
        _ => links.mend(),
    }
    links.changed = now;
    drop(world);
    sim.changed();
}

fn store(world: &mut World, fault: &Fault) {
    let Some(store) = &mut world.store else { return };
    if let Fault::Store(weather) = fault {
        store.weather = *weather;
    } else {
        store.objects.clear();
        store.emptied = true;
    }
}

fn process(sim: &Sim, fault: &Fault) {
    let mut world = sim.world();
    let now = world.now;
    match fault {
        Fault::AgentDies(host, crossings) => {
            world.hosts[*host].dies_in = Some(*crossings);
        }
        Fault::AgentStops(host, ms) if world.hosts[*host].has_agent() => {
            world.hosts[*host].kill_agent(AgentState::Until(now + ms));
            drop(world);
            sim.set_agent(*host, None);
        }
        Fault::Reinstall(host) if world.hosts[*host].up => {
            forget(&mut world, *host);
            world.hosts[*host].kill_agent(AgentState::Until(now + 500));
            drop(world);
            sim.set_agent(*host, None);
        }
        Fault::PowerOff(host, ms) if world.hosts[*host].up => {
            world.hosts[*host].power_off(Some(now + ms));
            drop(world);
            sim.set_agent(*host, None);
        }
        _ => {}
    }
}

/// The state directory of the agent is gone, and with it the settings that were written for etcd.
fn forget(world: &mut World, host: usize) {
    let h = &mut world.hosts[host];
    h.elector = None;
    h.assignment = None;
    h.gate = None;
    h.directives = etcd_agent::model::Directives::default();
    h.etcd_run = etcd_agent::model::EtcdRun::default();
    h.fetched.clear();
    h.cleared = None;
    h.in_force = None;
    h.written = None;
    h.reinstalled += 1;
}

/// The data directory goes or is replaced; etcd does not survive that.
fn lose(world: &mut World, host: usize) {
    if let Some(dir) = world.hosts[host].dir.clone() {
        world.note_loss(&dir);
    }
    world.kill_etcd(host);
}

fn host_fault(sim: &Sim, fault: &Fault) {
    let mut world = sim.world();
    match fault {
        Fault::InspectFails(host) => world.hosts[*host].inspect_fails = true,
        Fault::Foreign(host) => world.hosts[*host].dir = Some(Dir::empty(ClusterId(0xf0), MemberId(0xf0))),
        Fault::StopsFail(host, times) => world.hosts[*host].stops_fail = *times,
        Fault::KillEtcd(host) => world.kill_etcd(*host),
        Fault::Wipe(host) => {
            lose(&mut world, *host);
            world.hosts[*host].dir = None;
            world.hosts[*host].broken = false;
        }
        Fault::Corrupt(host) if world.hosts[*host].dir.is_some() => {
            lose(&mut world, *host);
            world.hosts[*host].broken = true;
        }
        Fault::Copy(host) => {
            let copy = world.hosts[*host].dir.clone();
            world.hosts[*host].copy = copy;
        }
        Fault::SetBack(host) => {
            let h = &world.hosts[*host];
            if let (Some(copy), Some(dir)) = (h.copy.clone(), &h.dir)
                && (copy.cluster, copy.member) == (dir.cluster, dir.member)
                && !h.broken
            {
                // Nobody can tell an older disk from the newest: one voter that has forgotten is one too many.
                world.note_set_back(&copy);
                world.kill_etcd(*host);
                world.hosts[*host].dir = Some(copy);
            }
        }
        Fault::Stop(host) => world.stop_by_person(*host),
        Fault::Start(host) => world.start_by_person(*host),
        Fault::Mask(host) => {
            world.stop_unit(*host, false);
            world.hosts[*host].unit = Phase::Masked;
        }
        _ => {}
    }
}

fn submit(sim: &Sim, host: usize, request: OperatorRequest) {
    if let Some(agent) = sim.agent(host) {
        // A person who is refused reads why and goes away.
        let _ = agent.submit(request);
    }
}

fn direct(sim: &Sim, host: usize, change: DirectiveChange) {
    let order = DirectiveOrder {
        change,
        dry_run: false,
        force: false,
    };
    if let Some(agent) = sim.agent(host) {
        let _ = Agent::direct(&agent, &order);
    }
}

fn restore(sim: &Sim, host: usize) {
    let newest = sim.world().store.as_ref().and_then(Store::newest);
    let Some(backup) = newest else { return };
    sim.world().asked.insert(backup.clone());
    let request = OperatorRequest::Restore {
        backup,
        without: std::collections::BTreeSet::new(),
        replace: None,
        above: None,
    };
    submit(sim, host, request);
}

/// An operator who says that a host is gone for good tells the truth: should it come back, then as a new machine.
fn without(sim: &Sim, host: usize, gone: usize) {
    let mut world = sim.world();
    let back = world.now + 20_000;
    lose(&mut world, gone);
    forget(&mut world, gone);
    let h = &mut world.hosts[gone];
    h.dir = None;
    h.broken = false;
    h.staged = None;
    h.power_off(Some(back));
    let name = h.name.clone();
    drop(world);
    sim.set_agent(gone, None);
    let request = OperatorRequest::Bootstrap {
        without: [name].into(),
        empty: false,
    };
    submit(sim, host, request);
}
