//! Whether a log still holds entries of etcd's v2 API. etcd 3.5 writes them for its own purposes, 3.6 reads
//! them and does not write them, and 3.7 panics on them ("unmarshal should never fail").
//!
//! Source: `publish` in etcd 3.5's `server/etcdserver/server.go`, `applyEntryNormal` in that of 3.6 and 3.7,
//! and `bootstrapRaft` in `server/etcdserver/bootstrap.go`: etcd applies the entries after its newest
//! snapshot of raft that the log mentions.

use std::path::Path;

use prost::Message;

use super::check::{begins_at, read, snapshots};
use super::{ENTRY, SNAPSHOT, Snapshot, WalError, names};

/// `raftpb.Entry`.
#[derive(Clone, PartialEq, Message)]
pub(super) struct Entry {
    /// 0 for one that is not about the members.
    #[prost(int32, tag = "1")]
    pub(super) kind: i32,
    #[prost(uint64, tag = "3")]
    pub(super) index: u64,
    #[prost(bytes = "vec", tag = "4")]
    pub(super) data: Vec<u8>,
}

/// The part of `InternalRaftRequest` that was v2's, and of the older `Request`, which always has a method
/// there.
#[derive(Clone, PartialEq, Message)]
pub(super) struct Request {
    #[prost(bytes = "vec", optional, tag = "2")]
    pub(super) v2: Option<Vec<u8>>,
}

/// Whether etcd would apply an entry of v2 if it started on the log in `dir`, with the snapshots of raft in
/// `snap`. etcd may be writing to it.
///
/// # Errors
/// [`WalError::Io`] when it could not be read, [`WalError::Content`] when it is damaged: nothing is known.
pub(in crate::unit) fn holds_v2(dir: &Path, snap: &Path) -> Result<bool, WalError> {
    let snapshots = snapshots(snap)?;
    let names = names(dir)?;
    // The file in which the newest snapshot is mentioned, or one before it.
    let newest = snapshots.last().copied().unwrap_or(0);
    let first = names
        .iter()
        .rposition(|name| begins_at(name) <= newest)
        .unwrap_or(0);
    let (mut snapshot, mut v2) = (0, None);
    let damage = read(
        dir,
        names.get(first..).unwrap_or_default(),
        &mut |record| match record.kind {
            SNAPSHOT => {
                let index = Snapshot::decode(record.data.as_slice()).map_or(0, |found| found.index);
                if snapshots.contains(&index) {
                    snapshot = snapshot.max(index);
                }
            }
            ENTRY => {
                if let Some(index) = v2_index(&record.data) {
                    v2 = v2.max(Some(index));
                }
            }
            _ => {}
        },
    )?;
    match damage {
        None => Ok(v2.is_some_and(|index| index > snapshot)),
        Some(why) => Err(WalError::Content(why)),
    }
}

/// The index of an entry of v2, and of one that cannot be understood.
fn v2_index(data: &[u8]) -> Option<u64> {
    let Ok(entry) = Entry::decode(data) else {
        return Some(u64::MAX);
    };
    if entry.kind != 0 || entry.data.is_empty() {
        return None;
    }
    match Request::decode(entry.data.as_slice()) {
        Ok(Request { v2: None }) => None,
        _ => Some(entry.index),
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use std::fs;

    use super::super::testing::{append, encode, metadata_crc};
    use super::*;
    use crate::model::{ClusterId, MemberId};

    /// A put: field 4 of `InternalRaftRequest` after its ID.
    const PUT: &[u8] = &[0x08, 0x07, 0x22, 0x02, 0x0a, 0x00];
    /// A change of a member: `ConfChange`, whose second field is a number.
    const CHANGE: &[u8] = &[0x08, 0x07, 0x10, 0x00];
    const NORMAL: i32 = 0;
    const CONF_CHANGE: i32 = 1;

    /// `etcdserverpb.Request` as 3.5 publishes a member with it: ID, method, path, value.
    fn publish() -> Vec<u8> {
        let mut out = vec![0x08, 0x07];
        for (tag, text) in [(0x12, "PUT"), (0x1a, "/0/members/9/attributes"), (0x22, "{}")] {
            out.extend([tag, u8::try_from(text.len()).unwrap()]);
            out.extend(text.as_bytes());
        }
        out
    }

    struct Log {
        dir: tempfile::TempDir,
        file: Vec<u8>,
        crc: u32,
    }

    impl Log {
        fn new() -> Self {
            let mut file = encode(ClusterId(7), MemberId(9));
            file.truncate(file.len() - 64);
            let crc = metadata_crc(ClusterId(7), MemberId(9));
            let dir = tempfile::tempdir().unwrap();
            fs::create_dir_all(dir.path().join("wal")).unwrap();
            fs::create_dir_all(dir.path().join("snap")).unwrap();
            Self { dir, file, crc }
        }

        fn entry(mut self, index: u64, kind: i32, data: &[u8]) -> Self {
            let data = data.to_vec();
            let entry = Entry { kind, index, data }.encode_to_vec();
            append(&mut self.file, &mut self.crc, ENTRY, &entry);
            self
        }

        /// A snapshot that the log mentions, and its file.
        fn snapshot(mut self, index: u64, has_file: bool) -> Self {
            let record = Snapshot { index }.encode_to_vec();
            append(&mut self.file, &mut self.crc, SNAPSHOT, &record);
            if has_file {
                let name = format!("{:016x}-{index:016x}.snap", 2);
                fs::write(self.dir.path().join("snap").join(name), "").unwrap();
            }
            self
        }

        fn holds_v2(&self) -> Result<bool, WalError> {
            let mut file = self.file.clone();
            file.extend([0; 4096]);
            let name = "0000000000000000-0000000000000000.wal";
            fs::write(self.dir.path().join("wal").join(name), file).unwrap();
            holds_v2(&self.dir.path().join("wal"), &self.dir.path().join("snap"))
        }
    }

    #[test]
    fn entries_of_v2_count_until_a_snapshot_stands_for_them() {
        let young = Log::new().entry(1, CONF_CHANGE, CHANGE).entry(2, NORMAL, &[]);
        let young = young.entry(3, NORMAL, PUT);
        assert!(!young.holds_v2().unwrap(), "etcd 3.6 wrote it all");
        let old = young.entry(4, NORMAL, &publish()).entry(5, NORMAL, PUT);
        assert!(old.holds_v2().unwrap());
        let before = old.snapshot(3, true);
        assert!(before.holds_v2().unwrap(), "a snapshot from before it");
        let gone = before.snapshot(5, false);
        assert!(gone.holds_v2().unwrap(), "a snapshot without its file");
        let after = gone.snapshot(4, true);
        assert!(!after.holds_v2().unwrap());
        assert!(
            after.entry(6, NORMAL, &publish()).holds_v2().unwrap(),
            "a later one"
        );
    }

    #[test]
    fn what_cannot_be_read_is_not_known() {
        let garbage = Log::new().entry(1, NORMAL, &[0xff]);
        assert!(garbage.holds_v2().unwrap(), "an entry that is not understood");
        let mut damaged = Log::new().entry(1, NORMAL, PUT).entry(2, NORMAL, PUT);
        let at = damaged.file.len() - 40;
        damaged.file[at] ^= 1;
        assert!(matches!(damaged.holds_v2(), Err(WalError::Content(_))));
        fs::remove_dir_all(damaged.dir.path().join("snap")).unwrap();
        assert!(matches!(damaged.holds_v2(), Err(WalError::Io { .. })));
    }
}
