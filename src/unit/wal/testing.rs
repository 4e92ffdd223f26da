//! Writes heads and records of a write-ahead log as etcd does, for tests.

#![allow(clippy::unwrap_used)]

use std::fs;
use std::path::PathBuf;

use prost::Message;

use super::v2::Entry;
use super::{CRC, ENTRY, METADATA, Metadata, Record, SNAPSHOT, Snapshot, crc32c};
use crate::model::{ClusterId, MemberId};

/// A WAL head with these IDs, framed as etcd does it.
pub(crate) fn encode(cluster: ClusterId, member: MemberId) -> Vec<u8> {
    encode_with(cluster, member, &[])
}

/// The same with more records, by kind and data.
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
pub(super) fn append(out: &mut Vec<u8>, crc: &mut u32, kind: i64, data: &[u8]) {
    *crc = crc32c(*crc, data);
    let record = Record {
        kind,
        crc: *crc,
        data: data.to_vec(),
    };
    put(out, &record);
}

/// The checksum after the head that [`encode`] makes.
pub(super) fn metadata_crc(cluster: ClusterId, member: MemberId) -> u32 {
    let metadata = Metadata {
        node_id: member.0,
        cluster_id: cluster.0,
    };
    crc32c(0, &metadata.encode_to_vec())
}

/// A log of one file, with snapshots of raft next to it.
pub(super) struct Log {
    dir: tempfile::TempDir,
    pub(super) file: Vec<u8>,
    crc: u32,
}

impl Log {
    pub(super) fn new() -> Self {
        let mut file = encode(ClusterId(7), MemberId(9));
        file.truncate(file.len() - 64);
        let crc = metadata_crc(ClusterId(7), MemberId(9));
        let dir = tempfile::tempdir().unwrap();
        let log = Self { dir, file, crc };
        fs::create_dir_all(log.wal()).unwrap();
        fs::create_dir_all(log.snap()).unwrap();
        log
    }

    pub(super) fn wal(&self) -> PathBuf {
        self.dir.path().join("wal")
    }

    pub(super) fn snap(&self) -> PathBuf {
        self.dir.path().join("snap")
    }

    pub(super) fn entry(mut self, index: u64, kind: i32, data: &[u8]) -> Self {
        let data = data.to_vec();
        let entry = Entry { kind, index, data }.encode_to_vec();
        append(&mut self.file, &mut self.crc, ENTRY, &entry);
        self
    }

    /// The log mentions a snapshot.
    pub(super) fn snapshot(mut self, index: u64) -> Self {
        let record = Snapshot { index }.encode_to_vec();
        append(&mut self.file, &mut self.crc, SNAPSHOT, &record);
        self
    }

    /// The log mentions a snapshot, and its file has this content.
    pub(super) fn snapshot_of(self, index: u64, content: &[u8]) -> Self {
        let name = format!("{:016x}-{index:016x}.snap", 2);
        fs::write(self.snap().join(name), content).unwrap();
        self.snapshot(index)
    }

    /// Writes the file of the log.
    pub(super) fn write(&self) {
        let mut file = self.file.clone();
        file.extend([0; 4096]);
        fs::write(self.wal().join("0000000000000000-0000000000000000.wal"), file).unwrap();
    }
}
