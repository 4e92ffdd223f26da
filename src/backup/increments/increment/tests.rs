//! Tests of the increment's form: what was packed comes back, and what was altered is refused.

use super::*;
use proptest::prelude::*;

fn head(first: u64, last: u64) -> Head {
    Head {
        format: FORMAT,
        first: Revision(first),
        last: Revision(last),
        cluster_id: ClusterId(1),
        epoch: Epoch(1),
        node: NodeName::new("n1").unwrap(),
        at: UnixMs(last * 1000),
        previous: None,
        leases: vec![Lease { id: -7, ttl_s: 60 }],
        unasked: Vec::new(),
        sha256: String::new(),
    }
}

fn packed(increment: &Increment) -> Bytes {
    let mut records = Records::default();
    for entry in &increment.entries {
        records.push(entry);
    }
    assert_eq!(
        records.last().map(|last| last.0),
        increment.entries.last().map(|entry| entry.revision)
    );
    records.pack(increment.head.clone()).unwrap()
}

fn entry(revision: u64, changes: &[(&str, &str)]) -> Entry {
    Entry {
        revision,
        at_ms: revision * 1000,
        changes: changes
            .iter()
            .map(|(key, value)| Change {
                deleted: value.is_empty(),
                stored: format!("{key}={value}").into_bytes(),
            })
            .collect(),
    }
}

#[test]
fn what_was_altered_is_refused() {
    let increment = Increment {
        head: head(5, 9),
        entries: (5..9)
            .map(|n| entry(n, &[("a", "1")]))
            .chain([entry(9, &[("a", "")])])
            .collect(),
    };
    let good = packed(&increment);
    assert_eq!(Increment::decode(&good).unwrap().entries, increment.entries);
    for cut in 0..good.len() {
        assert!(Increment::decode(&good[..cut]).is_err(), "cut at {cut}");
    }
    let raw = zstd::stream::decode_all(good.as_ref()).unwrap();
    for at in 0..raw.len() {
        let mut bad = raw.clone();
        bad[at] ^= 1;
        let bad = zstd::stream::encode_all(bad.as_slice(), 1).unwrap();
        if let Ok(read) = Increment::decode(&bad) {
            // A head with another time or node name is still valid; the records never change.
            assert_eq!(read.entries, increment.entries, "{at}");
        }
    }
}

#[test]
fn c05_revisions_that_the_head_does_not_name_or_that_are_missing_are_refused() {
    let some =
        |revisions: &[u64]| -> Vec<Entry> { revisions.iter().map(|n| entry(*n, &[("a", "1")])).collect() };
    for (what, entries, good) in [
        ("all", some(&[5, 6, 7, 8, 9]), true),
        ("none", some(&[]), false),
        ("the first is missing", some(&[6, 7, 8, 9]), false),
        ("one is missing", some(&[5, 6, 8, 9]), false),
        ("the last is missing", some(&[5, 6, 7, 8]), false),
        ("one before", some(&[4, 5, 6, 7, 8, 9]), false),
        ("one after", some(&[5, 6, 7, 8, 9, 10]), false),
        ("one twice", some(&[5, 6, 6, 7, 8, 9]), false),
        ("out of order", some(&[5, 7, 6, 8, 9]), false),
        (
            "one without a change",
            [some(&[5, 6, 7, 8]), vec![entry(9, &[])]].concat(),
            false,
        ),
    ] {
        let bytes = packed(&Increment {
            head: head(5, 9),
            entries,
        });
        assert_eq!(Increment::decode(&bytes).is_ok(), good, "{what}");
    }
}

#[test]
fn the_small_the_large_and_what_fits_no_piece_come_back() {
    let noise = |size| Change {
        deleted: false,
        stored: crate::backup::testing::noise(size),
    };
    let changes = |number: u64| match number {
        70 => vec![noise(4 << 20), noise(3 << 20)],
        n if n % 10 == 0 => vec![noise(CHUNK_BYTES)],
        n => vec![noise(usize::try_from(n).unwrap())],
    };
    let entries: Vec<Entry> = (5..=900)
        .map(|revision| Entry {
            revision,
            at_ms: revision,
            changes: changes(revision),
        })
        .collect();
    let increment = Increment {
        head: head(5, 900),
        entries,
    };
    assert_eq!(
        Increment::decode(&packed(&increment)).unwrap().entries,
        increment.entries
    );
}

proptest! {
    #[test]
    fn all_of_it_comes_back(revisions in proptest::collection::vec(proptest::collection::vec((any::<bool>(), proptest::collection::vec(any::<u8>(), 0..80)), 1..4), 1..40)) {
        let entries: Vec<Entry> = (5..).zip(revisions).map(|(revision, changes)| Entry {
            revision,
            at_ms: revision + 99,
            changes: changes.into_iter().map(|(deleted, stored)| Change { deleted, stored }).collect(),
        }).collect();
        let increment = Increment { head: head(5, 4 + entries.len() as u64), entries };
        let read = Increment::decode(&packed(&increment)).unwrap();
        prop_assert_eq!(read.entries, increment.entries);
        prop_assert_eq!(read.head.leases, increment.head.leases);
    }

    #[test]
    fn garbage_is_an_error(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
        let squeezed = zstd::stream::encode_all(bytes.as_slice(), 1).unwrap();
        prop_assert!(Increment::decode(&bytes).is_err());
        prop_assert!(Increment::decode(&squeezed).is_err());
    }
}
