use super::*;
use crate::backup::testing::{Locking, call, cluster, etcd, meta, store};
use crate::backup::trailer::snapshot;
use crate::backup::{Format, list, take_full, take_full_as};
use crate::model::UnixMs;
use bytes::Bytes;

async fn full(store: &dyn ObjectStore, at: u64) -> BackupId {
    take_full(&etcd(snapshot(2)), store, &meta(at), |_| {})
        .await
        .unwrap()
        .id
}

async fn names(store: &dyn ObjectStore) -> Vec<BackupId> {
    let catalogue = list(store, &cluster()).await.unwrap();
    catalogue.backups.into_iter().map(|b| b.summary.id).collect()
}

#[tokio::test]
async fn s30_only_our_own_keys_go() {
    let dir = tempfile::tempdir().unwrap();
    let store = store(dir.path());
    let (old, new) = (full(&store, 1000).await, full(&store, 2000).await);
    let note = format!("prod/{old}/notes.txt");
    for key in [note.as_str(), "prod/control/etcd-cluster-spec", "other/x"] {
        store.put(key, Bytes::from_static(b"x")).await.unwrap();
    }
    let pruned = remove(&store, &cluster(), std::slice::from_ref(&old), || {
        call(UnixMs(3_000_000))
    })
    .await
    .unwrap();
    assert_eq!(pruned.removed, [old]);
    assert_eq!(names(&store).await, std::slice::from_ref(&new));
    let keys: Vec<_> = store.list("").await.unwrap().into_iter().map(|o| o.key).collect();
    assert_eq!(
        keys,
        [
            "other/x".to_owned(),
            note,
            format!("prod/{new}/backup.json"),
            format!("prod/{new}/etcd.backup.zst"),
            "prod/control/etcd-cluster-spec".to_owned(),
        ]
    );
}

#[tokio::test]
async fn what_is_left_of_one_in_etcd_managers_form_is_never_taken_for_its_own() {
    let dir = tempfile::tempdir().unwrap();
    let inner = store(dir.path());
    let format = Format::EtcdManager { members: 3 };
    let (etcd, meta) = (etcd(snapshot(2)), meta(1000));
    let id = take_full_as(&etcd, &inner, &meta, format, |_| {})
        .await
        .unwrap()
        .id;
    // The removal ends between the two markers.
    let store = Locking {
        inner,
        locked: "backup.json",
    };
    let pruned = remove(&store, &cluster(), std::slice::from_ref(&id), || call(UnixMs(0)))
        .await
        .unwrap();
    assert_eq!(pruned.refused.len(), 1);
    let left = list(&store, &cluster()).await.unwrap().backups;
    assert_eq!(left[0].writer, crate::model::Writer::EtcdAgent);
    let keys = store.list("").await.unwrap();
    assert!(
        !keys.iter().any(|object| object.key.ends_with(FOREIGN_META)),
        "{keys:?}"
    );
}

#[tokio::test]
async fn a_full_takes_its_increments_along_and_no_others() {
    let dir = tempfile::tempdir().unwrap();
    let store = store(dir.path());
    let day = 86_400;
    let (old, kept) = (full(&store, day).await, full(&store, 2 * day).await);
    let put = async |id: &BackupId, name: &str| {
        let key = format!("prod/{id}/increments/{name}");
        store.put(&key, Bytes::from_static(b"x")).await.unwrap();
        key
    };
    put(&old, "78-80.zst").await;
    put(&old, "81-99.zst").await;
    let own = put(&kept, "78-90.zst").await;
    let removed = remove(&store, &cluster(), std::slice::from_ref(&old), || call(UnixMs(0)))
        .await
        .unwrap();
    assert_eq!(removed.removed, std::slice::from_ref(&old));
    let left = async || -> Vec<String> {
        let listed = store.list("prod/").await.unwrap();
        let keys = listed.into_iter().map(|object| object.key);
        keys.filter(|key| key.contains("/increments/")).collect()
    };
    assert_eq!(left().await, std::slice::from_ref(&own));
    // Stored by an agent that did not know of the removal yet.
    let late = put(&old, "100-110.zst").await;
    let soon = UnixMs((day + 3600) * 1000);
    assert_eq!(
        remove(&store, &cluster(), &[], || call(soon))
            .await
            .unwrap()
            .abandoned,
        []
    );
    assert_eq!(left().await, [late, own.clone()]);
    let later = UnixMs((3 * day) * 1000);
    assert_eq!(
        remove(&store, &cluster(), &[], || call(later))
            .await
            .unwrap()
            .abandoned,
        [old]
    );
    assert_eq!(left().await, [own]);
}

#[tokio::test]
async fn an_upload_under_way_stays_and_an_abandoned_one_goes() {
    let dir = tempfile::tempdir().unwrap();
    let store = store(dir.path());
    let day = 86_400;
    let (old, young) = (full(&store, day).await, full(&store, 3 * day).await);
    for id in [&old, &young] {
        store.delete(&format!("prod/{id}/backup.json")).await.unwrap();
    }
    // An upload of etcd-manager is never removed.
    let foreign = "prod/1970-01-02T00:00:00Z-000001/etcd.backup.gz";
    store.put(foreign, Bytes::from_static(b"x")).await.unwrap();
    let now = UnixMs((3 * day + 3600) * 1000);
    let pruned = remove(&store, &cluster(), &[], || call(now)).await.unwrap();
    assert_eq!(pruned.abandoned, [old]);
    let keys: Vec<_> = store.list("").await.unwrap().into_iter().map(|o| o.key).collect();
    assert_eq!(
        keys,
        [foreign.to_owned(), format!("prod/{young}/etcd.backup.zst")]
    );
}

#[tokio::test]
async fn a_store_that_fails_is_an_error() {
    let dir = tempfile::tempdir().unwrap();
    let gone = store(&dir.path().join("not-mounted"));
    let id = BackupId::new("2026-03-01T04:05:06Z-000042").unwrap();
    // Opening the directory fails permanently: that is reported, and nothing counts as removed.
    assert!(
        remove(&gone, &cluster(), &[id], || call(UnixMs(0)))
            .await
            .is_err()
    );
}

#[tokio::test]
async fn s30_what_the_store_locks_stays_whole_and_the_rest_goes() {
    let dir = tempfile::tempdir().unwrap();
    let store = Locking {
        inner: store(dir.path()),
        locked: "1970-01-01T00:16:40Z-000042/backup.json",
    };
    let locked = full(&store, 1000).await;
    let free = full(&store, 2000).await;
    let pruned = remove(&store, &cluster(), &[locked.clone(), free.clone()], || {
        call(UnixMs(0))
    })
    .await
    .unwrap();
    assert_eq!(pruned.removed, [free]);
    assert_eq!(pruned.refused[0].0, locked);
    assert_eq!(names(&store).await, std::slice::from_ref(&locked));
    let prefix = format!("prod/{locked}/");
    assert_eq!(
        store.list(&prefix).await.unwrap().len(),
        3,
        "marker, snapshot, and marks without the claim"
    );
    let marks = store
        .get_small(&format!("{prefix}marks.json"))
        .await
        .unwrap()
        .unwrap();
    assert!(!String::from_utf8_lossy(&marks).contains("removal"), "{marks:?}");
    let text = pruned.text();
    assert!(
        text.starts_with("1 backups removed, 1 kept by the store ("),
        "{text}"
    );
}

/// An agent without the right to delete does not try each backup again and again.
#[tokio::test]
async fn a_store_that_refuses_three_is_not_asked_about_the_rest() {
    let dir = tempfile::tempdir().unwrap();
    let store = Locking {
        inner: store(dir.path()),
        locked: "/",
    };
    let mut all = Vec::new();
    for at in 1..=5 {
        all.push(full(&store, 1000 * at).await);
    }
    let pruned = remove(&store, &cluster(), &all, || call(UnixMs(0)))
        .await
        .unwrap();
    assert_eq!((pruned.removed, pruned.refused.len()), (Vec::new(), 5));
    assert!(
        pruned.refused[4].1.starts_with("not tried"),
        "{:?}",
        pruned.refused
    );
    assert_eq!(names(&store).await, all);
    let last = format!("prod/{}/marks.json", all[4]);
    assert_eq!(
        store.get_small(&last).await.unwrap(),
        None,
        "it was not even claimed"
    );
}

/// Whatever is interrupted, what looks restorable is whole.
#[tokio::test]
async fn a_removal_that_ends_at_any_object_leaves_no_half_backup() {
    for failing in ["marks.json", "backup.json", "etcd.backup.zst", "78-80.zst"] {
        let dir = tempfile::tempdir().unwrap();
        let day = 86_400;
        let old = full(&store(dir.path()), day).await;
        let increment = format!("prod/{old}/increments/78-80.zst");
        store(dir.path())
            .put(&increment, Bytes::from_static(b"x"))
            .await
            .unwrap();
        let stops = Locking {
            inner: store(dir.path()),
            locked: failing,
        };
        let removed = remove_named(&stops, &cluster(), &old, &call(UnixMs(day * 1000)))
            .await
            .unwrap();
        let left = names(&stops).await;
        let keys: Vec<_> = stops.list("").await.unwrap().into_iter().map(|o| o.key).collect();
        if failing == "backup.json" {
            assert!(matches!(removed, Removed::Refused(_)), "{removed:?}");
            assert_eq!((left, keys.len()), (vec![old], 4), "{keys:?}");
            continue;
        }
        assert_eq!((removed, left), (Removed::Done, Vec::new()), "{failing}");
        assert!(!keys.is_empty(), "{failing}");
        // Asking again finishes what is left, and so does the next prune.
        let again = remove_named(&store(dir.path()), &cluster(), &old, &call(UnixMs(day * 1000))).await;
        assert_eq!(again, Ok(Removed::Gone));
        let later = UnixMs(3 * day * 1000);
        remove(&store(dir.path()), &cluster(), &[], || call(later))
            .await
            .unwrap();
        let keys = store(dir.path()).list("").await.unwrap();
        assert_eq!(keys, [], "{failing}");
    }
}

/// A verification that ends after the removal leaves its result.
#[tokio::test]
async fn the_result_of_a_verification_is_swept_after_its_backup() {
    let dir = tempfile::tempdir().unwrap();
    let store = store(dir.path());
    let old = full(&store, 1000).await;
    remove_named(&store, &cluster(), &old, &call(UnixMs(0)))
        .await
        .unwrap();
    let late = format!("prod/{old}/verify.json");
    store.put(&late, Bytes::from_static(b"{}")).await.unwrap();
    let pruned = remove(&store, &cluster(), &[], || call(UnixMs(200_000_000)))
        .await
        .unwrap();
    assert_eq!(pruned.abandoned, [old]);
    assert_eq!(store.list("").await.unwrap(), []);
}

#[test]
fn only_what_was_removed_is_a_change() {
    let id = || BackupId::new("2026-03-01T12:00:00Z-000003").unwrap();
    let nothing = Pruned::default();
    let removed = Pruned {
        removed: vec![id()],
        ..Pruned::default()
    };
    let abandoned = Pruned {
        abandoned: vec![id()],
        ..Pruned::default()
    };
    let stays = Pruned {
        refused: vec![(id(), "403".to_owned())],
        kept: vec![(id(), "kept".to_owned())],
        ..Pruned::default()
    };
    let rows = [
        (nothing, false),
        (removed, true),
        (abandoned, true),
        (stays, false),
    ];
    for (pruned, changed) in rows {
        assert_eq!(pruned.changed(), changed, "{pruned:?}");
    }
}
