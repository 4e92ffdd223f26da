use std::fs::{File, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::time::{Duration, SystemTime};

use futures::TryStreamExt;

use super::files::if_present;
use super::store::LOCK;
use super::upload::SYNC_BYTES;
use super::*;

fn place() -> (tempfile::TempDir, DirStore) {
    let dir = tempfile::tempdir().unwrap();
    let store = DirStore::new(dir.path());
    (dir, store)
}

fn keys(found: &[ObjectMeta]) -> Vec<&str> {
    found.iter().map(|object| object.key.as_str()).collect()
}

#[tokio::test]
async fn objects_are_written_read_listed_and_deleted() {
    let (dir, store) = place();
    for key in ["a/b/1", "a/b/2", "a/bc", "z"] {
        store.put(key, Bytes::from(key)).await.unwrap();
    }
    store.put("z", Bytes::from_static(b"again")).await.unwrap();
    assert_eq!(store.get_small("z").await.unwrap().unwrap(), "again");
    assert_eq!(store.get_small("a/b/3").await.unwrap(), None);
    assert!(store.get("y").await.unwrap().is_none());
    assert_eq!(
        keys(&store.list("").await.unwrap()),
        ["a/b/1", "a/b/2", "a/bc", "z"]
    );
    assert_eq!(
        keys(&store.list("a/b").await.unwrap()),
        ["a/b/1", "a/b/2", "a/bc"]
    );
    assert_eq!(keys(&store.list("a/b/").await.unwrap()), ["a/b/1", "a/b/2"]);
    assert_eq!(store.list("nothing/").await.unwrap(), []);
    let mode = |path: &str| fs::metadata(dir.path().join(path)).unwrap().permissions().mode() & 0o777;
    assert_eq!((mode("a"), mode("a/b"), mode("a/b/1")), (0o700, 0o700, 0o600));
    for key in ["a/b/1", "a/b/2", "a/b/2", "a/bc"] {
        store.delete(key).await.unwrap();
    }
    assert!(!dir.path().join("a").exists());
    assert!(dir.path().exists());
}

/// An operator moves a part of the store to another disk. A listing without it would say that there are no backups.
#[tokio::test]
async fn what_is_behind_a_symbolic_link_is_listed() {
    let (dir, store) = place();
    for key in ["a/b/1", "z"] {
        store.put(key, Bytes::from(key)).await.unwrap();
    }
    let other = tempfile::tempdir().unwrap();
    let moved = other.path().join("a");
    fs::create_dir_all(moved.join("b")).unwrap();
    fs::rename(dir.path().join("a/b/1"), moved.join("b/1")).unwrap();
    fs::remove_dir_all(dir.path().join("a")).unwrap();
    std::os::unix::fs::symlink(&moved, dir.path().join("a")).unwrap();
    std::os::unix::fs::symlink("nothing", dir.path().join("broken")).unwrap();
    store.put("a/b/2", Bytes::from("new")).await.unwrap();
    assert_eq!(keys(&store.list("").await.unwrap()), ["a/b/1", "a/b/2", "z"]);
    assert_eq!(keys(&store.list("a/b/").await.unwrap()), ["a/b/1", "a/b/2"]);
    assert!(moved.join("b/2").exists());
    // A circle is an error, not an endless listing.
    std::os::unix::fs::symlink("..", moved.join("b/up")).unwrap();
    assert!(store.list("").await.is_err());
}

#[tokio::test]
async fn of_many_creators_one_wins_and_all_learn_what_is_there() {
    for _ in 0..20 {
        let (_dir, store) = place();
        let tries = (0..16).map(|n: u8| {
            let store = store.clone();
            tokio::spawn(async move { (n, store.create("x/1", Bytes::from(vec![n; 1000])).await.unwrap()) })
        });
        let results: Vec<_> = futures::future::try_join_all(tries).await.unwrap();
        let won: Vec<_> = results.iter().filter(|(_, c)| *c == Created::Created).collect();
        assert_eq!(won.len(), 1);
        for (n, created) in &results {
            if *n != won[0].0 {
                assert_eq!(*created, Created::Exists(Bytes::from(vec![won[0].0; 1000])));
            }
        }
    }
}

#[tokio::test]
async fn an_upload_is_invisible_until_it_is_complete() {
    let (dir, store) = place();
    let mut upload = store.upload("a/big").await.unwrap();
    upload.write(Bytes::from(vec![1; 3_000_000])).await.unwrap();
    upload.write(Bytes::from(vec![2; 5])).await.unwrap();
    assert_eq!(store.list("").await.unwrap(), []);
    assert_eq!(store.list(".tmp-").await.unwrap(), []);
    upload.complete().await.unwrap();
    let stream = store.get("a/big").await.unwrap().unwrap();
    let read: Vec<Bytes> = stream.try_collect().await.unwrap();
    assert_eq!(read.concat(), [vec![1; 3_000_000], vec![2; 5]].concat());
    for abort in [true, false] {
        let mut upload = store.upload("b").await.unwrap();
        upload.write(Bytes::from_static(b"x")).await.unwrap();
        if abort {
            upload.abort().await.unwrap();
        } else {
            drop(upload);
        }
    }
    assert_eq!(keys(&store.list("").await.unwrap()), ["a/big"]);
    assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1);
}

#[tokio::test]
async fn a_directory_that_is_not_there_is_no_empty_store() {
    let (dir, _) = place();
    let store = DirStore::new(dir.path().join("gone"));
    assert!(store.list("").await.is_err());
    assert!(store.list("a/b/").await.is_err());
    assert!(store.get_small("x").await.is_err());
    assert!(store.get("x").await.is_err());
    assert!(store.delete("x").await.is_err());
    assert!(store.put("x", Bytes::new()).await.is_err());
    assert!(store.create("x", Bytes::new()).await.is_err());
    let error = store.upload("x").await.err().unwrap().to_string();
    assert!(error.contains("does not exist"), "{error}");
    assert!(!dir.path().join("gone").exists());
}

#[tokio::test]
async fn keys_stay_inside() {
    let (_dir, store) = place();
    for key in [
        "",
        "/etc/passwd",
        "../x",
        "a/../../x",
        "a//b",
        "a/",
        "./a",
        ".tmp-x",
        "a\0b",
    ] {
        let error = store.put(key, Bytes::new()).await.unwrap_err();
        assert!(matches!(error, PortError::Permanent(_)), "{key}");
        assert!(store.get_small(key).await.is_err(), "{key}");
    }
}

#[tokio::test]
async fn what_is_not_small_is_not_read_into_memory() {
    let (_dir, store) = place();
    store.put("big", Bytes::from(vec![0; 2 << 20])).await.unwrap();
    assert!(store.get_small("big").await.is_err());
}

#[tokio::test]
async fn only_old_temporary_files_are_swept() {
    let (dir, store) = place();
    for (name, hours) in [(".tmp-old", 25), (".tmp-new", 23), ("old", 25)] {
        let file = File::create(dir.path().join(name)).unwrap();
        file.set_modified(SystemTime::now() - Duration::from_hours(hours))
            .unwrap();
    }
    drop(store.upload("x").await.unwrap());
    assert!(!dir.path().join(".tmp-old").exists());
    assert!(dir.path().join(".tmp-new").exists());
    assert!(dir.path().join("old").exists());
}

#[tokio::test]
async fn an_object_is_replaced_only_where_it_is_what_was_read() {
    let (dir, store) = place();
    assert_eq!(store.get_tagged("a/x").await.unwrap(), None);
    store.put("a/x", Bytes::from_static(b"1")).await.unwrap();
    let (body, tag) = store.get_tagged("a/x").await.unwrap().unwrap();
    assert_eq!(body, "1");
    let replace = |body: &'static [u8]| store.replace("a/x", Bytes::from_static(body), &tag);
    // Another writer, perhaps on another host, holds the lock: `replace` waits for it.
    let held = store.lock().unwrap();
    let waits = tokio::time::timeout(Duration::from_millis(300), replace(b"0"));
    assert!(waits.await.is_err());
    drop(held);
    // The work of the cancelled `replace` still runs to its end, so either of the two may come first.
    let second = replace(b"2").await.unwrap();
    let there = store.get_small("a/x").await.unwrap().unwrap();
    assert_eq!(there == "2", second == Replaced::Done);
    assert_eq!(replace(b"3").await.unwrap(), Replaced::Changed);
    assert_eq!(store.get_small("a/x").await.unwrap().unwrap(), there);
    // The lock is never listed.
    assert_eq!(keys(&store.list("").await.unwrap()), ["a/x"]);
    assert!(dir.path().join(LOCK).exists());
    store.delete("a/x").await.unwrap();
    assert_eq!(replace(b"3").await.unwrap(), Replaced::Changed);
}

/// The agents of other hosts have other user IDs, so hosts share a directory through its group.
#[tokio::test]
async fn b12_what_hosts_share_is_for_the_group_of_the_directory() {
    for (root, dirs, files) in [
        (0o2770, 0o2770, 0o660),
        (0o770, 0o700, 0o600),
        (0o755, 0o700, 0o600),
    ] {
        let (dir, store) = place();
        fs::set_permissions(dir.path(), Permissions::from_mode(root)).unwrap();
        store.put("a/b/1", Bytes::from_static(b"x")).await.unwrap();
        store.create("a/b/2", Bytes::from_static(b"x")).await.unwrap();
        let mut upload = store.upload("a/c/3").await.unwrap();
        upload.write(Bytes::from_static(b"x")).await.unwrap();
        upload.complete().await.unwrap();
        let (_, tag) = store.get_tagged("a/b/1").await.unwrap().unwrap();
        store
            .replace("a/b/1", Bytes::from_static(b"y"), &tag)
            .await
            .unwrap();
        let mode = |path: &str| fs::metadata(dir.path().join(path)).unwrap().permissions().mode() & 0o7777;
        for path in ["a", "a/b", "a/c"] {
            assert_eq!(mode(path), dirs, "{path} below {root:o}");
        }
        for path in ["a/b/1", "a/b/2", "a/c/3"] {
            assert_eq!(mode(path), files, "{path} below {root:o}");
        }
        if root == 0o2770 {
            assert_eq!(mode(LOCK), 0o660);
        }
    }
}

#[tokio::test]
async fn b12_an_upload_is_synced_as_it_goes() {
    let (_dir, store) = place();
    let file = Some(store.temporary().unwrap());
    let path = store.file("big").unwrap();
    let mut upload = Box::new(DirUpload {
        store: store.clone(),
        path,
        file,
        unsynced: SYNC_BYTES - 10,
    });
    upload.write(Bytes::from_static(b"12345")).await.unwrap();
    assert_eq!(upload.unsynced, SYNC_BYTES - 5);
    upload.write(Bytes::from_static(b"67890")).await.unwrap();
    assert_eq!(upload.unsynced, 0);
    upload.complete().await.unwrap();
    assert_eq!(store.get_small("big").await.unwrap().unwrap(), "1234567890");
}

#[test]
fn b12_what_the_file_system_does_not_tell_of_is_no_missing_object() {
    let entry = |number: i32| if_present::<()>(Err(io::Error::from_raw_os_error(number)), Path::new("x"));
    let (gone, io, stale, denied) = (2, 5, 116, 13);
    assert_eq!(entry(gone), Ok(None));
    for number in [io, stale, denied] {
        assert!(entry(number).is_err(), "{number}");
    }
}
