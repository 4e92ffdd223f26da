//! An etcd is reset to an older image of its disk, while the store keeps the later changes.

use std::path::Path;

use etcd_agent::backup::{self, Ended};
use etcd_agent::model::{RestoreTarget, Revision};
use etcd_agent::ports::Etcd;
use etcd_agent_lab::{Cmd, ETCD_VERSIONS};
use etcd_agent_store_tests::{
    EVER, Follower, LONG, RealEtcd, S3, call, change, cluster, full, hash, restored, revision, state, verify,
};

async fn write(etcd: &RealEtcd, prefix: &str, count: usize) {
    let mut client = etcd_client::Client::connect([&etcd.url], None).await.unwrap();
    for n in 0..count {
        client.put(format!("{prefix}/{n}"), "x", None).await.unwrap();
    }
}

fn copy(from: &Path, to: &Path) {
    let _ = std::fs::remove_dir_all(to);
    Cmd::new("cp").args(["-a"]).arg(from).arg(to).ok().unwrap();
}

/// Waits until the follower ends, and returns how it ended. Panics with etcd's revision if it does not end.
async fn ends(follower: &mut Follower, etcd: &RealEtcd) -> Ended {
    let now = revision(etcd).await;
    let task = tokio::time::timeout(LONG, &mut follower.task).await;
    let ended = task.unwrap_or_else(|_| panic!("it does not end, with etcd at revision {now}"));
    ended.unwrap().unwrap()
}

/// Takes an image of the disk at revision 51, stores the changes up to revision 251, restores the image, and
/// writes `count` keys.
#[tokio::test]
async fn c04_what_an_etcd_that_was_put_back_writes_is_of_a_timeline_of_its_own_on_each_etcd() {
    let s3 = S3::start();
    let store = s3.store();
    for (n, version) in (0..).zip(ETCD_VERSIONS) {
        // Fewer writes than were stored, and more.
        for (m, count) in [(0, 100), (1, 300)] {
            let what = format!("{version}, {count} writes");
            let etcd = RealEtcd::start(version);
            let image = etcd.dir.path().join("image");
            write(&etcd, "k", 50).await;
            let etcd = etcd.restarted(|data| copy(data, &image));
            assert_eq!(revision(&etcd).await, Revision(51), "{what}");
            let old = full(&etcd, store.as_ref(), 10 * n + 2 * m).await;
            let mut follower = Follower::start(&etcd, &store, &old.id, "n1");
            write(&etcd, "old", 200).await;
            follower.reaches(Revision(251)).await;
            follower.ends().await;
            let before = state(&etcd, None).await;
            let before_hash = hash(&etcd, Revision(251));

            let etcd = etcd.restarted(|data| copy(&image, data));
            assert_eq!(revision(&etcd).await, Revision(51), "{what}");
            write(&etcd, "new", count).await;
            let mut follower = Follower::start(&etcd, &store, &old.id, "n1");
            let ended = ends(&mut follower, &etcd).await;
            assert!(matches!(ended, Ended::WentBack(_)), "{what}: {ended:?}");
            let new = full(&etcd, store.as_ref(), 10 * n + 2 * m + 1).await;
            let mut follower = Follower::start(&etcd, &store, &new.id, "n1");
            let mut client = etcd_client::Client::connect([&etcd.url], None).await.unwrap();
            change(&mut client, 1).await;
            let end = revision(&etcd).await;
            follower.reaches(end).await;
            follower.ends().await;

            let prod = cluster();
            let latest = backup::find(store.as_ref(), &prod, None, RestoreTarget::Latest)
                .await
                .unwrap();
            assert!(
                latest.id.as_str().starts_with(new.id.as_str()),
                "{what}: {latest:?}"
            );
            let back = restored(&etcd, store.as_ref(), &latest).await;
            assert_eq!(state(&back, None).await, state(&etcd, None).await, "{what}");
            assert_eq!(hash(&back, end), hash(&etcd, end), "{what}");
            // The earlier history can be restored by the name of its backup.
            let named = backup::find(store.as_ref(), &prod, Some(&old.id), RestoreTarget::Latest)
                .await
                .unwrap();
            assert_eq!(named.revision, Revision(251), "{what}");
            let back = restored(&etcd, store.as_ref(), &named).await;
            assert_eq!(state(&back, None).await, before, "{what}");
            assert_eq!(hash(&back, Revision(251)), before_hash, "{what}");
            // Both chains verify. The running etcd has another history than the old chain, so it must not
            // count as evidence against it.
            for id in [&old.id, &new.id] {
                let verified = verify(store.as_ref(), id, &etcd).await.unwrap();
                assert_eq!(verified.problems, Vec::<String>::new(), "{what}");
            }
            // Remove both backups, so that the next round starts without backups.
            for id in [&old.id, &new.id] {
                let goes = [id.clone()];
                backup::remove(store.as_ref(), &prod, &goes, || call(EVER))
                    .await
                    .unwrap();
            }
        }
    }
}

/// etcd's data of a past revision equals what the watch stored, also for large transactions, deletions and
/// leases.
#[tokio::test]
async fn c04_an_etcd_that_goes_on_is_followed_after_each_kind_of_change_on_each_etcd() {
    let s3 = S3::start();
    let store = s3.store();
    for (n, version) in (0..).zip(ETCD_VERSIONS) {
        let etcd = RealEtcd::start(version);
        let mut client = etcd_client::Client::connect([&etcd.url], None).await.unwrap();
        let taken = full(&etcd, store.as_ref(), n).await;
        client.put("a", "1", None).await.unwrap();
        for round in 0..4 {
            match round {
                0 => drop(client.delete("a", None).await.unwrap()),
                1 => change(&mut client, 1).await,
                2 => drop(client.put("large", vec![b'x'; 1 << 20], None).await.unwrap()),
                _ => etcd.ctl(&["lease", "grant", "600"]).clear(),
            }
            let mut follower = Follower::start(&etcd, &store, &taken.id, "n1");
            follower.reaches(revision(&etcd).await).await;
            follower.ends().await;
        }
        // The newest stored revision is a deletion, and it is compacted. Some etcd versions return nothing
        // for such a revision. This is not a gap, because nothing was written after it.
        client.delete("large", None).await.unwrap();
        let mut follower = Follower::start(&etcd, &store, &taken.id, "n1");
        let end = revision(&etcd).await;
        follower.reaches(end).await;
        follower.ends().await;
        client.compact(i64::try_from(end.0).unwrap(), None).await.unwrap();
        let mut follower = Follower::start(&etcd, &store, &taken.id, "n1");
        follower.reaches(end).await;
        client.put("b", "1", None).await.unwrap();
        follower.reaches(revision(&etcd).await).await;
        follower.ends().await;
        // A compacted revision cannot be compared, so the follower does not know whether the history is the
        // same.
        let end = revision(&etcd).await;
        client.put("b", "2", None).await.unwrap();
        client.put("b", "3", None).await.unwrap();
        let now = i64::try_from(revision(&etcd).await.0).unwrap();
        client.compact(now, None).await.unwrap();
        assert!(matches!(
            etcd.member().past(end).await,
            Ok(etcd_agent::model::Past::Gone(_))
        ));
        let mut follower = Follower::start(&etcd, &store, &taken.id, "n1");
        let ended = ends(&mut follower, &etcd).await;
        assert!(matches!(ended, Ended::Gap(_)), "{version}: {ended:?}");
    }
}

/// The follower starts late, as after an outage of the store. Its watch must catch up with many values of 5
/// MiB at once.
#[tokio::test]
async fn c06_values_as_large_as_max_request_bytes_allows_are_stored_on_each_etcd() {
    let s3 = S3::start();
    let store = s3.store();
    for (n, version) in (0..).zip(ETCD_VERSIONS) {
        let etcd = RealEtcd::start_with(version, &["--max-request-bytes", "10485760"]);
        let channel = etcd_client::Client::connect([&etcd.url], None).await.unwrap();
        let mut client = channel.kv_client();
        let taken = full(&etcd, store.as_ref(), n).await;
        for key in ["a", "b", "c", "a"] {
            client.put(key, vec![b'x'; 5 << 20], None).await.unwrap();
        }
        let mut follower = Follower::start(&etcd, &store, &taken.id, "n1");
        follower.reaches(revision(&etcd).await).await;
        client.put("d", vec![b'y'; 9 << 20], None).await.unwrap();
        let end = revision(&etcd).await;
        follower.reaches(end).await;
        follower.ends().await;
        let point = backup::find(store.as_ref(), &cluster(), Some(&taken.id), RestoreTarget::Latest).await;
        let back = restored(&etcd, store.as_ref(), &point.unwrap()).await;
        assert_eq!(revision(&back).await, end, "{version}");
        assert_eq!(hash(&back, end), hash(&etcd, end), "{version}");
    }
}
