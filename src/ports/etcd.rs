//! etcd, as seen from this node.

use std::collections::BTreeSet;
use std::sync::Arc;

use async_trait::async_trait;

use crate::model::{
    AlarmKind, EtcdStatus, EtcdVersion, Fingerprint, KvHash, MemberId, MemberList, NodeName, Past, Revision,
    TlsFiles, V2Key,
};

use super::{ByteStream, PortError, PortResult, WatchStream};

/// The local etcd, and through it the cluster.
#[async_trait]
pub trait Etcd: Send + Sync {
    /// From now on the local member serves clients with one of these files, or in plain HTTP for `None`, the
    /// first one being the likeliest. By default it is always asked in the same way.
    fn serves_with(&self, _ways: &[Option<TlsFiles>]) {}
    /// The local member's status.
    async fn status(&self) -> PortResult<EtcdStatus>;
    /// The member list; read through quorum if `linearizable`.
    async fn members(&self, linearizable: bool) -> PortResult<MemberList>;
    /// Adds a learner and returns its ID.
    async fn add_learner(&self, peer_urls: &[String]) -> PortResult<MemberId>;
    /// Removes a member.
    async fn remove_member(&self, id: MemberId) -> PortResult<()>;
    /// Gives a member other peer URLs.
    async fn update_member(&self, id: MemberId, peer_urls: &[String]) -> PortResult<()>;
    /// Whether the etcd at this client URL (any node's, e.g. `https://n3:2379`) answers at all. `Ok` for any
    /// answer, including a refusal; retryable if nothing came back within a short deadline; permanent if it
    /// could not be asked (no certificates, no URL, a name that does not resolve, no route, no file
    /// descriptor). A permanent error is no evidence about that etcd.
    async fn probe(&self, client_url: &str) -> PortResult<()>;
    /// The etcd of another node, for reading; `None` if it cannot be asked from this node.
    fn of(&self, _node: &NodeName) -> Option<Arc<dyn Etcd>> {
        None
    }
    /// Promotes a learner; retryable while it is behind.
    async fn promote(&self, id: MemberId) -> PortResult<()>;
    /// Makes another voter the raft leader. Only the leader's own endpoint can do it; answers once it has
    /// happened.
    async fn move_leader(&self, to: MemberId) -> PortResult<()>;
    /// Asks etcd whether the cluster can be downgraded to this minor now, and changes nothing. By default there is no
    /// objection: [`Self::downgrade`] decides.
    ///
    /// # Errors
    /// Permanent with etcd's objection; otherwise it was not asked.
    async fn validate_downgrade(&self, _to: EtcdVersion) -> PortResult<()> {
        Ok(())
    }
    /// Asks etcd to convert its data to the format of this minor, so that the cluster can be downgraded to it;
    /// `None` ends that (3.6 and newer). By default it cannot.
    async fn downgrade(&self, _to: Option<EtcdVersion>) -> PortResult<()> {
        Err(PortError::Permanent("this etcd cannot be downgraded".to_owned()))
    }
    /// The raised alarms, each with the member that raised it; read through quorum. By default there are
    /// none.
    async fn alarms(&self) -> PortResult<Vec<(MemberId, AlarmKind)>> {
        Ok(Vec::new())
    }
    /// Raises an alarm for this member ID, which need not be a member's. An alarm that is raised already is no
    /// error. By default it cannot.
    async fn raise(&self, _member: MemberId, _alarm: AlarmKind) -> PortResult<()> {
        Err(PortError::Permanent("this etcd raises no alarms".to_owned()))
    }
    /// Disarms an alarm of a member. An alarm that is not raised is no error.
    async fn disarm(&self, _member: MemberId, _alarm: AlarmKind) -> PortResult<()> {
        Ok(())
    }
    /// True if this member refuses changes of keys with its error for CORRUPT. It is asked to delete
    /// `absent`, a key that must not exist, so nothing changes if it does not refuse. The request goes
    /// through raft, and the answer is that of this member, with all entries before it applied. By default it
    /// is not known.
    async fn refuses_changes(&self, _absent: &str) -> PortResult<bool> {
        Err(PortError::Permanent("this etcd deletes no keys".to_owned()))
    }
    /// Defragments the member's database. The member serves no request meanwhile. By default it cannot.
    async fn defragment(&self) -> PortResult<()> {
        Err(PortError::Permanent(
            "this etcd cannot be defragmented".to_owned(),
        ))
    }
    /// Reads from this member's database alone. The answer comes after a defragmentation has ended. By default
    /// it comes at once.
    async fn read(&self) -> PortResult<()> {
        Ok(())
    }
    /// Compacts the history of all keys before this revision, and waits until the pages are free. A revision
    /// that is compacted already is no error. By default it cannot.
    async fn compact(&self, _at: Revision) -> PortResult<()> {
        Err(PortError::Permanent("this etcd cannot be compacted".to_owned()))
    }
    /// Streams a snapshot: the bbolt file and its 32-byte SHA-256 trailer.
    async fn snapshot(&self) -> PortResult<ByteStream>;
    /// Watches all keys from this revision on, without end. The stream ends after
    /// [`crate::model::Watched::Compacted`]. An implementation that does not support a watch returns that as
    /// an error.
    async fn watch(&self, _from: Revision) -> PortResult<WatchStream> {
        Err(PortError::Permanent("this etcd cannot be watched".to_owned()))
    }
    /// The changes of this revision, as this member knows them after a read through quorum. The answer
    /// includes everything that was acknowledged before the call, even if the member lagged. An
    /// implementation that does not support it returns that as an error.
    async fn past(&self, _at: Revision) -> PortResult<Past> {
        Err(PortError::Permanent(
            "this etcd reports no past changes".to_owned(),
        ))
    }
    /// The granted TTL of a lease, in seconds; `None` if the lease no longer exists.
    async fn lease_ttl(&self, _id: i64) -> PortResult<Option<i64>> {
        Err(PortError::Permanent("this etcd reports no leases".to_owned()))
    }
    /// The revision of the authentication store: users, roles, and whether authentication is on. It grows
    /// with each such change. A watch does not report these changes.
    async fn auth_revision(&self) -> PortResult<u64> {
        Err(PortError::Permanent("this etcd reports no users".to_owned()))
    }
    /// True if authentication is on. By default it is not known.
    async fn auth_enabled(&self) -> PortResult<bool> {
        Err(PortError::Permanent("this etcd reports no users".to_owned()))
    }
    /// Counts the keys at this revision and, if `hash` is set, hashes them (`HashKV`, which reads the whole
    /// database). A value that etcd does not report (the revision was compacted, authentication is on) is
    /// left out. An error only if nothing could be determined. An implementation that does not support it
    /// returns that as an error.
    async fn fingerprint(&self, _revision: Revision, _hash: bool) -> PortResult<Fingerprint> {
        Err(PortError::Permanent("this etcd cannot count keys".to_owned()))
    }
    /// The hash of the data at this revision (`HashKV`, which reads the whole database).
    ///
    /// # Errors
    /// Why etcd does not report it.
    async fn hash_data(&self, revision: Revision) -> PortResult<KvHash>;
    /// The keys of the v2 API with everything that was acknowledged before the call, those below the `hidden` names
    /// included; `None` if this member does not serve that API, which is the default.
    async fn v2_keys(&self, _hidden: &BTreeSet<String>) -> PortResult<Option<Vec<V2Key>>> {
        Ok(None)
    }
    /// The value of a key, and whether it has a lease; read through quorum. By default it cannot be read.
    async fn value(&self, _key: &str) -> PortResult<Option<(Vec<u8>, bool)>> {
        Err(PortError::Permanent("this etcd reads no keys".to_owned()))
    }
    /// Puts a key that does not exist, with a lease of its own if it has a TTL. Does nothing if it exists. By default
    /// it cannot.
    async fn create(&self, _key: &V2Key) -> PortResult<()> {
        Err(PortError::Permanent("this etcd puts no keys".to_owned()))
    }
}
