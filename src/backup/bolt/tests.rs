use std::fs::File;
use std::os::unix::fs::FileExt;

use proptest::prelude::*;

use super::*;
use crate::backup::increments::increment::{Change, Entry, Lease};
use crate::bolt::BoltError;
use crate::bolt::compare::difference;
use crate::bolt::page::Item;
use crate::bolt::read::{Bucket, Reader, bucket};
use crate::bolt::testing::{database, inline};

/// The database of a new etcd: small inline buckets, no keys.
fn empty(compacted: Option<u64>) -> File {
    let revision = compacted.map(|revision| {
        let mut bytes = revision.to_be_bytes().to_vec();
        bytes.extend_from_slice(b"_\0\0\0\0\0\0\0\0");
        bytes
    });
    let meta: Vec<(&[u8], &[u8])> = revision
        .iter()
        .map(|revision| (b"finishedCompactRev".as_slice(), revision.as_slice()))
        .collect();
    with_buckets(vec![
        inline("auth", &[(b"authRevision", b"\0\0\0\0\0\0\0\x01")]),
        inline("key", &[]),
        inline("lease", &[]),
        inline("meta", &meta),
    ])
}

fn entry(revision: u64, changes: Vec<Change>) -> Entry {
    Entry {
        revision,
        at_ms: 0,
        changes,
    }
}

fn change(size: usize) -> Change {
    Change {
        deleted: size == 0,
        // Field 5 of a KeyValue: a value of this size.
        stored: if size == 0 {
            vec![10, 1, b'k']
        } else {
            let mut stored = vec![42];
            prost::encoding::encode_varint(size as u64, &mut stored);
            stored.resize(stored.len() + size, 7);
            stored
        },
    }
}

/// A database with these small buckets.
fn with_buckets(buckets: Vec<Item>) -> File {
    let file = tempfile::tempfile().unwrap();
    database(&file, |_| buckets);
    file
}

#[test]
fn what_an_older_etcd_does_not_know_is_taken_out() {
    let of_3_7: &[(&[u8], &[u8])] = &[
        (b"confState", b"{}"),
        (b"consistent_index", b"\0\0\0\0\0\0\0\x05"),
        (b"finishedCompactRev", b"\0\0\0\0\0\0\0\x03_\0\0\0\0\0\0\0\0"),
        (b"storageVersion", b"3.7.0"),
        (b"term", b"\0\0\0\0\0\0\0\x02"),
    ];
    let new = || {
        with_buckets(vec![
            inline("cluster", &[(b"clusterVersion", b"3.7.0")]),
            inline("key", &[(b"\0\0\0\0\0\0\0\x04_\0\0\0\0\0\0\0\0", b"kv")]),
            inline("lease", &[]),
            inline("meta", of_3_7),
        ])
    };
    let all = [
        "confState",
        "consistent_index",
        "finishedCompactRev",
        "storageVersion",
        "term",
    ];
    let table: [(&str, bool, &[&str]); 5] = [
        ("3.7.3", false, &all),
        ("3.8.0", false, &all),
        (
            "3.6.16",
            true,
            &["confState", "consistent_index", "finishedCompactRev", "term"],
        ),
        (
            "3.5.35",
            true,
            &["confState", "consistent_index", "finishedCompactRev", "term"],
        ),
        ("3.4.23", true, &["consistent_index", "finishedCompactRev"]),
    ];
    for (to, changes, left) in table {
        let file = new();
        assert_eq!(strip(&file, to.parse().unwrap()).unwrap(), changes, "{to}");
        let names: Vec<Vec<u8>> = contents(&file, "meta").into_iter().map(|(key, _)| key).collect();
        let expected: Vec<Vec<u8>> = left.iter().map(|name| name.as_bytes().to_vec()).collect();
        assert_eq!(names, expected, "{to}");
        let buckets = Reader::open(&file).unwrap().buckets().unwrap();
        assert_eq!(
            buckets.iter().any(|item| item.key == b"cluster"),
            to != "3.4.23",
            "{to}"
        );
        assert_eq!(
            difference(&file, &new()).unwrap(),
            None,
            "{to}: what clients store is left alone"
        );
        assert!(
            !strip(&file, to.parse().unwrap()).unwrap(),
            "{to}: nothing is left to do"
        );
    }
}

/// A chain of increments has no bound by itself, and the file is often on the file system of etcd's own data.
#[test]
fn a_merge_ends_at_its_limit() {
    let file = empty(None);
    let limit = 1 << 20;
    let mut merge = Merge::open(&file, limit).unwrap();
    let pushed = (2..10_000).try_for_each(|r| merge.push(&entry(r, vec![change(1000)])));
    let error = pushed.unwrap_err();
    assert!(matches!(&error, BoltError::Io(error) if error.kind() == std::io::ErrorKind::FileTooLarge));
    assert!(error.to_string().contains("1048576"), "{error}");
    let size = file.metadata().unwrap().len();
    assert!(size > limit / 2 && size < 2 * limit, "{size}");
}

#[test]
fn the_first_difference_is_named_without_a_value() {
    let entries = |n: u64, last: usize| -> Vec<Entry> {
        let size = |r| if r == n { last } else { 10 };
        (2..=n).map(|r| entry(r, vec![change(size(r))])).collect()
    };
    let made = |n, last, leases: &[Lease]| {
        let file = empty(None);
        merge(&file, &entries(n, last), leases);
        file
    };
    let one = made(900, 10, &[]);
    assert_eq!(difference(&one, &made(900, 10, &[])).unwrap(), None);
    let leased = [Lease { id: 0x1f, ttl_s: 60 }];
    let table = [
        (
            made(900, 11, &[]),
            "in the bucket key, the values of element revision 900.0 differ",
        ),
        (
            made(899, 10, &[]),
            "in the bucket key, after 898 equal elements one has revision 900.0 and the other nothing",
        ),
        (
            made(900, 10, &leased),
            "in the bucket lease, after 0 equal elements one has nothing and the other 1f",
        ),
    ];
    for (other, expected) in table {
        assert_eq!(difference(&one, &other).unwrap().as_deref(), Some(expected));
    }
}

fn contents(file: &File, name: &str) -> Vec<(Vec<u8>, Vec<u8>)> {
    let reader = Reader::open(file).unwrap();
    let found = reader.buckets().unwrap();
    let item = found.iter().find(|item| item.key == name.as_bytes()).unwrap();
    let items = reader.contents(&bucket(item).unwrap()).unwrap();
    items.into_iter().map(|item| (item.key, item.value)).collect()
}

fn stored(entries: &[Entry]) -> Vec<(Vec<u8>, Vec<u8>)> {
    let mut all = Vec::new();
    for entry in entries {
        for (sub, change) in entry.changes.iter().enumerate() {
            let mut key = entry.revision.to_be_bytes().to_vec();
            key.push(b'_');
            key.extend_from_slice(&(sub as u64).to_be_bytes());
            key.extend(change.deleted.then_some(b't'));
            all.push((key, change.stored.clone()));
        }
    }
    all
}

fn merge(file: &File, entries: &[Entry], leases: &[Lease]) {
    let mut merge = Merge::open(file, u64::MAX).unwrap();
    merge.grant(leases);
    for entry in entries {
        merge.push(entry).unwrap();
    }
    merge.finish().unwrap();
}

#[test]
fn what_is_there_already_is_passed_over() {
    let file = empty(Some(5));
    let entries: Vec<Entry> = (2..=9).map(|r| entry(r, vec![change(10)])).collect();
    merge(&file, &entries, &[]);
    assert_eq!(contents(&file, "key"), stored(&entries[4..]), "5 was compacted");
    merge(&file, &entries, &[]);
    assert_eq!(contents(&file, "key"), stored(&entries[4..]), "again");
    assert_eq!(contents(&file, "auth").len(), 1);
}

#[test]
fn leases_are_granted_once_and_none_is_missing() {
    let file = empty(None);
    let leased = Change {
        deleted: false,
        // Field 6 of a KeyValue: lease 9.
        stored: vec![10, 1, b'k', 48, 9],
    };
    merge(&file, &[entry(2, vec![leased])], &[Lease { id: 5, ttl_s: 30 }]);
    merge(&file, &[], &[Lease { id: 5, ttl_s: 99 }]);
    let leases = contents(&file, "lease");
    assert_eq!(
        leases,
        [
            (5_i64.to_be_bytes().to_vec(), vec![8, 5, 16, 30]),
            (9_i64.to_be_bytes().to_vec(), vec![8, 9, 16, 60]),
        ]
    );
}

#[test]
fn c09b_a_lease_that_etcd_was_asked_for_in_vain_is_not_one_that_had_ended() {
    let file = empty(None);
    let leased = |id: u8| Change {
        deleted: false,
        stored: vec![10, 1, b'k', 48, id],
    };
    let mut merge = Merge::open(&file, u64::MAX).unwrap();
    merge.unasked(&[7, 8]);
    merge
        .push(&entry(2, vec![leased(7), leased(8), leased(9)]))
        .unwrap();
    // A later increment has its TTL.
    merge.grant(&[Lease { id: 8, ttl_s: 30 }]);
    merge.finish().unwrap();
    let ttls: Vec<Vec<u8>> = contents(&file, "lease")
        .into_iter()
        .map(|(_, value)| value)
        .collect();
    let day = [8, 7, 16, 0x80, 0xa3, 5].to_vec();
    assert_eq!(ttls, [day, vec![8, 8, 16, 30], vec![8, 9, 16, 60]]);
}

#[test]
fn a_file_that_is_cut_or_altered_is_an_error_or_the_same() {
    let file = empty(None);
    merge(&file, &[entry(2, vec![change(9000), change(3)])], &[]);
    let size = usize::try_from(file.metadata().unwrap().len()).unwrap();
    let mut good = vec![0; size];
    file.read_exact_at(&mut good, 0).unwrap();
    let open = |bytes: &[u8]| {
        let file = tempfile::tempfile().unwrap();
        file.write_all_at(bytes, 0).unwrap();
        Merge::open(&file, u64::MAX).and_then(Merge::finish).is_ok()
    };
    assert!(open(&good));
    for cut in [0, 10, 4096, size - 1] {
        assert!(!open(&good[..cut]), "cut at {cut}");
    }
    for at in (0..size).step_by(7) {
        let mut bad = good.clone();
        bad[at] ^= 0xff;
        // The result does not matter, but the call has to return.
        let _ = open(&bad);
    }
}

#[test]
fn trees_grow_by_levels() {
    let file = empty(None);
    let mut all = Vec::new();
    for round in 0..4_u64 {
        let entries: Vec<Entry> = (0..5000)
            .map(|n| entry(2 + round * 5000 + n, vec![change(100)]))
            .collect();
        merge(&file, &entries, &[]);
        all.extend(entries);
    }
    assert_eq!(contents(&file, "key"), stored(&all));
    let reader = Reader::open(&file).unwrap();
    let items = reader.buckets().unwrap();
    let keys = items.iter().find(|item| item.key == b"key").unwrap();
    let Bucket::Tree { root, .. } = bucket(keys).unwrap() else {
        panic!("inline")
    };
    assert!(reader.leaves(root).unwrap().len() > 500);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(40))]
    #[test]
    fn all_revisions_come_back(rounds in proptest::collection::vec(proptest::collection::vec(proptest::collection::vec(prop_oneof![0_usize..40, 0_usize..40, 3000_usize..20_000], 1..4), 0..60), 1..4)) {
        let file = empty(None);
        let (mut revision, mut all) = (1, Vec::new());
        for round in rounds {
            let entries: Vec<Entry> = round
                .into_iter()
                .map(|sizes| {
                    revision += 1;
                    entry(revision, sizes.into_iter().map(change).collect())
                })
                .collect();
            merge(&file, &entries, &[]);
            all.extend(entries);
        }
        prop_assert_eq!(contents(&file, "key"), stored(&all));
    }
}
