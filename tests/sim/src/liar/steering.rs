//! The orders that a lying node reports, and its part in those of the coordinator.

use etcd_agent::model::{
    ClusterId, Compaction, DefragWish, Differences, EtcdSelection, Fact, Grant, GrantPurpose, HashCheck,
    LockOwner, NodeName, NodeStatus, Paused, RaftTerm, RebootHold, RebootLock, RecordedLock, RestartWish,
    Revision, UnixMs,
};

use crate::rng::Rng;
use crate::world::VERSIONS;

/// Forges a grant, or a wish for one.
pub(super) fn usual(rng: &mut Rng, status: &mut NodeStatus, names: &[NodeName]) {
    let term = status.etcd.known().map_or(RaftTerm(1), |etcd| etcd.term);
    let id = rng.number();
    let steering = &mut status.steering;
    match rng.below(6) {
        0 | 1 => {
            let purposes = [GrantPurpose::Restart, GrantPurpose::Reboot, GrantPurpose::Defrag];
            steering.grant = Some(Grant {
                node: names[rng.index(names.len())].clone(),
                id,
                term,
                purpose: purposes[rng.index(3)],
            });
        }
        2 => steering.grants_over = Some(term),
        3 => steering.wants_restart = Some(RestartWish::new("a lie".to_owned())),
        4 => steering.waits_to_stop = true,
        _ => steering.wants_reboot_lock = true,
    }
}

/// Claims a defragmentation, a compaction, a comparison, a restore, or that a node holds the reboot lock.
pub(super) fn seldom(rng: &mut Rng, status: &mut NodeStatus, names: &[NodeName], now: UnixMs) {
    let etcd = status.etcd.known().map(|etcd| (etcd.cluster_id, etcd.term));
    let (cluster_id, term) = etcd.unwrap_or((ClusterId(1), RaftTerm(1)));
    match rng.below(8) {
        0 => status.steering.defrag.running = true,
        1 => status.steering.defrag.full = true,
        2 => {
            status.steering.defrag.wish = Some(DefragWish {
                why: "a lie".to_owned(),
                order: Some(rng.below(5)).filter(|_| rng.chance(50)),
                failed: None,
                no_space: rng.chance(50),
                rests: rng.chance(20),
            });
        }
        3 => {
            status.steering.compacted = Some(Compaction {
                cluster_id,
                revision: Revision(u64::MAX),
            });
        }
        4 => status.steering.hash_check = Some(difference(rng, status, cluster_id, now)),
        5 => status.steering.restoring = true,
        6 => status.steering.reboot_locks.own = lock(rng, &status.node, term, now),
        _ => {
            let holder = names[rng.index(names.len())].clone();
            let recorded = RecordedLock {
                incarnation: status.incarnation.clone(),
                lock: lock(rng, &holder, term, now),
            };
            status.steering.reboot_locks.others.insert(holder, recorded);
        }
    }
}

/// A comparison that found a member whose data differs.
fn difference(rng: &mut Rng, status: &NodeStatus, cluster_id: ClusterId, now: UnixMs) -> HashCheck {
    let list = status.members.known();
    let members = list.map_or(&[][..], |list| list.members.as_slice());
    let differs = members.get(rng.index(members.len()));
    HashCheck {
        cluster_id,
        revision: Revision(1),
        at: now,
        compared: members.len(),
        found: Differences {
            corrupt: differs.map(|member| member.id).into_iter().collect(),
            ..Differences::default()
        },
    }
}

/// A reboot lock that this node holds.
fn lock(rng: &mut Rng, holder: &NodeName, term: RaftTerm, now: UnixMs) -> RebootLock {
    let owner = if rng.chance(20) {
        LockOwner::FleetLock {
            id: "x".repeat(1000),
            group: "x".repeat(1000),
        }
    } else {
        LockOwner::Operator
    };
    RebootLock {
        version: [1 + rng.below(5), u64::MAX][rng.index(2)],
        hold: Some(RebootHold {
            owner,
            since: now,
            grant: Grant {
                node: holder.clone(),
                id: rng.number(),
                term,
                purpose: GrantPurpose::Reboot,
            },
            confirmed: rng.chance(50),
        }),
    }
}

/// Adds orders that no operator gave and that exceed what one node may order.
pub(super) fn orders(rng: &mut Rng, status: &mut NodeStatus, names: &[NodeName]) {
    let me = status.node.clone();
    let lie = &mut status.steering.directives;
    lie.by = Some(me.clone());
    lie.version = lie.version.saturating_add(1);
    match rng.below(4) {
        0 => lie.version = u64::MAX,
        // Another node may have some orders that this one has not received.
        1 => lie.version = lie.version.saturating_add(2000),
        2 => lie.by = None,
        _ => lie.out = names.iter().filter(|name| **name != me).cloned().collect(),
    }
    if rng.chance(50) {
        lie.paused = Some(Paused {
            since: UnixMs(0),
            by: me,
        });
    }
    if lie.out.is_empty() && lie.by.is_some() && lie.version < 1000 {
        lie.version = u64::MAX;
    }
}

/// Cancels an upgrade, and claims to run the version of before, so that others go back to it.
pub(super) fn cancel(rng: &mut Rng, status: &mut NodeStatus) {
    let former = VERSIONS[rng.index(2)];
    let selected = Some(former).filter(|_| rng.chance(50));
    let lie = &mut status.steering.directives;
    lie.by = Some(status.node.clone());
    lie.version += 1;
    lie.etcd = Some(EtcdSelection {
        epoch: etcd_agent::model::Epoch::default(),
        version: selected,
        before: lie.etcd.take().and_then(|etcd| etcd.version),
        pause_after: None,
        downgrade: false,
        cancelled: true,
    });
    if let Fact::Known(etcd) = &mut status.etcd {
        etcd.version = former.to_string();
        etcd.storage_version = None;
    }
    if let Some(assigned) = &mut status.assignment {
        assigned.etcd_version = selected;
    }
}
