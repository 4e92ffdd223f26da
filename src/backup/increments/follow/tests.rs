//! The follower against a scripted etcd; `tests/store` has the tests with a real one.

use std::collections::BTreeSet;
use std::sync::Mutex;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};

use async_trait::async_trait;
use futures::StreamExt;
use tokio_util::sync::CancellationToken;

use super::*;
use crate::adapters::clock::SystemClock;
use crate::backup::increments::increment::Lease;
use crate::backup::store::chain;
use crate::backup::store::layout::{INCREMENTS, Layout};
use crate::backup::testing::{cluster, meta, revision, store};
use crate::backup::trailer::snapshot;
use crate::backup::{list, take_full};
use crate::model::{
    BackupId, ClusterId, Epoch, EtcdStatus, KvHash, MemberId, MemberList, NodeName, Past, RevisionChanges,
    UnixMs,
};
use crate::ports::{ByteStream, WatchStream};

mod timeline;

/// A revision of users and roles that etcd does not answer.
const SILENT: u64 = u64::MAX;

/// An etcd that leads, is at a fixed revision, and plays one script for each watch.
struct Scripted {
    inner: crate::backup::testing::FakeEtcd,
    scripts: Mutex<Vec<Vec<PortResult<Watched>>>>,
    from: AtomicU64,
    /// The revision of users and roles.
    auth: AtomicU64,
    /// How many more requests for a lease it leaves unanswered.
    leases_silent: AtomicI64,
    /// Cancelled at the end of a script. After that nothing is received, and another member leads.
    stop: Option<CancellationToken>,
    /// Its revision, if it differs from the full's.
    revision: Option<Revision>,
    /// Its answer for each past revision, if it differs from what was written.
    past: Option<fn(Revision) -> Past>,
    /// It answers no question about a past revision.
    past_silent: bool,
}

#[async_trait]
impl Etcd for Scripted {
    async fn status(&self) -> PortResult<EtcdStatus> {
        let mut status = self.inner.status().await?;
        status.revision = self.revision.unwrap_or(status.revision);
        if self.stop.as_ref().is_some_and(CancellationToken::is_cancelled) {
            status.leader = Some(MemberId(99));
        }
        Ok(status)
    }
    async fn members(&self, linearizable: bool) -> PortResult<MemberList> {
        self.inner.members(linearizable).await
    }
    async fn past(&self, at: Revision) -> PortResult<Past> {
        if self.past_silent {
            return std::future::pending().await;
        }
        let says = self.past.unwrap_or(|at| Past::Changes(revision(at.0, 0)));
        Ok(says(at))
    }
    async fn add_learner(&self, urls: &[String]) -> PortResult<MemberId> {
        self.inner.add_learner(urls).await
    }
    async fn remove_member(&self, id: MemberId) -> PortResult<()> {
        self.inner.remove_member(id).await
    }
    async fn promote(&self, id: MemberId) -> PortResult<()> {
        self.inner.promote(id).await
    }
    async fn update_member(&self, id: MemberId, peer_urls: &[String]) -> PortResult<()> {
        self.inner.update_member(id, peer_urls).await
    }
    async fn probe(&self, client_url: &str) -> PortResult<()> {
        self.inner.probe(client_url).await
    }
    async fn move_leader(&self, to: MemberId) -> PortResult<()> {
        self.inner.move_leader(to).await
    }
    async fn snapshot(&self) -> PortResult<ByteStream> {
        self.inner.snapshot().await
    }
    async fn hash_data(&self, revision: Revision) -> PortResult<KvHash> {
        self.inner.hash_data(revision).await
    }
    async fn watch(&self, from: Revision) -> PortResult<WatchStream> {
        self.from.store(from.0, Ordering::Relaxed);
        let script = self.scripts.lock().unwrap().remove(0);
        let script = futures::stream::iter(script);
        let Some(stop) = self.stop.clone() else {
            return Ok(Box::pin(script));
        };
        let silence = futures::stream::once(async move {
            stop.cancel();
            std::future::pending().await
        });
        Ok(Box::pin(script.chain(silence)))
    }
    async fn auth_revision(&self) -> PortResult<u64> {
        match self.auth.load(Ordering::Relaxed) {
            SILENT => Err(PortError::Retryable("no answer".to_owned())),
            revision => Ok(revision),
        }
    }
    async fn lease_ttl(&self, id: i64) -> PortResult<Option<i64>> {
        if self.leases_silent.fetch_sub(1, Ordering::Relaxed) > 0 {
            return std::future::pending().await;
        }
        Ok((id == 9).then_some(120))
    }
}

/// The cluster that the full backups of these tests are of.
const OURS: u64 = 1;

fn received(changes: Vec<RevisionChanges>) -> Watched {
    let at = changes.last().unwrap().revision;
    let of = ClusterId(OURS);
    Watched::Revisions { changes, at, of }
}

fn scripted(scripts: Vec<Vec<PortResult<Watched>>>) -> Scripted {
    Scripted {
        inner: crate::backup::testing::etcd(snapshot(2)),
        scripts: Mutex::new(scripts),
        from: AtomicU64::new(0),
        auth: AtomicU64::new(3),
        leases_silent: AtomicI64::new(0),
        stop: None,
        revision: None,
        past: None,
        past_silent: false,
    }
}

fn following() -> Following {
    Following {
        cluster: cluster(),
        node: NodeName::new("n1").unwrap(),
        interval: Duration::from_secs(1),
        stop: CancellationToken::new(),
        flush_to: watch::channel(Revision(0)).1,
        awake: watch::channel(Instant::now()).1,
    }
}

async fn run(etcd: &Scripted, store: &dyn ObjectStore, id: &BackupId) -> PortResult<Ended> {
    let chain = resume(store, &cluster(), id).await?;
    let (_sender, newer) = watch::channel(None);
    let ended = follow(etcd, store, &SystemClock, &following(), chain, newer, |_| {}).await;
    ended.map_err(PortError::from)
}

async fn names(store: &dyn ObjectStore) -> Vec<String> {
    let listed = store.list("").await.unwrap();
    let mut names: Vec<String> = listed
        .into_iter()
        .filter_map(|object| Some(object.key.split_once("increments/")?.1.to_owned()))
        .collect();
    names.sort();
    names
}

#[tokio::test]
async fn s33_what_was_received_before_etcd_went_away_is_stored_and_the_chain_goes_on() {
    let dir = tempfile::tempdir().unwrap();
    let store = store(dir.path());
    let gone = || Err(PortError::Retryable("gone".to_owned()));
    let etcd = scripted(vec![
        vec![Ok(received(vec![revision(78, 0), revision(79, 9)])), gone()],
        vec![gone()],
        vec![Ok(received(vec![revision(80, 5)])), gone()],
    ]);
    let full = take_full(&etcd, &store, &meta(1000), |_| {}).await.unwrap();
    for _ in 0..3 {
        assert!(run(&etcd, &store, &full.id).await.is_err());
    }
    assert_eq!(
        etcd.from.load(Ordering::Relaxed),
        80,
        "it goes on after what is stored"
    );
    assert_eq!(names(&store).await, ["78-79.zst", "80-80.zst"]);
    assert_eq!(
        list(&store, &cluster()).await.unwrap().backups[0].covered,
        Revision(80)
    );
    let layout = Layout::of(&store, &cluster());
    let read = |first, last| {
        let range = chain::Range {
            first: Revision(first),
            last: Revision(last),
        };
        crate::backup::increments::read::read(&store, &layout, &full.id, false, range)
    };
    let (one, two) = (read(78, 79).await.unwrap(), read(80, 80).await.unwrap());
    assert_eq!(one.head.leases, [Lease { id: 9, ttl_s: 120 }]);
    assert_eq!(one.head.previous, None);
    assert_eq!(two.head.previous.as_deref(), Some("78-79.zst"));
    assert_eq!(two.head.leases, [], "a lease that ended needs no TTL");
}

/// The watch is not open yet, so nothing was received that has to be stored.
#[tokio::test]
async fn an_agent_that_stops_does_not_wait_for_the_answer_that_opens_the_watch() {
    let dir = tempfile::tempdir().unwrap();
    let store = store(dir.path());
    let full = take_full(&scripted(vec![]), &store, &meta(1000), |_| {})
        .await
        .unwrap();
    let etcd = Scripted {
        past_silent: true,
        ..scripted(vec![])
    };
    let chain = resume(&store, &cluster(), &full.id).await.unwrap();
    let (_sender, newer) = watch::channel(None);
    let following = following();
    following.stop.cancel();
    let ended = follow(&etcd, &store, &SystemClock, &following, chain, newer, |_| {}).await;
    assert!(matches!(ended, Ok(Ended::Stopped)), "{ended:?}");
}

fn many(from: u64, count: u64) -> Vec<RevisionChanges> {
    (from..from + count).map(|n| revision(n, 0)).collect()
}

async fn last_read(changes: &mut BatchedWatch<'_>) -> u64 {
    match changes.next().await.unwrap().unwrap() {
        Watched::Revisions { changes, .. } => changes.last().unwrap().revision.0,
        compacted @ Watched::Compacted(_) => panic!("{compacted:?}"),
    }
}

#[tokio::test]
async fn a_busy_etcd_is_let_gather_and_nothing_is_left_out() {
    let behind = Watched::Revisions {
        changes: many(108, 20),
        at: Revision(200),
        of: ClusterId(OURS),
    };
    let etcd = scripted(vec![
        vec![Ok(received(many(78, 10))), Ok(received(many(88, 20)))],
        // The watch is behind, so it is not paused.
        vec![Ok(behind), Ok(received(many(128, 73)))],
        // Few changes: they are received one by one.
        vec![Ok(received(many(201, 1))), Ok(received(many(202, 1)))],
    ]);
    let (_awake, receiver) = watch::channel(Instant::now());
    let mut changes = BatchedWatch::open(&etcd, Revision(78), receiver).await.unwrap();
    for (last, watched_from) in [
        (87, 78),
        (107, 78),
        (127, 108),
        (200, 108),
        (201, 201),
        (202, 201),
    ] {
        assert_eq!(last_read(&mut changes).await, last);
        assert_eq!(etcd.from.load(Ordering::Relaxed), watched_from, "{last}");
    }
}

/// Only the number of revisions within the time counts, in one message or in several.
#[tokio::test]
async fn what_comes_close_together_is_busy_and_what_comes_apart_is_not() {
    for (apart, rests) in [(0, true), (99, true), (101, false)] {
        let etcd = scripted(vec![vec![]]);
        let (_awake, receiver) = watch::channel(Instant::now());
        let mut changes = BatchedWatch::open(&etcd, Revision(78), receiver).await.unwrap();
        let first = Instant::now() + Duration::from_secs(1);
        changes.count(first, 10, true);
        changes.count(first + Duration::from_millis(apart), 10, true);
        assert_eq!(changes.is_paused(), rests, "{apart} ms");
    }
}

#[tokio::test]
async fn s18_an_etcd_that_is_about_to_stop_is_read_at_once() {
    let etcd = scripted(vec![
        vec![Ok(received(many(78, 30)))],
        vec![Ok(received(many(108, 30))), Ok(received(many(138, 30)))],
    ]);
    let (awake, receiver) = watch::channel(Instant::now());
    let mut changes = BatchedWatch::open(&etcd, Revision(78), receiver).await.unwrap();
    assert_eq!(last_read(&mut changes).await, 107);
    // Without `awake` the watch would stay paused.
    changes.paused_until = Instant::now() + Duration::from_hours(1000);
    let wakes = async {
        tokio::task::yield_now().await;
        awake.send_replace(Instant::now() + Duration::from_hours(1));
    };
    let woken = async { tokio::join!(wakes, last_read(&mut changes)).1 };
    assert_eq!(timeout(QUIET, woken).await.unwrap(), 137);
    assert_eq!(last_read(&mut changes).await, 167);
    assert_eq!(etcd.from.load(Ordering::Relaxed), 108, "no further pause");
}

#[tokio::test]
async fn an_etcd_that_went_away_during_a_rest_ends_it_and_what_was_received_is_stored() {
    let dir = tempfile::tempdir().unwrap();
    let store = store(dir.path());
    let gone = || Err(PortError::Retryable("gone".to_owned()));
    let etcd = scripted(vec![vec![Ok(received(many(78, 30)))], vec![gone()]]);
    let full = take_full(&etcd, &store, &meta(1000), |_| {}).await.unwrap();
    assert!(run(&etcd, &store, &full.id).await.is_err());
    assert_eq!(names(&store).await, ["78-107.zst"]);
}

/// After a pause another etcd may answer at the same address. Its revisions continue ours, but belong to
/// another history.
#[tokio::test]
async fn s33_what_another_epochs_etcd_says_after_a_rest_is_in_no_increment() {
    let dir = tempfile::tempdir().unwrap();
    let store = store(dir.path());
    let other = Watched::Revisions {
        changes: many(108, 5),
        at: Revision(112),
        of: ClusterId(OURS + 1),
    };
    let etcd = scripted(vec![vec![Ok(received(many(78, 30)))], vec![Ok(other)]]);
    let full = take_full(&etcd, &store, &meta(1000), |_| {}).await.unwrap();
    let ended = run(&etcd, &store, &full.id).await;
    assert!(matches!(ended, Ok(Ended::Gap(_))), "{ended:?}");
    assert_eq!(names(&store).await, ["78-107.zst"]);
}

/// These changes were written before the agent was stopped, and were not received yet.
#[tokio::test]
async fn what_etcd_has_committed_is_stored_before_the_agent_ends() {
    let dir = tempfile::tempdir().unwrap();
    let store = store(dir.path());
    let mut etcd = scripted(vec![vec![
        Ok(received(many(78, 1))),
        Ok(received(many(79, 1))),
        Ok(received(many(80, 1))),
    ]]);
    let full = take_full(&etcd, &store, &meta(1000), |_| {}).await.unwrap();
    etcd.revision = Some(Revision(79));
    let following = following();
    following.stop.cancel();
    // The watch stays open, however many of the changes the loop takes before it sees the stop.
    etcd.stop = Some(CancellationToken::new());
    let chain = resume(&store, &cluster(), &full.id).await.unwrap();
    let (_sender, newer) = watch::channel(None);
    let ended = follow(&etcd, &store, &SystemClock, &following, chain, newer, |_| {}).await;
    assert_eq!(ended, Ok(Ended::Stopped));
    assert!(
        ["78-79.zst", "78-80.zst"].contains(&names(&store).await.concat().as_str()),
        "{:?}",
        names(&store).await
    );
}

#[tokio::test]
async fn what_was_received_before_the_agent_ends_is_stored() {
    let dir = tempfile::tempdir().unwrap();
    let store = store(dir.path());
    let mut etcd = scripted(vec![vec![Ok(received(vec![revision(78, 0), revision(79, 0)]))]]);
    let following = Following {
        interval: Duration::from_hours(1),
        ..following()
    };
    etcd.stop = Some(following.stop.clone());
    let full = take_full(&etcd, &store, &meta(1000), |_| {}).await.unwrap();
    let chain = resume(&store, &cluster(), &full.id).await.unwrap();
    let (_sender, newer) = watch::channel(None);
    let ended = follow(&etcd, &store, &SystemClock, &following, chain, newer, |_| {}).await;
    assert_eq!(ended, Ok(Ended::Stopped));
    assert_eq!(names(&store).await, ["78-79.zst"]);
}

#[tokio::test]
async fn s29_what_a_person_asks_for_does_not_wait_for_the_interval() {
    let dir = tempfile::tempdir().unwrap();
    let store = store(dir.path());
    let mut etcd = scripted(vec![vec![Ok(received(vec![revision(78, 0), revision(79, 0)]))]]);
    etcd.stop = Some(CancellationToken::new());
    let flush_to = watch::Sender::new(Revision(79));
    let following = Following {
        interval: Duration::from_hours(1),
        flush_to: flush_to.subscribe(),
        ..following()
    };
    let full = take_full(&etcd, &store, &meta(1000), |_| {}).await.unwrap();
    let chain = resume(&store, &cluster(), &full.id).await.unwrap();
    let (_sender, newer) = watch::channel(None);
    // The changes are stored, and the check that follows finds another coordinator. A wait of an hour would
    // be noticed.
    let ended = follow(&etcd, &store, &SystemClock, &following, chain, newer, |_| {}).await;
    assert_eq!(ended, Ok(Ended::NotCoordinator));
    assert_eq!(names(&store).await, ["78-79.zst"]);
}

/// All agents are stopped one after the other, so this one may have no successor.
#[tokio::test]
async fn s18_what_was_received_before_another_led_is_stored() {
    let dir = tempfile::tempdir().unwrap();
    let store = store(dir.path());
    let mut etcd = scripted(vec![vec![Ok(received(vec![revision(78, 0)]))]]);
    etcd.stop = Some(CancellationToken::new());
    let full = take_full(&etcd, &store, &meta(1000), |_| {}).await.unwrap();
    let ended = run(&etcd, &store, &full.id).await;
    assert_eq!(ended, Ok(Ended::NotCoordinator));
    assert_eq!(names(&store).await, ["78-78.zst"]);
}

#[tokio::test]
async fn a_change_of_users_since_the_full_is_reported_and_the_chain_goes_on() {
    let dir = tempfile::tempdir().unwrap();
    let store = store(dir.path());
    let gone = || Err(PortError::Retryable("gone".to_owned()));
    let script = |number| vec![Ok(received(vec![revision(number, 0)])), gone()];
    let etcd = scripted(vec![script(78), script(79)]);
    let full = take_full(&etcd, &store, &meta(1000), |_| {}).await.unwrap();
    for (changed, covered) in [(false, 78), (true, 79)] {
        let reports = Mutex::new(Vec::new());
        let chain = resume(&store, &cluster(), &full.id).await.unwrap();
        let (_sender, newer) = watch::channel(None);
        let tell = |progress| reports.lock().unwrap().push(progress);
        let ended = follow(&etcd, &store, &SystemClock, &following(), chain, newer, tell).await;
        assert!(ended.is_err(), "{ended:?}");
        let reports = reports.into_inner().unwrap();
        assert!(
            reports.iter().all(|progress| progress.auth_changed == changed),
            "{reports:?}"
        );
        assert_eq!(reports.last().unwrap().covered, Revision(covered));
        etcd.auth.store(4, Ordering::Relaxed);
    }
}

/// Sixteen unanswered requests for leases delay an increment no longer than one does. Leases that were not
/// answered are requested again.
#[tokio::test]
async fn c09c_leases_are_asked_for_together_and_once_more_where_etcd_was_silent() {
    let dir = tempfile::tempdir().unwrap();
    let store = store(dir.path());
    let etcd = scripted(vec![]);
    etcd.leases_silent.store(16, Ordering::Relaxed);
    let full = take_full(&etcd, &store, &meta(1000), |_| {}).await.unwrap();
    let mut chain = resume(&store, &cluster(), &full.id).await.unwrap();
    let flushed = async |chain: &mut Chain, batch: Batch| {
        let following = following();
        let flushed = flush(&etcd, &store, &SystemClock, &following, chain, batch);
        timeout(Duration::from_mins(2), flushed).await.unwrap().unwrap();
        let layout = Layout::of(&store, &cluster());
        let listed = store.list(&layout.in_backup(&full.id, INCREMENTS)).await.unwrap();
        let ranges = chain::ranges(&layout, &full.id, &listed);
        let last = *ranges.last().unwrap();
        crate::backup::increments::read::read(&store, &layout, &full.id, false, last)
            .await
            .unwrap()
            .head
    };
    let mut batch = Batch::default();
    let changes = (1..=40)
        .map(|n| revision(77 + n, i64::try_from(n).unwrap()))
        .collect();
    batch.extend(changes, chain.covered, UnixMs(1)).unwrap();
    let head = flushed(&mut chain, batch).await;
    assert_eq!(
        head.leases,
        [],
        "etcd did not answer for the first 16, and the others have ended"
    );
    assert_eq!(head.unasked, (1..=16).collect::<Vec<i64>>());
    let mut batch = Batch::default();
    batch
        .extend(vec![revision(118, 0)], chain.covered, UnixMs(1))
        .unwrap();
    let head = flushed(&mut chain, batch).await;
    assert_eq!(head.leases, [Lease { id: 9, ttl_s: 120 }]);
    assert_eq!(head.unasked, Vec::<i64>::new());
}
