use super::super::take_full;
use super::super::testing::{EVER, cluster, etcd, id, meta, store};
use super::super::trailer::snapshot;
use super::*;
use crate::model::UnixMs;
use bytes::Bytes;

async fn put(store: &dyn ObjectStore, key: &str, body: &'static str) {
    store.put(key, Bytes::from_static(body.as_bytes())).await.unwrap();
}

#[tokio::test]
async fn committed_backups_of_both_worlds_oldest_first() {
    let dir = tempfile::tempdir().unwrap();
    let store = store(dir.path());
    // Years 1999 to 10000 minus one: by time, not by the order of writing.
    for at in [1_772_337_906, 946_684_799, 253_402_207_199, 1_000_000_000] {
        take_full(&etcd(snapshot(2)), &store, &meta(at), |_| {})
            .await
            .unwrap();
    }
    let foreign = "prod/2023-11-14T22:13:20Z-000001";
    put(&store, &format!("{foreign}/etcd.backup.gz"), "gz").await;
    put(
        &store,
        &format!("{foreign}/_etcd_backup.meta"),
        r#"{"etcdVersion":"3.5.7","timestamp":"1700000000","clusterSpec":{"memberCount":3}}"#,
    )
    .await;
    // None of these is a backup.
    put(
        &store,
        "prod/2024-01-01T00:00:00Z-000001/etcd.backup.zst",
        "no marker",
    )
    .await;
    put(&store, "prod/control/etcd-cluster-spec", "{}").await;
    put(
        &store,
        "prod/control/2024-01-01T00:00:00Z-000001/_command.json",
        "{}",
    )
    .await;
    put(&store, "prod/notes.txt", "x").await;
    put(&store, "other/2030-01-01T00:00:00Z-000001/backup.json", "{}").await;
    let catalogue = list(&store, &cluster()).await.unwrap();
    let names: Vec<_> = catalogue.backups.iter().map(|b| b.summary.id.as_str()).collect();
    assert_eq!(
        names,
        [
            "1999-12-31T23:59:59Z-000042",
            "2001-09-09T01:46:40Z-000042",
            "2023-11-14T22:13:20Z-000001",
            "2026-03-01T04:05:06Z-000042",
            "9999-12-30T21:59:59Z-000042",
        ]
    );
    assert_eq!(catalogue.backups[2].summary.at, UnixMs(1_700_000_000_000));
    assert_eq!(catalogue.backups[2].summary.size_bytes, 2);
    let writers: Vec<_> = catalogue.backups.iter().map(|b| b.writer).collect();
    let (ours, theirs) = (Writer::EtcdAgent, Writer::EtcdManager);
    assert_eq!(writers, [ours, ours, theirs, ours, ours]);
    assert!(catalogue.unreadable.is_empty());
}

#[tokio::test]
async fn an_unreadable_one_is_named_and_passed_over() {
    let dir = tempfile::tempdir().unwrap();
    let store = store(dir.path());
    let good = take_full(&etcd(snapshot(2)), &store, &meta(1000), |_| {})
        .await
        .unwrap();
    put(&store, "prod/2030-01-01T00:00:00Z-000001/etcd.backup.zst", "x").await;
    put(&store, "prod/2030-01-01T00:00:00Z-000001/backup.json", "{").await;
    put(&store, "prod/2031-01-01T00:00:00Z-000001/backup.json", "{}").await;
    let catalogue = list(&store, &cluster()).await.unwrap();
    assert_eq!(catalogue.backups.len(), 1);
    assert_eq!(catalogue.backups[0].summary, good);
    assert_eq!(catalogue.unreadable[0].0, id("2030-01-01T00:00:00Z-000001"));
    assert_eq!(catalogue.unreadable[1].1, "its snapshot is not there");
    assert_eq!(newest(&store, &cluster(), || EVER).await.unwrap(), Some(good));
}

/// Its clock was ahead, or this one is behind.
#[tokio::test]
async fn one_that_is_dated_after_now_is_not_the_newest_until_then() {
    let dir = tempfile::tempdir().unwrap();
    let store = store(dir.path());
    let mut backups = Vec::new();
    for seconds in [1000, 2000] {
        let taken = take_full(&etcd(snapshot(2)), &store, &meta(seconds), |_| {}).await;
        backups.push(taken.unwrap());
    }
    for (now, expected) in [(999, None), (1999, Some(&backups[0])), (2001, Some(&backups[1]))] {
        let view = super::super::store_view(&store, &cluster(), || UnixMs(now * 1000))
            .await
            .unwrap();
        assert_eq!(view.newest_backup.as_ref(), expected, "{now}");
        let oldest = view.verify.oldest_backup;
        assert_eq!(oldest, expected.map(|_| UnixMs(1_000_000)), "{now}");
        // No empty cluster is formed beside it, whatever the clock says.
        assert!(view.trace.is_some(), "{now}");
    }
}

#[tokio::test]
async fn a_store_that_fails_is_an_error_and_an_empty_one_is_empty() {
    let dir = tempfile::tempdir().unwrap();
    assert_eq!(
        newest(&store(dir.path()), &cluster(), || EVER).await.unwrap(),
        None
    );
    let gone = store(&dir.path().join("not-mounted"));
    assert!(list(&gone, &cluster()).await.is_err());
    assert!(newest(&gone, &cluster(), || EVER).await.is_err());
    assert!(
        super::super::store_view(&gone, &cluster(), || EVER)
            .await
            .is_err()
    );
}

#[tokio::test]
async fn a_store_that_is_the_clusters_own_is_read_without_its_name() {
    let dir = tempfile::tempdir().unwrap();
    let store = store(&dir.path().join("prod"));
    std::fs::create_dir(dir.path().join("prod")).unwrap();
    let backup = take_full(&etcd(snapshot(2)), &store, &meta(1000), |_| {})
        .await
        .unwrap();
    assert!(dir.path().join("prod").join(backup.id.as_str()).is_dir());
    assert_eq!(newest(&store, &cluster(), || EVER).await.unwrap(), Some(backup));
}
