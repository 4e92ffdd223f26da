//! The parsers of data from a store, as `tests/fuzz` calls them: an error is fine, a panic or a hang is not.

use std::fs::File;
use std::io::Write;

use super::bolt::Merge;
use super::increments::increment::{Increment, entries};
use super::restore::point::Point;
use super::restore::unpack::Unpacker;
use super::store::chain::parse_name;
use super::store::cluster_spec;
use super::store::etcd_manager;
use super::store::layout::BackupName;
use super::store::manifest::{Compression, ForeignMeta, Manifest};
use super::store::marks::MarksFile;
use super::store::verification::Verification;
use crate::model::{BackupId, Genesis};

/// More than any input of the fuzzer decompresses to.
const LIMIT: u64 = 16 << 20;

fn id() -> Option<BackupId> {
    BackupId::new("2026-03-01T04:05:06Z-000042").ok()
}

/// `backup.json`: a manifest stays the same when it is written and read again.
pub fn manifest(text: &[u8]) {
    let Some(id) = id() else { return };
    if let Ok(manifest) = Manifest::parse(&id, text) {
        let again = manifest.to_json().ok().map(|text| Manifest::parse(&id, &text));
        assert_eq!(again, Some(Ok(manifest)));
    }
}

/// etcd-manager's `_etcd_backup.meta`.
pub fn foreign_meta(text: &[u8]) {
    let _ = ForeignMeta::parse(text);
}

/// `verify.json`.
pub fn verification(text: &[u8]) {
    if let Some(id) = id() {
        let _ = Verification::parse(&id, text);
    }
}

/// `marks.json`: marks stay the same when they are written and read again.
pub fn marks(text: &[u8]) {
    let Some(id) = id() else { return };
    let Ok(marks) = MarksFile::parse(&id, text) else {
        return;
    };
    // Fields of newer agents may have numbers that JSON does not keep exactly.
    let Ok(written) = marks.to_json() else { return };
    let again = MarksFile::parse(&id, &written).map(|again| (again.kept, again.note, again.removal));
    assert_eq!(again, Ok((marks.kept, marks.note, marks.removal)));
}

/// A command of etcd-manager's queue.
pub fn command(text: &[u8]) {
    let _ = etcd_manager::parse(String::new(), text);
}

/// The wanted size.
pub fn wanted(text: &[u8]) {
    let _ = cluster_spec::parse(text).map(|fields| cluster_spec::count(&fields));
}

/// The genesis of an epoch.
pub fn genesis(text: &[u8]) {
    if let Ok(genesis) = serde_json::from_slice::<Genesis>(text) {
        let _ = genesis.defect();
    }
}

/// Names of backups, points and increments.
pub fn names(text: &[u8]) {
    let Ok(text) = std::str::from_utf8(text) else {
        return;
    };
    let _ = parse_name(text);
    if let Ok(name) = text.parse::<BackupName>() {
        assert_eq!(name.to_string().parse().ok(), Some(name));
    }
    if let Ok(id) = BackupId::new(text) {
        let point = Point::parse(&id);
        assert_eq!(point.id().ok(), Some(id));
    }
}

/// An increment as it is stored, compressed.
pub fn increment(stored: &[u8]) {
    let _ = Increment::decode(stored);
}

/// The records of an increment, as if they followed a valid head and hash.
pub fn records(records: &[u8]) {
    let _ = entries(records);
}

/// A compressed snapshot.
pub fn snapshot(stored: &[u8]) {
    for compression in [Compression::Zstd, Compression::Gzip] {
        let Ok(file) = tempfile::tempfile() else { return };
        let Ok(mut unpacker) = Unpacker::new(compression, file, LIMIT) else {
            return;
        };
        if unpacker.push(stored).is_ok() {
            let _ = unpacker.finish();
        }
    }
}

/// A database that increments are added to.
pub fn database(bytes: &[u8], scratch: &mut File) {
    let written = scratch.set_len(0).and_then(|()| std::io::Seek::rewind(scratch));
    if written.and_then(|()| scratch.write_all(bytes)).is_err() {
        return;
    }
    if let Ok(merge) = Merge::open(scratch, u64::MAX) {
        let _ = merge.finish();
    }
}
