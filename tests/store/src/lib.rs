//! Real servers for the tests of the store and of backups.
#![allow(missing_docs, clippy::unwrap_used, clippy::panic, clippy::missing_panics_doc)]

mod age;
mod follower;
mod kinds;
mod requests;
mod servers;
mod verify;

use std::path::PathBuf;

pub use age::AgeKeys;
use async_trait::async_trait;
use bytes::Bytes;
use etcd_agent::backup::Call;
use etcd_agent::model::{ClusterId, EtcdStatus, KvHash, MemberId, MemberList, RaftTerm, Revision, UnixMs};
use etcd_agent::ports::{ByteStream, Etcd, PortError, PortResult};
pub use follower::{Follower, LONG, change, cluster, full, hash, meta, restored, revision, state};
use futures::StreamExt;
pub use kinds::{AnyS3, Kind};
pub use requests::{read, use_it};
pub use servers::{RealEtcd, S3, Server, cutting_proxy, start};
pub use verify::{verify, verify_with};

/// A time later than that of any backup.
pub const EVER: UnixMs = UnixMs(u64::MAX);

/// A call at this time.
pub fn call(now: UnixMs) -> Call {
    Call { now, random: 7 }
}

/// The agent's binary of this build.
pub fn agent() -> PathBuf {
    let mut path = std::env::current_exe().unwrap();
    path.pop();
    path.pop();
    path.join("etcd-agent")
}

/// Bytes that do not compress.
pub fn noise(size: usize) -> Bytes {
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    let mut bytes = Vec::with_capacity(size + 8);
    while bytes.len() < size {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        bytes.extend_from_slice(&state.to_le_bytes());
    }
    bytes.truncate(size);
    bytes.into()
}

/// The part of an etcd client that a backup needs. `cut` ends the snapshot's stream early.
pub struct Client {
    /// The connection.
    pub client: etcd_client::Client,
    /// Ends the stream after this many chunks.
    pub cut: Option<usize>,
}

impl Client {
    /// A client of this etcd.
    pub async fn of(etcd: &RealEtcd) -> Self {
        let client = etcd_client::Client::connect([&etcd.url], None).await.unwrap();
        Self { client, cut: None }
    }
}

#[allow(clippy::needless_pass_by_value)] // for `map_err`
fn other(error: etcd_client::Error) -> PortError {
    PortError::Retryable(error.to_string())
}

#[async_trait]
impl Etcd for Client {
    async fn status(&self) -> PortResult<EtcdStatus> {
        let status = self.client.maintenance_client().status().await.map_err(other)?;
        let header = status.header().unwrap();
        Ok(EtcdStatus {
            version: status.version().to_owned(),
            storage_version: None,
            downgrade_to: None,
            cluster_id: ClusterId(header.cluster_id()),
            member_id: MemberId(header.member_id()),
            leader: None,
            is_learner: false,
            term: RaftTerm(status.raft_term()),
            index: status.raft_index(),
            applied: status.raft_applied_index(),
            db_size_bytes: 0,
            db_in_use_bytes: None,
            revision: Revision(u64::try_from(header.revision()).unwrap()),
            errors: vec![],
        })
    }
    async fn members(&self, _: bool) -> PortResult<MemberList> {
        Err(PortError::Permanent("not used here".to_owned()))
    }
    async fn add_learner(&self, _: &[String]) -> PortResult<MemberId> {
        Err(PortError::Permanent("not used here".to_owned()))
    }
    async fn remove_member(&self, _: MemberId) -> PortResult<()> {
        Err(PortError::Permanent("not used here".to_owned()))
    }
    async fn update_member(&self, _: MemberId, _: &[String]) -> PortResult<()> {
        Err(PortError::Permanent("not used here".to_owned()))
    }
    async fn probe(&self, _: &str) -> PortResult<()> {
        Err(PortError::Permanent("not used here".to_owned()))
    }
    async fn promote(&self, _: MemberId) -> PortResult<()> {
        Err(PortError::Permanent("not used here".to_owned()))
    }
    async fn move_leader(&self, _: MemberId) -> PortResult<()> {
        Err(PortError::Permanent("not used here".to_owned()))
    }
    async fn snapshot(&self) -> PortResult<ByteStream> {
        let stream = self.client.maintenance_client().snapshot().await.map_err(other)?;
        let chunks = futures::stream::try_unfold(stream, |mut stream| async move {
            let chunk = stream.message().await.map_err(other)?;
            Ok(chunk.map(|chunk| (Bytes::copy_from_slice(chunk.blob()), stream)))
        });
        Ok(match self.cut {
            Some(chunks_kept) => Box::pin(chunks.take(chunks_kept)),
            None => Box::pin(chunks),
        })
    }
    async fn hash_data(&self, _: Revision) -> PortResult<KvHash> {
        Err(PortError::Permanent("not used here".to_owned()))
    }
}
