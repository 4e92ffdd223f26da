use std::io::Write;

use proptest::prelude::*;

use super::*;
use crate::adapters::dir::DirStore;
use crate::backup::testing::{cluster, etcd, id, meta, store};
use crate::backup::trailer::snapshot;
use crate::backup::{Manifest, take_full};

const ID: &str = "2026-03-01T04:05:06Z-000042";
const FOREIGN: &str = "2023-11-14T22:13:20Z-000001";

struct Place {
    dir: tempfile::TempDir,
    store: DirStore,
}

impl Place {
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        fs::create_dir(dir.path().join("store")).unwrap();
        fs::create_dir(dir.path().join("restore")).unwrap();
        let store = store(&dir.path().join("store"));
        Self { dir, store }
    }
    async fn with_backup(pages: usize) -> Self {
        let place = Self::new();
        let etcd = etcd(snapshot(pages));
        take_full(&etcd, &place.store, &meta(1_772_337_906), |_| {})
            .await
            .unwrap();
        place
    }
    fn stored(&self, name: &str) -> PathBuf {
        self.dir.path().join("store/prod").join(ID).join(name)
    }
    fn change(&self, name: &str, change: impl FnOnce(&mut Vec<u8>)) {
        let path = self.stored(name);
        let mut bytes = fs::read(&path).unwrap();
        change(&mut bytes);
        fs::write(path, bytes).unwrap();
    }
    fn restore(&self) -> PathBuf {
        self.dir.path().join("restore")
    }
    async fn fetch(&self, name: &str) -> PortResult<FetchedSnapshot> {
        self.fetch_of(name, 1 << 30).await
    }
    async fn fetch_of(&self, name: &str, most: u64) -> PortResult<FetchedSnapshot> {
        let room = Room::of_tests(most);
        fetch_within(&self.store, &cluster(), &id(name), &self.restore(), room).await
    }
    /// The fetch is refused permanently, the error says why, and no file is left.
    async fn refused(&self, name: &str, why: &str) {
        let error = self.fetch(name).await.unwrap_err();
        assert!(matches!(error, PortError::Permanent(_)), "{error}");
        assert!(error.to_string().contains(why), "{error} does not say {why:?}");
        assert_eq!(fs::read_dir(self.restore()).unwrap().count(), 0, "{why}");
    }
}

/// A snapshot may be as large as the database, and holds in the clear what may be encrypted in the store.
#[tokio::test]
async fn what_was_fetched_is_removed_and_nothing_else() {
    let place = Place::with_backup(3).await;
    let dir = place.restore();
    place.fetch(ID).await.unwrap();
    fs::write(dir.join(".fetch-killed"), "half").unwrap();
    fs::write(dir.join("notes.txt"), "an operator's").unwrap();
    fs::create_dir(dir.join("scratch")).unwrap();
    assert_eq!(fs::read_dir(&dir).unwrap().count(), 4);
    remove_fetched(&dir).await.unwrap();
    let left = fs::read_dir(&dir)
        .unwrap()
        .map(|entry| entry.unwrap().file_name());
    let mut left: Vec<_> = left.collect();
    left.sort();
    assert_eq!(left, ["notes.txt", "scratch"]);
    remove_fetched(&dir.join("none")).await.unwrap();
}

#[tokio::test]
async fn a_backup_comes_back_byte_by_byte() {
    let place = Place::with_backup(50_000).await;
    fs::write(place.restore().join(".fetch-left-over"), "x").unwrap();
    let fetched = place.fetch(ID).await.unwrap();
    assert_eq!(fs::read(&fetched.path).unwrap(), snapshot(50_000));
    assert_eq!(fetched.file_name, format!("{ID}.db"));
    assert_eq!(fetched.path, place.restore().join(&fetched.file_name));
    assert_eq!(fetched.revision, Revision(77));
    assert_eq!(fetched.manifest.unwrap().sha256, fetched.sha256);
    assert_eq!(
        fs::metadata(&fetched.path).unwrap().permissions().mode() & 0o777,
        0o640
    );
    assert_eq!(fs::read_dir(place.restore()).unwrap().count(), 1);
    place.fetch(ID).await.unwrap();
}

fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    gzip.write_all(bytes).unwrap();
    gzip.finish().unwrap()
}

async fn with_foreign(object: Vec<u8>) -> Place {
    let place = Place::new();
    let key = |file: &str| format!("prod/{FOREIGN}/{file}");
    place
        .store
        .put(&key("etcd.backup.gz"), object.into())
        .await
        .unwrap();
    let meta = r#"{"etcdVersion":"3.5.7","timestamp":"1700000000","clusterSpec":{}}"#;
    place
        .store
        .put(&key("_etcd_backup.meta"), meta.into())
        .await
        .unwrap();
    place
}

#[tokio::test]
async fn a_backup_of_etcd_managers_comes_back() {
    let place = with_foreign(gzip(&snapshot(3000))).await;
    let fetched = place.fetch(FOREIGN).await.unwrap();
    assert_eq!(fs::read(&fetched.path).unwrap(), snapshot(3000));
    assert_eq!((fetched.etcd_version.as_str(), fetched.manifest), ("3.5.7", None));
}

#[tokio::test]
async fn s31_a_damaged_backup_of_etcd_managers_is_refused() {
    let good = snapshot(3000);
    let whole = gzip(&good);
    with_foreign(whole[..whole.len() / 2].to_vec())
        .await
        .refused(FOREIGN, "damaged")
        .await;
    with_foreign(gzip(&good[..good.len() - 32]))
        .await
        .refused(FOREIGN, "no hash")
        .await;
    with_foreign(gzip(&good[..512 * 1000 + 32]))
        .await
        .refused(FOREIGN, "hash")
        .await;
    with_foreign(vec![]).await.refused(FOREIGN, "damaged").await;
}

#[tokio::test]
async fn s31_a_damaged_backup_is_refused_and_leaves_nothing() {
    for at in [20, 5_000, 300_000] {
        let place = Place::with_backup(3000).await;
        place.change("etcd.backup.zst", |bytes| bytes[at] ^= 0x55);
        place.refused(ID, "damaged").await;
    }
    let place = Place::with_backup(3000).await;
    place.change("etcd.backup.zst", |bytes| bytes.truncate(bytes.len() / 2));
    place.refused(ID, "cut off").await;
    place.change("etcd.backup.zst", Vec::clear);
    place.refused(ID, "cut off").await;

    let place = Place::with_backup(3000).await;
    place.change("etcd.backup.zst", |bytes| bytes.extend_from_slice(b"more"));
    place.refused(ID, "damaged").await;

    let place = Place::with_backup(3000).await;
    place.change("etcd.backup.zst", |bytes| {
        let good = snapshot(3000);
        *bytes = zstd::stream::encode_all(&good[..good.len() - 32], 1).unwrap();
    });
    place.refused(ID, "no hash").await;
}

#[tokio::test]
async fn s31_another_snapshot_under_this_name_is_refused() {
    let place = Place::with_backup(3000).await;
    place.change("etcd.backup.zst", |bytes| {
        *bytes = zstd::stream::encode_all(snapshot(2000).as_slice(), 1).unwrap();
    });
    place.refused(ID, "another snapshot").await;
    place.change("etcd.backup.zst", |bytes| {
        *bytes = zstd::stream::encode_all(snapshot(4000).as_slice(), 1).unwrap();
    });
    place.refused(ID, "bytes come out of it").await;
}

#[tokio::test]
async fn what_does_not_fit_is_not_begun() {
    let place = Place::with_backup(8).await;
    place.change("backup.json", |text| {
        let mut manifest = Manifest::parse(&id(ID), text).unwrap();
        manifest.raw_size_bytes = 1 << 60;
        *text = manifest.to_json().unwrap();
    });
    let error = place.fetch_of(ID, u64::MAX).await.unwrap_err();
    assert!(error.to_string().contains("make room"), "{error}");
    // The stated size is above the limit for this cluster.
    place.refused(ID, "more than the").await;
}

/// 64 MiB of zeros in 64 KiB without a recorded size: it ends at the limit, and no file is left.
#[tokio::test]
async fn f09_a_bomb_that_states_no_size_is_stopped_early() {
    let place = with_foreign(gzip(&vec![0; 64 << 20])).await;
    let error = place.fetch_of(FOREIGN, 1 << 20).await.unwrap_err();
    assert!(matches!(error, PortError::Permanent(_)), "{error}");
    assert!(error.to_string().contains("more than 1048576 bytes"), "{error}");
    assert_eq!(fs::read_dir(place.restore()).unwrap().count(), 0);

    // A backup that states a wrong size is stopped at that size.
    let place = Place::with_backup(3000).await;
    place.change("etcd.backup.zst", |bytes| {
        *bytes = zstd::stream::encode_all(vec![0; 64 << 20].as_slice(), 1).unwrap();
    });
    place.refused(ID, "bytes come out of it").await;
}

#[tokio::test]
async fn what_is_not_committed_is_not_there() {
    let place = Place::with_backup(8).await;
    fs::remove_file(place.stored("backup.json")).unwrap();
    place.refused(ID, "no committed backup").await;
    place.refused("never-was", "no committed backup").await;
}

#[tokio::test]
async fn a_window_that_needs_much_memory_is_refused() {
    let place = Place::with_backup(8).await;
    place.change("etcd.backup.zst", |bytes| {
        let mut encoder = zstd::stream::Encoder::new(Vec::new(), 1).unwrap();
        encoder.window_log(27).unwrap();
        encoder.write_all(&snapshot(30_000)).unwrap();
        *bytes = encoder.finish().unwrap();
    });
    place.refused(ID, "damaged").await;
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]
    #[test]
    fn garbage_is_an_error_and_never_a_panic(garbage in proptest::collection::vec(any::<u8>(), 0..3000), magic in any::<bool>(), foreign in any::<bool>()) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let mut object = garbage;
            if magic {
                let start: &[u8] = if foreign { &[0x1f, 0x8b, 8, 0] } else { &[0x28, 0xb5, 0x2f, 0xfd] };
                object.splice(0..0, start.iter().copied());
            }
            if foreign {
                assert!(with_foreign(object).await.fetch(FOREIGN).await.is_err());
            } else {
                let place = Place::with_backup(2).await;
                place.change("etcd.backup.zst", |bytes| *bytes = object);
                assert!(place.fetch(ID).await.is_err());
            }
        });
    }
}

#[test]
fn a_backup_of_unknown_size_that_does_not_fit_is_not_called_damaged() {
    let dir = tempfile::tempdir().unwrap();
    let store = store(dir.path());
    let meta = ForeignMeta::parse(br#"{"etcdVersion":"3.5.7","timestamp":"1700000000"}"#).unwrap();
    let native = Marker::Native(Box::new(crate::backup::store::manifest::example()));
    let failed = |marker: &Marker| {
        let error = io::Error::new(io::ErrorKind::FileTooLarge, "more than 7 bytes come out of it");
        unpack_failed(&store, "prod/x/etcd.backup.gz", marker, dir.path(), &error)
    };
    let damage = failed(&Marker::Foreign(meta));
    assert!(
        matches!(&damage, FetchError::Port(PortError::Permanent(why)) if why.contains("make room")),
        "{damage:?}"
    );
    assert!(matches!(failed(&native), FetchError::Damaged(_)));
}

/// A store with recipients, and one of its backups replaced by an unencrypted one of another origin.
mod exchanged {
    use std::sync::Arc;

    use super::*;
    use crate::adapters::seal::Sealed;
    use crate::config::Encryption;
    use crate::model::UnixMs;

    fn sealed(place: &Place, to: &age::x25519::Identity, encrypts: bool, clear_before: u64) -> Sealed {
        use age::secrecy::ExposeSecret;
        let file = place.dir.path().join("identity");
        fs::write(&file, to.to_string().expose_secret()).unwrap();
        let encryption = Encryption {
            recipients: encrypts.then(|| to.to_public().to_string()).into_iter().collect(),
            identity_file: Some(file),
            accept_plaintext_before: (clear_before > 0).then_some(UnixMs(clear_before * 1000)),
        };
        let inner = DirStore::new(place.dir.path().join("store"));
        Sealed::new(Arc::new(inner), &encryption).unwrap()
    }

    #[tokio::test]
    async fn f04_a_forgery_in_the_clear_is_not_restored_where_backups_are_encrypted() {
        let owner = age::x25519::Identity::generate();
        // The `encryption` in the forgery's backup.json, and whether this node still encrypts.
        for (says, encrypts) in [(Some("age"), true), (None, true), (Some("age"), false)] {
            let place = Place::new();
            let store = sealed(&place, &owner, true, 0);
            take_full(&etcd(snapshot(3)), &store, &meta(1_772_337_906), |_| {})
                .await
                .unwrap();
            let fetched = fetch(&store, &cluster(), &id(ID), &place.restore()).await;
            assert!(fetched.is_ok(), "{fetched:?}");
            fs::remove_file(fetched.unwrap().path).unwrap();

            for file in ["etcd.backup.zst.age", "backup.json"] {
                fs::remove_file(place.stored(file)).unwrap();
            }
            take_full(&etcd(snapshot(5)), &place.store, &meta(1_772_337_906), |_| {})
                .await
                .unwrap();
            place.change("backup.json", |text| {
                let mut manifest: Manifest = serde_json::from_slice(text).unwrap();
                manifest.encryption = says.map(str::to_owned);
                *text = manifest.to_json().unwrap();
            });
            let store = sealed(&place, &owner, encrypts, 0);
            let error = fetch(&store, &cluster(), &id(ID), &place.restore())
                .await
                .expect_err(&format!("{says:?}, encrypts: {encrypts}"));
            assert!(matches!(error, PortError::Permanent(_)), "{error}");
            assert!(error.to_string().contains("is not encrypted"), "{error}");
            assert_eq!(fs::read_dir(place.restore()).unwrap().count(), 0);
        }
    }

    #[tokio::test]
    async fn f04_what_was_taken_before_encryption_was_switched_on_is_restored_when_a_person_says_so() {
        let owner = age::x25519::Identity::generate();
        let place = Place::with_backup(3).await;
        // Begun at 1772337906.
        for (clear_before, taken) in [(0, false), (1_772_337_906, false), (1_772_337_907, true)] {
            let store = sealed(&place, &owner, true, clear_before);
            let fetched = fetch(&store, &cluster(), &id(ID), &place.restore()).await;
            assert_eq!(fetched.is_ok(), taken, "{clear_before}: {fetched:?}");
            if let Err(error) = fetched {
                assert!(
                    error.to_string().contains("restore.accept_plaintext_before"),
                    "{error}"
                );
            }
        }
        // Without encryption the setting is not needed.
        let store = sealed(&place, &owner, false, 0);
        let fetched = fetch(&store, &cluster(), &id(ID), &place.restore()).await;
        assert!(fetched.is_ok(), "{fetched:?}");
        // A backup that states that it is encrypted is never accepted in the clear, whatever time its name
        // states.
        place.change("backup.json", |text| {
            let mut manifest: Manifest = serde_json::from_slice(text).unwrap();
            manifest.encryption = Some("age".to_owned());
            *text = manifest.to_json().unwrap();
        });
        let store = sealed(&place, &owner, true, 1_772_337_907);
        let fetched = fetch(&store, &cluster(), &id(ID), &place.restore()).await;
        assert!(fetched.is_err(), "{fetched:?}");
    }
}
