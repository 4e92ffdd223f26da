//! etcd, as this node reaches it.

use std::sync::Arc;

use async_trait::async_trait;

use crate::model::{EtcdStatus, Fingerprint, MemberId, MemberList, NodeName, Past, Revision};

use super::{ByteStream, PortError, PortResult, WatchStream};

/// The local etcd, and through it the cluster.
#[async_trait]
pub trait Etcd: Send + Sync {
    /// The local member's status.
    async fn status(&self) -> PortResult<EtcdStatus>;
    /// The member list; through quorum when `linearizable`.
    async fn members(&self, linearizable: bool) -> PortResult<MemberList>;
    /// Adds a learner and gives its ID.
    async fn add_learner(&self, peer_urls: &[String]) -> PortResult<MemberId>;
    /// Removes a member.
    async fn remove_member(&self, id: MemberId) -> PortResult<()>;
    /// Gives a member other peer URLs.
    async fn update_member(&self, id: MemberId, peer_urls: &[String]) -> PortResult<()>;
    /// Does the etcd at this client URL (any node's, e.g. `https://n3:2379`) answer at all? `Ok` for any answer, a
    /// refusal too; retryable when nothing came back within a short deadline; permanent when it could not be asked
    /// (no certificates, no URL, a name that does not resolve, no route, no file descriptor), which says nothing of that
    /// etcd.
    async fn probe(&self, client_url: &str) -> PortResult<()>;
    /// The etcd of another node, for reading; `None` where that cannot be asked from here.
    fn of(&self, _node: &NodeName) -> Option<Arc<dyn Etcd>> {
        None
    }
    /// Promotes a learner; retryable while it is behind.
    async fn promote(&self, id: MemberId) -> PortResult<()>;
    /// Makes another voter the raft leader. Only the leader's own endpoint can do it; answers once it has happened.
    async fn move_leader(&self, to: MemberId) -> PortResult<()>;
    /// Streams a snapshot: the bbolt file and its 32-byte SHA-256 trailer.
    async fn snapshot(&self) -> PortResult<ByteStream>;
    /// Watches all keys from this revision on, for ever. The stream ends after [`crate::model::Watched::Compacted`]. An etcd that
    /// cannot be watched answers that.
    async fn watch(&self, _from: Revision) -> PortResult<WatchStream> {
        Err(PortError::Permanent("this etcd cannot be watched".to_owned()))
    }
    /// What this revision changed, as this member knows it after a read through quorum: what was acknowledged before the
    /// call is part of the answer, however far the member lagged. An etcd that cannot be asked answers that.
    async fn past(&self, _at: Revision) -> PortResult<Past> {
        Err(PortError::Permanent(
            "this etcd tells nothing of its past".to_owned(),
        ))
    }
    /// What a lease was granted, in seconds; `None` when there is no such lease any more.
    async fn lease_ttl(&self, _id: i64) -> PortResult<Option<i64>> {
        Err(PortError::Permanent(
            "this etcd tells nothing of leases".to_owned(),
        ))
    }
    /// The revision of users, roles and whether authentication is on: it grows with each change of them, which no
    /// watch tells.
    async fn auth_revision(&self) -> PortResult<u64> {
        Err(PortError::Permanent(
            "this etcd tells nothing of users".to_owned(),
        ))
    }
    /// Counts the keys at this revision and, where `hash` says so, hashes them (`HashKV`: reads the whole
    /// database). What etcd does not tell (a revision that was compacted, authentication) is left out; an error
    /// only where nothing could be found out. An etcd that cannot be asked answers that.
    async fn fingerprint(&self, _revision: Revision, _hash: bool) -> PortResult<Fingerprint> {
        Err(PortError::Permanent("this etcd counts no keys".to_owned()))
    }
}
