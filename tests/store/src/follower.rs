//! A task that stores the increments of a real etcd, and functions that write into that etcd and read its
//! state.

use std::fs;
use std::sync::Arc;
use std::time::Duration;

use etcd_agent::adapters::clock::SystemClock;
use etcd_agent::backup::{self, BackupMeta, Ended, Following, Progress};
use etcd_agent::model::{BackupId, BackupSummary, ClusterName, Epoch, NodeName, Revision};
use etcd_agent::ports::{Clock, Etcd, ObjectStore, PortError, PortResult};
use etcd_client::{LeaseGrantOptions, PutOptions, Txn, TxnOp};
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::{RealEtcd, noise};

pub fn cluster() -> ClusterName {
    ClusterName::new("prod").unwrap()
}

/// The timeout for something that must happen, even on a slow machine.
pub const LONG: Duration = Duration::from_mins(2);

pub struct Follower {
    pub task: JoinHandle<PortResult<Ended>>,
    covered: watch::Receiver<Option<Progress>>,
    pub newer: watch::Sender<Option<BackupSummary>>,
    stop: CancellationToken,
}

impl Follower {
    pub fn start(etcd: &RealEtcd, store: &Arc<dyn ObjectStore>, full: &BackupId, node: &str) -> Self {
        let (reports, covered) = watch::channel(None);
        let stop = CancellationToken::new();
        let (newer, newest) = watch::channel(None);
        let (etcd, store, full) = (etcd.member(), store.clone(), full.clone());
        let following = Following {
            cluster: cluster(),
            node: NodeName::new(node).unwrap(),
            interval: Duration::from_millis(200),
            stop: stop.clone(),
            flush_to: watch::channel(Revision(0)).1,
            awake: watch::channel(Instant::now()).1,
        };
        let task = tokio::spawn(async move {
            let tell = |progress: Progress| {
                reports.send_replace(Some(progress));
            };
            // Like the agent: after a retryable error or a moment without a leader, continue from the state
            // in the store.
            loop {
                let newest = newest.clone();
                let (etcd, store) = (&etcd, store.as_ref());
                let ended = match backup::resume(store, &cluster(), &full).await {
                    Ok(chain) => backup::follow(etcd, store, &SystemClock, &following, chain, newest, tell)
                        .await
                        .map_err(|failed| failed.error),
                    Err(error) => Err(error),
                };
                match ended {
                    Ok(Ended::NotCoordinator) => eprintln!("{}: another coordinates", following.node),
                    Err(error @ PortError::Permanent(_)) => return Err(error),
                    Err(why) => eprintln!("{}: {why}", following.node),
                    Ok(ended) => return Ok(ended),
                }
                tokio::time::sleep(Duration::from_millis(100)).await;
            }
        });
        Self {
            task,
            covered,
            newer,
            stop,
        }
    }

    pub async fn reaches(&mut self, revision: Revision) {
        self.tells(|progress| progress.covered >= revision).await;
    }

    pub async fn tells(&mut self, what: impl Fn(&Progress) -> bool) {
        let reported = self
            .covered
            .wait_for(|progress| progress.as_ref().is_some_and(&what));
        let reported = tokio::time::timeout(LONG, reported).await.unwrap().map(drop);
        assert!(reported.is_ok(), "it has ended: {:?}", (&mut self.task).await);
    }

    /// Stops the follower after it has stored the changes that it received.
    pub async fn ends(self) {
        self.stop.cancel();
        let ended = tokio::time::timeout(LONG, self.task).await.unwrap();
        assert_eq!(ended.unwrap().unwrap(), Ended::Stopped);
    }
}

/// The metadata of a full backup that begins now.
pub fn meta(seq: u64) -> BackupMeta {
    BackupMeta {
        cluster: cluster(),
        epoch: Epoch(1),
        cluster_id: None,
        node: NodeName::new("n1").unwrap(),
        started_at: SystemClock.now(),
        seq,
        ordered: false,
    }
}

pub async fn full(etcd: &RealEtcd, store: &dyn ObjectStore, seq: u64) -> BackupSummary {
    backup::take_full(&etcd.member(), store, &meta(seq), |_| {})
        .await
        .unwrap()
}

pub async fn revision(etcd: &RealEtcd) -> Revision {
    // The agent's own timeout is one second. A busy machine may exceed it.
    let status = async {
        loop {
            match etcd.member().status().await {
                Err(PortError::Retryable(_)) => tokio::time::sleep(Duration::from_millis(100)).await,
                answer => break answer.unwrap(),
            }
        }
    };
    tokio::time::timeout(LONG, status).await.unwrap().revision
}

/// Makes all kinds of changes: puts, overwrites, deletions, transactions of many keys, leases, large values.
pub async fn change(client: &mut etcd_client::Client, round: i64) {
    for n in 0..50 {
        let key = format!("k/{}", n % 17);
        client.put(key, format!("{round}-{n}"), None).await.unwrap();
    }
    client.delete("k/3", None).await.unwrap();
    let many = (0..30).map(|n| TxnOp::put(format!("t/{round}/{n}"), "x", None));
    client
        .txn(Txn::new().and_then(many.collect::<Vec<_>>()))
        .await
        .unwrap();
    let all = etcd_client::DeleteOptions::new().with_prefix();
    client
        .delete(format!("t/{}/1", round - 1), Some(all))
        .await
        .unwrap();
    let granted = LeaseGrantOptions::new().with_id(7000 + round);
    client.lease_grant(3600 + round, Some(granted)).await.unwrap();
    let leased = PutOptions::new().with_lease(7000 + round);
    client
        .put(format!("leased/{round}"), "x", Some(leased))
        .await
        .unwrap();
    client.put("large", noise(1 << 20).to_vec(), None).await.unwrap();
}

/// All keys with their values, revisions, versions and leases.
pub async fn state(etcd: &RealEtcd, at: Option<Revision>) -> Vec<(Vec<u8>, Vec<u8>, i64, i64, i64, i64)> {
    let mut client = etcd_client::Client::connect([&etcd.url], None).await.unwrap();
    let mut options = etcd_client::GetOptions::new().with_all_keys();
    if let Some(at) = at {
        options = options.with_revision(i64::try_from(at.0).unwrap());
    }
    let answer = client.get("", Some(options)).await.unwrap();
    let kvs = answer.kvs().iter().map(|kv| {
        (
            kv.key().to_vec(),
            kv.value().to_vec(),
            kv.create_revision(),
            kv.mod_revision(),
            kv.version(),
            kv.lease(),
        )
    });
    kvs.collect()
}

pub fn hash(etcd: &RealEtcd, at: Revision) -> String {
    let text = etcd.ctl(&["endpoint", "hashkv", "--rev", &at.to_string(), "-w", "json"]);
    let (_, hash) = text.split_once("\"hash\":").unwrap();
    hash.chars().take_while(char::is_ascii_digit).collect()
}

/// Fetches a point, restores it with etcd's own tool alone, and starts an etcd on it.
pub async fn restored(etcd: &RealEtcd, store: &dyn ObjectStore, point: &BackupSummary) -> RealEtcd {
    let dir = etcd.dir.path().join(point.id.as_str());
    fs::create_dir_all(&dir).unwrap();
    let fetched = backup::fetch(store, &cluster(), &point.id, &dir).await.unwrap();
    let (from, to) = (fetched.path, dir.join("data"));
    let status = etcd.utl(&["snapshot", "status", from.to_str().unwrap(), "-w", "json"]);
    assert!(
        status.contains(&format!("\"revision\":{}", point.revision)),
        "{status}"
    );
    etcd.utl(&[
        "snapshot",
        "restore",
        from.to_str().unwrap(),
        "--data-dir",
        to.to_str().unwrap(),
    ]);
    etcd.serve(&to)
}
