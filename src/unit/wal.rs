//! The cluster and the member of an etcd data directory, from the metadata record of its first WAL file.
//!
//! Source: etcd's `server/storage/wal/{decoder,encoder,wal}.go`. A frame is an 8-byte little-endian length
//! field (low 56 bits: length of the record; when the highest bit is set, bits 56 to 58: bytes of padding),
//! then a `walpb.Record`, then the padding. Each file begins with a CRC record and a metadata record.

pub(super) mod check;
#[cfg(test)]
mod testing;
pub(super) mod v2;
pub(super) mod v2_keys;

use std::fs::File;
use std::io::{self, ErrorKind, Read};
use std::path::{Path, PathBuf};

use crc_fast::{CrcAlgorithm, Digest};
use prost::Message;

use crate::model::{ClusterId, MemberId};

#[cfg(test)]
pub(crate) use testing::{encode, encode_with};

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

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests;
