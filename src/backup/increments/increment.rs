//! One increment: every change of a range of revisions, in the form of etcd's own store.
//!
//! An object is a zstd stream of one line of JSON (the head) and length-delimited protobuf records, one per
//! revision. A record contains each changed key as the value in etcd's `key` bucket, byte for byte, so that a
//! restore can put it back under the same revision.

use std::io::Read;

use bytes::Bytes;
use prost::Message;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use crate::model::{ClusterId, Epoch, NodeName, Revision, UnixMs, hex};

use crate::backup::compress::Compressor;

/// The format that this agent writes, and the only one that it reads.
const FORMAT: u32 = 1;
/// The agent closes an increment long before this size; a larger one was not written by an agent.
const MOST_BYTES: u64 = 256 * 1024 * 1024;
/// Size of the chunks that collect small records, below glibc's mmap threshold.
const CHUNK_BYTES: usize = 64 * 1024;
/// The largest zstd window, as a power of two, that the decoder accepts.
const WINDOW_LOG: u32 = 23;

/// All changes of one revision.
#[derive(Clone, PartialEq, Eq, Message)]
pub struct Entry {
    /// The revision.
    #[prost(uint64, tag = "1")]
    pub revision: u64,
    /// When the agent received it, in Unix milliseconds.
    #[prost(uint64, tag = "2")]
    pub at_ms: u64,
    /// The changes in the order of the transaction: the n-th has the sub-revision n.
    #[prost(message, repeated, tag = "3")]
    pub changes: Vec<Change>,
}

/// One key changed.
#[derive(Clone, PartialEq, Eq, Message)]
pub struct Change {
    /// True for a deletion.
    #[prost(bool, tag = "1")]
    pub deleted: bool,
    /// etcd's `mvccpb.KeyValue`, encoded. For a deletion only the key is set.
    #[prost(bytes = "vec", tag = "2")]
    pub stored: Vec<u8>,
}

/// A lease of a key in the increment.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Lease {
    /// Its ID.
    pub id: i64,
    /// Its granted TTL in seconds.
    pub ttl_s: i64,
}

/// The head of an increment: its first line.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Head {
    /// The format version, 1.
    pub format: u32,
    /// The first revision of the increment.
    pub first: Revision,
    /// The last revision. The increment covers every revision from `first` to `last`.
    pub last: Revision,
    /// The etcd cluster of the changes.
    pub cluster_id: ClusterId,
    /// The epoch of the changes.
    pub epoch: Epoch,
    /// The node that wrote it.
    pub node: NodeName,
    /// When it was closed.
    pub at: UnixMs,
    /// The previous increment, as far as the writer knew it; `None` for the first after a full backup.
    pub previous: Option<String>,
    /// Leases of its keys.
    #[serde(default)]
    pub leases: Vec<Lease>,
    /// Leases of its keys, or of earlier keys, whose TTL etcd did not report. A later increment may contain
    /// the TTL.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub unasked: Vec<i64>,
    /// SHA-256 of the records, in hexadecimal.
    pub sha256: String,
}

/// A whole increment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Increment {
    /// Its head.
    pub head: Head,
    /// Its records, ascending by revision.
    pub entries: Vec<Entry>,
}

/// Why bytes are not an increment.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum IncrementError {
    /// Written by an agent of another version.
    #[error("it has format {0}, and this agent reads format {FORMAT}; use a newer agent")]
    Format(u64),
    /// Cut off, altered, or not an increment.
    #[error("it is damaged: {0}")]
    Damaged(String),
}

#[expect(clippy::needless_pass_by_value, reason = "for `map_err`")]
fn damaged(why: impl ToString) -> IncrementError {
    IncrementError::Damaged(why.to_string())
}

/// The records of an increment that is being received. They are encoded on arrival, in chunks that are never
/// moved.
///
/// A full backup may be in memory at the same time, so the records are held only once.
#[derive(Debug, Default)]
pub(in crate::backup) struct Records {
    chunks: Vec<Vec<u8>>,
    last: Option<Revision>,
    bytes: usize,
}

impl Records {
    /// Adds the next revision.
    pub(in crate::backup) fn push(&mut self, entry: &Entry) {
        let record = entry.encode_length_delimited_to_vec();
        self.last = Some(Revision(entry.revision));
        self.bytes += record.len();
        match self.chunks.last_mut() {
            Some(chunk) if chunk.capacity() - chunk.len() >= record.len() => chunk.extend_from_slice(&record),
            _ if record.len() >= CHUNK_BYTES => self.chunks.push(record),
            _ => {
                let mut chunk = Vec::with_capacity(CHUNK_BYTES);
                chunk.extend_from_slice(&record);
                self.chunks.push(chunk);
            }
        }
    }

    /// The newest revision.
    pub(in crate::backup) fn last(&self) -> Option<Revision> {
        self.last
    }

    /// Their size in bytes, before compression.
    pub(in crate::backup) fn bytes(&self) -> usize {
        self.bytes
    }

    /// The increment as it is stored. Fills in the head's format and hash, and frees chunks once they are
    /// compressed.
    ///
    /// # Errors
    /// If memory runs out.
    pub(super) fn pack(self, mut head: Head) -> Result<Bytes, IncrementError> {
        let mut hash = Sha256::new();
        for chunk in &self.chunks {
            hash.update(chunk);
        }
        head.format = FORMAT;
        head.sha256 = hex(&hash.finalize());
        let mut line = serde_json::to_vec(&head).map_err(damaged)?;
        line.push(b'\n');
        let mut packer = Compressor::new().map_err(damaged)?;
        packer.push(&line).map_err(damaged)?;
        for chunk in self.chunks {
            packer.push(&chunk).map_err(damaged)?;
        }
        packer.finish().map_err(damaged)?;
        let mut pieces = packer.take_full();
        Ok(match pieces.len() {
            1 => pieces.remove(0),
            // One transaction was larger than a piece.
            _ => pieces.concat().into(),
        })
    }
}

impl Increment {
    /// Reads an increment that may be hostile: its size is bounded, its hash is checked, and its head must
    /// match its records.
    ///
    /// # Errors
    /// [`IncrementError`].
    pub fn decode(stored: &[u8]) -> Result<Self, IncrementError> {
        #[derive(Deserialize)]
        struct Version {
            format: u64,
        }
        let mut decoder = zstd::stream::read::Decoder::new(stored).map_err(damaged)?;
        decoder.window_log_max(WINDOW_LOG).map_err(damaged)?;
        let mut text = Vec::new();
        decoder
            .take(MOST_BYTES + 1)
            .read_to_end(&mut text)
            .map_err(damaged)?;
        if text.len() as u64 > MOST_BYTES {
            return Err(damaged(format!("more than {MOST_BYTES} bytes come out of it")));
        }
        let end = text.iter().position(|byte| *byte == b'\n');
        let (line, records) = text.split_at(end.ok_or_else(|| damaged("it has no head"))?);
        let version: Version = serde_json::from_slice(line).map_err(damaged)?;
        if version.format != u64::from(FORMAT) {
            return Err(IncrementError::Format(version.format));
        }
        let head: Head = serde_json::from_slice(line).map_err(damaged)?;
        let records = records.get(1..).unwrap_or_default();
        if hex(&Sha256::digest(records)) != head.sha256 {
            return Err(damaged("its hash does not match its content"));
        }
        let entries = entries(records)?;
        let increment = Self { head, entries };
        increment.check()?;
        Ok(increment)
    }

    fn check(&self) -> Result<(), IncrementError> {
        let head = &self.head;
        if head.first > head.last {
            return Err(damaged("its head names no revisions"));
        }
        // etcd writes at least one change under each revision, so a revision without a record was lost.
        let mut expected = head.first;
        for entry in &self.entries {
            if entry.revision != expected.0 || entry.changes.is_empty() || expected > head.last {
                let found = entry.revision;
                return Err(damaged(format!("found revision {found}, expected {expected}")));
            }
            expected = expected.next();
        }
        if expected <= head.last {
            return Err(damaged(format!("revision {expected} is missing")));
        }
        Ok(())
    }
}

/// Whether two increments of the same revisions have different changes; false if one of them cannot be read.
pub(super) fn differ(one: &[u8], other: &[u8]) -> bool {
    let (Ok(one), Ok(other)) = (Increment::decode(one), Increment::decode(other)) else {
        return false;
    };
    let changes = |increment: Increment| -> Vec<Vec<Change>> {
        increment.entries.into_iter().map(|entry| entry.changes).collect()
    };
    changes(one) != changes(other)
}

/// The records after the head.
pub(in crate::backup) fn entries(mut records: &[u8]) -> Result<Vec<Entry>, IncrementError> {
    let mut entries = Vec::new();
    while !records.is_empty() {
        entries.push(Entry::decode_length_delimited(&mut records).map_err(damaged)?);
    }
    Ok(entries)
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests;
