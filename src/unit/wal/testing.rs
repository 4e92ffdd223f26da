//! Writes heads and records of a write-ahead log as etcd does, for tests.

use prost::Message;

use super::{CRC, METADATA, Metadata, Record, crc32c};
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
