//! The cluster and the member of an etcd data directory, from the metadata record of its first WAL file.
//!
//! Source: etcd's `server/storage/wal/{decoder,encoder,wal}.go`. A frame is an 8-byte little-endian length
//! field (low 56 bits: length of the record; when the highest bit is set, bits 56 to 58: bytes of padding),
//! then a `walpb.Record`, then the padding. Each file begins with a CRC record and a metadata record.

pub(super) mod check;

use std::fs::File;
use std::io::{self, ErrorKind, Read};
use std::path::{Path, PathBuf};

use crc_fast::{CrcAlgorithm, Digest};
use prost::Message;

use crate::model::{ClusterId, MemberId};

#[derive(Clone, PartialEq, Message)]
struct Record {
    #[prost(int64, tag = "1")]
    kind: i64,
    #[prost(uint32, tag = "2")]
    crc: u32,
    #[prost(bytes = "vec", tag = "3")]
    data: Vec<u8>,
}

#[derive(Clone, PartialEq, Message)]
struct Metadata {
    #[prost(uint64, tag = "1")]
    node_id: u64,
    #[prost(uint64, tag = "2")]
    cluster_id: u64,
}

#[derive(Clone, PartialEq, Message)]
struct Snapshot {
    #[prost(uint64, tag = "1")]
    index: u64,
}

const METADATA: i64 = 1;
const ENTRY: i64 = 2;
const CRC: i64 = 4;
const SNAPSHOT: i64 = 5;
/// The metadata record is the second one. A few more are read, up to this size each.
const MAX_RECORDS: usize = 8;
const MAX_RECORD_BYTES: u64 = 64 << 10;

/// Why a WAL could not be identified.
#[derive(Debug, thiserror::Error)]
pub enum WalError {
    /// It was read and is not a WAL of etcd.
    #[error("{0}")]
    Content(String),
    /// It could not be read: nothing is known.
    #[error("reading {path}: {source}")]
    Io {
        /// What was read.
        path: PathBuf,
        /// What the kernel said.
        source: io::Error,
    },
}

/// Whether a `member/wal` directory exists and holds a file of a log. etcd then takes its member from that
/// log.
///
/// # Errors
/// [`WalError::Io`] when it could not be read.
pub fn is_there(dir: &Path) -> Result<bool, WalError> {
    match names(dir) {
        Ok(names) => Ok(!names.is_empty()),
        Err(WalError::Io { source, .. })
            if matches!(source.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) =>
        {
            Ok(false)
        }
        Err(error) => Err(error),
    }
}

/// The cluster and the member of the oldest file in a `member/wal` directory.
///
/// # Errors
/// [`WalError::Content`] when it is not a WAL, [`WalError::Io`] when it could not be read.
pub fn identify(dir: &Path) -> Result<(ClusterId, MemberId), WalError> {
    let (path, _) = oldest(dir)?;
    let head = head(&path)?;
    decode(&head).map_err(|why| WalError::Content(format!("{}: {why}", path.display())))
}

/// Whether a WAL holds anything of raft's log: an entry, or a snapshot that stands for entries. etcd makes a
/// WAL without either when it starts on an emptied directory with `initial-cluster-state=existing`: the
/// metadata is this member's, and everything that it has acknowledged is lost. Unknown counts as true.
///
/// # Errors
/// As [`identify`].
pub fn remembers(dir: &Path) -> Result<bool, WalError> {
    let (path, files) = oldest(dir)?;
    Ok(files > 1 || has_log(&head(&path)?))
}

/// The oldest file in a `member/wal` directory, and how many there are.
fn oldest(dir: &Path) -> Result<(PathBuf, usize), WalError> {
    let names = names(dir)?;
    match names.first() {
        Some(name) => Ok((dir.join(name), names.len())),
        None => Err(WalError::Content(format!("no WAL file in {}", dir.display()))),
    }
}

/// The names of a log's files, oldest first.
fn names(dir: &Path) -> Result<Vec<String>, WalError> {
    let failed = |source| WalError::Io {
        path: dir.to_owned(),
        source,
    };
    let mut names = Vec::new();
    for entry in std::fs::read_dir(dir).map_err(failed)? {
        let name = entry.map_err(failed)?.file_name();
        names.extend(name.to_str().filter(|name| is_wal_name(name)).map(str::to_owned));
    }
    names.sort_unstable();
    Ok(names)
}

/// The bytes of a record and of the padding after it, from the length field before it.
fn frame(field: u64) -> (u64, u64) {
    let padding = if field >> 63 == 1 { (field >> 56) & 0x7 } else { 0 };
    (field & ((1 << 56) - 1), padding)
}

fn head(path: &Path) -> Result<Vec<u8>, WalError> {
    let mut head = Vec::new();
    File::open(path)
        .and_then(|file| file.take(2 * MAX_RECORD_BYTES).read_to_end(&mut head))
        .map_err(|source| WalError::Io {
            path: path.to_owned(),
            source,
        })?;
    Ok(head)
}

/// `<16 hex digits>-<16 hex digits>.wal`
fn is_wal_name(name: &str) -> bool {
    let Some((sequence, index)) = name.strip_suffix(".wal").and_then(|stem| stem.split_once('-')) else {
        return false;
    };
    [sequence, index]
        .iter()
        .all(|part| part.len() == 16 && part.bytes().all(|b| b.is_ascii_hexdigit()))
}

/// The IDs in the metadata record at the head of a WAL file.
///
/// # Errors
/// One line that says what is wrong with the bytes.
pub fn decode(head: &[u8]) -> Result<(ClusterId, MemberId), String> {
    let mut rest = head;
    let mut crc = 0;
    for _ in 0..MAX_RECORDS {
        let Some((field, after)) = rest.split_first_chunk::<8>() else {
            return Err("ends before its metadata record".to_owned());
        };
        let (length, padding) = frame(u64::from_le_bytes(*field));
        if length == 0 {
            return Err("holds no metadata record".to_owned());
        }
        if length > MAX_RECORD_BYTES {
            return Err(format!("a record claims {length} bytes"));
        }
        let at = |n: u64| usize::try_from(n).unwrap_or(usize::MAX);
        let (Some(body), Some(next)) = (after.get(..at(length)), after.get(at(length + padding)..)) else {
            return Err("ends within a record".to_owned());
        };
        let record = Record::decode(body).map_err(|error| format!("a record is garbage: {error}"))?;
        match record.kind {
            CRC => crc = record.crc,
            METADATA => {
                if crc32c(crc, &record.data) != record.crc {
                    return Err("the checksum of its metadata record is wrong".to_owned());
                }
                let metadata = Metadata::decode(record.data.as_slice())
                    .map_err(|error| format!("its metadata record is garbage: {error}"))?;
                if metadata.node_id == 0 || metadata.cluster_id == 0 {
                    return Err("its metadata record names no member or no cluster".to_owned());
                }
                return Ok((ClusterId(metadata.cluster_id), MemberId(metadata.node_id)));
            }
            _ => {}
        }
        rest = next;
    }
    Err("its first records hold no metadata".to_owned())
}

/// See [`remembers`]; of the head of the oldest file.
fn has_log(head: &[u8]) -> bool {
    let at = |n: u64| usize::try_from(n).unwrap_or(usize::MAX);
    let mut rest = head;
    while let Some((field, after)) = rest.split_first_chunk::<8>() {
        let (length, padding) = frame(u64::from_le_bytes(*field));
        if length == 0 {
            return false;
        }
        let (Some(body), Some(next)) = (after.get(..at(length)), after.get(at(length + padding)..)) else {
            return true;
        };
        let Ok(record) = Record::decode(body) else {
            return true;
        };
        match record.kind {
            ENTRY => return true,
            SNAPSHOT if Snapshot::decode(record.data.as_slice()).map_or(true, |found| found.index > 0) => {
                return true;
            }
            _ => rest = next,
        }
    }
    // The end of the file, or of the part that was read.
    head.len() >= at(2 * MAX_RECORD_BYTES)
}

/// CRC-32 (Castagnoli), continued from `seed` as Go's `crc32.Update` does.
#[allow(clippy::cast_possible_truncation)]
fn crc32c(seed: u32, data: &[u8]) -> u32 {
    let mut digest = Digest::new_with_init_state(CrcAlgorithm::Crc32Iscsi, (!seed).into());
    digest.update(data);
    digest.finalize() as u32
}

/// A WAL head with these IDs, framed as etcd does it.
#[cfg(test)]
pub(crate) fn encode(cluster: ClusterId, member: MemberId) -> Vec<u8> {
    encode_with(cluster, member, &[])
}

/// The same with more records, by kind and data.
#[cfg(test)]
pub(crate) fn encode_with(cluster: ClusterId, member: MemberId, more: &[(i64, &[u8])]) -> Vec<u8> {
    let data = Metadata {
        node_id: member.0,
        cluster_id: cluster.0,
    }
    .encode_to_vec();
    let more = more.iter().map(|(kind, data)| Record {
        kind: *kind,
        crc: 0,
        data: data.to_vec(),
    });
    let records = [
        Record {
            kind: CRC,
            crc: 0,
            data: Vec::new(),
        },
        Record {
            kind: METADATA,
            crc: crc32c(0, &data),
            data,
        },
    ];
    let mut out = Vec::new();
    for record in records.into_iter().chain(more) {
        put(&mut out, &record);
    }
    // The rest of a preallocated file is zeroes.
    out.extend([0; 64]);
    out
}

#[cfg(test)]
fn put(out: &mut Vec<u8>, record: &Record) {
    let body = record.encode_to_vec();
    let padding = (8 - body.len() % 8) % 8;
    let mut field = body.len() as u64;
    if padding > 0 {
        field |= (0x80 | padding as u64) << 56;
    }
    out.extend(field.to_le_bytes());
    out.extend(&body);
    out.extend(std::iter::repeat_n(0, padding));
}

/// Appends a record with its place in the chain of checksums.
#[cfg(test)]
fn append(out: &mut Vec<u8>, crc: &mut u32, kind: i64, data: &[u8]) {
    *crc = crc32c(*crc, data);
    let record = Record {
        kind,
        crc: *crc,
        data: data.to_vec(),
    };
    put(out, &record);
}

/// The checksum after the head that [`encode`] makes.
#[cfg(test)]
fn metadata_crc(cluster: ClusterId, member: MemberId) -> u32 {
    let metadata = Metadata {
        node_id: member.0,
        cluster_id: cluster.0,
    };
    crc32c(0, &metadata.encode_to_vec())
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
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
}
