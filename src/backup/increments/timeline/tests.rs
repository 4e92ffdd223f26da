use super::*;
use crate::adapters::dir::DirStore;
use crate::backup::store::layout::{MANIFEST, SNAPSHOT_ZSTD};
use crate::backup::store::manifest::example;
use crate::backup::testing::{FakeEtcd, cluster, etcd, meta, revision, store};
use crate::backup::trailer::snapshot;
use crate::backup::{find, list, take_full};
use crate::model::{BackupId, ClusterId, KvHash, MemberId, MemberList, RestoreTarget};
use crate::ports::ByteStream;
use async_trait::async_trait;

/// An etcd at a revision. The name of its history is part of every value that it wrote.
struct At {
    inner: FakeEtcd,
    newest: u64,
    history: &'static str,
    /// Revisions before this one are compacted.
    compacted: u64,
}

fn at(newest: u64, history: &'static str) -> At {
    At {
        inner: etcd(snapshot(2)),
        newest,
        history,
        compacted: 0,
    }
}

#[async_trait]
impl Etcd for At {
    async fn status(&self) -> PortResult<EtcdStatus> {
        let mut status = self.inner.status().await?;
        status.revision = Revision(self.newest);
        Ok(status)
    }
    async fn past(&self, at: Revision) -> PortResult<Past> {
        if at.0 > self.newest {
            return Ok(Past::Ahead(Revision(self.newest)));
        }
        if at.0 < self.compacted {
            return Ok(Past::Gone(Revision(self.newest)));
        }
        let mut changes = revision(at.0, 0);
        changes.changes[0].stored = format!("{}{at}", self.history).into_bytes();
        Ok(Past::Changes(changes))
    }
    async fn members(&self, linearizable: bool) -> PortResult<MemberList> {
        self.inner.members(linearizable).await
    }
    async fn add_learner(&self, urls: &[String]) -> PortResult<MemberId> {
        self.inner.add_learner(urls).await
    }
    async fn remove_member(&self, id: MemberId) -> PortResult<()> {
        self.inner.remove_member(id).await
    }
    async fn update_member(&self, id: MemberId, urls: &[String]) -> PortResult<()> {
        self.inner.update_member(id, urls).await
    }
    async fn probe(&self, url: &str) -> PortResult<()> {
        self.inner.probe(url).await
    }
    async fn promote(&self, id: MemberId) -> PortResult<()> {
        self.inner.promote(id).await
    }
    async fn move_leader(&self, to: MemberId) -> PortResult<()> {
        self.inner.move_leader(to).await
    }
    async fn snapshot(&self) -> PortResult<ByteStream> {
        self.inner.snapshot().await
    }
    async fn hash_data(&self, revision: Revision) -> PortResult<KvHash> {
        self.inner.hash_data(revision).await
    }
}

async fn manifest_of(store: &dyn ObjectStore, id: &BackupId) -> Manifest {
    let key = Layout::of(store, &cluster()).in_backup(id, MANIFEST);
    Manifest::parse(id, &store.get_small(&key).await.unwrap().unwrap()).unwrap()
}

#[tokio::test]
async fn c04_a_full_goes_on_with_the_timeline_only_where_etcd_has_gone_on() {
    let compacted = |mut etcd: At, at| {
        etcd.compacted = at;
        etcd
    };
    let rows = [
        ("it has gone on", at(60, "a"), Some((0, false))),
        ("nothing was written", at(50, "a"), Some((0, false))),
        ("put back", at(30, "a"), Some((1, true))),
        ("put back, and written to since", at(60, "b"), Some((1, true))),
        ("unknown", compacted(at(60, "a"), 51), Some((1, false))),
        (
            "unknown, and nothing was written",
            compacted(at(50, "a"), 51),
            Some((0, false)),
        ),
        (
            "a compaction up to there takes nothing away",
            compacted(at(60, "a"), 50),
            Some((0, false)),
        ),
    ];
    for (what, etcd, expected) in rows {
        let dir = tempfile::tempdir().unwrap();
        let store = store(dir.path());
        take_full(&at(50, "a"), &store, &meta(1000), |_| {})
            .await
            .unwrap();
        let taken = take_full(&etcd, &store, &meta(2000), |_| {}).await.unwrap();
        let manifest = manifest_of(&store, &taken.id).await;
        let went_back = manifest.breaks.as_ref().is_some_and(|breaks| breaks.went_back);
        assert_eq!(
            manifest.timeline.map(|number| (number, went_back)),
            expected,
            "{what}"
        );
        assert_eq!(manifest.breaks.is_some(), manifest.timeline != Some(0), "{what}");
        // The next full continues that timeline.
        let next = take_full(&etcd, &store, &meta(3000), |_| {}).await.unwrap();
        let next = manifest_of(&store, &next.id).await;
        assert_eq!((next.timeline, next.breaks), (manifest.timeline, None), "{what}");
    }
}

#[tokio::test]
async fn c04_an_etcd_of_another_cluster_under_the_same_epoch_begins_a_timeline() {
    let dir = tempfile::tempdir().unwrap();
    let store = store(dir.path());
    let first = take_full(&at(50, "a"), &store, &meta(1000), |_| {})
        .await
        .unwrap();
    let mut manifest = manifest_of(&store, &first.id).await;
    manifest.cluster_id = ClusterId(9);
    put(&store, &manifest).await;
    let next = take_full(&at(60, "a"), &store, &meta(2000), |_| {})
        .await
        .unwrap();
    assert_eq!(manifest_of(&store, &next.id).await.timeline, Some(1));
}

async fn put(store: &DirStore, manifest: &Manifest) {
    let layout = Layout::of(store, &cluster());
    let key = |file| layout.in_backup(&manifest.id, file);
    store
        .put(&key(SNAPSHOT_ZSTD), b"x".as_slice().into())
        .await
        .unwrap();
    store
        .put(&key(MANIFEST), manifest.to_json().unwrap().into())
        .await
        .unwrap();
}

/// Upgrades are rolling: an agent without timelines may take a full between two agents that have them.
#[tokio::test]
async fn c04_a_full_of_an_older_agent_is_of_the_timeline_before_it() {
    let dir = tempfile::tempdir().unwrap();
    let store = store(dir.path());
    let fulls = [
        (None, 0),
        (Some(0), 0),
        (None, 0),
        (Some(1), 1),
        (None, 1),
        (Some(1), 1),
    ];
    for (second, (timeline, _)) in fulls.iter().enumerate() {
        let manifest = Manifest {
            id: BackupId::new(format!("2026-03-01T04:05:0{second}Z-000001")).unwrap(),
            timeline: *timeline,
            ..example()
        };
        // As an older agent wrote it.
        let text = String::from_utf8(manifest.to_json().unwrap()).unwrap();
        let text = text.replace("  \"timeline\": null,\n", "");
        assert_eq!(text.contains("timeline"), timeline.is_some(), "{text}");
        put(&store, &manifest).await;
        let key = Layout::of(&store, &cluster()).in_backup(&manifest.id, MANIFEST);
        store.put(&key, text.into()).await.unwrap();
    }
    let listed = list(&store, &cluster()).await.unwrap().backups;
    let found: Vec<u64> = listed.iter().filter_map(|backup| backup.timeline).collect();
    let expected: Vec<u64> = fulls.iter().map(|(_, timeline)| *timeline).collect();
    assert_eq!(found, expected);
}

#[tokio::test]
async fn c04_the_latest_is_of_the_newest_timeline_and_the_older_one_is_restored_by_name() {
    let (old, new) = ("2026-03-01T04:05:06Z-000001", "2026-03-01T05:05:06Z-000002");
    let dir = tempfile::tempdir().unwrap();
    let store = store(dir.path());
    // The older history leads further.
    for (id, timeline, revision) in [(old, 0, 5000), (new, 1, 3000)] {
        let manifest = Manifest {
            id: BackupId::new(id).unwrap(),
            timeline: Some(timeline),
            revision: Revision(revision),
            revision_at_most: Some(Revision(revision)),
            ..example()
        };
        put(&store, &manifest).await;
    }
    let found = async |backup: Option<&str>, wanted| {
        let backup = backup.map(|id| BackupId::new(id).unwrap());
        let found = find(&store, &cluster(), backup.as_ref(), wanted).await;
        found.map(|summary| summary.id.as_str().to_owned())
    };
    assert_eq!(found(None, RestoreTarget::Latest).await.unwrap(), new);
    assert_eq!(
        found(None, RestoreTarget::Revision(Revision(3000)))
            .await
            .unwrap(),
        new
    );
    let error = found(None, RestoreTarget::Revision(Revision(5000)))
        .await
        .unwrap_err();
    assert!(
        error
            .to_string()
            .contains(&format!("restore {old} --revision 5000")),
        "{error}"
    );
    assert_eq!(
        found(Some(old), RestoreTarget::Revision(Revision(5000)))
            .await
            .unwrap(),
        old
    );
    assert_eq!(found(Some(old), RestoreTarget::Latest).await.unwrap(), old);
}
