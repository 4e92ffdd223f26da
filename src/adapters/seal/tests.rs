use super::super::dir::DirStore;
use super::*;
use tempfile::TempDir;

struct Place {
    dir: TempDir,
    identity: age::x25519::Identity,
}

impl Place {
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        std::fs::create_dir(dir.path().join("store")).unwrap();
        Self {
            dir,
            identity: age::x25519::Identity::generate(),
        }
    }

    fn raw(&self) -> Arc<dyn ObjectStore> {
        Arc::new(DirStore::new(self.dir.path().join("store")))
    }

    fn identity_file(&self, identity: &age::x25519::Identity) -> PathBuf {
        use age::secrecy::ExposeSecret;
        let path = self.dir.path().join("identity");
        let text = format!("# a comment\n{}\n", identity.to_string().expose_secret());
        std::fs::write(&path, text).unwrap();
        path
    }

    fn sealed(&self, encrypt: bool, identity_file: Option<PathBuf>) -> Sealed {
        let recipients = if encrypt {
            vec![self.identity.to_public().to_string()]
        } else {
            Vec::new()
        };
        let encryption = Encryption {
            recipients,
            identity_file,
            accept_plaintext_before: None,
        };
        Sealed::new(self.raw(), &encryption).unwrap()
    }
}

async fn upload(store: &dyn ObjectStore, key: &str, body: &[u8]) {
    let mut upload = store.upload(key).await.unwrap();
    for chunk in body.chunks(100_000) {
        upload.write(Bytes::copy_from_slice(chunk)).await.unwrap();
    }
    upload.complete().await.unwrap();
}

async fn read(store: &dyn ObjectStore, key: &str) -> PortResult<Vec<u8>> {
    let chunks: Vec<Bytes> = store.get(key).await?.unwrap().try_collect().await?;
    Ok(chunks.concat())
}

fn body(size: usize) -> Vec<u8> {
    (0..size).map(|n| u8::try_from(n % 251).unwrap()).collect()
}

#[tokio::test]
async fn data_is_stored_encrypted_and_comes_back_and_the_rest_is_in_the_clear() {
    let place = Place::new();
    let store = place.sealed(true, Some(place.identity_file(&place.identity)));
    assert_eq!(store.encryption(), Some("age"));
    // Sizes around the chunk sizes of age (64 KiB) and of the reader.
    for size in [0, 1, 65_535, 65_536, 65_537, 1_000_003] {
        let body = body(size);
        upload(&store, "b/etcd.backup.zst", &body).await;
        assert!(read(&store, "b/etcd.backup.zst").await.unwrap() == body, "{size}");
        let stored = read(place.raw().as_ref(), "b/etcd.backup.zst.age").await.unwrap();
        assert!(stored.starts_with(b"age-encryption.org/v1\n-> X25519 "));
        assert!(size < 100 || !stored.windows(50).any(|part| part == &body[..50]));
    }
    store
        .put("b/backup.json", Bytes::from_static(b"{}"))
        .await
        .unwrap();
    store
        .put("b/increments/1-2.zst", Bytes::from_static(b"few"))
        .await
        .unwrap();
    assert_eq!(
        store.get_small("b/increments/1-2.zst").await.unwrap().unwrap(),
        "few"
    );
    let once = store
        .create("b/increments/3-4.zst", Bytes::from_static(b"a"))
        .await
        .unwrap();
    assert_eq!(once, Created::Created);
    let twice = store
        .create("b/increments/3-4.zst", Bytes::from_static(b"b"))
        .await
        .unwrap();
    assert!(matches!(twice, Created::Exists(_)));
    let writer = place.sealed(true, None);
    let blind = writer
        .create("b/increments/3-4.zst", Bytes::from_static(b"c"))
        .await;
    assert!(
        matches!(blind, Ok(Created::Exists(_))),
        "writing needs no identity"
    );
    let kept = store.get_small("b/increments/3-4.zst").await.unwrap().unwrap();
    assert_eq!(kept, "a");

    let names = |objects: Vec<ObjectMeta>| objects.into_iter().map(|o| o.key).collect::<Vec<_>>();
    let raw = names(place.raw().list("").await.unwrap());
    assert_eq!(
        raw,
        [
            "b/backup.json",
            "b/etcd.backup.zst.age",
            "b/increments/1-2.zst.age",
            "b/increments/3-4.zst.age"
        ]
    );
    let seen = names(store.list("").await.unwrap());
    assert_eq!(
        seen,
        [
            "b/backup.json",
            "b/etcd.backup.zst",
            "b/increments/1-2.zst",
            "b/increments/3-4.zst"
        ]
    );
    for key in seen {
        store.delete(&key).await.unwrap();
    }
    assert_eq!(place.raw().list("").await.unwrap(), []);
}

#[tokio::test]
async fn what_is_missing_or_wrong_is_said_and_no_secret() {
    let place = Place::new();
    upload(&place.sealed(true, None), "b.zst", &body(200_000)).await;
    let stranger = age::x25519::Identity::generate();
    let none = place.dir.path().join("none");
    let junk = place.dir.path().join("junk");
    std::fs::write(&junk, "AGE-SECRET-KEY-1VERYSECRET\n").unwrap();
    for (file, why) in [
        (None, "set restore.identity_file"),
        (Some(none), "cannot read restore.identity_file"),
        (Some(junk), "it must hold lines with AGE-SECRET-KEY-1"),
        (Some(place.identity_file(&stranger)), "is encrypted for others"),
    ] {
        // Old backups are read the same way whether new ones are encrypted or not.
        for encrypt in [true, false] {
            let error = read(&place.sealed(encrypt, file.clone()), "b.zst")
                .await
                .unwrap_err();
            assert!(matches!(error, PortError::Permanent(_)), "{error}");
            assert!(error.to_string().contains(why), "{error}");
            assert!(!error.to_string().contains("VERYSECRET"), "{error}");
        }
    }
}

#[tokio::test]
async fn what_was_cut_or_changed_is_never_taken_for_whole() {
    let place = Place::new();
    let store = place.sealed(true, Some(place.identity_file(&place.identity)));
    upload(&store, "b.zst", &body(200_000)).await;
    let path = place.dir.path().join("store/b.zst.age");
    let whole = std::fs::read(&path).unwrap();
    for length in [0, 10, 150, 70_000, whole.len() - 1] {
        std::fs::write(&path, &whole[..length]).unwrap();
        let error = read(&store, "b.zst").await.unwrap_err();
        assert!(error.to_string().contains("damaged"), "{length}: {error}");
    }
    let mut changed = whole.clone();
    changed[100_000] ^= 1;
    std::fs::write(&path, changed).unwrap();
    assert!(
        read(&store, "b.zst")
            .await
            .unwrap_err()
            .to_string()
            .contains("damaged")
    );
}

#[tokio::test]
async fn f04_what_is_in_the_clear_is_read_only_where_nothing_has_to_be_encrypted() {
    let place = Place::new();
    upload(&place.sealed(false, None), "b.zst", b"clear").await;
    let expected = |encrypted| Expected {
        encrypted,
        at: UnixMs(5),
    };
    let store = place.sealed(false, None);
    assert_eq!(read(&store, "b.zst").await.unwrap(), b"clear");
    assert!(
        store
            .get_expected("b.zst", expected(false))
            .await
            .unwrap()
            .is_some()
    );
    let sealed = place.sealed(true, None);
    for error in [
        store.get_expected("b.zst", expected(true)).await.err(),
        sealed.get_expected("b.zst", expected(true)).await.err(),
        sealed.get_expected("b.zst", expected(false)).await.err(),
        sealed.get("b.zst").await.err(),
        sealed.get_small("b.zst").await.err(),
    ] {
        let text = error.unwrap().to_string();
        assert!(text.contains("b.zst is not encrypted"), "{text}");
    }
    assert!(sealed.get("c.zst").await.unwrap().is_none());
    // If both objects exist, the encrypted one counts.
    let identity = Some(place.identity_file(&place.identity));
    upload(&place.sealed(true, None), "b.zst", b"sealed").await;
    for encrypts in [true, false] {
        let store = place.sealed(encrypts, identity.clone());
        let stream = store
            .get_expected("b.zst", expected(true))
            .await
            .unwrap()
            .unwrap();
        let chunks: Vec<Bytes> = stream.try_collect().await.unwrap();
        assert_eq!(chunks.concat(), b"sealed");
    }
}

#[test]
fn a_recipient_that_cannot_be_read_stops_everything() {
    let place = Place::new();
    let encryption = Encryption {
        recipients: vec!["age1nonsense".to_owned()],
        identity_file: None,
        accept_plaintext_before: None,
    };
    let error = Sealed::new(place.raw(), &encryption).err().unwrap();
    assert!(error.to_string().contains("is no recipient"), "{error}");
}
