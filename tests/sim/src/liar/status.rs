//! The status that a lying node reports, and what it pushes.

use std::collections::{BTreeMap, BTreeSet};

use etcd_agent::backup::BackupName;
use etcd_agent::model::{
    ActiveState, BackupSummary, ClusterId, ClusterName, DataState, EtcdBinaries, Fact, Generation, Genesis,
    Incarnation, MemberId, NodeName, NodeStatus, Over, Revision, TransportView, UnixMs,
};

use super::lie::{SELDOM, chance, forged, later, memories};
use super::{etcd, steering};
use crate::rng::Rng;
use crate::world::{BEGIN_MS, VERSIONS, World};

/// The status that a host reports, falsified if it lies.
pub fn status(world: &mut World, host: usize, mut status: NodeStatus) -> NodeStatus {
    let names: Vec<NodeName> = world.hosts.iter().map(|h| h.name.clone()).collect();
    let memories = memories(world);
    let now = UnixMs(BEGIN_MS + world.now);
    if world.forger == Some(host) {
        steering::cancel(&mut world.rng, &mut status);
    }
    let Some(rng) = chance(world, host) else {
        return status;
    };
    for _ in 0..=rng.below(2) {
        match rng.below(14) {
            0 => status.newest_epoch = later(rng, status.newest_epoch),
            1 | 2 => {
                if let Some(genesis) = &mut status.genesis {
                    *genesis = forged(rng, genesis);
                    status.newest_epoch = genesis.epoch;
                }
            }
            3 => {
                let real = status.members.known().cloned();
                if let Some(mut lie) = real.or_else(|| status.genesis.as_ref().map(Genesis::founders)) {
                    etcd::list(rng, &mut lie);
                    status.members = Fact::Known(lie);
                }
            }
            4 => status.eligible = !status.eligible,
            5 => {
                if let Some(genesis) = &mut status.genesis {
                    genesis.electorate.clone_from(&memories);
                }
            }
            6 => steering::orders(rng, &mut status, &names),
            7 | 8 => of_itself(rng, &mut status),
            9 => {
                if let Fact::Known(reported) = &mut status.etcd {
                    etcd::usual(rng, reported);
                }
            }
            10 => others(&mut status, &names),
            11 => steering::usual(rng, &mut status, &names),
            12 => identity(rng, &mut status, &memories),
            _ => troubles(rng, &mut status),
        }
    }
    if rng.chance(SELDOM) {
        seldom(rng, &mut status, &names, now);
    }
    status
}

/// Falsifies the state of its unit, its data and its assignment.
fn of_itself(rng: &mut Rng, status: &mut NodeStatus) {
    match rng.below(6) {
        0 => {
            if let Fact::Known(unit) = &mut status.unit {
                unit.active = if unit.active == ActiveState::Active {
                    ActiveState::Inactive
                } else {
                    ActiveState::Active
                };
                unit.held = rng.chance(50);
            }
        }
        1 => {
            status.data = Fact::Known(DataState::Present {
                cluster_id: ClusterId(rng.number()),
                member_id: MemberId(rng.number()),
            });
        }
        2 => status.data = Fact::Known(DataState::Missing),
        3 => status.assignment = None,
        4 => {
            if let Some(assigned) = &mut status.assignment {
                assigned.epoch = later(rng, assigned.epoch);
                assigned.started_once = !assigned.started_once;
            }
        }
        _ => {
            if let Some(assigned) = &mut status.assignment {
                assigned.member_id = MemberId(rng.number());
            }
        }
    }
}

/// Claims that it reaches no other node.
fn others(status: &mut NodeStatus, names: &[NodeName]) {
    let others = names.iter().filter(|name| **name != status.node);
    status.silent_agents = others.cloned().collect();
    status.silent_etcds.clone_from(&status.silent_agents);
}

/// Claims to be another node's agent, to be configured in another way, or to have voted.
fn identity(rng: &mut Rng, status: &mut NodeStatus, memories: &BTreeMap<NodeName, Incarnation>) {
    match rng.below(5) {
        0 => {
            let others: Vec<_> = memories.values().collect();
            if !others.is_empty() {
                status.incarnation.clone_from(others[rng.index(others.len())]);
            }
        }
        1 => "forged".clone_into(&mut status.spec_digest),
        2 => "forged".clone_into(&mut status.electorate_digest),
        3 => status.store_digest = Some("forged".to_owned()),
        _ => status.voted = later(rng, status.voted),
    }
}

/// Reports trouble that it does not have, or another time.
fn troubles(rng: &mut Rng, status: &mut NodeStatus) {
    let trouble = Some("a lie".to_owned());
    match rng.below(7) {
        0 => status.tls_trouble = trouble,
        1 => status.archive_trouble = trouble,
        2 => status.v2_trouble = trouble,
        3 => status.etcd_too_old = trouble,
        4 => status.store_failures = u32::MAX,
        5 => status.peer_url = Some("http://forged:2380".to_owned()),
        _ => status.now = UnixMs(rng.number() % (1 << 45)),
    }
}

/// One of the rarer lies, most of which matter to few decisions.
fn seldom(rng: &mut Rng, status: &mut NodeStatus, names: &[NodeName], now: UnixMs) {
    match rng.below(9) {
        0 => who(rng, status, names),
        1 => versions(rng, status),
        2 => backups(rng, status, now),
        3 => assigned(rng, status),
        4 => transport(rng, status),
        5 => remarks(rng, status, now),
        6 => unknown(rng, status),
        7 => {
            if let Fact::Known(reported) = &mut status.etcd {
                etcd::seldom(rng, reported);
            }
        }
        _ => steering::seldom(rng, status, names, now),
    }
}

/// Answers as another node or for another cluster, which no agent accepts, or as after another boot.
fn who(rng: &mut Rng, status: &mut NodeStatus, names: &[NodeName]) {
    match rng.below(4) {
        0 => status.node.clone_from(&names[rng.index(names.len())]),
        1 => {
            if let Ok(other) = ClusterName::new("other") {
                status.cluster = other;
            }
        }
        2 => status.boot_id = format!("boot-{}", rng.number()),
        _ => "0.0.1".clone_into(&mut status.agent_version),
    }
}

/// Falsifies which etcds it can run, and why it does not follow an upgrade.
fn versions(rng: &mut Rng, status: &mut NodeStatus) {
    let trouble = Some("a lie".to_owned());
    match rng.below(5) {
        0 => status.v2_entries = [None, Some(false), Some(true)][rng.index(3)],
        1 => status.version_trouble = trouble,
        2 => status.binary_trouble = trouble,
        3 => status.etcd_binaries = None,
        _ => {
            status.etcd_binaries = Some(EtcdBinaries {
                base: Some(VERSIONS[rng.index(VERSIONS.len())]).filter(|_| rng.chance(70)),
                versions: BTreeSet::new(),
                pinned: rng.chance(50),
            });
        }
    }
}

/// Reports backups that failed, or one that does not exist. The time in its name may be later than its date.
fn backups(rng: &mut Rng, status: &mut NodeStatus, now: UnixMs) {
    match rng.below(4) {
        0 => status.backup_failures = u32::MAX,
        1 => status.last_backup = None,
        _ => {
            let at = [UnixMs(0), now, UnixMs(now.0 + 3_600_000)][rng.index(3)];
            let number = rng.number();
            let later = if number.is_multiple_of(3) { 7_200_000 } else { 0 };
            let id = BackupName::new(UnixMs(at.0 + later), number).id().ok();
            status.last_backup = id.map(|id| BackupSummary {
                id,
                at,
                revision: Revision(rng.number()),
                size_bytes: rng.number(),
            });
        }
    }
}

/// Falsifies the rest of its assignment.
fn assigned(rng: &mut Rng, status: &mut NodeStatus) {
    let Some(assigned) = &mut status.assignment else {
        return;
    };
    match rng.below(3) {
        0 => assigned.cluster_id = ClusterId(rng.number()),
        1 => assigned.generation = Generation(rng.number()),
        _ => assigned.etcd_version = Some(VERSIONS[rng.index(VERSIONS.len())]),
    }
}

/// Claims that its etcd speaks in another way than those of the others.
fn transport(rng: &mut Rng, status: &mut NodeStatus) {
    let mut over = || Over {
        client_tls: rng.chance(50),
        dials_tls: rng.chance(50),
        listens_tls: rng.chance(50),
    };
    let view = TransportView {
        configured: over(),
        assigned: Some(over()),
        runs: Some(over()),
        next: Some(over()),
    };
    status.transport = Some(view).filter(|_| rng.chance(80));
}

/// Falsifies what is only shown to people.
fn remarks(rng: &mut Rng, status: &mut NodeStatus, now: UnixMs) {
    match rng.below(3) {
        0 => "a lie".clone_into(&mut status.text),
        1 => status.insecure = !status.insecure,
        _ => status.certificate_not_after = Some(now).filter(|_| rng.chance(50)),
    }
}

/// Claims not to know the state of its unit, its data, its etcd or the members, or that its data is damaged.
fn unknown(rng: &mut Rng, status: &mut NodeStatus) {
    let why = "a lie".to_owned();
    match rng.below(6) {
        0 => status.unit = Fact::Unreachable(why),
        1 => status.data = Fact::Unreachable(why),
        2 => status.etcd = Fact::Unreachable(why),
        3 => status.members = Fact::Unreachable(why),
        _ => {
            let whose = status.data.known().and_then(DataState::whose);
            let member = whose.filter(|_| rng.chance(50));
            status.data = Fact::Known(DataState::Unusable { why, member });
        }
    }
}

/// The genesis that a lying host pushes, as if it had been chosen.
pub fn pushed(world: &mut World, host: usize, status: &NodeStatus) -> Option<Genesis> {
    let rng = chance(world, host)?;
    status.genesis.as_ref().map(|genesis| forged(rng, genesis))
}
