use std::fs::File;
use std::os::unix::fs::FileExt;

use proptest::prelude::*;

use super::page::{Item, Meta, head, meta_page};
use super::read::{Bucket, Reader, bucket};
use super::write::{Writer, tree_of};
use super::*;
use crate::backup::increments::increment::{Change, Entry, Lease};

const PAGE: u32 = 4096;

/// An inline bucket with these elements, as bbolt stores small ones: laid out like a page without a number.
fn inline(name: &str, items: &[(&[u8], &[u8])]) -> Item {
    let mut value = vec![0; 16];
    value.extend_from_slice(&head(0, page::LEAF, items.len(), 0).unwrap());
    let mut bodies = Vec::new();
    for (n, (key, body)) in items.iter().enumerate() {
        let offset = (items.len() - n) * page::ELEMENT + bodies.len();
        for word in [0, offset, key.len(), body.len()] {
            value.extend_from_slice(&u32::try_from(word).unwrap().to_le_bytes());
        }
        bodies.extend_from_slice(key);
        bodies.extend_from_slice(body);
    }
    value.extend_from_slice(&bodies);
    Item {
        flags: page::IS_BUCKET,
        key: name.as_bytes().to_vec(),
        value,
    }
}

/// The database of a new etcd: small inline buckets, no keys.
fn empty(compacted: Option<u64>) -> File {
    let file = tempfile::tempfile().unwrap();
    file.set_len(2 * u64::from(PAGE)).unwrap();
    let mut writer = Writer::new(&file, PAGE, 2);
    let revision = compacted.map(|revision| {
        let mut bytes = revision.to_be_bytes().to_vec();
        bytes.extend_from_slice(b"_\0\0\0\0\0\0\0\0");
        bytes
    });
    let meta: Vec<(&[u8], &[u8])> = revision
        .iter()
        .map(|revision| (b"finishedCompactRev".as_slice(), revision.as_slice()))
        .collect();
    let root = tree_of(
        &mut writer,
        [
            inline("auth", &[(b"authRevision", b"\0\0\0\0\0\0\0\x01")]),
            inline("key", &[]),
            inline("lease", &[]),
            inline("meta", &meta),
        ],
    )
    .unwrap();
    let meta = Meta {
        version: crate::bolt_meta::VERSION,
        page_size: PAGE,
        root,
        sequence: 0,
        high: writer.high,
        txid: 7,
    };
    for id in [0, 1] {
        file.write_all_at(&meta_page(meta, id).unwrap(), id * u64::from(PAGE))
            .unwrap();
    }
    file
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
    let mut merge = Merge::open(file).unwrap();
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
    let mut merge = Merge::open(&file).unwrap();
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
        Merge::open(&file).and_then(Merge::finish).is_ok()
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
