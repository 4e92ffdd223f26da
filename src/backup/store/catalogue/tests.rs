use super::*;
use crate::backup::store::layout::{INCREMENTS, SNAPSHOT_ZSTD};
use crate::backup::take_full;
use crate::backup::testing::{EVER, Refusing, cluster, etcd, id, meta, store};
use crate::backup::trailer::snapshot;
use crate::model::UnixMs;
use bytes::Bytes;

async fn put(store: &dyn ObjectStore, key: &str, body: &'static str) {
    store.put(key, Bytes::from_static(body.as_bytes())).await.unwrap();
}

#[tokio::test]
async fn the_highest_epoch_is_that_of_any_backup_that_can_be_read() {
    let dir = tempfile::tempdir().unwrap();
    let store = store(dir.path());
    assert_eq!(highest_epoch(&store, &cluster()).await.unwrap(), Epoch(0));
    for (at, epoch) in [(1000, 2), (2000, 7), (3000, 1)] {
        let meta = crate::backup::BackupMeta {
            epoch: Epoch(epoch),
            ..meta(at)
        };
        take_full(&etcd(snapshot(2)), &store, &meta, |_| {})
            .await
            .unwrap();
    }
    put(&store, "prod/2030-01-01T00:00:00Z-000001/backup.json", "garbage").await;
    assert_eq!(highest_epoch(&store, &cluster()).await.unwrap(), Epoch(7));
}

#[tokio::test]
async fn committed_backups_of_both_worlds_oldest_first() {
    let dir = tempfile::tempdir().unwrap();
    let store = store(dir.path());
    // Years 1999 to 9999: ordered by time, not by the order of writing.
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

/// The writer's clock was ahead, or this node's clock is behind.
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
        let view = crate::backup::testing::store_view(&store, &cluster(), || UnixMs(now * 1000))
            .await
            .unwrap();
        assert_eq!(view.newest_backup.as_ref(), expected, "{now}");
        let oldest = view.verify.oldest_backup;
        assert_eq!(oldest, expected.map(|_| UnixMs(1_000_000)), "{now}");
        // No empty cluster is formed next to it, whatever the clock says.
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
        crate::backup::testing::store_view(&gone, &cluster(), || EVER)
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

/// Three backups, taken at 1000, 2000 and 3000 seconds.
async fn three(dir: &std::path::Path) -> Vec<BackupSummary> {
    let mut taken = Vec::new();
    for at in [1000, 2000, 3000] {
        let full = take_full(&etcd(snapshot(2)), &store(dir), &meta(at), |_| {}).await;
        taken.push(full.unwrap());
    }
    taken
}

const FIRST: &str = "1970-01-01T00:16:40Z-000042";
const SECOND: &str = "1970-01-01T00:33:20Z-000042";

#[tokio::test]
async fn b02_an_object_that_the_store_refuses_hides_its_own_backup_and_no_other() {
    let dir = tempfile::tempdir().unwrap();
    let taken = three(dir.path()).await;
    let refused = PortError::Permanent("AccessDenied (HTTP 403)".to_owned());
    let store = Refusing::new(
        store(dir.path()),
        "1970-01-01T00:33:20Z-000042/backup.json",
        refused,
    );
    let catalogue = list(&store, &cluster()).await.unwrap();
    let names: Vec<_> = catalogue.backups.iter().map(|b| &b.summary).collect();
    assert_eq!(names, [&taken[0], &taken[2]]);
    assert_eq!(
        catalogue.unreadable,
        [(id(SECOND), "AccessDenied (HTTP 403)".to_owned())]
    );
    let found = newest(&store, &cluster(), || EVER).await.unwrap();
    assert_eq!(found.as_ref(), Some(&taken[2]));
    // The newest backup up to that time is skipped, and the store is still known.
    let view = crate::backup::testing::store_view(&store, &cluster(), || UnixMs(2_000_500)).await;
    assert_eq!(view.unwrap().newest_backup.as_ref(), Some(&taken[0]));
}

#[tokio::test]
async fn b02_a_marker_of_more_than_a_mebibyte_hides_no_other() {
    let dir = tempfile::tempdir().unwrap();
    let taken = three(dir.path()).await;
    let marker = dir.path().join("prod").join(SECOND).join("backup.json");
    std::fs::write(&marker, vec![b' '; (1 << 20) + 1]).unwrap();
    let catalogue = list(&store(dir.path()), &cluster()).await.unwrap();
    assert_eq!(catalogue.backups.len(), 2);
    assert_eq!(catalogue.unreadable[0].0, id(SECOND));
    assert!(
        catalogue.unreadable[0].1.contains("is larger than"),
        "{catalogue:?}"
    );
    let found = crate::backup::find(
        &store(dir.path()),
        &cluster(),
        None,
        crate::model::RestoreTarget::Latest,
    )
    .await;
    assert_eq!(found.unwrap(), taken[2]);
}

#[tokio::test]
async fn b02_what_may_pass_is_an_error_and_nothing_is_absent() {
    let dir = tempfile::tempdir().unwrap();
    three(dir.path()).await;
    std::fs::write(dir.path().join("prod").join(FIRST).join("verify.json"), "{}").unwrap();
    for object in ["1970-01-01T00:33:20Z-000042/backup.json", "verify.json"] {
        let busy = PortError::Retryable("SlowDown (HTTP 503)".to_owned());
        let store = Refusing::new(store(dir.path()), object, busy.clone());
        assert_eq!(list(&store, &cluster()).await.unwrap_err(), busy, "{object}");
    }
}

/// It is not known whether it is the newest good one.
#[tokio::test]
async fn b02_a_verification_that_cannot_be_read_hides_no_backup_and_keeps_its_own() {
    let dir = tempfile::tempdir().unwrap();
    let taken = three(dir.path()).await;
    std::fs::write(dir.path().join("prod").join(FIRST).join("verify.json"), "{}").unwrap();
    let refused = PortError::Permanent("AccessDenied (HTTP 403)".to_owned());
    let store = Refusing::new(store(dir.path()), "verify.json", refused);
    let catalogue = list(&store, &cluster()).await.unwrap();
    let names: Vec<_> = catalogue.backups.iter().map(|b| &b.summary).collect();
    assert_eq!(names, taken.iter().collect::<Vec<_>>());
    assert!(catalogue.unreadable.is_empty());
    let nothing = crate::model::Retention {
        recent: std::time::Duration::ZERO,
        hourly: 0,
        daily: 0,
        weekly: 0,
        yearly: 0,
        count: 1,
        ..crate::model::Retention::default()
    };
    let verdicts = crate::plan::judge(&catalogue.backups, EVER, &nothing);
    let goes: Vec<_> = verdicts
        .iter()
        .filter(|v| v.goes())
        .map(|v| &v.backup.summary)
        .collect();
    assert_eq!(goes, [&taken[1]]);
    let view = crate::backup::testing::store_view(&store, &cluster(), || EVER)
        .await
        .unwrap();
    assert_eq!(view.newest_backup.as_ref(), Some(&taken[2]));
}

/// Each has 25 increments, and was verified. Only what is asked for is read, and each listed object is looked
/// at once.
#[tokio::test]
async fn b05_of_ten_thousand_backups_only_what_is_asked_for_is_read() {
    use crate::backup::store::manifest::example;
    use crate::backup::testing::Vast;
    use crate::model::RestoreTarget;
    use std::sync::atomic::{AtomicUsize, Ordering};

    const ALL: u64 = 10_000;
    const OBJECTS: usize = 28;
    let name = |n: u64| {
        BackupName::new(UnixMs(1_000_000_000_000 + n * 60_000), n)
            .id()
            .unwrap()
    };
    let mut keys = std::collections::BTreeSet::new();
    for n in 0..ALL {
        let id = name(n);
        for file in [MANIFEST, SNAPSHOT_ZSTD, VERIFICATION] {
            keys.insert(format!("prod/{id}/{file}"));
        }
        for part in 0..25 {
            let first = example().revision.0 + 1 + part;
            let file = crate::backup::store::chain::file_name(Revision(first), Revision(first));
            keys.insert(format!("prod/{id}/{INCREMENTS}{file}"));
        }
    }
    assert_eq!(keys.len(), OBJECTS * 10_000);
    let store = Vast {
        keys,
        body: |key| {
            let manifest = Manifest {
                id: id(key.split('/').nth(1).unwrap()),
                ..example()
            };
            manifest.to_json().unwrap()
        },
        small: AtomicUsize::new(0),
        listed: AtomicUsize::new(0),
    };
    let asked = || {
        (
            store.small.swap(0, Ordering::SeqCst),
            store.listed.swap(0, Ordering::SeqCst),
        )
    };
    let after = Part::After(Some(name(4999)), 100);
    let (part, next) = page(&store, &cluster(), &after).await.unwrap();
    assert_eq!(part.backups.len(), 100);
    assert_eq!(part.backups[0].summary.id, name(5000));
    assert_eq!(part.backups[99].covered, Revision(example().revision.0 + 25));
    assert_eq!(next, Some(name(5099)));
    // The commit marker and the verification of each.
    assert_eq!(asked(), (200, OBJECTS * 10_000));
    let last = Part::After(Some(name(ALL - 1)), 100);
    assert_eq!(
        page(&store, &cluster(), &last).await.unwrap(),
        (Catalogue::default(), None)
    );
    asked();
    let named = crate::backup::find(&store, &cluster(), Some(&name(7)), RestoreTarget::Full).await;
    assert_eq!(named.unwrap().id, name(7));
    assert_eq!(asked(), (1, OBJECTS));
    let (only, next) = page(&store, &cluster(), &Part::Only(name(8))).await.unwrap();
    assert_eq!((only.backups.len(), next), (1, None));
    assert_eq!(asked(), (2, OBJECTS));
}

/// Only the size that the store wants is unknown then; everything else about the store is known.
#[tokio::test]
async fn b02_a_spec_that_cannot_be_read_hides_no_backup() {
    let dir = tempfile::tempdir().unwrap();
    let taken = three(dir.path()).await;
    put(&store(dir.path()), "prod/control/etcd-cluster-spec", "{}").await;
    let error = |permanent: bool| {
        let text = "AccessDenied (HTTP 403)".to_owned();
        if permanent {
            PortError::Permanent(text)
        } else {
            PortError::Retryable(text)
        }
    };
    let refusing = |permanent| Refusing::new(store(dir.path()), "etcd-cluster-spec", error(permanent));
    let view = crate::backup::testing::store_view(&refusing(true), &cluster(), || EVER)
        .await
        .unwrap();
    assert_eq!(view.newest_backup.as_ref(), Some(&taken[2]));
    assert!(
        matches!(view.size, crate::model::Fact::Unreachable(_)),
        "{view:?}"
    );
    let view = crate::backup::testing::store_view(&refusing(false), &cluster(), || EVER).await;
    assert_eq!(view.unwrap_err(), error(false));
}
