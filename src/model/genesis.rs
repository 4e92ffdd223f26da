//! The record that opens an epoch, and etcd's own computation of the IDs that follow from it.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use serde::{Deserialize, Serialize};
use sha1::{Digest, Sha1};

use super::{
    BackupId, ClusterId, ClusterName, Epoch, EtcdVersion, Incarnation, Member, MemberId, MemberList,
    NodeName, RaftTerm, UnixMs, electorate_digest,
};

/// The source of an epoch's data.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "from", content = "id")]
pub enum Origin {
    /// A new, empty cluster.
    Empty,
    /// A restored backup.
    Backup(BackupId),
    /// The existing data directory of this member.
    Member(NodeName),
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Empty => f.write_str("empty"),
            Self::Backup(id) => write!(f, "backup {id}"),
            Self::Member(node) => write!(f, "member {node}"),
        }
    }
}

/// The etcd that an epoch is opened with.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct EpochEtcd {
    /// A version below `etcd.versions_dir`. It is the selected one until operators select another in this epoch.
    pub version: EtcdVersion,
    /// True if the epoch continues the one before it (a move): the backup was taken in quarantine, nothing was
    /// written after it, and the revisions go on.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub continues: bool,
}

/// The value that a majority of the electorate chooses, once, to open an epoch (design §6).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Genesis {
    /// The epoch that it opens.
    pub epoch: Epoch,
    /// The cluster's name.
    pub cluster: ClusterName,
    /// etcd's `initial-cluster-token`: `<name>-<epoch>-<random>`, so that members of two epochs never mix. A
    /// token from `token_of` ends with a digest of the electors' names.
    pub token: String,
    /// The initial voters and their peer URLs.
    pub members: BTreeMap<NodeName, Vec<String>>,
    /// The source of the data.
    pub origin: Origin,
    /// The electors, each with the incarnation whose vote counts.
    pub electorate: BTreeMap<NodeName, Incarnation>,
    /// The cluster ID: computed from members and token, or copied from a running member.
    pub cluster_id: ClusterId,
    /// When the proposer began to propose it. It is not part of the value: a later proposer that repeats the value
    /// replaces it.
    pub created: UnixMs,
    /// The cluster IDs of the earlier epochs, oldest first, at most 64. A node whose agent has lost its
    /// memory recognizes by them that the cluster it runs, or whose data it holds, was replaced and is not a
    /// foreign one.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub former: Vec<ClusterId>,
    /// The etcd that the epoch is opened with; `None` for the one that is selected.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub etcd: Option<EpochEtcd>,
}

/// The maximum number of replaced epochs that a genesis names.
const FORMER: usize = 64;
/// The maximum number of electors, and so of initial members.
pub const MOST_NODES: usize = 64;
/// The maximum length of `initial-cluster-token`.
pub const TOKEN_BYTES: usize = 256;
/// The maximum length of all peer URLs of the initial members. An elector stores values that peers send, and its
/// memory must stay small enough to be read.
const URL_BYTES: usize = 8 * 1024;
/// The maximum number of them.
const URLS: usize = 256;

/// The IDs of `former` followed by those of `newer`, each once, the newest at the end.
fn followed(mut former: Vec<ClusterId>, newer: &[ClusterId]) -> Vec<ClusterId> {
    former.retain(|id| !newer.contains(id));
    former.extend(newer);
    former.split_off(former.len().saturating_sub(FORMER))
}

impl Genesis {
    /// True if both open the same epoch with the same cluster. The electors' incarnations are not part of the
    /// value: a proposer that has to repeat an accepted value stamps it with the incarnations it knows now.
    pub fn same_value(&self, other: &Self) -> bool {
        self.epoch == other.epoch
            && self.token == other.token
            && self.members == other.members
            && self.origin == other.origin
            && self.cluster_id == other.cluster_id
            && self.etcd == other.etcd
    }

    /// True if it continues the epoch before it with what this backup holds.
    pub fn continues_with(&self, backup: &BackupId) -> bool {
        self.origin == Origin::Backup(backup.clone()) && self.etcd.is_some_and(|etcd| etcd.continues)
    }

    /// The defect of its form, if any. A value from the network is not believed before this check.
    pub fn defect(&self) -> Option<String> {
        if self.epoch == Epoch::default() {
            return Some("epoch 0 cannot be opened".to_owned());
        }
        if self.epoch > Epoch(1) && !matches!(self.origin, Origin::Backup(_)) {
            return Some(format!(
                "epoch {} begins {}, and each epoch after the first begins with a backup",
                self.epoch, self.origin
            ));
        }
        if self.members.is_empty() || self.members.values().any(Vec::is_empty) {
            return Some("it has no initial members, or one without a peer URL".to_owned());
        }
        if self.members.len() > MOST_NODES || self.electorate.len() > MOST_NODES {
            return Some(format!(
                "it has {} initial members and {} electors, expected at most {MOST_NODES}",
                self.members.len(),
                self.electorate.len()
            ));
        }
        let url_bytes: usize = self.members.values().flatten().map(String::len).sum();
        if url_bytes > URL_BYTES || self.token.len() > TOKEN_BYTES {
            return Some(format!(
                "its peer URLs have {url_bytes} bytes and its token {}, expected at most {URL_BYTES} and {TOKEN_BYTES}",
                self.token.len()
            ));
        }
        // In JSON other characters are longer than they are.
        let plain = |url: &String| {
            let ok = |byte: u8| byte.is_ascii_graphic() && !matches!(byte, b'"' | b'\\');
            !url.is_empty() && url.bytes().all(ok)
        };
        let urls = self.members.values().flatten();
        if urls.clone().count() > URLS || !urls.clone().all(plain) {
            return Some(format!(
                "it has more than {URLS} peer URLs, or one that is no URL"
            ));
        }
        if !self
            .token
            .starts_with(&format!("{}-{}-", self.cluster, self.epoch))
        {
            return Some(format!(
                "the token {:?} is not <cluster>-<epoch>-<random>",
                self.token
            ));
        }
        if self.etcd.is_some_and(|etcd| etcd.continues) && !matches!(self.origin, Origin::Backup(_)) {
            return Some("it continues the epoch before it without a backup".to_owned());
        }
        if self.former.len() > FORMER {
            return Some(format!(
                "it names {} epochs before it, expected at most {FORMER}",
                self.former.len()
            ));
        }
        if !matches!(self.origin, Origin::Member(_))
            && self.cluster_id != cluster_id_of(&self.members, &self.token)
        {
            return Some("the cluster ID does not follow from members and token".to_owned());
        }
        self.members
            .keys()
            .find(|node| !self.electorate.contains_key(*node))
            .map(|node| format!("the initial member {node} is no elector"))
    }

    /// Why this genesis is not believed to have been chosen, wherever it comes from. Its form is wrong, or
    /// its epoch is too far ahead of `open`, the newest that is known to be open. One line; `None` if it may
    /// be believed.
    pub fn objection(&self, open: Epoch) -> Option<String> {
        if open.is_far_below(self.epoch) {
            return Some(format!("it is {}", open.too_far_ahead()));
        }
        self.defect()
    }

    /// The electors by name; `None` if they do not match the digest in the token. The electorate is not part
    /// of the value, so a lying node can change it in its copy. A proposer with another list of nodes may
    /// also have repeated the value.
    pub fn electors(&self) -> Option<impl Iterator<Item = &NodeName>> {
        let digest = electorate_digest(self.electorate.keys());
        self.token.ends_with(&digest).then(|| self.electorate.keys())
    }

    /// The electors that the configuration still names; none if the token does not confirm the electors.
    pub fn electors_among(&self, named: impl Fn(&NodeName) -> bool) -> Vec<&NodeName> {
        let electors = self.electors().into_iter().flatten();
        electors.filter(|node| named(node)).collect()
    }

    /// True if `me` was an elector of this epoch and a majority of its electors, which opening the next epoch
    /// needs, have lost their memory (`superseded`). Electors that are no longer in `names`, the nodes of the
    /// configuration, do not count.
    fn is_forgotten(
        &self,
        me: &NodeName,
        names: &BTreeSet<NodeName>,
        superseded: &BTreeSet<NodeName>,
    ) -> bool {
        let asked = self.electors_among(|node| names.contains(node));
        let lost = asked.iter().filter(|name| superseded.contains(**name)).count();
        asked.contains(&me) && lost * 2 > asked.len() && !mutant!(FormerLossesUncounted)
    }

    /// True if this epoch, or one between them, has replaced the epoch with that cluster ID.
    pub fn replaces(&self, cluster: ClusterId) -> bool {
        self.cluster_id != cluster && self.former.contains(&cluster)
    }

    /// The `former` list of a genesis that replaces this one.
    pub fn lineage(&self) -> Vec<ClusterId> {
        followed(self.former.clone(), &[self.cluster_id])
    }

    /// This genesis as known to a node that followed `replaced` before. If the proposer did not know that
    /// epoch, its genesis does not name it, so the node adds it.
    #[must_use]
    pub fn after(&self, replaced: &Self) -> Self {
        Self {
            former: followed(replaced.lineage(), &self.former),
            ..self.clone()
        }
    }

    /// The member ID that etcd gives an initial member; `None` if the node is not an initial member.
    pub fn member_id(&self, node: &NodeName) -> Option<MemberId> {
        self.members.get(node).map(|urls| member_id_of(urls, &self.token))
    }

    /// The initial members, as a member list that was not read through quorum.
    pub fn founders(&self) -> MemberList {
        let founder = |(node, urls): (&NodeName, &Vec<String>)| Member {
            id: member_id_of(urls, &self.token),
            name: node.to_string(),
            peer_urls: urls.clone(),
            client_urls: Vec::new(),
            is_learner: false,
        };
        MemberList {
            cluster_id: self.cluster_id,
            term: RaftTerm::default(),
            linearizable: false,
            members: self.members.iter().map(founder).collect(),
        }
    }
}

/// True if perhaps no elector remembers a value that was chosen. `names` are the electors, `me` is the
/// elector that asks, `superseded` are the electors that lost a memory, and `newest` opened the newest epoch.
/// A value chosen by a majority survives while fewer than a majority forget. If more forget, only the store
/// or the operator can know whether a value was chosen. The next epoch also needs a majority of the newest
/// epoch's electors, and nodes with a shorter list may have opened it with fewer other electors.
pub fn memories_lost(
    newest: Option<&Genesis>,
    me: &NodeName,
    names: &BTreeSet<NodeName>,
    superseded: &BTreeSet<NodeName>,
) -> bool {
    superseded.len() * 2 > names.len()
        || newest.is_some_and(|newest| newest.is_forgotten(me, names, superseded))
}

/// The token of a genesis for these electors. `random` distinguishes two proposals for one epoch.
pub fn token_of<'a>(
    cluster: &ClusterName,
    epoch: Epoch,
    random: u64,
    electors: impl Iterator<Item = &'a NodeName>,
) -> String {
    format!("{cluster}-{epoch}-{random:016x}{}", electorate_digest(electors))
}

/// etcd's member ID: the first eight bytes of SHA-1 over the sorted peer URLs and the token.
///
/// Source: `NewMember` in etcd's `server/etcdserver/api/membership/member.go`.
pub fn member_id_of(peer_urls: &[String], token: &str) -> MemberId {
    let mut urls: Vec<&str> = peer_urls.iter().map(String::as_str).collect();
    urls.sort_unstable();
    let mut hash = Sha1::new();
    hash.update(urls.concat().as_bytes());
    hash.update(token.as_bytes());
    MemberId(first_eight(&hash.finalize()))
}

/// etcd's cluster ID: the first eight bytes of SHA-1 over the sorted member IDs, big endian.
///
/// Source: `genID` in etcd's `server/etcdserver/api/membership/cluster.go`.
pub fn cluster_id_of(members: &BTreeMap<NodeName, Vec<String>>, token: &str) -> ClusterId {
    let mut ids: Vec<u64> = members.values().map(|urls| member_id_of(urls, token).0).collect();
    ids.sort_unstable();
    let mut hash = Sha1::new();
    for id in ids {
        hash.update(id.to_be_bytes());
    }
    ClusterId(first_eight(&hash.finalize()))
}

fn first_eight(digest: &[u8]) -> u64 {
    digest
        .iter()
        .take(8)
        .fold(0, |acc, byte| (acc << 8) | u64::from(*byte))
}
