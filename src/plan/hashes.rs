//! What the hashes of the members' data show.

use std::collections::{BTreeMap, BTreeSet};

use super::context::Context;
use crate::model::{ClusterId, Differences, HashCheck, MemberHash, MemberId};

/// Compares the data of `voters`. Two hashes can be compared if both databases were compacted at the same revision and
/// the same version of etcd computed them.
pub fn compare_hashes(voters: &BTreeSet<MemberId>, hashes: &BTreeMap<MemberId, MemberHash>) -> Differences {
    let quorum = voters.len() / 2 + 1;
    let mut comparable: BTreeMap<_, BTreeMap<u32, BTreeSet<MemberId>>> = BTreeMap::new();
    for (id, member) in hashes.iter().filter(|(id, _)| voters.contains(id)) {
        let same = (member.hash.compact_revision, member.version);
        let by_hash = comparable.entry(same).or_default();
        by_hash.entry(member.hash.hash).or_default().insert(*id);
    }
    let mut found = Differences::default();
    for by_hash in comparable.values().filter(|by_hash| by_hash.len() > 1) {
        let right = by_hash
            .values()
            .find(|members| members.len() >= quorum || mutant!(TrustsAnyHash));
        let others = by_hash.values().filter(|members| Some(*members) != right);
        let differ = if right.is_some() {
            &mut found.corrupt
        } else {
            &mut found.unclear
        };
        differ.extend(others.flatten());
    }
    found
}

/// This node's last comparison of the members of this cluster.
pub(super) fn own_check<'a>(cx: &Context<'a>, cluster_id: ClusterId) -> Option<&'a HashCheck> {
    let check = cx.obs.me.steering.hash_check.as_ref()?;
    (check.cluster_id == cluster_id).then_some(check)
}

/// True if this node has found that the data of this member differs from a majority's.
pub(super) fn is_corrupt(cx: &Context<'_>, cluster_id: ClusterId, id: MemberId) -> bool {
    own_check(cx, cluster_id).is_some_and(|check| check.found.corrupt.contains(&id))
}

#[cfg(test)]
#[allow(clippy::expect_used)]
mod tests {
    use super::*;
    use crate::model::{EtcdVersion, KvHash, Revision};

    fn differences(voters: u64, hashes: &[(u64, u32, u64, &str)]) -> (Vec<u64>, Vec<u64>) {
        let voters = (1..=voters).map(MemberId).collect();
        let hashes = hashes.iter().map(|(id, hash, compacted, version)| {
            let hash = KvHash {
                hash: *hash,
                compact_revision: Revision(*compacted),
            };
            let version = EtcdVersion::reported(version).expect("a version");
            (MemberId(*id), MemberHash { hash, version })
        });
        let found = compare_hashes(&voters, &hashes.collect());
        let ids = |set: &BTreeSet<MemberId>| set.iter().map(|id| id.0).collect();
        (ids(&found.corrupt), ids(&found.unclear))
    }

    #[test]
    fn a_majority_of_the_voters_decides_whose_data_is_corrupt() {
        let (a, b, c) = (7, 8, 9);
        let same = "3.6.16";
        for (what, voters, hashes, corrupt, unclear) in [
            (
                "all the same",
                3,
                vec![(1, a, 0, same), (2, a, 0, same), (3, a, 0, same)],
                vec![],
                vec![],
            ),
            (
                "one of three",
                3,
                vec![(1, a, 0, same), (2, b, 0, same), (3, a, 0, same)],
                vec![2],
                vec![],
            ),
            (
                "three of three",
                3,
                vec![(1, a, 0, same), (2, b, 0, same), (3, c, 0, same)],
                vec![],
                vec![1, 2, 3],
            ),
            (
                "one of two",
                2,
                vec![(1, a, 0, same), (2, b, 0, same)],
                vec![],
                vec![1, 2],
            ),
            (
                "one of two that answered",
                3,
                vec![(1, a, 0, same), (2, b, 0, same)],
                vec![],
                vec![1, 2],
            ),
            (
                "two of five",
                5,
                vec![
                    (1, a, 0, same),
                    (2, b, 0, same),
                    (3, a, 0, same),
                    (4, a, 0, same),
                    (5, c, 0, same),
                ],
                vec![2, 5],
                vec![],
            ),
            (
                "compacted elsewhere",
                3,
                vec![(1, a, 0, same), (2, b, 4, same), (3, a, 0, same)],
                vec![],
                vec![],
            ),
            (
                "another etcd",
                3,
                vec![(1, a, 0, same), (2, b, 0, "3.5.35"), (3, a, 0, same)],
                vec![],
                vec![],
            ),
            (
                "a learner",
                2,
                vec![(1, a, 0, same), (2, a, 0, same), (3, b, 0, same)],
                vec![],
                vec![],
            ),
        ] {
            assert_eq!(differences(voters, &hashes), (corrupt, unclear), "{what}");
        }
    }
}
