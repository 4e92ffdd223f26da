use std::path::Path;

use bytes::Bytes;

use super::*;
use crate::backup::store::manifest::example;
use crate::backup::testing::{Refusing, cluster, store};
use crate::ports::ObjectStore;

const FIRST: &str = "2026-03-01T04:05:06Z-000001";
const SECOND: &str = "2026-03-01T05:05:06Z-000002";

async fn put(dir: &Path, key: &str, body: &str) {
    let body = Bytes::copy_from_slice(body.as_bytes());
    store(dir).put(key, body).await.unwrap();
}

async fn keys(dir: &Path) -> Vec<String> {
    let objects = store(dir).list("").await.unwrap();
    objects.into_iter().map(|object| object.key).collect()
}

#[tokio::test]
async fn committed_backups_are_copied_and_nothing_else() {
    let (a, b) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let (a, b) = (a.path(), b.path());
    put(a, &format!("prod/{FIRST}/etcd.backup.zst"), "first").await;
    put(a, &format!("prod/{FIRST}/backup.json"), "{}").await;
    put(a, &format!("prod/{SECOND}/etcd.backup.zst"), "not committed").await;
    put(a, "prod/control/epochs/1", "genesis").await;
    put(a, "other/file", "x").await;

    let copied = copy_missing(&store(a), &store(b), &cluster()).await.unwrap();
    let first = BackupId::new(FIRST).unwrap();
    assert_eq!(copied.backups, std::slice::from_ref(&first));
    assert_eq!((copied.newest, copied.bytes), (Some(first.clone()), 7));
    let there = [
        format!("prod/{FIRST}/backup.json"),
        format!("prod/{FIRST}/etcd.backup.zst"),
    ];
    assert_eq!(keys(b).await, there);

    // A second round finds nothing to do.
    let again = copy_missing(&store(a), &store(b), &cluster()).await.unwrap();
    assert_eq!(
        (again.backups, again.newest, again.bytes),
        (vec![], Some(first.clone()), 0)
    );

    // Objects that were added to a backup are copied, and objects that were removed stay.
    put(a, &format!("prod/{FIRST}/increments/1-2.zst"), "more").await;
    put(a, &format!("prod/{SECOND}/backup.json"), "{}").await;
    store(a).delete(&there[1]).await.unwrap();
    let more = copy_missing(&store(a), &store(b), &cluster()).await.unwrap();
    let second = BackupId::new(SECOND).unwrap();
    assert_eq!(more.backups, [second.clone(), first]);
    assert_eq!(more.newest, Some(second));
    assert!(keys(b).await.contains(&there[1]));
    assert_eq!(keys(b).await.len(), 5);
}

#[tokio::test]
async fn a_copy_that_was_cut_short_is_not_committed_and_is_finished_later() {
    let (a, b) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let (a, b) = (a.path(), b.path());
    put(a, &format!("prod/{FIRST}/etcd.backup.zst"), "whole").await;
    put(a, &format!("prod/{FIRST}/backup.json"), "{}").await;
    // A file where a directory has to be: nothing can be written below it.
    std::fs::create_dir(b.join("prod")).unwrap();
    std::fs::write(b.join("prod").join(FIRST), "in the way").unwrap();
    assert!(copy_missing(&store(a), &store(b), &cluster()).await.is_err());
    assert!(!keys(b).await.iter().any(|key| key.ends_with("backup.json")));

    std::fs::remove_file(b.join("prod").join(FIRST)).unwrap();
    put(b, &format!("prod/{FIRST}/etcd.backup.zst"), "half").await;
    let copied = copy_missing(&store(a), &store(b), &cluster()).await.unwrap();
    assert_eq!(copied.bytes, 7);
    let body = store(b)
        .get_small(&format!("prod/{FIRST}/etcd.backup.zst"))
        .await
        .unwrap();
    assert_eq!(body.unwrap(), "whole");
}

/// A crash of the host of a directory store, or somebody who can write to the first store alone.
#[tokio::test]
async fn what_is_damaged_in_the_first_store_does_not_replace_the_copy() {
    for file in ["etcd.backup.zst", "backup.json", "increments/1-2.zst"] {
        for damaged in ["", "shorter", "longer than it was"] {
            let (a, b) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
            let (a, b) = (a.path(), b.path());
            let key = format!("prod/{FIRST}/{file}");
            for other in ["etcd.backup.zst", "backup.json", "increments/1-2.zst"] {
                put(a, &format!("prod/{FIRST}/{other}"), "as it was").await;
            }
            put(a, &format!("prod/{SECOND}/backup.json"), "{}").await;
            copy_missing(&store(a), &store(b), &cluster()).await.unwrap();
            put(a, &key, damaged).await;
            put(a, &format!("prod/{SECOND}/etcd.backup.zst"), "more").await;
            let copied = copy_missing(&store(a), &store(b), &cluster()).await.unwrap();
            let kept = store(b).get_small(&key).await.unwrap().unwrap();
            assert_eq!(kept, "as it was", "{file}");
            let problem = copied.problem().unwrap();
            assert!(problem.contains(FIRST) && problem.contains(file), "{problem}");
            // The others are copied all the same.
            assert_eq!(copied.backups, [BackupId::new(SECOND).unwrap()]);
        }
    }
}

#[tokio::test]
async fn an_empty_copy_and_the_result_of_a_verification_are_replaced() {
    let (a, b) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let (a, b) = (a.path(), b.path());
    for file in ["etcd.backup.zst", "backup.json", "verify.json"] {
        put(a, &format!("prod/{FIRST}/{file}"), "first").await;
    }
    copy_missing(&store(a), &store(b), &cluster()).await.unwrap();
    put(b, &format!("prod/{FIRST}/etcd.backup.zst"), "").await;
    put(a, &format!("prod/{FIRST}/verify.json"), "a later result").await;
    let copied = copy_missing(&store(a), &store(b), &cluster()).await.unwrap();
    assert_eq!(copied.problem(), None);
    for (file, wanted) in [("etcd.backup.zst", "first"), ("verify.json", "a later result")] {
        let body = store(b).get_small(&format!("prod/{FIRST}/{file}")).await.unwrap();
        assert_eq!(body.unwrap(), wanted, "{file}");
    }
}

#[tokio::test]
async fn a_store_that_is_not_there_is_an_error() {
    let a = tempfile::tempdir().unwrap();
    let none = a.path().join("none");
    assert!(
        copy_missing(&store(a.path()), &store(&none), &cluster())
            .await
            .is_err()
    );
    assert!(
        copy_missing(&store(&none), &store(a.path()), &cluster())
            .await
            .is_err()
    );
}

#[tokio::test]
async fn b16_one_backup_that_cannot_be_read_does_not_keep_the_others_back() {
    let (a, b) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let (a, b) = (a.path(), b.path());
    for name in [FIRST, SECOND, "2026-03-01T06:05:06Z-000003"] {
        put(a, &format!("prod/{name}/etcd.backup.zst"), "data").await;
        put(a, &format!("prod/{name}/backup.json"), "{}").await;
    }
    let archived = PortError::Permanent("InvalidObjectState (HTTP 403)".to_owned());
    let from = Refusing::new(store(a), "000002/etcd.backup.zst", archived);
    let copied = copy_missing(&from, &store(b), &cluster()).await.unwrap();
    assert_eq!(
        copied.newest.as_ref().unwrap().as_str(),
        "2026-03-01T06:05:06Z-000003"
    );
    assert_eq!(copied.backups.len(), 2);
    // Nothing of it counts as a backup there.
    assert!(!keys(b).await.iter().any(|key| key.contains(SECOND)));
    let problem = copied.problem().unwrap();
    assert!(
        problem.contains(SECOND) && problem.contains("InvalidObjectState"),
        "{problem}"
    );
    // A transient error ends the round.
    let busy = PortError::Retryable("SlowDown".to_owned());
    let from = Refusing::new(store(a), "000002/etcd.backup.zst", busy);
    assert!(copy_missing(&from, &store(b), &cluster()).await.is_err());
}

/// The reported revision is what the second store can restore, encrypted or not.
#[tokio::test]
async fn b09_how_far_the_second_store_leads_is_reported() {
    for suffix in ["", ".age"] {
        let (a, b) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let (a, b) = (a.path(), b.path());
        let full = Manifest {
            id: BackupId::new(FIRST).unwrap(),
            revision: Revision(10),
            ..example()
        };
        put(a, &format!("prod/{FIRST}/etcd.backup.zst{suffix}"), "first").await;
        let manifest = String::from_utf8(full.to_json().unwrap()).unwrap();
        put(a, &format!("prod/{FIRST}/backup.json"), &manifest).await;
        for (increments, expected) in [
            (&[][..], 10),
            (&["11-20", "21-25"][..], 25),
            (&["27-30"][..], 25),
            (&["24-26"][..], 30),
        ] {
            for range in increments {
                put(a, &format!("prod/{FIRST}/increments/{range}.zst{suffix}"), "more").await;
            }
            let copied = copy_missing(&store(a), &store(b), &cluster()).await.unwrap();
            assert_eq!(copied.covered, Some(Revision(expected)), "{increments:?}{suffix}");
        }
        assert_eq!(keys(b).await, keys(a).await);
    }
}

/// Marks change without changing their size, and are never taken for a part of the backup.
#[tokio::test]
async fn marks_are_copied_when_they_change_and_claims_are_not() {
    let (a, b) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let (a, b) = (a.path(), b.path());
    put(a, &format!("prod/{FIRST}/etcd.backup.zst"), "first").await;
    put(a, &format!("prod/{FIRST}/backup.json"), "{}").await;
    let key = format!("prod/{FIRST}/marks.json");
    let note = |text: &str, claim: &str| {
        format!(r#"{{"format":1,"id":"{FIRST}","note":{{"at":1,"node":"n1","text":"{text}"}}{claim}}}"#)
    };
    let claim = r#","removal":{"since":1,"token":"x"}"#;
    let round = async || {
        copy_missing(&store(a), &store(b), &cluster())
            .await
            .unwrap()
            .bytes
    };
    let there = async || store(b).get_small(&key).await.unwrap();
    let text = async || {
        let text = String::from_utf8(there().await.unwrap().to_vec()).unwrap();
        assert!(!text.contains("removal"), "{text}");
        text
    };
    // A claim alone is no mark.
    put(a, &key, &format!(r#"{{"format":1,"id":"{FIRST}"{claim}}}"#)).await;
    assert_eq!((round().await, there().await), (7, None));
    for (written, shown) in [
        (note("one", ""), "one"),
        (note("two", ""), "two"),
        (note("six", claim), "six"),
    ] {
        put(a, &key, &written).await;
        assert!(round().await > 0, "{written}");
        assert_eq!(round().await, 0, "{written}");
        assert!(text().await.contains(shown), "{written}");
    }
    // The order is withdrawn.
    put(a, &key, &format!(r#"{{"format":1,"id":"{FIRST}"}}"#)).await;
    round().await;
    assert!(!text().await.contains("note"));
    // What is not understood keeps the backup in both stores.
    put(a, &key, "garbage").await;
    round().await;
    assert_eq!(there().await.unwrap(), "garbage");
    assert_eq!(round().await, 0);
}
