use std::time::Duration;

use super::*;
use crate::backup::store::manifest::example;
use crate::backup::take_full;
use crate::backup::testing::{cluster, etcd, id, meta, store};
use crate::backup::trailer::snapshot;
use crate::model::{Fingerprint, KvHash, Revision, UnixMs};

const ID: &str = "2026-03-01T04:05:06Z-000042";
const AT: u64 = 1_772_337_906;

fn print(keys: u64, hash: u32, compact: u64) -> Fingerprint {
    Fingerprint {
        revision: Revision(81237),
        keys: Some(keys),
        hash: Some(KvHash {
            hash,
            compact_revision: Revision(compact),
        }),
    }
}

fn served(revision: u64, fingerprint: Option<Fingerprint>) -> RestoreReport {
    RestoreReport::Served {
        etcd_version: "3.6.16".to_owned(),
        revision: Revision(revision),
        fingerprint,
    }
}

#[test]
fn what_is_recorded_and_can_be_compared_is_compared() {
    let said = Some(print(5, 7, 1));
    let rows = [
        (
            "the same",
            said,
            served(81240, said),
            "3.6.16",
            "sha256 revision keys hash",
            0,
        ),
        (
            "fewer revisions",
            said,
            served(81236, said),
            "3.6.16",
            "sha256 revision keys hash",
            1,
        ),
        (
            "fewer keys",
            said,
            served(81237, Some(print(4, 7, 1))),
            "3.6.16",
            "sha256 revision keys hash",
            1,
        ),
        (
            "other values",
            said,
            served(81237, Some(print(5, 8, 1))),
            "3.6.16",
            "sha256 revision keys hash",
            1,
        ),
        (
            "compacted meanwhile",
            said,
            served(81237, Some(print(5, 8, 2))),
            "3.6.16",
            "sha256 revision keys",
            0,
        ),
        (
            "another etcd",
            said,
            served(81237, Some(print(5, 8, 1))),
            "3.5.35",
            "sha256 revision keys",
            0,
        ),
        (
            "nothing recorded",
            None,
            served(81237, said),
            "3.6.16",
            "sha256 revision",
            0,
        ),
        (
            "etcd reports nothing",
            said,
            served(81237, None),
            "3.6.16",
            "sha256 revision",
            0,
        ),
    ];
    for (what, said, proof, taken_by, compared, problems) in rows {
        let mut manifest = example();
        manifest.fingerprint = said;
        let found = judge(Some(&manifest), taken_by, proof);
        assert_eq!(found.compared.join(" "), compared, "{what}");
        assert_eq!(found.problems.len(), problems, "{what}: {:?}", found.problems);
    }
    let found = judge(None, "", served(3, None));
    assert_eq!(
        (found.compared.join(" ").as_str(), found.problems.len()),
        ("sha256", 0)
    );
    let refused = RestoreReport::Refused {
        why: "panic: freepages".to_owned(),
    };
    assert_eq!(
        judge(None, "", refused).problems,
        ["it cannot be restored: panic: freepages"]
    );
}

fn verify_meta() -> VerifyMeta {
    VerifyMeta {
        cluster: cluster(),
        id: id(ID),
        node: crate::model::NodeName::new("n2").unwrap(),
        now: UnixMs(AT * 1000),
    }
}

#[tokio::test]
async fn the_result_is_next_to_the_backup_and_nothing_is_left_here() {
    let (dir, work) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let store = store(dir.path());
    take_full(&etcd(snapshot(100)), &store, &meta(AT), |_| {})
        .await
        .unwrap();
    let result = dir.path().join("prod").join(ID).join("verify.json");
    let read = || Verification::parse(&id(ID), &std::fs::read(&result).unwrap()).unwrap();

    let live = etcd(snapshot(1));
    let seen = work.path().join(format!("{ID}.db"));
    let good = verify(
        &store,
        &verify_meta(),
        work.path(),
        &live,
        async |request: VerifyRestoreRequest| {
            assert_eq!(request.snapshot_file, format!("{ID}.db"));
            assert_eq!(std::fs::read(&seen).unwrap(), snapshot(100));
            Ok(served(77, None))
        },
    )
    .await
    .unwrap();
    assert!(good.ok);
    assert_eq!(read(), good);

    let silent = || async { Err(PortError::Retryable("no etcd here".to_owned())) };
    let error = verify(&store, &verify_meta(), work.path(), &live, |_| silent())
        .await
        .unwrap_err();
    assert_eq!(error.to_string(), "no etcd here");
    assert_eq!(read(), good, "nothing was found out");

    let object = dir.path().join("prod").join(ID).join("etcd.backup.zst");
    let mut bytes = std::fs::read(&object).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    std::fs::write(&object, bytes).unwrap();
    let bad = verify(&store, &verify_meta(), work.path(), &live, |_| silent())
        .await
        .unwrap();
    assert!(
        !bad.ok && bad.problems[0].contains("damaged"),
        "{:?}",
        bad.problems
    );
    assert_eq!(read(), bad);
    assert_eq!(std::fs::read_dir(work.path()).unwrap().count(), 0);
}

#[test]
fn a_record_that_is_not_understood_counts_for_nothing() {
    let found = Found {
        compared: vec!["sha256".to_owned()],
        ..Found::default()
    };
    let good = found.into_verification(&verify_meta(), Duration::from_secs(1));
    let text = String::from_utf8(good.to_json().unwrap()).unwrap();
    assert_eq!(Verification::parse(&id(ID), text.as_bytes()), Some(good));
    for (from, to) in [
        ("\"format\": 1", "\"format\": 2"),
        ("000042", "000043"),
        ("\"ok\": true", "\"ok\": false"),
        ("{", "["),
    ] {
        assert_eq!(
            Verification::parse(&id(ID), text.replacen(from, to, 1).as_bytes()),
            None,
            "{to}"
        );
    }
}
