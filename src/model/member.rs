//! etcd's members and the lists of them.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

use super::{ClusterId, MemberId, NodeName, RaftTerm};

/// One etcd member.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Member {
    /// Member ID.
    pub id: MemberId,
    /// `ETCD_NAME`; empty until the member has started for the first time.
    pub name: String,
    /// Peer URLs.
    pub peer_urls: Vec<String>,
    /// Client URLs; empty until started.
    pub client_urls: Vec<String>,
    /// True for a learner.
    pub is_learner: bool,
}

/// A member list and how it was read.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct MemberList {
    /// The cluster of the members.
    pub cluster_id: ClusterId,
    /// The raft term in the response header.
    pub term: RaftTerm,
    /// True if the read went through quorum.
    pub linearizable: bool,
    /// The members, by ID.
    pub members: Vec<Member>,
}

impl MemberList {
    /// The voters.
    pub fn voters(&self) -> impl Iterator<Item = &Member> {
        self.members.iter().filter(|m| !m.is_learner)
    }
    /// The member with this ID.
    pub fn get(&self, id: MemberId) -> Option<&Member> {
        self.members.iter().find(|m| m.id == id)
    }
    /// True if it names a member of this node. A learner has no name before its first start.
    pub fn has_node(&self, node: &NodeName) -> bool {
        self.members.iter().any(|m| m.name == node.as_str())
    }
    /// The voters' IDs.
    pub fn voter_ids(&self) -> BTreeSet<MemberId> {
        self.voters().map(|m| m.id).collect()
    }
    /// Quorum of the voters: `n/2 + 1`.
    pub fn quorum(&self) -> usize {
        self.voters().count() / 2 + 1
    }
}

/// True if all of these URLs are `https`, and there is one.
pub fn are_tls(urls: &[String]) -> bool {
    !urls.is_empty() && urls.iter().all(|url| url.starts_with("https://"))
}

/// True if two URLs differ at most in their scheme. `localhost` and `127.0.0.1` are one host.
pub fn same_endpoint(one: &str, other: &str) -> bool {
    let endpoint = |url: &str| {
        let (_, rest) = url.split_once("://")?;
        Some(match rest.strip_prefix("localhost:") {
            Some(port) => format!("127.0.0.1:{port}"),
            None => rest.to_owned(),
        })
    };
    endpoint(one).is_some_and(|rest| endpoint(other) == Some(rest))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls_are_compared_without_their_scheme() {
        assert!(same_endpoint("http://n1:2380", "https://n1:2380"));
        assert!(!same_endpoint("http://n1:2380", "http://n1:2381"));
        assert!(!same_endpoint("n1:2380", "n1:2380"), "no URLs");
        assert!(same_endpoint("http://localhost:2380", "https://127.0.0.1:2380"));
        assert!(!same_endpoint("http://localhost:2380", "http://127.0.0.1:2381"));
        assert!(are_tls(&["https://n1:2380".to_owned()]));
        assert!(!are_tls(&[]));
    }
}
