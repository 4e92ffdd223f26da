//! Tests of reading the head of a log, written here as etcd writes it.

use proptest::prelude::*;

use super::*;

#[test]
fn the_checksum_is_castagnoli() {
    assert_eq!(crc32c(0, b"123456789"), 0xe306_9283);
    assert_eq!(crc32c(crc32c(0, b"1234"), b"56789"), 0xe306_9283);
}

#[test]
fn what_is_found_at_the_head_of_a_file() {
    let good = encode(ClusterId(7), MemberId(9));
    let mut flipped = good.clone();
    let at = flipped.len() - 64 - 4;
    flipped[at] ^= 1;
    let table: [(&str, Vec<u8>, Result<_, &str>); 6] = [
        ("good", good.clone(), Ok((ClusterId(7), MemberId(9)))),
        ("empty", Vec::new(), Err("ends before")),
        ("zeroes", vec![0; 64], Err("holds no metadata")),
        ("cut", good[..20].to_vec(), Err("ends")),
        (
            "no ids",
            encode(ClusterId(0), MemberId(9)),
            Err("names no member"),
        ),
        ("huge", vec![0xff; 64], Err("claims")),
    ];
    for (name, bytes, expected) in table {
        match (decode(&bytes), expected) {
            (Ok(found), Ok(wanted)) => assert_eq!(found, wanted, "{name}"),
            (Err(found), Err(wanted)) => assert!(found.contains(wanted), "{name}: {found}"),
            (found, _) => unreachable!("{name}: {found:?}"),
        }
    }
    assert!(decode(&flipped).is_err(), "a flipped bit");
}

#[test]
fn the_oldest_file_counts() {
    let dir = tempfile::tempdir().unwrap();
    let file = |name: &str, body: Vec<u8>| std::fs::write(dir.path().join(name), body).unwrap();
    assert!(matches!(identify(dir.path()), Err(WalError::Content(_))));
    file("0.tmp", vec![1]);
    file(
        "0000000000000002-0000000000000010.wal",
        encode(ClusterId(7), MemberId(8)),
    );
    file(
        "0000000000000001-0000000000000005.wal",
        encode(ClusterId(1), MemberId(2)),
    );
    assert_eq!(identify(dir.path()).unwrap(), (ClusterId(1), MemberId(2)));
    assert!(matches!(
        identify(&dir.path().join("no")),
        Err(WalError::Io { .. })
    ));
}

#[test]
fn a_wal_without_entries_remembers_nothing() {
    type More<'a> = &'a [(i64, &'a [u8])];
    let state: (i64, &[u8]) = (3, &[8, 7]);
    let none: (i64, &[u8]) = (SNAPSHOT, &[8, 0, 16, 0]);
    let some: (i64, &[u8]) = (SNAPSHOT, &[8, 3, 16, 1]);
    let entry: (i64, &[u8]) = (ENTRY, b"entry");
    let table: [(More<'_>, bool); 5] = [
        (&[], false),
        (&[none, state], false),
        (&[none, state, entry], true),
        (&[some], true),
        (&[none, state, (SNAPSHOT, b"\xff")], true),
    ];
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("0000000000000000-0000000000000000.wal");
    for (more, expected) in table {
        std::fs::write(&path, encode_with(ClusterId(7), MemberId(9), more)).unwrap();
        assert_eq!(remembers(dir.path()).unwrap(), expected, "{more:?}");
    }
    std::fs::write(&path, encode(ClusterId(7), MemberId(9))).unwrap();
    std::fs::write(path.with_file_name("0000000000000001-0000000000000009.wal"), "").unwrap();
    assert!(
        remembers(dir.path()).unwrap(),
        "a second file comes after entries"
    );
}

proptest! {
    #[test]
    fn garbage_never_panics(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
        let _ = has_log(&bytes);
        let _ = decode(&bytes);
    }

    #[test]
    fn any_ids_come_back(cluster in 1u64.., member in 1u64..) {
        prop_assert_eq!(decode(&encode(ClusterId(cluster), MemberId(member))), Ok((ClusterId(cluster), MemberId(member))));
    }

    #[test]
    fn a_changed_byte_never_changes_the_ids(cluster in 1u64.., member in 1u64.., at in 0usize..80, with in any::<u8>()) {
        let mut bytes = encode(ClusterId(cluster), MemberId(member));
        if let Some(byte) = bytes.get_mut(at) { *byte = with; }
        if let Ok(found) = decode(&bytes) {
            prop_assert_eq!(found, (ClusterId(cluster), MemberId(member)));
        }
    }
}
