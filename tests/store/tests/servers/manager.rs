//! Compatibility with etcd-manager's store. The agent lists, verifies and restores etcd-manager's backups,
//! and writes backups that etcd-manager can read.

use std::fs;
use std::io::{Read, Write};
use std::sync::Arc;

use bytes::Bytes;
use etcd_agent::adapters::store::open_store;
use etcd_agent::backup::{self, BackupMeta, Format, Written};
use etcd_agent::config::StoreUrl;
use etcd_agent::model::{
    BackupFormat, BackupId, ClusterName, Epoch, Fact, NodeName, UnixMs, Verified, Writer,
};
use etcd_agent::model::{Keep, Retention};
use etcd_agent::plan;
use etcd_agent::ports::ObjectStore;
use etcd_agent_lab::ETCD_VERSIONS;
use etcd_agent_store_tests::{AnyS3, EVER, Kind, RealEtcd, call, verify_with};
use serde_json::{Value, json};

const NOW: UnixMs = UnixMs(1_772_337_906_000);

fn cluster(name: &str) -> ClusterName {
    ClusterName::new(name).unwrap()
}

fn node() -> NodeName {
    NodeName::new("n1").unwrap()
}

/// Verifies a backup and returns the number of its keys.
async fn keys(store: &dyn ObjectStore, cluster: &ClusterName, id: &BackupId, etcd: &RealEtcd) -> Option<u64> {
    let found = verify_with(store, cluster, id, &etcd.bin, &etcd.member())
        .await
        .unwrap();
    assert!(found.ok, "{:?}", found.problems);
    found.fingerprint?.keys
}

/// Restores a snapshot with etcd's own tool and starts an etcd on it.
fn restored(etcd: &RealEtcd, snapshot: &[u8], name: &str) -> RealEtcd {
    let file = etcd.dir.path().join(format!("{name}.db"));
    let data = etcd.dir.path().join(name);
    fs::write(&file, snapshot).unwrap();
    let (file, dir) = (file.to_str().unwrap(), data.to_str().unwrap());
    etcd.utl(&["snapshot", "restore", file, "--data-dir", dir]);
    etcd.serve(&data)
}

async fn object(store: &dyn ObjectStore, key: &str) -> Bytes {
    let found = store.get_small(key).await.unwrap();
    found.unwrap_or_else(|| panic!("there is no {key}"))
}

fn gunzip(packed: &[u8]) -> Vec<u8> {
    let mut snapshot = Vec::new();
    let mut decoder = flate2::read::GzDecoder::new(packed);
    decoder.read_to_end(&mut snapshot).unwrap();
    snapshot
}

#[tokio::test]
async fn what_is_written_in_its_form_is_what_etcd_manager_reads() {
    let prod = cluster("prod");
    for kind in Kind::ALL {
        let s3 = AnyS3::start(kind).await;
        let store = s3.store();
        for (seq, version) in (0..).zip(ETCD_VERSIONS) {
            let etcd = RealEtcd::start(version);
            etcd.ctl(&["put", "a", "b"]);
            let meta = BackupMeta {
                cluster: prod.clone(),
                epoch: Epoch(1),
                cluster_id: None,
                node: node(),
                started_at: NOW,
                seq,
                ordered: false,
            };
            let member = etcd.member();
            let format = Format::of(BackupFormat::EtcdManager, 3);
            let taken = backup::take_full_as(&member, store.as_ref(), &meta, format, |_| {})
                .await
                .unwrap();

            // The steps of etcd-manager: read the marker, which must have only known fields; gunzip; restore.
            let marker = object(store.as_ref(), &format!("{}/_etcd_backup.meta", taken.id)).await;
            let expected = json!({
                "etcdVersion": version,
                "timestamp": "1772337906",
                "clusterSpec": {"memberCount": 3, "etcdVersion": version},
            });
            assert_eq!(serde_json::from_slice::<Value>(&marker).unwrap(), expected);
            let created = object(store.as_ref(), "control/etcd-cluster-created").await;
            assert!(created.starts_with(b"{\"timestamp\":1772337906"), "{created:?}");
            let packed = object(store.as_ref(), &format!("{}/etcd.backup.gz", taken.id)).await;
            let by_hand = restored(&etcd, &gunzip(&packed), "by-hand");
            assert_eq!(by_hand.ctl(&["get", "a", "--print-value-only"]).trim(), "b");

            assert_eq!(keys(store.as_ref(), &prod, &taken.id, &etcd).await, Some(1));
        }
        // The agent recognizes these backups as its own: retention may remove them completely.
        let listed = backup::list(store.as_ref(), &prod).await.unwrap().backups;
        assert_eq!(listed.len(), ETCD_VERSIONS.len());
        for stored in &listed {
            assert_eq!(stored.writer, Writer::EtcdAgent);
            assert!(stored.verified.as_ref().is_some_and(Verified::is_ok));
        }
        let ids: Vec<_> = listed.into_iter().map(|stored| stored.summary.id).collect();
        backup::remove(store.as_ref(), &prod, &ids, || call(NOW))
            .await
            .unwrap();
        let left = store.list("").await.unwrap();
        let left: Vec<_> = left.iter().map(|object| object.key.as_str()).collect();
        assert_eq!(left, ["control/etcd-cluster-created"], "{kind:?}");
    }
}

/// A store like that of kops. Its path ends in the name of the etcd cluster, `main`.
fn kops(s3: &AnyS3) -> Arc<dyn ObjectStore> {
    let mut settings = s3.settings();
    settings.url = StoreUrl::S3 {
        bucket: "backups".to_owned(),
        prefix: "clusters.example.org/backups/etcd/main".to_owned(),
    };
    open_store(&settings)
}

const BACKUPS: [(&str, &str, u64); 2] = [
    (
        "2023-11-14T22:13:20Z-000001",
        "{\n  \"etcdVersion\":  \"3.5.7\",\n  \"timestamp\":  \"1700000000\",\n  \"clusterSpec\":  {\n    \"memberCount\":  3,\n    \"etcdVersion\":  \"3.5.7\"\n  }\n}",
        1_700_000_000_000,
    ),
    (
        "2023-11-14T22:28:20Z-000002",
        r#"{"etcd_version":"3.5.7","timestamp":1700000900,"cluster_spec":{"member_count":3,"etcd_version":"3.5.7"}}"#,
        1_700_000_900_000,
    ),
];
const COMMAND: &str = "2023-11-14T23:00:00Z-000000";

/// Writes the objects that etcd-manager leaves in a store, in the formats of its different versions.
async fn fill(store: &dyn ObjectStore, snapshot: &[u8]) {
    let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
    gzip.write_all(snapshot).unwrap();
    let packed = Bytes::from(gzip.finish().unwrap());
    let command = format!(
        r#"{{"timestamp":"1700002800000000000","restoreBackup":{{"clusterSpec":{{"memberCount":1,"etcdVersion":"3.5.7"}},"backup":"{}"}}}}"#,
        BACKUPS[0].0
    );
    let spec = "{\n  \"memberCount\":  3,\n  \"etcdVersion\":  \"3.5.7\"\n}";
    let mut objects: Vec<(String, Bytes)> = vec![
        (format!("control/{COMMAND}/_command.json"), command.into()),
        (
            "control/etcd-cluster-created".to_owned(),
            r#"{"timestamp":1699990000000000000}"#.into(),
        ),
        ("control/etcd-cluster-spec".to_owned(), spec.into()),
    ];
    for (name, marker, _) in BACKUPS {
        objects.push((format!("{name}/etcd.backup.gz"), packed.clone()));
        objects.push((format!("{name}/_etcd_backup.meta"), marker.into()));
    }
    for (key, body) in objects {
        store.put(&key, body).await.unwrap();
    }
}

#[tokio::test]
async fn a_store_that_etcd_manager_wrote_is_listed_verified_and_restored() {
    let main = cluster("main");
    for (kind, version) in [
        (Kind::Versitygw, ETCD_VERSIONS[0]),
        (Kind::Minio, ETCD_VERSIONS[1]),
        (Kind::Versitygw, ETCD_VERSIONS[2]),
    ] {
        let s3 = AnyS3::start(kind).await;
        let store = kops(&s3);
        let store = store.as_ref();
        let etcd = RealEtcd::start(version);
        for n in 0..5 {
            etcd.ctl(&["put", &format!("k{n}"), "v"]);
        }
        let file = etcd.dir.path().join("snapshot.db");
        etcd.ctl(&["snapshot", "save", file.to_str().unwrap()]);
        let snapshot = fs::read(&file).unwrap();
        fill(store, &snapshot).await;

        let listed = backup::list(store, &main).await.unwrap();
        assert_eq!(listed.unreadable, []);
        let found: Vec<_> = listed
            .backups
            .iter()
            .map(|stored| (stored.summary.id.as_str(), stored.summary.at.0, stored.writer))
            .collect();
        assert_eq!(
            found,
            BACKUPS.map(|(name, _, at)| (name, at, Writer::EtcdManager))
        );
        for stored in &listed.backups {
            let id = &stored.summary.id;
            assert_eq!(keys(store, &main, id, &etcd).await, Some(5));
            // A fetch returns the same bytes that etcd sent.
            let work = tempfile::tempdir().unwrap();
            let fetched = backup::fetch(store, &main, id, work.path()).await.unwrap();
            assert_eq!(fetched.etcd_version, "3.5.7");
            assert!(fs::read(&fetched.path).unwrap() == snapshot);
        }
        let again = restored(&etcd, &snapshot, "again");
        let all = ["get", "k", "--prefix"];
        assert_eq!(again.ctl(&all), etcd.ctl(&all), "etcd {version}");
    }
}

#[tokio::test]
async fn its_marker_spec_and_commands_are_read_and_written_in_place() {
    let main = cluster("main");
    for kind in Kind::ALL {
        let s3 = AnyS3::start(kind).await;
        let store = kops(&s3);
        let store = store.as_ref();
        // A spec alone is no trace of a cluster: kops writes it before the cluster exists.
        let spec = "control/etcd-cluster-spec";
        store.put(spec, Bytes::from_static(b"{}")).await.unwrap();
        assert_eq!(
            backup::look_at_store(store, &main, || EVER, &[])
                .await
                .unwrap()
                .0
                .trace,
            None
        );

        fill(store, b"not looked at here").await;
        let view = backup::look_at_store(store, &main, || EVER, &[]).await.unwrap().0;
        assert_eq!(view.genesis, None);
        assert_eq!(view.trace.as_deref(), Some("control/etcd-cluster-created"));
        assert_eq!(view.size, Fact::Known(3));
        assert_eq!(view.commands, [COMMAND]);

        let written = backup::want_size(store, &main, 5).await.unwrap();
        assert_eq!(written, Written::Done { before: Some(3) });
        let now: Value = serde_json::from_slice(&object(store, spec).await).unwrap();
        assert_eq!(now, json!({"memberCount": 5, "etcdVersion": "3.5.7"}));

        let commands = backup::commands(store, &main).await.unwrap();
        assert_eq!(commands.len(), 1);
        assert_eq!(commands[0].at, Some(UnixMs(1_700_002_800_000)));
        assert_eq!(
            commands[0].restore.as_ref().map(BackupId::as_str),
            Some(BACKUPS[0].0)
        );
        let delete = async |name: &str| backup::delete_command(store, &main, name).await.unwrap();
        assert!(!delete("etcd-cluster-created").await);
        assert!(!delete("../2023-11-14T22:13:20Z-000001").await);
        assert!(delete(COMMAND).await);
        assert!(!delete(COMMAND).await);
        assert_eq!(backup::commands(store, &main).await.unwrap(), []);

        // Retention never removes etcd-manager's backups. Only the command was deleted.
        let retention = Retention {
            recent: std::time::Duration::ZERO,
            count: 1,
            ..Retention::default()
        };
        let listed = backup::list(store, &main).await.unwrap().backups;
        let verdicts = plan::judge(&listed, NOW, &retention);
        assert!(
            verdicts
                .iter()
                .all(|verdict| verdict.keep.contains(&Keep::NotOurs))
        );
        backup::remove(store, &main, &[], || call(NOW)).await.unwrap();
        assert_eq!(store.list("").await.unwrap().len(), 6, "{kind:?}");
    }
}
