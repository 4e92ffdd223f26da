use proptest::prelude::*;

use super::*;
use crate::backup::testing::{Refusing, call, cluster, etcd, meta, store};
use crate::backup::trailer::snapshot;
use crate::backup::{Catalogue, Marked, Removed, change_marks, list, remove, remove_named, take_full};
use crate::model::{ClusterName, NodeName, StoredBackup};
use bytes::Bytes;

const NOW: UnixMs = UnixMs(5_000_000_000);

fn kept(reason: Option<&str>) -> MarkChange {
    MarkChange::Keep(Kept {
        since: NOW,
        node: NodeName::new("n1").unwrap(),
        reason: reason.map(str::to_owned),
    })
}

fn note(text: &str) -> MarkChange {
    MarkChange::Annotate(Some(Note {
        at: NOW,
        node: NodeName::new("n1").unwrap(),
        text: text.to_owned(),
    }))
}

async fn full(store: &dyn ObjectStore, at: u64) -> BackupId {
    let taken = take_full(&etcd(snapshot(2)), store, &meta(at), |_| {}).await;
    taken.unwrap().id
}

async fn change(store: &dyn ObjectStore, id: &BackupId, change: &MarkChange) -> Marked {
    change_marks(store, &cluster(), id, change, &call(NOW), false)
        .await
        .unwrap()
}

async fn shown_of(store: &dyn ObjectStore, id: &BackupId) -> StoredBackup {
    let Catalogue { backups, .. } = list(store, &cluster()).await.unwrap();
    backups
        .into_iter()
        .find(|backup| backup.summary.id == *id)
        .unwrap()
}

async fn keys(store: &dyn ObjectStore, id: &BackupId) -> Vec<String> {
    let listed = store.list(&format!("prod/{id}/")).await.unwrap();
    listed
        .into_iter()
        .map(|object| object.key.rsplit('/').next().unwrap().to_owned())
        .collect()
}

#[tokio::test]
async fn marks_are_written_shown_and_taken_back() {
    let dir = tempfile::tempdir().unwrap();
    let store = store(dir.path());
    let id = full(&store, 1000).await;
    assert_eq!(change(&store, &id, &MarkChange::Release).await, Marked::Same);
    assert_eq!(keys(&store, &id).await.len(), 2, "nothing is written for nothing");
    let (cluster, first) = (cluster(), kept(Some("audit")));
    let dry = change_marks(&store, &cluster, &id, &first, &call(NOW), true)
        .await
        .unwrap();
    assert_eq!((dry, keys(&store, &id).await.len()), (Marked::Changed, 2));

    assert_eq!(change(&store, &id, &first).await, Marked::Changed);
    assert_eq!(change(&store, &id, &first).await, Marked::Same);
    assert_eq!(
        change(&store, &id, &kept(None)).await,
        Marked::Same,
        "the reason stays"
    );
    assert_eq!(change(&store, &id, &note("one")).await, Marked::Changed);
    assert_eq!(change(&store, &id, &note("one")).await, Marked::Same);
    let marks = shown_of(&store, &id).await.marks;
    assert_eq!(marks.kept.unwrap().reason.as_deref(), Some("audit"));
    assert_eq!(
        (marks.note.unwrap().text, marks.marks_unreadable),
        ("one".to_owned(), None)
    );
    assert_eq!(change(&store, &id, &kept(Some("other"))).await, Marked::Changed);
    assert_eq!(change(&store, &id, &MarkChange::Release).await, Marked::Changed);
    assert_eq!(
        change(&store, &id, &MarkChange::Annotate(None)).await,
        Marked::Changed
    );
    assert_eq!(shown_of(&store, &id).await.marks, Marks::default());
}

#[tokio::test]
async fn only_backups_of_agents_have_marks() {
    let dir = tempfile::tempdir().unwrap();
    let store = store(dir.path());
    let absent = BackupId::new("2026-03-01T04:05:06Z-000042").unwrap();
    assert!(matches!(
        change(&store, &absent, &kept(None)).await,
        Marked::Gone(_)
    ));
    let foreign = BackupId::new("2023-11-14T22:13:20Z-000001").unwrap();
    for (file, body) in [
        ("etcd.backup.gz", "gz"),
        (
            "_etcd_backup.meta",
            r#"{"etcdVersion":"3.5.7","timestamp":"1700000000"}"#,
        ),
    ] {
        let key = format!("prod/{foreign}/{file}");
        store
            .put(&key, Bytes::from_static(body.as_bytes()))
            .await
            .unwrap();
    }
    let refused = change(&store, &foreign, &kept(None)).await;
    assert!(
        matches!(&refused, Marked::Refused(why) if why.contains("etcd-manager")),
        "{refused:?}"
    );
    assert_eq!(keys(&store, &foreign).await.len(), 2);
}

/// Unknown is never "may be deleted".
#[tokio::test]
async fn marks_that_cannot_be_read_keep_the_backup_and_are_not_overwritten() {
    let dir = tempfile::tempdir().unwrap();
    let inner = store(dir.path());
    let id = full(&inner, 1000).await;
    let key = format!("prod/{id}/marks.json");
    let other = r#"{"format":1,"id":"2026-03-01T04:05:06Z-000042"}"#;
    let long = format!(
        r#"{{"format":1,"id":"{id}","note":{{"at":1,"node":"n1","text":"{}"}}}}"#,
        "x".repeat(501)
    );
    let huge = format!(r#"{{"format":1,"id":"{id}","later":"{}"}}"#, "x".repeat(40_000));
    let newer = format!(r#"{{"format":2,"id":"{id}"}}"#);
    for (text, why) in [
        ("", "EOF"),
        ("{}", "format"),
        (other, "it is of 2026"),
        (long.as_str(), "longer than 500"),
        (huge.as_str(), "larger than"),
        (newer.as_str(), "newer agent"),
    ] {
        inner.put(&key, Bytes::from(text.to_owned())).await.unwrap();
        let seen = shown_of(&inner, &id).await;
        let said = seen.marks.marks_unreadable.clone().unwrap();
        assert!(said.contains(why), "{said}");
        let changed = change(&inner, &id, &MarkChange::Release).await;
        assert!(
            matches!(&changed, Marked::Refused(said) if said.contains(why)),
            "{changed:?}"
        );
        let removed = remove_named(&inner, &cluster(), &id, &call(NOW)).await.unwrap();
        assert!(matches!(removed, Removed::Kept(_)), "{removed:?}");
        assert_eq!(inner.get_small(&key).await.unwrap().unwrap(), text.as_bytes());
    }
    // The store refuses to return them.
    let refusing = Refusing::new(inner, "marks.json", PortError::Permanent("403".to_owned()));
    assert_eq!(
        shown_of(&refusing, &id).await.marks.marks_unreadable.as_deref(),
        Some("403")
    );
    let removed = remove_named(&refusing, &cluster(), &id, &call(NOW))
        .await
        .unwrap();
    assert_eq!(removed, Removed::Kept("403".to_owned()));
    // It does not answer: that is no answer about the backup.
    let silent = Refusing::new(
        store(dir.path()),
        "marks.json",
        PortError::Retryable("busy".to_owned()),
    );
    assert!(list(&silent, &cluster()).await.is_err());
    assert!(remove_named(&silent, &cluster(), &id, &call(NOW)).await.is_err());
    assert_eq!(keys(&silent, &id).await.len(), 3);
}

/// Retention has decided, and then an operator orders to keep the backup.
#[tokio::test]
async fn an_order_between_the_decision_and_the_deletion_counts() {
    let dir = tempfile::tempdir().unwrap();
    let store = store(dir.path());
    let (old, new) = (full(&store, 1000).await, full(&store, 2000).await);
    let decided = [old.clone(), new.clone()];
    assert_eq!(change(&store, &old, &kept(None)).await, Marked::Changed);
    let pruned = remove(&store, &cluster(), &decided, || call(NOW)).await.unwrap();
    assert_eq!(pruned.removed, [new]);
    assert_eq!(pruned.kept.len(), 1);
    assert!(
        pruned.text().contains("1 kept by an order ("),
        "{}",
        pruned.text()
    );
    assert_eq!(
        keys(&store, &old).await,
        ["backup.json", "etcd.backup.zst", "marks.json"]
    );
    // Without its commit marker in a listing it is not swept as an abandoned upload either.
    store.delete(&format!("prod/{old}/backup.json")).await.unwrap();
    let pruned = remove(&store, &cluster(), &[], || call(NOW)).await.unwrap();
    assert_eq!(pruned.abandoned, []);
    assert_eq!(keys(&store, &old).await, ["etcd.backup.zst", "marks.json"]);
}

/// Only one of both succeeds, whichever comes first. With an abandoned claim the order succeeds later.
#[tokio::test]
async fn a_claim_holds_an_order_off_for_an_hour() {
    let dir = tempfile::tempdir().unwrap();
    let store = store(dir.path());
    let id = full(&store, 1000).await;
    let layout = Layout::of(&store, &cluster());
    let hour = 3_600_000;
    let at = |ms: u64| Call {
        now: UnixMs(NOW.0 + ms),
        random: 9,
    };
    let keep = async |ms: u64| change_marks(&store, &cluster(), &id, &kept(None), &at(ms), false).await;
    // The remover dies after its claim. The backup is whole.
    assert_eq!(claim(&store, &layout, &id, &call(NOW)).await, Ok(Ok(())));
    assert_eq!(shown_of(&store, &id).await.marks, Marks::default());
    for ms in [0, hour - 1] {
        let refused = keep(ms).await.unwrap();
        assert!(
            matches!(&refused, Marked::Refused(why) if why.contains("is being removed")),
            "{refused:?}"
        );
    }
    // Another remover takes over, and renews the claim.
    assert_eq!(claim(&store, &layout, &id, &at(hour)).await, Ok(Ok(())));
    assert!(matches!(keep(hour + 1).await, Ok(Marked::Refused(_))));
    // The claim of the first is no longer its own.
    release(&store, &layout, &id, &call(NOW)).await;
    assert!(matches!(keep(hour + 1).await, Ok(Marked::Refused(_))));
    release(&store, &layout, &id, &at(hour)).await;
    assert_eq!(keep(hour + 1).await, Ok(Marked::Changed));
    assert!(matches!(claim(&store, &layout, &id, &at(hour)).await, Ok(Err(_))));
    change(&store, &id, &MarkChange::Release).await;
    assert_eq!(claim(&store, &layout, &id, &call(NOW)).await, Ok(Ok(())));
    assert_eq!(keep(hour).await, Ok(Marked::Changed), "the claim was abandoned");
    change(&store, &id, &MarkChange::Release).await;
    // The clock of the remover is years ahead.
    assert_eq!(claim(&store, &layout, &id, &at(1 << 40)).await, Ok(Ok(())));
    assert_eq!(keep(0).await, Ok(Marked::Changed));
}

/// Many orders to keep and many removals at once: never both.
#[tokio::test]
async fn of_an_order_and_a_removal_at_once_one_succeeds() {
    let dir = tempfile::tempdir().unwrap();
    let store = std::sync::Arc::new(store(dir.path()));
    let (mut orders, mut removals) = (0, 0);
    for round in 0..40 {
        let id = full(store.as_ref(), 1000 + round).await;
        let name: ClusterName = cluster();
        let tasks = (0..4).map(|n: u64| {
            let (store, id, name) = (store.clone(), id.clone(), name.clone());
            tokio::spawn(async move {
                let call = Call {
                    now: NOW,
                    random: n * 31 + round,
                };
                if (n + round).is_multiple_of(2) {
                    let marked = change_marks(store.as_ref(), &name, &id, &kept(None), &call, false).await;
                    (matches!(marked, Ok(Marked::Changed | Marked::Same)), false)
                } else {
                    let removed = remove_named(store.as_ref(), &name, &id, &call).await;
                    (false, matches!(removed, Ok(Removed::Done)))
                }
            })
        });
        let ended = futures::future::join_all(tasks).await;
        let ended: Vec<(bool, bool)> = ended.into_iter().map(Result::unwrap).collect();
        let (kept, removed) = (ended.iter().any(|e| e.0), ended.iter().any(|e| e.1));
        assert!(!(kept && removed), "round {round}: {ended:?}");
        let left = keys(store.as_ref(), &id).await;
        assert_eq!(
            left.contains(&"backup.json".to_owned()),
            !removed,
            "round {round}: {left:?}"
        );
        if removed {
            assert_eq!(left, Vec::<String>::new(), "round {round}");
        }
        orders += u32::from(kept);
        removals += u32::from(removed);
    }
    assert!(
        orders > 0 && removals > 0,
        "{orders} orders and {removals} removals succeeded"
    );
}

/// The removal ends between the manifest that the order has read and the marks that it writes.
#[tokio::test]
async fn marks_of_a_backup_that_was_removed_meanwhile_are_no_success() {
    let dir = tempfile::tempdir().unwrap();
    let inner = store(dir.path());
    let id = full(&inner, 1000).await;
    let raced = crate::backup::testing::RemovedOnCreate {
        inner,
        id: id.clone(),
    };
    let answer = change(&raced, &id, &kept(None)).await;
    assert!(
        matches!(&answer, Marked::Gone(why) if why.contains("at the same moment")),
        "{answer:?}"
    );
    assert_eq!(keys(&raced, &id).await, Vec::<String>::new());
}

#[tokio::test]
async fn fields_of_newer_agents_stay() {
    let dir = tempfile::tempdir().unwrap();
    let store = store(dir.path());
    let id = full(&store, 1000).await;
    let key = format!("prod/{id}/marks.json");
    let text = format!(r#"{{"format":1,"id":"{id}","later":{{"x":[1,null]}}}}"#);
    store.put(&key, Bytes::from(text)).await.unwrap();
    assert_eq!(change(&store, &id, &kept(Some("audit"))).await, Marked::Changed);
    let text = store.get_small(&key).await.unwrap().unwrap();
    let read: Value = serde_json::from_slice(&text).unwrap();
    assert_eq!(read["later"], serde_json::json!({"x": [1, null]}));
    assert_eq!(read["kept"]["reason"], "audit");
}

proptest! {
    #[test]
    fn what_is_written_is_read(text in "\\PC{1,500}", since in any::<u64>(), kept in any::<bool>()) {
        let id = BackupId::new("2026-03-01T04:05:06Z-000042").unwrap();
        let node = NodeName::new("n1").unwrap();
        let mut marks = MarksFile::new(&id);
        if kept {
            marks.kept = Some(Kept { since: UnixMs(since), node, reason: Some(text) });
        } else {
            marks.note = Some(Note { at: UnixMs(since), node, text });
        }
        prop_assert_eq!(MarksFile::parse(&id, &marks.to_json().unwrap()).unwrap(), marks);
    }

    #[test]
    fn garbage_is_an_error(text in any::<Vec<u8>>()) {
        let id = BackupId::new("2026-03-01T04:05:06Z-000042").unwrap();
        prop_assert!(MarksFile::parse(&id, &text).is_err());
    }
}
