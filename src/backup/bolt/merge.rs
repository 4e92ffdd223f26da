//! Appends the revisions of increments to a snapshot, with the same numbers.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::io;

use prost::Message;

use crate::backup::increments::increment::{Entry, Lease};
use crate::bolt::page::{Child, Item, Meta};
use crate::bolt::read::{Bucket, Reader, bucket};
use crate::bolt::write::{Leaves, Writer, publish, tree_item, tree_of};
use crate::bolt::{Bolt, BoltError, damaged};
use crate::model::Revision;

const KEYS: &[u8] = b"key";
const LEASES: &[u8] = b"lease";
const META: &[u8] = b"meta";
/// The TTL of a lease that had ended before etcd was asked for its TTL, though an increment has a key with
/// it.
const ENDED_TTL_S: i64 = 60;
/// The TTL of a lease for which etcd did not report one: its keys stay long enough for the holder to renew
/// it.
const UNKNOWN_TTL_S: i64 = 24 * 3600;

/// etcd's `leasepb.Lease`.
#[derive(Clone, PartialEq, Message)]
struct StoredLease {
    #[prost(int64, tag = "1")]
    id: i64,
    #[prost(int64, tag = "2")]
    ttl: i64,
}

/// The only field of etcd's `mvccpb.KeyValue` that is needed here.
#[derive(Clone, PartialEq, Message)]
struct KeyValue {
    #[prost(int64, tag = "6")]
    lease: i64,
}

/// A merge in progress. It takes effect in [`Merge::finish`].
pub(in crate::backup) struct Merge<'a> {
    file: &'a File,
    meta: Meta,
    /// Top-level buckets by name.
    buckets: BTreeMap<Vec<u8>, Item>,
    writer: Writer<'a>,
    key_sequence: u64,
    /// The leaf pages of the key bucket before the merge.
    old: Vec<Child>,
    new: Leaves,
    leases: BTreeMap<Vec<u8>, Item>,
    lease_sequence: u64,
    needed: BTreeSet<i64>,
    /// Leases whose TTL etcd did not report.
    unasked: BTreeSet<i64>,
    /// The newest revision in the database.
    holds: Revision,
    /// The most bytes that the file may have.
    limit: u64,
}

impl<'a> Merge<'a> {
    /// Reads a snapshot without its trailer; it is cut to its last page, and new pages are appended to it until
    /// the file has about `limit` bytes.
    pub(in crate::backup) fn open(file: &'a File, limit: u64) -> Bolt<Self> {
        let reader = Reader::open(file)?;
        let meta = reader.meta;
        let buckets: BTreeMap<Vec<u8>, Item> = reader
            .buckets()?
            .into_iter()
            .map(|item| (item.key.clone(), item))
            .collect();
        let find = |name: &[u8]| {
            let item = buckets.get(name);
            item.map_or_else(
                || damaged(format!("it has no bucket {:?}", String::from_utf8_lossy(name))),
                bucket,
            )
        };
        let (keys, leases) = (find(KEYS)?, find(LEASES)?);
        file.set_len(meta.high * u64::from(meta.page_size))?;
        let writer = Writer::new(file, meta.page_size, meta.high);
        let mut new = Leaves::new();
        let mut writer = writer;
        let (old, key_sequence, last) = match keys {
            Bucket::Tree { root, sequence } => {
                let old = reader.leaves(root)?;
                let last = match old.last() {
                    Some(leaf) => reader.leaf(leaf.page)?.pop(),
                    None => None,
                };
                (old, sequence, last)
            }
            Bucket::Inline { items, sequence } => {
                let last = items.last().cloned();
                for item in items {
                    new.push(&mut writer, item)?;
                }
                (Vec::new(), sequence, last)
            }
        };
        let newest = last.map_or(Ok(0), |item| main_revision(&item.key))?;
        let compacted = reader
            .contents(&find(META)?)?
            .into_iter()
            .find(|item| item.key == b"finishedCompactRev")
            .map_or(Ok(0), |item| main_revision(&item.value))?;
        let lease_items = reader.contents(&leases)?;
        let lease_sequence = match leases {
            Bucket::Tree { sequence, .. } | Bucket::Inline { sequence, .. } => sequence,
        };
        Ok(Self {
            file,
            meta,
            buckets,
            writer,
            key_sequence,
            old,
            new,
            leases: lease_items
                .into_iter()
                .map(|item| (item.key.clone(), item))
                .collect(),
            lease_sequence,
            needed: BTreeSet::new(),
            unasked: BTreeSet::new(),
            // A compaction may have removed the newest revision, and etcd still counts from there.
            holds: Revision(newest.max(compacted).max(1)),
            limit,
        })
    }

    /// Adds the changes of one revision; skips revisions that the snapshot already holds.
    ///
    /// # Errors
    /// `FileTooLarge` if the file has reached its limit.
    pub(in crate::backup) fn push(&mut self, entry: &Entry) -> Bolt<()> {
        if entry.revision <= self.holds.0 {
            return Ok(());
        }
        if self.writer.high.saturating_mul(u64::from(self.meta.page_size)) > self.limit {
            let text = format!(
                "with its increments it needs more than the {} bytes that it may have",
                self.limit
            );
            return Err(io::Error::new(io::ErrorKind::FileTooLarge, text).into());
        }
        for (sub, change) in entry.changes.iter().enumerate() {
            let mut key = Vec::with_capacity(18);
            key.extend_from_slice(&entry.revision.to_be_bytes());
            key.push(b'_');
            key.extend_from_slice(&(sub as u64).to_be_bytes());
            if change.deleted {
                key.push(b't');
            } else {
                let kv = KeyValue::decode(change.stored.as_slice())
                    .map_err(|error| BoltError::Damaged(format!("revision {}: {error}", entry.revision)))?;
                if kv.lease != 0 {
                    self.needed.insert(kv.lease);
                }
            }
            let item = Item {
                flags: 0,
                key,
                value: change.stored.clone(),
            };
            self.new.push(&mut self.writer, item)?;
        }
        self.holds = Revision(entry.revision);
        Ok(())
    }

    /// Adds leases that the database does not have yet.
    pub(in crate::backup) fn grant(&mut self, leases: &[Lease]) {
        for lease in leases {
            let item = lease_item(lease.id, lease.ttl_s);
            self.leases.entry(item.key.clone()).or_insert(item);
        }
    }

    /// Records leases whose TTL etcd did not report.
    pub(in crate::backup) fn unasked(&mut self, ids: &[i64]) {
        self.unasked.extend(ids);
    }

    /// Writes the meta pages, so that the merge takes effect.
    pub(in crate::backup) fn finish(mut self) -> Bolt<()> {
        let missing: Vec<Lease> = self
            .needed
            .iter()
            .map(|id| Lease {
                id: *id,
                ttl_s: if self.unasked.contains(id) {
                    UNKNOWN_TTL_S
                } else {
                    ENDED_TTL_S
                },
            })
            .collect();
        self.grant(&missing);
        self.new.flush(&mut self.writer)?;
        let mut pages = std::mem::take(&mut self.old);
        pages.append(&mut self.new.written);
        let keys = self.writer.tree(pages)?;
        let leases = tree_of(&mut self.writer, std::mem::take(&mut self.leases).into_values())?;
        for (name, root, sequence) in [
            (KEYS, keys, self.key_sequence),
            (LEASES, leases, self.lease_sequence),
        ] {
            self.buckets
                .insert(name.to_vec(), tree_item(name, root, sequence));
        }
        let root = tree_of(&mut self.writer, std::mem::take(&mut self.buckets).into_values())?;
        publish(self.file, self.meta, root, self.writer.high)
    }
}

/// The main part of a revision as etcd writes it: eight bytes, big-endian.
fn main_revision(bytes: &[u8]) -> Bolt<u64> {
    let found = bytes.first_chunk();
    found.map_or_else(
        || damaged("a revision is too short"),
        |b| Ok(u64::from_be_bytes(*b)),
    )
}

fn lease_item(id: i64, ttl: i64) -> Item {
    Item {
        flags: 0,
        key: id.to_be_bytes().to_vec(),
        value: StoredLease { id, ttl }.encode_to_vec(),
    }
}
