//! Restores backups into a real etcd and compares them with their recorded fingerprint.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use etcd_agent::adapters::dir::DirStore;
use etcd_agent::adapters::etcd::LocalEtcd;
use etcd_agent::backup::{self, Verification};
use etcd_agent::model::{BackupId, Revision};
use etcd_agent::ports::ObjectStore;
use etcd_agent_lab::{ETCD_VERSIONS, wait_until};
use etcd_agent_store_tests::{Follower, LONG, RealEtcd, S3, cluster, full, revision, verify, verify_with};
use etcd_client::PutOptions;

async fn back_up(etcd: &RealEtcd, store: &dyn ObjectStore, seq: u64) -> BackupId {
    full(etcd, store, seq).await.id
}

fn fill(etcd: &RealEtcd, keys: usize) {
    for n in 0..keys {
        etcd.ctl(&["put", &format!("key-{n:03}"), &"value ".repeat(n + 1)]);
    }
    etcd.ctl(&["del", "key-001"]);
}

#[tokio::test]
async fn s44_each_backup_is_verified_by_a_real_restore() {
    let s3 = S3::start();
    let store = s3.store();
    for (n, version) in (0..).zip(ETCD_VERSIONS) {
        let etcd = RealEtcd::start(version);
        fill(&etcd, 30);
        let id = back_up(&etcd, store.as_ref(), n).await;
        let found = verify(store.as_ref(), &id, &etcd).await.unwrap();
        assert_eq!(found.problems, Vec::<String>::new(), "etcd {version}");
        assert_eq!(
            found.compared,
            ["sha256", "revision", "keys", "hash"],
            "etcd {version}"
        );
        assert_eq!(found.fingerprint.unwrap().keys, Some(29));
        assert_eq!(found.etcd_version.as_deref(), Some(*version));
        let beside = s3.bucket().join(format!("etcd/prod/{id}/verify.json"));
        let beside = Verification::parse(&id, &fs::read(beside).unwrap());
        assert_eq!(beside.as_ref(), Some(&found), "etcd {version}");
    }
}

/// Follows etcd until the increments of this backup cover its current revision.
async fn cover(etcd: &RealEtcd, store: &Arc<dyn ObjectStore>, id: &BackupId) -> Revision {
    let until = revision(etcd).await;
    let mut follower = Follower::start(etcd, store, id, "n1");
    follower.reaches(until).await;
    follower.ends().await;
    until
}

#[tokio::test]
async fn s44_increments_are_verified_on_top_of_their_full() {
    let all = [
        "sha256",
        "revision",
        "keys",
        "hash",
        "increments",
        "increment-keys",
        "increment-hash",
    ];
    let s3 = S3::start();
    let store = s3.store();
    for (n, version) in (0..).zip(ETCD_VERSIONS) {
        let etcd = RealEtcd::start(version);
        fill(&etcd, 10);
        let id = back_up(&etcd, store.as_ref(), 10 * n).await;
        etcd.ctl(&["put", "later", "than the full"]);
        etcd.ctl(&["del", "key-002"]);
        cover(&etcd, &store, &id).await;
        etcd.ctl(&["put", "latest", "x"]);
        let covered = cover(&etcd, &store, &id).await;
        etcd.ctl(&["put", "not", "covered"]);
        let found = verify(store.as_ref(), &id, &etcd).await.unwrap();
        assert_eq!(found.problems, Vec::<String>::new(), "etcd {version}");
        assert_eq!(found.compared, all, "etcd {version}");
        assert_eq!(found.increments_to, Some(covered), "etcd {version}");
        assert!(
            found.text().contains(&format!("lead to {covered}")),
            "{}",
            found.text()
        );
        // The fingerprint counts the keys of the full backup, without those of the increments.
        assert_eq!(found.fingerprint.unwrap().keys, Some(9));

        // If the cluster does not answer, the increments are compared with the fingerprint of the next full
        // backup.
        let next = back_up(&etcd, store.as_ref(), 10 * n + 1).await;
        cover(&etcd, &store, &id).await;
        let bin = etcd.bin.clone();
        let silent = LocalEtcd::at_url("http://127.0.0.1:1", None).unwrap();
        drop(etcd);
        let found = verify_with(store.as_ref(), &cluster(), &id, &bin, &silent)
            .await
            .unwrap();
        assert!(found.ok, "{:?}", found.problems);
        assert_eq!(found.compared, all, "etcd {version}");
        let marker = s3.bucket().join(format!("etcd/prod/{next}/backup.json"));
        let text = fs::read_to_string(&marker).unwrap();
        fs::write(&marker, text.replacen("\"keys\": 11", "\"keys\": 12", 1)).unwrap();
        let found = verify_with(store.as_ref(), &cluster(), &id, &bin, &silent)
            .await
            .unwrap();
        assert!(
            !found.ok && found.problems[0].contains("holds 11 keys"),
            "{:?}",
            found.problems
        );

        // If one increment is damaged, the verification fails and names it.
        let increments = s3.bucket().join(format!("etcd/prod/{id}/increments"));
        let one = fs::read_dir(increments).unwrap().next().unwrap().unwrap().path();
        let bytes = fs::read(&one).unwrap();
        fs::write(&one, &bytes[..bytes.len() - 5]).unwrap();
        let found = verify_with(store.as_ref(), &cluster(), &id, &bin, &silent)
            .await
            .unwrap();
        let name = one.file_name().unwrap().to_str().unwrap();
        assert!(
            !found.ok && found.problems[0].contains(name),
            "{:?}",
            found.problems
        );
    }
}

#[tokio::test]
async fn s44_compaction_and_leases_do_not_make_a_good_backup_look_bad() {
    let dir = tempfile::tempdir().unwrap();
    let store = DirStore::new(dir.path());
    let etcd = RealEtcd::start(ETCD_VERSIONS[0]);
    fill(&etcd, 20);
    etcd.ctl(&["compaction", "10"]);
    let leased = || etcd.ctl(&["get", "leased", "--keys-only"]).contains("leased");
    // The lease must outlive the backup, even on a slow machine. Double its TTL until it does.
    let mut client = etcd_client::Client::connect([&etcd.url], None).await.unwrap();
    let mut ttl_s = 2;
    let id = loop {
        let lease = client.lease_grant(ttl_s, None).await.unwrap().id();
        let options = PutOptions::new().with_lease(lease);
        let put = client.put("leased", "x", Some(options)).await;
        let id = back_up(&etcd, &store, ttl_s.unsigned_abs()).await;
        if put.is_ok() && leased() {
            break id;
        }
        ttl_s *= 2;
    };
    // The lease has expired in the member, and also for a restored etcd.
    wait_until("the lease to be over", LONG, || Ok(!leased())).unwrap();
    let found = verify(&store, &id, &etcd).await.unwrap();
    assert!(found.ok, "{:?}", found.problems);
    assert_eq!(found.fingerprint.unwrap().keys, Some(20));
}

/// The recorded fingerprint does not match the content of an intact snapshot. Checksums alone cannot detect
/// this.
#[tokio::test]
async fn s44_what_is_wrong_with_a_backup_is_named() {
    let dir = tempfile::tempdir().unwrap();
    let store = DirStore::new(dir.path());
    let etcd = RealEtcd::start(ETCD_VERSIONS[1]);
    fill(&etcd, 20);
    let good = back_up(&etcd, &store, 1).await;
    let at = |id: &BackupId, file: &str| -> PathBuf { dir.path().join(format!("prod/{id}/{file}")) };
    let marker = fs::read_to_string(at(&good, "backup.json")).unwrap();
    let manifest: backup::Manifest = serde_json::from_str(&marker).unwrap();
    let print = manifest.fingerprint.expect("recorded when it was taken");
    assert!(print.hash.is_some() && print.keys == Some(19));

    let bad = |from: String, to: String| {
        let text = marker.replacen(&from, &to, 1);
        assert_ne!(text, marker, "{from}");
        fs::write(at(&good, "backup.json"), text).unwrap();
    };
    bad("\"keys\": 19".to_owned(), "\"keys\": 23".to_owned());
    let found = verify(&store, &good, &etcd).await.unwrap();
    assert!(
        !found.ok && found.problems[0].contains("19 keys"),
        "{:?}",
        found.problems
    );

    bad(
        format!("\"hash\": {}", print.hash.unwrap().hash),
        "\"hash\": 1".to_owned(),
    );
    let found = verify(&store, &good, &etcd).await.unwrap();
    assert!(
        !found.ok && found.problems[0].contains("hash to"),
        "{:?}",
        found.problems
    );

    let object = at(&good, "etcd.backup.zst");
    let whole = fs::read(&object).unwrap();
    fs::write(at(&good, "backup.json"), &marker).unwrap();
    fs::write(&object, &whole[..whole.len() - 9]).unwrap();
    let found = verify(&store, &good, &etcd).await.unwrap();
    assert!(
        !found.ok && found.problems[0].contains("damaged"),
        "{:?}",
        found.problems
    );

    // A database with a correct hash that no etcd can open.
    let found = verify(&store, &broken(dir.path()), &etcd).await.unwrap();
    assert!(
        !found.ok && found.problems[0].contains("cannot be restored"),
        "{:?}",
        found.problems
    );

    fs::write(&object, &whole).unwrap();
    assert!(verify(&store, &good, &etcd).await.unwrap().ok);
    let live = etcd.member();
    let nowhere = verify_with(&store, &cluster(), &good, Path::new("/nowhere"), &live)
        .await
        .unwrap_err();
    assert!(nowhere.to_string().contains("etcdutl"), "{nowhere}");
}

/// A backup in etcd-manager's format whose database is all zeros, followed by the correct hash.
fn broken(store: &Path) -> BackupId {
    let id = BackupId::new("2026-03-01T04:05:06Z-000777").unwrap();
    let dir = store.join(format!("prod/{id}"));
    fs::create_dir_all(&dir).unwrap();
    let mut bytes = vec![0; 32 * 1024];
    bytes.extend_from_slice(&<sha2::Sha256 as sha2::Digest>::digest(&bytes));
    let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    std::io::Write::write_all(&mut gzip, &bytes).unwrap();
    fs::write(dir.join("etcd.backup.gz"), gzip.finish().unwrap()).unwrap();
    fs::write(
        dir.join("_etcd_backup.meta"),
        r#"{"etcdVersion":"3.6.16","timestamp":"1772337906"}"#,
    )
    .unwrap();
    id
}
