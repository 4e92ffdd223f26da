//! Tests the store against a real S3 server, with backups of a real etcd.

use std::fs;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use bytes::Bytes;
use etcd_agent::adapters::dir::DirStore;
use etcd_agent::adapters::store::{open_store, probe_conditional_writes};
use etcd_agent::backup::{self, BackupMeta, Recorded, Written};
use etcd_agent::model::{ClusterId, Epoch, Fact, Genesis, NodeName, Origin, Revision, UnixMs};
use etcd_agent::ports::{Created, ObjectStore, PortError, Replaced};
use etcd_agent_lab::{Cmd, ETCD_VERSIONS};
use etcd_agent_store_tests::{AnyS3, Client, EVER, Kind, RealEtcd, S3, cluster, cutting_proxy, noise};
use futures::TryStreamExt;

fn meta(seq: u64) -> BackupMeta {
    BackupMeta {
        cluster: cluster(),
        epoch: Epoch(1),
        cluster_id: None,
        node: NodeName::new("n1").unwrap(),
        started_at: UnixMs(1_772_337_906_000),
        seq,
        ordered: false,
    }
}

async fn read(store: &dyn ObjectStore, key: &str) -> Vec<u8> {
    let stream = store.get(key).await.unwrap().unwrap();
    let chunks: Vec<Bytes> = stream.try_collect().await.unwrap();
    chunks.concat()
}

#[tokio::test]
async fn of_many_creators_one_wins() {
    let s3 = S3::start();
    let store = s3.store();
    probe_conditional_writes(store.as_ref()).await.unwrap();
    assert_eq!(store.list("").await.unwrap(), [], "the probe cleans up");
    for round in 0..20 {
        let key = format!("control/epochs/{round}");
        let tries = (0..16).map(|n: u8| {
            let (store, key) = (store.clone(), key.clone());
            tokio::spawn(async move { (n, store.create(&key, Bytes::from(vec![n; 500])).await.unwrap()) })
        });
        let results = futures::future::try_join_all(tries).await.unwrap();
        let won: Vec<_> = results.iter().filter(|(_, c)| *c == Created::Created).collect();
        assert_eq!(won.len(), 1, "round {round}");
        for (n, created) in &results {
            assert!(*n == won[0].0 || *created == Created::Exists(Bytes::from(vec![won[0].0; 500])));
        }
    }
}

/// An increment may be larger than the usual limit of small objects. If another node wrote it first, `create`
/// returns its content like that of any existing object.
#[tokio::test]
async fn s33_what_another_has_written_first_may_be_large() {
    let (s3, dir) = (S3::start(), tempfile::tempdir().unwrap());
    let stores: [Arc<dyn ObjectStore>; 2] = [s3.store(), Arc::new(DirStore::new(dir.path()))];
    for store in stores {
        let (first, second) = (noise(5 << 20), noise((5 << 20) - 99));
        assert_eq!(store.create("x", first.clone()).await.unwrap(), Created::Created);
        // A server may answer before it has read the whole body, and then close the connection. The answer
        // can get lost, so repeat the call, as the agent does for an increment.
        let mut there = store.create("x", second.clone()).await;
        for _ in 0..20 {
            if !matches!(there, Err(PortError::OutcomeUnknown(_))) {
                break;
            }
            there = store.create("x", second.clone()).await;
        }
        assert!(
            there.unwrap() == Created::Exists(first),
            "the content is that of the first writer"
        );
        let error = store.create("x", Bytes::from_static(b"small")).await.unwrap_err();
        assert!(error.to_string().contains("larger than 1048576 bytes"), "{error}");
    }
}

#[tokio::test]
async fn s35_a_listing_has_more_than_a_thousand_objects() {
    let s3 = S3::start();
    let dir = s3.bucket().join("etcd/prod/many");
    fs::create_dir_all(&dir).unwrap();
    for n in 0..2345 {
        fs::write(dir.join(format!("{n:06}")), "x").unwrap();
    }
    fs::write(s3.bucket().join("etcd/prod-not"), "not ours").unwrap();
    let store = s3.store();
    let found = store.list("").await.unwrap();
    assert_eq!(found.len(), 2345);
    assert_eq!(found[2344].key, "many/002344");
    assert!(found.is_sorted_by(|a, b| a.key < b.key));
    assert_eq!(store.list("many/0012").await.unwrap().len(), 100);
    assert_eq!(store.list("none/").await.unwrap(), []);
}

#[tokio::test]
async fn s31_an_upload_is_there_when_it_is_complete_and_not_before() {
    let s3 = S3::start();
    let store = s3.store();
    let body = noise((20 << 20) + 7);
    let mut upload = store.upload("a/big").await.unwrap();
    let mut rest = body.clone();
    for size in [1, 7_000_000, 9 << 20, 100, 3_000_000] {
        upload.write(rest.split_to(size)).await.unwrap();
    }
    assert_eq!(store.list("").await.unwrap(), []);
    upload.write(rest).await.unwrap();
    upload.complete().await.unwrap();
    assert_eq!(read(store.as_ref(), "a/big").await, body);

    let mut upload = store.upload("a/small").await.unwrap();
    upload.write(body.slice(..1000)).await.unwrap();
    upload.complete().await.unwrap();
    store.upload("a/empty").await.unwrap().complete().await.unwrap();
    let sizes: Vec<_> = store
        .list("")
        .await
        .unwrap()
        .iter()
        .map(|o| o.size_bytes)
        .collect();
    assert_eq!(sizes, [body.len() as u64, 0, 1000]);

    let mut aborted = store.upload("b/aborted").await.unwrap();
    aborted.write(body.clone()).await.unwrap();
    aborted.abort().await.unwrap();
    assert_eq!(s3.parts(), Vec::<PathBuf>::new(), "after the abort");

    let mut dropped = store.upload("b/dropped").await.unwrap();
    dropped.write(body.clone()).await.unwrap();
    drop(dropped);
    for _ in 0..600 {
        tokio::time::sleep(Duration::from_millis(50)).await;
        if s3.parts().is_empty() {
            break;
        }
    }
    assert_eq!(s3.parts(), Vec::<PathBuf>::new(), "after the drop");
    assert_eq!(store.list("b/").await.unwrap(), []);
    assert_eq!(store.list("").await.unwrap().len(), 3);
    for key in ["a/big", "a/small", "a/empty", "a/never-was"] {
        store.delete(key).await.unwrap();
    }
    assert_eq!(store.list("").await.unwrap(), []);
}

#[tokio::test]
async fn s35_a_download_goes_on_over_connections_that_break() {
    let s3 = S3::start();
    let body = noise(20 << 20);
    s3.store().put("big", body.clone()).await.unwrap();
    let (address, connections) = cutting_proxy(s3.address(), 6 << 20).await;
    let store = open_store(&s3.settings(address, "labsecret-not-a-secret"));
    assert!(read(store.as_ref(), "big").await == body.as_ref());
    assert!(connections.load(Ordering::Relaxed) >= 4);
}

#[tokio::test]
async fn s35_wrong_credentials_are_named_and_not_shown() {
    let s3 = S3::start();
    let store = open_store(&s3.settings(s3.address(), "wrong-secret"));
    let mut upload = store.upload("x").await.unwrap();
    let errors = [
        store.list("").await.unwrap_err(),
        store.get_small("x").await.unwrap_err(),
        store.put("x", Bytes::new()).await.unwrap_err(),
        store.create("x", Bytes::new()).await.unwrap_err(),
        upload.write(noise(9 << 20)).await.unwrap_err(),
        backup::newest(store.as_ref(), &cluster(), || EVER)
            .await
            .unwrap_err(),
    ];
    for error in errors {
        assert!(matches!(error, PortError::Permanent(_)), "{error}");
        let text = error.to_string();
        assert!(text.contains("SignatureDoesNotMatch"), "{text}");
        assert!(
            text.contains("check the access key and its secret in store.credentials_file"),
            "{text}"
        );
        assert!(
            !text.contains("wrong-secret") && !text.contains("labaccess"),
            "{text}"
        );
        assert!(!text.contains('\n'), "{text}");
    }
}

#[tokio::test]
async fn s35_rotated_credentials_are_taken_up() {
    let s3 = S3::start();
    let settings = s3.settings(s3.address(), "wrong-secret");
    let store = open_store(&settings);
    assert!(store.list("").await.is_err());
    let right = s3
        .settings(s3.address(), "labsecret-not-a-secret")
        .credentials_file
        .unwrap();
    fs::copy(right, settings.credentials_file.unwrap()).unwrap();
    assert_eq!(store.list("").await.unwrap(), []);
}

#[tokio::test]
async fn a_store_that_is_down_is_an_error_that_may_pass() {
    let s3 = S3::start();
    let nobody = std::net::TcpListener::bind("127.0.0.1:0")
        .unwrap()
        .local_addr()
        .unwrap();
    let store = open_store(&s3.settings(nobody, "labsecret-not-a-secret"));
    let errors = [
        store.list("").await.unwrap_err(),
        backup::look_at_store(store.as_ref(), &cluster(), || EVER, &[])
            .await
            .unwrap_err(),
        store.create("x", Bytes::new()).await.unwrap_err(),
    ];
    for error in errors {
        assert!(matches!(error, PortError::Retryable(_)), "{error}");
        assert!(!error.to_string().contains('\n'), "{error}");
    }
}

#[tokio::test]
async fn an_epoch_is_recorded_once() {
    let s3 = S3::start();
    let store = s3.store();
    let genesis = |token: &str| Genesis {
        epoch: Epoch(1),
        cluster: cluster(),
        token: token.to_owned(),
        members: [].into(),
        origin: Origin::Empty,
        electorate: [].into(),
        cluster_id: ClusterId(1),
        created: UnixMs(5),
        former: Vec::new(),
        etcd: None,
    };
    let view = backup::look_at_store(store.as_ref(), &cluster(), || EVER, &[])
        .await
        .unwrap()
        .0;
    assert!(view.conditional_writes && view.genesis.is_none() && view.newest_backup.is_none());
    let first = backup::record_epoch(store.as_ref(), &cluster(), &genesis("a"))
        .await
        .unwrap();
    assert_eq!(first, Recorded::Created);
    let second = backup::record_epoch(store.as_ref(), &cluster(), &genesis("b"))
        .await
        .unwrap();
    assert_eq!(second, Recorded::Exists(Box::new(genesis("a"))));
    let view = backup::look_at_store(store.as_ref(), &cluster(), || EVER, &[])
        .await
        .unwrap()
        .0;
    assert_eq!(view.genesis, Some(genesis("a")));
    assert!(s3.bucket().join("etcd/prod/control/epochs/1").is_file());
}

/// Writes about 30 MB that do not compress, and one small key to check after the restore.
async fn fill(etcd: &RealEtcd) {
    let mut client = etcd_client::Client::connect([&etcd.url], None).await.unwrap();
    let body = noise(30 << 20);
    for (n, value) in body.chunks(1 << 20).enumerate() {
        client.put(format!("big/{n}"), value, None).await.unwrap();
    }
    client.put("last", "acknowledged", None).await.unwrap();
}

#[tokio::test]
async fn a_backup_of_each_etcd_is_restored_by_its_own_tools() {
    let s3 = S3::start();
    let store = s3.store();
    for (n, version) in ETCD_VERSIONS.iter().enumerate() {
        let etcd = RealEtcd::start(version);
        fill(&etcd).await;
        let taken = backup::take_full(&Client::of(&etcd).await, store.as_ref(), &meta(n as u64), |_| {})
            .await
            .unwrap();
        assert_eq!(taken.revision, Revision(32), "{version}");
        let newest = backup::newest(store.as_ref(), &cluster(), || EVER).await.unwrap();
        assert_eq!(newest, Some(taken.clone()));

        let restore = etcd.dir.path().join("restore");
        fs::create_dir(&restore).unwrap();
        let fetched = backup::fetch(store.as_ref(), &cluster(), &taken.id, &restore)
            .await
            .unwrap();
        let data = etcd.dir.path().join("restored");
        let (from, to) = (fetched.path.to_str().unwrap(), data.to_str().unwrap());
        etcd.utl(&["snapshot", "restore", from, "--data-dir", to]);
        let restored = etcd.serve(&data);
        assert_eq!(
            restored.ctl(&["get", "last", "--print-value-only"]).trim(),
            "acknowledged"
        );
        assert!(
            restored
                .ctl(&["get", "big/", "--prefix", "--count-only", "-w", "fields"])
                .contains("\"Count\" : 30")
        );

        by_hand(&s3, &etcd, taken.id.as_str(), &fs::read(&fetched.path).unwrap());
    }
}

/// Runs the commands of `docs/backup-format.md`.
fn by_hand(s3: &S3, etcd: &RealEtcd, id: &str, fetched: &[u8]) {
    let object = s3.bucket().join("etcd/prod").join(id).join("etcd.backup.zst");
    let db = etcd.dir.path().join("by-hand.db");
    let db = db.to_str().unwrap();
    let zstd = Cmd::new("zstd").args(["-d", object.to_str().unwrap(), "-o", db]);
    zstd.ok().unwrap();
    assert!(fs::read(db).unwrap() == fetched, "the files are equal");
    let status = etcd.utl(&["snapshot", "status", db, "-w", "json"]);
    assert!(status.contains("\"revision\":32"), "{status}");
    let data = etcd.dir.path().join("by-hand");
    let data = data.to_str().unwrap();
    let mut restore = vec!["snapshot", "restore", db, "--data-dir", data];
    restore.extend(["--name", "n1", "--initial-cluster", "n1=https://n1:2380"]);
    restore.extend(["--initial-cluster-token", "restored-by-hand"]);
    restore.extend(["--initial-advertise-peer-urls", "https://n1:2380"]);
    restore.extend(["--bump-revision", "1000000000", "--mark-compacted"]);
    etcd.utl(&restore);
}

#[tokio::test]
async fn s31_a_stream_that_is_cut_off_leaves_nothing_in_the_store() {
    let s3 = S3::start();
    let store = s3.store();
    let etcd = RealEtcd::start(ETCD_VERSIONS[0]);
    fill(&etcd).await;
    let mut client = Client::of(&etcd).await;
    for chunks in [0, 1, 100, 900] {
        client.cut = Some(chunks);
        let error = backup::take_full(&client, store.as_ref(), &meta(1), |_| {})
            .await
            .unwrap_err();
        assert!(matches!(error, PortError::Retryable(_)), "{error}");
        assert_eq!(store.list("").await.unwrap(), [], "{chunks}");
        assert_eq!(s3.parts(), Vec::<PathBuf>::new(), "{chunks}");
    }
}

/// `etcd-agent spec set` replaces the size only if the writer has read the current one. It keeps the other
/// fields that etcd-manager wrote.
#[tokio::test]
async fn a_wanted_size_is_replaced_only_where_it_is_what_was_read() {
    for kind in Kind::ALL {
        let s3 = AnyS3::start(kind).await;
        let store = open_store(&s3.settings());
        // The store's path already ends in the cluster's name.
        let key = "control/etcd-cluster-spec";
        assert_eq!(
            backup::wanted_size(store.as_ref(), &cluster()).await.unwrap(),
            Fact::Absent
        );
        let done = |before| Written::Done { before };
        let want = |size| {
            let store = store.clone();
            async move { backup::want_size(store.as_ref(), &cluster(), size).await.unwrap() }
        };
        assert_eq!(want(3).await, done(None));
        assert_eq!(want(3).await, Written::Same);
        let theirs = Bytes::from_static(br#"{"etcdVersion":"3.5.16","member_count":3}"#);
        store.put(key, theirs).await.unwrap();
        let (_, old) = store.get_tagged(key).await.unwrap().unwrap();
        assert_eq!(want(5).await, done(Some(3)));
        assert_eq!(
            read(store.as_ref(), key).await,
            br#"{"etcdVersion":"3.5.16","memberCount":5}"#
        );
        // A writer that read the older version changes nothing. The same is true below, after the object was
        // deleted.
        let late = store
            .replace(key, Bytes::from_static(b"late"), &old)
            .await
            .unwrap();
        assert_eq!(late, Replaced::Changed);
        let view = backup::look_at_store(store.as_ref(), &cluster(), || EVER, &[])
            .await
            .unwrap()
            .0;
        assert_eq!(view.size, Fact::Known(5));
        for round in 0..10 {
            let tries = [1, 3, 7, 9].map(|size| tokio::spawn(want(size)));
            let mut done: Vec<_> = Vec::new();
            for (task, size) in tries.into_iter().zip([1, 3, 7, 9]) {
                if let Written::Done { before } = task.await.unwrap() {
                    done.push((before, size));
                }
            }
            let mut last = Some(5);
            while let Some(next) = done.iter().position(|(before, _)| *before == last) {
                last = Some(done.swap_remove(next).1);
            }
            assert!(
                done.is_empty(),
                "{kind:?}, round {round}: overwritten without a read: {done:?}"
            );
            let now = backup::wanted_size(store.as_ref(), &cluster()).await.unwrap();
            assert_eq!(now, Fact::Known(last.unwrap()), "{kind:?}, round {round}");
            want(5).await;
        }
        store.delete(key).await.unwrap();
        let late = store
            .replace(key, Bytes::from_static(b"late"), &old)
            .await
            .unwrap();
        assert_eq!(late, Replaced::Changed);
        assert_eq!(
            store.list("").await.unwrap(),
            [],
            "{kind:?}: the test left no objects"
        );
    }
}
