//! Tests the second store on real servers.

use etcd_agent::adapters::store::open_store;
use etcd_agent::backup::{self, BackupMeta, copy_missing};
use etcd_agent::model::{ClusterName, Epoch, NodeName, UnixMs};
use etcd_agent_lab::{ETCD_VERSIONS, Fault, Faults};
use etcd_agent_store_tests::{AnyS3, Client, EVER, Kind, RealEtcd, noise};

#[tokio::test]
async fn a_backup_is_copied_to_another_server_and_fetched_from_there() {
    let (first, second) = (
        AnyS3::start(Kind::Versitygw).await,
        AnyS3::start(Kind::Minio).await,
    );
    let cluster = ClusterName::new("prod").unwrap();
    let etcd = RealEtcd::start(ETCD_VERSIONS[1]);
    let mut client = etcd_client::Client::connect([&etcd.url], None).await.unwrap();
    for (n, value) in noise(12 << 20).chunks(1 << 20).enumerate() {
        client.put(format!("big/{n}"), value, None).await.unwrap();
    }
    let meta = BackupMeta {
        cluster: cluster.clone(),
        epoch: Epoch(1),
        cluster_id: None,
        node: NodeName::new("n1").unwrap(),
        started_at: UnixMs(1_772_337_906_000),
        seq: 1,
        ordered: false,
    };
    let from = first.store();
    let taken = backup::take_full(&Client::of(&etcd).await, from.as_ref(), &meta, |_| {})
        .await
        .unwrap();

    // The second store accepts the data and then fails, so it contains no backup.
    let failing = Faults::before(second.address(), |_, (method, path)| {
        if method == "PUT" && path.contains("backup.json") {
            Fault::slow_down()
        } else {
            Fault::Pass
        }
    })
    .await
    .unwrap();
    let to = open_store(&second.settings_at(failing.address()));
    assert!(copy_missing(from.as_ref(), to.as_ref(), &cluster).await.is_err());
    assert_eq!(
        backup::newest(to.as_ref(), &cluster, || EVER).await.unwrap(),
        None
    );

    let to = second.store();
    let copied = copy_missing(from.as_ref(), to.as_ref(), &cluster).await.unwrap();
    assert_eq!(copied.backups, std::slice::from_ref(&taken.id));
    // Data that the failed round sent is not sent again.
    assert!(copied.bytes < 100_000, "{copied:?}");
    assert_eq!(
        backup::newest(to.as_ref(), &cluster, || EVER).await.unwrap(),
        Some(taken.clone())
    );
    let again = copy_missing(from.as_ref(), to.as_ref(), &cluster).await.unwrap();
    assert_eq!((again.bytes, again.newest), (0, Some(taken.id.clone())));

    let places = [first.dir().join("fetched"), second.dir().join("fetched")];
    let mut fetched = Vec::new();
    for (store, place) in [from, to].iter().zip(&places) {
        std::fs::create_dir(place).unwrap();
        let snapshot = backup::fetch(store.as_ref(), &cluster, &taken.id, place)
            .await
            .unwrap();
        fetched.push((snapshot.sha256, snapshot.size_bytes));
    }
    assert_eq!(fetched[0], fetched[1]);
}
