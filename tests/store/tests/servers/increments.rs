//! Stores increments of a real etcd in a real S3 server and restores them.

use std::fs;
use std::time::{Duration, Instant};

use etcd_agent::adapters::clock::SystemClock;
use etcd_agent::adapters::store::open_backups;
use etcd_agent::backup::{self, Ended};
use etcd_agent::model::{BackupId, BackupSummary, RestoreTarget, Revision, UnixMs};
use etcd_agent::ports::{Clock, Etcd};
use etcd_agent_lab::ETCD_VERSIONS;
use etcd_agent_store_tests::{
    AgeKeys, Follower, LONG, RealEtcd, S3, change, cluster, full, hash, restored, revision, state,
};

#[tokio::test]
async fn s28_s43_increments_bring_back_every_revision_on_each_etcd() {
    let s3 = S3::start();
    let store = s3.store();
    for (n, version) in ETCD_VERSIONS.iter().enumerate() {
        let etcd = RealEtcd::start(version);
        let mut client = etcd_client::Client::connect([&etcd.url], None).await.unwrap();
        change(&mut client, 1).await;
        let taken = full(&etcd, store.as_ref(), n as u64).await;
        let mut follower = Follower::start(&etcd, &store, &taken.id, "n1");
        change(&mut client, 2).await;
        let middle = revision(&etcd).await;
        follower.reaches(middle).await;
        let noon = SystemClock.now();
        // Wait until the clock has advanced before the next write.
        while SystemClock.now() <= noon {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        change(&mut client, 3).await;
        let end = revision(&etcd).await;
        follower.reaches(end).await;

        let prod = cluster();
        let find = |wanted| backup::find(store.as_ref(), &prod, Some(&taken.id), wanted);
        let latest = find(RestoreTarget::Latest).await.unwrap();
        assert_eq!(latest.revision, end, "{version}");
        let by_time = find(RestoreTarget::Time(noon)).await.unwrap();
        assert_eq!(by_time.revision, middle, "{version}");
        let in_txn = Revision(middle.0 - 20);
        for (point, at) in [
            (latest, end),
            (by_time, middle),
            (find(RestoreTarget::Revision(in_txn)).await.unwrap(), in_txn),
        ] {
            let back = restored(&etcd, store.as_ref(), &point).await;
            assert_eq!(revision(&back).await, at, "{version}");
            assert_eq!(
                state(&back, None).await,
                state(&etcd, Some(at)).await,
                "{version} at {at}"
            );
            assert_eq!(hash(&back, at), hash(&etcd, at), "{version} at {at}");
            for (id, granted) in [(7001, "3601"), (7002, "3602")] {
                let lease = back.ctl(&["lease", "timetolive", &format!("{id:x}")]);
                let there = lease.contains(&format!("granted with TTL({granted}s)"));
                assert!(there || at == in_txn && id == 7002, "{version}: {lease}");
            }
        }
        for wanted in [
            RestoreTarget::Revision(end.next()),
            RestoreTarget::Revision(Revision(1)),
            RestoreTarget::Time(UnixMs(1)),
        ] {
            assert!(find(wanted).await.is_err(), "{wanted:?}");
        }
        follower.task.abort();
    }
}

/// The follower pauses its watch while etcd has many writes. It opens a new watch each time and closes the
/// previous one.
#[tokio::test]
async fn t11_a_busy_etcd_is_followed_by_one_watch_at_a_time_on_each_etcd() {
    let s3 = S3::start();
    let store = s3.store();
    for (n, version) in (0..).zip(ETCD_VERSIONS) {
        let etcd = RealEtcd::start(version);
        let none = watches(&etcd);
        let taken = full(&etcd, store.as_ref(), n).await;
        let mut follower = Follower::start(&etcd, &store, &taken.id, "n1");
        // The follower must be up to date before the bursts: etcd sends existing revisions in batches of a
        // thousand, without a pause of the watch.
        etcd.ctl(&["put", "first", "x"]);
        follower.reaches(revision(&etcd).await).await;
        let opened = || etcd.metric("grpc_server_started_total{grpc_method=\"Watch\"");
        let (before, began) = (opened(), Instant::now());
        // Write bursts until the watch has paused. Their number depends on the speed of the machine.
        let end = loop {
            burst(&etcd.url).await;
            let end = revision(&etcd).await;
            follower.reaches(end).await;
            if opened() > before + 1.0 {
                break end;
            }
            assert!(began.elapsed() < LONG, "{version}: the watch never paused");
        };
        eprintln!("{version}: {} watches for {end} revisions", opened());
        // Compare the whole history revision by revision, not only the newest state.
        let point = backup::find(store.as_ref(), &cluster(), Some(&taken.id), RestoreTarget::Latest).await;
        let back = restored(&etcd, store.as_ref(), &point.unwrap()).await;
        assert_eq!(revision(&back).await, end, "{version}");
        assert_eq!(hash(&back, end), hash(&etcd, end), "{version}");
        watched_by(&etcd, none + 1.0).await;
        follower.ends().await;
        watched_by(&etcd, none).await;
    }
}

/// Starts enough concurrent writers that etcd is busy with a disk of any speed.
async fn burst(url: &str) {
    let writers = (0..32).map(|writer| async move {
        let mut client = etcd_client::Client::connect([url], None).await.unwrap();
        for n in 0..20 {
            let key = format!("{writer}/{n}");
            client.put(key, n.to_string(), None).await.unwrap();
        }
    });
    futures::future::join_all(writers).await;
}

/// A client that gives up before etcd has answered leaves no watch open.
#[tokio::test]
async fn a_watch_that_nobody_waited_for_ends_on_each_etcd() {
    for version in ETCD_VERSIONS {
        let etcd = RealEtcd::start(version);
        let none = watches(&etcd);
        let member = etcd.member();
        drop(member.watch(Revision(1)).await.unwrap());
        // The patience is a number of polls, not a time. At the first poll there can be no answer yet, on any
        // machine.
        let mut given_up = 0;
        for looks in 1..200 {
            let mut opened = member.watch(Revision(1));
            let mut answered = false;
            for _ in 0..looks {
                answered = futures::poll!(&mut opened).is_ready();
                if answered {
                    break;
                }
                tokio::task::yield_now().await;
            }
            given_up += u32::from(!answered);
        }
        eprintln!("{version}: given up {given_up} times");
        assert!(given_up > 0, "{version}");
        watched_by(&etcd, none).await;
    }
}

fn watches(etcd: &RealEtcd) -> f64 {
    etcd.metric("etcd_debugging_mvcc_watch_stream_total")
}

/// Waits until etcd has at most this many watches. It must run in this runtime: the agent's connection is
/// driven by it, and the cancellation of a watch reaches etcd through that connection.
async fn watched_by(etcd: &RealEtcd, most: f64) {
    let ended = async {
        while watches(etcd) > most {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    let ended = tokio::time::timeout(LONG, ended).await;
    assert!(ended.is_ok(), "{} watches, not {most}", watches(etcd));
}

/// A watch does not report changes of users and roles. The follower detects them, so that the agent takes a
/// new full backup.
#[tokio::test]
async fn s28_a_change_of_users_since_the_full_is_told_on_each_etcd() {
    let s3 = S3::start();
    let store = s3.store();
    for (n, version) in (0..).zip(ETCD_VERSIONS) {
        let etcd = RealEtcd::start(version);
        etcd.ctl(&["put", "some", "key"]);
        let tells = async |taken: &BackupSummary, changed: bool| {
            let mut follower = Follower::start(&etcd, &store, &taken.id, "n1");
            follower.tells(|progress| progress.auth_changed == changed).await;
            follower.ends().await;
        };
        let before = full(&etcd, store.as_ref(), 10 * n).await;
        tells(&before, false).await;
        etcd.ctl(&["role", "add", "reader"]);
        tells(&before, true).await;
        let after = full(&etcd, store.as_ref(), 10 * n + 1).await;
        tells(&after, false).await;
    }
}

#[tokio::test]
async fn s33_two_coordinators_and_a_change_of_them_leave_a_chain_that_restores() {
    let s3 = S3::start();
    let store = s3.store();
    let etcd = RealEtcd::start(ETCD_VERSIONS[1]);
    let mut client = etcd_client::Client::connect([&etcd.url], None).await.unwrap();
    let taken = full(&etcd, store.as_ref(), 1).await;
    let one = Follower::start(&etcd, &store, &taken.id, "n1");
    change(&mut client, 1).await;
    let mut two = Follower::start(&etcd, &store, &taken.id, "n2");
    change(&mut client, 2).await;
    two.reaches(revision(&etcd).await).await;
    // Kill one follower while it writes.
    change(&mut client, 3).await;
    one.task.abort();
    change(&mut client, 4).await;
    let now = revision(&etcd).await;
    two.reaches(now).await;
    // A new full backup continues without a gap between the chains.
    let next = full(&etcd, store.as_ref(), 2).await;
    two.newer.send_replace(Some(next.clone()));
    let ended = tokio::time::timeout(LONG, &mut two.task).await.expect("in time");
    assert_eq!(ended.unwrap().unwrap(), Ended::Superseded);
    let mut three = Follower::start(&etcd, &store, &next.id, "n3");
    change(&mut client, 5).await;
    let end = revision(&etcd).await;
    three.reaches(end).await;

    for (wanted, at) in [
        (
            RestoreTarget::Revision(Revision(taken.revision.0 + 40)),
            taken.revision.0 + 40,
        ),
        (RestoreTarget::Revision(now), now.0),
        (RestoreTarget::Latest, end.0),
    ] {
        let point = backup::find(store.as_ref(), &cluster(), None, wanted)
            .await
            .unwrap();
        let back = restored(&etcd, store.as_ref(), &point).await;
        assert_eq!(
            state(&back, None).await,
            state(&etcd, Some(Revision(at))).await,
            "{wanted:?}"
        );
    }

    // Changes that are compacted before they are stored are lost to increments: the follower reports a gap.
    three.task.abort();
    change(&mut client, 6).await;
    let now = revision(&etcd).await;
    client.compact(i64::try_from(now.0).unwrap(), None).await.unwrap();
    let late = Follower::start(&etcd, &store, &next.id, "n1");
    let ended = tokio::time::timeout(LONG, late.task).await.expect("in time");
    assert!(matches!(ended.unwrap().unwrap(), Ended::Gap(_)));
    let after = full(&etcd, store.as_ref(), 3).await;
    let mut last = Follower::start(&etcd, &store, &after.id, "n1");
    change(&mut client, 7).await;
    let end = revision(&etcd).await;
    last.reaches(end).await;
    let point = backup::find(store.as_ref(), &cluster(), None, RestoreTarget::Latest)
        .await
        .unwrap();
    let back = restored(&etcd, store.as_ref(), &point).await;
    assert_eq!(
        state(&back, None).await,
        state(&etcd, None).await,
        "after a compaction"
    );
}

#[tokio::test]
async fn s31_an_altered_increment_is_named_and_what_is_before_it_restores() {
    let s3 = S3::start();
    let store = s3.store();
    let etcd = RealEtcd::start(ETCD_VERSIONS[2]);
    let mut client = etcd_client::Client::connect([&etcd.url], None).await.unwrap();
    let taken = full(&etcd, store.as_ref(), 1).await;
    let mut follower = Follower::start(&etcd, &store, &taken.id, "n1");
    change(&mut client, 1).await;
    let good = revision(&etcd).await;
    follower.reaches(good).await;
    change(&mut client, 2).await;
    follower.reaches(revision(&etcd).await).await;
    let dir = s3
        .bucket()
        .join("etcd/prod")
        .join(taken.id.as_str())
        .join("increments");
    let first = |path: &std::path::Path| -> u64 {
        let name = path.file_name().unwrap().to_str().unwrap().to_owned();
        name.split('-').next().unwrap().parse().unwrap()
    };
    let bad = fs::read_dir(&dir)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| first(path) > good.0)
        .min_by_key(|path| first(path))
        .unwrap();
    let bytes = fs::read(&bad).unwrap();
    fs::write(&bad, &bytes[..bytes.len() / 2]).unwrap();
    let prod = cluster();
    let find = |wanted| backup::find(store.as_ref(), &prod, None, wanted);
    let name = format!("{}.r{}", taken.id, revision(&etcd).await);
    let whole = BackupId::new(name).unwrap();
    let into = etcd.dir.path().join("cut");
    fs::create_dir(&into).unwrap();
    let error = backup::fetch(store.as_ref(), &cluster(), &whole, &into)
        .await
        .unwrap_err();
    let name = bad.file_name().unwrap().to_str().unwrap();
    assert!(error.to_string().contains(name), "{error}");
    assert_eq!(fs::read_dir(&into).unwrap().count(), 0, "files are left");
    let point = find(RestoreTarget::Revision(good)).await.unwrap();
    let back = restored(&etcd, store.as_ref(), &point).await;
    assert_eq!(state(&back, None).await, state(&etcd, Some(good)).await);
}

/// Storing changes needs no secret, not even with two coordinators. Restoring them needs one.
#[tokio::test]
async fn s28_encrypted_increments_are_restored_with_the_identity_and_not_without() {
    let s3 = S3::start();
    let place = tempfile::TempDir::new().unwrap();
    let keys = AgeKeys::make(place.path());
    let store = open_backups(&s3.right_settings(), &keys.only_write).unwrap();
    let etcd = RealEtcd::start(ETCD_VERSIONS[0]);
    let taken = full(&etcd, store.as_ref(), 1).await;
    let mut first = Follower::start(&etcd, &store, &taken.id, "n1");
    let mut second = Follower::start(&etcd, &store, &taken.id, "n2");
    for n in 0..20 {
        etcd.ctl(&["put", &format!("k{n}"), "v"]);
    }
    let newest = revision(&etcd).await;
    first.reaches(newest).await;
    second.reaches(newest).await;

    let dir = place.path().join("fetched");
    fs::create_dir(&dir).unwrap();
    let point = backup::find(store.as_ref(), &cluster(), None, RestoreTarget::Latest).await;
    let blind = point.expect_err("without an identity").to_string();
    assert!(blind.contains("set restore.identity_file"), "{blind}");
    let reader = open_backups(&s3.right_settings(), &keys.only_read).unwrap();
    let point = backup::find(reader.as_ref(), &cluster(), None, RestoreTarget::Latest)
        .await
        .unwrap();
    assert_eq!(point.revision, newest);
    let fetched = backup::fetch(reader.as_ref(), &cluster(), &point.id, &dir)
        .await
        .unwrap();
    let (from, to) = (fetched.path.to_str().unwrap(), dir.join("restored"));
    etcd.utl(&["snapshot", "restore", from, "--data-dir", to.to_str().unwrap()]);
    let restored = etcd.serve(&to);
    assert!(restored.ctl(&["get", "k19"]).contains('v'));
}
