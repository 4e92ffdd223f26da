//! Injects faults into the world.

use std::sync::Arc;

use etcd_agent::model::{ClusterId, DirectiveChange, Epoch, MemberId, NodeName};
use etcd_agent::ports::AgentHandle;

use crate::fault::Fault;
use crate::liar;
use crate::moves;
use crate::orders::{What, give, keep_backup};
use crate::ports::set_skew;
use crate::sim::Sim;
use crate::world::raft::Dir;
use crate::world::{AgentState, Host, Phase, Plane, Store, VERSIONS, World};

/// A host that loses power for a moment is off for this long, in milliseconds.
const BOOTS_MS: u64 = 1000;

/// Injects a fault or an order.
pub fn inject(sim: &Arc<Sim>, fault: &Fault) {
    if matches!(fault, Fault::Widen(host) if !sim.world().hosts[*host].narrow) {
        return;
    }
    sim.world().tell(|_| format!("-- {fault:?}"));
    let kind = format!("{fault:?}");
    sim.world()
        .saw("fault", kind.split('(').next().unwrap_or_default());
    match fault {
        Fault::Restore(host) => restore(sim, *host),
        Fault::Without(host, gone) => without(sim, *host, *gone),
        Fault::Backup(host) => {
            let committed = sim.world().committed();
            give(sim, *host, What::Backup(committed));
        }
        Fault::KeepBackup(host) => keep_backup(sim, *host),
        Fault::SetSize(host, size) => give(sim, *host, What::Size(*size)),
        Fault::MoveLeader(host, to) => {
            let to = to.map(|to| name(sim, to));
            give(sim, *host, What::MoveLeader(to));
        }
        Fault::RebootLock(_) | Fault::Reboot(..) | Fault::ReleaseLock(_) | Fault::ReleaseLockOf(..) => {
            reboot(sim, fault);
        }
        Fault::Pause(_)
        | Fault::Resume(_)
        | Fault::RestartAll(_)
        | Fault::RestartOne(..)
        | Fault::DefragAll(_)
        | Fault::CancelDefrag(_)
        | Fault::CancelRestart(_)
        | Fault::Upgrade(..)
        | Fault::Downgrade(..)
        | Fault::CancelUpgrade(_)
        | Fault::FollowPackage(_)
        | Fault::Out(..)
        | Fault::In(..) => direct(sim, fault),
        Fault::Blackout(_) | Fault::AgentOff(..) | Fault::StoreRefuses(_) | Fault::Breaks(..) => {
            longer(sim, fault);
        }
        Fault::Move(host, number) => {
            if let Some(to) = VERSIONS.get(*number).copied() {
                moves::start(sim, *host, to);
            }
        }
        Fault::CancelMove(host) => moves::cancel(sim, *host),
        Fault::Lies(host) => {
            let mut world = sim.world();
            world.liar = Some(*host);
            world.lied = Some(*host);
        }
        Fault::ForgesCancel(host) => {
            let mut world = sim.world();
            world.forger = Some(*host);
            world.lied = Some(*host);
        }
        Fault::ForgesRecord(ahead) => forge_record(&mut sim.world(), *ahead),
        Fault::InstallEtcd(number) => {
            if let Some(version) = VERSIONS.get(*number) {
                sim.world().install_etcd(*version);
            }
        }
        Fault::Fragments(host) => sim.world().fragment(*host),
        Fault::Differs(host) => sim.world().make_differ(*host),
        Fault::FillsUp => sim.world().fill_up(),
        Fault::RestartByOthers(host) => sim.world().restart_by_others(*host),
        Fault::BreakVersion(number) => sim.world().broken_version = VERSIONS.get(*number).copied(),
        Fault::BadFiles(host) => sim.world().install_bad_files(*host),
        Fault::NewAuthorities(host) => sim.world().hosts[*host].tls.authorities += 1,
        Fault::Clock(host, ms) => set_skew(sim, *host, *ms),
        Fault::Mend => {
            network(sim, fault);
            sim.world().forger = None;
            sim.world().remove_forged();
            let hosts = sim.world().hosts.len();
            for host in 0..hosts {
                configure(sim, host, |h| h.differs = false);
                sim.world().hosts[host].tls.mend();
            }
        }
        Fault::Widen(host) => configure(sim, *host, |h| h.narrow = false),
        Fault::Cut(..) | Fault::Isolate(_) | Fault::Noise(..) => network(sim, fault),
        Fault::Store(_) | Fault::EmptyStore | Fault::DeleteBackups | Fault::StoreShrinks(_) => {
            store(&mut sim.world(), fault);
        }
        Fault::AgentDies(..)
        | Fault::AgentStops(..)
        | Fault::Reinstall(_)
        | Fault::Anew(_)
        | Fault::LateMount(..)
        | Fault::StoreDiffers(_)
        | Fault::PowerOff(..) => {
            process(sim, fault);
        }
        _ => host_fault(sim, fault),
    }
}

/// Somebody forges the record of an epoch in the store.
fn forge_record(world: &mut World, ahead: u64) {
    let Some(newest) = world.newest().map(|chosen| chosen.genesis.clone()) else {
        return;
    };
    let epoch = Epoch(newest.epoch.0.saturating_add(ahead));
    let genesis = liar::record(&mut world.rng, &newest, epoch);
    world.forge_record(&genesis);
}

/// Hosts that reboot under the reboot lock.
fn reboot(sim: &Arc<Sim>, fault: &Fault) {
    match fault {
        Fault::RebootLock(host) => give(sim, *host, What::RebootLock),
        Fault::ReleaseLock(host) => {
            if let Some(agent) = sim.agent(*host) {
                // The agent may not be able to store it; then the host tries again later.
                let _ = agent.release_reboot_lock(None);
            }
        }
        Fault::ReleaseLockOf(host, holder) => {
            let change = DirectiveChange::ReleaseRebootLock {
                node: name(sim, *holder),
                version: 0,
            };
            give(sim, *host, What::Change(change));
        }
        Fault::Reboot(host, ms) if sim.world().may_reboot(*host) => {
            sim.world().check_reboot(*host);
            process(sim, &Fault::PowerOff(*host, *ms));
        }
        _ => {}
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
    match fault {
        Fault::Store(weather) => store.weather = *weather,
        Fault::DeleteBackups => store.objects.retain(|key, _| key.contains("/control/")),
        Fault::StoreShrinks(size) => {
            store.write_size(*size);
            world.unordered = Some(*size);
        }
        _ => {
            store.objects.clear();
            store.emptied = true;
        }
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
            let at = (now + ms).max(world.hosts[*host].agent_off_until);
            world.hosts[*host].kill_agent(AgentState::Until(at));
            drop(world);
            sim.set_agent(*host, None);
        }
        Fault::Reinstall(host) | Fault::Anew(host) if world.hosts[*host].up => {
            forget(&mut world, *host);
            world.hosts[*host].asks_at_once = matches!(fault, Fault::Anew(_));
            let at = (now + 500).max(world.hosts[*host].agent_off_until);
            world.hosts[*host].kill_agent(AgentState::Until(at));
            drop(world);
            sim.set_agent(*host, None);
        }
        Fault::PowerOff(host, ms) if world.hosts[*host].up => {
            world.hosts[*host].power_off(Some(now + ms));
            drop(world);
            sim.set_agent(*host, None);
        }
        Fault::StoreDiffers(host) if world.store.is_some() => {
            world.others.entry(*host).or_default();
            drop(world);
            configure(sim, *host, |h| h.differs = true);
        }
        Fault::LateMount(host, ms) if world.hosts[*host].up => {
            world.hosts[*host].power_off(Some(now + BOOTS_MS));
            world.unmount(*host, now + ms);
            drop(world);
            sim.set_agent(*host, None);
        }
        _ => {}
    }
}

/// People change the agent's configuration. The agent is restarted if that is a change.
fn configure(sim: &Sim, host: usize, change: impl FnOnce(&mut Host)) {
    let mut world = sim.world();
    let at = world.now + 300;
    let h = &mut world.hosts[host];
    let before = (h.differs, h.narrow);
    change(h);
    if before == (h.differs, h.narrow) {
        return;
    }
    if h.has_agent() {
        h.kill_agent(AgentState::Until(at.max(h.agent_off_until)));
        drop(world);
        sim.set_agent(host, None);
    }
}

/// The state directory of the agent is lost, and with it the settings that were written for etcd.
fn forget(world: &mut World, host: usize) {
    // No agent knows that a device is missing: the empty directory counts as lost data.
    if let Some(late) = world.hosts[host].late.clone() {
        world.note_loss(&late.dir);
    }
    let h = &mut world.hosts[host];
    h.held_by = None;
    h.look_refused = false;
    h.begun = None;
    h.elector = None;
    h.traces.clear();
    h.learned.clear();
    h.assignment = None;
    h.gate = None;
    h.directives = etcd_agent::model::Directives::default();
    h.etcd_run = etcd_agent::model::EtcdRun::default();
    h.reboot_locks = etcd_agent::model::RebootLocks::default();
    h.fetched.clear();
    h.spec = etcd_agent::model::SpecRecord::default();
    // `h.cleared` stays: it is not on the disk, and the host does not boot.
    h.in_force = None;
    h.written = None;
    h.reinstalled += 1;
}

/// The data directory is lost or replaced; etcd does not survive that.
fn lose(world: &mut World, host: usize) {
    if let Some(dir) = world.hosts[host].dir.clone() {
        world.note_loss(&dir);
    }
    world.kill_etcd(host);
}

fn host_fault(sim: &Sim, fault: &Fault) {
    let mut world = sim.world();
    let of_disk = match fault {
        Fault::Foreign(host) | Fault::Wipe(host) | Fault::Corrupt(host) | Fault::SetBack(host) => Some(host),
        _ => None,
    };
    // Data that is not mounted is not affected.
    if of_disk.is_some_and(|host| world.hosts[*host].late.is_some()) {
        return;
    }
    match fault {
        Fault::InspectFails(host) => world.hosts[*host].inspect_fails = true,
        Fault::Foreign(host) => {
            lose(&mut world, *host);
            world.hosts[*host].dir = Some(Dir::empty(ClusterId(0xf0), MemberId(0xf0)));
            world.hosts[*host].broken = false;
        }
        Fault::StopsFail(host, times) => world.hosts[*host].stops_fail = *times,
        Fault::KillEtcd(host) => world.kill_etcd(*host),
        Fault::NewAddress(host) => {
            let dir = world.hosts[*host].dir.as_ref();
            let member = dir.map(|dir| dir.member);
            world.moved.extend(member);
        }
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
                // An older disk cannot be distinguished from the newest: a single voter that has forgotten is
                // already too many.
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

fn name(sim: &Sim, host: usize) -> NodeName {
    sim.world().hosts[host].name.clone()
}

/// An order for the whole cluster.
fn direct(sim: &Arc<Sim>, fault: &Fault) {
    let (host, change) = match fault {
        Fault::Pause(host) => (host, DirectiveChange::Pause),
        Fault::Resume(host) => (host, DirectiveChange::Resume),
        Fault::CancelRestart(host) => (host, DirectiveChange::CancelRestart),
        Fault::CancelDefrag(host) => (host, DirectiveChange::CancelDefrag),
        Fault::RestartOne(host, node) => {
            let nodes = [name(sim, *node)].into();
            (host, DirectiveChange::Restart { nodes })
        }
        Fault::Upgrade(host, number) => {
            let Some(to) = VERSIONS.get(*number).copied() else {
                return;
            };
            let pause_after = None;
            (host, DirectiveChange::Upgrade { to, pause_after })
        }
        Fault::Downgrade(host, number) => {
            let Some(to) = VERSIONS.get(*number).copied() else {
                return;
            };
            (host, DirectiveChange::Downgrade { to })
        }
        Fault::CancelUpgrade(host) => (host, DirectiveChange::CancelUpgrade),
        Fault::FollowPackage(host) => (host, DirectiveChange::FollowPackage),
        Fault::RestartAll(host) => {
            let nodes = sim.world().hosts.iter().map(|h| h.name.clone()).collect();
            (host, DirectiveChange::Restart { nodes })
        }
        Fault::DefragAll(host) => {
            let nodes = sim.world().hosts.iter().map(|h| h.name.clone()).collect();
            (host, DirectiveChange::Defrag { nodes })
        }
        Fault::Out(host, node) => (
            host,
            DirectiveChange::Remove {
                node: name(sim, *node),
            },
        ),
        Fault::In(host, node) => (
            host,
            DirectiveChange::Add {
                node: name(sim, *node),
            },
        ),
        _ => return,
    };
    give(sim, *host, What::Change(change));
}

/// Faults that last for minutes, or until people repair them.
fn longer(sim: &Sim, fault: &Fault) {
    let restores = sim.orders().restores();
    let mut world = sim.world();
    if restores && matches!(fault, Fault::Blackout(_)) {
        world.saw("event", "a blackout in a restore");
    }
    let now = world.now;
    match fault {
        Fault::Breaks(host, broken) => world.hosts[*host].broken_calls.push(*broken),
        Fault::StoreRefuses(host) => {
            if let Some(store) = &mut world.store {
                store.refuses.insert(*host);
            }
        }
        Fault::AgentOff(host, ms) => {
            let h = &mut world.hosts[*host];
            h.agent_off_until = now + ms;
            if h.up {
                h.kill_agent(AgentState::Until(now + ms));
            }
            drop(world);
            sim.set_agent(*host, None);
        }
        Fault::Blackout(ms) => {
            for host in 0..world.hosts.len() {
                let back = now + world.rng.range(100, (*ms).max(101));
                world.hosts[host].power_off(Some(back));
            }
            let hosts = world.hosts.len();
            drop(world);
            for host in 0..hosts {
                sim.set_agent(host, None);
            }
        }
        _ => {}
    }
}

fn restore(sim: &Arc<Sim>, host: usize) {
    let (newest, above) = {
        let world = sim.world();
        let newest = world.store_of(host).and_then(Store::newest);
        // An agent that is cut off uses its memory. An agent with a new memory asks the others first.
        let known = world.hosts[host]
            .elector
            .as_ref()
            .filter(|memory| memory.eligible);
        let above = known.map(|memory| memory.newest_epoch);
        let newest_of_all = || world.newest().map(|chosen| chosen.genesis.epoch);
        (newest, above.or_else(newest_of_all))
    };
    let Some(backup) = newest else { return };
    sim.world().asked.insert(backup.clone());
    give(sim, host, What::Restore(backup, above.unwrap_or_default()));
}

/// An operator who says that a host is permanently lost tells the truth: if it comes back, it is a new
/// machine.
fn without(sim: &Arc<Sim>, host: usize, gone: usize) {
    let mut world = sim.world();
    let back = world.now + 20_000;
    lose(&mut world, gone);
    forget(&mut world, gone);
    let h = &mut world.hosts[gone];
    h.dir = None;
    h.late = None;
    h.broken = false;
    h.staged = None;
    h.power_off(Some(back));
    let name = h.name.clone();
    drop(world);
    sim.set_agent(gone, None);
    give(sim, host, What::Bootstrap(name));
}
