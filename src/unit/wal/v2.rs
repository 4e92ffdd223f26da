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
    let mut v2 = None;
    let snapshot = after_snapshot(dir, snap, &mut |entry| {
        if is_v2(&entry) {
            v2 = v2.max(Some(entry.index));
        }
    })?;
    Ok(v2.is_some_and(|index| index > snapshot))
}

/// Hands over the entries of the log, at least all after the newest snapshot that it mentions and whose file is there.
/// Returns the index of that snapshot, 0 if there is none. An entry that is garbage is handed over as a normal one with
/// the highest index.
///
/// # Errors
/// As [`holds_v2`].
pub(super) fn after_snapshot(dir: &Path, snap: &Path, each: &mut dyn FnMut(Entry)) -> Result<u64, WalError> {
    let snapshots = snapshots(snap)?;
    let names = names(dir)?;
    // The file in which the newest snapshot is mentioned, or one before it.
    let newest = snapshots.last().copied().unwrap_or(0);
    let first = names
        .iter()
        .rposition(|name| begins_at(name) <= newest)
        .unwrap_or(0);
    let mut snapshot = 0;
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
            ENTRY => each(Entry::decode(record.data.as_slice()).unwrap_or_else(|_| Entry {
                kind: 0,
                index: u64::MAX,
                data: vec![0xff],
            })),
            _ => {}
        },
    )?;
    match damage {
        None => Ok(snapshot),
        Some(why) => Err(WalError::Content(why)),
    }
}

/// True for an entry of v2, and for one that cannot be understood.
fn is_v2(entry: &Entry) -> bool {
    if entry.kind != 0 || entry.data.is_empty() {
        return false;
    }
    !matches!(Request::decode(entry.data.as_slice()), Ok(Request { v2: None }))
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use std::fs;

    use super::super::testing::Log;
    use super::*;

    /// A put: field 4 of `InternalRaftRequest` after its ID.
    const PUT: &[u8] = &[0x08, 0x07, 0x22, 0x02, 0x0a, 0x00];
    /// A change of a member: `ConfChange`, whose second field is a number.
    const CHANGE: &[u8] = &[0x08, 0x07, 0x10, 0x00];
    const NORMAL: i32 = 0;
    const CONF_CHANGE: i32 = 1;

    fn v2(log: &Log) -> Result<bool, WalError> {
        log.write();
        holds_v2(&log.wal(), &log.snap())
    }

    /// `etcdserverpb.Request` as 3.5 publishes a member with it: ID, method, path, value.
    fn publish() -> Vec<u8> {
        let mut out = vec![0x08, 0x07];
        for (tag, text) in [(0x12, "PUT"), (0x1a, "/0/members/9/attributes"), (0x22, "{}")] {
            out.extend([tag, u8::try_from(text.len()).unwrap()]);
            out.extend(text.as_bytes());
        }
        out
    }

    #[test]
    fn entries_of_v2_count_until_a_snapshot_stands_for_them() {
        let young = Log::new().entry(1, CONF_CHANGE, CHANGE).entry(2, NORMAL, &[]);
        let young = young.entry(3, NORMAL, PUT);
        assert!(!v2(&young).unwrap(), "etcd 3.6 wrote it all");
        let old = young.entry(4, NORMAL, &publish()).entry(5, NORMAL, PUT);
        assert!(v2(&old).unwrap());
        let before = old.snapshot_of(3, &[]);
        assert!(v2(&before).unwrap(), "a snapshot from before it");
        let gone = before.snapshot(5);
        assert!(v2(&gone).unwrap(), "a snapshot without its file");
        let after = gone.snapshot_of(4, &[]);
        assert!(!v2(&after).unwrap());
        assert!(v2(&after.entry(6, NORMAL, &publish())).unwrap(), "a later one");
    }

    #[test]
    fn what_cannot_be_read_is_not_known() {
        let garbage = Log::new().entry(1, NORMAL, &[0xff]);
        assert!(v2(&garbage).unwrap(), "an entry that is not understood");
        let mut damaged = Log::new().entry(1, NORMAL, PUT).entry(2, NORMAL, PUT);
        let at = damaged.file.len() - 40;
        damaged.file[at] ^= 1;
        assert!(matches!(v2(&damaged), Err(WalError::Content(_))));
        fs::remove_dir_all(damaged.snap()).unwrap();
        assert!(matches!(v2(&damaged), Err(WalError::Io { .. })));
    }
}
