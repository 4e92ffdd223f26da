//! Full backups, increments, verification, retention and restore over a bad network: it is slow, cuts
//! connections, loses answers and returns 503. These are S28, S30, S31, S33, S35, S43 and S44 on each S3
//! server and each etcd.

use std::sync::Arc;
use std::time::Duration;

use etcd_agent::adapters::clock::SystemClock;
use etcd_agent::adapters::store::open_store;
use etcd_agent::backup;
use etcd_agent::model::{BackupSummary, RestoreTarget, Retention, Revision};
use etcd_agent::plan::judge;
use etcd_agent::ports::{Clock, ObjectStore, PortError, PortResult};
use etcd_agent_lab::{ETCD_VERSIONS, Faults, bad_weather};
use etcd_agent_store_tests::{
    AnyS3, Client, Follower, Kind, RealEtcd, call, change, cluster, hash, meta, noise, restored, revision,
    state, verify,
};

/// Repeats the whole work after a retryable error, like the agent.
async fn again<T>(what: &str, work: impl AsyncFn() -> PortResult<T>) -> T {
    for _ in 0..10 {
        match work().await {
            Ok(done) => return done,
            Err(PortError::Permanent(why)) => panic!("{what}: {why}"),
            Err(why) => eprintln!("{what}: {why}"),
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    panic!("{what}: failed ten times");
}

async fn full(etcd: &RealEtcd, store: &Arc<dyn ObjectStore>, seq: u64) -> BackupSummary {
    again("a full backup", async || {
        backup::take_full(&etcd.member(), store.as_ref(), &meta(seq), |_| {}).await
    })
    .await
}

/// Checks that a restore over the bad network has the same data as etcd at this revision.
async fn same(etcd: &RealEtcd, store: &Arc<dyn ObjectStore>, wanted: RestoreTarget, at: Revision) {
    let point = again("finding a point", async || {
        backup::find(store.as_ref(), &cluster(), None, wanted).await
    })
    .await;
    assert_eq!(point.revision, at, "{wanted:?}");
    let back = restored(etcd, store.as_ref(), &point).await;
    assert_eq!(state(&back, None).await, state(etcd, Some(at)).await, "at {at}");
    assert_eq!(hash(&back, at), hash(etcd, at), "at {at}");
}

async fn backups(store: &dyn ObjectStore) -> Vec<String> {
    let found = backup::list(store, &cluster()).await.unwrap();
    assert_eq!(found.unreadable, [], "nothing is damaged");
    let ids = found.backups.iter().map(|one| one.summary.id.as_str().to_owned());
    ids.collect()
}

async fn through(s3: &AnyS3, version: &str) {
    let calm = s3.store();
    let bad = Faults::before(s3.address(), bad_weather).await.unwrap();
    let store = open_store(&s3.settings_at(bad.address()));
    let etcd = RealEtcd::start(version);
    let mut client = etcd_client::Client::connect([&etcd.url], None).await.unwrap();
    // Enough data for several parts of an upload.
    for _ in 0..20 {
        client.put("large", noise(1 << 20).to_vec(), None).await.unwrap();
    }
    change(&mut client, 1).await;

    // A stream that ends early leaves no backup. A complete stream leaves exactly one.
    let mut cut = Client::of(&etcd).await;
    cut.cut = Some(300);
    for _ in 0..3 {
        let taken = backup::take_full(&cut, store.as_ref(), &meta(0), |_| {}).await;
        assert!(matches!(taken, Err(PortError::Retryable(_))), "{taken:?}");
    }
    assert_eq!(backups(calm.as_ref()).await, [""; 0]);
    let first = full(&etcd, &store, 1).await;
    assert_eq!(backups(calm.as_ref()).await, [first.id.as_str()]);

    // Two followers run, and one of them is killed while it writes.
    let mut one = Follower::start(&etcd, &store, &first.id, "n1");
    let mut two = Follower::start(&etcd, &store, &first.id, "n2");
    change(&mut client, 2).await;
    let middle = revision(&etcd).await;
    // Wait for both. A follower dates a revision when it receives it, and a restore may read the increments
    // of either.
    one.reaches(middle).await;
    two.reaches(middle).await;
    let noon = SystemClock.now();
    // Wait until the clock has advanced before the next write.
    while SystemClock.now() <= noon {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    change(&mut client, 3).await;
    one.task.abort();
    change(&mut client, 4).await;
    let end = revision(&etcd).await;
    two.reaches(end).await;
    two.ends().await;
    same(&etcd, &store, RestoreTarget::Latest, end).await;
    same(&etcd, &store, RestoreTarget::Time(noon), middle).await;
    let within = Revision(middle.0 + 55);
    same(&etcd, &store, RestoreTarget::Revision(within), within).await;

    let found = again("a verification", async || {
        verify(store.as_ref(), &first.id, &etcd).await
    })
    .await;
    assert_eq!(found.problems, Vec::<String>::new());
    assert_eq!(found.increments_to, Some(end));

    // Retention keeps only the newest backup, and that backup can be restored.
    let second = full(&etcd, &store, 2).await;
    change(&mut client, 5).await;
    let mut three = Follower::start(&etcd, &store, &second.id, "n3");
    let end = revision(&etcd).await;
    three.reaches(end).await;
    three.ends().await;
    let wanted = Retention {
        enabled: true,
        recent: Duration::ZERO,
        hourly: 0,
        daily: 0,
        weekly: 0,
        yearly: 0,
        count: 1,
    };
    let verified = again("a verification", async || {
        verify(store.as_ref(), &second.id, &etcd).await
    })
    .await;
    assert!(verified.ok, "{:?}", verified.problems);
    again("pruning", async || {
        let there = backup::list(store.as_ref(), &cluster()).await?;
        let now = SystemClock.now();
        let verdicts = judge(&there.backups, now, &wanted);
        let old: Vec<_> = verdicts
            .iter()
            .filter(|verdict| verdict.goes())
            .map(|verdict| verdict.backup.summary.id.clone())
            .collect();
        backup::remove(store.as_ref(), &cluster(), &old, || call(now)).await
    })
    .await;
    assert_eq!(backups(calm.as_ref()).await, [second.id.as_str()]);
    same(&etcd, &store, RestoreTarget::Latest, end).await;
    assert!(bad.seen().len() > 100, "{}", bad.seen().len());
}

/// Runs all versions concurrently, because each spends most of its time waiting for a retry.
async fn on_each_etcd(kind: Kind) {
    let all = ETCD_VERSIONS.iter().map(|version| async move {
        let s3 = AnyS3::start(kind).await;
        through(&s3, version).await;
    });
    futures::future::join_all(all).await;
}

#[tokio::test]
async fn what_versitygw_holds_after_a_bad_network_restores() {
    on_each_etcd(Kind::Versitygw).await;
}

#[tokio::test]
async fn what_minio_holds_after_a_bad_network_restores() {
    on_each_etcd(Kind::Minio).await;
}
