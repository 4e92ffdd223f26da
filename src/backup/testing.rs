//! Shared by the tests of this module: an etcd that streams a given snapshot, and a directory as the store.

use std::path::Path;

use async_trait::async_trait;
use bytes::Bytes;
use futures::stream;

use crate::adapters::dir::DirStore;
use crate::model::{
    BackupId, ClusterId, ClusterName, Epoch, EtcdStatus, Genesis, KeyChange, KvHash, MemberId, MemberList,
    NodeName, Origin, Past, RaftTerm, Revision, RevisionChanges, StoreView, UnixMs,
};
use crate::ports::{
    ByteStream, Created, Etcd, ObjectMeta, ObjectStore, PortError, PortResult, Replaced, Tag, Upload,
};

use crate::backup::Call;
use crate::backup::full::pipeline::BackupMeta;

/// A time that no backup is dated after.
pub(super) const EVER: UnixMs = UnixMs(u64::MAX);

/// An etcd whose snapshot is these bytes, in chunks, followed by an error if `error` is true.
pub(super) struct FakeEtcd {
    pub(super) bytes: Vec<u8>,
    pub(super) error: bool,
}

#[async_trait]
impl Etcd for FakeEtcd {
    async fn status(&self) -> PortResult<EtcdStatus> {
        Ok(EtcdStatus {
            version: "3.6.16".to_owned(),
            storage_version: None,
            downgrade_to: None,
            cluster_id: ClusterId(1),
            member_id: MemberId(2),
            leader: Some(MemberId(2)),
            is_learner: false,
            term: RaftTerm(3),
            index: 4,
            applied: 4,
            db_size_bytes: self.bytes.len() as u64,
            db_in_use_bytes: None,
            revision: Revision(77),
            errors: vec![],
        })
    }
    async fn members(&self, _: bool) -> PortResult<MemberList> {
        Err(unused())
    }
    async fn past(&self, at: Revision) -> PortResult<Past> {
        let newest = self.status().await?.revision;
        Ok(if at > newest {
            Past::Ahead(newest)
        } else {
            Past::Changes(revision(at.0, 0))
        })
    }
    async fn add_learner(&self, _: &[String]) -> PortResult<MemberId> {
        Err(unused())
    }
    async fn remove_member(&self, _: MemberId) -> PortResult<()> {
        Err(unused())
    }
    async fn update_member(&self, _: MemberId, _: &[String]) -> PortResult<()> {
        Err(unused())
    }
    async fn probe(&self, _: &str) -> PortResult<()> {
        Err(unused())
    }
    async fn promote(&self, _: MemberId) -> PortResult<()> {
        Err(unused())
    }
    async fn move_leader(&self, _: MemberId) -> PortResult<()> {
        Err(unused())
    }
    async fn snapshot(&self) -> PortResult<ByteStream> {
        let chunks = self
            .bytes
            .chunks(32 * 1024)
            .map(|c| Ok(Bytes::copy_from_slice(c)));
        let mut all: Vec<_> = chunks.collect();
        if self.error {
            all.push(Err(PortError::Retryable("the member went away".to_owned())));
        }
        Ok(Box::pin(stream::iter(all)))
    }
    async fn hash_data(&self, _: Revision) -> PortResult<KvHash> {
        Err(unused())
    }
}

/// What the etcds of these tests write as a revision.
pub(super) fn revision(number: u64, lease: i64) -> RevisionChanges {
    RevisionChanges {
        revision: Revision(number),
        changes: vec![KeyChange {
            deleted: false,
            stored: number.to_be_bytes().to_vec(),
            lease,
        }],
    }
}

fn unused() -> PortError {
    PortError::Permanent("not used here".to_owned())
}

pub(super) fn etcd(bytes: Vec<u8>) -> FakeEtcd {
    FakeEtcd { bytes, error: false }
}

pub(super) fn cluster() -> ClusterName {
    ClusterName::new("prod").unwrap()
}

/// The planner's view of a store.
pub(super) async fn store_view(
    store: &dyn ObjectStore,
    cluster: &ClusterName,
    now: impl Fn() -> UnixMs,
) -> PortResult<StoreView> {
    Ok(crate::backup::look_at_store(store, cluster, now, &[]).await?.0)
}

pub(super) fn store(dir: &Path) -> DirStore {
    DirStore::new(dir)
}

/// A call at this time.
pub(super) fn call(now: UnixMs) -> Call {
    Call { now, random: 7 }
}

/// The meta of a backup begun `at` seconds after the epoch.
pub(super) fn meta(at: u64) -> BackupMeta {
    BackupMeta {
        cluster: cluster(),
        epoch: Epoch(1),
        cluster_id: None,
        node: NodeName::new("n1").unwrap(),
        started_at: UnixMs(at * 1000),
        seq: 42,
        ordered: false,
    }
}

pub(super) fn id(text: &str) -> BackupId {
    BackupId::new(text).unwrap()
}

pub(super) fn genesis(epoch: u64, token: &str) -> Genesis {
    Genesis {
        epoch: Epoch(epoch),
        cluster: cluster(),
        token: token.to_owned(),
        members: [(NodeName::new("n1").unwrap(), vec!["http://n1:2380".to_owned()])].into(),
        origin: Origin::Empty,
        electorate: [].into(),
        cluster_id: ClusterId(1),
        created: UnixMs(5),
        former: Vec::new(),
        etcd: None,
    }
}

/// A store that refuses to delete keys that contain `locked`, as object lock does.
pub(super) struct Locking {
    pub(super) inner: DirStore,
    pub(super) locked: &'static str,
}

#[async_trait]
impl ObjectStore for Locking {
    fn describe(&self) -> String {
        self.inner.describe()
    }
    async fn conditional_writes(&self) -> PortResult<bool> {
        Ok(true)
    }
    async fn get_small(&self, key: &str) -> PortResult<Option<Bytes>> {
        self.inner.get_small(key).await
    }
    async fn get(&self, key: &str) -> PortResult<Option<ByteStream>> {
        self.inner.get(key).await
    }
    async fn put(&self, key: &str, body: Bytes) -> PortResult<()> {
        self.inner.put(key, body).await
    }
    async fn create(&self, key: &str, body: Bytes) -> PortResult<Created> {
        self.inner.create(key, body).await
    }
    async fn get_tagged(&self, key: &str) -> PortResult<Option<(Bytes, Tag)>> {
        self.inner.get_tagged(key).await
    }
    async fn replace(&self, key: &str, body: Bytes, read: &Tag) -> PortResult<Replaced> {
        self.inner.replace(key, body, read).await
    }
    async fn upload(&self, key: &str) -> PortResult<Box<dyn Upload>> {
        self.inner.upload(key).await
    }
    async fn list(&self, prefix: &str) -> PortResult<Vec<ObjectMeta>> {
        self.inner.list(prefix).await
    }
    async fn delete(&self, key: &str) -> PortResult<()> {
        if key.contains(self.locked) {
            return Err(PortError::Permanent("access denied: object is locked".to_owned()));
        }
        self.inner.delete(key).await
    }
}

/// A store that answers reads of keys that contain `key` with this error, and counts the small reads that it
/// answers.
pub(super) struct Refusing {
    pub(super) inner: DirStore,
    pub(super) key: &'static str,
    pub(super) error: PortError,
    pub(super) small: std::sync::atomic::AtomicUsize,
}

impl Refusing {
    pub(super) fn new(inner: DirStore, key: &'static str, error: PortError) -> Self {
        let small = std::sync::atomic::AtomicUsize::new(0);
        Self {
            inner,
            key,
            error,
            small,
        }
    }

    fn refuses(&self, key: &str) -> PortResult<()> {
        if key.contains(self.key) {
            return Err(self.error.clone());
        }
        Ok(())
    }
}

#[async_trait]
impl ObjectStore for Refusing {
    fn describe(&self) -> String {
        self.inner.describe()
    }
    async fn conditional_writes(&self) -> PortResult<bool> {
        Ok(true)
    }
    async fn get_small(&self, key: &str) -> PortResult<Option<Bytes>> {
        self.refuses(key)?;
        self.small.fetch_add(1, std::sync::atomic::Ordering::SeqCst);
        self.inner.get_small(key).await
    }
    async fn get(&self, key: &str) -> PortResult<Option<ByteStream>> {
        self.refuses(key)?;
        self.inner.get(key).await
    }
    async fn put(&self, key: &str, body: Bytes) -> PortResult<()> {
        self.inner.put(key, body).await
    }
    async fn create(&self, key: &str, body: Bytes) -> PortResult<Created> {
        self.inner.create(key, body).await
    }
    async fn get_tagged(&self, key: &str) -> PortResult<Option<(Bytes, Tag)>> {
        self.inner.get_tagged(key).await
    }
    async fn replace(&self, key: &str, body: Bytes, read: &Tag) -> PortResult<Replaced> {
        self.inner.replace(key, body, read).await
    }
    async fn upload(&self, key: &str) -> PortResult<Box<dyn Upload>> {
        self.inner.upload(key).await
    }
    async fn list(&self, prefix: &str) -> PortResult<Vec<ObjectMeta>> {
        self.inner.list(prefix).await
    }
    async fn delete(&self, key: &str) -> PortResult<()> {
        self.inner.delete(key).await
    }
}

/// A store in which this backup is removed right before its marks are created.
pub(super) struct RemovedOnCreate {
    pub(super) inner: DirStore,
    pub(super) id: BackupId,
}

#[async_trait]
impl ObjectStore for RemovedOnCreate {
    fn describe(&self) -> String {
        self.inner.describe()
    }
    async fn conditional_writes(&self) -> PortResult<bool> {
        Ok(true)
    }
    async fn get_small(&self, key: &str) -> PortResult<Option<Bytes>> {
        self.inner.get_small(key).await
    }
    async fn get(&self, key: &str) -> PortResult<Option<ByteStream>> {
        self.inner.get(key).await
    }
    async fn put(&self, key: &str, body: Bytes) -> PortResult<()> {
        self.inner.put(key, body).await
    }
    async fn create(&self, key: &str, body: Bytes) -> PortResult<Created> {
        let removed = crate::backup::remove_named(&self.inner, &cluster(), &self.id, &call(EVER)).await;
        assert_eq!(removed, Ok(crate::backup::Removed::Done));
        self.inner.create(key, body).await
    }
    async fn upload(&self, key: &str) -> PortResult<Box<dyn Upload>> {
        self.inner.upload(key).await
    }
    async fn list(&self, prefix: &str) -> PortResult<Vec<ObjectMeta>> {
        self.inner.list(prefix).await
    }
    async fn delete(&self, key: &str) -> PortResult<()> {
        self.inner.delete(key).await
    }
}

/// Bytes that do not compress, the same each time.
pub(super) fn noise(size: usize) -> Vec<u8> {
    let mut state = 1_u32;
    (0..size)
        .map(|_| {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            state.to_be_bytes()[0]
        })
        .collect()
}

/// A store with very many objects. It makes each body from the key, and counts what was read and listed.
pub(super) struct Vast {
    /// The objects, in order of their keys.
    pub(super) keys: std::collections::BTreeSet<String>,
    /// Makes the body of a small object.
    pub(super) body: fn(&str) -> Vec<u8>,
    /// Small objects that were read.
    pub(super) small: std::sync::atomic::AtomicUsize,
    /// Objects that were listed.
    pub(super) listed: std::sync::atomic::AtomicUsize,
}

#[async_trait]
impl ObjectStore for Vast {
    fn describe(&self) -> String {
        "a vast store".to_owned()
    }
    async fn conditional_writes(&self) -> PortResult<bool> {
        Ok(true)
    }
    async fn get_small(&self, key: &str) -> PortResult<Option<Bytes>> {
        self.small.fetch_add(1, std::sync::atomic::Ordering::SeqCst);
        Ok(self.keys.contains(key).then(|| (self.body)(key).into()))
    }
    async fn get(&self, _: &str) -> PortResult<Option<ByteStream>> {
        Err(unused())
    }
    async fn put(&self, _: &str, _: Bytes) -> PortResult<()> {
        Err(unused())
    }
    async fn create(&self, _: &str, _: Bytes) -> PortResult<Created> {
        Err(unused())
    }
    async fn upload(&self, _: &str) -> PortResult<Box<dyn Upload>> {
        Err(unused())
    }
    async fn list(&self, prefix: &str) -> PortResult<Vec<ObjectMeta>> {
        let below = self.keys.range(prefix.to_owned()..);
        let found: Vec<ObjectMeta> = below
            .take_while(|key| key.starts_with(prefix))
            .map(|key| ObjectMeta {
                key: key.clone(),
                size_bytes: 1,
                modified: None,
            })
            .collect();
        self.listed
            .fetch_add(found.len(), std::sync::atomic::Ordering::SeqCst);
        Ok(found)
    }
    async fn delete(&self, _: &str) -> PortResult<()> {
        Err(unused())
    }
}
