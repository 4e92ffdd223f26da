//! Where a chain ends: another epoch, an etcd that was put back, a gap.

use super::*;

#[tokio::test]
async fn another_epochs_backup_asks_for_a_new_full() {
    let dir = tempfile::tempdir().unwrap();
    let store = store(dir.path());
    let etcd = scripted(vec![]);
    let full = take_full(&etcd, &store, &meta(1000), |_| {}).await.unwrap();
    let mut chain = resume(&store, &cluster(), &full.id).await.unwrap();
    chain.cluster_id = ClusterId(99);
    let (_sender, newer) = watch::channel(None);
    let ended = follow(&etcd, &store, &SystemClock, &following(), chain, newer, |_| {}).await;
    assert!(matches!(ended, Ok(Ended::Gap(_))), "{ended:?}");
    assert!(
        resume(
            &store,
            &cluster(),
            &crate::backup::testing::id("1999-12-31T23:59:59Z-000042")
        )
        .await
        .is_err()
    );
}

#[test]
fn a_newer_full_takes_over_once_it_is_reached() {
    let full = |id: &str, revision| BackupSummary {
        id: BackupId::new(id).unwrap(),
        at: crate::model::UnixMs(0),
        revision: Revision(revision),
        size_bytes: 1,
    };
    let chain = Chain {
        backup: BackupId::new("2026-03-01T12:00:00Z-000003").unwrap(),
        cluster_id: ClusterId(1),
        epoch: Epoch(1),
        covered: Revision(50),
        increments: 1,
        previous: None,
        encrypted: false,
        witness: Ok(Witness::of_revision(Revision(50))),
        unasked: BTreeSet::new(),
        last: None,
        auth_revision: None,
    };
    for (what, newer, over) in [
        ("none", None, false),
        ("the same", Some(full("2026-03-01T12:00:00Z-000003", 40)), false),
        (
            "taken after it, and dated before it by another clock",
            Some(full("2026-03-01T11:00:00Z-000003", 40)),
            true,
        ),
        (
            "not reached yet",
            Some(full("2026-03-01T13:00:00Z-000003", 51)),
            false,
        ),
        ("reached", Some(full("2026-03-01T13:00:00Z-000003", 50)), true),
        (
            "etcd-manager's",
            Some(full("2026-03-01T13:00:00Z-000003", 0)),
            false,
        ),
    ] {
        let (_sender, receiver) = watch::channel(newer);
        assert_eq!(superseded(&receiver, &chain), over, "{what}");
    }
}

/// A chain that leads to revision 79, and its full.
async fn chain_to_79(store: &dyn ObjectStore) -> BackupSummary {
    let gone = Err(PortError::Retryable("gone".to_owned()));
    let etcd = scripted(vec![vec![Ok(received(many(78, 2))), gone]]);
    let full = take_full(&etcd, store, &meta(1000), |_| {}).await.unwrap();
    assert!(run(&etcd, store, &full.id).await.is_err());
    assert_eq!(names(store).await, ["78-79.zst"]);
    full
}

/// A revision of an etcd that was put back to an older state and has been written to since.
fn other(at: Revision) -> RevisionChanges {
    let mut other = revision(at.0, 0);
    other.changes[0].stored = b"another history".to_vec();
    other
}

#[tokio::test]
async fn c04_an_etcd_that_was_put_back_is_not_followed() {
    type Row = (&'static str, fn(Revision) -> Past, fn(&Ended) -> bool);
    let rows: [Row; 4] = [
        (
            "to before what is stored",
            |_| Past::Ahead(Revision(60)),
            |ended| matches!(ended, Ended::WentBack(why) if why.contains("60") && why.contains("79")),
        ),
        (
            "and has been written to past that since",
            |at| Past::Changes(other(at)),
            |ended| matches!(ended, Ended::WentBack(why) if why.contains("79")),
        ),
        (
            "perhaps: it has compacted the revision",
            |_| Past::Gone(Revision(400)),
            |ended| matches!(ended, Ended::Gap(_)),
        ),
        (
            "not at all",
            |at| Past::Changes(revision(at.0, 0)),
            |ended| *ended == Ended::NotCoordinator,
        ),
    ];
    for (what, past, expected) in rows {
        let dir = tempfile::tempdir().unwrap();
        let store = store(dir.path());
        let full = chain_to_79(&store).await;
        let mut etcd = scripted(vec![vec![Ok(received(many(80, 1)))]]);
        etcd.past = Some(past);
        etcd.revision = Some(Revision(400));
        etcd.stop = Some(CancellationToken::new());
        let ended = run(&etcd, &store, &full.id).await.unwrap();
        assert!(expected(&ended), "{what}: {ended:?}");
        let stored = names(&store).await.len();
        assert_eq!(
            stored,
            if ended == Ended::NotCoordinator { 2 } else { 1 },
            "{what}"
        );
    }
}

/// As in a virtual machine that resumes from an old memory image: etcd was not asked before the write.
#[tokio::test]
async fn c04_an_increment_that_says_another_thing_than_the_one_that_is_there_is_an_error() {
    let dir = tempfile::tempdir().unwrap();
    let store = store(dir.path());
    let mut etcd = scripted(vec![vec![Ok(received(vec![
        other(Revision(78)),
        other(Revision(79)),
    ]))]]);
    etcd.stop = Some(CancellationToken::new());
    let full = take_full(&etcd, &store, &meta(1000), |_| {}).await.unwrap();
    let before = resume(&store, &cluster(), &full.id).await.unwrap();
    let writer = scripted(vec![vec![
        Ok(received(many(78, 2))),
        Err(PortError::Retryable("gone".to_owned())),
    ]]);
    assert!(run(&writer, &store, &full.id).await.is_err());
    let (_sender, newer) = watch::channel(None);
    let ended = follow(&etcd, &store, &SystemClock, &following(), before, newer, |_| {}).await;
    let error = ended.unwrap_err();
    assert!(error.to_string().contains("78-79.zst exists already"), "{error}");
}

#[tokio::test]
async fn c05_a_revision_that_etcd_did_not_tell_is_a_gap() {
    let rows: [(&str, Vec<RevisionChanges>, &[&str]); 4] = [
        ("the first", vec![revision(79, 0), revision(80, 0)], &[]),
        (
            "one in between",
            vec![revision(78, 0), revision(80, 0)],
            &["78-78.zst"],
        ),
        (
            "one that comes twice",
            vec![revision(78, 0), revision(78, 0)],
            &["78-78.zst"],
        ),
        (
            "one that was sent before",
            vec![revision(78, 0), revision(77, 0)],
            &["78-78.zst"],
        ),
    ];
    for (what, changes, expected) in rows {
        let dir = tempfile::tempdir().unwrap();
        let store = store(dir.path());
        let etcd = scripted(vec![vec![
            Ok(received(changes)),
            Err(PortError::Retryable("gone".to_owned())),
        ]]);
        let full = take_full(&etcd, &store, &meta(1000), |_| {}).await.unwrap();
        let ended = run(&etcd, &store, &full.id).await;
        assert!(matches!(ended, Ok(Ended::Gap(_))), "{what}: {ended:?}");
        assert_eq!(names(&store).await, expected, "{what}");
    }
}

#[tokio::test]
async fn c09a_a_full_is_not_taken_while_etcd_does_not_tell_the_revision_of_users() {
    let dir = tempfile::tempdir().unwrap();
    let store = store(dir.path());
    let etcd = scripted(vec![]);
    etcd.auth.store(SILENT, Ordering::Relaxed);
    let taken = take_full(&etcd, &store, &meta(1000), |_| {}).await;
    assert!(matches!(taken, Err(PortError::Retryable(_))), "{taken:?}");
    assert_eq!(list(&store, &cluster()).await.unwrap().backups, []);
}

#[tokio::test]
async fn s33_a_compacted_watch_asks_for_a_new_full() {
    let dir = tempfile::tempdir().unwrap();
    let store = store(dir.path());
    let etcd = scripted(vec![vec![Ok(Watched::Compacted(Revision(90)))]]);
    let full = take_full(&etcd, &store, &meta(1000), |_| {}).await.unwrap();
    let ended = run(&etcd, &store, &full.id).await.unwrap();
    assert!(matches!(ended, Ended::Gap(_)), "{ended:?}");
}
