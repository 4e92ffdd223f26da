//! What all lies have in common.

use std::collections::BTreeMap;

use etcd_agent::model::{BackupId, Epoch, Genesis, Incarnation, NodeName, Origin, cluster_id_of};

use crate::rng::Rng;
use crate::world::World;

/// The percentage of its answers that are lies.
const LIES: u64 = 60;
/// The percentage of these that also contain one of the rarer lies.
pub(super) const SELDOM: u64 = 15;

/// The random source for a lie, if this host lies now.
pub(super) fn chance(world: &mut World, host: usize) -> Option<&mut Rng> {
    let lies = world.liar == Some(host) && world.rng.chance(LIES);
    lies.then_some(&mut world.rng)
}

/// A later epoch: the next, or one far ahead.
pub(super) fn later(rng: &mut Rng, epoch: Epoch) -> Epoch {
    match rng.below(4) {
        0 | 1 => epoch.next(),
        2 => Epoch(epoch.0.saturating_add(rng.below(1500))),
        _ => Epoch(u64::MAX),
    }
}

/// A genesis that nobody has chosen.
pub(super) fn forged(rng: &mut Rng, of: &Genesis) -> Genesis {
    let epoch = if rng.chance(80) {
        later(rng, of.epoch)
    } else {
        of.epoch
    };
    record(rng, of, epoch)
}

/// The same for this epoch, as the record of an epoch in the store.
pub fn record(rng: &mut Rng, of: &Genesis, epoch: Epoch) -> Genesis {
    let mut genesis = of.clone();
    if epoch != of.epoch {
        genesis.former = genesis.lineage();
        genesis.epoch = epoch;
    }
    genesis.token = format!("{}-{}-forged{}", genesis.cluster, genesis.epoch, rng.below(3));
    if rng.chance(50)
        && let Ok(id) = BackupId::new("2020-01-01T00:00:00Z-000001")
    {
        genesis.origin = Origin::Backup(id);
    }
    genesis.cluster_id = cluster_id_of(&genesis.members, &genesis.token);
    genesis
}

/// The current incarnations of all memories. A genesis that names them makes a founder of each member that it
/// lists.
pub(super) fn memories(world: &World) -> BTreeMap<NodeName, Incarnation> {
    let hosts = world.hosts.iter();
    let known = hosts.filter_map(|h| Some((h.name.clone(), h.elector.as_ref()?.incarnation.clone())));
    known.collect()
}
