//! Orders to keep, annotate and delete one backup, on real servers: conditional writes, lost answers,
//! concurrent writers, and credentials without the right to delete.

use std::sync::Arc;
use std::time::Duration;

use etcd_agent::adapters::dir::DirStore;
use etcd_agent::adapters::store::open_store;
use etcd_agent::backup::{self, Call, MarkChange, Marked, Removed, change_marks, copy_missing, remove_named};
use etcd_agent::model::{BackupId, Kept, NodeName, Note, Retention, StoredBackup, UnixMs};
use etcd_agent::plan::judge;
use etcd_agent::ports::{ObjectStore, PortError};
use etcd_agent_lab::{ETCD_VERSIONS, Fault, Faults};
use etcd_agent_store_tests::{AnyS3, EVER, Kind, RealEtcd, call, cluster, full};

const NOW: UnixMs = UnixMs(1_772_337_906_000);

fn keep() -> MarkChange {
    MarkChange::Keep(Kept {
        since: NOW,
        node: NodeName::new("n1").unwrap(),
        reason: Some("audit".to_owned()),
    })
}

fn note(text: &str) -> MarkChange {
    MarkChange::Annotate(Some(Note {
        at: NOW,
        node: NodeName::new("n2").unwrap(),
        text: text.to_owned(),
    }))
}

async fn change(store: &dyn ObjectStore, id: &BackupId, change: &MarkChange) -> Marked {
    change_marks(store, &cluster(), id, change, &call(NOW), false)
        .await
        .unwrap()
}

async fn one(store: &dyn ObjectStore, id: &BackupId) -> StoredBackup {
    let all = backup::list(store, &cluster()).await.unwrap().backups;
    all.into_iter().find(|one| one.summary.id == *id).unwrap()
}

async fn ids(store: &dyn ObjectStore) -> Vec<BackupId> {
    let all = backup::list(store, &cluster()).await.unwrap().backups;
    all.into_iter().map(|one| one.summary.id).collect()
}

/// What retention removes if it wants the newest only.
async fn pruned(store: &dyn ObjectStore) -> backup::Pruned {
    let nothing = Retention {
        enabled: true,
        recent: Duration::ZERO,
        hourly: 0,
        daily: 0,
        weekly: 0,
        yearly: 0,
        count: 0,
    };
    let all = backup::list(store, &cluster()).await.unwrap().backups;
    let goes: Vec<BackupId> = judge(&all, EVER, &nothing)
        .into_iter()
        .filter(|verdict| verdict.keep.is_empty())
        .map(|verdict| verdict.backup.summary.id)
        .collect();
    backup::remove(store, &cluster(), &goes, || call(EVER))
        .await
        .unwrap()
}

async fn full_each(etcd: &RealEtcd, store: &dyn ObjectStore, count: u64) -> Vec<BackupId> {
    let mut all = Vec::new();
    for seq in 0..count {
        all.push(full(etcd, store, seq).await.id);
        // The names have milliseconds.
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    all
}

async fn through(store: Arc<dyn ObjectStore>, second: Arc<dyn ObjectStore>, etcd: &RealEtcd) {
    let all = full_each(etcd, store.as_ref(), 5).await;
    assert_eq!(change(store.as_ref(), &all[1], &keep()).await, Marked::Changed);
    assert_eq!(change(store.as_ref(), &all[1], &keep()).await, Marked::Same);
    assert_eq!(
        change(store.as_ref(), &all[1], &note("größer")).await,
        Marked::Changed
    );
    let marks = one(store.as_ref(), &all[1]).await.marks;
    assert_eq!(marks.kept.unwrap().reason.as_deref(), Some("audit"));
    assert_eq!(marks.note.unwrap().text, "größer");
    copy_missing(store.as_ref(), second.as_ref(), &cluster())
        .await
        .unwrap();

    let removed = remove_named(store.as_ref(), &cluster(), &all[0], &call(NOW)).await;
    assert_eq!(removed, Ok(Removed::Done));
    let again = remove_named(store.as_ref(), &cluster(), &all[0], &call(NOW)).await;
    assert_eq!(again, Ok(Removed::Gone));
    let kept = remove_named(store.as_ref(), &cluster(), &all[1], &call(NOW)).await;
    assert!(matches!(kept, Ok(Removed::Kept(_))), "{kept:?}");
    assert_eq!(pruned(store.as_ref()).await.removed, &all[2..4]);
    assert_eq!(ids(store.as_ref()).await, [all[1].clone(), all[4].clone()]);
    assert_eq!(
        change(store.as_ref(), &all[1], &MarkChange::Release).await,
        Marked::Changed
    );
    copy_missing(store.as_ref(), second.as_ref(), &cluster())
        .await
        .unwrap();
    assert_eq!(pruned(store.as_ref()).await.removed, [all[1].clone()]);
    for (name, left) in [("marks", "marks.json"), ("claims", "removal")] {
        let keys = store.list("").await.unwrap();
        assert!(
            !keys.iter().any(|object| object.key.contains(left)),
            "{name}: {keys:?}"
        );
    }
    // The second store has all of them, and the marks as they were last.
    assert_eq!(ids(second.as_ref()).await, all);
    let copied = one(second.as_ref(), &all[1]).await.marks;
    assert_eq!(
        (copied.kept, copied.note.unwrap().text),
        (None, "größer".to_owned())
    );
}

#[tokio::test]
async fn one_backup_is_kept_annotated_and_deleted_in_each_kind_of_store() {
    let etcd = RealEtcd::start(ETCD_VERSIONS[1]);
    let dirs = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    through(
        Arc::new(DirStore::new(dirs.0.path())),
        Arc::new(DirStore::new(dirs.1.path())),
        &etcd,
    )
    .await;
    for kind in Kind::ALL {
        let (first, second) = (AnyS3::start(kind).await, AnyS3::start(kind).await);
        through(first.store(), second.store(), &etcd).await;
    }
}

/// Two nodes with clients of their own: an order to keep each backup, while retention removes them all.
#[tokio::test]
async fn an_order_that_succeeded_holds_against_a_removal_on_another_node() {
    let etcd = RealEtcd::start(ETCD_VERSIONS[1]);
    for kind in Kind::ALL {
        let s3 = AnyS3::start(kind).await;
        let (one, two) = (s3.store(), s3.store());
        let all = full_each(&etcd, one.as_ref(), 8).await;
        let removing = tokio::spawn({
            let all = all.clone();
            async move {
                let call = || Call { now: NOW, random: 1 };
                backup::remove(one.as_ref(), &cluster(), &all, call)
                    .await
                    .unwrap()
            }
        });
        let mut kept = Vec::new();
        for id in all.iter().rev() {
            if change(two.as_ref(), id, &keep()).await == Marked::Changed {
                kept.push(id.clone());
            }
        }
        let removed = removing.await.unwrap();
        kept.reverse();
        assert_eq!(ids(two.as_ref()).await, kept, "{kind:?}: {removed:?}");
        assert_eq!(
            removed.removed.len() + kept.len(),
            all.len(),
            "{kind:?}: {removed:?}"
        );
        assert!(!kept.is_empty(), "{kind:?}: {removed:?}");
    }
}

/// The store does what it is asked to, and its answer is lost.
#[tokio::test]
async fn an_order_whose_answer_is_lost_can_be_given_again() {
    let etcd = RealEtcd::start(ETCD_VERSIONS[1]);
    for kind in Kind::ALL {
        let s3 = AnyS3::start(kind).await;
        let calm = s3.store();
        let all = full_each(&etcd, calm.as_ref(), 2).await;
        let lossy = Faults::before(s3.address(), |number, (method, path)| {
            if number % 2 == 1 && (method == "PUT" || method == "DELETE") && !path.contains("probe") {
                Fault::Lost
            } else {
                Fault::Pass
            }
        })
        .await
        .unwrap();
        let store = open_store(&s3.settings_at(lossy.address()));
        for wanted in [keep(), note("one"), note("two"), MarkChange::Release] {
            let mut answer = Err(PortError::Retryable(String::new()));
            for _ in 0..20 {
                answer = change_marks(store.as_ref(), &cluster(), &all[0], &wanted, &call(NOW), false).await;
                if answer.is_ok() {
                    break;
                }
            }
            assert!(
                matches!(answer, Ok(Marked::Changed | Marked::Same)),
                "{kind:?}: {answer:?}"
            );
        }
        let marks = one(calm.as_ref(), &all[0]).await.marks;
        assert_eq!(
            (marks.kept, marks.note.unwrap().text),
            (None, "two".to_owned()),
            "{kind:?}"
        );
        let mut answer = Err(PortError::Retryable(String::new()));
        for _ in 0..20 {
            answer = remove_named(store.as_ref(), &cluster(), &all[0], &call(NOW)).await;
            if answer.is_ok() {
                break;
            }
        }
        assert!(
            matches!(answer, Ok(Removed::Done | Removed::Gone)),
            "{kind:?}: {answer:?}"
        );
        assert_eq!(ids(calm.as_ref()).await, [all[1].clone()], "{kind:?}");
        let left = calm.list("").await.unwrap();
        assert!(
            !left.iter().any(|object| object.key.contains(all[0].as_str())),
            "{kind:?}: {left:?}"
        );
    }
}

/// Without the right to delete nothing is removed, and orders work as before.
#[tokio::test]
async fn a_store_that_refuses_to_delete_keeps_the_backup_whole_and_takes_orders() {
    let etcd = RealEtcd::start(ETCD_VERSIONS[1]);
    let s3 = AnyS3::start(Kind::Versitygw).await;
    let settings = s3.nobody();
    s3.allow(&[
        "s3:ListBucket",
        "s3:PutObject",
        "s3:GetObject",
        "s3:AbortMultipartUpload",
    ])
    .await;
    let store = open_store(&settings);
    let all = full_each(&etcd, store.as_ref(), 2).await;
    let refused = remove_named(store.as_ref(), &cluster(), &all[0], &call(NOW))
        .await
        .unwrap();
    assert!(
        matches!(&refused, Removed::Refused(why) if why.contains("AccessDenied")),
        "{refused:?}"
    );
    assert_eq!(ids(store.as_ref()).await, all);
    // The claim was taken back.
    assert_eq!(change(store.as_ref(), &all[0], &keep()).await, Marked::Changed);
    assert_eq!(
        change(store.as_ref(), &all[0], &MarkChange::Release).await,
        Marked::Changed
    );
    assert_eq!(one(store.as_ref(), &all[0]).await.marks.kept, None);
}
