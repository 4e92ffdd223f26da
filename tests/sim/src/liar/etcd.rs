//! What the etcd of a lying node answers, and what its agent reports of that etcd.

use etcd_agent::model::{
    AlarmKind, ClusterId, EtcdStatus, Fingerprint, Member, MemberId, MemberList, QUARANTINE, RaftTerm,
    Revision,
};

use super::lie::{SELDOM, chance};
use crate::rng::Rng;
use crate::world::{VERSIONS, World};

/// Removes a member from a list, and may invite its node again.
pub(super) fn list(rng: &mut Rng, list: &mut MemberList) {
    list.linearizable = true;
    list.term = RaftTerm(u64::MAX);
    if list.members.is_empty() {
        return;
    }
    let gone = list.members.remove(rng.index(list.members.len()));
    match rng.below(3) {
        0 => list.members.push(Member {
            id: MemberId(rng.number()),
            name: String::new(),
            client_urls: Vec::new(),
            is_learner: true,
            ..gone
        }),
        1 => list.members.truncate(1),
        _ => {}
    }
}

/// Falsifies the member list that the etcd of a lying host returns.
pub fn members(world: &mut World, host: usize, lie: &mut MemberList) {
    if let Some(rng) = chance(world, host) {
        list(rng, lie);
    }
}

/// Falsifies the status that the etcd of a lying host returns. Other nodes ask it before they compare the members'
/// data, and before they take a backup of it. They ask only their own etcd for alarms.
pub fn etcd_status(world: &mut World, host: usize, etcd: &mut EtcdStatus) {
    let Some(rng) = chance(world, host) else { return };
    if rng.chance(SELDOM) {
        seldom(rng, etcd);
    } else {
        usual(rng, etcd);
    }
}

/// Falsifies the hash of its data that the etcd of a lying host returns.
pub fn fingerprint(world: &mut World, host: usize, found: &mut Fingerprint) {
    let Some(rng) = chance(world, host) else { return };
    match (rng.below(4), &mut found.hash) {
        (0, hash) => *hash = None,
        (1, _) => found.keys = Some(rng.number()),
        (2, Some(hash)) => hash.compact_revision = Revision(rng.number()),
        (_, Some(hash)) => hash.hash = u32::try_from(rng.below(1 << 32)).unwrap_or(0),
        (_, None) => found.revision = Revision(rng.number()),
    }
}

/// Falsifies what it says of its member and of raft.
pub(super) fn usual(rng: &mut Rng, etcd: &mut EtcdStatus) {
    match rng.below(6) {
        0 => {
            etcd.leader = Some(etcd.member_id);
            etcd.term = RaftTerm(etcd.term.0.saturating_add(rng.below(3)));
        }
        1 => etcd.leader = None,
        2 => etcd.term = RaftTerm(u64::MAX),
        3 => etcd.member_id = MemberId(rng.number()),
        4 => etcd.is_learner = !etcd.is_learner,
        _ => {
            etcd.index = u64::MAX;
            etcd.applied = rng.below(2) * u64::MAX;
        }
    }
}

/// Falsifies its cluster, its versions, its database or its alarms.
pub(super) fn seldom(rng: &mut Rng, etcd: &mut EtcdStatus) {
    let version = VERSIONS[rng.index(VERSIONS.len())];
    match rng.below(8) {
        0 => etcd.cluster_id = ClusterId(rng.number()),
        1 => etcd.version = version.to_string(),
        2 => etcd.storage_version = Some(version).filter(|_| rng.chance(70)),
        3 => etcd.downgrade_to = Some(version),
        4 => {
            etcd.db_size_bytes = rng.below(2) * u64::MAX;
            etcd.db_in_use_bytes = Some(rng.below(2) * u64::MAX).filter(|_| rng.chance(70));
        }
        5 => etcd.revision = Revision(rng.below(2) * etcd.revision.0.saturating_add(rng.below(1000))),
        6 => etcd.errors.clear(),
        _ => {
            let (member, alarm) = match rng.below(3) {
                0 => (etcd.member_id, AlarmKind::NoSpace),
                1 => (etcd.member_id, AlarmKind::Corrupt),
                _ => QUARANTINE,
            };
            etcd.errors.push(format!("memberID:{} alarm:{alarm}", member.0));
        }
    }
}
