use std::sync::atomic::{AtomicU64, Ordering};

use bytes::Bytes;

use super::*;
use crate::backup::testing::{EVER, FakeEtcd, cluster, etcd, meta, store};
use crate::backup::trailer::snapshot;
use crate::backup::{list, newest};
use crate::model::{ClusterId, Revision};

const NAME: &str = "prod/2026-03-01T04:05:06Z-000042";
const AT: u64 = 1_772_337_906;

#[tokio::test]
async fn what_is_stored_is_what_etcdctl_would_have_saved() {
    let dir = tempfile::tempdir().unwrap();
    let store = store(dir.path());
    let bytes = snapshot(50_000);
    let reported = AtomicU64::new(0);
    let backup = take_full(&etcd(bytes.clone()), &store, &meta(AT), |n| {
        reported.store(n, Ordering::Relaxed);
    })
    .await
    .unwrap();
    assert_eq!(backup.revision, Revision(77));
    assert_eq!(reported.into_inner(), bytes.len() as u64);
    let stored = std::fs::read(dir.path().join(NAME).join("etcd.backup.zst")).unwrap();
    assert_eq!(backup.size_bytes, stored.len() as u64);
    assert!(stored.len() < bytes.len());
    assert_eq!(zstd::stream::decode_all(stored.as_slice()).unwrap(), bytes);
    assert_eq!(
        newest(&store, &cluster(), || EVER).await.unwrap(),
        Some(backup.clone())
    );
    let listed = list(&store, &cluster()).await.unwrap().backups;
    assert_eq!(listed.len(), 1);
    assert_eq!(listed[0].summary, backup);
}

#[tokio::test]
async fn s31_what_is_not_whole_is_never_committed_nor_listed() {
    let good = snapshot(50_000);
    let mut corrupt_data = good.clone();
    corrupt_data[1_000_000] ^= 1;
    let mut corrupt_hash = good.clone();
    let last = corrupt_hash.len() - 1;
    corrupt_hash[last] ^= 1;
    let rows = [
        ("corrupt data", etcd(corrupt_data)),
        ("corrupt hash", etcd(corrupt_hash)),
        ("missing hash", etcd(good[..good.len() - 32].to_vec())),
        ("truncated at a page", etcd(good[..512 * 9000].to_vec())),
        (
            "truncated at a page and a hash",
            etcd(good[..512 * 9000 + 32].to_vec()),
        ),
        ("truncated anywhere", etcd(good[..3_000_001].to_vec())),
        ("empty", etcd(vec![])),
        (
            "error mid-stream",
            FakeEtcd {
                bytes: good[..5_000_000].to_vec(),
                error: true,
            },
        ),
        (
            "error after the last byte",
            FakeEtcd {
                bytes: good.clone(),
                error: true,
            },
        ),
    ];
    for (what, etcd) in rows {
        let dir = tempfile::tempdir().unwrap();
        let store = store(dir.path());
        let error = take_full(&etcd, &store, &meta(AT), |_| {}).await.unwrap_err();
        assert!(matches!(error, PortError::Retryable(_)), "{what}: {error}");
        assert_eq!(store.list("").await.unwrap(), [], "{what}");
        assert_eq!(
            std::fs::read_dir(dir.path()).unwrap().count(),
            0,
            "{what}: left over"
        );
    }
}

#[tokio::test]
async fn a_stream_that_stands_still_fails() {
    let stream: ByteStream = Box::pin(futures::stream::pending());
    let dir = tempfile::tempdir().unwrap();
    let mut upload = store(dir.path()).upload("x").await.unwrap();
    let idle = Duration::from_millis(20);
    let error = pump(stream, worker(), upload.as_mut(), &|_| {}, idle)
        .await
        .err()
        .unwrap();
    assert!(error.to_string().contains("stalled"), "{error}");
    assert_eq!(error.cause, Cause::Etcd);
}

#[tokio::test]
async fn two_agents_in_one_second_do_not_mix() {
    let dir = tempfile::tempdir().unwrap();
    let store = store(dir.path());
    take_full(&etcd(snapshot(4)), &store, &meta(AT), |_| {})
        .await
        .unwrap();
    let error = take_full(&etcd(snapshot(5)), &store, &meta(AT), |_| {})
        .await
        .unwrap_err();
    assert!(matches!(error, PortError::Retryable(_)), "{error}");
}

#[tokio::test]
async fn a_dropped_backup_leaves_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let store = store(dir.path());
    let endless: ByteStream = Box::pin(futures::stream::repeat_with(|| Ok(Bytes::from(vec![1; 65536]))));
    let mut upload = store.upload("prod/x").await.unwrap();
    let short = std::time::Duration::from_millis(100);
    assert!(
        tokio::time::timeout(short, pump(endless, worker(), upload.as_mut(), &|_| {}, IDLE))
            .await
            .is_err()
    );
    drop(upload);
    assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0);
}

fn worker() -> Worker {
    Worker::start(Packer::new(Compression::Zstd).unwrap(), Priority::Idle).unwrap()
}

/// A newer epoch is known, and etcd still serves the one before.
#[tokio::test]
async fn c09d_another_clusters_etcd_is_not_stored_under_the_name_of_an_epoch() {
    let dir = tempfile::tempdir().unwrap();
    let store = store(dir.path());
    for (cluster_id, good) in [(Some(1), true), (None, true), (Some(9), false)] {
        let meta = BackupMeta {
            cluster_id: cluster_id.map(ClusterId),
            ..meta(AT + cluster_id.unwrap_or(0))
        };
        let taken = take_full(&etcd(snapshot(2)), &store, &meta, |_| {}).await;
        assert_eq!(taken.is_ok(), good, "{cluster_id:?}: {taken:?}");
    }
    assert_eq!(list(&store, &cluster()).await.unwrap().backups.len(), 2);
}
