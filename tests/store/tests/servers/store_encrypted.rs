//! Encrypted backups of a real etcd, decrypted by the agent and by hand.

use std::fs;

use etcd_agent::adapters::store::{open_backups, open_store};
use etcd_agent::backup::{self, BackupMeta, copy_missing};
use etcd_agent::model::{ClusterName, Epoch, NodeName, UnixMs};
use etcd_agent::ports::PortError;
use etcd_agent_lab::{Cmd, ETCD_VERSIONS, age_program};
use etcd_agent_store_tests::{AgeKeys, AnyS3, Kind, RealEtcd};

#[tokio::test]
async fn an_encrypted_backup_is_opened_with_its_identity_and_not_without() {
    let s3 = AnyS3::start(Kind::Versitygw).await;
    let place = s3.dir();
    let keys = AgeKeys::make(&place);

    let cluster = ClusterName::new("prod").unwrap();
    let etcd = RealEtcd::start(ETCD_VERSIONS[1]);
    etcd.ctl(&["put", "secret-key", "secret-value"]);
    let meta = BackupMeta {
        cluster: cluster.clone(),
        epoch: Epoch(1),
        cluster_id: None,
        node: NodeName::new("n1").unwrap(),
        started_at: UnixMs(1_772_337_906_000),
        seq: 1,
        ordered: false,
    };
    let writer = open_backups(&s3.settings(), &keys.only_write).unwrap();
    let member = etcd.member();
    let taken = backup::take_full(&member, writer.as_ref(), &meta, |_| {})
        .await
        .unwrap();
    let listed = backup::list(writer.as_ref(), &cluster).await.unwrap();
    let [listed] = listed.backups.as_slice() else {
        panic!("{listed:?}")
    };
    assert_eq!(listed.summary, taken);

    // Only the names and the content of backup.json are readable.
    let data = place.join("data/backups/etcd/prod").join(taken.id.as_str());
    let mut names: Vec<_> = fs::read_dir(&data)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    assert_eq!(names, ["backup.json", "etcd.backup.zst.age"]);
    let manifest: serde_json::Value =
        serde_json::from_slice(&fs::read(data.join("backup.json")).unwrap()).unwrap();
    assert_eq!(manifest["encryption"], "age");

    // Without an identity, the error says what is missing, and no file is left in the directory.
    let restore = place.join("restore");
    fs::create_dir(&restore).unwrap();
    let error = backup::fetch(writer.as_ref(), &cluster, &taken.id, &restore)
        .await
        .unwrap_err();
    assert!(matches!(error, PortError::Permanent(_)), "{error}");
    assert!(error.to_string().contains("set restore.identity_file"), "{error}");
    assert_eq!(fs::read_dir(&restore).unwrap().count(), 0);

    // With an identity, the backup can be read, and also its copy in another store. Making the copy needs no
    // identity.
    let copies = place.join("copies");
    fs::create_dir(&copies).unwrap();
    let mut settings = s3.settings();
    settings.url = etcd_agent::config::StoreUrl::Directory(copies);
    copy_missing(
        open_store(&s3.settings()).as_ref(),
        open_store(&settings).as_ref(),
        &cluster,
    )
    .await
    .unwrap();
    let mut snapshots = Vec::new();
    for settings in [s3.settings(), settings] {
        let reader = open_backups(&settings, &keys.only_read).unwrap();
        let fetched = backup::fetch(reader.as_ref(), &cluster, &taken.id, &restore)
            .await
            .unwrap();
        snapshots.push(fs::read(&fetched.path).unwrap());
        let to = place.join(format!("restored-{}", snapshots.len()));
        let (from, to) = (fetched.path.to_str().unwrap(), to.to_str().unwrap());
        etcd.utl(&["snapshot", "restore", from, "--data-dir", to]);
    }
    assert!(snapshots[0] == snapshots[1]);

    // Decrypt by hand, as described in docs/backup-format.md.
    let (zst, db) = (place.join("etcd.backup.zst"), place.join("snapshot.db"));
    let age = Cmd::new(age_program().unwrap())
        .arg("-d")
        .arg("-i")
        .arg(&keys.identity_file);
    let age = age.arg("-o").arg(&zst).arg(data.join("etcd.backup.zst.age"));
    age.ok().unwrap();
    Cmd::new("zstd")
        .arg("-d")
        .arg(&zst)
        .arg("-o")
        .arg(&db)
        .ok()
        .unwrap();
    assert!(fs::read(&db).unwrap() == snapshots[0]);
}
