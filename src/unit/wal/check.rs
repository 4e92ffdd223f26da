//! Reads a whole write-ahead log as etcd does, to find damage that etcd does not repair by itself.
//!
//! Source: `decodeRecord`, `isTornEntry`, `ReadAll` and `Repair` in etcd's `server/storage/wal` (3.5 to 3.7).
//! In 3.5 etcd's own tools cannot read a log, so this is the check in addition to etcd's last log lines.

use std::collections::BTreeSet;
use std::fs::File;
use std::io::{self, BufReader, Read};
use std::path::{Path, PathBuf};

use prost::Message;

use super::{CRC, Record, WalError, crc32c, frame, names};

/// etcd's records are a few megabytes at most (`max-request-bytes`); a larger record than this is not read.
const MOST_RECORD_BYTES: u64 = 512 << 20;
/// etcd treats a record as torn by a crash when one of its sectors was never written.
const SECTOR: usize = 512;

/// What is damaged in the log in `dir`, one line; `None` if etcd can read it, or would truncate its end and
/// start. `snap` is the directory of the snapshots of raft.
///
/// # Errors
/// [`WalError::Io`] when it could not be read: nothing is known.
pub(in crate::unit) fn damage(dir: &Path, snap: &Path) -> Result<Option<String>, WalError> {
    let names = names(dir)?;
    let Some(first) = names.first() else {
        return Ok(None);
    };
    if let Some(why) = reaches_no_snapshot(first, snap)? {
        return Ok(Some(why));
    }
    read(dir, &names, &mut |_| ())
}

/// Why the log in `dir` does not continue any of the snapshots in `snap`; `None` if it does, or if it is
/// whole.
///
/// # Errors
/// [`WalError::Io`] when it could not be read: nothing is known.
pub(in crate::unit) fn apart(dir: &Path, snap: &Path) -> Result<Option<String>, WalError> {
    match names(dir)?.first() {
        Some(first) => reaches_no_snapshot(first, snap),
        None => Ok(None),
    }
}

/// Reads these successive files of a log, the last of which may still be written, and hands over each record
/// in turn. Returns what is damaged.
pub(super) fn read(
    dir: &Path,
    names: &[String],
    each: &mut dyn FnMut(&Record),
) -> Result<Option<String>, WalError> {
    let mut crc = 0;
    for (at, name) in names.iter().enumerate() {
        let path = dir.join(name);
        let last = at + 1 == names.len();
        let read = Reader::open(&path).and_then(|mut reader| reader.read(&mut crc, last, each));
        match read {
            Ok(None) => {}
            Ok(Some((offset, what))) => return Ok(Some(format!("{name} {what} at byte {offset}"))),
            Err(source) => return Err(WalError::Io { path, source }),
        }
    }
    Ok(None)
}

/// The index in `<sequence>-<index>.wal`, at which that file begins.
pub(super) fn begins_at(name: &str) -> u64 {
    let index = name
        .strip_suffix(".wal")
        .and_then(|stem| stem.split_once('-'))
        .map(|(_, index)| u64::from_str_radix(index, 16));
    index.and_then(Result::ok).unwrap_or(0)
}

/// A log that begins after the first entry continues a snapshot (`<term>-<index>.snap`).
fn reaches_no_snapshot(first: &str, snap: &Path) -> Result<Option<String>, WalError> {
    let begins = begins_at(first);
    if begins == 0 {
        return Ok(None);
    }
    if snapshots(snap)?.last().is_some_and(|index| *index >= begins) {
        return Ok(None);
    }
    Ok(Some(format!(
        "the log begins with {first}, and there is no snapshot from where it begins"
    )))
}

/// The indexes of the snapshots of raft in a `member/snap` directory.
pub(super) fn snapshots(snap: &Path) -> Result<BTreeSet<u64>, WalError> {
    let failed = |source| WalError::Io {
        path: snap.to_owned(),
        source,
    };
    let mut found = BTreeSet::new();
    for entry in std::fs::read_dir(snap).map_err(failed)? {
        let name = entry.map_err(failed)?.file_name();
        let index = name
            .to_str()
            .and_then(|name| name.strip_suffix(".snap")?.split_once('-'))
            .and_then(|(_, index)| u64::from_str_radix(index, 16).ok());
        found.extend(index);
    }
    Ok(found)
}

struct Reader {
    file: BufReader<File>,
    length: u64,
    offset: u64,
}

impl Reader {
    fn open(path: &PathBuf) -> io::Result<Self> {
        let file = File::open(path)?;
        let length = file.metadata()?.len();
        Ok(Self {
            file: BufReader::with_capacity(1 << 20, file),
            length,
            offset: 0,
        })
    }

    /// Reads one file to the end of what was written. If it is damaged, returns at which byte, and how.
    fn read(
        &mut self,
        crc: &mut u32,
        last: bool,
        each: &mut dyn FnMut(&Record),
    ) -> io::Result<Option<(u64, String)>> {
        loop {
            let at = self.offset;
            let damaged = |what: &str| Ok(Some((at, what.to_owned())));
            if self.length - at < 8 {
                // etcd accepts a file that ends between two frames. In the last file it treats a torn length
                // as left by a crash.
                return if last || self.length == at {
                    Ok(None)
                } else {
                    damaged("is cut off")
                };
            }
            let mut field = [0; 8];
            self.file.read_exact(&mut field)?;
            let (length, padding) = frame(u64::from_le_bytes(field));
            if length == 0 {
                return Ok(None);
            }
            if length.saturating_add(padding) > self.length - at - 8 {
                // etcd truncates the last file here.
                return if last {
                    Ok(None)
                } else {
                    damaged("is cut off within a record")
                };
            }
            if length > MOST_RECORD_BYTES {
                return Err(io::Error::other(format!(
                    "a record of {length} bytes is too large to be read"
                )));
            }
            let size = usize::try_from(length + padding).unwrap_or(usize::MAX);
            let mut data = vec![0; size];
            self.file.read_exact(&mut data)?;
            self.offset = at + 8 + length + padding;
            let body = data
                .get(..usize::try_from(length).unwrap_or(size))
                .unwrap_or_default();
            let torn = || last && is_torn(at + 8, &data);
            let Ok(record) = Record::decode(body) else {
                return if torn() {
                    Ok(None)
                } else {
                    damaged("holds a record that is garbage")
                };
            };
            if record.kind == CRC {
                if *crc != 0 && record.crc != *crc {
                    return damaged("does not continue the file before it");
                }
                *crc = record.crc;
                continue;
            }
            *crc = crc32c(*crc, &record.data);
            if *crc != record.crc {
                return if torn() {
                    Ok(None)
                } else {
                    damaged("holds a record with a wrong checksum")
                };
            }
            each(&record);
        }
    }
}

/// Whether one of the sectors of this record holds nothing but zeroes.
fn is_torn(mut offset: u64, mut data: &[u8]) -> bool {
    while !data.is_empty() {
        let in_sector = usize::try_from(offset).unwrap_or(0) % SECTOR;
        let (chunk, rest) = data.split_at((SECTOR - in_sector).min(data.len()));
        if chunk.iter().all(|byte| *byte == 0) {
            return true;
        }
        offset += chunk.len() as u64;
        data = rest;
    }
    false
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::super::ENTRY;
    use super::super::testing::{append, encode, metadata_crc};
    use super::*;

    /// As [`damage`], of a log below this directory of a member.
    fn damaged(member: &Path) -> Result<Option<String>, WalError> {
        damage(&member.join("wal"), &member.join("snap"))
    }
    use crate::model::{ClusterId, MemberId};

    const SECOND: &str = "0000000000000001-0000000000000004.wal";

    /// A log of two files, with three entries in each; the second has room left.
    struct Log {
        dir: tempfile::TempDir,
        first: Vec<u8>,
        second: Vec<u8>,
    }

    fn log() -> Log {
        let mut first = encode(ClusterId(7), MemberId(9));
        first.truncate(first.len() - 64);
        let mut crc = metadata_crc(ClusterId(7), MemberId(9));
        for entry in 1..=3u8 {
            append(&mut first, &mut crc, ENTRY, &[entry; 700]);
        }
        let mut second = Vec::new();
        append(&mut second, &mut crc, CRC, &[]);
        for entry in 4..=6u8 {
            append(&mut second, &mut crc, ENTRY, &[entry; 700]);
        }
        let dir = tempfile::tempdir().unwrap();
        std::fs::create_dir_all(dir.path().join("wal")).unwrap();
        std::fs::create_dir_all(dir.path().join("snap")).unwrap();
        Log { dir, first, second }
    }

    impl Log {
        fn damage(&self) -> Option<String> {
            let wal = self.dir.path().join("wal");
            std::fs::write(wal.join("0000000000000000-0000000000000000.wal"), &self.first).unwrap();
            let mut second = self.second.clone();
            second.extend([0; 4096]);
            std::fs::write(wal.join(SECOND), second).unwrap();
            damaged(self.dir.path()).unwrap()
        }
    }

    #[test]
    fn c11_what_etcd_repairs_by_itself_is_no_damage() {
        let mut whole = log();
        assert_eq!(whole.damage(), None, "whole");
        whole.second.extend([0; 8]);
        whole.second.extend([0xaa; 512]);
        assert_eq!(whole.damage(), None, "noise after the last record");

        let mut torn = log();
        let end = torn.second.len();
        torn.second[end - 600..].fill(0);
        assert_eq!(
            torn.damage(),
            None,
            "a sector of the last record was never written"
        );
        torn.second.truncate(end - 100);
        let wal = torn.dir.path().join("wal");
        torn.damage();
        std::fs::write(wal.join(SECOND), &torn.second).unwrap();
        assert_eq!(
            damaged(torn.dir.path()).unwrap(),
            None,
            "the last record is cut off"
        );
        std::fs::write(wal.join(SECOND), &torn.second[..torn.second.len() / 8 * 8 + 3]).unwrap();
        assert_eq!(damaged(torn.dir.path()).unwrap(), None, "within a length");
        std::fs::write(wal.join(SECOND), "").unwrap();
        assert_eq!(damaged(torn.dir.path()).unwrap(), None, "an empty file");
    }

    #[test]
    fn c11_a_damaged_log_is_found() {
        let says = |what: &str, change: fn(&mut Log)| {
            let mut log = log();
            change(&mut log);
            let why = log.damage().unwrap_or_default();
            assert!(why.contains(what), "{what}: {why}");
        };
        says(
            "0000000000000000-0000000000000000.wal holds a record with a wrong checksum",
            |log| {
                let at = log.first.len() - 300;
                log.first[at] ^= 1;
            },
        );
        says("holds a record with a wrong checksum", |log| {
            let at = log.second.len() - 300;
            log.second[at] ^= 1;
        });
        says("holds a record that is garbage", |log| {
            log.first[8..24].fill(0xff);
        });
        says("is cut off within a record", |log| log.first.truncate(1500));
        says("does not continue the file before it", |log| {
            log.first.truncate(log.first.len() - 720);
        });
    }

    #[test]
    fn c11_a_log_that_reaches_no_snapshot_is_found() {
        let log = log();
        assert_eq!(log.damage(), None);
        let wal = log.dir.path().join("wal");
        std::fs::remove_file(wal.join("0000000000000000-0000000000000000.wal")).unwrap();
        let why = damaged(log.dir.path()).unwrap().unwrap();
        assert!(why.contains("no snapshot"), "{why}");
        let snap = log.dir.path().join("snap");
        std::fs::write(snap.join("0000000000000002-0000000000000003.snap"), "").unwrap();
        assert!(
            damaged(log.dir.path()).unwrap().is_some(),
            "from before it begins"
        );
        std::fs::write(snap.join("0000000000000002-0000000000000004.snap"), "").unwrap();
        assert_eq!(damaged(log.dir.path()).unwrap(), None);
    }

    #[test]
    fn c11_what_cannot_be_read_is_not_damaged() {
        let log = log();
        log.damage();
        std::fs::remove_file(log.dir.path().join("wal").join(SECOND)).unwrap();
        std::fs::create_dir(log.dir.path().join("wal").join(SECOND)).unwrap();
        assert!(matches!(damaged(log.dir.path()), Err(WalError::Io { .. })));
    }
}
